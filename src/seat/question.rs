//! A question that is being answered: a small machine that says what it wants from the bus, takes what is heard,
//! and ends with one answer or one error.

mod page;
mod reach;
mod survey;

use super::failure::{Cause, Refusal};
use crate::wire::answer::Identity;
use crate::wire::jetstream::Request;
use crate::wire::request::{Ask, What};
use page::PageQuestion;
use std::time::Duration;
use survey::Survey;

/// What a question needs to know to fit its answer.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The largest body, in bytes.
    pub(super) page_bytes: usize,
    /// Which seat answers.
    pub(super) seat: Identity,
    /// The time since 1970, to count ages from.
    pub(super) clock: Duration,
}

/// A request that a question has for the bus.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Want {
    /// The question's own number for the answer.
    pub(super) slot: usize,
    /// What to send.
    pub(super) request: Request,
    /// Whether it lists keys: those answers can be large, so few are awaited at a time.
    pub(super) lists: bool,
}

/// A question under way.
#[derive(Debug)]
pub(super) enum Question {
    /// Entries of one bucket.
    Page(PageQuestion),
    /// What several buckets say together.
    Survey(Survey),
}

impl Question {
    /// Begins to answer `ask`.
    pub(super) fn new(ask: &Ask, frame: Frame) -> Self {
        match ask.what {
            What::Registry | What::Needs | What::Applied | What::Collect | What::Gaps => {
                Question::Page(PageQuestion::new(ask.clone(), frame))
            }
            What::Drift | What::Nodes | What::Collections => {
                Question::Survey(Survey::new(ask.clone(), frame))
            }
            What::Health => unreachable!("answered without the bus"),
        }
    }

    /// The next request to send, if there is one to send now; one that lists keys only if `may_list`.
    pub(super) fn want(&mut self, may_list: bool) -> Option<Want> {
        match self {
            Question::Page(page) => page.want(may_list),
            Question::Survey(survey) => survey.want(may_list),
        }
    }

    /// Takes the answer to the request of `slot`.
    pub(super) fn heard(&mut self, slot: usize, body: Result<&[u8], Cause>) {
        match self {
            Question::Page(page) => page.heard(slot, body),
            Question::Survey(survey) => survey.heard(slot, body),
        }
    }

    /// The answer's body or the error, once it is there.
    pub(super) fn outcome(&mut self) -> Option<Result<String, Refusal>> {
        match self {
            Question::Page(page) => page.outcome.take(),
            Question::Survey(survey) => survey.outcome.take(),
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
