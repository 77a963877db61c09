//! Calls in flight: sent to JetStream and waiting for a reply, each under its number.

use super::call::{Budget, Cost, Tag};
use crate::seat::limits::{
    BATCH_GAP_TIMEOUT, CALL_TIMEOUT, LARGE_BYTES, MAX_BATCHES, MAX_IN_FLIGHT, MAX_LARGE_BYTES,
    MAX_LISTED_KEYS, MAX_LISTINGS,
};
use mesh_model::bucket::Bucket;
use std::collections::BTreeMap;
use std::time::Duration;

/// How quickly the estimate of a bucket's value size decays with each reply, as a fraction.
const FORGETTING: usize = 16 * 1024;

/// The owner of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// The query of this id.
    Request(u64),
    /// The registry pass.
    Pass,
    /// The looks at the streams.
    Checks,
    /// The ping for other seats, which may get several replies.
    OtherSeats,
    /// A message to the seat itself, which comes back if the server still reads what the connection sends.
    Echo,
}

/// A call that waits for its reply.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) owner: Owner,
    pub(super) tag: Tag,
    pub(super) subject: String,
    pub(super) cost: Cost,
    /// When it was sent, or when the last part of its reply arrived.
    pub(super) since: Duration,
}

impl Sent {
    fn due(&self) -> Duration {
        self.since + if self.cost.in_bulk().is_some() { BATCH_GAP_TIMEOUT } else { CALL_TIMEOUT }
    }
}

/// All calls in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    by_number: BTreeMap<u64, Sent>,
    outstanding: BTreeMap<Owner, usize>,
    last_number: u64,
    listings: usize,
    batches: usize,
    large_bytes: usize,
    value_bytes: BTreeMap<Bucket, usize>,
}

impl InFlight {
    /// Records a call and returns its number.
    pub(super) fn add(&mut self, sent: Sent) -> u64 {
        self.last_number += 1;
        self.listings += usize::from(sent.cost.is_list());
        self.batches += usize::from(sent.cost.in_bulk().is_some());
        self.large_bytes += large_bytes(sent.cost);
        *self.outstanding.entry(sent.owner).or_default() += 1;
        self.by_number.insert(self.last_number, sent);
        self.last_number
    }

    /// The number of the call that is added next.
    pub(super) const fn next_number(&self) -> u64 {
        self.last_number + 1
    }

    /// What holds after every event.
    pub(super) fn assert_invariants(&self) {
        let sent = || self.by_number.values();
        assert!(self.by_number.len() <= MAX_IN_FLIGHT, "too many calls in flight");
        assert!(self.listings <= MAX_LISTINGS, "too many listings");
        assert!(self.batches <= MAX_BATCHES, "too many batches");
        assert_eq!(self.listings, sent().filter(|sent| sent.cost.is_list()).count());
        assert_eq!(self.batches, sent().filter(|sent| sent.cost.in_bulk().is_some()).count());
        assert_eq!(self.large_bytes, sent().map(|sent| large_bytes(sent.cost)).sum::<usize>());
        assert_eq!(self.by_number.len(), self.outstanding.values().sum::<usize>());
    }

    /// Whether no call is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The numbers of all calls, with their owners.
    pub(super) fn owners(&self) -> impl Iterator<Item = (u64, Owner)> {
        self.by_number.iter().map(|(number, sent)| (*number, sent.owner))
    }

    /// How many more may be sent. One place is reserved for the ping for other seats, which is never delayed.
    pub(super) fn room(&self) -> usize {
        (MAX_IN_FLIGHT - 1).saturating_sub(self.by_number.len())
    }

    /// What may be sent besides single requests while the queries keep `listed_keys` keys of lists.
    pub(super) const fn budget(&self, listed_keys: usize) -> Budget {
        // One value at a time is always read, whatever its size.
        let large_bytes = if self.large_bytes == 0 { usize::MAX } else { MAX_LARGE_BYTES };
        Budget {
            listing: self.listings < MAX_LISTINGS && listed_keys < MAX_LISTED_KEYS,
            batch: self.batches < MAX_BATCHES,
            large_bytes: large_bytes.saturating_sub(self.large_bytes),
        }
    }

    /// Remembers the size of a reply with a value of `bucket`.
    pub(super) fn note_value_bytes(&mut self, bucket: Bucket, bytes: usize) {
        let known = self.value_bytes.entry(bucket).or_default();
        *known = bytes.max(*known - *known / FORGETTING);
    }

    /// The recent mean size of replies with a value, by bucket.
    pub(super) const fn value_bytes(&self) -> &BTreeMap<Bucket, usize> {
        &self.value_bytes
    }

    /// How many calls `owner` has in flight.
    pub(super) fn outstanding(&self, owner: Owner) -> usize {
        self.outstanding.get(&owner).copied().unwrap_or(0)
    }

    /// The owner of the call `number`; `None` if it is no longer in flight. A reply removes the call, except the ping
    /// that may get several.
    pub(super) fn settle(&mut self, number: u64) -> Option<(Owner, Tag, Cost)> {
        let sent = self.by_number.get(&number)?;
        let (owner, tag, cost) = (sent.owner, sent.tag, sent.cost);
        if owner != Owner::OtherSeats {
            self.remove(number);
        }
        Some((owner, tag, cost))
    }

    /// The costs of the calls in flight that were sent before `before`, of `owner` or of all.
    pub(super) fn costs(&self, owner: Option<Owner>, before: Duration) -> Vec<Cost> {
        let is_meant = |sent: &&Sent| owner.is_none_or(|owner| sent.owner == owner) && sent.since <= before;
        self.by_number.values().filter(is_meant).map(|sent| sent.cost).collect()
    }

    /// Whether `number` is a bulk call in flight.
    pub(super) fn is_batch(&self, number: u64) -> bool {
        self.by_number.get(&number).is_some_and(|sent| sent.cost.in_bulk().is_some())
    }

    /// The owner of the call `number` of which a part arrived; more parts follow.
    pub(super) fn part(&mut self, number: u64, now: Duration) -> Option<(Owner, Tag, Cost)> {
        let sent = self.by_number.get_mut(&number)?;
        sent.since = now;
        Some((sent.owner, sent.tag, sent.cost))
    }

    /// Removes all calls of `owner`: their replies will be dropped.
    pub(super) fn forget(&mut self, owner: Owner) {
        if self.outstanding(owner) > 0 {
            self.take(|sent| sent.owner == owner);
        }
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        self.take(|_| true);
    }

    /// When the first of them times out.
    pub(super) fn due(&self) -> Option<Duration> {
        self.by_number.values().map(Sent::due).min()
    }

    /// Removes those that timed out.
    pub(super) fn overdue(&mut self, now: Duration) -> Vec<Sent> {
        self.take(|sent| now >= sent.due())
    }

    /// Removes those whose subject was denied.
    pub(super) fn denied(&mut self, subject: &str) -> Vec<Sent> {
        self.take(|sent| sent.subject == subject)
    }

    fn take(&mut self, which: impl Fn(&Sent) -> bool) -> Vec<Sent> {
        let numbers: Vec<u64> =
            self.by_number.iter().filter(|(_, sent)| which(sent)).map(|(number, _)| *number).collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    fn remove(&mut self, number: u64) -> Option<Sent> {
        let sent = self.by_number.remove(&number)?;
        self.listings -= usize::from(sent.cost.is_list());
        self.batches -= usize::from(sent.cost.in_bulk().is_some());
        self.large_bytes -= large_bytes(sent.cost);
        if let Some(count) = self.outstanding.get_mut(&sent.owner) {
            *count -= 1;
            if *count == 0 {
                self.outstanding.remove(&sent.owner);
            }
        }
        Some(sent)
    }
}

/// The bytes of a call that count as large.
fn large_bytes(cost: Cost) -> usize {
    match cost {
        Cost::Value { bytes, .. } if bytes > LARGE_BYTES => bytes,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: usize) -> Sent {
        Sent {
            owner: Owner::Request(1),
            tag: Tag::Value(0),
            subject: String::new(),
            cost: Cost::Value { bucket: Bucket::Needs, bytes },
            since: Duration::ZERO,
        }
    }

    #[test]
    fn large_values_are_awaited_up_to_a_number_of_bytes_and_small_ones_take_none_of_it() {
        let mut calls = InFlight::default();
        assert_eq!(calls.budget(0).large_bytes, usize::MAX, "one is always read, however large");
        calls.add(value(LARGE_BYTES));
        assert_eq!(calls.budget(0).large_bytes, usize::MAX);
        let large = calls.add(value(3 * 1024 * 1024));
        calls.add(value(3 * 1024 * 1024));
        assert_eq!(calls.budget(0).large_bytes, 2 * 1024 * 1024);
        calls.settle(large);
        assert_eq!(calls.budget(0).large_bytes, 5 * 1024 * 1024);
        calls.clear();
        assert_eq!(calls.budget(0).large_bytes, usize::MAX);
    }

    #[test]
    fn that_a_bucket_had_large_values_is_forgotten_slowly() {
        let mut calls = InFlight::default();
        calls.note_value_bytes(Bucket::Needs, 16_384_000);
        calls.note_value_bytes(Bucket::Needs, 10);
        assert_eq!(calls.value_bytes()[&Bucket::Needs], 16_383_000);
        for _ in 0..300_000 {
            calls.note_value_bytes(Bucket::Needs, 1000);
        }
        assert!(calls.value_bytes()[&Bucket::Needs] <= LARGE_BYTES);
    }
}
