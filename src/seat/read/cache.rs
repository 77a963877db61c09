//! What is known of each bucket from queries before: which keys there are, when each was last written, and its value
//! if that is short.
//!
//! A cache speaks of the time up to which its bucket has been followed. It is never answered from as it is: whoever
//! uses it follows the bucket to its end first (`catch_up.rs`). One query at a time has it, the others wait; so a
//! bucket is kept once, however many ask.

use crate::seat::read::found::{Found, Marker};
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::Message;
use mesh_model::bucket::Bucket;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Bound;
use std::rc::Rc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How a key was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::seat) struct Standing {
    /// The sequence of that write.
    pub(in crate::seat) sequence: u64,
    /// Its time.
    pub(in crate::seat) at: OffsetDateTime,
    /// Whether it deleted the key.
    pub(in crate::seat) deleted: bool,
}

impl Standing {
    /// How the key of this message was written last; `None` if its time cannot be read.
    pub(in crate::seat) fn of(message: &Message) -> Option<Self> {
        let at = read_time(&message.at)?;
        Some(Standing { sequence: message.sequence, at, deleted: message.deleted })
    }

    /// The same of what was found under a key; `None` if that was nothing.
    pub(in crate::seat) fn of_found(found: &Found) -> Option<Self> {
        match found {
            Found::Message(message) => Standing::of(message),
            Found::Gone { marker: Some(marker) } => {
                Some(Standing { sequence: marker.sequence, at: read_time(&marker.at)?, deleted: true })
            }
            Found::Gone { marker: None } | Found::Unnameable => None,
        }
    }
}

/// How long a value may be that is kept, and how many bytes of values are kept of one bucket.
pub(in crate::seat) const MAX_CACHED_VALUE_BYTES: usize = 2 * 1024;
const MAX_CACHED_BYTES: usize = 24 * 1024 * 1024;

/// How many keys there may be, and how many bytes of them.
pub(in crate::seat) const MAX_CACHED_KEYS: usize = 150_000;
const MAX_CACHED_KEY_BYTES: usize = 24 * 1024 * 1024;

/// What a cache knows of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seat) struct Entry {
    /// How it was written last.
    pub(in crate::seat) standing: Standing,
    value: Option<Rc<[u8]>>,
}

impl Entry {
    /// What is under this key, whose entry it is, if that is known.
    pub(in crate::seat) fn found(&self, bucket: Bucket, key: &str) -> Option<Found> {
        let Standing { sequence, at, deleted } = self.standing;
        let at = words(at);
        if deleted {
            return Some(Found::Gone { marker: Some(Marker { sequence, at }) });
        }
        let value = self.value.as_ref()?.to_vec();
        let subject = format!("{}{key}", Kv::new(bucket.name()).subject_prefix());
        Some(Found::Message(Message { subject, sequence, at, deleted, header_fault: None, value }))
    }
}

/// Reads a time as the bus gives it.
pub(in crate::seat) fn read_time(words: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(words, &Rfc3339).ok()
}

/// A time as the bus gives it: the fraction of a second without zeros at its end, as RFC 3339 has it.
pub(in crate::seat) fn words(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).expect("a time that was read from four digits of a year")
}

/// What is known of one bucket.
#[derive(Debug, Default)]
pub(in crate::seat) struct BucketCache {
    /// When the bucket was made that it speaks of.
    created: String,
    up_to: u64,
    /// The key and the time of the write that has this sequence.
    last: Option<(String, OffsetDateTime)>,
    keys: BTreeMap<String, Entry>,
    /// How many bytes of values there are.
    kept: usize,
    /// How many bytes of keys.
    key_bytes: usize,
}

impl BucketCache {
    /// The sequence up to which the bucket has been followed.
    pub(in crate::seat) const fn up_to(&self) -> u64 {
        self.up_to
    }

    /// The key and the time of the write up to which it has been followed.
    pub(in crate::seat) fn last(&self) -> Option<(&str, OffsetDateTime)> {
        self.last.as_ref().map(|(key, at)| (key.as_str(), *at))
    }

    /// How many keys it knows, deleted ones whose markers are there included.
    pub(in crate::seat) fn len(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Whether its keys take more room than is good.
    pub(in crate::seat) fn is_too_large(&self) -> bool {
        self.key_bytes > MAX_CACHED_KEY_BYTES || self.keys.len() > MAX_CACHED_KEYS
    }

    /// Begins anew if it speaks of another bucket than one made at this time and written up to this sequence.
    pub(in crate::seat) fn fit(&mut self, created: &str, last_sequence: u64) {
        if self.created != created || self.up_to > last_sequence {
            *self = BucketCache { created: created.to_owned(), ..BucketCache::default() };
        }
    }

    /// Forgets every key: nothing is known of what was written up to here.
    pub(in crate::seat) fn clear(&mut self, up_to: u64) {
        self.keys.clear();
        self.kept = 0;
        self.key_bytes = 0;
        self.up_to = up_to;
        self.last = None;
    }

    /// Takes the last write of a key, in the order in which they were written.
    pub(in crate::seat) fn take(&mut self, key: String, standing: Standing, value: Option<&[u8]>) {
        self.up_to = standing.sequence;
        self.last = Some((key.clone(), standing.at));
        let is_kept = |value: &&[u8]| {
            value.len() <= MAX_CACHED_VALUE_BYTES
                && self.kept + value.len() <= MAX_CACHED_BYTES
                && !standing.deleted
        };
        let value: Option<Rc<[u8]>> = value.filter(is_kept).map(Rc::from);
        self.kept += value.as_deref().map_or(0, <[u8]>::len);
        let key_bytes = key.len();
        match self.keys.insert(key, Entry { standing, value }) {
            None => self.key_bytes += key_bytes,
            Some(before) => self.kept -= before.value.as_deref().map_or(0, <[u8]>::len),
        }
    }

    /// The keys behind `after` in their order, and what is known of each.
    pub(in crate::seat) fn entries_after(&self, after: Option<&str>) -> impl Iterator<Item = (&str, &Entry)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.keys.range::<str, _>((from, Bound::Unbounded)).map(|(key, entry)| (key.as_str(), entry))
    }
}

/// What is kept of the buckets between queries.
#[derive(Debug, Default)]
pub(in crate::seat) struct CacheStore {
    caches: RefCell<BTreeMap<Bucket, Place>>,
    /// The buckets whose list of keys was long the last time.
    long: RefCell<BTreeSet<Bucket>>,
    /// The buckets that cannot be followed, and why.
    uncacheable: RefCell<BTreeMap<Bucket, &'static str>>,
}

/// The place of a cache on the store.
#[derive(Debug)]
enum Place {
    Kept(BucketCache),
    Leased,
}

impl CacheStore {
    /// The cache of `bucket`, unless somebody else has it.
    pub(in crate::seat) fn lease(self: &Rc<Self>, bucket: Bucket) -> Option<Lease> {
        let place = self.caches.borrow_mut().insert(bucket, Place::Leased);
        let cache = match place {
            Some(Place::Leased) => return None,
            Some(Place::Kept(cache)) => cache,
            None => BucketCache::default(),
        };
        Some(Lease { store: Rc::clone(self), bucket, cache })
    }

    /// Forgets all caches that nobody has.
    pub(in crate::seat) fn clear(&self) {
        self.caches.borrow_mut().retain(|_, place| matches!(place, Place::Leased));
    }

    /// Notes whether the list of all keys of `bucket` was long.
    pub(in crate::seat) fn note_list(&self, bucket: Bucket, is_long: bool) {
        let mut long = self.long.borrow_mut();
        if is_long {
            long.insert(bucket)
        } else {
            long.remove(&bucket)
        };
    }

    /// Whether the list of all keys of `bucket` was long the last time.
    pub(in crate::seat) fn has_long_list(&self, bucket: Bucket) -> bool {
        self.long.borrow().contains(&bucket)
    }

    /// Notes that `bucket` cannot be followed for a while.
    pub(in crate::seat) fn note_uncacheable(&self, bucket: Bucket, why: &'static str) {
        self.uncacheable.borrow_mut().insert(bucket, why);
    }

    /// The buckets of which that was noted since the last call.
    pub(in crate::seat) fn take_uncacheable(&self) -> BTreeMap<Bucket, &'static str> {
        self.uncacheable.take()
    }

    /// Whether no cache is kept.
    pub(in crate::seat) fn is_empty(&self) -> bool {
        self.caches.borrow().is_empty()
    }
}

/// A cache that a query has until it is dropped.
#[derive(Debug)]
pub(in crate::seat) struct Lease {
    store: Rc<CacheStore>,
    bucket: Bucket,
    pub(in crate::seat) cache: BucketCache,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let cache = mem::take(&mut self.cache);
        self.store.caches.borrow_mut().insert(self.bucket, Place::Kept(cache));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(sequence: u64) -> Standing {
        Standing { sequence, at: OffsetDateTime::UNIX_EPOCH, deleted: false }
    }

    #[test]
    fn an_index_is_lent_to_one_at_a_time_and_comes_back_as_it_became() {
        let store = Rc::new(CacheStore::default());
        let mut lent = store.lease(Bucket::Needs).unwrap();
        lent.cache.take("b".to_owned(), standing(4), Some(b"1"));
        assert!(store.lease(Bucket::Needs).is_none());
        assert!(store.lease(Bucket::Applied).is_some(), "each bucket has its own");
        drop(lent);
        let lent = store.lease(Bucket::Needs).unwrap();
        assert_eq!((lent.cache.up_to(), lent.cache.len()), (4, 1));
        store.clear();
        assert!(store.lease(Bucket::Needs).is_none(), "what somebody has stays theirs");
        drop(lent);
        assert!(!store.is_empty());
        store.clear();
        assert!(store.is_empty());
    }

    #[test]
    fn keys_come_in_their_order_from_behind_another() {
        let mut cache = BucketCache::default();
        for (key, sequence) in [("b", 1), ("a.x", 2), ("c", 3), ("b", 5)] {
            cache.take(key.to_owned(), standing(sequence), Some(b"1"));
        }
        let behind = |after| {
            cache.entries_after(after).map(|(key, entry)| (key, entry.standing.sequence)).collect::<Vec<_>>()
        };
        assert_eq!(behind(None), [("a.x", 2), ("b", 5), ("c", 3)]);
        assert_eq!(behind(Some("a.y")), [("b", 5), ("c", 3)]);
        assert_eq!(behind(Some("b")), [("c", 3)]);
    }

    #[test]
    fn short_values_are_kept_and_counted() {
        let mut cache = BucketCache::default();
        let found = |cache: &BucketCache| {
            let (key, entry) = cache.entries_after(None).next().unwrap();
            let found = entry.found(Bucket::Needs, key)?;
            found.message().map(|message| message.value.clone())
        };
        cache.take("a".to_owned(), standing(1), Some(b"one"));
        assert_eq!((found(&cache), cache.kept, cache.key_bytes), (Some(b"one".to_vec()), 3, 1));
        cache.take("a".to_owned(), standing(2), Some(b""));
        assert_eq!((found(&cache), cache.kept), (Some(Vec::new()), 0));
        cache.take("a".to_owned(), standing(3), Some(&[b'x'; MAX_CACHED_VALUE_BYTES + 1]));
        assert_eq!((found(&cache), cache.kept), (None, 0), "a long value is read when it is asked for");
        cache.take("a".to_owned(), Standing { deleted: true, ..standing(4) }, Some(b""));
        let (_, entry) = cache.entries_after(None).next().unwrap();
        let at = "1970-01-01T00:00:00Z".to_owned();
        assert_eq!(
            entry.found(Bucket::Needs, "a"),
            Some(Found::Gone { marker: Some(Marker { sequence: 4, at }) })
        );
    }

    #[test]
    fn an_index_of_another_bucket_is_forgotten() {
        let fitted = |created, last| {
            let mut cache = BucketCache { created: "then".to_owned(), ..BucketCache::default() };
            cache.take("a".to_owned(), standing(7), Some(b"1"));
            cache.fit(created, last);
            cache.len()
        };
        assert_eq!(fitted("then", 7), 1);
        assert_eq!(fitted("then", 8), 1);
        assert_eq!(fitted("later", 8), 0);
        assert_eq!(fitted("then", 6), 0, "restored from a time before");
    }

    #[test]
    fn a_time_is_given_in_the_bus_s_words() {
        for at in [
            "2026-11-29T13:26:00Z",
            "2026-11-29T13:26:00.5Z",
            "2026-11-29T13:26:00.000000001Z",
            "2026-11-29T13:26:00.12345678Z",
            "2026-11-29T13:26:59.999999999Z",
            "1970-01-01T00:00:00.1Z",
        ] {
            assert_eq!(words(read_time(at).unwrap()), at);
        }
    }
}
