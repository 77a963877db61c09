//! Joining: one-time tokens, what becomes of a request to join, and the signed record of each node that has joined.

pub mod judge;
pub mod record;
pub mod register;
pub mod tokens;
