//! What the provisioner's seat is called on the bus.

use crate::rights;

/// The service's name, and the first token of everything that is its own.
pub const SERVICE: &str = "mesh-provisioner";

/// The verb that the seat answers.
pub const VERB: &str = rights::PROVISIONING;

/// The queue group of the verb: one response for each request, however many seats there are.
pub const QUEUE: &str = rights::QUEUE;

/// What the seat's private inbox starts with. No other account may subscribe it.
pub const INBOX: &str = "_INBOX_mesh.provisioner";
