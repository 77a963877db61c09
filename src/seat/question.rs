//! A question that is being answered: a small machine that says what it wants from the bus, takes what is heard,
//! and ends with one answer or one error.

mod page;
mod reach;
mod survey;

use super::failure::{Cause, Refusal};
use super::index::Shelf;
use super::known::Known;
use super::scan::Scan;
use crate::wire::request::{Ask, What};
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::message::Request;
use mesh_model::bucket::Bucket;
use mesh_service::identity::Identity;
use page::PageQuestion;
use reach::node_token;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use survey::Survey;

/// How many keys are looked at in one go: whoever asks for something else meanwhile waits no longer than that takes.
const SLICE: usize = 256;

/// What a question needs to know to fit its answer.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The largest body, in bytes.
    pub(super) page_bytes: usize,
    /// Which seat answers.
    pub(super) seat: Identity,
    /// The buckets that may be read in bulk.
    pub(super) bulk: BTreeSet<Bucket>,
    /// Up to so many keys are read one by one all the same.
    pub(super) few_keys: usize,
    /// What is known of the buckets.
    pub(super) shelf: Rc<Shelf>,
    /// How many bytes the answer with a value of each bucket had of late, where that is known.
    pub(super) value_bytes: BTreeMap<Bucket, usize>,
    /// The time since 1970, to count ages from.
    pub(super) clock: Duration,
}

/// A request that a question has for the bus.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Want {
    /// Whose answer it is, among those that the question waits for.
    pub(super) slot: Slot,
    /// What to send.
    pub(super) request: Request,
    /// How much it may bring.
    pub(super) kind: Kind,
}

/// A question's own name for an answer that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// A list of keys.
    Listing,
    /// A look at the bucket in numbers.
    Look,
    /// The value at this position, or the outcome of this write.
    Value(usize),
    /// The read in bulk of this number.
    Batch(usize),
}

/// How much the answer to a request may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One short message.
    Single,
    /// A value of this bucket, expected to come in an answer of so many bytes.
    Value { bucket: Bucket, bytes: usize },
    /// One message that may have megabytes: few are awaited at a time.
    Listing,
    /// Many messages out of this bucket: few are awaited at a time.
    Batch(Bucket),
}

impl Kind {
    /// The bucket that is read in bulk.
    pub(super) const fn in_bulk(self) -> Option<Bucket> {
        match self {
            Kind::Batch(bucket) => Some(bucket),
            Kind::Single | Kind::Value { .. } | Kind::Listing => None,
        }
    }
}

/// What may be sent just now beside single requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    /// A request that lists keys.
    pub(super) listing: bool,
    /// A request in bulk.
    pub(super) batch: bool,
    /// A long list of keys may be kept.
    pub(super) long_list: bool,
    /// Requests for large values, as long as so many bytes are not passed.
    pub(super) large_bytes: usize,
}

/// A question under way.
#[derive(Debug)]
pub(super) enum Question {
    /// Entries of one bucket.
    Page(PageQuestion),
    /// What several buckets say together.
    Survey(Survey),
}

impl Frame {
    /// Reads what `ask` is about in `bucket`, or more.
    fn scan(&self, bucket: Bucket, ask: &Ask) -> Scan {
        let value_bytes = self.value_bytes.get(&bucket).copied();
        let in_bulk = self.bulk.contains(&bucket).then_some(self.few_keys);
        Scan::new(bucket, node_token(ask), value_bytes, in_bulk, Rc::clone(&self.shelf))
    }
}

impl Question {
    /// Begins to answer `ask`; `registry` is what is known of the registry from questions before.
    pub(super) fn new(ask: &Ask, frame: Frame, registry: Option<Rc<Known>>) -> Self {
        match ask.what {
            What::Registry | What::Needs | What::Applied | What::Collect | What::Gaps => {
                Question::Page(PageQuestion::new(ask.clone(), frame, registry))
            }
            What::Drift | What::Nodes | What::Collections => {
                Question::Survey(Survey::new(ask.clone(), frame))
            }
            What::Health => unreachable!("answered without the bus"),
        }
    }

    /// The next request to send, if there is one that may be sent now.
    pub(super) fn want(&mut self, allowance: Allowance) -> Option<Want> {
        match self {
            Question::Page(page) => page.want(allowance),
            Question::Survey(survey) => survey.want(allowance),
        }
    }

    /// Takes the answer to the request of `slot`.
    pub(super) fn heard(&mut self, slot: Slot, body: Result<&[u8], Cause>) {
        match self {
            Question::Page(page) => page.heard(slot, body),
            Question::Survey(survey) => survey.heard(slot, body),
        }
    }

    /// Takes a part of the answer to the request of `slot`. The error says why that answer is of no use: the question
    /// reads what it was to bring in another way.
    pub(super) fn heard_part(&mut self, slot: Slot, part: Part) -> Result<(), String> {
        match self {
            Question::Page(page) => page.heard_part(slot, part),
            Question::Survey(survey) => survey.heard_part(slot, part),
        }
    }

    /// Reads `bucket` one by one from now on, or all if there is none.
    pub(super) fn leave_bulk(&mut self, bucket: Option<Bucket>) {
        match self {
            Question::Page(page) => page.leave_bulk(bucket),
            Question::Survey(survey) => survey.leave_bulk(bucket),
        }
    }

    /// Whether it would come to an answer sooner if it left reads in bulk: a page needs but a part of a bucket.
    pub(super) const fn had_better_leave_bulk(&self) -> bool {
        match self {
            Question::Page(page) => page.is_following(),
            Question::Survey(_) => false,
        }
    }

    /// Whether it waits for the connection for reads in bulk.
    pub(super) fn waits_for_bulk(&self) -> bool {
        match self {
            Question::Page(page) => page.waits_for_bulk(),
            Question::Survey(survey) => survey.waits_for_bulk(),
        }
    }

    /// Whether there is more to do without hearing anything: a long answer is made in slices, so that nobody waits for
    /// the whole of it.
    pub(super) const fn is_busy(&self) -> bool {
        match self {
            Question::Page(page) => page.is_busy(),
            Question::Survey(survey) => survey.is_busy(),
        }
    }

    /// Does one more slice.
    pub(super) fn go_on(&mut self) {
        match self {
            Question::Page(page) => page.advance(),
            Question::Survey(survey) => survey.advance(),
        }
    }

    /// The answer's body or the error, once it is there.
    pub(super) fn outcome(&mut self) -> Option<Result<String, Refusal>> {
        match self {
            Question::Page(page) => page.outcome.take(),
            Question::Survey(survey) => survey.outcome.take(),
        }
    }

    /// What it knows of the registry, once its answer is there.
    pub(super) const fn take_registry(&mut self) -> Option<Rc<Known>> {
        match self {
            Question::Page(page) => page.take_registry(),
            Question::Survey(_) => None,
        }
    }

    /// Ends with what has been read by now, if that is an answer: a page is, for the next one goes on behind it.
    pub(super) fn cut_short(&mut self) {
        match self {
            Question::Page(page) => page.cut_short(),
            Question::Survey(_) => {}
        }
    }

    /// Whether it keeps a long list of keys, or may be about to.
    pub(super) fn keeps_long_list(&self) -> bool {
        match self {
            Question::Page(page) => page.keeps_long_list(),
            Question::Survey(survey) => survey.keeps_long_list(),
        }
    }

    /// What it is waiting for, for the message that says that it took too long.
    pub(super) fn progress(&self) -> String {
        match self {
            Question::Page(page) => page.progress(),
            Question::Survey(survey) => survey.progress(),
        }
    }
}
