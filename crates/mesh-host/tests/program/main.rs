//! The built program on trees of files. `HOST_PROGRAM` names another build of it.

mod archives;
mod files;
mod keys;
mod kills;
mod lasting;
mod mesh;
mod packaging;
mod readers;
mod secrets;
mod socket;
mod state;
mod tree;
