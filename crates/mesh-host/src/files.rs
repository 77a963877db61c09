//! Files and directories of the real machine. Every path is walked by handles from a trusted root: a link is never
//! followed, and a component that belongs to a stranger is refused, so nobody can lead a write elsewhere.

mod accounts;
mod archive;
mod leaves;
mod look;
mod perform;
mod public;
mod walk;

pub use accounts::Accounts;
pub use public::Public;
pub use walk::{Trust, Walker};

use crate::digest::DigestKey;
use crate::facts::{Answer, Question};
use crate::machine::{Contents, Tools};
use crate::outcome::Failure;
use crate::record::Memory;
use crate::step::FileStep;
use nkeys::XKey;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, fsync, unlinkat};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The largest file whose content is read or kept, in bytes.
pub const MAX_READ: u64 = 64 << 20;

/// The files of a machine, or of a tree that is not one.
#[derive(Debug)]
pub struct Files {
    walker: Walker,
    accounts: Accounts,
    key: DigestKey,
    own: Option<Own>,
    contents: Rc<Contents>,
    kept: PathBuf,
    /// Where the lists of what archives brought are kept.
    lists: PathBuf,
    /// Directories whose entries changed since the last sync, by device and inode.
    unsynced: BTreeMap<(u64, u64), OwnedFd>,
}

/// The sealing key, which is never printed.
struct Own(XKey);

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own(…)")
    }
}

impl Files {
    /// The files below `root`. Kept originals are in the folder `kept`.
    pub fn new(root: &Path, kept: PathBuf, key: DigestKey, trust: Vec<Trust>) -> std::io::Result<Self> {
        Ok(Self {
            own: None,
            contents: Rc::default(),
            walker: Walker::new(root, trust)?,
            accounts: Accounts::new(root),
            key,
            lists: kept.with_file_name("archives"),
            kept,
            unsynced: BTreeMap::new(),
        })
    }

    /// Takes what keys inside files need: the contents, and the key that what was there before is sealed with.
    #[must_use]
    pub fn with(mut self, contents: Rc<Contents>, own: Option<XKey>) -> Self {
        self.contents = contents;
        self.own = own.map(Own);
        self
    }

    /// Answers questions about paths and owners.
    pub fn look(&mut self, questions: &[&Question]) -> Vec<Answer> {
        self.accounts.refresh();
        let mut parents = look::Parents::default();
        questions.iter().map(|question| look::answer(self, question, &mut parents)).collect()
    }

    /// Performs one step on files.
    pub fn perform(&mut self, step: &FileStep, tools: &Tools<'_>) -> Result<(), Failure> {
        perform::perform(self, step, tools)
    }

    /// Syncs every directory in which something changed.
    pub fn sync(&mut self) -> Result<(), Failure> {
        for (_, directory) in std::mem::take(&mut self.unsynced) {
            fsync(&directory)
                .map_err(|error| Failure::Failed(format!("a directory cannot be synced: {error}")))?;
        }
        Ok(())
    }

    /// Removes the temporaries that an apply left which was cut off. Only those that the journal names are touched.
    pub fn sweep(&self, memory: &Memory) {
        for temporary in memory.intents.values().flatten().filter_map(|intent| intent.temporary.as_ref()) {
            let Ok(walk::Found::There(parent)) = self.walker.parent(temporary, &self.accounts) else {
                continue;
            };
            let Ok(Some(stat)) = parent.stat() else { continue };
            // What cannot be removed now is removed at the next start.
            if stat.is_regular() {
                let _ = unlinkat(&parent.directory, parent.name.as_str(), AtFlags::empty());
            } else if stat.is_directory() {
                let _ = archive::remove_tree(&parent.directory, &parent.name);
            }
        }
    }
}
