//! What the seat knows of its connection.

use std::time::Duration;

/// The state of the connection.
#[derive(Debug)]
pub(super) enum LinkState {
    /// There is none; the next attempt is due at this time.
    Down { retry: Duration, attempts: u32, why: String },
    /// An attempt is under way.
    Connecting { attempts: u32, why: String },
    /// It is up, after this many failed attempts.
    Up { server: String, max_payload: usize, move_at: Option<Duration>, since: Duration, attempts: u32 },
}
