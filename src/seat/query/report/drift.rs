//! `drift`: how far what is applied is behind what is needed, by the bus's own times.

use super::{Aggregate, Row, Time, place};
use crate::wire::request::Ask;
use mesh_model::bucket::Bucket;
use mesh_service::json::json;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A row for each node and module.
#[derive(Debug, Default)]
pub(super) struct Drift(BTreeMap<String, Standing>);

#[derive(Debug)]
struct Standing {
    node: String,
    module: String,
    needs: usize,
    needed_at: Option<Time>,
    applied_at: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// There are needs, and nothing was ever applied.
    Never,
    /// A need was written after the last apply.
    Unapplied,
    /// Something is applied, and nothing is needed.
    Orphan,
    /// What is applied is as new as what is needed.
    Current,
}

impl Standing {
    fn state(&self) -> State {
        match (&self.needed_at, &self.applied_at) {
            (None, _) => State::Orphan,
            (Some(_), None) => State::Never,
            (Some(needed), Some(applied)) if needed > applied => State::Unapplied,
            _ => State::Current,
        }
    }
}

impl Aggregate for Drift {
    fn buckets(&self) -> &'static [Bucket] {
        &[Bucket::Needs, Bucket::Applied]
    }

    fn take(&mut self, bucket: Bucket, names: &[String], at: Time, deleted: bool) {
        if deleted {
            return;
        }
        let (node, module) = (&names[0], &names[1]);
        let row = self.0.entry(place(&[node, module])).or_insert_with(|| Standing {
            node: node.clone(),
            module: module.clone(),
            needs: 0,
            needed_at: None,
            applied_at: None,
        });
        if bucket == Bucket::Needs {
            row.needs += 1;
            Time::keep_later(&mut row.needed_at, at);
        } else {
            row.applied_at = Some(at);
        }
    }

    fn rows(&mut self, _ask: &Ask, _now: Duration) -> Vec<Row> {
        #[derive(Serialize)]
        struct Entry<'a> {
            node: &'a str,
            module: &'a str,
            state: State,
            needs: usize,
            #[serde(skip_serializing_if = "Option::is_none")]
            needed_at: Option<Time>,
            #[serde(skip_serializing_if = "Option::is_none")]
            applied_at: Option<Time>,
        }
        let rows = std::mem::take(&mut self.0).into_iter();
        rows.map(|(place, row)| {
            let state = row.state();
            let entry = Entry {
                node: &row.node,
                module: &row.module,
                state,
                needs: row.needs,
                needed_at: row.needed_at,
                applied_at: row.applied_at,
            };
            Row { json: json(&entry), ok: state == State::Current, place }
        })
        .collect()
    }
}
