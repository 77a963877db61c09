//! What the tests of the vault stand on.
#![allow(dead_code, reason = "each test program takes its part")]

pub(crate) mod controller;
