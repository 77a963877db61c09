//! The vault's program on a real server, under exactly the rights that the model gives it.

mod bench;
#[path = "../support/mod.rs"]
mod support;

mod asking;
mod bound;
mod canary;
mod commands;
mod guard;
mod lasting;
mod operator;
mod others;
mod schema;
