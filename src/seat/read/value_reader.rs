//! The values of a bucket's keys, returned in the order of the keys.
//!
//! They are read one by one or, if allowed, in batches. A batch that is refused, has a gap or cannot be trusted is
//! read again one by one.

use super::found::Found;
use crate::seat::call::{Budget, Call, Cost, Tag};
use crate::seat::limits::LARGE_BYTES;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::direct_get::{self, Part};
use mesh_jetstream::kv::{self, Message};
use mesh_jetstream::subject;
use mesh_model::bucket::Bucket;
use std::collections::{BTreeMap, VecDeque};

/// The maximum number of single reads in flight.
const MAX_WINDOW: usize = 256;

/// The same before the size of any value of the bucket is known: each may be as large as a message.
const FIRST_WINDOW: usize = 4;

/// The maximum bytes of replies in flight; the window shrinks for large values.
const WINDOW_BYTES: usize = 4 * 1024 * 1024;

/// How many keys a batch requests. The server accepts up to 1024.
const BATCH_KEYS: usize = 256;

/// The maximum bytes of keys of a batch: a server may limit messages to 16 KiB.
const BATCH_BYTES: usize = 8 * 1024;

/// How many keys may be requested in batches ahead of the first missing value.
const BATCH_WINDOW: usize = 3 * BATCH_KEYS;

/// How often keys are requested again because the replying server does not know the newest writes yet: in a cluster
/// any server with a replica may reply.
const MAX_LAGS: u32 = 8;

/// Reads the values of keys.
#[derive(Debug)]
pub(in crate::seat) struct ValueReader {
    bucket: Bucket,
    prefix: String,
    keys: VecDeque<String>,
    /// The position of the first key of `keys` among all keys to read.
    given: usize,
    /// The position of the first key that was not requested yet.
    asked: usize,
    /// Positions to request again.
    again: VecDeque<usize>,
    found: BTreeMap<usize, Found>,
    /// The largest reply so far, or an estimate for the first.
    largest_bytes: usize,
    /// The size of this bucket's values is still unknown.
    is_guess: bool,
    /// Whether to read in batches.
    in_batches: bool,
    /// The bucket's last sequence when its keys were listed: a batch must know it.
    since: u64,
    batches: BTreeMap<usize, Batch>,
    last_batch: usize,
    /// How often a batch was requested again because the replying server does not know the newest writes.
    lags: u32,
}

/// A batch under way.
#[derive(Debug, Default)]
struct Batch {
    /// The positions of the keys that did not arrive yet.
    missing: BTreeMap<String, usize>,
    /// The messages of the current part. Only its end tells whether that is any good.
    brought: BTreeMap<usize, Found>,
    /// The sequence of the last message.
    last: u64,
}

impl ValueReader {
    /// Reads `keys` of `bucket`. `mean_bytes` is the recent mean size of a reply, if known. `batches_since` allows
    /// batches: the last sequence that they must know.
    pub(in crate::seat) fn new(
        bucket: Bucket,
        keys: Vec<String>,
        value_bytes: Option<usize>,
        batches_since: Option<u64>,
    ) -> Self {
        ValueReader {
            bucket,
            prefix: Kv::new(bucket.name()).subject_prefix(),
            keys: keys.into(),
            given: 0,
            asked: 0,
            again: VecDeque::new(),
            found: BTreeMap::new(),
            largest_bytes: value_bytes.unwrap_or(WINDOW_BYTES / FIRST_WINDOW),
            is_guess: value_bytes.is_none(),
            in_batches: batches_since.is_some(),
            since: batches_since.unwrap_or_default(),
            batches: BTreeMap::new(),
            last_batch: 0,
            lags: 0,
        }
    }

    /// The next call, if there is one to send now.
    pub(in crate::seat) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        if self.in_batches { self.next_batch(budget) } else { self.next_single(budget) }
    }

    fn next_single(&mut self, budget: Budget) -> Option<Call> {
        if self.largest_bytes > LARGE_BYTES.max(budget.large_bytes) {
            return None;
        }
        let window = (WINDOW_BYTES / self.largest_bytes.max(1)).clamp(4, MAX_WINDOW);
        loop {
            let at = match self.again.pop_front() {
                Some(at) => at,
                None if self.asked - self.given >= window => return None,
                None => {
                    self.asked += 1;
                    self.asked - 1
                }
            };
            let Some(key) = self.keys.get(at.checked_sub(self.given)?) else {
                self.asked = self.given + self.keys.len();
                return None;
            };
            if is_nameable(key) {
                return Some(self.one(at));
            }
        }
    }

    fn one(&self, at: usize) -> Call {
        let request = kv::get(Kv::new(self.bucket.name()), &self.keys[at - self.given]);
        let cost = Cost::Value { bucket: self.bucket, bytes: self.largest_bytes };
        Call { tag: Tag::Value(at), request, cost }
    }

    fn next_batch(&mut self, budget: Budget) -> Option<Call> {
        if !budget.batch {
            return None;
        }
        let mut missing = BTreeMap::new();
        let mut bytes = 0;
        while missing.len() < BATCH_KEYS && bytes < BATCH_BYTES {
            let at = match self.again.pop_front() {
                Some(at) => at,
                None if self.asked - self.given >= BATCH_WINDOW => break,
                None => {
                    self.asked += 1;
                    self.asked - 1
                }
            };
            let Some(key) = self.keys.get(at - self.given) else {
                self.asked = self.given + self.keys.len();
                break;
            };
            if is_nameable(key) {
                bytes += self.prefix.len() + key.len();
                missing.insert(key.clone(), at);
            }
        }
        if missing.is_empty() {
            return None;
        }
        let keys: Vec<&str> = missing.keys().map(String::as_str).collect();
        let request = direct_get::get(Kv::new(self.bucket.name()), &keys);
        self.last_batch += 1;
        self.batches.insert(self.last_batch, Batch { missing, brought: BTreeMap::new(), last: 0 });
        Some(Call { tag: Tag::Batch(self.last_batch), request, cost: Cost::Batch(self.bucket) })
    }

    /// Handles the value at the position `at`, whose reply had `bytes` bytes.
    pub(in crate::seat) fn on_reply(&mut self, at: usize, bytes: usize, message: Option<Message>) {
        // The first reply replaces the estimate; later the largest counts.
        self.largest_bytes = if self.is_guess { bytes } else { self.largest_bytes.max(bytes) };
        self.is_guess = false;
        let Some(key) = at.checked_sub(self.given).and_then(|at| self.keys.get(at)) else { return };
        let found = match message {
            None => Found::Gone { marker: None },
            Some(message) if message.subject.strip_prefix(&self.prefix) != Some(key) => Found::Unnameable,
            Some(message) => message.into(),
        };
        self.found.insert(at, found);
    }

    /// Handles a part of a batch. The error says why the batch is unusable.
    pub(in crate::seat) fn on_part(&mut self, number: usize, part: Part) -> Result<(), String> {
        let Some(batch) = self.batches.get_mut(&number) else { return Ok(()) };
        let gap = || Err("a message is missing in the reply".to_owned());
        match part {
            Part::Message { after, .. } | Part::End { after, .. } if after != batch.last => gap(),
            Part::Message { message, .. } => {
                let key = message.subject.strip_prefix(&self.prefix).unwrap_or_default();
                let Some(at) = batch.missing.remove(key) else {
                    return Err("the reply has a key that was not requested".to_owned());
                };
                batch.last = message.sequence;
                batch.brought.insert(at, message.into());
                Ok(())
            }
            Part::End { up_to, .. } if up_to.is_none_or(|up_to| up_to < self.since) => {
                self.lags += 1;
                if self.lags > MAX_LAGS {
                    return Err("the replying server does not know the newest writes yet".to_owned());
                }
                let Batch { missing, brought, .. } = self.batches.remove(&number).unwrap_or_default();
                self.ask_again(missing.into_values().chain(brought.into_keys()));
                Ok(())
            }
            Part::End { left_out: 1.., .. } if batch.brought.is_empty() => {
                Err("the reply is empty".to_owned())
            }
            Part::End { left_out, .. } => {
                let Batch { missing, brought, .. } = self.batches.remove(&number).unwrap_or_default();
                self.found.extend(brought);
                if left_out == 0 {
                    self.found.extend(missing.into_values().map(|at| (at, Found::Gone { marker: None })));
                } else {
                    self.ask_again(missing.into_values());
                }
                Ok(())
            }
            // None of the keys has a message; single reads will show that.
            Part::Unusable(why) if why.starts_with("404") => {
                self.give_up_batch(number);
                Ok(())
            }
            Part::Unusable(why) => Err(why),
        }
    }

    /// Reads the keys of a batch one by one, and all others, too.
    pub(in crate::seat) fn give_up_batch(&mut self, number: usize) {
        self.in_batches = false;
        if let Some(Batch { missing, brought, .. }) = self.batches.remove(&number) {
            self.ask_again(missing.into_values().chain(brought.into_keys()));
        }
    }

    /// Reads one by one from now on, including the keys of batches in flight.
    pub(in crate::seat) fn leave_batches(&mut self) {
        self.in_batches = false;
        for number in self.batches.keys().copied().collect::<Vec<_>>() {
            self.give_up_batch(number);
        }
    }

    fn ask_again(&mut self, positions: impl Iterator<Item = usize>) {
        let mut positions: Vec<usize> = positions.collect();
        positions.sort_unstable();
        self.again.extend(positions);
    }

    /// The first key that was not returned yet.
    pub(in crate::seat) fn first_unread(&self) -> Option<&str> {
        self.keys.front().map(String::as_str)
    }

    /// The next key in order with what was found, if it is known yet.
    pub(in crate::seat) fn next(&mut self) -> Option<(String, Found)> {
        let found = match self.found.remove(&self.given) {
            Some(found) => found,
            None if !is_nameable(self.keys.front()?) => Found::Unnameable,
            None => return None,
        };
        self.given += 1;
        self.asked = self.asked.max(self.given);
        Some((self.keys.pop_front()?, found))
    }

    /// How many keys were not returned yet.
    pub(in crate::seat) fn left(&self) -> usize {
        self.keys.len()
    }

    /// Whether every key was returned.
    pub(in crate::seat) fn is_done(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Whether the bus can be asked for `key`: one that is not UTF-8 reaches us with U+FFFD instead of its bytes, and
/// one that reads as a pattern brings other keys' messages.
pub(in crate::seat) fn is_nameable(key: &str) -> bool {
    !key.contains(char::REPLACEMENT_CHARACTER) && !subject::is_pattern(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Budget = Budget { listing: true, batch: true, large_bytes: usize::MAX };

    /// The end of a batch of a server that does not know what was written under the sequence 9.
    const LAGS: Part = Part::End { left_out: 0, after: 0, up_to: Some(8) };

    fn message(key: &str) -> Message {
        Message {
            subject: format!("$KV.mesh-provisioner_needs.{key}"),
            sequence: 1,
            at: "2026-11-29T13:26:00Z".to_owned(),
            deleted: false,
            header_fault: None,
            value: b"1".to_vec(),
        }
    }

    fn values(keys: &[&str], batches_since: Option<u64>) -> ValueReader {
        ValueReader::new(Bucket::Needs, keys.iter().map(|&key| key.to_owned()).collect(), None, batches_since)
    }

    fn many(count: usize) -> ValueReader {
        ValueReader::new(Bucket::Needs, (0..count).map(|at| format!("{at:04}")).collect(), None, None)
    }

    fn wanted(values: &mut ValueReader) -> Vec<Tag> {
        std::iter::from_fn(|| values.next_call(ALL)).map(|want| want.tag).collect()
    }

    fn part(key: &str, sequence: u64, after: u64) -> Part {
        Part::Message { message: Message { sequence, ..message(key) }, after }
    }

    #[test]
    fn values_come_in_the_order_of_their_keys() {
        let mut values = values(&["a", "b", "c"], None);
        assert_eq!(wanted(&mut values), [Tag::Value(0), Tag::Value(1), Tag::Value(2)]);
        values.on_reply(2, 10, Some(message("c")));
        values.on_reply(1, 10, None);
        assert_eq!(values.next(), None);
        values.on_reply(0, 10, Some(Message { deleted: true, ..message("a") }));
        let marker = Some(crate::seat::read::found::Marker { sequence: 1, at: message("a").at });
        assert_eq!(values.next(), Some(("a".to_owned(), Found::Gone { marker })));
        assert_eq!(values.next(), Some(("b".to_owned(), Found::Gone { marker: None })));
        assert_eq!(values.next(), Some(("c".to_owned(), Found::Message(message("c")))));
        assert!(values.is_done());
    }

    #[test]
    fn another_keys_value_is_never_given_in_a_keys_place() {
        let mut values = values(&["n1.*", "\u{fffd}"], None);
        assert_eq!(wanted(&mut values), []);
        assert_eq!(values.next(), Some(("n1.*".to_owned(), Found::Unnameable)));
        assert_eq!(values.next(), Some(("\u{fffd}".to_owned(), Found::Unnameable)));
        assert!(values.is_done());
    }

    #[test]
    fn the_window_opens_with_small_values_and_narrows_with_large_ones() {
        let mut values = many(1000);
        assert_eq!(wanted(&mut values).len(), FIRST_WINDOW);
        values.on_reply(0, 300, Some(message("0000")));
        assert_eq!(wanted(&mut values).len(), MAX_WINDOW - FIRST_WINDOW);
        let mut values = many(1000);
        wanted(&mut values);
        for at in 0..FIRST_WINDOW {
            values.on_reply(at, 1024 * 1024, None);
            values.next();
        }
        assert_eq!(wanted(&mut values).len(), 4);
    }

    #[test]
    fn large_values_are_asked_for_as_far_as_there_is_room_for_them() {
        let room = |large_bytes| Budget { large_bytes, ..ALL };
        let expecting = |bytes| ValueReader::new(Bucket::Needs, vec!["a".to_owned()], Some(bytes), None);
        assert_eq!(expecting(1024 * 1024).next_call(room(1024 * 1024 - 1)), None);
        let want = expecting(1024 * 1024).next_call(room(1024 * 1024)).unwrap();
        assert_eq!(want.cost, Cost::Value { bucket: Bucket::Needs, bytes: 1024 * 1024 });
        assert!(expecting(LARGE_BYTES).next_call(room(0)).is_some(), "what is small needs no room");
    }

    #[test]
    fn a_batch_brings_many_and_its_end_tells_what_is_gone() {
        let mut values = values(&["a", "b", "c"], Some(9));
        assert_eq!(wanted(&mut values), [Tag::Batch(1)]);
        assert_eq!(values.on_part(1, part("c", 4, 0)), Ok(()));
        assert_eq!(values.on_part(1, part("a", 7, 4)), Ok(()));
        assert_eq!(values.on_part(1, Part::End { left_out: 0, after: 7, up_to: Some(9) }), Ok(()));
        let keys: Vec<_> = std::iter::from_fn(|| values.next()).collect();
        assert!(
            matches!(&keys[..], [(a, Found::Message(_)), (b, Found::Gone { marker: None }), (c, Found::Message(_))]
            if a == "a" && b == "b" && c == "c")
        );
    }

    #[test]
    fn what_a_batch_left_out_is_asked_for_again() {
        let mut values = values(&["a", "b"], Some(9));
        wanted(&mut values);
        values.on_part(1, part("b", 4, 0)).unwrap();
        values.on_part(1, Part::End { left_out: 1, after: 4, up_to: Some(9) }).unwrap();
        let want = values.next_call(ALL).unwrap();
        assert_eq!(want.tag, Tag::Batch(2));
        assert!(
            String::from_utf8(want.request.body).unwrap().contains(r#"["$KV.mesh-provisioner_needs.a"]"#)
        );
    }

    #[test]
    fn a_batch_that_cannot_be_trusted_is_read_one_by_one() {
        for (bad, why) in [
            (part("b", 6, 5), "a message is missing in the reply"),
            (Part::End { left_out: 0, after: 5, up_to: Some(9) }, "a message is missing in the reply"),
            (part("z", 6, 4), "the reply has a key that was not requested"),
            (Part::Unusable("408 Empty Request".to_owned()), "408 Empty Request"),
        ] {
            let mut values = values(&["a", "b", "c"], Some(9));
            wanted(&mut values);
            values.on_part(1, part("a", 4, 0)).unwrap();
            assert_eq!(values.on_part(1, bad), Err(why.to_owned()));
            values.give_up_batch(1);
            assert_eq!(wanted(&mut values), [Tag::Value(0), Tag::Value(1), Tag::Value(2)]);
            assert_eq!(values.next(), None, "what came before is no better than the rest");
        }
    }

    #[test]
    fn nothing_of_a_batch_is_given_before_its_end_says_that_it_can_be_trusted() {
        let mut values = values(&["a"], Some(9));
        wanted(&mut values);
        values.on_part(1, part("a", 4, 0)).unwrap();
        assert_eq!(values.next(), None);
        values.on_part(1, Part::End { left_out: 0, after: 4, up_to: Some(9) }).unwrap();
        let found = Found::Message(Message { sequence: 4, ..message("a") });
        assert_eq!(values.next(), Some(("a".to_owned(), found)));
    }

    #[test]
    fn a_batch_is_held_against_the_newest_writes_after_another_was_given_up_too() {
        let mut values = ValueReader::new(
            Bucket::Needs,
            (0..=BATCH_KEYS).map(|at| format!("{at:04}")).collect(),
            None,
            Some(9),
        );
        assert_eq!(wanted(&mut values), [Tag::Batch(1), Tag::Batch(2)]);
        values.give_up_batch(1);
        values.on_part(2, LAGS).unwrap();
        assert_eq!(values.next(), None);
    }

    #[test]
    fn values_are_requested_again_from_a_server_that_lags() {
        let mut values = values(&["a"], Some(9));
        for batch in 1..=MAX_LAGS as usize {
            assert_eq!(wanted(&mut values), [Tag::Batch(batch)]);
            values.on_part(batch, LAGS).unwrap();
            assert_eq!(values.next(), None);
        }
        assert_eq!(wanted(&mut values), [Tag::Batch(9)]);
        let why = values.on_part(9, LAGS).unwrap_err();
        assert_eq!(why, "the replying server does not know the newest writes yet");
    }

    #[test]
    fn patterns_never_go_into_a_batch() {
        let mut values = values(&["a", "n1.*", "b.>"], Some(9));
        let request = values.next_call(ALL).unwrap().request;
        assert!(!String::from_utf8(request.body).unwrap().contains('*'));
    }
}
