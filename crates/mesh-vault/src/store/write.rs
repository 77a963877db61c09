//! Writing: one transaction for each task.

use super::read::integer;
use super::{KEEP_IDS, Store};
use crate::holdings::{Held, List, Seen};
use crate::place::Place;
use crate::task::{Failure, Once};
use mesh_model::sealed::Sealed;
use rusqlite::{Transaction, TransactionBehavior};

/// A secret with its sealed copies, as it is kept.
#[derive(Debug)]
pub struct Row {
    /// Its place.
    pub place: Place,
    /// Its revision.
    pub revision: u64,
    /// What is told of it.
    pub held: Held,
    /// The node's copy.
    pub sealed: Sealed,
    /// The operator's copy.
    pub recovery: Option<Sealed>,
    /// The provider's copy of a credential.
    pub for_provider: Option<Sealed>,
}

impl Store {
    fn begin(&mut self) -> Result<Transaction<'_>, rusqlite::Error> {
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// Keeps a secret.
    pub fn keep(&mut self, row: &Row, once: Option<&Once>) -> Result<(), Failure> {
        let transaction = self.begin()?;
        if let Some(once) = once {
            use_id(&transaction, once)?;
        }
        insert(&transaction, row)?;
        Ok(transaction.commit()?)
    }

    /// Keeps a list and its new credentials.
    pub fn keep_list(&mut self, place: &Place, list: &List, rows: &[Row]) -> Result<(), Failure> {
        let transaction = self.begin()?;
        for row in rows {
            insert(&transaction, row)?;
        }
        let Place { node, module, name } = place;
        transaction.execute(
            "INSERT INTO lists VALUES (?1, ?2, ?3, ?4) ON CONFLICT (node, module, name) DO UPDATE SET revision = excluded.revision",
            (node, module, name, integer(list.revision)),
        )?;
        transaction.execute(
            "DELETE FROM members WHERE list_node = ?1 AND list_module = ?2 AND list_name = ?3",
            (node, module, name),
        )?;
        let members = list.members.iter().map(|(consumer, revision)| (consumer, Some(integer(*revision))));
        let all = members.chain(list.left_out.iter().map(|consumer| (consumer, None)));
        for (at, (consumer, revision)) in (0i64..).zip(all) {
            transaction.execute(
                "INSERT INTO members VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                (node, module, name, at, &consumer.node, &consumer.module, &consumer.name, revision),
            )?;
        }
        Ok(transaction.commit()?)
    }

    /// Forgets older revisions of a secret.
    pub fn forget(&mut self, place: &Place, before: u64) -> Result<(), Failure> {
        let delete = "DELETE FROM secrets WHERE node = ?1 AND module = ?2 AND name = ?3 AND revision < ?4";
        self.connection.execute(delete, (&place.node, &place.module, &place.name, integer(before)))?;
        Ok(())
    }

    /// Remembers what was seen of nodes.
    pub fn remember(&mut self, mesh: Option<&str>, nodes: &[(String, Seen)]) -> Result<(), Failure> {
        let transaction = self.begin()?;
        if let Some(mesh) = mesh {
            transaction.execute(
                "INSERT INTO settings VALUES ('mesh', ?1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                [mesh],
            )?;
        }
        for (node, Seen { epoch, sealing, sequence }) in nodes {
            transaction.execute(
                "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4) ON CONFLICT (node) DO UPDATE SET
                 epoch = max(epoch, excluded.epoch), sealing = excluded.sealing, sequence = max(sequence, excluded.sequence)",
                (node, integer(*epoch), sealing.as_ref().map(ToString::to_string), integer(*sequence)),
            )?;
        }
        Ok(transaction.commit()?)
    }

    /// Uses the id of a request that changes nothing.
    pub fn use_id(&mut self, once: &Once) -> Result<(), Failure> {
        let transaction = self.begin()?;
        use_id(&transaction, once)?;
        Ok(transaction.commit()?)
    }
}

fn use_id(transaction: &Transaction<'_>, once: &Once) -> Result<(), Failure> {
    transaction
        .execute("DELETE FROM requests WHERE at < ?1", [integer(once.now.saturating_sub(KEEP_IDS))])?;
    let used = transaction.execute(
        "INSERT INTO requests VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        (&once.id, integer(once.now)),
    )?;
    if used == 1 { Ok(()) } else { Err(Failure::UsedId) }
}

fn insert(transaction: &Transaction<'_>, row: &Row) -> Result<(), rusqlite::Error> {
    let Row { place, revision, held, sealed, recovery, for_provider } = row;
    let provider = held.provider.as_ref();
    transaction.execute(
        "INSERT INTO secrets VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        rusqlite::params![
            place.node,
            place.module,
            place.name,
            integer(*revision),
            held.origin.as_str(),
            held.key.as_str(),
            sealed.to_string(),
            held.recovery.as_ref().map(ToString::to_string),
            recovery.as_ref().map(ToString::to_string),
            provider.map(|provider| &provider.list.node),
            provider.map(|provider| &provider.list.module),
            provider.map(|provider| &provider.list.name),
            provider.map(|provider| provider.key.as_str()),
            provider.map(|provider| integer(provider.since)),
            for_provider.as_ref().map(ToString::to_string),
        ],
    )?;
    Ok(())
}
