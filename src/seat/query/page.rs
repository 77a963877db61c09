//! The entries of one bucket, filtered and paged: `registry`, `needs`, `applied`, `collect` and `gaps`.

use super::gap::Gap;
use super::key_filter::KeyFilter;
use crate::seat::call::{Budget, Call, Tag};
use crate::seat::query::context::{QueryContext, SLICE};
use crate::seat::read::bucket_reader::{BucketReader, Step};
use crate::seat::read::cache::Entry as CacheEntry;
use crate::seat::read::found::Found;
use crate::seat::read::snapshot::Snapshot;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::kv::Message;
use mesh_jetstream::stream_info::State;
use mesh_model::bucket::{Bucket, Fault, Malformed};
use mesh_model::name;
use mesh_provisioner_api::failure::{Cause, Refusal};
use mesh_provisioner_api::request::{Ask, MAX_LIMIT, What};
use mesh_provisioner_api::response::{Entry, MalformedEntry, Page, Value};
use mesh_service::json::json;
use std::collections::BTreeSet;
use std::mem;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

/// How many keys, and how many bytes of values, a page reads: it bounds the work of one request, including deleted
/// keys and values that are too large for a response.
const MAX_KEYS_OF_A_PAGE: usize = 4096;
const MAX_BYTES_OF_A_PAGE: usize = 8 * 1024 * 1024;

/// How many keys a page reads if none matches. It has a `next` then, too.
const MAX_KEYS_WITHOUT_MATCH: usize = 2 * MAX_KEYS_OF_A_PAGE;

/// A page that is being filled.
#[derive(Debug)]
pub(in crate::seat) struct PageQuery {
    ask: Ask,
    context: QueryContext,
    bucket: Bucket,
    key_filter: KeyFilter,
    stage: Stage,
    /// For `gaps`: the kinds in the registry.
    answered_kinds: BTreeSet<String>,
    page: Page,
    /// For `gaps`: whether nothing but needs that wait for a short time was found.
    all_is_well: bool,
    /// Keys whose values are not cached, and all keys after the first such key.
    chosen: Vec<String>,
    /// Whether the cache has more keys to read.
    busy: bool,
    /// How many keys it has read.
    keys: usize,
    /// How many bytes of values it has read.
    bytes: usize,
    /// The registry snapshot, from earlier queries or from this one.
    registry: Option<Rc<Snapshot>>,
    /// The state in which this query read the registry.
    registry_state: Option<State>,
    pub(super) outcome: Option<Result<String, Refusal>>,
}

#[derive(Debug)]
enum Stage {
    /// For `gaps`: reading the kinds of the registry.
    Kinds(BucketReader),
    /// Reading the entries.
    Entries(BucketReader),
    Done,
}

impl PageQuery {
    pub(super) fn new(ask: Ask, context: QueryContext, registry: Option<Rc<Snapshot>>) -> Self {
        let bucket = match ask.what {
            What::Registry => Bucket::Registry,
            What::Applied => Bucket::Applied,
            What::Collect => Bucket::Collect,
            _ => Bucket::Needs,
        };
        let key_filter = KeyFilter::new(bucket, &ask);
        let page = Page::new(ask.limit.unwrap_or(MAX_LIMIT), context.page_bytes);
        let mut query = PageQuery {
            ask,
            context,
            bucket,
            key_filter,
            stage: Stage::Done,
            answered_kinds: BTreeSet::new(),
            page,
            all_is_well: true,
            chosen: Vec::new(),
            busy: false,
            keys: 0,
            bytes: 0,
            registry,
            registry_state: None,
            outcome: None,
        };
        query.stage = match query.ask.what {
            What::Gaps => Stage::Kinds(BucketReader::of_registry(query.registry.clone(), None)),
            _ => query.entries(),
        };
        query
    }

    fn entries(&self) -> Stage {
        let after = self.ask.after.as_deref();
        Stage::Entries(match self.bucket {
            Bucket::Registry => BucketReader::of_registry(self.registry.clone(), after),
            bucket => self.context.reader(bucket, &self.ask, after),
        })
    }

    pub(super) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        match &mut self.stage {
            Stage::Kinds(reader) | Stage::Entries(reader) => reader.next_call(budget),
            Stage::Done => None,
        }
    }

    pub(super) fn on_reply(&mut self, tag: Tag, body: Result<&[u8], Cause>) {
        let (Stage::Kinds(reader) | Stage::Entries(reader)) = &mut self.stage else { return };
        let bucket = reader.bucket();
        match reader.on_reply(tag, body) {
            Ok(()) => self.poll(),
            Err(cause) => self.finish(Err(cause.refuse(bucket))),
        }
    }

    pub(super) fn on_part(&mut self, tag: Tag, part: Part, now: Duration) -> Result<(), String> {
        let (Stage::Kinds(reader) | Stage::Entries(reader)) = &mut self.stage else { return Ok(()) };
        let heard = reader.on_part(tag, part, now);
        self.poll();
        heard
    }

    pub(super) fn leave_bulk(&mut self, bucket: Bucket) {
        self.context.bulk.remove(&bucket);
        if let Stage::Kinds(reader) | Stage::Entries(reader) = &mut self.stage
            && bucket == reader.bucket()
        {
            reader.leave_bulk();
        }
    }

    /// Whether there is more to do without a reply.
    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    pub(super) fn progress(&self) -> String {
        match &self.stage {
            Stage::Kinds(reader) | Stage::Entries(reader) => reader.progress(),
            Stage::Done => "it was just done".to_owned(),
        }
    }

    fn learn(&mut self, reader: &mut BucketReader) {
        self.registry = reader.learned().or_else(|| self.registry.take());
    }

    fn note_registry_state(&mut self, reader: &BucketReader) {
        if reader.bucket() == Bucket::Registry {
            self.registry_state = reader.state().cloned();
        }
    }

    /// Returns the state in which it read the registry, and the snapshot; `None` if it read none.
    pub(super) fn take_registry(&mut self) -> Option<(State, Option<Rc<Snapshot>>)> {
        Some((self.registry_state.take()?, self.registry.take()))
    }

    /// Ends the page before the first unread key, so that following `next` makes progress on a slow bus, too.
    pub(super) fn cut_short(&mut self) {
        let stage = mem::replace(&mut self.stage, Stage::Done);
        if let Stage::Entries(reader) = &stage
            && let Some(passed) = reader.passed()
        {
            self.page.go_on_behind(passed);
            self.answer(reader);
        } else if let Stage::Entries(reader) = &stage
            && let Some(key) = self.chosen.first().cloned().or(reader.first_unread())
            && self.page.end_before(&key)
        {
            self.answer(reader);
        } else {
            self.stage = stage;
        }
    }

    pub(super) fn listed_keys(&self) -> usize {
        match &self.stage {
            Stage::Kinds(reader) | Stage::Entries(reader) => reader.listed_keys(),
            Stage::Done => 0,
        }
    }

    fn finish(&mut self, outcome: Result<String, Refusal>) {
        self.stage = Stage::Done;
        self.outcome = Some(outcome);
    }

    /// Continues for one slice, as far as the replies allow.
    pub(super) fn poll(&mut self) {
        self.busy = false;
        let mut looked_at = 0;
        let mut progress = ControlFlow::Continue(());
        while progress.is_continue() {
            progress = match mem::replace(&mut self.stage, Stage::Done) {
                Stage::Kinds(reader) => self.advance_kinds(reader),
                Stage::Entries(reader) => self.advance_entries(reader, &mut looked_at),
                Stage::Done => ControlFlow::Break(()),
            };
        }
    }

    fn advance_kinds(&mut self, mut reader: BucketReader) -> ControlFlow<()> {
        let mut progress = ControlFlow::Continue(());
        match reader.poll() {
            Step::Waiting => progress = ControlFlow::Break(()),
            Step::Listed => reader.pick(usize::MAX, |_| true),
            Step::Key(key, Found::Message(_)) => self.answered_kinds.extend(name::decode(&key).ok()),
            Step::Key(..) | Step::Entry(..) | Step::Cached => {}
            Step::Told | Step::End => {
                self.learn(&mut reader);
                self.note_registry_state(&reader);
                self.stage = self.entries();
                return progress;
            }
        }
        self.stage = Stage::Kinds(reader);
        progress
    }

    fn advance_entries(&mut self, mut reader: BucketReader, looked_at: &mut usize) -> ControlFlow<()> {
        let mut progress = ControlFlow::Continue(());
        let mut is_full = false;
        match reader.poll() {
            Step::Waiting => progress = ControlFlow::Break(()),
            Step::Listed => reader.pick(MAX_KEYS_WITHOUT_MATCH, |key| self.key_filter.holds(key)),
            Step::Cached => reader.tell(self.ask.after.as_deref(), true),
            Step::Told => reader.read(mem::take(&mut self.chosen)),
            Step::Key(key, found) => is_full = !self.take(&key, &found),
            Step::Entry(key, entry) => {
                is_full = !self.take_cached(key, entry);
                *looked_at += 1;
                if self.chosen.len() > MAX_KEYS_WITHOUT_MATCH + 1 {
                    reader.read(mem::take(&mut self.chosen));
                } else if *looked_at == SLICE {
                    self.busy = !is_full;
                    progress = ControlFlow::Break(());
                }
            }
            Step::End => {
                self.learn(&mut reader);
                is_full = true;
            }
        }
        if is_full {
            self.answer(&reader);
            return ControlFlow::Break(());
        }
        self.stage = Stage::Entries(reader);
        progress
    }

    /// Handles a key of the cache; `false` if the page ends before it. A key whose value is not cached is read later,
    /// and so are all keys after it, because entries are in order.
    fn take_cached(&mut self, key: String, entry: CacheEntry) -> bool {
        if !self.key_filter.holds(&key) {
            return true;
        }
        let found = entry.found(self.bucket, &key);
        if found.as_ref().is_some_and(|found| self.is_no_gap(&key, found)) {
            if self.chosen.is_empty() {
                self.page.pass(&key);
            }
            return true;
        }
        if let Some(found) = found.filter(|_| self.chosen.is_empty()) {
            return self.take(&key, &found);
        }
        self.chosen.push(key);
        true
    }

    /// Whether `gaps` is asked for, and this need is none.
    fn is_no_gap(&self, key: &str, found: &Found) -> bool {
        self.ask.what == What::Gaps
            && match (self.bucket.parse(key), found) {
                (Ok(names), Found::Message(message)) => self.gap(&names, message).is_none(),
                _ => false,
            }
    }

    /// Handles what was found under `key`; `false` if the page ends before it.
    fn take(&mut self, key: &str, found: &Found) -> bool {
        self.keys += 1;
        if self.has_looked_enough() && self.page.end_before(key) || !self.add(key, found) {
            return false;
        }
        self.bytes += found.message().map_or(0, |message| message.value.len());
        true
    }

    /// Whether the page has reached its bounds.
    fn has_looked_enough(&self) -> bool {
        let most = if self.page.is_empty() { MAX_KEYS_WITHOUT_MATCH } else { MAX_KEYS_OF_A_PAGE };
        self.keys > most || self.bytes > MAX_BYTES_OF_A_PAGE
    }

    /// Whether a key of this shape with this value is what is asked for, and which gap it is.
    fn gap(&self, names: &[String], message: &Message) -> Option<Gap> {
        (self.ask.what == What::Gaps)
            .then(|| Gap::of(self.answered_kinds.contains(&names[2]), &message.value))
            .flatten()
    }

    /// Adds what was found under `key`; `false` if it belongs to the next page.
    fn add(&mut self, key: &str, found: &Found) -> bool {
        match (self.bucket.parse(key), found) {
            (_, Found::Gone { .. }) => {
                self.page.pass(key);
                true
            }
            (Ok(names), Found::Message(message)) => {
                let gap = self.gap(&names, message);
                if self.ask.what == What::Gaps && gap.is_none() {
                    self.page.pass(key);
                    return true;
                }
                self.all_is_well &=
                    gap.as_ref().is_none_or(|gap| gap.is_young(&message.at, self.context.clock));
                self.add_entry(key, &names, message, gap.as_ref())
            }
            (Ok(_), Found::Unnameable) => {
                let malformed = Malformed::new(Fault::Token, "NATS returned a message for a different key");
                self.page.add(key, None, vec![MalformedEntry::new(key, &malformed, None).to_json()])
            }
            (Err(malformed), found) => {
                let written = found.message().map(Message::written);
                self.page.add(key, None, vec![MalformedEntry::new(key, &malformed, written).to_json()])
            }
        }
    }

    fn add_entry(&mut self, key: &str, names: &[String], message: &Message, gap: Option<&Gap>) -> bool {
        let with_value = self.ask.what != What::Gaps;
        let mut entry = Entry {
            bucket: self.bucket,
            key,
            names,
            value: if with_value { Value::read(&message.value) } else { Value::None },
            gap: gap.map(|gap| (gap.word(), gap.why())),
            revision: message.sequence,
            at: &message.at,
        };
        let complain =
            |malformed: Malformed| MalformedEntry::new(key, &malformed, Some(message.written())).to_json();
        let header_fault = message.header_fault.as_deref().map(|fault| Malformed::new(Fault::Header, fault));
        let mut complaints: Vec<String> =
            header_fault.into_iter().chain(entry.value.fault()).map(complain).collect();
        let mut rendered = entry.to_json();
        let bytes = rendered.len() + complaints.iter().map(String::len).sum::<usize>();
        if !self.page.could_hold(key, bytes) {
            entry.value = Value::None;
            rendered = entry.to_json();
            let detail =
                format!("the value has {} bytes, more than a response can hold", message.value.len());
            complaints.push(complain(Malformed::new(Fault::Size, detail)));
        }
        self.page.add(key, Some(rendered), complaints)
    }

    fn answer(&mut self, reader: &BucketReader) {
        self.note_registry_state(reader);
        let as_of = json(&reader.as_of());
        // A page that found no gap but did not read all keys has not shown that there is none. Neither has one with a
        // malformed key: the need that it was meant to state is not filled.
        let ok = (self.ask.what == What::Gaps)
            .then(|| self.all_is_well && !self.page.has_malformed() && !self.page.leaves_rest());
        let body = self.page.to_json(self.ask.what, ok, &as_of, &self.context.seat);
        self.finish(Ok(body));
    }
}
