//! What was sent: the exact bytes of each value in the controller's buckets, and whether they are there yet.
//!
//! Mirrors are repaired from here alone. A value is written down as intended before it is written on the bus, so what a
//! crash left half done is finished by the next holder of the lease.

use super::{Change, Error, Moment, lease};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use std::fmt;

/// A bucket that the controller writes. The order is the order of sending: the declaration comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bucket {
    /// The signed records of nodes.
    Nodes,
    /// What each node runs of each module.
    Assignments,
    /// What is set for it.
    Settings,
    /// What each node runs, signed.
    Declarations,
}

impl Bucket {
    /// All of them, in the order of sending.
    pub const ALL: [Bucket; 4] = [Bucket::Nodes, Bucket::Assignments, Bucket::Settings, Bucket::Declarations];

    /// Its name on the bus.
    pub const fn name(self) -> &'static str {
        match self {
            Bucket::Nodes => "mesh-controller_nodes",
            Bucket::Assignments => "mesh-controller_assignments",
            Bucket::Settings => "mesh-controller_settings",
            Bucket::Declarations => "mesh-controller_declarations",
        }
    }

    /// How many values of a key are kept: of declarations the newest eight.
    pub const fn history(self) -> u8 {
        if matches!(self, Bucket::Declarations) { 8 } else { 1 }
    }

    fn of(name: &str) -> Option<Bucket> {
        Bucket::ALL.into_iter().find(|bucket| bucket.name() == name)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Where it belongs.
    pub bucket: Bucket,
    /// Its key.
    pub key: String,
    /// The node it is about.
    pub node: String,
    /// The module it is about; empty for a node's own.
    pub module: String,
    /// The exact bytes. `None`: the key is to be deleted.
    pub value: Option<Vec<u8>>,
    /// The sequence of the declaration that it went with.
    pub sequence: u64,
    /// The fence of the lease under which it was written down.
    pub fence: u64,
    /// Whether the bus has it.
    pub done: bool,
    /// Its sequence in the bucket, as far as known; 0 if it never was there.
    pub revision: u64,
    /// When it was written down, or when the bus took it.
    pub at: Moment,
}

const COLUMNS: &str =
    "SELECT bucket, key, node, module, value, sequence, fence, done, revision, at FROM sent";

fn read(row: &Row<'_>) -> rusqlite::Result<Sent> {
    let name: String = row.get(0)?;
    let bucket = Bucket::of(&name).ok_or_else(|| {
        let why = format!("{name:?} is not a bucket of the controller");
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, why.into())
    })?;
    Ok(Sent {
        bucket,
        key: row.get(1)?,
        node: row.get(2)?,
        module: row.get(3)?,
        value: row.get(4)?,
        sequence: row.get(5)?,
        fence: row.get(6)?,
        done: row.get(7)?,
        revision: row.get(8)?,
        at: row.get(9)?,
    })
}

fn select(connection: &Connection, rest: &str, of: &[&dyn rusqlite::ToSql]) -> Result<Vec<Sent>, Error> {
    let mut statement = connection.prepare_cached(&format!("{COLUMNS} {rest}"))?;
    let rows = statement.query_map(of, read)?;
    let mut all: Vec<Sent> = rows.collect::<Result<_, _>>()?;
    all.sort_by(|a, b| (&a.node, a.bucket, &a.key).cmp(&(&b.node, b.bucket, &b.key)));
    Ok(all)
}

/// Everything: by node, in the order of sending.
pub fn all(connection: &Connection) -> Result<Vec<Sent>, Error> {
    select(connection, "", &[])
}

/// Everything of a node, in the order of sending.
pub fn of_node(connection: &Connection, node: &str) -> Result<Vec<Sent>, Error> {
    select(connection, "WHERE node = ?1", &[&node])
}

/// What is intended and not yet done: by node, in the order of sending.
pub fn undone(connection: &Connection) -> Result<Vec<Sent>, Error> {
    select(connection, "WHERE done = 0", &[])
}

/// The records of nodes, by key.
pub fn records(connection: &Connection) -> Result<Vec<Sent>, Error> {
    select(connection, "WHERE bucket = ?1", &[&Bucket::Nodes.name()])
}

/// Passes each value to `take`, one at a time: all of them together may be large.
pub fn each(connection: &Connection, mut take: impl FnMut(Sent)) -> Result<(), Error> {
    let mut statement = connection.prepare(COLUMNS)?;
    for sent in statement.query_map([], read)? {
        take(sent?);
    }
    Ok(())
}

/// Every declaration, by node.
pub fn declarations(connection: &Connection) -> Result<Vec<Sent>, Error> {
    select(connection, "WHERE bucket = ?1 AND value IS NOT NULL", &[&Bucket::Declarations.name()])
}

/// How many values of each node are intended and not yet done.
pub fn count_undone(connection: &Connection) -> Result<BTreeMap<String, usize>, Error> {
    let mut statement = connection.prepare("SELECT node, count(*) FROM sent WHERE done = 0 GROUP BY node")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// One value.
pub fn get(connection: &Connection, bucket: Bucket, key: &str) -> Result<Option<Sent>, Error> {
    let sql = format!("{COLUMNS} WHERE bucket = ?1 AND key = ?2");
    Ok(connection.query_row(&sql, params![bucket.name(), key], read).optional()?)
}

/// Writes down that a value is to be sent, under the lease of that fence. The known revision stays.
pub fn intend(change: &Change<'_>, sent: &Sent) -> Result<(), Error> {
    lease::expect(change, sent.fence)?;
    change.execute(
        "INSERT INTO sent (bucket, key, node, module, value, sequence, fence, done, revision, at, act)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10) ON CONFLICT DO UPDATE SET value = excluded.value,
         sequence = excluded.sequence, fence = excluded.fence, done = 0, at = excluded.at, act = excluded.act",
        params![
            sent.bucket.name(),
            sent.key,
            sent.node,
            sent.module,
            sent.value,
            sent.sequence,
            sent.fence,
            sent.revision,
            change.at,
            change.act
        ],
    )?;
    Ok(())
}

/// Writes down that the bus has a value, with its sequence there. A row that was changed since stays undone; a deleted key
/// has no row any more, but for a declaration: its sequence counts when a node of that name comes back.
pub fn done(change: &Change<'_>, fence: u64, sent: &Sent, revision: u64) -> Result<(), Error> {
    lease::expect(change, fence)?;
    let (bucket, key, value) = (sent.bucket.name(), &sent.key, &sent.value);
    // Where something else was intended meanwhile, that is sent after this revision.
    change.execute(
        "UPDATE sent SET revision = ?3 WHERE bucket = ?1 AND key = ?2",
        params![bucket, key, revision],
    )?;
    let settled = match value {
        None if sent.bucket != Bucket::Declarations => {
            "DELETE FROM sent WHERE bucket = ?1 AND key = ?2 AND value IS ?3 AND ?4 IS NOT NULL"
        }
        _ => "UPDATE sent SET done = 1, at = ?4 WHERE bucket = ?1 AND key = ?2 AND value IS ?3",
    };
    change.execute(settled, params![bucket, key, value, change.at])?;
    Ok(())
}

/// The highest sequence that was written down for a node.
pub fn highest_sequence(connection: &Connection, node: &str) -> Result<u64, Error> {
    let sql = "SELECT max(sequence) FROM sent WHERE node = ?1";
    let highest: Option<u64> = connection.query_row(sql, [node], |row| row.get(0))?;
    Ok(highest.unwrap_or(0))
}

/// Drops the rows of a node that is gone, but for the one that has its highest sequence.
pub fn forget_node(change: &Change<'_>, node: &str) -> Result<(), Error> {
    let sql = "DELETE FROM sent WHERE node = ?1 AND done = 1 AND bucket <> ?2";
    change.execute(sql, params![node, Bucket::Declarations.name()])?;
    Ok(())
}
