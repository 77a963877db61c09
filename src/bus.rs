//! The bus: where servers are, a bounded look at one before the client library is let near it, and the library
//! itself behind one file.
//!
//! Nothing here knows the seat.

pub mod address;
pub mod caller;
pub mod faults;
pub mod nats;
pub mod probe;
pub mod trial;
mod watch;
