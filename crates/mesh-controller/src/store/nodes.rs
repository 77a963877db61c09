//! Nodes: their records, the operator's paths on them, and what they reported last.

use super::{Change, Error, Moment};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::{BTreeMap, BTreeSet};

/// A node as the operator described it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether the machine was in use before: what is found there is left alone.
    pub adopted: bool,
    /// Where the others reach it, if the operator said so.
    pub address: Option<String>,
    /// Where it stands, in the operator's words.
    pub zone: Option<String>,
    /// Since when it is known.
    pub since: Moment,
    /// The act that added or last changed it.
    pub act: i64,
}

fn read(row: &Row<'_>) -> rusqlite::Result<Node> {
    Ok(Node {
        name: row.get(0)?,
        adopted: row.get(1)?,
        address: row.get(2)?,
        zone: row.get(3)?,
        since: row.get(4)?,
        act: row.get(5)?,
    })
}

const COLUMNS: &str = "SELECT name, adopted, address, zone, since, act FROM nodes";

/// Every node, by name.
pub fn all(connection: &Connection) -> Result<Vec<Node>, Error> {
    let mut statement = connection.prepare(&format!("{COLUMNS} ORDER BY name"))?;
    let rows = statement.query_map([], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// One node.
pub fn get(connection: &Connection, name: &str) -> Result<Option<Node>, Error> {
    Ok(connection.query_row(&format!("{COLUMNS} WHERE name = ?1"), [name], read).optional()?)
}

/// One node, which must be there.
pub fn expect(connection: &Connection, name: &str) -> Result<Node, Error> {
    get(connection, name)?.ok_or_else(|| {
        let names = all(connection).unwrap_or_default();
        let near = mesh_model::json::nearest(name, names.iter().map(|node| node.name.as_str()));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        Error::Refused(format!("there is no node {name}{near}"))
    })
}

/// Adds a node.
pub fn add(
    change: &Change<'_>,
    name: &str,
    adopted: bool,
    address: Option<&str>,
    zone: Option<&str>,
) -> Result<(), Error> {
    mesh_model::plain_name::check_own(name).map_err(Error::Refused)?;
    if get(change, name)?.is_some() {
        return Err(Error::Refused(format!("there is a node {name} already: change it with node set")));
    }
    change.execute(
        "INSERT INTO nodes (name, adopted, address, zone, since, act) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![name, adopted, address, zone, change.at, change.act],
    )?;
    // What it writes under its name is its own from now on.
    has_left(change, name)
}

/// Rewrites a node's record.
pub fn set(change: &Change<'_>, node: &Node) -> Result<(), Error> {
    change.execute(
        "UPDATE nodes SET adopted = ?2, address = ?3, zone = ?4, act = ?5 WHERE name = ?1",
        params![node.name, node.adopted, node.address, node.zone, change.act],
    )?;
    Ok(())
}

/// Removes a node that has no modules, with all that is remembered of it.
pub fn remove(change: &Change<'_>, name: &str) -> Result<(), Error> {
    expect(change, name)?;
    let mut statement = change.prepare("SELECT module FROM assignments WHERE node = ?1 ORDER BY module")?;
    let assigned: Vec<String> = statement.query_map([name], |row| row.get(0))?.collect::<Result<_, _>>()?;
    if !assigned.is_empty() {
        return Err(Error::Refused(format!(
            "{name} has modules: {}: unassign and push them first",
            assigned.join(", ")
        )));
    }
    let sql = "SELECT module FROM sent WHERE node = ?1 AND bucket = ?2 AND value IS NOT NULL ORDER BY module";
    let mut statement = change.prepare(sql)?;
    let told: Vec<String> = statement
        .query_map([name, super::sent::Bucket::Assignments.name()], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    if !told.is_empty() {
        return Err(Error::Refused(format!(
            "{name} was told to run {}, and was not told to stop: push first, or its machine runs them for ever",
            told.join(", ")
        )));
    }
    change.execute("DELETE FROM reports WHERE node = ?1", [name])?;
    change.execute("DELETE FROM settings WHERE node = ?1", [name])?;
    change.execute("DELETE FROM nodes WHERE name = ?1", [name])?;
    change.execute(
        "INSERT INTO leaving (node, since, act) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![name, change.at, change.act],
    )?;
    Ok(())
}

/// The nodes that were removed and may still have keys in the buckets that nodes write: the first 16, since each is a right
/// more.
pub fn leaving(connection: &Connection) -> Result<BTreeSet<String>, Error> {
    let mut statement = connection.prepare("SELECT node FROM leaving ORDER BY node LIMIT 16")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Nothing of a node that was removed is left on the bus.
pub fn has_left(change: &Change<'_>, name: &str) -> Result<(), Error> {
    change.execute("DELETE FROM leaving WHERE node = ?1", [name])?;
    Ok(())
}

/// A path that the operator provides on a node.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Access {
    /// The node.
    pub node: String,
    /// The name that manifests have for it.
    pub name: String,
    /// The path.
    pub path: String,
    /// The act that set it.
    pub act: i64,
}

/// Every path that the operator provides.
pub fn accesses(connection: &Connection) -> Result<Vec<Access>, Error> {
    let mut statement =
        connection.prepare("SELECT node, name, path, act FROM accesses ORDER BY node, name")?;
    let rows = statement.query_map([], |row| {
        Ok(Access { node: row.get(0)?, name: row.get(1)?, path: row.get(2)?, act: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Says which path an access is on a node.
pub fn set_access(change: &Change<'_>, node: &str, name: &str, path: &str) -> Result<(), Error> {
    expect(change, node)?;
    mesh_model::plain_name::check(name).map_err(Error::Refused)?;
    let _: mesh_model::resource::AbsolutePath =
        path.parse().map_err(|why| Error::Refused(format!("the path {why}")))?;
    change.execute(
        "INSERT INTO accesses (node, name, path, act) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET path = excluded.path, act = excluded.act",
        params![node, name, path, change.act],
    )?;
    Ok(())
}

/// The newest report of a node: what it wrote, and when it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// When the bus stored it, or when it arrived.
    pub at: Moment,
    /// Its sequence in the bucket.
    pub revision: u64,
    /// The report as it was written.
    pub body: Vec<u8>,
}

/// The newest report of each node.
pub fn reports(connection: &Connection) -> Result<BTreeMap<String, Heard>, Error> {
    let mut statement = connection.prepare("SELECT node, at, revision, body FROM reports")?;
    let rows = statement.query_map([], |row| {
        let heard = Heard { at: row.get(1)?, revision: row.get(2)?, body: row.get(3)? };
        Ok((row.get(0)?, heard))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Keeps the newest report of a node; whether it was news. Reports of nodes that are not known are not kept.
pub fn note_report(change: &Change<'_>, node: &str, heard: &Heard) -> Result<bool, Error> {
    let known = change.execute(
        "INSERT INTO reports (node, at, revision, body)
         SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM nodes WHERE name = ?1)
         ON CONFLICT DO UPDATE SET at = excluded.at, revision = excluded.revision, body = excluded.body
         WHERE excluded.revision <> reports.revision",
        params![node, heard.at, heard.revision, heard.body],
    )?;
    Ok(known > 0)
}
