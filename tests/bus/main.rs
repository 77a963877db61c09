//! The built binary on a real nats-server under the shipped configuration: the faults that operators met, by their
//! kind. `NATS_SERVER` names the server; `packaging/test` runs this once on each supported line.

#[path = "../support/mod.rs"]
mod support;

mod asking;
mod connection;
mod gate;
mod listing;
mod process;
mod recorded;
mod registry;
mod rights;
mod security;
