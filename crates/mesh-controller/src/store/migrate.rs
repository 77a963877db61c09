//! Bringing a file up to date: forward only, a transaction for each step, a copy beside the file first.

use super::{Context, Error, Paths, connect, schema};
use rusqlite::backup::Backup;
use rusqlite::{Connection, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// Which file.
    pub context: Context,
    /// Its version before; 0 for a new one.
    pub from: usize,
    /// Its version now.
    pub to: usize,
    /// The copy of what it was.
    pub copy: Option<PathBuf>,
}

/// Brings every file up to date. After a failure the file is as it was before the step that failed.
pub fn migrate(paths: &Paths) -> Result<Vec<Migrated>, Error> {
    Context::ALL
        .into_iter()
        .map(|context| bring_up(context, paths.of(context), schema::steps(context)))
        .collect()
}

fn bring_up(context: Context, path: &Path, steps: &[&str]) -> Result<Migrated, Error> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        make_private_folder(folder)?;
    }
    if !path.exists() {
        make_private_file(path)?;
    }
    let mut connection = connect(path)?;
    let from = version(&connection)?;
    refuse_newer(from, steps.len(), context, path)?;
    let mut copy = None;
    if from > 0 && from < steps.len() {
        copy = Some(keep_copy(&connection, path, from)?);
    }
    for (place, step) in steps.iter().enumerate().skip(from) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have done it since.
        if version(&transaction)? > place {
            continue;
        }
        transaction
            .execute_batch(step)
            .and_then(|()| {
                transaction.pragma_update(None, "user_version", i64::try_from(place + 1).unwrap_or(0))
            })
            .map_err(|error| {
                Error::Broken(format!(
                    "{}: step {} cannot be made: {error}: the file is as it was before",
                    path.display(),
                    place + 1
                ))
            })?;
        transaction.commit()?;
    }
    let dangling = dangling(&connection)?;
    if let Some(first) = dangling.first() {
        return Err(Error::Unfit(format!(
            "{}: {} rows point at what is not there, first {first}: restore a copy, or ask for help with it",
            path.display(),
            dangling.len()
        )));
    }
    Ok(Migrated { context, from, to: steps.len(), copy })
}

/// Rows whose foreign keys lead nowhere.
fn dangling(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn version(connection: &Connection) -> Result<usize, Error> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

/// Refuses a file that is older or newer than this program.
pub(super) fn expect_current(connection: &Connection, context: Context, path: &Path) -> Result<(), Error> {
    let (found, known) = (version(connection)?, schema::steps(context).len());
    refuse_newer(found, known, context, path)?;
    if found < known {
        return Err(Error::Unfit(format!(
            "the {} store at {} has version {found}, this program needs {known}: run mesh-controller migrate",
            context.name(),
            path.display()
        )));
    }
    Ok(())
}

fn refuse_newer(found: usize, known: usize, context: Context, path: &Path) -> Result<(), Error> {
    if found > known {
        return Err(Error::Unfit(format!(
            "the {} store at {} has version {found}, this program knows {known}: use the newer program, or a copy from before",
            context.name(),
            path.display()
        )));
    }
    Ok(())
}

fn keep_copy(connection: &Connection, path: &Path, version: usize) -> Result<PathBuf, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".version-{version}"));
    let copy = PathBuf::from(name);
    let failed = |error: &dyn std::fmt::Display| {
        Error::Broken(format!("{}: no copy can be made: {error}: nothing was changed", copy.display()))
    };
    if copy.exists() {
        std::fs::remove_file(&copy).map_err(|error| failed(&error))?;
    }
    make_private_file(&copy)?;
    let mut target = Connection::open(&copy).map_err(|error| failed(&error))?;
    let backup = Backup::new(connection, &mut target).map_err(|error| failed(&error))?;
    backup.run_to_completion(1024, Duration::ZERO, None).map_err(|error| failed(&error))?;
    Ok(copy)
}

/// Makes a folder that its owner alone may enter.
pub(super) fn make_private_folder(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| Error::Broken(format!("the folder {} cannot be made: {error}", folder.display())))
}

fn make_private_file(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::OpenOptionsExt;
    let made = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    made.map(drop).map_err(|error| Error::Broken(format!("{} cannot be made: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const FIRST: &str = "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7);";

    #[test]
    fn m02_a_step_that_fails_leaves_the_file_as_it_was() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("inventory.db");
        bring_up(Context::Inventory, &path, &[FIRST]).unwrap();
        let broken = "CREATE TABLE b (x INTEGER) STRICT; DELETE FROM a; INSERT INTO nowhere VALUES (1);";
        let error = bring_up(Context::Inventory, &path, &[FIRST, broken]).unwrap_err();
        assert!(error.to_string().contains("step 2 cannot be made"), "{error}");
        let connection = connect(&path).unwrap();
        assert_eq!(version(&connection).unwrap(), 1);
        let kept: i64 = connection.query_row("SELECT x FROM a", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 7);
        assert!(connection.prepare("SELECT * FROM b").is_err());
        let refused = expect_current(&connection, Context::Inventory, &path).unwrap_err().to_string();
        assert!(refused.contains("run mesh-controller migrate"), "nothing is served from it: {refused}");
        assert!(folder.path().join("inventory.db.version-1").exists(), "a copy was made first");
    }

    #[test]
    fn a_newer_file_is_refused_and_left_alone() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("identity.db");
        bring_up(Context::Identity, &path, &[FIRST, "CREATE TABLE b (x INTEGER) STRICT;"]).unwrap();
        let error = bring_up(Context::Identity, &path, &[FIRST]).unwrap_err();
        assert!(error.to_string().contains("has version 2, this program knows 1"), "{error}");
    }

    #[test]
    fn m01_a_store_of_every_earlier_version_comes_up_with_its_rows() {
        for context in Context::ALL {
            let steps = schema::steps(context);
            for version in 1..=steps.len() {
                let folder = TempDir::new().unwrap();
                let path = folder.path().join("store.db");
                bring_up(context, &path, &steps[..version]).unwrap();
                let insert = "INSERT INTO acts (at, who, command, what) VALUES (1, 'a', 'b', 'c')";
                connect(&path).unwrap().execute(insert, []).unwrap();
                let migrated = bring_up(context, &path, steps).unwrap();
                assert_eq!(
                    (migrated.from, migrated.to, migrated.copy.is_some()),
                    (version, steps.len(), version < steps.len())
                );
                let count = "SELECT count(*) FROM acts";
                let kept: i64 = connect(&path).unwrap().query_row(count, [], |row| row.get(0)).unwrap();
                assert_eq!(kept, 1);
            }
        }
    }

    #[test]
    fn m01_rows_that_point_nowhere_are_told() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("inventory.db");
        let old = "CREATE TABLE a (x INTEGER PRIMARY KEY) STRICT; CREATE TABLE b (x INTEGER) STRICT; INSERT INTO b VALUES (1);";
        bring_up(Context::Inventory, &path, &[old]).unwrap();
        let stricter = "CREATE TABLE c (x INTEGER REFERENCES a) STRICT;";
        bring_up(Context::Inventory, &path, &[old, stricter]).unwrap();
        let connection = connect(&path).unwrap();
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        connection.execute("INSERT INTO c VALUES (5)", []).unwrap();
        let error = bring_up(Context::Inventory, &path, &[old, stricter]).unwrap_err();
        assert!(error.to_string().contains("1 rows point at what is not there, first c"), "{error}");
    }
}
