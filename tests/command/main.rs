//! Each command, by the built binary against a real nats-server under the shipped configuration. `NATS_SERVER` names
//! the server; `packaging/test` runs this once on each supported line.

#[path = "../support/mod.rs"]
mod support;

mod ask;
mod check;
mod clients;
mod completion;
mod contexts;
mod documents;
mod health;
mod help;
mod init;
mod keyboard;
mod permissions;
mod plan;
mod report;
mod samples;
mod schema;
mod secrets;
mod service;
mod status;
mod why;
