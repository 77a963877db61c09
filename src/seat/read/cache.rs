//! Per-bucket cache of keys, revisions, times and short values.
//!
//! A cache is valid up to a sequence. A query must catch up with the bucket before it reads the cache (`catch_up.rs`).
//! A cache is leased to one query at a time and the others wait, so a bucket is kept in memory once. One bound holds for
//! all caches together; it counts the memory that their keys take.

use super::value_reader::is_nameable;
use crate::seat::limits::{
    MAX_CACHE_BYTES, MAX_CACHE_BYTES_WITH_VALUES, MAX_CACHED_KEYS, MAX_CACHED_VALUE_BYTES,
};
use crate::seat::read::found::{Found, Marker};
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::Message;
use mesh_jetstream::stream_info::State;
use mesh_model::bucket::Bucket;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::ops::Bound;
use std::rc::Rc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The last write of a key.
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
    /// The write of this message; `None` if its time cannot be parsed.
    pub(in crate::seat) fn of(message: &Message) -> Option<Self> {
        let at = read_time(&message.at)?;
        Some(Standing { sequence: message.sequence, at, deleted: message.deleted })
    }

    /// The write of what was found under a key; `None` if nothing was found.
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

/// How many of the newest writes are kept in memory.
const NEWEST: usize = 8;

/// A cached key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seat) struct Entry {
    /// Its last write.
    pub(in crate::seat) standing: Standing,
    value: Option<Vec<u8>>,
}

impl Entry {
    /// Its value, if cached and asked for.
    pub(in crate::seat) fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    /// What was found under it, if its value is cached.
    pub(in crate::seat) fn found(self, bucket: Bucket, key: &str) -> Option<Found> {
        // Read one by one it could not be told from others; both ways of reading give the same answer.
        if !is_nameable(key) {
            return Some(Found::Unnameable);
        }
        let Standing { sequence, at, deleted } = self.standing;
        let at = words(at);
        if deleted {
            return Some(Found::Gone { marker: Some(Marker { sequence, at }) });
        }
        let value = self.value?;
        let subject = Kv::new(bucket.name()).subject(key);
        Some(Found::Message(Message { subject, sequence, at, deleted, header_fault: None, value }))
    }
}

/// Parses a time as the server writes it.
pub(in crate::seat) fn read_time(words: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(words, &Rfc3339).ok()
}

/// Formats a time as the server does: RFC 3339, with a fraction without zeros at its end.
pub(in crate::seat) fn words(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).expect("a time that was read from four digits of a year")
}

/// A key in a cache. There may be hundreds of thousands, so it is small and one allocation.
#[derive(Debug)]
struct Kept {
    /// The key, followed by the value.
    text: Box<[u8]>,
    key_length: u32,
    has_value: bool,
    deleted: bool,
    sequence: u64,
    /// Nanoseconds since 1970.
    at: i64,
}

/// What a key takes in the tree besides its text: its own size and half as much again, because the nodes are not full.
const BESIDES_THE_TEXT: usize = size_of::<Kept>() * 3 / 2;

impl Kept {
    fn new(key: &str, standing: Standing, value: Option<&[u8]>) -> Self {
        Kept {
            text: [key.as_bytes(), value.unwrap_or_default()].concat().into_boxed_slice(),
            key_length: u32::try_from(key.len()).unwrap_or(u32::MAX),
            has_value: value.is_some(),
            deleted: standing.deleted,
            sequence: standing.sequence,
            at: i64::try_from(standing.at.unix_timestamp_nanos()).unwrap_or_default(),
        }
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.text.split_at(self.key_length as usize)
    }

    fn key(&self) -> &str {
        std::str::from_utf8(self.parts().0).unwrap_or_default()
    }

    fn standing(&self) -> Standing {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.at));
        let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Standing { sequence: self.sequence, at, deleted: self.deleted }
    }

    /// How many bytes it takes: an allocation has eight of its own, and comes in steps of sixteen.
    fn bytes(&self) -> usize {
        BESIDES_THE_TEXT + (self.text.len() + 8).next_multiple_of(16).max(32)
    }
}

impl Borrow<[u8]> for Kept {
    fn borrow(&self) -> &[u8] {
        self.parts().0
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.parts().0 == other.parts().0
    }
}

impl Eq for Kept {}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().0.cmp(other.parts().0)
    }
}

/// A write that is known: its key and how that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seat) struct Write {
    pub(in crate::seat) key: String,
    pub(in crate::seat) standing: Standing,
}

/// The cache of one bucket.
#[derive(Debug, Default)]
pub(in crate::seat) struct BucketCache {
    /// The creation time of the bucket.
    created: String,
    up_to: u64,
    /// The newest writes that are known, each key once, the oldest first.
    newest: VecDeque<Write>,
    keys: BTreeSet<Kept>,
    /// How many bytes its keys take.
    bytes: usize,
    /// Above this many bytes values are not kept.
    room_for_values: usize,
    /// The last state of the bucket in which the cache was proven to be complete.
    pub(in crate::seat) proven: Option<State>,
    /// Sequences after which reading continued although the newest write up to there was gone. What is known up to there
    /// is to be checked.
    pub(in crate::seat) unproven: Vec<u64>,
    /// How many bytes of messages to request at a time; 0 if unknown.
    pub(in crate::seat) pace: usize,
}

impl BucketCache {
    /// The sequence up to which it is valid.
    pub(in crate::seat) const fn up_to(&self) -> u64 {
        self.up_to
    }

    /// A few of the newest known writes, the oldest first.
    pub(in crate::seat) const fn newest(&self) -> &VecDeque<Write> {
        &self.newest
    }

    /// The number of its keys, including deleted ones whose markers still exist.
    pub(in crate::seat) fn len(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Whether it has more keys than a cached bucket may have.
    pub(in crate::seat) fn is_too_large(&self) -> bool {
        self.keys.len() > MAX_CACHED_KEYS
    }

    /// Clears it.
    pub(in crate::seat) fn clear(&mut self, up_to: u64) {
        let BucketCache { created, room_for_values, pace, .. } = mem::take(self);
        *self = BucketCache { created, up_to, room_for_values, pace, ..BucketCache::default() };
    }

    /// Clears the cache if it cannot be of a bucket that was created at this time and holds the sequences from `first`
    /// to `last`. A bucket that was restored from a backup is not noticed here.
    pub(in crate::seat) fn fit(&mut self, created: &str, first: u64, last: u64) {
        if self.created != created || self.up_to > last || first > self.up_to {
            created.clone_into(&mut self.created);
            self.clear(0);
        }
    }

    /// Adds the last write of a key, in stream order.
    pub(in crate::seat) fn take(&mut self, key: &str, standing: Standing, value: Option<&[u8]>) {
        self.proven = None;
        self.up_to = standing.sequence;
        self.newest.retain(|write| write.key != key);
        if self.newest.len() == NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(Write { key: key.to_owned(), standing });
        let fits = |value: &&[u8]| {
            value.len() <= MAX_CACHED_VALUE_BYTES && self.bytes + value.len() <= self.room_for_values
        };
        let kept = Kept::new(key, standing, value.filter(|value| !standing.deleted && fits(value)));
        self.bytes += kept.bytes();
        if let Some(before) = self.keys.replace(kept) {
            self.bytes -= before.bytes();
        }
    }

    /// Nothing is left up to this sequence: what was written there is gone.
    pub(in crate::seat) const fn skip_to(&mut self, sequence: u64) {
        self.up_to = sequence;
    }

    /// The sequence and the time of the oldest write that is known.
    pub(in crate::seat) fn oldest(&self) -> Option<(u64, OffsetDateTime)> {
        let oldest = self.keys.iter().min_by_key(|kept| kept.sequence)?.standing();
        Some((oldest.sequence, oldest.at))
    }

    /// The newest write that is known up to a sequence.
    pub(in crate::seat) fn newest_up_to(&self, sequence: u64) -> Option<Write> {
        let snapshot = self.keys.iter().filter(|kept| kept.sequence <= sequence);
        let newest = snapshot.max_by_key(|kept| kept.sequence)?;
        Some(Write { key: newest.key().to_owned(), standing: newest.standing() })
    }

    /// The keys after `after` in order, each with its last write and, if `with_values`, its cached value.
    pub(in crate::seat) fn entries_after(
        &self,
        after: Option<&str>,
        with_values: bool,
    ) -> impl Iterator<Item = (String, Entry)> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.as_bytes()));
        self.keys.range::<[u8], _>((from, Bound::Unbounded)).map(move |kept| {
            let value = (with_values && kept.has_value).then(|| kept.parts().1.to_vec());
            (kept.key().to_owned(), Entry { standing: kept.standing(), value })
        })
    }
}

/// The caches of all buckets, kept between queries.
#[derive(Debug, Default)]
pub(in crate::seat) struct CacheStore {
    caches: RefCell<BTreeMap<Bucket, Place>>,
    /// The first key and the offset of a page, for a bucket whose list has several pages.
    offsets: RefCell<BTreeMap<Bucket, (String, usize)>>,
    /// The buckets that cannot be cached, and why.
    uncacheable: RefCell<BTreeMap<Bucket, &'static str>>,
}

/// The place of a cache in the store.
#[derive(Debug)]
enum Place {
    Kept(Box<BucketCache>),
    /// A query has it. Its size when it was last reported, in bytes.
    Leased(usize),
}

impl Place {
    const fn bytes(&self) -> usize {
        match self {
            Place::Kept(cache) => cache.bytes,
            Place::Leased(bytes) => *bytes,
        }
    }
}

impl CacheStore {
    /// Leases the cache of `bucket`, unless another query has it.
    pub(in crate::seat) fn lease(self: &Rc<Self>, bucket: Bucket) -> Option<Lease> {
        let mut caches = self.caches.borrow_mut();
        if matches!(caches.get(&bucket), Some(Place::Leased(_))) {
            return None;
        }
        let cache = match caches.remove(&bucket) {
            Some(Place::Kept(cache)) => *cache,
            _ => BucketCache::default(),
        };
        caches.insert(bucket, Place::Leased(cache.bytes));
        Some(Lease { store: Rc::clone(self), bucket, cache })
    }

    /// Drops all caches that are not leased.
    pub(in crate::seat) fn clear(&self) {
        self.caches.borrow_mut().retain(|_, place| matches!(place, Place::Leased(_)));
    }

    /// Notes that a page of the server's list of `bucket` began with the key `first` at this offset.
    pub(in crate::seat) fn note_offset(&self, bucket: Bucket, first: String, offset: usize) {
        self.offsets.borrow_mut().insert(bucket, (first, offset));
    }

    /// An offset in the server's list of `bucket` that is near the key after `after`.
    pub(in crate::seat) fn offset_near(&self, bucket: Bucket, after: &str) -> usize {
        let offsets = self.offsets.borrow();
        offsets.get(&bucket).filter(|(first, _)| first.as_str() <= after).map_or(0, |(_, offset)| *offset)
    }

    /// Records that `bucket` cannot be cached for a while.
    pub(in crate::seat) fn note_uncacheable(&self, bucket: Bucket, why: &'static str) {
        self.uncacheable.borrow_mut().insert(bucket, why);
    }

    /// The buckets that were recorded since the last call, with the reasons.
    pub(in crate::seat) fn take_uncacheable(&self) -> BTreeMap<Bucket, &'static str> {
        self.uncacheable.take()
    }

    /// Whether there is no cache.
    pub(in crate::seat) fn is_empty(&self) -> bool {
        self.caches.borrow().is_empty()
    }
}

/// A lease of a cache. Dropping it returns the cache.
#[derive(Debug)]
pub(in crate::seat) struct Lease {
    store: Rc<CacheStore>,
    bucket: Bucket,
    pub(in crate::seat) cache: BucketCache,
}

impl Lease {
    /// Sees to it that all indexes together stay within their bound: others that nobody has are forgotten, the largest
    /// first. `false` if this one takes too much room all the same.
    pub(in crate::seat) fn make_room(&mut self) -> bool {
        let mut caches = self.store.caches.borrow_mut();
        caches.insert(self.bucket, Place::Leased(self.cache.bytes));
        let total = |caches: &BTreeMap<Bucket, Place>| caches.values().map(Place::bytes).sum::<usize>();
        while total(&caches) > MAX_CACHE_BYTES {
            let kept = caches.iter().filter(|(_, place)| matches!(place, Place::Kept(_)));
            let Some(largest) = kept.max_by_key(|(_, place)| place.bytes()).map(|(bucket, _)| *bucket) else {
                return false;
            };
            caches.remove(&largest);
        }
        let others = total(&caches) - self.cache.bytes;
        self.cache.room_for_values = MAX_CACHE_BYTES_WITH_VALUES.saturating_sub(others);
        true
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let cache = mem::take(&mut self.cache);
        self.store.caches.borrow_mut().insert(self.bucket, Place::Kept(Box::new(cache)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(sequence: u64) -> Standing {
        Standing { sequence, at: OffsetDateTime::UNIX_EPOCH, deleted: false }
    }

    fn cache() -> BucketCache {
        BucketCache { room_for_values: usize::MAX, ..BucketCache::default() }
    }

    #[test]
    fn an_index_is_lent_to_one_at_a_time_and_comes_back_as_it_became() {
        let store = Rc::new(CacheStore::default());
        let mut lease = store.lease(Bucket::Needs).unwrap();
        lease.cache.take("b", standing(4), Some(b"1"));
        assert!(store.lease(Bucket::Needs).is_none());
        assert!(store.lease(Bucket::Applied).is_some(), "each bucket has its own");
        drop(lease);
        let lease = store.lease(Bucket::Needs).unwrap();
        assert_eq!((lease.cache.up_to(), lease.cache.len()), (4, 1));
        store.clear();
        assert!(store.lease(Bucket::Needs).is_none(), "a leased cache is not leased again");
        drop(lease);
        assert!(!store.is_empty());
        store.clear();
        assert!(store.is_empty());
    }

    #[test]
    fn all_together_have_one_bound_and_what_nobody_has_makes_room() {
        let store = Rc::new(CacheStore::default());
        let fill = |lease: &mut Lease, keys: u64| {
            for at in 1..=keys {
                lease.cache.take(&format!("{at:08}{}", "k".repeat(992)), standing(at), None);
            }
            lease.make_room()
        };
        let mut needs = store.lease(Bucket::Needs).unwrap();
        assert!(fill(&mut needs, 30_000), "some 31 MiB");
        let mut applied = store.lease(Bucket::Applied).unwrap();
        assert!(!fill(&mut applied, 30_000), "next to the leased cache there is no room for it");
        drop(needs);
        assert!(applied.make_room(), "what nobody has makes room");
        drop(applied);
        assert_eq!(store.lease(Bucket::Needs).unwrap().cache.len(), 0);
        assert_eq!(store.lease(Bucket::Applied).unwrap().cache.len(), 30_000);
    }

    #[test]
    fn keys_come_in_their_order_from_behind_another() {
        let mut cache = cache();
        for (key, sequence) in [("b", 1), ("a.x", 2), ("c", 3), ("b", 5)] {
            cache.take(key, standing(sequence), Some(b"1"));
        }
        let entries_after = |after| {
            cache
                .entries_after(after, false)
                .map(|(key, entry)| (key, entry.standing.sequence))
                .collect::<Vec<_>>()
        };
        let keys = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|(key, sequence)| ((*key).to_owned(), *sequence)).collect::<Vec<_>>()
        };
        assert_eq!(entries_after(None), keys(&[("a.x", 2), ("b", 5), ("c", 3)]));
        assert_eq!(entries_after(Some("a.y")), keys(&[("b", 5), ("c", 3)]));
        assert_eq!(entries_after(Some("b")), keys(&[("c", 3)]));
        let newest: Vec<&str> = cache.newest().iter().map(|write| write.key.as_str()).collect();
        assert_eq!(newest, ["a.x", "c", "b"]);
        assert_eq!(cache.newest_up_to(4).map(|write| write.key), Some("c".to_owned()));
        assert_eq!(cache.newest_up_to(1), None, "that write of b is not the last");
        assert_eq!(cache.oldest().map(|(sequence, _)| sequence), Some(2));
    }

    #[test]
    fn short_values_are_kept_and_counted() {
        let mut cache = cache();
        let found = |cache: &BucketCache| {
            let (key, entry) = cache.entries_after(None, true).next().unwrap();
            entry.found(Bucket::Needs, &key)?.message().map(|message| message.value.clone())
        };
        cache.take("a", standing(1), Some(b"one"));
        assert_eq!((found(&cache), cache.bytes), (Some(b"one".to_vec()), BESIDES_THE_TEXT + 32));
        cache.take("a", standing(2), Some(b""));
        assert_eq!((found(&cache), cache.bytes), (Some(Vec::new()), BESIDES_THE_TEXT + 32));
        cache.take("a", standing(3), Some(&[b'x'; 1000]));
        assert_eq!(cache.bytes, BESIDES_THE_TEXT + 1024);
        cache.take("a", standing(3), Some(&[b'x'; MAX_CACHED_VALUE_BYTES + 1]));
        assert_eq!(found(&cache), None, "a long value is read when it is asked for");
        assert_eq!(cache.bytes, BESIDES_THE_TEXT + 32);
        cache.take("a", Standing { deleted: true, ..standing(4) }, Some(b""));
        let (_, entry) = cache.entries_after(None, true).next().unwrap();
        let at = "1970-01-01T00:00:00Z".to_owned();
        assert_eq!(
            entry.found(Bucket::Needs, "a"),
            Some(Found::Gone { marker: Some(Marker { sequence: 4, at }) })
        );
    }

    #[test]
    fn a_key_that_cannot_be_asked_for_by_its_name_is_given_as_if_it_had_been() {
        let mut cache = cache();
        cache.take("n1.*", Standing { deleted: true, ..standing(4) }, None);
        let (key, entry) = cache.entries_after(None, true).next().unwrap();
        assert_eq!(entry.found(Bucket::Applied, &key), Some(Found::Unnameable));
    }

    #[test]
    fn an_index_of_another_bucket_is_forgotten() {
        let fitted = |created, first, last| {
            let mut cache = BucketCache { created: "then".to_owned(), ..BucketCache::default() };
            cache.take("a", standing(7), Some(b"1"));
            cache.fit(created, first, last);
            cache.len()
        };
        assert_eq!(fitted("then", 1, 7), 1);
        assert_eq!(fitted("then", 7, 8), 1);
        assert_eq!(fitted("later", 1, 8), 0);
        assert_eq!(fitted("then", 1, 6), 0, "restored from a time before");
        assert_eq!(fitted("then", 8, 9), 0, "nothing that is known is there any more");
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
            let mut cache = cache();
            cache.take("a", Standing { at: read_time(at).unwrap(), ..standing(1) }, None);
            assert_eq!(words(cache.entries_after(None, false).next().unwrap().1.standing.at), at);
        }
    }
}
