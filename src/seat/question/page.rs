//! The entries of one bucket, narrowed and paged: `registry`, `needs`, `applied`, `collect` and `gaps`.

use super::reach::Reach;
use super::{Allowance, Frame, SLICE, Slot, Want};
use crate::seat::failure::{Cause, Refusal};
use crate::seat::known::Known;
use crate::seat::scan::{Scan, Scanned};
use crate::seat::values::Found;
use crate::wire::answer::{Complaint, Entry, Page, Value};
use crate::wire::request::{Ask, MAX_LIMIT, What};
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::kv::Message;
use mesh_model::bucket::{Bucket, Malformed, Why};
use mesh_model::name;
use mesh_service::json::json;
use std::collections::BTreeSet;
use std::mem;
use std::rc::Rc;

/// How many keys, and how many bytes of values, a page looks at: bounds the work of one request whatever the bucket
/// holds, deleted keys and values that no answer can hold included.
const KEYS_A_PAGE: usize = 4096;
const BYTES_A_PAGE: usize = 8 * 1024 * 1024;

/// How many keys a page looks at that has found nothing by then. It says where to go on all the same.
const KEYS_OF_AN_EMPTY_PAGE: usize = 2 * KEYS_A_PAGE;

/// A page of entries being gathered.
#[derive(Debug)]
pub(in crate::seat) struct PageQuestion {
    ask: Ask,
    frame: Frame,
    bucket: Bucket,
    reach: Reach,
    stage: Stage,
    /// For `gaps`: the kinds that the registry answers.
    answered_kinds: BTreeSet<String>,
    page: Page,
    /// The keys that the index does not know all of, and those behind them.
    chosen: Vec<String>,
    /// Whether there is more of the index to look at.
    busy: bool,
    /// How many keys it has taken.
    keys: usize,
    /// How many bytes of values it has looked at.
    bytes: usize,
    /// What is known of the registry, from questions before or from this one.
    registry: Option<Rc<Known>>,
    pub(super) outcome: Option<Result<String, Refusal>>,
}

#[derive(Debug)]
enum Stage {
    /// For `gaps`: reading which kinds are answered.
    Kinds(Scan),
    /// Reading the entries.
    Entries(Scan),
    Done,
}

impl PageQuestion {
    pub(super) fn new(ask: Ask, frame: Frame, registry: Option<Rc<Known>>) -> Self {
        let bucket = match ask.what {
            What::Registry => Bucket::Registry,
            What::Applied => Bucket::Applied,
            What::Collect => Bucket::Collect,
            _ => Bucket::Needs,
        };
        let reach = Reach::new(bucket, &ask);
        let page = Page::new(ask.limit.unwrap_or(MAX_LIMIT), frame.page_bytes);
        let mut question = PageQuestion {
            ask,
            frame,
            bucket,
            reach,
            stage: Stage::Done,
            answered_kinds: BTreeSet::new(),
            page,
            chosen: Vec::new(),
            busy: false,
            keys: 0,
            bytes: 0,
            registry,
            outcome: None,
        };
        question.stage = match question.ask.what {
            What::Gaps => Stage::Kinds(question.scan(Bucket::Registry)),
            _ => question.entries(),
        };
        question
    }

    fn entries(&self) -> Stage {
        Stage::Entries(self.scan(self.bucket))
    }

    fn scan(&self, bucket: Bucket) -> Scan {
        match bucket {
            Bucket::Registry => Scan::of_registry(self.registry.clone()),
            bucket => self.frame.scan(bucket, &self.ask),
        }
    }

    pub(super) fn want(&mut self, allowance: Allowance) -> Option<Want> {
        match &mut self.stage {
            Stage::Kinds(scan) | Stage::Entries(scan) => scan.want(allowance),
            Stage::Done => None,
        }
    }

    pub(super) fn heard(&mut self, slot: Slot, body: Result<&[u8], Cause>) {
        let (Stage::Kinds(scan) | Stage::Entries(scan)) = &mut self.stage else { return };
        let bucket = scan.bucket();
        match scan.heard(slot, body) {
            Ok(()) => self.advance(),
            Err(cause) => self.finish(Err(cause.refuse(bucket))),
        }
    }

    pub(super) fn heard_part(&mut self, slot: Slot, part: Part) -> Result<(), String> {
        let (Stage::Kinds(scan) | Stage::Entries(scan)) = &mut self.stage else { return Ok(()) };
        let heard = scan.heard_part(slot, part);
        self.advance();
        heard
    }

    pub(super) fn leave_bulk(&mut self, bucket: Option<Bucket>) {
        self.frame.bulk.retain(|other| bucket.is_some_and(|bucket| bucket != *other));
        if let Stage::Kinds(scan) | Stage::Entries(scan) = &mut self.stage
            && bucket.is_none_or(|bucket| bucket == scan.bucket())
        {
            scan.leave_bulk();
        }
    }

    pub(super) const fn is_following(&self) -> bool {
        match &self.stage {
            Stage::Kinds(scan) | Stage::Entries(scan) => scan.is_following(),
            Stage::Done => false,
        }
    }

    pub(super) fn waits_for_bulk(&self) -> bool {
        match &self.stage {
            Stage::Kinds(scan) | Stage::Entries(scan) => scan.waits_for_bulk(),
            Stage::Done => false,
        }
    }

    /// Whether there is more to do without hearing anything.
    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    pub(super) fn progress(&self) -> String {
        match &self.stage {
            Stage::Kinds(scan) | Stage::Entries(scan) => scan.progress(),
            Stage::Done => "it was just done".to_owned(),
        }
    }

    fn learn(&mut self, scan: &mut Scan) {
        self.registry = scan.learned().or_else(|| self.registry.take());
    }

    /// Gives up what is known of the registry now.
    pub(super) const fn take_registry(&mut self) -> Option<Rc<Known>> {
        self.registry.take()
    }

    /// Ends the page before the first key that is still unread. So whoever follows `next` gets on, however slow the
    /// bus is.
    pub(super) fn cut_short(&mut self) {
        // To say that there is no gap, all must have been read.
        let may_be_short = self.ask.what != What::Gaps || !self.page.has_no_entries();
        let stage = mem::replace(&mut self.stage, Stage::Done);
        if let Stage::Entries(scan) = &stage
            && may_be_short
            && let Some(key) = self.chosen.first().map(String::as_str).or(scan.first_unread())
            && self.page.end_before(key)
        {
            self.answer(scan);
        } else {
            self.stage = stage;
        }
    }

    pub(super) fn keeps_long_list(&self) -> bool {
        match &self.stage {
            Stage::Kinds(scan) | Stage::Entries(scan) => scan.keeps_long_list(),
            Stage::Done => false,
        }
    }

    fn finish(&mut self, outcome: Result<String, Refusal>) {
        self.stage = Stage::Done;
        self.outcome = Some(outcome);
    }

    /// Goes on as far as what has been heard allows, for a slice.
    pub(super) fn advance(&mut self) {
        self.busy = false;
        let mut looked_at = 0;
        loop {
            let stage = mem::replace(&mut self.stage, Stage::Done);
            self.stage = match stage {
                Stage::Done => return,
                Stage::Kinds(mut scan) => match scan.next() {
                    Scanned::Waiting => {
                        self.stage = Stage::Kinds(scan);
                        return;
                    }
                    Scanned::Listed => {
                        scan.pick(None, usize::MAX, |_| true);
                        Stage::Kinds(scan)
                    }
                    Scanned::Key(key, Found::Message(_)) => {
                        self.answered_kinds.extend(name::decode(&key).ok());
                        Stage::Kinds(scan)
                    }
                    Scanned::Key(..) | Scanned::Entry(..) | Scanned::Indexed => Stage::Kinds(scan),
                    Scanned::Told | Scanned::End => {
                        self.learn(&mut scan);
                        self.entries()
                    }
                },
                Stage::Entries(mut scan) => match scan.next() {
                    Scanned::Waiting => {
                        self.stage = Stage::Entries(scan);
                        return;
                    }
                    Scanned::Listed => {
                        let after = self.ask.after.as_deref();
                        scan.pick(after, KEYS_OF_AN_EMPTY_PAGE, |key| self.concerns(key));
                        Stage::Entries(scan)
                    }
                    Scanned::Key(key, found) => {
                        if !self.take(&key, &found) {
                            return self.answer(&scan);
                        }
                        Stage::Entries(scan)
                    }
                    Scanned::Indexed => {
                        scan.tell(self.ask.after.as_deref());
                        Stage::Entries(scan)
                    }
                    Scanned::Entry(key, entry) => {
                        if self.concerns(&key) {
                            match entry.found(self.bucket, &key).filter(|_| self.chosen.is_empty()) {
                                Some(found) => {
                                    if !self.take(&key, &found) {
                                        return self.answer(&scan);
                                    }
                                }
                                None => self.chosen.push(key),
                            }
                        }
                        looked_at += 1;
                        if self.chosen.len() > KEYS_OF_AN_EMPTY_PAGE + 1 {
                            scan.read(mem::take(&mut self.chosen));
                        } else if looked_at == SLICE {
                            self.busy = true;
                            self.stage = Stage::Entries(scan);
                            return;
                        }
                        Stage::Entries(scan)
                    }
                    Scanned::Told => {
                        scan.read(mem::take(&mut self.chosen));
                        Stage::Entries(scan)
                    }
                    Scanned::End => {
                        self.learn(&mut scan);
                        return self.answer(&scan);
                    }
                },
            };
        }
    }

    /// Takes what was found under `key`; `false` if the page ends before it.
    fn take(&mut self, key: &str, found: &Found) -> bool {
        self.keys += 1;
        if self.has_looked_enough() && self.page.end_before(key) || !self.add(key, found) {
            return false;
        }
        self.bytes += found.message().map_or(0, |message| message.value.len());
        true
    }

    /// Whether the page has looked at enough.
    fn has_looked_enough(&self) -> bool {
        let most = if self.page.is_empty() { KEYS_OF_AN_EMPTY_PAGE } else { KEYS_A_PAGE };
        self.keys > most || self.bytes > BYTES_A_PAGE
    }

    /// Whether `key` is within reach, and is what is asked for.
    fn concerns(&self, key: &str) -> bool {
        self.reach.holds(key)
            && (self.ask.what != What::Gaps
                || self.bucket.parse(key).map_or(true, |names| !self.answered_kinds.contains(&names[2])))
    }

    /// Adds what was found under `key`; `false` if it belongs to the next page.
    fn add(&mut self, key: &str, found: &Found) -> bool {
        match (self.bucket.parse(key), found) {
            (_, Found::Gone { .. }) => {
                self.page.pass(key);
                true
            }
            (Ok(names), Found::Message(message)) => self.add_entry(key, &names, message),
            (Ok(_), Found::Unnameable) => {
                let malformed = Malformed::new(Why::Token, "the bus gave another key's message for it");
                self.page.add(key, None, vec![Complaint::new(key, &malformed, None).to_json()])
            }
            (Err(malformed), found) => {
                let written = found.message().map(Message::written);
                self.page.add(key, None, vec![Complaint::new(key, &malformed, written).to_json()])
            }
        }
    }

    fn add_entry(&mut self, key: &str, names: &[String], message: &Message) -> bool {
        let with_value = self.ask.what != What::Gaps;
        let mut entry = Entry {
            bucket: self.bucket,
            key,
            names,
            value: if with_value { Value::read(&message.value) } else { Value::None },
            revision: message.sequence,
            at: &message.at,
        };
        let complain =
            |malformed: Malformed| Complaint::new(key, &malformed, Some(message.written())).to_json();
        let header_fault = message.header_fault.as_deref().map(|fault| Malformed::new(Why::Header, fault));
        let mut complaints: Vec<String> =
            header_fault.into_iter().chain(entry.value.fault()).map(complain).collect();
        let mut rendered = entry.to_json();
        let bytes = rendered.len() + complaints.iter().map(String::len).sum::<usize>();
        if !self.page.could_hold(key, bytes) {
            entry.value = Value::None;
            rendered = entry.to_json();
            let detail = format!("the value has {} bytes, more than an answer can hold", message.value.len());
            complaints.push(complain(Malformed::new(Why::Size, detail)));
        }
        self.page.add(key, Some(rendered), complaints)
    }

    fn answer(&mut self, scan: &Scan) {
        let as_of = json(&scan.as_of());
        // A page that found no gap and leaves a rest unread has not shown that there is none. Nor has one that found
        // a key which cannot be read: whatever it was meant to ask for is not filled.
        let ok = (self.ask.what == What::Gaps)
            .then(|| self.page.has_no_entries() && !self.page.has_malformed() && !self.page.leaves_rest());
        let body = self.page.to_json(self.ask.what, ok, &as_of, &self.frame.seat);
        self.finish(Ok(body));
    }
}
