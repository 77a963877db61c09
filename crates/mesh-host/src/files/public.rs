//! The text of files that anyone may read: it may be shown.

use super::Files;
use super::look::open_regular;
use super::walk::Found;
use std::io::Read as _;

/// What of a file may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Public {
    /// There is no file, and everyone may pass through the directories around it.
    Absent,
    /// Its bytes.
    Bytes(Vec<u8>),
    /// Not everyone may read it, or it is no regular file.
    Closed,
    /// It has more bytes than were asked for.
    Large,
}

impl Files {
    /// What anyone may read of a file, of at most `limit` bytes.
    pub fn public(&self, path: &str, limit: u64) -> Public {
        let parent = match self.walker.parent(path, &self.accounts) {
            Ok(Found::Missing { open: true, .. }) => return Public::Absent,
            Ok(Found::There(parent)) if parent.open => parent,
            _ => return Public::Closed,
        };
        let stat = match parent.stat() {
            Ok(None) => return Public::Absent,
            Ok(Some(stat)) if stat.is_regular() && stat.mode & 0o004 != 0 => stat,
            _ => return Public::Closed,
        };
        let Ok(file) = open_regular(&parent.directory, &parent.name, &stat) else { return Public::Closed };
        let mut bytes = Vec::new();
        match file.take(limit + 1).read_to_end(&mut bytes) {
            Ok(_) if bytes.len() as u64 > limit => Public::Large,
            Ok(_) => Public::Bytes(bytes),
            Err(_) => Public::Closed,
        }
    }
}
