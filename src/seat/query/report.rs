//! Mesh-wide reports that join several buckets: `drift`, `nodes` and `collections`. Each reads its buckets one after
//! the other and keeps one row per result. It needs only the last write of each key; values are read only if there is
//! no other way.
//!
//! Reports that differ only in which rows they show share the work: one walk through the rows makes all their pages.

mod collections;
mod drift;
mod nodes;

use super::key_filter::KeyFilter;
use crate::seat::call::{Budget, Call, Tag};
use crate::seat::limits::MAX_ROWS_BYTES;
use crate::seat::query::context::{QueryContext, SLICE};
use crate::seat::read::bucket_reader::{BucketReader, Step};
use crate::seat::read::cache::{Entry, Standing, words};
use crate::seat::read::found::Found;
use crate::seat::read::value_reader::is_nameable;
use mesh_jetstream::direct_get::Part;
use mesh_model::bucket::{self, Bucket};
use mesh_provisioner_api::failure::{Cause, Refusal};
use mesh_provisioner_api::reason::Reason;
use mesh_provisioner_api::request::{Ask, MAX_LIMIT, What};
use mesh_provisioner_api::response::{AsOf, MAX_MALFORMED_LISTED, MalformedEntry, Page};
use mesh_service::json::json;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::mem;
use std::rc::Rc;
use std::time::Duration;
use time::OffsetDateTime;

/// A report over several buckets.
#[derive(Debug)]
pub(in crate::seat) struct Report {
    /// What is asked, whichever rows are shown.
    ask: Ask,
    context: QueryContext,
    reader: Option<BucketReader>,
    to_read: VecDeque<Bucket>,
    /// Keys of the cache whose values are needed and not cached.
    unread: Vec<String>,
    aggregate: Box<dyn Aggregate>,
    as_of: BTreeMap<&'static str, AsOf>,
    malformed_total: usize,
    pages: Vec<Shown>,
    /// Whether all that was counted is as it should be, as far as the rows have been walked through.
    ok: bool,
    /// The place of the row up to which they have been.
    walked: Option<String>,
    stage: Stage,
    outcomes: VecDeque<(usize, Result<String, Refusal>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Waiting for what is read.
    Waiting,
    /// There are keys that have not been counted yet.
    Counting,
    /// There are rows that have not been walked through yet.
    Walking,
    Done,
}

/// The page that one of those who ask is shown.
#[derive(Debug)]
struct Shown {
    after: Option<String>,
    malformed: Malformed,
    page: Page,
    is_full: bool,
}

/// What a report aggregates. Rows are known by their places: tokens as keys have them.
trait Aggregate: fmt::Debug + Send {
    /// The buckets that it reads, in order.
    fn buckets(&self) -> &'static [Bucket];

    /// Whether a key with these names counts.
    fn concerns(&self, _bucket: Bucket, _names: &[String]) -> bool {
        true
    }

    /// Whether a module filter selects the keys that are read, or only the rows that are shown.
    fn narrows_keys_by_module(&self) -> bool {
        true
    }

    /// Adds a key, or its deletion marker if `deleted`, with the time of that write.
    fn take(&mut self, bucket: Bucket, key: &str, names: &[String], at: Time, deleted: bool);

    /// Whether it also takes the values of a bucket.
    fn reads_values(&self, _bucket: Bucket) -> bool {
        false
    }

    /// Whether it needs the value of a key of such a bucket that was taken before.
    fn wants_value(&self, _key: &str) -> bool {
        false
    }

    /// Takes the value of a key that was taken before and is not deleted.
    fn take_value(&mut self, _key: &str, _value: &[u8]) {}

    /// Takes a key that is malformed.
    fn take_malformed(&mut self, _key: &str) {}

    /// About how many bytes the rows take.
    fn bytes(&self) -> usize;

    /// The place of the first row after `after`.
    fn next(&self, after: Option<&str>) -> Option<&str>;

    /// The row at `place`, if that is to be shown.
    fn row(&self, place: &str, ask: &Ask, now: Duration) -> Option<Box<dyn Row + '_>>;
}

/// One entry of the response.
trait Row {
    /// Whether it is ok.
    fn is_ok(&self) -> bool;

    /// The entry as JSON.
    fn to_json(&self) -> String;
}

/// A time of the server: parsed to compare, and as written. Nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Time(i64);

impl Time {
    fn of(at: OffsetDateTime) -> Self {
        Time(i64::try_from(at.unix_timestamp_nanos()).unwrap_or_default())
    }

    /// Keeps the later of two in `latest`.
    fn keep_later(latest: &mut Option<Time>, other: Time) {
        *latest = (*latest).max(Some(other));
    }

    fn seconds(self) -> u64 {
        u64::try_from(self.0 / 1_000_000_000).unwrap_or_default()
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0));
        serializer.serialize_str(&words(at.unwrap_or(OffsetDateTime::UNIX_EPOCH)))
    }
}

impl Report {
    /// Begins to answer `asks`, which differ only in the rows that they show.
    pub(super) fn new(asks: &[Ask], context: QueryContext) -> Self {
        let ask = asks[0].work();
        let aggregate: Box<dyn Aggregate> = match ask.what {
            What::Nodes => Box::new(nodes::Nodes::default()),
            What::Collections => Box::new(collections::Collections::default()),
            _ => Box::new(drift::Drift::default()),
        };
        let shown = |ask: &Ask| Shown {
            after: ask.after.clone(),
            malformed: Malformed::default(),
            page: Page::new(ask.limit.unwrap_or(MAX_LIMIT), context.page_bytes),
            is_full: false,
        };
        let mut report = Report {
            pages: asks.iter().map(shown).collect(),
            ask,
            reader: None,
            unread: Vec::new(),
            to_read: aggregate.buckets().iter().copied().collect(),
            aggregate,
            as_of: BTreeMap::new(),
            malformed_total: 0,
            ok: true,
            walked: None,
            stage: Stage::Waiting,
            outcomes: VecDeque::new(),
            context,
        };
        report.read_next();
        report
    }

    fn read_next(&mut self) {
        self.reader = self.to_read.pop_front().map(|bucket| self.context.reader(bucket, &self.ask, None));
    }

    pub(super) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        self.reader.as_mut()?.next_call(budget)
    }

    pub(super) fn on_reply(&mut self, tag: Tag, body: Result<&[u8], Cause>) {
        let Some(reader) = &mut self.reader else { return };
        match reader.on_reply(tag, body) {
            Ok(()) => self.poll(),
            Err(cause) => {
                let refusal = cause.refuse(reader.bucket());
                self.fail(&refusal);
            }
        }
    }

    pub(super) fn on_part(&mut self, tag: Tag, part: Part, now: Duration) -> Result<(), String> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let heard = reader.on_part(tag, part, now);
        self.poll();
        heard
    }

    pub(super) fn leave_bulk(&mut self, bucket: Bucket) {
        self.context.bulk.remove(&bucket);
        if let Some(reader) = self.reader.as_mut().filter(|reader| bucket == reader.bucket()) {
            reader.leave_bulk();
        }
    }

    /// Whether there is more to do without a reply.
    pub(super) const fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Counting | Stage::Walking)
    }

    /// Whether every answer has been given.
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done && self.outcomes.is_empty()
    }

    /// The next answer, and to which of the questions.
    pub(super) fn outcome(&mut self) -> Option<(usize, Result<String, Refusal>)> {
        self.outcomes.pop_front()
    }

    pub(super) fn progress(&self) -> String {
        self.reader.as_ref().map_or_else(|| "it was just done".to_owned(), BucketReader::progress)
    }

    pub(super) fn listed_keys(&self) -> usize {
        self.reader.as_ref().map_or(0, BucketReader::listed_keys)
    }

    fn fail(&mut self, refusal: &Refusal) {
        self.reader = None;
        self.stage = Stage::Done;
        self.outcomes = (0..self.pages.len()).map(|at| (at, Err(refusal.clone()))).collect();
    }

    /// Continues for one slice, as far as the replies allow.
    pub(super) fn poll(&mut self) {
        if self.stage == Stage::Walking {
            return self.walk();
        }
        self.stage = Stage::Waiting;
        let mut counted = 0;
        while let Some(mut reader) = self.reader.take() {
            if counted == SLICE {
                self.stage = Stage::Counting;
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
                    reader.pick(usize::MAX, |key| self.concerns(bucket, key));
                    self.reader = Some(reader);
                }
                Step::Cached => {
                    reader.tell(None, self.aggregate.reads_values(bucket));
                    self.reader = Some(reader);
                }
                Step::Key(key, found) => {
                    self.take(bucket, &key, Standing::of_found(&found), &found);
                    self.reader = Some(reader);
                    counted += 1;
                }
                Step::Entry(key, entry) => {
                    if self.concerns(bucket, &key) {
                        let Entry { standing, .. } = entry;
                        self.take_key(bucket, &key, Some(standing).filter(|_| is_nameable(&key)));
                        if is_nameable(&key) && !standing.deleted {
                            match entry.value() {
                                Some(value) => self.take_value(bucket, &key, value),
                                None => self.note_unread(bucket, key),
                            }
                        }
                    }
                    self.reader = Some(reader);
                    counted += 1;
                }
                Step::Told if !self.unread.is_empty() => {
                    reader.read(mem::take(&mut self.unread));
                    self.reader = Some(reader);
                }
                Step::Told | Step::End => {
                    self.as_of.insert(bucket.suffix(), reader.as_of());
                    self.read_next();
                    if self.reader.is_none() {
                        self.ok = self.malformed_total == 0;
                        self.stage = Stage::Walking;
                        return self.walk();
                    }
                }
            }
            if self.aggregate.bytes() > MAX_ROWS_BYTES {
                let message = "there are more rows than the seat has room for: ask for one node at a time";
                return self.fail(&Refusal::new(Reason::ResponseTooLarge, message));
            }
        }
    }

    fn concerns(&self, bucket: Bucket, key: &str) -> bool {
        self.key_filter(bucket).holds(key)
            && bucket.parse(key).map_or(true, |names| self.aggregate.concerns(bucket, &names))
    }

    fn key_filter(&self, bucket: Bucket) -> KeyFilter {
        if self.aggregate.narrows_keys_by_module() {
            KeyFilter::new(bucket, &self.ask)
        } else {
            KeyFilter::new(bucket, &Ask { module: None, ..self.ask.clone() })
        }
    }

    fn take(&mut self, bucket: Bucket, key: &str, standing: Option<Standing>, found: &Found) {
        if !found.is_gone() || standing.is_some() {
            self.take_key(bucket, key, standing);
        }
        if let Found::Message(message) = found {
            self.take_value(bucket, key, &message.value);
        }
    }

    /// A value that is needed is not cached, because it is long or its headers cannot be read.
    fn note_unread(&mut self, bucket: Bucket, key: String) {
        let is_needed = self.aggregate.reads_values(bucket) && bucket.parse(&key).is_ok();
        if is_needed && self.aggregate.wants_value(&key) {
            self.unread.push(key);
        }
    }

    fn take_value(&mut self, bucket: Bucket, key: &str, value: &[u8]) {
        if self.aggregate.reads_values(bucket) && bucket.parse(key).is_ok() {
            self.aggregate.take_value(key, value);
        }
    }

    fn take_key(&mut self, bucket: Bucket, key: &str, standing: Option<Standing>) {
        match bucket.parse(key) {
            Ok(names) => {
                if let Some(Standing { at, deleted, .. }) = standing {
                    self.aggregate.take(bucket, key, &names, Time::of(at), deleted);
                }
            }
            Err(_) if standing.is_some_and(|standing| standing.deleted) => {}
            Err(malformed) => {
                self.malformed_total += 1;
                self.aggregate.take_malformed(key);
                let complaint = Rc::new(Complaint { bucket, malformed, standing });
                for shown in &mut self.pages {
                    shown.malformed.take(key, shown.after.as_deref(), &complaint);
                }
            }
        }
    }

    /// Walks through the rows, for a slice.
    fn walk(&mut self) {
        for _ in 0..SLICE {
            let Some(place) = self.aggregate.next(self.walked.as_deref()).map(str::to_owned) else {
                return self.answer();
            };
            if let Some(row) = self.aggregate.row(&place, &self.ask, self.context.clock) {
                self.ok &= row.is_ok();
                let mut rendered = None;
                for shown in self.pages.iter_mut().filter(|shown| shown.wants(&place)) {
                    let row = rendered.get_or_insert_with(|| row.to_json()).clone();
                    shown.add_malformed_before(Some(&place));
                    shown.add(&place, Some(row));
                }
            }
            self.walked = Some(place);
        }
    }

    fn answer(&mut self) {
        let as_of = json(&self.as_of);
        for (at, mut shown) in self.pages.drain(..).enumerate() {
            shown.add_malformed_before(None);
            let body = shown.page.to_json(self.ask.what, Some(self.ok), &as_of, &self.context.seat);
            self.outcomes.push_back((at, Ok(body)));
        }
        self.stage = Stage::Done;
    }
}

impl Shown {
    fn wants(&self, place: &str) -> bool {
        !self.is_full && self.after.as_deref().is_none_or(|after| place > after)
    }

    /// Adds the malformed keys whose places come before `place`, or all that are left. Rows and they are sorted by
    /// their places.
    fn add_malformed_before(&mut self, place: Option<&str>) {
        while !self.is_full
            && let Some(first) = self.malformed.first.keys().next().cloned()
            && place.is_none_or(|place| first.as_str() < place)
        {
            self.add(&first, None);
        }
    }

    /// Adds what is at a place: a row, malformed keys, or both.
    fn add(&mut self, place: &str, row: Option<String>) {
        if self.is_full {
            return;
        }
        let Alike { complaints, mut total } = self.malformed.first.remove(place).unwrap_or_default();
        let mut complaints: Vec<String> =
            complaints.iter().map(|complaint| complaint.to_json(place)).collect();
        let row_bytes = row.as_ref().map_or(0, String::len);
        let bytes =
            |complaints: &[String]| complaints.iter().map(|complaint| complaint.len() + 1).sum::<usize>();
        while !complaints.is_empty() && !self.page.could_hold(place, row_bytes + 1 + bytes(&complaints)) {
            complaints.pop();
        }
        total -= complaints.len();
        if self.page.add(place, row, complaints) {
            self.page.count_unlisted(total);
        } else {
            self.is_full = true;
        }
    }
}

/// The malformed keys of a report: the first that a page can list are kept.
#[derive(Debug, Default)]
struct Malformed {
    /// By place. One more than a page lists, so that the page knows that there is more.
    first: BTreeMap<String, Alike>,
}

/// Malformed keys that look the same: in several buckets, or where bytes are shown as U+FFFD.
#[derive(Debug, Default)]
struct Alike {
    /// The pages share them, and each renders no more than it lists: keys may be long.
    complaints: Vec<Rc<Complaint>>,
    total: usize,
}

/// What is wrong with a key.
#[derive(Debug)]
struct Complaint {
    bucket: Bucket,
    malformed: bucket::Malformed,
    standing: Option<Standing>,
}

impl Complaint {
    fn to_json(&self, key: &str) -> String {
        let written = self.standing.map(|standing| (standing.sequence, words(standing.at)));
        let written = written.as_ref().map(|(sequence, at)| (*sequence, at.as_str()));
        MalformedEntry::new(key, &self.malformed, written).of(self.bucket).to_json()
    }
}

/// How many keys that look the same are listed; the others are only counted.
const MAX_ALIKE: usize = 16;

impl Malformed {
    /// Adds a malformed key. It is kept if it is among the first ones after `after`.
    fn take(&mut self, key: &str, after: Option<&str>, complaint: &Rc<Complaint>) {
        let is_behind_page = self.first.len() > MAX_MALFORMED_LISTED
            && self.first.keys().next_back().is_some_and(|last| key > last.as_str());
        if is_behind_page || after.is_some_and(|after| key <= after) {
            return;
        }
        let alike = self.first.entry(key.to_owned()).or_default();
        alike.total += 1;
        if alike.complaints.len() < MAX_ALIKE {
            alike.complaints.push(Rc::clone(complaint));
        }
        if self.first.len() > MAX_MALFORMED_LISTED + 1 {
            self.first.pop_last();
        }
    }
}

/// About how many bytes a row takes: its place and `other` bytes in a tree whose nodes are not full, and the text of
/// the place, which is an allocation.
fn row_bytes(place: &str, other: usize) -> usize {
    (size_of::<Box<str>>() + other) * 3 / 2 + (place.len() + 8).next_multiple_of(16).max(32)
}

/// The name at a position of a place.
fn name_at(place: &str, position: usize) -> String {
    let token = place.split('.').nth(position).unwrap_or_default();
    mesh_model::name::decode(token).unwrap_or_default()
}

/// The first `count` tokens of a key: the place of a row.
fn beginning(key: &str, tokens: usize) -> &str {
    let end = key.match_indices('.').nth(tokens - 1).map_or(key.len(), |(at, _)| at);
    &key[..end]
}

/// The first row of a map after `after`.
fn next_in<'a, T>(rows: &'a BTreeMap<Box<str>, T>, after: Option<&str>) -> Option<&'a str> {
    use std::ops::Bound;
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    rows.range::<str, _>((from, Bound::Unbounded)).next().map(|(place, _)| &**place)
}

/// The row at a place, a new one if there is none; `bytes` grows by what that takes.
fn row_of<'a, T: Default>(rows: &'a mut BTreeMap<Box<str>, T>, place: &str, bytes: &mut usize) -> &'a mut T {
    if !rows.contains_key(place) {
        *bytes += row_bytes(place, size_of::<T>());
        rows.insert(place.into(), T::default());
    }
    rows.get_mut(place).expect("it was just there")
}
