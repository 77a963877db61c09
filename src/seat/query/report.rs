//! The queries that no single bucket answers: `drift`, `nodes` and `collections`. Each reads the buckets that it
//! needs one after the other, and keeps a row for each thing that it speaks of. When a key was written last is all that
//! it wants to know; values are read only where there is no other way.

mod collections;
mod drift;
mod nodes;

use super::key_filter::KeyFilter;
use crate::seat::call::{Budget, Call, Tag};
use crate::seat::failure::{Cause, Refusal};
use crate::seat::query::context::QueryContext;
use crate::seat::read::bucket_reader::{BucketReader, Step};
use crate::seat::read::cache::{Entry, Standing, words};
use crate::wire::answer::{AsOf, MAX_MALFORMED_LISTED, MalformedEntry, Page};
use crate::wire::request::{Ask, MAX_LIMIT, What};
use mesh_jetstream::direct_get::Part;
use mesh_model::bucket::Bucket;
use mesh_service::json::json;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;
use time::OffsetDateTime;

/// A report of several buckets.
#[derive(Debug)]
pub(in crate::seat) struct Report {
    ask: Ask,
    context: QueryContext,
    reader: Option<BucketReader>,
    to_read: VecDeque<Bucket>,
    aggregate: Box<dyn Aggregate>,
    as_of: BTreeMap<&'static str, AsOf>,
    malformed: Malformed,
    /// Whether there are keys that have not been counted yet.
    busy: bool,
    pub(super) outcome: Option<Result<String, Refusal>>,
}

/// What a report counts.
trait Aggregate: fmt::Debug + Send {
    /// The buckets that it reads, in order.
    fn buckets(&self) -> &'static [Bucket];

    /// Whether a key with these names makes a difference.
    fn concerns(&self, _bucket: Bucket, _names: &[String]) -> bool {
        true
    }

    /// Whether a module's name narrows which keys are read, or only which rows are shown.
    fn narrows_keys_by_module(&self) -> bool {
        true
    }

    /// Takes a key that is there, or, if `deleted`, the mark that it no longer is; and the time of that write.
    fn take(&mut self, bucket: Bucket, names: &[String], at: Time, deleted: bool);

    /// Takes a malformed key that is there.
    fn take_malformed(&mut self, _key: &str) {}

    /// The rows.
    fn rows(&mut self, ask: &Ask, now: Duration) -> Vec<Row>;
}

/// One entry of the answer.
#[derive(Debug)]
struct Row {
    /// Where it stands among the others, as keys are sorted.
    place: String,
    /// The entry as JSON.
    json: String,
    /// Whether it is as it should be.
    ok: bool,
}

/// A time of the bus: to compare, and to show in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Time(OffsetDateTime);

impl Time {
    /// Keeps the later of two in `latest`.
    fn keep_later(latest: &mut Option<Time>, other: Time) {
        *latest = (*latest).max(Some(other));
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&words(self.0))
    }
}

impl Report {
    pub(super) fn new(ask: Ask, context: QueryContext) -> Self {
        let aggregate: Box<dyn Aggregate> = match ask.what {
            What::Nodes => Box::new(nodes::Nodes::default()),
            What::Collections => Box::new(collections::Collections::default()),
            _ => Box::new(drift::Drift::default()),
        };
        let mut report = Report {
            ask,
            context,
            reader: None,
            to_read: aggregate.buckets().iter().copied().collect(),
            aggregate,
            as_of: BTreeMap::new(),
            malformed: Malformed::default(),
            busy: false,
            outcome: None,
        };
        report.read_next();
        report
    }

    fn read_next(&mut self) {
        self.reader = self.to_read.pop_front().map(|bucket| self.context.reader(bucket, &self.ask));
    }

    pub(super) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        self.reader.as_mut()?.next_call(budget)
    }

    pub(super) fn on_reply(&mut self, tag: Tag, body: Result<&[u8], Cause>) {
        let Some(reader) = &mut self.reader else { return };
        match reader.on_reply(tag, body) {
            Ok(()) => self.poll(),
            Err(cause) => {
                self.outcome = Some(Err(cause.refuse(reader.bucket())));
                self.reader = None;
            }
        }
    }

    pub(super) fn on_part(&mut self, tag: Tag, part: Part) -> Result<(), String> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let heard = reader.on_part(tag, part);
        self.poll();
        heard
    }

    pub(super) fn leave_bulk(&mut self, bucket: Option<Bucket>) {
        self.context.bulk.retain(|other| bucket.is_some_and(|bucket| bucket != *other));
        if let Some(reader) =
            self.reader.as_mut().filter(|reader| bucket.is_none_or(|bucket| bucket == reader.bucket()))
        {
            reader.leave_bulk();
        }
    }

    pub(super) fn waits_for_bulk(&self) -> bool {
        self.reader.as_ref().is_some_and(BucketReader::waits_for_bulk)
    }

    /// Whether there is more to do without hearing anything.
    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    pub(super) fn progress(&self) -> String {
        self.reader.as_ref().map_or_else(|| "it was just done".to_owned(), BucketReader::progress)
    }

    pub(super) fn keeps_long_list(&self) -> bool {
        self.reader.as_ref().is_some_and(BucketReader::keeps_long_list)
    }

    /// Goes on as far as what has been heard allows, for a slice.
    pub(super) fn poll(&mut self) {
        self.busy = false;
        let mut counted = 0;
        while let Some(mut reader) = self.reader.take() {
            if counted == crate::seat::query::context::SLICE {
                self.busy = true;
                self.reader = Some(reader);
                return;
            }
            let bucket = reader.bucket();
            match reader.poll() {
                Step::Waiting => {
                    self.reader = Some(reader);
                    return;
                }
                Step::Listed => {
                    reader.pick(None, usize::MAX, |key| self.concerns(bucket, key));
                    self.reader = Some(reader);
                }
                Step::Cached => {
                    reader.tell(None);
                    self.reader = Some(reader);
                }
                Step::Key(key, found) => {
                    self.take(bucket, &key, Standing::of_found(&found), found.is_gone());
                    self.reader = Some(reader);
                    counted += 1;
                }
                Step::Entry(key, Entry { standing, .. }) => {
                    if self.concerns(bucket, &key) {
                        self.take(bucket, &key, Some(standing), standing.deleted);
                    }
                    self.reader = Some(reader);
                    counted += 1;
                }
                Step::Told | Step::End => {
                    self.as_of.insert(bucket.suffix(), reader.as_of());
                    self.read_next();
                    if self.reader.is_none() {
                        self.answer();
                    }
                }
            }
        }
    }

    fn concerns(&self, bucket: Bucket, key: &str) -> bool {
        self.reach(bucket).holds(key)
            && bucket.parse(key).map_or(true, |names| self.aggregate.concerns(bucket, &names))
    }

    fn reach(&self, bucket: Bucket) -> KeyFilter {
        if self.aggregate.narrows_keys_by_module() {
            KeyFilter::new(bucket, &self.ask)
        } else {
            KeyFilter::new(bucket, &Ask { module: None, ..self.ask.clone() })
        }
    }

    fn take(&mut self, bucket: Bucket, key: &str, standing: Option<Standing>, deleted: bool) {
        match bucket.parse(key) {
            Ok(names) => {
                if let Some(Standing { at, deleted, .. }) = standing {
                    self.aggregate.take(bucket, &names, Time(at), deleted);
                }
            }
            Err(_) if deleted => {}
            Err(malformed) => {
                self.aggregate.take_malformed(key);
                let after = self.ask.after.as_deref();
                self.malformed.take(key, after, || {
                    let written = standing.map(|standing| (standing.sequence, words(standing.at)));
                    let written = written.as_ref().map(|(sequence, at)| (*sequence, at.as_str()));
                    MalformedEntry::new(key, &malformed, written).of(bucket).to_json()
                });
            }
        }
    }

    fn answer(&mut self) {
        let rows = self.aggregate.rows(&self.ask, self.context.clock);
        let ok = self.malformed.total == 0 && rows.iter().all(|row| row.ok);
        let mut page = Page::new(self.ask.limit.unwrap_or(MAX_LIMIT), self.context.page_bytes);
        let after = self.ask.after.as_deref();
        let rows = rows.into_iter().filter(|row| after.is_none_or(|after| row.place.as_str() > after));
        let mut rows = rows.peekable();
        let mut malformed = std::mem::take(&mut self.malformed.first).into_iter().peekable();
        // Both are sorted by their places. What stands at the same place goes on the same page.
        while let Some(place) = [rows.peek().map(|row| &row.place), malformed.peek().map(|(place, _)| place)]
            .into_iter()
            .flatten()
            .min()
            .cloned()
        {
            let row = rows.next_if(|row| row.place == place).map(|row| row.json);
            let here = malformed.next_if(|(other, _)| *other == place);
            let Alike { mut complaints, mut total } = here.map(|(_, alike)| alike).unwrap_or_default();
            let row_bytes = row.as_ref().map_or(0, String::len);
            let bytes =
                |complaints: &[String]| complaints.iter().map(|complaint| complaint.len() + 1).sum::<usize>();
            while !complaints.is_empty() && !page.could_hold(&place, row_bytes + 1 + bytes(&complaints)) {
                complaints.pop();
            }
            total -= complaints.len();
            if !page.add(&place, row, complaints) {
                break;
            }
            page.count_unlisted(total);
        }
        self.outcome =
            Some(Ok(page.to_json(self.ask.what, Some(ok), &json(&self.as_of), &self.context.seat)));
    }
}

/// The malformed keys of a report: all are counted, and the first that a page can list are kept.
#[derive(Debug, Default)]
struct Malformed {
    total: usize,
    /// By place. One place more than a page lists, so that the page knows that there is more.
    first: BTreeMap<String, Alike>,
}

/// Malformed keys that look the same: in several buckets, or where bytes are shown as U+FFFD.
#[derive(Debug, Default)]
struct Alike {
    complaints: Vec<String>,
    total: usize,
}

/// How many keys that look the same are listed; the others are counted.
const MAX_ALIKE: usize = 16;

impl Malformed {
    /// Takes a malformed key. It is kept if it stands behind `after` and is among the first that do.
    fn take(&mut self, key: &str, after: Option<&str>, complain: impl FnOnce() -> String) {
        self.total += 1;
        let is_behind_page = self.first.len() > MAX_MALFORMED_LISTED
            && self.first.keys().next_back().is_some_and(|last| key > last.as_str());
        if is_behind_page || after.is_some_and(|after| key <= after) {
            return;
        }
        let alike = self.first.entry(key.to_owned()).or_default();
        alike.total += 1;
        if alike.complaints.len() < MAX_ALIKE {
            alike.complaints.push(complain());
        }
        if self.first.len() > MAX_MALFORMED_LISTED + 1 {
            self.first.pop_last();
        }
    }
}

/// The place of a row that is known by these names.
fn place(names: &[&str]) -> String {
    names.iter().map(|name| mesh_model::name::encode(name)).collect::<Vec<_>>().join(".")
}
