//! The vault's program on a real server, under exactly the rights that the model gives it.

#[expect(dead_code, reason = "used by the tests that follow")]
mod bench;
#[path = "../support/mod.rs"]
mod support;

mod asking;
