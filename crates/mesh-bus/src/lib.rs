//! The bus: settings of a connection, a bounded look at a server before the client library is let near it, and the
//! library itself behind one file.
//!
//! Nothing here knows the mesh.

pub mod client;
pub mod config;
pub mod connect_error;
pub mod nats;
pub mod probe;
pub mod rights_probe;
mod stall;
