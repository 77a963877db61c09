//! The controller's own buckets: what they are to hold, what they hold, and what is to be written next.
//!
//! Assignments and settings of a node are written before its declaration, and deleted after it. A value is written only
//! over the revision that was read. What another client changed is restored; a key that the store never knew is left.

use crate::serve::task::{Place, Value};
use crate::store::sent::Bucket;
use mesh_model::digest::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many values may be on their way at a time.
pub const MAX_UNDER_WAY: usize = 64;

/// How long a write may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How long a value waits at most for what the store has in its place by now.
const NEWER: Duration = Duration::from_secs(1);

/// What is wanted at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Want {
    digest: Option<Digest>,
    sequence: u64,
    done: bool,
}

/// What is being written: what is wanted may change meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Written {
    digest: Option<Digest>,
    sequence: u64,
}

/// What is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    digest: Option<Digest>,
    revision: u64,
    /// The sequence of a declaration that this mesh signed.
    sequence: u64,
    /// The listing that brought it.
    listing: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// Its value is being fetched.
    Fetching,
    /// It is being written; it counts as lost at that time.
    Writing(Duration, Written),
    /// It is looked at again then.
    Later(Duration),
}

#[derive(Debug, Default)]
struct Slot {
    want: Option<Want>,
    seen: Option<Seen>,
    state: State,
}

impl Slot {
    fn is_settled(&self) -> bool {
        match (&self.want, &self.seen) {
            (None, _) | (Some(Want { digest: None, .. }), None) => true,
            (Some(want), Some(seen)) => want.digest == seen.digest || self.is_ahead(),
            (Some(_), None) => false,
        }
    }

    /// The bus has a later declaration of this mesh than the store.
    fn is_ahead(&self) -> bool {
        match (&self.want, &self.seen) {
            (Some(want), Some(seen)) => seen.sequence > want.sequence,
            _ => false,
        }
    }
}

/// Something that was found on the bus and is worth a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Somebody else changed a value; it is put back.
    Changed(Place),
    /// The bus has a later declaration than the store, which is older than the bus. It is left.
    Ahead(Place),
    /// The bus has what is wanted, and the store does not know that yet.
    Done(Place, Option<Digest>, u64),
}

/// How a bucket stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Values that are wanted.
    pub wanted: usize,
    /// Of them those that the bus does not have.
    pub open: usize,
    /// Keys that the store does not know.
    pub foreign: usize,
    /// Declarations that the bus has and the store is behind.
    pub ahead: usize,
}

/// All buckets that the controller writes.
#[derive(Debug, Default)]
pub struct Mirror {
    slots: BTreeMap<Bucket, BTreeMap<String, Slot>>,
    listings: BTreeMap<Bucket, u32>,
    listed: BTreeSet<Bucket>,
    /// What is not as it should be: by node, in the order of sending.
    open: BTreeSet<(String, Bucket, String)>,
    /// What is being fetched or written.
    under_way: BTreeSet<Place>,
    /// What waits for its time.
    later: BTreeSet<Place>,
    /// Whether something may have become possible since [`Mirror::fetch`] looked: a list of all keys is long.
    is_stirred: bool,
}

/// The node's token in a key.
fn node(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

impl Mirror {
    /// What the store wants: of one bucket, or of all.
    pub fn want(&mut self, only: Option<Bucket>, values: Vec<Value>) -> Vec<Found> {
        let mut gone: BTreeSet<Place> = BTreeSet::new();
        for (bucket, slots) in &self.slots {
            if only.is_none_or(|only| only == *bucket) {
                let wanted = slots.iter().filter(|(_, slot)| slot.want.is_some());
                gone.extend(wanted.map(|(key, _)| Place { bucket: *bucket, key: key.clone() }));
            }
        }
        let mut found = Vec::new();
        for Value { place, digest, sequence, done } in values {
            gone.remove(&place);
            let slot = self.slot(&place);
            let want = Want { digest, sequence, done };
            if slot.want != Some(want) {
                slot.want = Some(want);
                if let State::Later(_) = slot.state {
                    slot.state = State::Idle;
                }
            }
            found.extend(self.touch(&place));
        }
        for place in gone {
            self.slot(&place).want = None;
            found.extend(self.touch(&place));
        }
        found
    }

    /// A new listing of the bucket begins.
    pub fn listing(&mut self, bucket: Bucket) {
        *self.listings.entry(bucket).or_default() += 1;
        self.listed.remove(&bucket);
    }

    /// The listing is complete: what it did not bring is not there.
    pub fn complete(&mut self, bucket: Bucket) -> Vec<Found> {
        self.listed.insert(bucket);
        self.is_stirred = true;
        let listing = self.listings.get(&bucket).copied().unwrap_or_default();
        let Some(slots) = self.slots.get_mut(&bucket) else { return Vec::new() };
        let mut changed = Vec::new();
        for (key, slot) in slots.iter_mut() {
            if slot.seen.is_some_and(|seen| seen.listing != listing) {
                slot.seen = None;
            }
            changed.push(Place { bucket, key: key.clone() });
        }
        changed.iter().filter_map(|place| self.touch(place)).collect()
    }

    /// The newest message of a key. `sequence` is that of a declaration that this mesh signed, and 0 of anything else.
    pub fn seen(
        &mut self,
        place: &Place,
        digest: Option<Digest>,
        revision: u64,
        sequence: u64,
    ) -> Vec<Found> {
        let listing = self.listings.get(&place.bucket).copied().unwrap_or_default();
        let slot = self.slot(place);
        // What was written is known from its answer, which may come before an older message.
        if slot.seen.is_some_and(|seen| seen.listing == listing && seen.revision > revision) {
            return Vec::new();
        }
        let before = slot.seen.replace(Seen { digest, revision, sequence, listing });
        let is_ours = matches!(slot.state, State::Writing(..) | State::Later(_));
        let was_settled =
            slot.want.is_some_and(|want| want.done && before.is_some_and(|seen| seen.digest == want.digest));
        if let State::Later(_) = slot.state {
            slot.state = State::Idle;
        }
        let mut found = Vec::new();
        if slot.is_ahead() && before.is_none_or(|seen| seen.revision != revision) {
            found.push(Found::Ahead(place.clone()));
        } else if was_settled && !is_ours && !slot.is_settled() {
            found.push(Found::Changed(place.clone()));
        }
        found.extend(self.touch(place));
        found
    }

    /// The next places whose values are to be fetched, if any.
    pub fn fetch(&mut self) -> Vec<Place> {
        let room = MAX_UNDER_WAY.saturating_sub(self.under_way.len());
        let mut places = Vec::new();
        if room == 0 || !std::mem::take(&mut self.is_stirred) {
            return places;
        }
        for (_, bucket, key) in &self.open {
            if places.len() == room {
                break;
            }
            let place = Place { bucket: *bucket, key: key.clone() };
            if self.may_write(&place) {
                places.push(place);
            }
        }
        for place in &places {
            self.slot(place).state = State::Fetching;
            self.under_way.insert(place.clone());
        }
        places
    }

    fn may_write(&self, place: &Place) -> bool {
        let Some(slot) = self.get(place) else { return false };
        slot.state == State::Idle && self.listed.contains(&place.bucket) && self.is_in_order(place)
    }

    /// Whether what has to be written before is written.
    fn is_in_order(&self, place: &Place) -> bool {
        let Some(slot) = self.get(place) else { return false };
        let deletes = slot.want.is_some_and(|want| want.digest.is_none());
        let node = node(&place.key);
        match place.bucket {
            Bucket::Nodes => true,
            Bucket::Declarations => {
                [Bucket::Assignments, Bucket::Settings]
                    .into_iter()
                    .all(|bucket| self.listed.contains(&bucket))
                    && !self.open_of(node).any(|(bucket, _, deletes)| {
                        !deletes && matches!(bucket, Bucket::Assignments | Bucket::Settings)
                    })
            }
            // What a declaration still names is deleted after the next one.
            Bucket::Assignments | Bucket::Settings => {
                !deletes
                    || (self.listed.contains(&Bucket::Declarations)
                        && !self.open_of(node).any(|(bucket, ..)| bucket == Bucket::Declarations))
            }
        }
    }

    /// What of a node is open: bucket, key, and whether it is to be deleted.
    fn open_of(&self, node: &str) -> impl Iterator<Item = (Bucket, &str, bool)> {
        let from = (node.to_owned(), Bucket::Nodes, String::new());
        let node = node.to_owned();
        self.open.range(from..).take_while(move |(of, ..)| *of == node).map(|(_, bucket, key)| {
            let slot = self.slots.get(bucket).and_then(|slots| slots.get(key));
            let deletes = slot.is_some_and(|slot| slot.want.is_some_and(|want| want.digest.is_none()));
            (*bucket, key.as_str(), deletes)
        })
    }

    /// The value of a place is there: the revision to write it over, if it is still wanted.
    pub fn write(&mut self, place: &Place, digest: Option<Digest>, now: Duration) -> Option<u64> {
        // What is wanted may have changed since it was asked for, and with it the order.
        let is_in_order = self.is_in_order(place);
        let slot = self.slots.get_mut(&place.bucket).and_then(|slots| slots.get_mut(&place.key))?;
        if slot.state != State::Fetching {
            return None;
        }
        if slot.want.is_none_or(|want| want.digest != digest) {
            // The store has something newer, which is told in a moment.
            self.put_off(place, now + NEWER);
            return None;
        }
        if slot.is_settled() || !is_in_order {
            slot.state = State::Idle;
            self.under_way.remove(place);
            self.is_stirred = true;
            return None;
        }
        let sequence = slot.want.map_or(0, |want| want.sequence);
        slot.state = State::Writing(now + PATIENCE, Written { digest, sequence });
        Some(slot.seen.map_or(0, |seen| seen.revision))
    }

    /// The bus has stored what was written.
    pub fn stored(&mut self, place: &Place, revision: u64) -> Vec<Found> {
        let listing = self.listings.get(&place.bucket).copied().unwrap_or_default();
        let slot = self.slot(place);
        let state = std::mem::take(&mut slot.state);
        if let State::Writing(_, Written { digest, sequence }) = state
            && slot.seen.is_none_or(|seen| seen.revision < revision)
        {
            slot.seen = Some(Seen { digest, revision, sequence, listing });
        }
        self.under_way.remove(place);
        self.touch(place).into_iter().collect()
    }

    /// A value could not be fetched or written: it is looked at again then, or when the key changes.
    pub fn put_off(&mut self, place: &Place, until: Duration) {
        self.is_stirred = true;
        self.slot(place).state = State::Later(until);
        self.under_way.remove(place);
        self.later.insert(place.clone());
    }

    /// The connection is gone, and with it what was being written.
    pub fn down(&mut self) {
        self.is_stirred = true;
        for place in std::mem::take(&mut self.under_way) {
            self.slot(&place).state = State::Idle;
        }
        self.listed.clear();
    }

    /// Time has passed.
    pub fn due(&mut self, now: Duration) {
        let lost: Vec<Place> = self
            .under_way
            .iter()
            .filter(|place| {
                self.get(place)
                    .is_some_and(|slot| matches!(slot.state, State::Writing(until, _) if until <= now))
            })
            .cloned()
            .collect();
        self.is_stirred |= !lost.is_empty();
        for place in lost {
            self.slot(&place).state = State::Idle;
            self.under_way.remove(&place);
        }
        let ripe: Vec<Place> = self
            .later
            .iter()
            .filter(|place| {
                self.get(place).is_none_or(|slot| !matches!(slot.state, State::Later(until) if until > now))
            })
            .cloned()
            .collect();
        self.is_stirred |= !ripe.is_empty();
        for place in ripe {
            self.later.remove(&place);
            let slot = self.slot(&place);
            if let State::Later(_) = slot.state {
                slot.state = State::Idle;
            }
        }
    }

    /// When [`Mirror::due`] has something to do.
    pub fn next_deadline(&self) -> Option<Duration> {
        let writing = self.under_way.iter().filter_map(|place| match self.get(place)?.state {
            State::Writing(until, _) => Some(until),
            _ => None,
        });
        let later = self.later.iter().filter_map(|place| match self.get(place)?.state {
            State::Later(until) => Some(until),
            _ => None,
        });
        writing.chain(later).min()
    }

    /// How a bucket stands.
    pub fn standing(&self, bucket: Bucket) -> Standing {
        let mut standing = Standing::default();
        for slot in self.slots.get(&bucket).into_iter().flat_map(BTreeMap::values) {
            match slot.want {
                Some(want) => standing.wanted += usize::from(want.digest.is_some()),
                None => standing.foreign += usize::from(slot.seen.is_some_and(|seen| seen.digest.is_some())),
            }
            standing.ahead += usize::from(slot.is_ahead());
        }
        standing.open = self.open.iter().filter(|(_, of, _)| *of == bucket).count();
        standing
    }

    /// Whether every bucket was read and holds what is wanted.
    pub fn is_settled(&self) -> bool {
        self.open.is_empty() && self.listed.len() == Bucket::ALL.len()
    }

    /// Whether the bucket was read.
    pub fn is_listed(&self, bucket: Bucket) -> bool {
        self.listed.contains(&bucket)
    }

    /// Keys of the bucket that the store does not know: the first ones.
    pub fn foreign(&self, bucket: Bucket) -> impl Iterator<Item = &str> {
        let slots = self.slots.get(&bucket).into_iter().flatten();
        let foreign =
            |slot: &Slot| slot.want.is_none() && slot.seen.is_some_and(|seen| seen.digest.is_some());
        slots.filter(move |(_, slot)| foreign(slot)).map(|(key, _)| key.as_str())
    }

    fn get(&self, place: &Place) -> Option<&Slot> {
        self.slots.get(&place.bucket)?.get(&place.key)
    }

    fn slot(&mut self, place: &Place) -> &mut Slot {
        self.slots.entry(place.bucket).or_default().entry(place.key.clone()).or_default()
    }

    /// Puts a place where it belongs after a change.
    fn touch(&mut self, place: &Place) -> Option<Found> {
        let is_listed = self.listed.contains(&place.bucket);
        self.is_stirred |= is_listed;
        let slot = self.slot(place);
        let settled = slot.is_settled();
        let mut found = None;
        if let Some(want) = &mut slot.want
            && settled
            && !want.done
            && want.digest == slot.seen.and_then(|seen| seen.digest)
            && (is_listed || slot.seen.is_some())
        {
            want.done = true;
            let revision = slot.seen.map_or(0, |seen| seen.revision);
            found = Some(Found::Done(place.clone(), want.digest, revision));
        }
        // A deleted key is kept as long as the bucket has its marker: a value that comes back is written over that.
        let is_empty = slot.want.is_none() && slot.state == State::Idle && slot.seen.is_none();
        let entry = (node(&place.key).to_owned(), place.bucket, place.key.clone());
        if settled {
            self.open.remove(&entry);
        } else {
            self.open.insert(entry);
        }
        if is_empty && let Some(slots) = self.slots.get_mut(&place.bucket) {
            slots.remove(&place.key);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_comes_back_is_written_over_the_marker_of_its_key() {
        let mut mirror = Mirror::default();
        let place = Place { bucket: Bucket::Settings, key: "attic.web".into() };
        for bucket in Bucket::ALL {
            mirror.listing(bucket);
            mirror.complete(bucket);
        }
        // It was deleted, and the store no longer speaks of it.
        mirror.seen(&place, None, 7, 0);
        mirror.want(None, Vec::new());
        let digest = Some(Digest::of(b"{}"));
        mirror.want(None, vec![Value { place: place.clone(), digest, sequence: 3, done: false }]);
        assert_eq!(mirror.fetch(), std::slice::from_ref(&place));
        assert_eq!(mirror.write(&place, digest, Duration::ZERO), Some(7));
    }
}
