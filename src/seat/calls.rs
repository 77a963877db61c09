//! Our own requests to the bus that wait for an answer, each under its number.

use super::failure::Cause;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many are outstanding at a time.
pub(super) const MAX_OUTSTANDING: usize = 256;

/// How many of them may list keys: those answers can be megabytes.
pub(super) const MAX_LISTINGS: usize = 4;

/// How long an answer is awaited.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Whom an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The request of this id.
    Request(u64),
    /// The registry pass.
    Pass,
    /// The question who else holds the seat, which may have several answers.
    Presence,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) owner: Owner,
    pub(super) slot: usize,
    pub(super) subject: String,
    pub(super) lists: bool,
    pub(super) since: Duration,
}

/// All requests that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    by_number: BTreeMap<u64, Call>,
    last_number: u64,
    listings: usize,
}

impl Calls {
    /// Notes a request and gives it its number.
    pub(super) fn add(&mut self, call: Call) -> u64 {
        self.last_number += 1;
        self.listings += usize::from(call.lists);
        self.by_number.insert(self.last_number, call);
        debug_assert!(self.by_number.len() <= MAX_OUTSTANDING, "too many requests to the bus");
        debug_assert!(self.listings <= MAX_LISTINGS, "too many listings");
        self.last_number
    }

    /// How many may still be sent. One place is kept for the question who else holds the seat, which is never put
    /// off.
    pub(super) fn room(&self) -> usize {
        (MAX_OUTSTANDING - 1).saturating_sub(self.by_number.len())
    }

    /// Whether another one that lists keys may be sent.
    pub(super) const fn may_list(&self) -> bool {
        self.listings < MAX_LISTINGS
    }

    /// How many `owner` has outstanding.
    pub(super) fn outstanding(&self, owner: Owner) -> usize {
        self.by_number.values().filter(|call| call.owner == owner).count()
    }

    /// Whom the answer to `number` is for; `None` if it is no longer awaited. An answer settles the request, but for
    /// the one that may have several.
    pub(super) fn settle(&mut self, number: u64) -> Option<(Owner, usize)> {
        let call = self.by_number.get(&number)?;
        let (owner, slot) = (call.owner, call.slot);
        if owner != Owner::Presence {
            self.remove(number);
        }
        Some((owner, slot))
    }

    /// Forgets all requests of `owner`: their answers are no longer awaited.
    pub(super) fn forget(&mut self, owner: Owner) {
        self.by_number.retain(|_, call| call.owner != owner);
        self.listings = self.by_number.values().filter(|call| call.lists).count();
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.by_number.clear();
        self.listings = 0;
    }

    /// When the oldest has waited too long.
    pub(super) fn due(&self) -> Option<Duration> {
        self.by_number.first_key_value().map(|(_, call)| call.since + PATIENCE)
    }

    /// Takes out one that has waited too long.
    pub(super) fn overdue(&mut self, now: Duration) -> Option<(Owner, usize, Cause)> {
        let number = *self.by_number.first_key_value().filter(|(_, call)| now >= call.since + PATIENCE)?.0;
        let call = self.remove(number)?;
        Some((call.owner, call.slot, Cause::Silent))
    }

    /// Takes out those that `subject` was denied to.
    pub(super) fn denied(&mut self, subject: &str, words: &str) -> Vec<(Owner, usize, Cause)> {
        let numbers: Vec<u64> = self
            .by_number
            .iter()
            .filter(|(_, call)| call.subject == subject)
            .map(|(number, _)| *number)
            .collect();
        let denied = numbers.into_iter().filter_map(|number| self.remove(number));
        denied.map(|call| (call.owner, call.slot, Cause::Denied(words.to_owned()))).collect()
    }

    fn remove(&mut self, number: u64) -> Option<Call> {
        let call = self.by_number.remove(&number)?;
        self.listings -= usize::from(call.lists);
        Some(call)
    }
}
