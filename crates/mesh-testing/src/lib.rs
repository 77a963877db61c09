//! What the tests of a program stand on: a real nats-server, and a client that may write whatever bytes it likes.
//!
//! A test that needs a fault picks the parts: a [`server::Server`] with rights taken away, a [`proxy::Proxy`] in front of
//! it, a [`client::Client`] of one of the [`accounts`].
//!
//! Two rules hold everywhere here. Every wait has a bound and a name, so a test that fails says what it waited for and
//! what it saw instead. And whatever was started is killed by `Drop`, which also prints the tail of its log when the
//! test is failing.

#![allow(clippy::new_without_default, reason = "each new key is another one: there is no default")]
#![allow(missing_docs, reason = "the names of a test's parts are its words; what is not plain has a comment")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failing test prints the logs of what it started"
)]

pub mod accounts;
pub mod bucket;
pub mod client;
pub mod dice;
pub mod jetstream;
pub mod jwt;
pub mod process;
pub mod proxy;
pub mod server;
pub mod setup;
pub mod tls;
pub mod transport;
pub mod wait;
pub mod wire;
