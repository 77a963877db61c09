//! All five programs, as they are built, together on a real nats-server under the shipped accounts.

#![allow(clippy::print_stdout, reason = "the figures of a soak are what it is for")]

#[path = "../support/mod.rs"]
mod support;

#[path = "../soak/chance.rs"]
mod chance;
mod judge;
mod lab;
mod soak;
mod story;
mod watch;
