//! The provisioner's seat of a mesh: keeps the registry of kinds and answers what every module on every node needs.
//!
//! Start reading at [`seat::Event`] and [`seat::Action`], everything that can wake the seat and everything that it
//! can ask for; then [`seat::Seat::handle`], which turns one into the other; then `shell`, the loop around it.
//! ARCHITECTURE.md has the picture.

pub mod cli;
pub mod seat;
pub mod shell;
pub mod wire;
