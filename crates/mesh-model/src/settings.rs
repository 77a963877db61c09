//! Settings: layers that are merged (RFC 7396), with the origin of each leaf, and the schema that they keep to.

mod layers;
mod schema;

pub use layers::{Merged, merge};
pub use schema::{Asked, Schema};

/// The largest settings of a module on a node, in bytes.
pub const MAX_BYTES: usize = 512 * 1024;
