//! `drift`: what is applied, compared with what is needed, by the server's times.

use super::{Aggregate, Row, Time, beginning, name_at, next_in, row_of};
use mesh_model::bucket::Bucket;
use mesh_model::need_state::says_no_needs;
use mesh_provisioner_api::request::Ask;
use mesh_service::json::json;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A row for each node and module.
#[derive(Debug, Default)]
pub(super) struct Drift {
    rows: BTreeMap<Box<str>, Standing>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Standing {
    needs: u32,
    needed_at: Option<Time>,
    applied_at: Option<Time>,
    /// What is applied says that the module has no needs.
    needs_nothing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It has needs, and nothing was ever applied.
    Never,
    /// A need was written after the last apply.
    Unapplied,
    /// It is applied and has no needs, and what is applied does not say so.
    Orphan,
    /// None of these.
    Current,
}

impl Standing {
    fn state(&self) -> State {
        match (&self.needed_at, &self.applied_at) {
            (None, Some(_)) if self.needs_nothing => State::Current,
            (None, _) => State::Orphan,
            (Some(_), None) => State::Never,
            (Some(needed), Some(applied)) if needed > applied => State::Unapplied,
            _ => State::Current,
        }
    }
}

#[derive(Serialize)]
struct Entry {
    node: String,
    module: String,
    state: State,
    needs: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    needed_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_at: Option<Time>,
}

impl Aggregate for Drift {
    fn buckets(&self) -> &'static [Bucket] {
        &[Bucket::Needs, Bucket::Applied]
    }

    fn reads_values(&self, bucket: Bucket) -> bool {
        bucket == Bucket::Applied
    }

    fn wants_value(&self, key: &str) -> bool {
        self.rows.get(beginning(key, 2)).is_some_and(|row| row.needs == 0)
    }

    fn take_value(&mut self, key: &str, value: &[u8]) {
        let row = self.rows.get_mut(beginning(key, 2));
        if let Some(row) = row.filter(|row| row.needs == 0) {
            row.needs_nothing = says_no_needs(value);
        }
    }

    fn take(&mut self, bucket: Bucket, key: &str, _names: &[String], at: Time, deleted: bool) {
        if deleted {
            return;
        }
        let row = row_of(&mut self.rows, beginning(key, 2), &mut self.bytes);
        if bucket == Bucket::Needs {
            row.needs += 1;
            Time::keep_later(&mut row.needed_at, at);
        } else {
            row.applied_at = Some(at);
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn next(&self, after: Option<&str>) -> Option<&str> {
        next_in(&self.rows, after)
    }

    fn row(&self, place: &str, _ask: &Ask, _now: Duration) -> Option<Box<dyn Row + '_>> {
        Some(Box::new((self.rows.get_key_value(place)?.0.as_ref(), &self.rows[place])))
    }
}

impl Row for (&str, &Standing) {
    fn is_ok(&self) -> bool {
        self.1.state() == State::Current
    }

    fn to_json(&self) -> String {
        let (place, row) = self;
        json(&Entry {
            node: name_at(place, 0),
            module: name_at(place, 1),
            state: row.state(),
            needs: row.needs,
            needed_at: row.needed_at,
            applied_at: row.applied_at,
        })
    }
}
