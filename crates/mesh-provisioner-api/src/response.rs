//! The response bodies of the verb: written by the seat, read by its clients.

mod entry;
mod error;
mod page;
mod read;
mod type_name;

pub use entry::{Entry, MalformedEntry, Value};
pub use error::error_json;
pub use page::{MAX_MALFORMED_LISTED, Page};
pub use read::Received;
pub use type_name::response_type;

use super::request::What;
use mesh_service::identity::Identity;
use mesh_service::json::json;
use serde::Serialize;

/// The state of a bucket that a response shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AsOf {
    /// The sequence of the bucket's last write; 0 if there was none.
    pub sequence: u64,
    /// The time of that write, as the server wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// The response to `health`, with its report as JSON.
pub fn health_json(ok: bool, report: &str, seat: &Identity) -> String {
    let r#type = response_type(What::Health.word());
    format!(r#"{{"type":"{type}","what":"health","ok":{ok},"health":{report},"seat":{}}}"#, json(seat))
}
