//! The bus: settings of a connection, the gate between the client library and the server, and the library
//! itself behind one file.
//!
//! Nothing here knows the mesh.

pub mod client;
pub mod config;
mod credentials;
pub mod gate;
pub mod large;
pub mod library;
pub mod message;
pub mod nats;
mod pem;
pub mod pin;
pub mod rights_probe;
mod stall;
mod subscribe;
