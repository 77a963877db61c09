//! The identity of a service instance.

use serde::Serialize;

/// One running instance of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// New at each start.
    pub id: String,
    /// The program's version.
    pub version: String,
}
