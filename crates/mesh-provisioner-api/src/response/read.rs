//! Responses as a client reads them.

use mesh_model::object::Object;
use serde::Deserialize;

/// A response as a client reads it.
#[derive(Debug, Deserialize)]
pub struct Received<'a> {
    /// Whether all is well, for the queries that report it.
    #[serde(default)]
    pub ok: Option<bool>,
    /// The entries, with their values as written.
    #[serde(borrow, default)]
    pub entries: Vec<Object<'a>>,
    /// The malformed keys and values.
    #[serde(borrow, default)]
    pub malformed: Vec<Object<'a>>,
    /// Their number.
    #[serde(default)]
    pub malformed_total: usize,
    /// The place where the next page continues.
    #[serde(default)]
    pub next: Option<String>,
    /// The state of the seat, for `health`.
    #[serde(borrow, default)]
    pub health: Option<Object<'a>>,
}
