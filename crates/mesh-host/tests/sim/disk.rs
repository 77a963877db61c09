//! The state's disk: what was not synced is lost in a crash, from any byte on.

use crate::chance::Chance;
use crate::fuse::Fuse;
use mesh_host::state::Disk;
use std::collections::BTreeMap;
use std::io;

#[derive(Clone, Debug, Default)]
struct Stored {
    synced: Vec<u8>,
    pending: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SimDisk {
    files: BTreeMap<String, Stored>,
    pub(crate) fuse: Fuse,
    /// A planted fault: what was synced is lost all the same.
    pub(crate) sync_is_lost: bool,
}

impl SimDisk {
    /// An empty disk.
    pub(crate) fn new(fuse: Fuse) -> Self {
        Self { files: BTreeMap::new(), fuse, sync_is_lost: false }
    }

    fn alive(&self) -> io::Result<()> {
        if self.fuse.burn() { Ok(()) } else { Err(io::Error::other("killed")) }
    }

    /// What was not synced is lost, but for its beginning.
    pub(crate) fn crash(&mut self, chance: &mut Chance) {
        for stored in self.files.values_mut() {
            let pending = std::mem::take(&mut stored.pending);
            let kept = chance.below(pending.len() + 1);
            stored.synced.extend(&pending[..kept]);
        }
    }

    /// Damages a file, if it is there.
    pub(crate) fn damage(&mut self, name: &str, how: impl FnOnce(&mut Vec<u8>)) {
        if let Some(stored) = self.files.get_mut(name) {
            how(&mut stored.synced);
        }
    }
}

impl Disk for SimDisk {
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let whole = |stored: &Stored| [stored.synced.as_slice(), &stored.pending].concat();
        Ok(self.files.get(name).map(whole))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.alive()?;
        self.files.entry(name.to_owned()).or_default().pending.extend(bytes);
        Ok(())
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.alive()?;
        if let Some(stored) = self.files.get_mut(name).filter(|_| !self.sync_is_lost) {
            let pending = std::mem::take(&mut stored.pending);
            stored.synced.extend(pending);
        }
        Ok(())
    }

    fn replace(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.alive()?;
        self.files.insert(name.to_owned(), Stored { synced: bytes.to_vec(), pending: Vec::new() });
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.alive()?;
        if let Some(stored) = self.files.remove(from) {
            self.files.insert(to.to_owned(), stored);
        }
        Ok(())
    }
}
