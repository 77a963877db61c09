//! The store: what must survive the program, one `SQLite` file for each context.
//!
//! `inventory` has nodes, modules, settings, assignments and what was sent; `identity` has keys and tokens. No secret is
//! in either: of tokens and accounts the public halves alone. Whoever writes begins with an [`acts::Act`]; a change and
//! the row that says who made it are one transaction.

pub mod acts;
pub mod identity;
pub mod inventory;
pub mod lease;
mod migrate;
pub mod nodes;
mod schema;
pub mod sent;
pub mod standing;
mod volume;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use migrate::{Migrated, migrate};
pub use volume::is_remote;

/// How long a command waits for another one's transaction.
const BUSY: Duration = Duration::from_secs(5);
/// The write-ahead log is written back into the file at this size: 1 024 pages of 4 KiB.
const CHECKPOINT_PAGES: i64 = 1024;
/// The folder of the store, where nothing else is said.
pub const FOLDER: &str = "/var/lib/mesh-controller";

/// Milliseconds since 1970.
pub type Moment = i64;

/// The time as the store has it.
pub fn moment(time: SystemTime) -> Moment {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::try_from(since.as_millis()).unwrap_or(Moment::MAX)
}

/// Now, for commands; a machine is given its time.
pub fn now() -> Moment {
    moment(SystemTime::now())
}

/// A moment as a time.
pub fn time_of(moment: Moment) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(moment).unwrap_or(0))
}

/// A part of the store with a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// Nodes, modules, settings, assignments, what was sent.
    Inventory,
    /// The mesh's id, keys, tokens, accounts.
    Identity,
}

impl Context {
    /// Both, in the order in which they are opened.
    pub const ALL: [Context; 2] = [Context::Inventory, Context::Identity];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Context::Inventory => "inventory",
            Context::Identity => "identity",
        }
    }

    /// The variable that names its file; with `_FILE` behind it, the one that names a file which holds the name.
    pub const fn variable(self) -> &'static str {
        match self {
            Context::Inventory => "MESH_STORE_INVENTORY",
            Context::Identity => "MESH_STORE_IDENTITY",
        }
    }
}

/// Why the store could not be used, as text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// What was asked for cannot be: a fault of the request.
    Refused(String),
    /// The store is not as this program needs it; what to do is part of the text.
    Unfit(String),
    /// Another command holds the store for longer than one waits.
    Busy(String),
    /// `SQLite` or the file system failed.
    Broken(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Refused(why) | Error::Unfit(why) | Error::Busy(why) | Error::Broken(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Error {}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                Error::Busy("the store is in use by another command: try again".into())
            }
            _ => Error::Broken(format!("the store: {error}")),
        }
    }
}

/// Where the files of the store are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The file of the inventory.
    pub inventory: PathBuf,
    /// The file of the identity. The mesh's key lies beside it.
    pub identity: PathBuf,
}

impl Paths {
    /// As the environment says, or below [`FOLDER`].
    pub fn find(environment: &dyn Fn(&str) -> Option<String>) -> Result<Paths, Error> {
        let find = |context: Context| {
            let variable = context.variable();
            let file = format!("{variable}_FILE");
            match (environment(variable), environment(&file)) {
                (Some(_), Some(_)) => {
                    Err(Error::Unfit(format!("{variable} and {file} are both set: unset one of them")))
                }
                (Some(path), None) => Ok(PathBuf::from(path)),
                (None, Some(holder)) => {
                    let text = std::fs::read_to_string(&holder)
                        .map_err(|error| Error::Unfit(format!("{file}: {holder} cannot be read: {error}")))?;
                    Ok(PathBuf::from(text.trim()))
                }
                (None, None) => Ok(Path::new(FOLDER).join(format!("{}.db", context.name()))),
            }
        };
        Ok(Paths { inventory: find(Context::Inventory)?, identity: find(Context::Identity)? })
    }

    /// Both files in one folder.
    pub fn below(folder: &Path) -> Paths {
        Paths { inventory: folder.join("inventory.db"), identity: folder.join("identity.db") }
    }

    /// The file of a context.
    pub fn of(&self, context: Context) -> &Path {
        match context {
            Context::Inventory => &self.inventory,
            Context::Identity => &self.identity,
        }
    }

    /// The file of the mesh's key.
    pub fn key(&self) -> PathBuf {
        self.identity.with_file_name("identity.nk")
    }
}

/// The open store.
#[derive(Debug)]
pub struct Store {
    /// Where it lies.
    pub paths: Paths,
    inventory: Connection,
    identity: Connection,
}

impl Store {
    /// Opens both files, which must be of this program's version.
    pub fn open(paths: &Paths) -> Result<Store, Error> {
        let open = |context: Context| {
            let path = paths.of(context);
            if !path.exists() {
                return Err(Error::Unfit(format!(
                    "there is no {} store at {}: make it with mesh-controller migrate, or name another with {}",
                    context.name(),
                    path.display(),
                    context.variable()
                )));
            }
            let connection = connect(path)?;
            migrate::expect_current(&connection, context, path)?;
            Ok(connection)
        };
        Ok(Store {
            paths: paths.clone(),
            inventory: open(Context::Inventory)?,
            identity: open(Context::Identity)?,
        })
    }

    /// The inventory, for reading.
    pub fn inventory(&self) -> &Connection {
        &self.inventory
    }

    /// The identity, for reading.
    pub fn identity(&self) -> &Connection {
        &self.identity
    }

    /// Begins a change of the inventory.
    pub fn change_inventory(&mut self, act: &acts::Act<'_>) -> Result<Change<'_>, Error> {
        Change::begin(&mut self.inventory, Some(act))
    }

    /// Begins a change of the inventory, with the identity beside it for reading.
    pub fn change_inventory_beside(
        &mut self,
        act: &acts::Act<'_>,
    ) -> Result<(Change<'_>, &Connection), Error> {
        Ok((Change::begin(&mut self.inventory, Some(act))?, &self.identity))
    }

    /// Begins a change of the identity.
    pub fn change_identity(&mut self, act: &acts::Act<'_>) -> Result<Change<'_>, Error> {
        Change::begin(&mut self.identity, Some(act))
    }

    /// Begins to write down in the inventory what no person did: reports, what was written on the bus, the lease.
    pub fn note_inventory(&mut self) -> Result<Change<'_>, Error> {
        Change::begin(&mut self.inventory, None)
    }

    /// Begins to write down in the identity what no person did.
    pub fn note_identity(&mut self) -> Result<Change<'_>, Error> {
        Change::begin(&mut self.identity, None)
    }

    /// A number that differs once another process has changed one of the files.
    pub fn version(&self) -> Result<(i64, i64), Error> {
        let version = |connection: &Connection| -> Result<i64, Error> {
            Ok(connection.query_row("PRAGMA data_version", [], |row| row.get(0))?)
        };
        Ok((version(&self.inventory)?, version(&self.identity)?))
    }
}

/// A change under way. Dropped without [`Change::commit`] it changes nothing.
#[derive(Debug)]
pub struct Change<'s> {
    transaction: Transaction<'s>,
    /// The number of the act, and 0 where nobody acted.
    pub act: i64,
    /// When it was done.
    pub at: Moment,
}

impl<'s> Change<'s> {
    fn begin(connection: &'s mut Connection, act: Option<&acts::Act<'_>>) -> Result<Change<'s>, Error> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (act, at) = match act {
            Some(act) => (acts::write(&transaction, act)?, act.at),
            None => (0, now()),
        };
        Ok(Change { transaction, act, at })
    }

    /// Makes it so.
    pub fn commit(self) -> Result<(), Error> {
        Ok(self.transaction.commit()?)
    }
}

impl Deref for Change<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.transaction
    }
}

/// Opens one file as all of them are used.
fn connect(path: &Path) -> Result<Connection, Error> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(|error| Error::Broken(format!("{} cannot be opened: {error}", path.display())))?;
    let set = || -> rusqlite::Result<()> {
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", CHECKPOINT_PAGES * 4096)
    };
    set().map_err(|error| match Error::from(error) {
        Error::Broken(why) => Error::Broken(format!("{}: {why}", path.display())),
        other => other,
    })?;
    Ok(connection)
}

#[cfg(test)]
pub(crate) mod tests;
