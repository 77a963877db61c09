//! What the tests of the built binary stand on: a real nats-server, the seat as a child process, and a client
//! that may write whatever bytes it likes.
//!
//! Start at [`mesh::Mesh`], which is all of it at once. A test that needs a fault picks the parts: a
//! [`server::Server`] with rights taken away, a [`seat::Seat`] behind a [`proxy::Proxy`], a
//! [`program::Program`] for one command.
//!
//! Two rules hold everywhere here. Every wait has a bound and a name, so a test that fails says what it
//! waited for and what it saw instead. And whatever was started is killed by `Drop`, which also prints the
//! tail of its log when the test is failing.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test crate that includes this module uses the part it needs"
)]

pub(crate) mod health;
pub(crate) mod mesh;
pub(crate) mod program;
pub(crate) mod seat;
pub(crate) mod transcript;
pub(crate) mod verb;

pub(crate) use mesh_testing::{
    accounts, bucket, client, jwt, process, proxy, server, setup, tls, transport, wait, wire,
};
