//! `nodes`: how much each node has written and when last. A last write says nothing of whether the node lives:
//! silence is not death.

use super::{Aggregate, Row, Time, place};
use crate::wire::request::Ask;
use mesh_model::bucket::Bucket;
use mesh_model::name;
use mesh_service::json::json;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A row for each node.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeMap<String, Node>);

#[derive(Debug, Default)]
struct Node {
    name: String,
    needs: usize,
    applied: usize,
    collect: usize,
    malformed: usize,
    last_write: Option<Time>,
}

impl Nodes {
    fn row(&mut self, name: &str) -> &mut Node {
        self.0.entry(place(&[name])).or_insert_with(|| Node { name: name.to_owned(), ..Node::default() })
    }
}

impl Aggregate for Nodes {
    fn buckets(&self) -> &'static [Bucket] {
        &Bucket::OF_NODES
    }

    fn take(&mut self, bucket: Bucket, names: &[String], at: Time, deleted: bool) {
        let row = self.row(&names[0]);
        // To delete is to write, too.
        Time::keep_later(&mut row.last_write, at);
        let keys = match bucket {
            Bucket::Applied => &mut row.applied,
            Bucket::Collect => &mut row.collect,
            _ => &mut row.needs,
        };
        *keys += usize::from(!deleted);
    }

    fn take_malformed(&mut self, key: &str) {
        // The first token says who wrote it, since a node may write below its own alone.
        let token = key.split('.').next().unwrap_or_default();
        if let Ok(node) = name::decode(token) {
            self.row(&node).malformed += 1;
        }
    }

    fn rows(&mut self, ask: &Ask, now: Duration) -> Vec<Row> {
        #[derive(Serialize)]
        struct Entry<'a> {
            node: &'a str,
            needs: usize,
            applied: usize,
            collect: usize,
            malformed: usize,
            last_write_at: Option<Time>,
            age_seconds: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            stale: Option<bool>,
        }
        let rows = std::mem::take(&mut self.0).into_iter();
        rows.map(|(place, row)| {
            let age_seconds = row.last_write.map(|Time(at)| {
                let written = u64::try_from(at.unix_timestamp()).unwrap_or(0);
                now.as_secs().saturating_sub(written)
            });
            let stale = ask.stale_after.map(|limit| age_seconds.is_none_or(|age| age > limit));
            let entry = Entry {
                node: &row.name,
                needs: row.needs,
                applied: row.applied,
                collect: row.collect,
                malformed: row.malformed,
                last_write_at: row.last_write,
                age_seconds,
                stale,
            };
            Row { json: json(&entry), ok: stale != Some(true) && row.malformed == 0, place }
        })
        .collect()
    }
}
