//! All five programs, as they are built, together on a real nats-server under the shipped accounts.

#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "a soak that follows uses the rest")]
mod lab;
mod story;
