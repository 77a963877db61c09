//! The requests that the seat has taken on: a request is an id, and taking it out means that it is answered.

use super::failure::Refusal;
use super::question::{Frame, Question};
use crate::wire::request::Ask;
use std::collections::VecDeque;
use std::time::Duration;

/// How many requests are worked on at a time.
const MAX_UNDER_WAY: usize = 64;

/// How many more wait their turn.
const MAX_WAITING: usize = 1024;

/// How long a request may take from its arrival to its answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// A request that has been taken on.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) id: u64,
    pub(super) reply: String,
    pub(super) since: Duration,
    ask: Ask,
    /// `None` while it waits its turn.
    pub(super) question: Option<Question>,
}

/// The requests under way, and behind them those that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Requests {
    taken: VecDeque<Taken>,
    next_id: u64,
}

impl Requests {
    /// Takes a request on, or says why not.
    pub(super) fn take(&mut self, ask: Ask, reply: String, now: Duration) -> Result<(), Refusal> {
        if self.taken.len() >= MAX_UNDER_WAY + MAX_WAITING {
            return Err(Refusal::unavailable(format!(
                "the seat is full: {MAX_UNDER_WAY} requests are under way and {MAX_WAITING} wait: ask again later"
            )));
        }
        self.next_id += 1;
        self.taken.push_back(Taken { id: self.next_id, reply, since: now, ask, question: None });
        Ok(())
    }

    /// How many there are, waiting ones included.
    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    /// Begins those whose turn it is.
    pub(super) fn begin(&mut self, frame: &Frame) {
        for taken in self.taken.iter_mut().take(MAX_UNDER_WAY) {
            if taken.question.is_none() {
                taken.question = Some(Question::new(&taken.ask, frame.clone()));
            }
        }
    }

    /// The connection is gone: whatever was under way begins anew once it is back, if there is still time.
    pub(super) fn begin_anew(&mut self) {
        for taken in &mut self.taken {
            taken.question = None;
        }
    }

    /// The questions under way.
    pub(super) fn under_way(&mut self) -> impl Iterator<Item = (u64, &mut Question)> {
        self.taken
            .iter_mut()
            .take(MAX_UNDER_WAY)
            .filter_map(|taken| Some((taken.id, taken.question.as_mut()?)))
    }

    /// The question `id`, if it is still under way.
    pub(super) fn question(&mut self, id: u64) -> Option<&mut Question> {
        self.under_way().find(|(other, _)| *other == id).map(|(_, question)| question)
    }

    /// Takes out one that has its answer.
    pub(super) fn answered(&mut self) -> Option<(Taken, Result<String, Refusal>)> {
        let (at, outcome) = self
            .taken
            .iter_mut()
            .take(MAX_UNDER_WAY)
            .enumerate()
            .find_map(|(at, taken)| Some((at, taken.question.as_mut()?.outcome()?)))?;
        Some((self.taken.remove(at)?, outcome))
    }

    /// When the first of them has waited too long.
    pub(super) fn due(&self) -> Option<Duration> {
        self.taken.front().map(|oldest| oldest.since + PATIENCE)
    }

    /// Takes out one that has waited too long, with what it waited for.
    pub(super) fn overdue(&mut self, now: Duration) -> Option<(Taken, Refusal)> {
        if now < self.due()? {
            return None;
        }
        let taken = self.taken.pop_front()?;
        let seconds = PATIENCE.as_secs();
        let message = match &taken.question {
            None => format!("the request waited {seconds} s for its turn: ask again later"),
            Some(question) => format!(
                "not read within {seconds} s: {}: ask again, for less at a time, or look at the load of the nats-server",
                question.progress()
            ),
        };
        Some((taken, Refusal::too_late(message)))
    }

    /// Takes out any, for a seat that ends.
    pub(super) fn pop(&mut self) -> Option<Taken> {
        self.taken.pop_front()
    }
}
