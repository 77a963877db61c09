//! `collections`: the contributors of each collection of a node, and the modules that read it.

use super::{Aggregate, Row, Time, beginning, name_at, row_bytes};
use mesh_model::bucket::Bucket;
use mesh_model::name;
use mesh_provisioner_api::request::Ask;
use mesh_service::json::json;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

/// A row for each node and collection.
#[derive(Debug, Default)]
pub(super) struct Collections {
    /// What each key says, as `place`, [`CONTRIBUTES`] or [`READS`], and the token of a module: there may be a hundred
    /// thousand, most of them the only one of their row.
    said: BTreeSet<Box<str>>,
    bytes: usize,
}

/// Control characters, which no token holds: they sort before all that do.
const CONTRIBUTES: char = '\u{1}';
const READS: char = '\u{2}';
const BEHIND: char = '\u{3}';

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It has contributors and readers.
    Read,
    /// No need of the node reads it.
    Unread,
    /// It is read and has no contributor.
    Unfed,
}

#[derive(Serialize)]
struct Entry {
    node: String,
    collection: String,
    contributors: BTreeSet<String>,
    readers: BTreeSet<String>,
    state: State,
}

/// The collection that a need of `kind` called `name` reads, if any.
fn collection_read(kind: &str, name: &str) -> Option<String> {
    match kind {
        "collected" => Some(name.to_owned()),
        "shell" | "environment" | "contribution" => Some(format!("{kind}:{name}")),
        _ => None,
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

    fn take(&mut self, bucket: Bucket, key: &str, names: &[String], _at: Time, deleted: bool) {
        if deleted {
            return;
        }
        let token = |position| key.split('.').nth(position).unwrap_or_default();
        let said = if bucket == Bucket::Collect {
            format!("{}{CONTRIBUTES}{}", beginning(key, 2), token(2))
        } else if let Some(read) = collection_read(&names[2], &names[3]) {
            format!("{}.{}{READS}{}", token(0), name::encode(&read), token(1))
        } else {
            return;
        };
        let bytes = row_bytes(&said, 0);
        if self.said.insert(said.into()) {
            self.bytes += bytes;
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn next(&self, after: Option<&str>) -> Option<&str> {
        let entries_after = after.map(|after| format!("{after}{BEHIND}"));
        let from = entries_after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.said.range::<str, _>((from, Bound::Unbounded)).next()?;
        next.split([CONTRIBUTES, READS]).next()
    }

    fn row(&self, place: &str, ask: &Ask, _now: Duration) -> Option<Box<dyn Row + '_>> {
        let (from, to) = (format!("{place}{CONTRIBUTES}"), format!("{place}{BEHIND}"));
        let (mut contributors, mut readers) = (BTreeSet::new(), BTreeSet::new());
        for said in self.said.range::<str, _>((Bound::Included(&*from), Bound::Excluded(&*to))) {
            let (names, token) = match said.split_once(CONTRIBUTES) {
                Some((_, token)) => (&mut contributors, token),
                None => (&mut readers, said.split_once(READS)?.1),
            };
            names.insert(name::decode(token).unwrap_or_default());
        }
        let is_shown =
            |module: &String| contributors.contains(module.as_str()) || readers.contains(module.as_str());
        if !ask.module.as_ref().is_none_or(is_shown) {
            return None;
        }
        let state = match (contributors.is_empty(), readers.is_empty()) {
            (_, true) => State::Unread,
            (true, false) => State::Unfed,
            (false, false) => State::Read,
        };
        let (node, collection) = (name_at(place, 0), name_at(place, 1));
        Some(Box::new(Entry { node, collection, contributors, readers, state }))
    }
}

impl Row for Entry {
    fn is_ok(&self) -> bool {
        self.state == State::Read
    }

    fn to_json(&self) -> String {
        json(self)
    }
}
