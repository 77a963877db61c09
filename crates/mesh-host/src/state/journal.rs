//! The journal: entries are appended and synced before an effect and after each that is done; a snapshot of the whole
//! is put in place after every apply that changed something.
//!
//! Two generations of snapshots are kept, `snapshot.1` and `snapshot.2`, and the entries since the older one:
//! `journal.1` holds those between the two, `journal` those since the newer. So either snapshot alone is enough.
//! A bad file is set aside and reported. Missing state never leads to a removal: only what is recorded is ever removed.

use super::disk::Disk;
use super::line;
use crate::record::{Entry, Memory};
use serde::{Deserialize, Serialize};
use std::io;

const VERSION: u32 = 1;
const JOURNAL: &str = "journal";
const OLD_JOURNAL: &str = "journal.1";
const SNAPSHOTS: [&str; 2] = ["snapshot.1", "snapshot.2"];

#[derive(Serialize, Deserialize)]
struct Numbered {
    seq: u64,
    entry: Entry,
}

#[derive(Serialize, Deserialize)]
struct Snapshot {
    v: u32,
    seq: u64,
    memory: Memory,
}

/// The memory, and the disk that holds it.
#[derive(Debug)]
pub struct Journal<D> {
    disk: D,
    memory: Memory,
    /// The number of the newest entry.
    seq: u64,
    /// The number that the newest snapshot has reached.
    snapshot: u64,
    /// Where the next snapshot goes: over the older one.
    slot: usize,
}

impl<D: Disk> Journal<D> {
    /// Reads what is stored. Also says what was wrong with it: each bad file is set aside under another name.
    pub fn open(mut disk: D) -> io::Result<(Self, Vec<String>)> {
        let mut notes = Vec::new();
        let mut newest: Option<(usize, Snapshot)> = None;
        for (slot, name) in SNAPSHOTS.into_iter().enumerate() {
            let Some(bytes) = disk.read(name)? else { continue };
            let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            let snapshot = line::read::<Snapshot>(line).and_then(|snapshot| match snapshot.v {
                VERSION => Ok(snapshot),
                other => Err(format!("its version is {other}, and this program knows {VERSION}")),
            });
            match snapshot {
                Ok(snapshot) if newest.as_ref().is_none_or(|(_, newest)| newest.seq < snapshot.seq) => {
                    newest = Some((slot, snapshot));
                }
                Ok(_) => {}
                Err(why) => set_aside(&mut disk, name, &why, &mut notes)?,
            }
        }
        let (slot, seq, memory) = match newest {
            Some((slot, snapshot)) => (1 - slot, snapshot.seq, snapshot.memory),
            None => (0, 0, Memory::default()),
        };
        let mut journal = Self { disk, memory, seq, snapshot: seq, slot };
        let mut clean = journal.replay(OLD_JOURNAL, &mut notes)?;
        clean &= journal.replay(JOURNAL, &mut notes)?;
        if !clean {
            // What comes after a torn line would be lost with it.
            journal.checkpoint()?;
        }
        Ok((journal, notes))
    }

    /// Takes the entries of one file. Returns whether its end is whole.
    fn replay(&mut self, name: &str, notes: &mut Vec<String>) -> io::Result<bool> {
        let Some(bytes) = self.disk.read(name)? else { return Ok(true) };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                // The write of the last entry was cut off: it was never synced, and nothing was done on its strength.
                return Ok(false);
            };
            match line::read::<Numbered>(&rest[..end]) {
                Ok(Numbered { seq, entry }) if seq > self.seq => {
                    if seq > self.seq + 1 {
                        let missing = format!("entries {} to {} are missing", self.seq + 1, seq - 1);
                        notes.push(format!("the journal {name} has a gap: {missing}; the rest is used"));
                    }
                    self.seq = seq;
                    self.memory.apply(entry);
                }
                Ok(_) => {}
                Err(why) => {
                    set_aside(&mut self.disk, name, &why, notes)?;
                    // The numbers of the lost entries name temporary files: they are not used again.
                    self.seq += 1 << 20;
                    return Ok(false);
                }
            }
            rest = &rest[end + 1..];
        }
        Ok(true)
    }

    /// What is remembered.
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The number that the next entry gets.
    pub const fn next_seq(&self) -> u64 {
        self.seq + 1
    }

    /// Stores entries and remembers them; returns when they last.
    pub fn commit(&mut self, entries: Vec<Entry>) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        let mut seq = self.seq;
        let numbered: Vec<Numbered> = entries
            .into_iter()
            .map(|entry| {
                seq += 1;
                Numbered { seq, entry }
            })
            .collect();
        for entry in &numbered {
            lines.extend(line::write(entry));
        }
        self.disk.append(JOURNAL, &lines)?;
        self.disk.sync(JOURNAL)?;
        self.seq = seq;
        for Numbered { entry, .. } in numbered {
            self.memory.apply(entry);
        }
        Ok(())
    }

    /// Puts a snapshot in place if there are entries since the last one, and begins a new journal.
    pub fn checkpoint(&mut self) -> io::Result<()> {
        if self.seq == self.snapshot && self.disk.read(JOURNAL)?.is_none() {
            return Ok(());
        }
        let snapshot = Snapshot { v: VERSION, seq: self.seq, memory: self.memory.clone() };
        self.disk.replace(SNAPSHOTS[self.slot], &line::write(&snapshot))?;
        self.disk.rename(JOURNAL, OLD_JOURNAL)?;
        self.slot = 1 - self.slot;
        self.snapshot = self.seq;
        Ok(())
    }

    /// Gives the disk back.
    pub fn into_disk(self) -> D {
        self.disk
    }
}

/// Moves a bad file out of the way, under a name that says so.
fn set_aside(disk: &mut impl Disk, name: &str, why: &str, notes: &mut Vec<String>) -> io::Result<()> {
    let aside = format!("{name}.bad");
    disk.rename(name, &aside)?;
    notes.push(format!("the state file {name} cannot be used: {why}; it is set aside as {aside}"));
    Ok(())
}
