//! Our own requests to the bus that wait for an answer, each under its number.

use super::question::{Allowance, Kind, Slot};
use crate::bucket::Bucket;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many are outstanding at a time.
pub(super) const MAX_OUTSTANDING: usize = 256;

/// How many of them may list keys: those answers can be megabytes.
const MAX_LISTINGS: usize = 4;

/// How many of them may be for batches: those answers can be megabytes too, in many messages.
const MAX_BATCHES: usize = 8;

/// How long an answer is awaited.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the next message of a batch is awaited: there is another way to read what it was to bring.
const BATCH_PATIENCE: Duration = Duration::from_secs(1);

/// Whom an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    pub(super) slot: Slot,
    pub(super) subject: String,
    pub(super) kind: Kind,
    /// When it was sent, or when the last part of its answer came.
    pub(super) since: Duration,
}

impl Call {
    fn due(&self) -> Duration {
        self.since + if matches!(self.kind, Kind::Batch(_)) { BATCH_PATIENCE } else { PATIENCE }
    }
}

/// All requests that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    by_number: BTreeMap<u64, Call>,
    outstanding: BTreeMap<Owner, usize>,
    last_number: u64,
    listings: usize,
    batches: usize,
}

impl Calls {
    /// Notes a request and gives it its number.
    pub(super) fn add(&mut self, call: Call) -> u64 {
        self.last_number += 1;
        self.listings += usize::from(call.kind == Kind::Listing);
        self.batches += usize::from(matches!(call.kind, Kind::Batch(_)));
        *self.outstanding.entry(call.owner).or_default() += 1;
        self.by_number.insert(self.last_number, call);
        debug_assert!(self.by_number.len() <= MAX_OUTSTANDING, "too many requests to the bus");
        debug_assert!(self.listings <= MAX_LISTINGS, "too many listings");
        debug_assert!(self.batches <= MAX_BATCHES, "too many batches");
        self.last_number
    }

    /// How many may still be sent. One place is kept for the question who else holds the seat, which is never put
    /// off.
    pub(super) fn room(&self) -> usize {
        (MAX_OUTSTANDING - 1).saturating_sub(self.by_number.len())
    }

    /// What may be sent beside single requests.
    pub(super) const fn allowance(&self) -> Allowance {
        Allowance { listing: self.listings < MAX_LISTINGS, batch: self.batches < MAX_BATCHES }
    }

    /// How many `owner` has outstanding.
    pub(super) fn outstanding(&self, owner: Owner) -> usize {
        self.outstanding.get(&owner).copied().unwrap_or(0)
    }

    /// The buckets out of which batches are awaited.
    pub(super) fn batched(&self) -> impl Iterator<Item = Bucket> {
        self.by_number.values().filter_map(|call| match call.kind {
            Kind::Batch(bucket) => Some(bucket),
            Kind::Single | Kind::Listing => None,
        })
    }

    /// Whom the answer to `number` is for; `None` if it is no longer awaited. An answer settles the request, but for
    /// the one that may have several.
    pub(super) fn settle(&mut self, number: u64) -> Option<(Owner, Slot, Kind)> {
        let call = self.by_number.get(&number)?;
        let (owner, slot, kind) = (call.owner, call.slot, call.kind);
        if owner != Owner::Presence {
            self.remove(number);
        }
        Some((owner, slot, kind))
    }

    /// Whom a part of the answer to `number` is for; more is to come.
    pub(super) fn part(&mut self, number: u64, now: Duration) -> Option<(Owner, Slot, Kind)> {
        let call = self.by_number.get_mut(&number)?;
        call.since = now;
        Some((call.owner, call.slot, call.kind))
    }

    /// Forgets all requests of `owner`: their answers are no longer awaited.
    pub(super) fn forget(&mut self, owner: Owner) {
        if self.outstanding(owner) > 0 {
            self.take(|call| call.owner == owner);
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.take(|_| true);
    }

    /// When the first of them has waited too long.
    pub(super) fn due(&self) -> Option<Duration> {
        self.by_number.values().map(Call::due).min()
    }

    /// Takes out those that have waited too long.
    pub(super) fn overdue(&mut self, now: Duration) -> Vec<Call> {
        self.take(|call| now >= call.due())
    }

    /// Takes out those that `subject` was denied to.
    pub(super) fn denied(&mut self, subject: &str) -> Vec<Call> {
        self.take(|call| call.subject == subject)
    }

    fn take(&mut self, which: impl Fn(&Call) -> bool) -> Vec<Call> {
        let numbers: Vec<u64> =
            self.by_number.iter().filter(|(_, call)| which(call)).map(|(number, _)| *number).collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    fn remove(&mut self, number: u64) -> Option<Call> {
        let call = self.by_number.remove(&number)?;
        self.listings -= usize::from(call.kind == Kind::Listing);
        self.batches -= usize::from(matches!(call.kind, Kind::Batch(_)));
        if let Some(count) = self.outstanding.get_mut(&call.owner) {
            *count -= 1;
            if *count == 0 {
                self.outstanding.remove(&call.owner);
            }
        }
        Some(call)
    }
}
