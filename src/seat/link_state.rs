//! What the seat knows of its connection.

use std::time::Duration;

/// The connection, as far as the seat knows of it.
#[derive(Debug)]
pub(super) enum LinkState {
    /// There is none; the next attempt is due then.
    Down { retry: Duration, attempts: u32, why: String },
    /// An attempt is under way.
    Connecting { attempts: u32, why: String },
    /// There is one, for which so many attempts failed.
    Up { server: String, max_payload: usize, move_at: Option<Duration>, since: Duration, attempts: u32 },
}
