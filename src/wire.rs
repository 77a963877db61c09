//! What crosses the bus, as text and back. Nothing here knows how it gets there.

pub mod answer;
pub mod reason;
pub mod request;
pub mod service;
mod strict;

use mesh_model::rights;

/// The verb that the seat answers.
pub const VERB: &str = rights::PROVISIONING;

/// The queue group of the verb: one answer for each request, however many seats there are.
pub const QUEUE: &str = rights::QUEUE;

/// The service's name, and the first token of everything that is its own.
pub const SERVICE: &str = "mesh-provisioner";

/// What the seat's private inbox starts with. No other account may subscribe it.
pub const INBOX: &str = "_INBOX_mesh.provisioner";
