//! `nodes`: how many keys each node has, and when it last wrote. A node that has not written lately may still be
//! healthy.

use super::{Aggregate, Row, Time, beginning, name_at, next_in, row_of};
use mesh_model::bucket::Bucket;
use mesh_model::name;
use mesh_provisioner_api::request::Ask;
use mesh_service::json::json;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A row for each node.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    rows: BTreeMap<Box<str>, Node>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Node {
    needs: u32,
    applied: u32,
    collect: u32,
    malformed: u32,
    last_write: Option<Time>,
}

#[derive(Serialize)]
struct Entry {
    node: String,
    needs: u32,
    applied: u32,
    collect: u32,
    malformed: u32,
    last_write_at: Option<Time>,
    age_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<bool>,
}

impl Aggregate for Nodes {
    fn buckets(&self) -> &'static [Bucket] {
        &Bucket::OF_NODES
    }

    fn take(&mut self, bucket: Bucket, key: &str, _names: &[String], at: Time, deleted: bool) {
        let row = row_of(&mut self.rows, beginning(key, 1), &mut self.bytes);
        // A deletion is a write, too.
        Time::keep_later(&mut row.last_write, at);
        let keys = match bucket {
            Bucket::Applied => &mut row.applied,
            Bucket::Collect => &mut row.collect,
            _ => &mut row.needs,
        };
        *keys += u32::from(!deleted);
    }

    fn take_malformed(&mut self, key: &str) {
        // The first token names the writer, because a node may write only below its own token.
        let token = beginning(key, 1);
        if name::decode(token).is_ok() {
            row_of(&mut self.rows, token, &mut self.bytes).malformed += 1;
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn next(&self, after: Option<&str>) -> Option<&str> {
        next_in(&self.rows, after)
    }

    fn row(&self, place: &str, ask: &Ask, now: Duration) -> Option<Box<dyn Row + '_>> {
        let row = self.rows.get(place)?;
        let age_seconds = row.last_write.map(|at| now.as_secs().saturating_sub(at.seconds()));
        Some(Box::new(Entry {
            node: name_at(place, 0),
            needs: row.needs,
            applied: row.applied,
            collect: row.collect,
            malformed: row.malformed,
            last_write_at: row.last_write,
            age_seconds,
            stale: ask.stale_after.map(|limit| age_seconds.is_none_or(|age| age > limit)),
        }))
    }
}

impl Row for Entry {
    fn is_ok(&self) -> bool {
        self.stale != Some(true) && self.malformed == 0
    }

    fn to_json(&self) -> String {
        json(self)
    }
}
