//! Who may write to the bus: a row with a fence that only grows, renewed while its holder lives.
//!
//! An advisory lock on a file beside the store shortens the wait when the holder's process ends: the kernel drops the lock
//! with the process. The row alone decides, since a lock says nothing to a process that was paused and wakes up.

use super::{Error, Moment, Paths, Store};
use rusqlite::{Connection, params};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// How long the lease lives when nobody renews it.
pub const AGE: Duration = Duration::from_secs(15);
/// How often its holder renews it.
pub const RENEW: Duration = Duration::from_secs(5);

/// The row as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Who holds it, in words; nobody after it was given back.
    pub holder: Option<String>,
    /// The holder's process; 0 if it took the lease by its age, while a paused process still had the lock.
    pub pid: u32,
    /// Only grows.
    pub fence: u64,
    /// When it was renewed last.
    pub renewed: Moment,
}

impl Row {
    /// Whether a program holds it at that moment, as far as the row tells.
    pub fn is_held(&self, at: Moment) -> bool {
        let age = Moment::try_from(AGE.as_millis()).unwrap_or(Moment::MAX);
        self.holder.is_some() && at.saturating_sub(self.renewed) < age
    }
}

/// The row.
pub fn row(connection: &Connection) -> Result<Row, Error> {
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Row { holder: row.get(0)?, pid: row.get(1)?, fence: row.get(2)?, renewed: row.get(3)? })
    };
    Ok(connection.query_row("SELECT holder, pid, fence, renewed FROM lease", [], read)?)
}

/// Refuses a holder that does not have the newest fence.
pub fn expect(connection: &Connection, fence: u64) -> Result<(), Error> {
    let row = row(connection)?;
    if row.fence == fence {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the lease was lost: this program has the fence {fence}, and {} has {} since: run the command again",
        row.holder.as_deref().unwrap_or("another program"),
        row.fence
    )))
}

/// The lease, held by this process until it is dropped.
#[derive(Debug)]
pub struct Lease {
    /// Its fence.
    pub fence: u64,
    /// The lock ends when the file is closed.
    _lock: Option<File>,
}

/// What came of trying to take the lease.
#[derive(Debug)]
pub enum Taken {
    /// It is ours.
    Ours(Lease),
    /// Somebody else holds it.
    Theirs(Row),
}

/// Takes the lease if nobody holds it. `at_least` is the highest fence that is known from elsewhere.
pub fn take(store: &mut Store, holder: &str, at_least: u64) -> Result<Taken, Error> {
    let lock = lock(&store.paths)?;
    let change = store.note_inventory()?;
    let row = row(&change)?;
    // With the lock at hand the holder's process is gone, however young the row is. Without it the row decides.
    // A holder that took it without the lock, since a paused one still had that, has no process here.
    let ended = lock.is_some() && row.pid != 0;
    if row.is_held(change.at) && !ended {
        return Ok(Taken::Theirs(row));
    }
    let fence = row.fence.max(at_least) + 1;
    change.execute(
        "UPDATE lease SET holder = ?1, pid = ?2, fence = ?3, renewed = ?4",
        params![holder, if lock.is_some() { std::process::id() } else { 0 }, fence, change.at],
    )?;
    change.commit()?;
    Ok(Taken::Ours(Lease { fence, _lock: lock }))
}

/// The lock beside the store, if no living process has it.
fn lock(paths: &Paths) -> Result<Option<File>, Error> {
    let mut name = paths.inventory.as_os_str().to_owned();
    name.push(".lease");
    let path = std::path::PathBuf::from(name);
    let file = open(&path)
        .map_err(|error| Error::Broken(format!("{} cannot be opened: {error}", path.display())))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(Error::Broken(format!("{} cannot be locked: {error}", path.display()))),
    }
}

/// Opens the file, which is empty. Root's commands and the service both lock it, so everyone who may enter its folder may read it.
fn open(path: &Path) -> std::io::Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
            Ok(file)
        }
        opened => opened,
    }
}

impl Lease {
    /// Renews it. An error says who has it now.
    pub fn renew(&self, store: &mut Store) -> Result<(), Error> {
        let change = store.note_inventory()?;
        expect(&change, self.fence)?;
        change.execute("UPDATE lease SET renewed = ?1", [change.at])?;
        change.commit()
    }

    /// Raises the fence, which a bucket or a report showed to be higher elsewhere.
    pub fn raise(&mut self, store: &mut Store, at_least: u64) -> Result<(), Error> {
        if at_least < self.fence {
            return Ok(());
        }
        let change = store.note_inventory()?;
        expect(&change, self.fence)?;
        let fence = at_least + 1;
        change.execute("UPDATE lease SET fence = ?1, renewed = ?2", params![fence, change.at])?;
        change.commit()?;
        self.fence = fence;
        Ok(())
    }

    /// Gives it back, unless another program has it by now.
    pub fn release(self, store: &mut Store) -> Result<(), Error> {
        let change = store.note_inventory()?;
        change.execute("UPDATE lease SET holder = NULL WHERE fence = ?1", [self.fence])?;
        change.commit()
    }
}
