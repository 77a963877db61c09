//! Reads one bucket: its keys, then the values of those that the query picks.
//!
//! If the bucket may be read in bulk, or the list of its keys is too long for the connection, the keys come from its
//! cache, which is brought up to date first, with whatever the cache has of each. Otherwise the keys are listed, and the values
//! are read one by one.

use super::cache::{CacheStore, Entry};
use super::catch_up::{CatchUp, Uncacheable};
use super::found::Found;
use super::key_lister::{KeyLister, Listed};
use super::snapshot::{Snapshot, SnapshotBuilder};
use super::value_reader::ValueReader;
use super::way::Way;
use crate::seat::call::{Budget, Call, Cost, Tag};
use mesh_jetstream::api::ApiError;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::keys;
use mesh_jetstream::kv;
use mesh_jetstream::stream_info::{self, State};
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::failure::Cause;
use mesh_provisioner_api::response::AsOf;
use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;
use std::time::Duration;
use std::vec;

/// How many keys of a list are read before more are listed.
const KEYS_AT_A_TIME: usize = 32 * 1024;

/// The size of a reply with a short value, such as those of the registry, in bytes.
const SHORT_ANSWER_BYTES: usize = 512;

/// The largest mean message size for which values are read in batches, in bytes.
const MAX_BYTES_IN_BATCHES: usize = 4 * 1024;

/// How many keys are taken from a cache at a time.
const CHUNK: usize = 1024;

/// A bucket that is being read.
#[derive(Debug)]
pub(in crate::seat) struct BucketReader {
    bucket: Bucket,
    value_bytes: Option<usize>,
    /// The mean size of a message of the bucket, in bytes; 0 if unknown.
    mean_bytes: usize,
    way: Way,
    store: Rc<CacheStore>,
    stage: Stage,
    node_token: Option<String>,
    /// The list of keys begins after this key.
    after: Option<String>,
    /// The list, while there is more of it.
    lister: Option<KeyLister>,
    /// Keys that were picked and are not read yet.
    picked: Vec<String>,
    /// The last listed key. Everything that was picked up to it has been returned.
    passed: Option<String>,
    as_of: AsOf,
    state: Option<State>,
    /// The snapshot of an earlier read, valid if the bucket has not changed since.
    snapshot: Option<Rc<Snapshot>>,
    builder: Option<SnapshotBuilder>,
    total: usize,
    given: usize,
}

#[derive(Debug)]
enum Stage {
    /// Another query has the cache.
    Queueing,
    CatchingUp(CatchUp),
    /// Checking whether the snapshot is still valid.
    Looking {
        asked: bool,
    },
    Listing,
    /// The keys that were listed, and whether there are no more.
    Listed(Vec<String>, bool),
    Picking(Vec<String>, bool),
    Reading(ValueReader),
    Telling {
        catch_up: CatchUp,
        /// The last key that was taken from the cache.
        after: Option<String>,
        with_values: bool,
        chunk: vec::IntoIter<(String, Entry)>,
    },
    Recalling(VecDeque<(String, Found)>),
}

/// The progress of a read.
#[derive(Debug)]
pub(in crate::seat) enum Step {
    /// Nothing until the next reply.
    Waiting,
    /// The keys were listed; [`BucketReader::pick`] chooses which of them to read.
    Listed,
    /// The keys are in the cache; [`BucketReader::tell`] sets after which of them to start.
    Cached,
    /// The next key of the cache, in order, with what the cache has of it.
    Entry(String, Entry),
    /// There are no more keys in the cache. [`BucketReader::read`] chooses which of them to read, if any.
    Told,
    /// The next key, in order, with what was found under it.
    Key(String, Found),
    /// The read is complete.
    End,
}

impl BucketReader {
    /// Reads `bucket` after the key `after`, and only the keys of the node `node_token` if there is one. `value_bytes` is
    /// the recent mean size of replies with its values, if known; `store` has the caches.
    pub(in crate::seat) fn new(
        bucket: Bucket,
        node_token: Option<String>,
        after: Option<&str>,
        value_bytes: Option<usize>,
        way: Way,
        store: Rc<CacheStore>,
    ) -> Self {
        // JetStream lists the few keys of one node itself.
        let follows = match way {
            Way::Listed => false,
            Way::InBulk { .. } => node_token.is_none(),
            Way::Singly => true,
        };
        let mut reader = BucketReader {
            bucket,
            // Only the seat writes there, if the permissions are correct.
            value_bytes: value_bytes.or((bucket == Bucket::Registry).then_some(SHORT_ANSWER_BYTES)),
            mean_bytes: 0,
            way,
            store,
            stage: Stage::Queueing,
            node_token,
            after: after.map(str::to_owned),
            lister: None,
            picked: Vec::new(),
            passed: None,
            as_of: AsOf { sequence: 0, at: None },
            state: None,
            snapshot: None,
            builder: None,
            total: 0,
            given: 0,
        };
        if !follows {
            reader.list();
        }
        reader
    }

    /// Reads the registry after the key `after`. Nothing is read again if its state is that of `snapshot`.
    pub(in crate::seat) fn of_registry(snapshot: Option<Rc<Snapshot>>, after: Option<&str>) -> Self {
        let reader = BucketReader::new(Bucket::Registry, None, after, None, Way::Listed, Rc::default());
        let stage = if snapshot.is_some() { Stage::Looking { asked: false } } else { reader.stage };
        // A part of the bucket makes no snapshot.
        let builder = after.is_none().then(SnapshotBuilder::default);
        BucketReader { stage, snapshot, builder, ..reader }
    }

    pub(in crate::seat) const fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// The state of the bucket when its keys were listed.
    pub(in crate::seat) fn as_of(&self) -> AsOf {
        self.as_of.clone()
    }

    /// What tells whether the bucket has changed since its keys were listed.
    pub(in crate::seat) const fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// The first key whose value was not returned yet.
    pub(in crate::seat) fn first_unread(&self) -> Option<String> {
        match &self.stage {
            Stage::Reading(values) => values.first_unread().map(str::to_owned),
            Stage::Telling { catch_up, after, chunk, .. } => {
                let next = || catch_up.entries_after(after.as_deref(), false).next().map(|(key, _)| key);
                chunk.as_slice().first().map(|(key, _)| key.clone()).or_else(next)
            }
            _ => None,
        }
    }

    /// The last key that was listed, if all that was picked up to it has been returned and there is more of the list.
    pub(in crate::seat) fn passed(&self) -> Option<&str> {
        let is_listing = matches!(self.stage, Stage::Listing) && self.picked.is_empty();
        self.passed.as_deref().filter(|_| is_listing)
    }

    /// Its progress, as text.
    pub(in crate::seat) fn progress(&self) -> String {
        match &self.stage {
            Stage::CatchingUp(catch_up) => catch_up.progress(),
            Stage::Queueing | Stage::Looking { .. } | Stage::Listing => {
                format!("the keys of bucket {} were not listed", self.bucket)
            }
            _ => format!("{} of {} values of bucket {} were read", self.given, self.total, self.bucket),
        }
    }

    pub(in crate::seat) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        if matches!(self.stage, Stage::Queueing) {
            let lease = self.store.lease(self.bucket)?;
            self.stage = Stage::CatchingUp(CatchUp::new(self.bucket, self.way, lease));
        }
        match &mut self.stage {
            Stage::CatchingUp(catch_up) => catch_up.next_call(budget),
            Stage::Looking { asked } => (!mem::replace(asked, true)).then(|| Call {
                tag: Tag::Look,
                request: stream_info::get(Kv::new(self.bucket.name())),
                cost: Cost::Single,
            }),
            Stage::Listing if budget.listing => {
                let request = self.lister.as_mut()?.next_call()?;
                let cost = Cost::Listing { bucket: self.bucket, of_node: self.node_token.is_some() };
                Some(Call { tag: Tag::Listing, request, cost })
            }
            Stage::Reading(values) => values.next_call(budget),
            _ => None,
        }
    }

    /// Handles the reply for `tag`.
    pub(in crate::seat) fn on_reply(&mut self, tag: Tag, body: Result<&[u8], Cause>) -> Result<(), Cause> {
        match (&mut self.stage, tag) {
            (Stage::CatchingUp(catch_up), Tag::Look) => {
                let step = catch_up.looked(body?)?;
                self.step(step);
                Ok(())
            }
            (Stage::CatchingUp(catch_up), Tag::Next) => {
                let step = catch_up.asked(body?)?;
                self.step(step);
                Ok(())
            }
            (Stage::Looking { .. }, Tag::Look) => {
                let look = stream_info::parse(Kv::new(self.bucket.name()), body?).map_err(Cause::Api)?;
                self.looked(look.map(|look| look.state));
                Ok(())
            }
            (Stage::Listing, Tag::Listing) => {
                let page = keys::parse(Kv::new(self.bucket.name()), body?).map_err(Cause::Api)?;
                if let Some(subjects) = page.subjects.filter(|_| self.node_token.is_none())
                    && subjects > page.total
                {
                    let more = subjects - page.total;
                    let why = format!("it holds {more} messages whose subjects are not keys of the bucket");
                    return Err(Cause::Api(ApiError::NotABucket(why)));
                }
                self.lister.as_mut().map_or(Ok(()), |lister| lister.on_reply(page))
            }
            (Stage::Reading(values), Tag::Value(at)) => {
                let body = body?;
                let message = kv::parse_message(body).map_err(Cause::Api)?;
                values.on_reply(at, body.len(), message);
                Ok(())
            }
            (Stage::Reading(values), Tag::Batch(number)) => {
                values.give_up_batch(number);
                Ok(())
            }
            (Stage::CatchingUp(_), Tag::Batch(_)) => {
                self.leave_bulk();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Handles a part of a bulk reply; the error says why the bulk read is given up.
    pub(in crate::seat) fn on_part(&mut self, tag: Tag, part: Part, now: Duration) -> Result<(), String> {
        match (&mut self.stage, tag) {
            (Stage::CatchingUp(catch_up), Tag::Batch(_)) => match catch_up.on_part(part, now) {
                Ok(step) => {
                    self.step(step);
                    Ok(())
                }
                Err(why) => {
                    self.leave_bulk();
                    Err(why)
                }
            },
            (Stage::Reading(values), Tag::Batch(number)) => {
                let heard = values.on_part(number, part);
                if heard.is_err() {
                    values.give_up_batch(number);
                }
                heard
            }
            _ => Ok(()),
        }
    }

    /// Continues after a step of catching up, or lists the bucket.
    fn step(&mut self, step: Result<(), Uncacheable>) {
        match step {
            Ok(()) => {}
            // One that cannot be cached is listed whatever the connection does: nothing else gives its keys.
            Err(_) if self.way == Way::Singly => {
                self.way = Way::Listed;
                self.list();
            }
            Err(Uncacheable::Now) => self.list(),
            Err(Uncacheable::ForAWhile(why)) => {
                self.store.note_uncacheable(self.bucket, why);
                self.leave_bulk();
            }
        }
    }

    /// Reads key by key from now on.
    pub(in crate::seat) fn leave_bulk(&mut self) {
        if self.way == Way::Singly {
            return;
        }
        self.way = Way::Listed;
        match &mut self.stage {
            Stage::Queueing | Stage::CatchingUp(_) => self.list(),
            Stage::Reading(values) => values.leave_batches(),
            _ => {}
        }
    }

    fn list(&mut self) {
        let offset = match &self.after {
            Some(after) if self.node_token.is_none() => self.store.offset_near(self.bucket, after),
            _ => 0,
        };
        let (token, after) = (self.node_token.clone(), self.after.as_deref());
        self.lister = Some(KeyLister::new(self.bucket, token, after, offset));
        self.total = 0;
        self.stage = Stage::Listing;
    }

    /// The bucket has this state, if it was reported.
    fn looked(&mut self, state: Option<State>) {
        let snapshot = self.snapshot.as_ref().filter(|snapshot| snapshot.is_of(state.as_ref()));
        match snapshot.zip(state) {
            Some((snapshot, state)) => {
                self.stage = Stage::Listed(snapshot.keys(), true);
                self.as_of = as_of(&state);
                self.state = Some(state);
            }
            None => self.list(),
        }
    }

    /// The next step.
    pub(in crate::seat) fn poll(&mut self) -> Step {
        match &mut self.stage {
            Stage::CatchingUp(catch_up) if catch_up.is_at_the_end() => {
                if let Some(state) = catch_up.state() {
                    self.as_of = as_of(state);
                }
                self.total = catch_up.keys();
                let mean_bytes = catch_up.mean_bytes();
                self.expect_values_of(mean_bytes);
                Step::Cached
            }
            Stage::Listing => match self.lister.as_mut().and_then(KeyLister::take) {
                None => Step::Waiting,
                Some(Listed { keys, is_last, mean_bytes, last_sequence, last_at, state, place }) => {
                    self.expect_values_of(mean_bytes);
                    // Later parts of the list may be newer, and are never older.
                    if self.state.is_none() {
                        self.as_of = AsOf { sequence: last_sequence, at: last_at };
                        self.state = state;
                    }
                    if let Some((first, offset)) = place.filter(|_| self.node_token.is_none()) {
                        self.store.note_offset(self.bucket, first, offset);
                    }
                    self.total += keys.len();
                    if is_last {
                        self.lister = None;
                    }
                    self.stage = Stage::Picking(keys, is_last);
                    Step::Listed
                }
            },
            Stage::Listed(keys, is_last) => {
                self.stage = Stage::Picking(mem::take(keys), *is_last);
                Step::Listed
            }
            Stage::Reading(values) => match values.next() {
                Some((key, found)) => {
                    self.given += 1;
                    if let Some(builder) = &mut self.builder {
                        builder.take(&key, &found);
                    }
                    Step::Key(key, found)
                }
                None if values.is_done() => self.read_on(),
                None => Step::Waiting,
            },
            Stage::Telling { catch_up, after, with_values, chunk } => {
                if chunk.len() == 0 {
                    let next: Vec<_> =
                        catch_up.entries_after(after.as_deref(), *with_values).take(CHUNK).collect();
                    *after = next.last().map(|(key, _)| key.clone());
                    *chunk = next.into_iter();
                }
                match chunk.next() {
                    Some((key, entry)) => Step::Entry(key, entry),
                    None => Step::Told,
                }
            }
            Stage::Recalling(found) => match found.pop_front() {
                Some((key, found)) => {
                    self.given += 1;
                    Step::Key(key, found)
                }
                None => Step::End,
            },
            Stage::Queueing | Stage::CatchingUp(_) | Stage::Looking { .. } | Stage::Picking(..) => {
                Step::Waiting
            }
        }
    }

    /// Reads what is left of the keys that were picked, lists more, or is at its end.
    fn read_on(&mut self) -> Step {
        if self.picked.is_empty() && self.lister.is_none() {
            return Step::End;
        }
        if self.picked.is_empty() {
            self.stage = Stage::Listing;
        } else {
            self.read_picked();
        }
        Step::Waiting
    }

    fn expect_values_of(&mut self, mean_bytes: usize) {
        self.mean_bytes = mean_bytes;
        // Values are base64-encoded. The sizes of many are known before they are requested.
        let mean = (mean_bytes > 0).then_some(mean_bytes / 3 * 4 + SHORT_ANSWER_BYTES);
        self.value_bytes = self.value_bytes.max(mean);
    }

    /// Returns the keys of the cache after `after` from now on, with their values if `with_values`.
    pub(in crate::seat) fn tell(&mut self, after: Option<&str>, with_values: bool) {
        match mem::replace(&mut self.stage, Stage::Picking(Vec::new(), true)) {
            Stage::CatchingUp(catch_up) => {
                let after = after.map(str::to_owned);
                self.stage = Stage::Telling { catch_up, after, with_values, chunk: Vec::new().into_iter() };
            }
            other => self.stage = other,
        }
    }

    /// How many keys of a list it keeps.
    pub(in crate::seat) fn listed_keys(&self) -> usize {
        self.picked.len()
            + match &self.stage {
                Stage::Listed(keys, _) | Stage::Picking(keys, _) => keys.len(),
                Stage::Reading(values) => values.left(),
                _ => 0,
            }
    }

    /// Chooses which of the listed keys to read: those that the query is about, in order, at most `at_most` and the one
    /// after them. Keys that look alike stay together.
    pub(in crate::seat) fn pick(&mut self, at_most: usize, concerns: impl Fn(&str) -> bool) {
        let Stage::Picking(listed, is_last) = &mut self.stage else { return };
        let is_last = *is_last;
        if let Some(last) = listed.last() {
            self.passed = Some(last.clone());
        }
        for key in mem::take(listed) {
            if self.after.as_ref().is_some_and(|after| key <= *after) || !concerns(&key) {
                continue;
            }
            let is_behind = self.picked.len() > at_most && self.picked.last() != Some(&key);
            self.picked.push(key);
            if is_behind {
                self.lister = None;
                break;
            }
        }
        // Only a whole list shows which keys to recall.
        let is_whole = is_last || self.lister.is_none();
        if let Some(snapshot) =
            self.snapshot.as_ref().filter(|snapshot| is_whole && snapshot.is_of(self.state.as_ref()))
        {
            let keys = mem::take(&mut self.picked);
            self.total = keys.len();
            self.stage = Stage::Recalling(snapshot.recall(&keys));
            return;
        }
        if is_last && self.picked.len() < self.total || !is_last && self.lister.is_none() {
            // A part of the bucket makes no snapshot.
            self.builder = None;
        }
        if self.lister.is_some() && self.picked.len() < KEYS_AT_A_TIME {
            self.stage = Stage::Listing;
        } else {
            self.read_picked();
        }
    }

    fn read_picked(&mut self) {
        let rest = self.picked.split_off(self.picked.len().min(KEYS_AT_A_TIME));
        let keys = mem::replace(&mut self.picked, rest);
        self.read(keys);
    }

    /// Reads these keys, which are sorted.
    pub(in crate::seat) fn read(&mut self, keys: Vec<String>) {
        self.total = keys.len();
        // A batch arrives in stream order: many of its values may have to wait for a missing one.
        let are_short = self.mean_bytes <= MAX_BYTES_IN_BATCHES;
        let in_batches = are_short && matches!(self.way, Way::InBulk { few, .. } if keys.len() > few);
        let batches_since = in_batches.then_some(self.as_of.sequence);
        self.stage = Stage::Reading(ValueReader::new(self.bucket, keys, self.value_bytes, batches_since));
    }

    /// The snapshot of this complete read, for the next one.
    pub(in crate::seat) fn learned(&mut self) -> Option<Rc<Snapshot>> {
        let builder = self.builder.take()?;
        let whole = matches!(&self.stage, Stage::Reading(values) if values.is_done());
        if whole { builder.known(self.state.clone()?) } else { None }
    }
}

/// The last write of a bucket in this state, if there was one.
fn as_of(state: &State) -> AsOf {
    let at = (state.last_sequence > 0).then(|| state.last_at.clone());
    AsOf { sequence: state.last_sequence, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_picked_ends_with_the_key_after_it_and_keeps_look_alikes_together() {
        let picked = |after, at_most| {
            let mut reader = BucketReader::new(Bucket::Needs, None, after, None, Way::Listed, Rc::default());
            let keys = ["a", "b", "b", "b", "c", "d"];
            reader.stage = Stage::Picking(keys.map(str::to_owned).to_vec(), true);
            reader.lister = None;
            reader.pick(at_most, |key| key != "d");
            reader.total
        };
        assert_eq!(picked(Some("a"), 1), 4);
        assert_eq!(picked(None, 0), 2);
        assert_eq!(picked(None, 9), 5);
    }
}
