//! `collections`: who contributes to each collection of a node, and which of its modules read it.

use super::{Aggregate, Row, Time, place};
use crate::wire::request::Ask;
use mesh_model::bucket::Bucket;
use mesh_service::json::json;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A row for each node and collection.
#[derive(Debug, Default)]
pub(super) struct Collections(BTreeMap<String, Collection>);

#[derive(Debug, Default)]
struct Collection {
    node: String,
    name: String,
    contributors: BTreeSet<String>,
    readers: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// Somebody contributes and somebody reads.
    Read,
    /// No need of the node reads it.
    Unread,
    /// It is read, and nobody contributes.
    Unfed,
}

/// The collection that a need of `kind` called `name` reads, if it reads one.
fn collection_read(kind: &str, name: &str) -> Option<String> {
    match kind {
        "collected" => Some(name.to_owned()),
        "shell" | "environment" | "contribution" => Some(format!("{kind}:{name}")),
        _ => None,
    }
}

impl Collections {
    fn row(&mut self, node: &str, name: &str) -> &mut Collection {
        let new = || Collection { node: node.to_owned(), name: name.to_owned(), ..Collection::default() };
        self.0.entry(place(&[node, name])).or_insert_with(new)
    }
}

impl Aggregate for Collections {
    fn buckets(&self) -> &'static [Bucket] {
        &[Bucket::Collect, Bucket::Needs]
    }

    fn concerns(&self, bucket: Bucket, names: &[String]) -> bool {
        bucket == Bucket::Collect || collection_read(&names[2], &names[3]).is_some()
    }

    fn narrows_keys_by_module(&self) -> bool {
        false
    }

    fn take(&mut self, bucket: Bucket, names: &[String], _at: Time, deleted: bool) {
        if deleted {
            return;
        }
        let node = &names[0];
        if bucket == Bucket::Collect {
            self.row(node, &names[1]).contributors.insert(names[2].clone());
        } else if let Some(name) = collection_read(&names[2], &names[3]) {
            self.row(node, &name).readers.insert(names[1].clone());
        }
    }

    fn rows(&mut self, ask: &Ask, _now: Duration) -> Vec<Row> {
        #[derive(Serialize)]
        struct Entry<'a> {
            node: &'a str,
            collection: &'a str,
            contributors: &'a BTreeSet<String>,
            readers: &'a BTreeSet<String>,
            state: State,
        }
        let concerns = |row: &Collection| {
            ask.module
                .as_ref()
                .is_none_or(|module| row.contributors.contains(module) || row.readers.contains(module))
        };
        let rows = std::mem::take(&mut self.0).into_iter().filter(|(_, row)| concerns(row));
        rows.map(|(place, row)| {
            let state = match (row.contributors.is_empty(), row.readers.is_empty()) {
                (_, true) => State::Unread,
                (true, false) => State::Unfed,
                (false, false) => State::Read,
            };
            let entry = Entry {
                node: &row.node,
                collection: &row.name,
                contributors: &row.contributors,
                readers: &row.readers,
                state,
            };
            Row { json: json(&entry), ok: state == State::Read, place }
        })
        .collect()
    }
}
