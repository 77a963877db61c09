//! What was written, and what a reader may therefore be told.
//!
//! Each key has one writer, which awaits the outcome of a write before the next one, so a key's writes have an order.
//! The exception is a write whose outcome never came: it may have been lost, or it may be stored late, after writes
//! that were sent after it.

use mesh_model::bucket::Bucket;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long after it was sent a write can still be stored: longer than a server stands still. Its connection is given
/// up long before, so nothing but the server holds it.
const LATE: Duration = Duration::from_secs(60);

/// How long writes are remembered that newer ones have replaced: longer than any answer takes.
const REMEMBERED: Duration = Duration::from_secs(60);

/// What stands under a key.
#[derive(Debug, PartialEq)]
pub(crate) enum Content {
    Json(Value),
    /// What is not JSON.
    Text(String),
}

/// All keys that were ever written.
#[derive(Default)]
pub(crate) struct Model {
    keys: Mutex<BTreeMap<(Bucket, String), VecDeque<Write>>>,
}

#[derive(Debug)]
struct Write {
    number: u64,
    /// `None` deletes the key.
    content: Option<Arc<Content>>,
    sent: Instant,
    stored: Option<Stored>,
}

/// When the bus said that a write is stored, and under which revision.
#[derive(Debug, Clone, Copy)]
struct Stored {
    at: Instant,
    revision: u64,
}

/// One thing that a reader may be told of a key.
#[derive(Debug, Clone)]
pub(crate) struct Possible {
    pub(crate) content: Option<Arc<Content>>,
    /// The number of the write, which orders it among the writes of its writer.
    pub(crate) number: u64,
    /// The revision, if the bus told it.
    pub(crate) revision: Option<u64>,
}

/// What a reader may be told of each key of a bucket; a key that is not here was never written.
pub(crate) type View = BTreeMap<String, Vec<Possible>>;

impl Model {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Bucket, String), VecDeque<Write>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a write that is about to be sent. Numbers of one writer rise.
    pub(crate) fn sent(&self, bucket: Bucket, key: &str, number: u64, content: Option<Content>) {
        let now = Instant::now();
        let mut keys = self.lock();
        let writes = keys.entry((bucket, key.to_owned())).or_default();
        while let [older, newer, ..] = writes.make_contiguous()
            && newer.stored.is_some_and(|stored| now.duration_since(stored.at) > REMEMBERED)
            && !older.may_come_behind(newer)
        {
            writes.pop_front();
        }
        writes.push_back(Write { number, content: content.map(Arc::new), sent: now, stored: None });
    }

    /// Notes that the bus has stored it.
    pub(crate) fn stored(&self, bucket: Bucket, key: &str, number: u64, revision: u64) {
        let at = Instant::now();
        let mut keys = self.lock();
        let writes = keys.get_mut(&(bucket, key.to_owned())).expect("a key that was written");
        let write = writes.iter_mut().find(|write| write.number == number).expect("a write that was sent");
        write.stored = Some(Stored { at, revision });
    }

    /// What somebody may be told who asked at `from` and had the answer at `to`.
    pub(crate) fn view(&self, bucket: Bucket, from: Instant, to: Instant) -> View {
        let keys = self.lock();
        let of_bucket = keys.range((bucket, String::new())..).take_while(|((other, _), _)| *other == bucket);
        of_bucket.map(|((_, key), writes)| (key.clone(), possible(writes, from, to))).collect()
    }
}

impl Write {
    /// Whether this older write may be stored after a `newer` one.
    fn may_come_behind(&self, newer: &Write) -> bool {
        self.stored.is_none() && self.sent + LATE > newer.sent
    }

    fn possible(&self) -> Possible {
        let revision = self.stored.map(|stored| stored.revision);
        Possible { content: self.content.clone(), number: self.number, revision }
    }
}

fn possible(writes: &VecDeque<Write>, from: Instant, to: Instant) -> Vec<Possible> {
    // The newest that was certainly there when the question was asked.
    let base = writes.iter().rposition(|write| write.stored.is_some_and(|stored| stored.at <= from));
    let mut possible = Vec::new();
    match base {
        None => possible.push(Possible { content: None, number: 0, revision: None }),
        Some(base) => {
            let late = writes.range(..base).filter(|write| write.may_come_behind(&writes[base]));
            possible.extend(late.map(Write::possible));
            possible.push(writes[base].possible());
        }
    }
    let newer = writes.range(base.map_or(0, |base| base + 1)..).filter(|write| write.sent <= to);
    possible.extend(newer.map(Write::possible));
    possible
}
