//! What was composed last, by node, so that `status` need not compose it again. Dropping it
//! changes nothing.

use super::Error;
use rusqlite::{Connection, OptionalExtension, params};

/// What tells one state of the records from every other: how often they were touched, and the newest act of the identity.
/// Triggers count; what a machine reports of itself is not among it.
pub fn version(inventory: &Connection, identity: &Connection) -> Result<(i64, i64), Error> {
    let touched = inventory.query_row("SELECT count FROM touched", [], |row| row.get(0))?;
    let act: Option<i64> = identity.query_row("SELECT max(id) FROM acts", [], |row| row.get(0))?;
    Ok((touched, act.unwrap_or(0)))
}

/// What was kept under that name.
pub fn get(inventory: &Connection, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let sql = "SELECT body FROM standing WHERE name = ?1";
    Ok(inventory.query_row(sql, [name], |row| row.get(0)).optional()?)
}

/// Keeps it under that name, instead of every other.
pub fn put(inventory: &Connection, name: &str, body: &[u8]) -> Result<(), Error> {
    inventory.execute(
        "INSERT INTO standing (one, name, body) VALUES (1, ?1, ?2)
         ON CONFLICT DO UPDATE SET name = excluded.name, body = excluded.body",
        params![name, body],
    )?;
    Ok(())
}
