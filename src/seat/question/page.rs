//! The entries of one bucket, narrowed and paged: `registry`, `needs`, `applied`, `collect` and `gaps`.

use super::{Frame, Want};
use crate::bucket::{Bucket, Malformed, Why};
use crate::name;
use crate::seat::failure::{Cause, Refusal};
use crate::seat::reading::Found;
use crate::seat::scan::{Scan, Scanned};
use crate::wire::answer::{AsOf, Complaint, Entry, Page, Value, json};
use crate::wire::jetstream::Message;
use crate::wire::request::{Ask, MAX_LIMIT, What};
use std::collections::BTreeSet;

/// How many keys an answer looks at before it ends the page, unless it has found nothing yet: bounds the work of
/// one request whatever the bucket holds.
const KEYS_A_PAGE: usize = 4096;

/// A page of entries being gathered.
#[derive(Debug)]
pub(in crate::seat) struct PageQuestion {
    ask: Ask,
    frame: Frame,
    bucket: Bucket,
    filters: Vec<Option<String>>,
    stage: Stage,
    /// For `gaps`: the kinds that the registry answers.
    answered_kinds: BTreeSet<String>,
    page: Page,
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
    pub(super) fn new(ask: Ask, frame: Frame) -> Self {
        let bucket = match ask.what {
            What::Registry => Bucket::Registry,
            What::Applied => Bucket::Applied,
            What::Collect => Bucket::Collect,
            _ => Bucket::Needs,
        };
        let filters = filters(bucket, &ask);
        let page = Page::new(ask.limit.unwrap_or(MAX_LIMIT), frame.page_bytes);
        let mut question = PageQuestion {
            ask,
            frame,
            bucket,
            filters,
            stage: Stage::Done,
            answered_kinds: BTreeSet::new(),
            page,
            outcome: None,
        };
        question.stage = match question.ask.what {
            What::Gaps => Stage::Kinds(Scan::new(Bucket::Registry, None)),
            _ => question.entries(),
        };
        question
    }

    fn entries(&self) -> Stage {
        let node_token = self.ask.node.as_deref().map(name::encode);
        Stage::Entries(Scan::new(self.bucket, node_token))
    }

    pub(super) fn want(&mut self, may_list: bool) -> Option<Want> {
        match &mut self.stage {
            Stage::Kinds(scan) | Stage::Entries(scan) => scan.want(may_list),
            Stage::Done => None,
        }
    }

    pub(super) fn heard(&mut self, slot: usize, body: Result<&[u8], Cause>) {
        let (Stage::Kinds(scan) | Stage::Entries(scan)) = &mut self.stage else { return };
        let bucket = scan.bucket();
        match scan.heard(slot, body) {
            Ok(()) => self.advance(),
            Err(cause) => self.finish(Err(cause.refuse(bucket))),
        }
    }

    pub(super) fn progress(&self) -> String {
        match &self.stage {
            Stage::Kinds(scan) | Stage::Entries(scan) => scan.progress(),
            Stage::Done => "it was just done".to_owned(),
        }
    }

    fn finish(&mut self, outcome: Result<String, Refusal>) {
        self.stage = Stage::Done;
        self.outcome = Some(outcome);
    }

    /// Goes on as far as what has been heard allows.
    fn advance(&mut self) {
        loop {
            let stage = std::mem::replace(&mut self.stage, Stage::Done);
            self.stage = match stage {
                Stage::Done => return,
                Stage::Kinds(mut scan) => match scan.next() {
                    Scanned::Waiting => {
                        self.stage = Stage::Kinds(scan);
                        return;
                    }
                    Scanned::Listed(keys) => {
                        scan.read(keys);
                        Stage::Kinds(scan)
                    }
                    Scanned::Key(key, Found::Message(_)) => {
                        self.answered_kinds.extend(name::decode(&key).ok());
                        Stage::Kinds(scan)
                    }
                    Scanned::Key(..) => Stage::Kinds(scan),
                    Scanned::End => self.entries(),
                },
                Stage::Entries(mut scan) => match scan.next() {
                    Scanned::Waiting => {
                        self.stage = Stage::Entries(scan);
                        return;
                    }
                    Scanned::Listed(keys) => {
                        scan.read(keys.into_iter().filter(|key| self.concerns(key)).collect());
                        Stage::Entries(scan)
                    }
                    Scanned::Key(key, found) => {
                        let looked_enough = scan.given() > KEYS_A_PAGE
                            && !self.page.is_empty()
                            && self.page.may_end_before(&key);
                        if looked_enough && !matches!(found, Found::Gone { .. }) {
                            self.page.leave_rest();
                            return self.answer(&scan);
                        }
                        if !self.add(&key, found) {
                            return self.answer(&scan);
                        }
                        Stage::Entries(scan)
                    }
                    Scanned::End => return self.answer(&scan),
                },
            };
        }
    }

    /// Whether `key` lies behind `after`, within the filters, and is what is asked for. A malformed key is within
    /// a filter if it has a token in that place and the token is the filter's.
    fn concerns(&self, key: &str) -> bool {
        if self.ask.after.as_deref().is_some_and(|after| key <= after) {
            return false;
        }
        let mut tokens = key.split('.');
        let within = self.filters.iter().all(|filter| {
            let token = tokens.next();
            filter.as_deref().is_none_or(|filter| token == Some(filter))
        });
        within
            && (self.ask.what != What::Gaps
                || self.bucket.parse(key).map_or(true, |names| !self.answered_kinds.contains(&names[2])))
    }

    /// Adds what was found under `key`; `false` if it belongs to the next page.
    fn add(&mut self, key: &str, found: Found) -> bool {
        match (self.bucket.parse(key), found) {
            (_, Found::Gone { .. }) => {
                self.page.pass(key);
                true
            }
            (Ok(names), Found::Message(message)) => self.add_entry(key, &names, &message),
            (Ok(_), Found::Unnameable) => {
                let detail = "the bus gave another key's message for it";
                self.page.add(key, None, vec![complain(key, &Malformed::new(Why::Token, detail), None)])
            }
            (Err(malformed), Found::Message(message)) => {
                self.page.add(key, None, vec![complain(key, &malformed, Some(&message))])
            }
            (Err(malformed), Found::Unnameable) => {
                self.page.add(key, None, vec![complain(key, &malformed, None)])
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
        let header_fault = message.header_fault.as_deref().map(|fault| Malformed::new(Why::Header, fault));
        let faults: Vec<Malformed> = header_fault.into_iter().chain(entry.value.fault()).collect();
        let mut rendered = entry.to_json();
        let mut complaints: Vec<String> =
            faults.iter().map(|fault| complain(key, fault, Some(message))).collect();
        let bytes = rendered.len() + complaints.iter().map(String::len).sum::<usize>();
        if !self.page.could_hold(key, bytes) {
            entry.value = Value::None;
            rendered = entry.to_json();
            let detail = format!("the value has {} bytes, more than an answer can hold", message.value.len());
            complaints.push(complain(key, &Malformed::new(Why::Size, detail), Some(message)));
        }
        self.page.add(key, Some(rendered), complaints)
    }

    fn answer(&mut self, scan: &Scan) {
        let as_of: AsOf = scan.as_of();
        let ok = (self.ask.what == What::Gaps).then(|| self.page.has_no_entries());
        let body = self.page.to_json(self.ask.what, ok, &json(&as_of), &self.frame.seat);
        self.finish(Ok(body));
    }
}

/// The token that each place of a key must have, as far as `ask` narrows it.
fn filters(bucket: Bucket, ask: &Ask) -> Vec<Option<String>> {
    let filter = |field: &&str| match *field {
        "node" => ask.node.as_deref(),
        "module" | "contributor" => ask.module.as_deref(),
        "kind" => ask.kind.as_deref(),
        "collection" => ask.collection.as_deref(),
        _ => None,
    };
    bucket.token_names().iter().map(|field| filter(field).map(name::encode)).collect()
}

fn complain(key: &str, malformed: &Malformed, message: Option<&Message>) -> String {
    Complaint {
        key,
        why: malformed.why,
        detail: &malformed.detail,
        revision: message.map(|message| message.sequence),
        at: message.map(|message| message.at.as_str()),
    }
    .to_json()
}
