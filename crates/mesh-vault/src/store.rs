//! The store: one `SQLite` file with sealed copies alone. A lock beside it keeps a second vault away.

mod read;
mod schema;
mod write;

pub use write::Row;

use crate::task::Failure;
use mesh_model::keys::{MeshKey, SealingKey};
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the store is, where nothing else is said.
pub const FOLDER: &str = "/var/lib/mesh-vault";

/// How long one waits for the transaction of a command.
const BUSY: Duration = Duration::from_secs(5);

/// The write-ahead log is written back into the file at this size, in pages of 4 KiB.
const CHECKPOINT_PAGES: i64 = 1024;

/// How long the ids of signed requests are kept: longer than a request is good.
pub const KEEP_IDS: u64 = 24 * 3600;

/// Why the store cannot be used, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// There is none here.
    Absent(String),
    /// Another program has it.
    Locked(String),
    /// It is not as this program needs it.
    Unfit(String),
    /// The system or `SQLite` says no.
    Broken(String),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Unusable::Absent(why) | Unusable::Locked(why) | Unusable::Unfit(why) | Unusable::Broken(why)) =
            self;
        f.write_str(why)
    }
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Unusable {
        Unusable::Broken(format!("the store: {error}"))
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Store(error.to_string())
    }
}

/// What the vault was set up with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The key whose signatures count.
    pub mesh: MeshKey,
    /// The recovery key for nodes whose record names none.
    pub recovery: Option<SealingKey>,
}

/// The open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    /// Held as long as the store is open.
    _lock: Option<File>,
}

/// The file of the store in a folder.
pub fn file(folder: &Path) -> PathBuf {
    folder.join("vault.db")
}

impl Store {
    /// Makes the store in `folder` if there is none, and brings it up to date. Only its owner may read it.
    pub fn make(folder: &Path) -> Result<Store, Unusable> {
        make_folder(folder)?;
        let lock = lock(folder)?;
        let path = file(folder);
        let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        made.map_err(|error| Unusable::Broken(format!("{} cannot be made: {error}", path.display())))?;
        let mut store = Store { connection: connect(&path, false)?, _lock: Some(lock) };
        store.migrate(&path, schema::STEPS)?;
        Ok(store)
    }

    /// Opens the store that is in `folder`, for the one program that serves.
    pub fn open(folder: &Path) -> Result<Store, Unusable> {
        let path = file(folder);
        if !path.exists() {
            return Err(absent(&path));
        }
        Store::make(folder)
    }

    /// Opens it to read alone, while another program may have it.
    pub fn look(folder: &Path) -> Result<Store, Unusable> {
        let path = file(folder);
        if !path.exists() {
            return Err(absent(&path));
        }
        let connection = connect(&path, true)?;
        let (found, known) = (version(&connection)?, schema::STEPS.len());
        if found != known {
            return Err(Unusable::Unfit(format!(
                "{} has version {found}, and this program needs {known}: start mesh-vault serve once, or use the newer program",
                path.display()
            )));
        }
        Ok(Store { connection, _lock: None })
    }

    fn migrate(&mut self, path: &Path, steps: &[&str]) -> Result<(), Unusable> {
        let from = version(&self.connection)?;
        if from > steps.len() {
            return Err(Unusable::Unfit(format!(
                "{} has version {from}, and this program knows {}: use the newer program, or a copy from before",
                path.display(),
                steps.len()
            )));
        }
        if from > 0 && from < steps.len() {
            self.keep_copy(path, from)?;
        }
        for (place, step) in steps.iter().enumerate().skip(from) {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let stepped = transaction.execute_batch(step).and_then(|()| {
                transaction.pragma_update(None, "user_version", i64::try_from(place + 1).unwrap_or(i64::MAX))
            });
            stepped.map_err(|error| {
                Unusable::Broken(format!(
                    "{}: step {} cannot be made: {error}: the file is as it was before",
                    path.display(),
                    place + 1
                ))
            })?;
            transaction.commit()?;
        }
        Ok(())
    }

    /// A copy beside the file, before it is changed.
    fn keep_copy(&self, path: &Path, version: usize) -> Result<(), Unusable> {
        let copy = path.with_extension(format!("db.version-{version}"));
        let failed = |why: &dyn std::fmt::Display| {
            Unusable::Broken(format!("{}: no copy can be made: {why}: nothing was changed", copy.display()))
        };
        if copy.exists() {
            fs::remove_file(&copy).map_err(|error| failed(&error))?;
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy);
        made.map_err(|error| failed(&error))?;
        let mut target = Connection::open(&copy).map_err(|error| failed(&error))?;
        let backup = rusqlite::backup::Backup::new(&self.connection, &mut target);
        let copied = backup.and_then(|backup| backup.run_to_completion(1024, Duration::ZERO, None));
        copied.map_err(|error| failed(&error))
    }

    /// What the vault was set up with, if it was.
    pub fn setup(&self) -> Result<Option<Setup>, Unusable> {
        let Some(mesh) = self.setting("mesh-key")? else { return Ok(None) };
        let unreadable = |why: String| Unusable::Unfit(format!("the store's settings cannot be read: {why}"));
        let recovery =
            self.setting("recovery-key")?.map(|key| key.parse()).transpose().map_err(unreadable)?;
        Ok(Some(Setup { mesh: mesh.parse().map_err(unreadable)?, recovery }))
    }

    /// Sets it up. Another mesh's key is refused: what is kept is that mesh's.
    pub fn set_up(&mut self, setup: &Setup) -> Result<(), Unusable> {
        if let Some(known) = self.setup()?.filter(|known| known.mesh != setup.mesh) {
            return Err(Unusable::Unfit(format!(
                "this vault belongs to the mesh of {}: give another mesh a store of its own, with --store",
                known.mesh
            )));
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let put =
            "INSERT INTO settings VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        transaction.execute(put, ("mesh-key", setup.mesh.as_str()))?;
        if let Some(recovery) = &setup.recovery {
            transaction.execute(put, ("recovery-key", recovery.as_str()))?;
        }
        Ok(transaction.commit()?)
    }

    fn setting(&self, name: &str) -> Result<Option<String>, rusqlite::Error> {
        let get = "SELECT value FROM settings WHERE name = ?1";
        self.connection.query_row(get, [name], |row| row.get(0)).optional()
    }
}

fn absent(path: &Path) -> Unusable {
    Unusable::Absent(format!(
        "there is no store at {}: mount it, or make one with mesh-vault init, or name another folder with --store",
        path.display()
    ))
}

/// Makes a folder that its owner alone may enter.
fn make_folder(folder: &Path) -> Result<(), Unusable> {
    if folder.is_dir() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Unusable::Broken(format!("{} cannot be made: {error}", folder.display())))
}

/// Takes the store's lock, which ends with the process.
fn lock(folder: &Path) -> Result<File, Unusable> {
    let path = folder.join("lock");
    let broken = |error: &dyn std::fmt::Display| {
        Unusable::Broken(format!("{} cannot be locked: {error}", path.display()))
    };
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(|error| broken(&error))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Unusable::Locked(format!(
            "another mesh-vault has the store at {}: stop it, or name another folder with --store",
            folder.display()
        ))),
        Err(error) => Err(broken(&error)),
    }
}

fn connect(path: &Path, read_only: bool) -> Result<Connection, Unusable> {
    let access = if read_only { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    if !read_only {
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "secure_delete", true)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    }
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

fn version(connection: &Connection) -> Result<usize, rusqlite::Error> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;
