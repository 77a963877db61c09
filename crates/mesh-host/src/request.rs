//! From the bytes of a request to modules that can be prepared: signature, mesh, node, sequence, fence and digests are
//! checked before anything of the machine is looked at.

mod collections;
mod modules;
mod verify;

pub use modules::{Keys, Modules, bundle, modules};
pub use verify::{Refusal, Verified, verify};
