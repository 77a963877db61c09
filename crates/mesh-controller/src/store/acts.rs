//! Who did what, when and why: one row for each command that changes something, in the transaction of its change.

use super::{Error, Moment};
use rusqlite::{Connection, params};

/// An act that is about to be done.
#[derive(Debug, Clone, Copy)]
pub struct Act<'a> {
    /// When.
    pub at: Moment,
    /// Who: the account on the machine.
    pub who: &'a str,
    /// The command, such as `assign`.
    pub command: &'a str,
    /// Its words, without any secret.
    pub what: &'a str,
    /// Why, in the words of `--why`.
    pub why: Option<&'a str>,
}

/// An act that was done.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Done {
    /// Its number within its file.
    pub id: i64,
    /// When, in milliseconds since 1970.
    pub at: Moment,
    /// Who.
    pub who: String,
    /// The command.
    pub command: String,
    /// Its words.
    pub what: String,
    /// Why.
    pub why: Option<String>,
}

pub(super) fn write(connection: &Connection, act: &Act<'_>) -> Result<i64, Error> {
    connection.execute(
        "INSERT INTO acts (at, who, command, what, why) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![act.at, act.who, act.command, act.what, act.why],
    )?;
    Ok(connection.last_insert_rowid())
}

/// What was done since `from`, the oldest first.
pub fn since(connection: &Connection, from: Moment) -> Result<Vec<Done>, Error> {
    let mut statement = connection
        .prepare("SELECT id, at, who, command, what, why FROM acts WHERE at >= ?1 ORDER BY at, id")?;
    let rows = statement.query_map([from], |row| {
        Ok(Done {
            id: row.get(0)?,
            at: row.get(1)?,
            who: row.get(2)?,
            command: row.get(3)?,
            what: row.get(4)?,
            why: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
