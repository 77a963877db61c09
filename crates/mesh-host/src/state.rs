//! What this host remembers, on disk: a journal of entries, and snapshots of the whole.

mod disk;
mod journal;
mod line;

pub use disk::{Disk, Folder, ReadOnly};
pub use journal::Journal;
