//! A port that is closed, or let in from fewer places, may be the one through which we are told. So a timer outside of this
//! process lets it in again, unless the client says that it has reached the bus again.
//!
//! What is to be restored lasts in `undo.json` and in a script, which are stored before anything is closed; so a process or
//! a machine that dies in between is mended by the next apply ([`mend`]). The timer claims the script by a rename.

mod timer;

use super::nft::Table;
use super::{Found, Opened};
use crate::outcome::Failure;
use crate::step::Owned;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// By which declaration the firewall is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its sequence. What is applied by hand comes after all that was accepted.
    pub(crate) sequence: u64,
    /// Whether a person applies it, and no client will confirm it.
    pub(crate) by_hand: bool,
}

/// What one port was before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Before {
    /// From where it was let in; empty: from everywhere. `None`: nothing was opened.
    #[serde(default)]
    pub(crate) from: Option<BTreeSet<String>>,
    #[serde(default)]
    pub(crate) guard: GuardBefore,
    /// Whose it was, where it was closed for good.
    #[serde(default)]
    pub(crate) of: Option<Owned>,
}

/// The guard that one port had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GuardBefore {
    /// It is not looked at.
    #[default]
    Unknown,
    /// It had none.
    Absent,
    /// It let in from these places.
    From(BTreeSet<String>),
}

/// All that is restored together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Undo {
    /// Names the timer and the script.
    token: String,
    firewall: String,
    /// The newest declaration of those that closed something.
    pub(crate) sequence: u64,
    pub(crate) by_hand: bool,
    /// By `8080/tcp`.
    pub(crate) before: BTreeMap<String, Before>,
}

/// The folder of all this, and its lock.
struct Place {
    folder: PathBuf,
    _lock: File,
}

impl Place {
    fn enter(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join("lock"))?;
        // Whoever has it is done at once, or after a command that has a limit.
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { folder: folder.to_owned(), _lock: lock })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn script(&self, token: &str) -> PathBuf {
        self.path(&format!("undo-{token}.sh"))
    }

    /// Writes a file, whole and synced.
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let temporary = self.path("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(&self.folder)?.sync_all()
    }

    fn store(&self, undo: &Undo, table: Option<&Table>) -> io::Result<()> {
        self.write(&self.path("undo.json"), &serde_json::to_string(undo).map_err(io::Error::other)?)?;
        if let Some(table) = table {
            self.write(&self.path("undo.nft"), &restored(table, undo).text())?;
        }
        let has_table = self.path("undo.nft").exists();
        self.write(&self.script(&undo.token), &script(undo, has_table).map_err(io::Error::other)?)
    }
}

fn read(path: &Path) -> io::Result<Option<Undo>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn failed(error: io::Error) -> Failure {
    Failure::Failed(format!("what would be let in again cannot be stored: {error}"))
}

/// The table with what is restored in it.
fn restored(table: &Table, undo: &Undo) -> Table {
    let mut table = table.clone();
    for (name, before) in &undo.before {
        if let Some(from) = &before.from {
            let wider = match table.opened.get(name) {
                Some(now) => both(now, from),
                None => from.clone(),
            };
            table.opened.insert(name.clone(), wider);
        }
        match &before.guard {
            GuardBefore::From(from) => drop(table.guarded.insert(name.clone(), from.clone())),
            GuardBefore::Absent => drop(table.guarded.remove(name)),
            GuardBefore::Unknown => {}
        }
    }
    table
}

/// All places of both; no place is everywhere.
fn both(a: &BTreeSet<String>, b: &BTreeSet<String>) -> BTreeSet<String> {
    if a.is_empty() || b.is_empty() { BTreeSet::new() } else { a.union(b).cloned().collect() }
}

/// What the timer runs. The table that it loads is written beside it.
fn script(undo: &Undo, has_table: bool) -> Result<String, String> {
    let mut lines = vec!["#!/bin/sh".to_owned(), "mv -f undo.json undone.json".to_owned()];
    for (name, before) in &undo.before {
        let Some(from) = &before.from else { continue };
        let opened = Opened::new(name, from).map_err(|failure| failure.text().to_owned())?;
        for from in opened.sources() {
            let safe = |from: &str| from.chars().all(|char| char.is_ascii_hexdigit() || ".:/".contains(char));
            if !from.is_none_or(safe) {
                return Err(format!("{name} is let in from {}, which is no address", from.unwrap_or("")));
            }
            if undo.firewall == Found::Ufw.as_str() {
                let Opened { port, protocol, .. } = &opened;
                let from = from.unwrap_or("any");
                lines.push(format!(
                    "ufw allow proto {protocol} from {from} to any port {port} comment mesh-host"
                ));
            }
            if undo.firewall == Found::Firewalld.as_str() {
                let argument = super::firewalld::argument(&opened, from, "add");
                lines.push(format!("firewall-cmd '{argument}'\nfirewall-cmd --permanent '{argument}'"));
            }
        }
    }
    if has_table {
        lines.push("nft --file undo.nft\nrm -f undo.nft".to_owned());
    }
    Ok(lines.join("\n") + "\n")
}

/// Has the timer restore this port too. What closes it comes after. A timer that is set already goes on.
pub(super) fn arm(
    folder: &Path,
    told: Told,
    found: Found,
    (name, before): (&str, Before),
    table: Option<&Table>,
) -> Result<(), Failure> {
    let place = Place::enter(folder).map_err(failed)?;
    if !told.by_hand && confirmed(folder) >= told.sequence {
        // The bus was reached with exactly this in place.
        return Ok(());
    }
    let old = read(&place.path("undo.json")).map_err(failed)?;
    // What another firewall would be told is of no use any more.
    let old = old.filter(|old| old.firewall == found.as_str());
    let goes_on = match &old {
        Some(old) => timer::waits(&place.folder, &old.token)?,
        None => false,
    };
    let mut undo = Undo {
        token: old.as_ref().filter(|_| goes_on).map_or_else(timer::token, |old| old.token.clone()),
        firewall: found.as_str().to_owned(),
        sequence: told.sequence.max(old.as_ref().map_or(0, |old| old.sequence)),
        by_hand: told.by_hand,
        before: old.map_or_else(BTreeMap::new, |old| old.before),
    };
    match undo.before.get_mut(name) {
        // What it was first is what is restored.
        Some(first) => {
            if first.guard == GuardBefore::Unknown {
                first.guard = before.guard;
            }
            first.of = before.of.or(first.of.take());
            first.from = match (first.from.take(), before.from) {
                (Some(first), Some(now)) => Some(both(&first, &now)),
                (first, now) => first.or(now),
            };
        }
        None => drop(undo.before.insert(name.to_owned(), before)),
    }
    forget(&place, name).map_err(failed)?;
    place.store(&undo, table).map_err(failed)?;
    // One that went off in the meantime has not seen what was just added.
    if !goes_on || !timer::waits(&place.folder, &undo.token)? {
        start(&place, undo, table)?;
    }
    Ok(())
}

/// Starts a timer under a name of its own.
fn start(place: &Place, mut undo: Undo, table: Option<&Table>) -> Result<(), Failure> {
    let old = std::mem::replace(&mut undo.token, timer::token());
    place.store(&undo, table).map_err(failed)?;
    timer::start(&place.folder, &undo.token)?;
    remove(&place.script(&old)).map_err(failed)
}

/// What was undone before is being closed again.
fn forget(place: &Place, name: &str) -> io::Result<()> {
    let path = place.path("undone.json");
    let Some(mut undone) = read(&path)? else { return Ok(()) };
    undone.before.remove(name);
    if undone.before.is_empty() {
        return remove(&path);
    }
    place.write(&path, &serde_json::to_string(&undone).map_err(io::Error::other)?)
}

/// After the table changed: what is restored keeps what was opened since.
pub(super) fn follow(folder: &Path, table: &Table) -> Result<(), Failure> {
    if !folder.join("undo.nft").exists() {
        return Ok(());
    }
    let place = Place::enter(folder).map_err(failed)?;
    match read(&place.path("undo.json")).map_err(failed)? {
        Some(undo) => place.write(&place.path("undo.nft"), &restored(table, &undo).text()).map_err(failed),
        None => Ok(()),
    }
}

/// Sets the timer again if it is lost: a process was killed before it was set, or the machine was.
pub(super) fn mend(folder: &Path, table: impl FnOnce() -> Result<Table, String>) -> Result<(), Failure> {
    if !folder.join("undo.json").exists() {
        return Ok(());
    }
    let place = Place::enter(folder).map_err(failed)?;
    let Some(undo) = read(&place.path("undo.json")).map_err(failed)? else { return Ok(()) };
    if timer::waits(&place.folder, &undo.token)? {
        return Ok(());
    }
    let has_table = undo.firewall == Found::Nftables.as_str() || place.path("undo.nft").exists();
    let table = has_table.then(table).transpose().map_err(Failure::NotAnswered)?;
    start(&place, undo, table.as_ref())
}

/// What the timer restored last, if nothing of it was closed since.
pub(crate) fn undone(folder: &Path) -> Option<Undo> {
    read(&folder.join("undone.json")).ok()?
}

/// The newest sequence with which the bus was reached.
fn confirmed(folder: &Path) -> u64 {
    let text = fs::read_to_string(folder.join("confirmed")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// The client has reached the bus again since this sequence was applied: what it closed stays closed. `None`: a person says
/// so, of all that was closed.
pub(crate) fn confirm(folder: &Path, sequence: Option<u64>) -> Result<(), Failure> {
    let place = Place::enter(folder).map_err(failed)?;
    if let Some(sequence) = sequence
        && sequence > confirmed(folder)
    {
        place.write(&place.path("confirmed"), &sequence.to_string()).map_err(failed)?;
    }
    let Some(undo) = read(&place.path("undo.json")).map_err(failed)? else { return Ok(()) };
    if sequence.is_some_and(|sequence| sequence < undo.sequence) {
        // It was said before the newest of it was closed.
        return Ok(());
    }
    remove(&place.script(&undo.token)).map_err(failed)?;
    for name in ["undo.json", "undo.nft"] {
        remove(&place.path(name)).map_err(failed)?;
    }
    timer::stop(&undo.token)
}

#[cfg(test)]
mod tests {
    use super::{Before, GuardBefore, Table, Undo, restored, script};
    use std::collections::{BTreeMap, BTreeSet};

    fn set(of: &[&str]) -> BTreeSet<String> {
        of.iter().map(|from| (*from).to_owned()).collect()
    }

    fn undo(firewall: &str, before: &[(&str, Before)]) -> Undo {
        Undo {
            token: "1-2".to_owned(),
            firewall: firewall.to_owned(),
            sequence: 3,
            by_hand: false,
            before: before.iter().map(|(name, before)| ((*name).to_owned(), before.clone())).collect(),
        }
    }

    #[test]
    fn what_is_restored_keeps_what_was_opened_since() {
        let opened = |from: &[(&str, BTreeSet<String>)]| -> BTreeMap<String, BTreeSet<String>> {
            from.iter().map(|(name, from)| ((*name).to_owned(), from.clone())).collect()
        };
        let now = Table {
            opened: opened(&[("80/tcp", set(&["10.0.0.0/8"])), ("443/tcp", set(&[]))]),
            guarded: opened(&[("80/tcp", set(&["10.0.0.0/8"])), ("9/udp", set(&["10.0.0.1"]))]),
        };
        let before = |from: &[&str], guard| Before { from: Some(set(from)), guard, of: None };
        let undo = undo(
            "nftables",
            &[
                ("80/tcp", before(&[], GuardBefore::Absent)),
                ("53/udp", before(&["fd00::/8"], GuardBefore::Unknown)),
            ],
        );
        // It is stored between two steps.
        let undo: Undo = serde_json::from_str(&serde_json::to_string(&undo).unwrap()).unwrap();
        let table = restored(&now, &undo);
        assert_eq!(
            table.opened,
            opened(&[("80/tcp", set(&[])), ("443/tcp", set(&[])), ("53/udp", set(&["fd00::/8"]))])
        );
        assert_eq!(table.guarded, opened(&[("9/udp", set(&["10.0.0.1"]))]));
    }

    #[test]
    fn a_source_that_is_no_address_is_never_written_into_a_script() {
        let before = Before { from: Some(set(&["10.0.0.1; reboot"])), guard: GuardBefore::Unknown, of: None };
        assert!(script(&undo("ufw", &[("80/tcp", before)]), false).is_err());
        let before = Before { from: Some(set(&["10.0.0.1"])), guard: GuardBefore::Unknown, of: None };
        let text = script(&undo("ufw", &[("80/tcp", before)]), false).unwrap();
        assert!(
            text.contains("ufw allow proto tcp from 10.0.0.1 to any port 80 comment mesh-host\n"),
            "{text}"
        );
    }
}
