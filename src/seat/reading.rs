//! Reading a bucket: first the list of its keys, then their values. Both say what they want from the bus next and
//! take what was heard; neither sends anything. A reading that is not whole is an error, never a short list.

use super::failure::Cause;
use crate::bucket::Bucket;
use crate::wire::jetstream::{self, KeyPage, Message, Request};
use std::collections::{BTreeMap, VecDeque};

/// How often a list is begun again because the bucket changed between its pages.
const MAX_RESTARTS: u32 = 3;

/// How many values are asked for at a time, at most.
const MAX_WINDOW: usize = 256;

/// How many are asked for before the size of any is known.
const FIRST_WINDOW: usize = 32;

/// How many bytes of answers a reading expects at a time; with large values the window narrows to keep to it.
const WINDOW_BYTES: usize = 4 * 1024 * 1024;

/// The whole list of a bucket's keys, and the state of the bucket it was taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// Sorted by bytes. Keys that are not UTF-8 may look alike and then stand as often as there are.
    pub(super) keys: Vec<String>,
    /// The sequence of the bucket's last write.
    pub(super) last_sequence: u64,
    /// Its time, in the bus's words.
    pub(super) last_at: Option<String>,
}

/// Lists the keys of a bucket, which the bus gives in pages.
#[derive(Debug)]
pub(super) struct Listing {
    bucket: Bucket,
    node_token: Option<String>,
    keys: Vec<String>,
    offset: usize,
    asked: bool,
    restarts: u32,
    done: Option<Listed>,
}

impl Listing {
    /// Lists `bucket`, only the keys under the token `node_token` if there is one.
    pub(super) const fn new(bucket: Bucket, node_token: Option<String>) -> Self {
        Listing { bucket, node_token, keys: Vec::new(), offset: 0, asked: false, restarts: 0, done: None }
    }

    /// The next request to send, if there is one to send now.
    pub(super) fn want(&mut self) -> Option<Request> {
        if self.asked || self.done.is_some() {
            return None;
        }
        self.asked = true;
        Some(jetstream::list(self.bucket, self.node_token.as_deref(), self.offset))
    }

    /// Takes a page. Pages after the first begin with the last key of the page before: if that key has moved, keys
    /// were removed or added meanwhile, one could be missing, and the list begins again.
    pub(super) fn heard(&mut self, page: KeyPage) -> Result<(), Cause> {
        self.asked = false;
        let page_starts_where_the_last_ended = match (self.keys.last(), page.keys.first()) {
            (Some(last), first) => first == Some(last),
            (None, _) => true,
        };
        let reached = self.offset + page.keys.len();
        if !page_starts_where_the_last_ended || (reached < page.total && page.keys.len() < 2) {
            self.restarts += 1;
            if self.restarts > MAX_RESTARTS {
                return Err(Cause::Unsteady);
            }
            self.keys.clear();
            self.offset = 0;
            return Ok(());
        }
        let overlap = usize::from(!self.keys.is_empty());
        self.keys.extend(page.keys.into_iter().skip(overlap));
        if reached < page.total {
            self.offset = reached - 1;
        } else {
            let mut keys = std::mem::take(&mut self.keys);
            keys.sort_unstable();
            self.done = Some(Listed { keys, last_sequence: page.last_sequence, last_at: page.last_at });
        }
        Ok(())
    }

    /// The whole list, once.
    pub(super) const fn take(&mut self) -> Option<Listed> {
        self.done.take()
    }
}

/// What the bus has under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// This message is the newest.
    Message(Message),
    /// The key is deleted, or its messages have expired.
    Gone {
        /// What says that it is deleted.
        marker: Option<Marker>,
    },
    /// The key cannot be asked for by its name: it is not UTF-8, or it reads as a pattern that matches others.
    Unnameable,
}

/// The message that says that a key is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marker {
    /// Its sequence, which the next write must expect.
    pub(super) sequence: u64,
    /// Its time, in the bus's words.
    pub(super) at: String,
}

impl Found {
    /// The message that is there.
    pub(super) const fn message(&self) -> Option<&Message> {
        match self {
            Found::Message(message) => Some(message),
            Found::Gone { .. } | Found::Unnameable => None,
        }
    }
}

/// Reads the values of keys and gives them back in their order.
#[derive(Debug)]
pub(super) struct Values {
    bucket: Bucket,
    keys: VecDeque<String>,
    /// The position of the first key in `keys` among all that were to be read.
    given: usize,
    asked: usize,
    found: BTreeMap<usize, Found>,
    largest_bytes: usize,
}

impl Values {
    /// Reads `keys` of `bucket`.
    pub(super) fn new(bucket: Bucket, keys: Vec<String>) -> Self {
        Values {
            bucket,
            keys: keys.into(),
            given: 0,
            asked: 0,
            found: BTreeMap::new(),
            largest_bytes: WINDOW_BYTES / FIRST_WINDOW,
        }
    }

    /// The next request to send and the slot that its answer belongs to, if there is one to send now.
    pub(super) fn want(&mut self) -> Option<(usize, Request)> {
        loop {
            let window = (WINDOW_BYTES / self.largest_bytes.max(1)).clamp(4, MAX_WINDOW);
            if self.asked - self.given >= window {
                return None;
            }
            let key = self.keys.get(self.asked - self.given)?;
            let slot = self.asked;
            self.asked += 1;
            if is_nameable(key) {
                return Some((slot, jetstream::get(self.bucket, key)));
            }
        }
    }

    /// Takes the answer to the request of `slot`, which had `bytes` bytes.
    pub(super) fn heard(&mut self, slot: usize, bytes: usize, message: Option<Message>) {
        // The first answer replaces the guess; from then on the largest counts.
        let guess = WINDOW_BYTES / FIRST_WINDOW;
        self.largest_bytes = if self.largest_bytes == guess { bytes } else { self.largest_bytes.max(bytes) };
        let Some(key) = slot.checked_sub(self.given).and_then(|at| self.keys.get(at)) else { return };
        let found = match message {
            None => Found::Gone { marker: None },
            Some(message) if message.subject != format!("{}{key}", self.bucket.subject_prefix()) => {
                Found::Unnameable
            }
            Some(Message { deleted: true, sequence, at, .. }) => {
                Found::Gone { marker: Some(Marker { sequence, at }) }
            }
            Some(message) => Found::Message(message),
        };
        self.found.insert(slot, found);
    }

    /// The next key in order with what was found, if that is known by now.
    pub(super) fn next(&mut self) -> Option<(String, Found)> {
        let found = match self.found.remove(&self.given) {
            Some(found) => found,
            None if !is_nameable(self.keys.front()?) => Found::Unnameable,
            None => return None,
        };
        self.given += 1;
        self.asked = self.asked.max(self.given);
        Some((self.keys.pop_front()?, found))
    }

    /// Whether every key has been given back.
    pub(super) fn is_done(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Whether the bus can be asked for `key`: one that is not UTF-8 reaches us with U+FFFD in the place of its bytes.
fn is_nameable(key: &str) -> bool {
    !key.contains(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: &[&str], total: usize) -> KeyPage {
        KeyPage {
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            total,
            last_sequence: 9,
            last_at: None,
        }
    }

    fn offset(request: &Request) -> u64 {
        serde_json::from_slice::<serde_json::Value>(&request.body).unwrap()["offset"].as_u64().unwrap()
    }

    #[test]
    fn a_list_follows_its_pages_with_one_key_of_overlap() {
        let mut listing = Listing::new(Bucket::Needs, None);
        assert_eq!(offset(&listing.want().unwrap()), 0);
        assert_eq!(listing.want(), None, "one request at a time");
        listing.heard(page(&["a", "b", "c"], 5)).unwrap();
        assert_eq!(offset(&listing.want().unwrap()), 2);
        listing.heard(page(&["c", "d", "e"], 5)).unwrap();
        assert_eq!(listing.want(), None);
        assert_eq!(listing.take().unwrap().keys, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn a_list_begins_again_when_keys_moved_between_its_pages() {
        let mut listing = Listing::new(Bucket::Needs, None);
        listing.want();
        listing.heard(page(&["a", "b", "c"], 5)).unwrap();
        listing.want();
        // "a" was removed: the page at offset 2 begins with "d", and without the overlap nobody would know.
        listing.heard(page(&["d", "e"], 4)).unwrap();
        assert_eq!(offset(&listing.want().unwrap()), 0);
        listing.heard(page(&["b", "c", "d", "e"], 4)).unwrap();
        assert_eq!(listing.take().unwrap().keys, ["b", "c", "d", "e"]);
    }

    #[test]
    fn a_list_that_never_holds_still_is_an_error() {
        let mut listing = Listing::new(Bucket::Needs, None);
        let mut outcome = Ok(());
        for round in 0..10 {
            listing.want();
            outcome = listing.heard(page(if round % 2 == 0 { &["a", "b"] } else { &["x"] }, 9));
            if outcome.is_err() {
                break;
            }
        }
        assert_eq!(outcome, Err(Cause::Unsteady));
        assert_eq!(listing.take(), None);
    }

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

    #[test]
    fn values_come_in_the_order_of_their_keys() {
        let mut values = Values::new(Bucket::Needs, ["a", "b", "c"].map(str::to_owned).to_vec());
        let slots: Vec<usize> = std::iter::from_fn(|| values.want()).map(|(slot, _)| slot).collect();
        assert_eq!(slots, [0, 1, 2]);
        values.heard(2, 10, Some(message("c")));
        values.heard(1, 10, None);
        assert_eq!(values.next(), None);
        values.heard(0, 10, Some(Message { deleted: true, ..message("a") }));
        assert_eq!(
            values.next(),
            Some(("a".to_owned(), Found::Gone { marker: Some(Marker { sequence: 1, at: message("a").at }) }))
        );
        assert_eq!(values.next(), Some(("b".to_owned(), Found::Gone { marker: None })));
        assert_eq!(values.next(), Some(("c".to_owned(), Found::Message(message("c")))));
        assert!(values.is_done());
    }

    #[test]
    fn another_keys_value_is_never_given_in_a_keys_place() {
        let mut values = Values::new(Bucket::Needs, vec!["n1.*".to_owned(), "\u{fffd}".to_owned()]);
        assert_eq!(values.want().map(|(slot, _)| slot), Some(0));
        assert_eq!(values.want(), None);
        values.heard(0, 10, Some(message("n1.web")));
        assert_eq!(values.next(), Some(("n1.*".to_owned(), Found::Unnameable)));
        assert_eq!(values.next(), Some(("\u{fffd}".to_owned(), Found::Unnameable)));
    }

    #[test]
    fn the_window_opens_with_small_values_and_narrows_with_large_ones() {
        let keys = |count: usize| (0..count).map(|at| format!("{at:04}")).collect();
        let wanted = |values: &mut Values| std::iter::from_fn(|| values.want()).count();
        let mut values = Values::new(Bucket::Needs, keys(1000));
        assert_eq!(wanted(&mut values), FIRST_WINDOW);
        values.heard(0, 300, Some(message("0000")));
        assert_eq!(wanted(&mut values), MAX_WINDOW - FIRST_WINDOW);
        let mut values = Values::new(Bucket::Needs, keys(1000));
        wanted(&mut values);
        for slot in 0..FIRST_WINDOW {
            values.heard(slot, 1024 * 1024, None);
            values.next();
        }
        assert_eq!(wanted(&mut values), 4);
    }
}
