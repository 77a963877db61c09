//! Reading: all holdings at the start, and sealed copies when they are given.

use super::{Store, Unusable};
use crate::holdings::{Held, HeldByProvider, Holdings, List, Seen};
use crate::place::Place;
use crate::task::Failure;
use mesh_model::assignment::Consumer;
use mesh_model::name;
use mesh_model::sealed::Sealed;
use mesh_model::vault_api::{RecoveryCopy, SealedConsumer};
use rusqlite::{OptionalExtension, Row};
use std::str::FromStr;

impl Store {
    /// All that the machine has to know.
    pub fn holdings(&self) -> Result<Holdings, Unusable> {
        let mut holdings = Holdings { mesh: self.setting("mesh")?, ..Holdings::default() };
        let connection = &self.connection;
        let mut secrets = connection.prepare(
            "SELECT node, module, name, revision, origin, key, recovery_key, list_node, list_module, list_name, list_key, list_since FROM secrets",
        )?;
        let mut rows = secrets.query([])?;
        while let Some(row) = rows.next()? {
            let revision = number(row, 3)?;
            holdings.secrets.entry(place(row, 0)?).or_default().insert(revision, held(row)?);
        }
        let mut lists = connection.prepare("SELECT node, module, name, revision FROM lists")?;
        let mut rows = lists.query([])?;
        while let Some(row) = rows.next()? {
            let list = List { revision: number(row, 3)?, ..List::default() };
            holdings.lists.insert(place(row, 0)?, list);
        }
        let mut members = connection.prepare(
            "SELECT list_node, list_module, list_name, node, module, name, revision FROM members ORDER BY list_node, list_module, list_name, place",
        )?;
        let mut rows = members.query([])?;
        while let Some(row) = rows.next()? {
            let Some(list) = holdings.lists.get_mut(&place(row, 0)?) else { continue };
            let consumer = Consumer { node: row.get(3)?, module: row.get(4)?, name: row.get(5)? };
            match row.get::<_, Option<i64>>(6)? {
                Some(_) => list.members.push((consumer, number(row, 6)?)),
                None => list.left_out.push(consumer),
            }
        }
        let mut nodes = connection.prepare("SELECT node, epoch, sealing, sequence FROM nodes")?;
        let mut rows = nodes.query([])?;
        while let Some(row) = rows.next()? {
            let sealing = row.get::<_, Option<String>>(2)?.map(|key| parse(&key)).transpose()?;
            let seen = Seen { epoch: number(row, 1)?, sealing, sequence: number(row, 3)? };
            holdings.nodes.insert(row.get(0)?, seen);
        }
        Ok(holdings)
    }

    /// The node's copy of a secret.
    pub fn copy(&self, place: &Place, revision: u64) -> Result<Sealed, Failure> {
        let get =
            "SELECT sealed FROM secrets WHERE node = ?1 AND module = ?2 AND name = ?3 AND revision = ?4";
        self.sealed(get, place, revision)
    }

    /// The provider's copies of a list's members, in their order.
    pub fn copies(&self, members: &[(Consumer, u64)]) -> Result<Vec<SealedConsumer>, Failure> {
        let get =
            "SELECT list_sealed FROM secrets WHERE node = ?1 AND module = ?2 AND name = ?3 AND revision = ?4";
        let copy = |(of, revision): &(Consumer, u64)| {
            let sealed = self.sealed(get, &Place::of_consumer(of), *revision)?;
            Ok(SealedConsumer { of: of.clone(), sealed })
        };
        members.iter().map(copy).collect()
    }

    fn sealed(&self, get: &str, place: &Place, revision: u64) -> Result<Sealed, Failure> {
        let found: Option<Option<String>> = self
            .connection
            .prepare_cached(get)?
            .query_row((&place.node, &place.module, &place.name, integer(revision)), |row| row.get(0))
            .optional()?;
        let text = found.flatten().ok_or(Failure::Absent)?;
        text.parse().map_err(|why| Failure::Store(format!("the copy of {place}, revision {revision}, {why}")))
    }

    /// A page of recovery copies after `after`, of up to `bytes`, but one at least; and where the next begins.
    pub fn recovery_copies(
        &self,
        mesh: &str,
        after: Option<&str>,
        bytes: usize,
    ) -> Result<(Vec<RecoveryCopy>, Option<String>), Failure> {
        let after = match after {
            None => Cursor::default(),
            Some(text) => {
                Cursor::read(text).ok_or_else(|| Failure::Value("name is not a place of a page".into()))?
            }
        };
        let mut statement = self.connection.prepare_cached(
            "SELECT node, module, name, revision, recovery FROM secrets WHERE recovery IS NOT NULL
             AND (node, module, name, revision) > (?1, ?2, ?3, ?4) ORDER BY node, module, name, revision",
        )?;
        let Place { node, module, name } = &after.place;
        let mut rows = statement.query((node, module, name, integer(after.revision)))?;
        let (mut copies, mut room): (Vec<RecoveryCopy>, usize) = (Vec::new(), bytes);
        while let Some(row) = rows.next()? {
            let (place, revision) = (place(row, 0)?, number(row, 3)?);
            let text: String = row.get(4)?;
            let size = text.len() + place.key().len() + mesh.len() + 160;
            if size > room
                && let Some(last) = copies.last()
            {
                let place = Place::new(&last.node, &last.module, &last.name);
                return Ok((copies.clone(), Some(Cursor { place, revision: last.revision }.write())));
            }
            room = room.saturating_sub(size);
            let sealed =
                text.parse().map_err(|why| Failure::Store(format!("the second copy of {place} {why}")))?;
            let Place { node, module, name } = place;
            copies.push(RecoveryCopy {
                mesh: mesh.to_owned(),
                node,
                module,
                kind: "secret".to_owned(),
                name,
                revision,
                sealed,
            });
        }
        Ok((copies, None))
    }

    /// How many secrets, revisions of them, recovery copies and lists there are.
    pub fn counts(&self) -> Result<[u64; 4], Unusable> {
        let count = |sql: &str| self.connection.query_row(sql, [], |row| number(row, 0));
        Ok([
            count("SELECT count(*) FROM (SELECT DISTINCT node, module, name FROM secrets)")?,
            count("SELECT count(*) FROM secrets")?,
            count("SELECT count(*) FROM secrets WHERE recovery IS NOT NULL")?,
            count("SELECT count(*) FROM lists")?,
        ])
    }

    /// What `SQLite` finds wrong with the file.
    pub fn faults(&self) -> Result<Vec<String>, Unusable> {
        let mut check = self.connection.prepare("PRAGMA quick_check(8)")?;
        let words = check.query_map([], |row| row.get::<_, String>(0))?;
        let words: Vec<String> = words.collect::<Result<_, _>>()?;
        Ok(words.into_iter().filter(|word| word != "ok").collect())
    }
}

/// A place in the order of recovery copies.
#[derive(Debug)]
struct Cursor {
    place: Place,
    revision: u64,
}

impl Default for Cursor {
    fn default() -> Self {
        Cursor { place: Place::new("", "", ""), revision: 0 }
    }
}

impl Cursor {
    fn write(&self) -> String {
        format!("{}.{}", self.place.key(), self.revision)
    }

    fn read(text: &str) -> Option<Cursor> {
        let (key, revision) = text.rsplit_once('.')?;
        let mut tokens = key.split('.').map(name::decode);
        let mut next = || tokens.next()?.ok();
        let place = Place { node: next()?, module: next()?, name: next()? };
        Some(Cursor { place, revision: revision.parse().ok()? })
    }
}

fn place(row: &Row<'_>, first: usize) -> Result<Place, rusqlite::Error> {
    Ok(Place { node: row.get(first)?, module: row.get(first + 1)?, name: row.get(first + 2)? })
}

fn held(row: &Row<'_>) -> Result<Held, rusqlite::Error> {
    let recovery = row.get::<_, Option<String>>(6)?.map(|key| parse(&key)).transpose()?;
    let provider = match row.get::<_, Option<String>>(7)? {
        None => None,
        Some(_) => Some(HeldByProvider {
            list: place(row, 7)?,
            key: parse(&row.get::<_, String>(10)?)?,
            since: number(row, 11)?,
        }),
    };
    Ok(Held {
        origin: parse(&row.get::<_, String>(4)?)?,
        key: parse(&row.get::<_, String>(5)?)?,
        recovery,
        provider,
    })
}

fn parse<T: FromStr<Err = String>>(text: &str) -> Result<T, rusqlite::Error> {
    text.parse().map_err(|why: String| rusqlite::Error::ToSqlConversionFailure(why.into()))
}

fn number(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// A number as `SQLite` has it.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
