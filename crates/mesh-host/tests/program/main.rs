//! The built program on trees of files.

mod files;
mod kills;
mod mesh;
mod secrets;
mod socket;
mod state;
mod tree;
