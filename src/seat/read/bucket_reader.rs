//! One bucket read from end to end: its keys, then the values of those that the query picks.
//!
//! Where it may be read in bulk, its keys come from its cache, which is followed to the bucket's end first, and with
//! them what the cache knows of each. Everywhere else the keys are listed, and the values read one by one.

use super::cache::{CacheStore, Entry};
use super::catch_up::{CatchUp, Uncacheable};
use super::found::Found;
use super::key_lister::{KeyLister, Listed};
use super::snapshot::{Snapshot, SnapshotBuilder};
use super::value_reader::ValueReader;
use crate::seat::call::{Budget, Call, Cost, Tag};
use crate::seat::failure::Cause;
use crate::wire::answer::AsOf;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::keys;
use mesh_jetstream::kv;
use mesh_jetstream::stream_info::{self, State};
use mesh_model::bucket::Bucket;
use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;
use std::vec;

/// A list of more keys is long: few are kept at a time.
const LONG_LIST: usize = 8192;

/// How many bytes the answer with a short value has, such as those of the registry.
const SHORT_ANSWER_BYTES: usize = 512;

/// How many bytes a message has at most, on average, where values are read in batches.
const MAX_BYTES_IN_BATCHES: usize = 4 * 1024;

/// How many keys are taken out of a cache at a time.
const CHUNK: usize = 1024;

/// A bucket being read.
#[derive(Debug)]
pub(in crate::seat) struct BucketReader {
    bucket: Bucket,
    value_bytes: Option<usize>,
    /// How many bytes a message of the bucket has on average; 0 if that is not snapshot.
    mean_bytes: usize,
    /// More keys than these are read in bulk.
    in_bulk: Option<usize>,
    store: Rc<CacheStore>,
    stage: Stage,
    node_token: Option<String>,
    list: List,
    as_of: AsOf,
    state: Option<State>,
    /// What an earlier reader has found, which counts if the bucket has not changed since.
    snapshot: Option<Rc<Snapshot>>,
    builder: Option<SnapshotBuilder>,
    total: usize,
    given: usize,
}

#[derive(Debug)]
enum Stage {
    /// Somebody else has the bucket's cache.
    Queueing,
    CatchingUp(CatchUp),
    /// Looking whether the bucket is as it is snapshot.
    Looking {
        asked: bool,
    },
    Listing(KeyLister),
    Listed(Vec<String>),
    Picking(Vec<String>),
    Reading(ValueReader),
    Telling {
        catch_up: CatchUp,
        /// The last key that was taken out of the cache.
        after: Option<String>,
        chunk: vec::IntoIter<(String, Entry)>,
    },
    Recalling(VecDeque<(String, Found)>),
}

/// What is known of the list of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// Whether it is long is not snapshot.
    Unknown,
    /// It was long, now or the last time, and there was no room for it: it is asked for once there is.
    WaitsForRoom,
    /// Whatever its length, there is room.
    HasRoom,
}

/// What a reader has come to.
#[derive(Debug)]
pub(in crate::seat) enum Step {
    /// Nothing before more is heard.
    Waiting,
    /// The keys were listed; [`BucketReader::pick`] says which of them to read.
    Listed,
    /// The keys are in the cache; [`BucketReader::tell`] says behind which of them to begin.
    Cached,
    /// The next key of the cache, in order, and what that knows of it.
    Entry(String, Entry),
    /// There are no more keys in the cache. [`BucketReader::read`] says which of them to read, if any.
    Told,
    /// The next key, in order, and what is under it.
    Key(String, Found),
    /// There is nothing more to read.
    End,
}

impl BucketReader {
    /// Reads `bucket`, only what is under the token `node_token` if there is one; if that is more
    /// than `in_bulk` keys, in bulk. `value_bytes` says how large the answers with its values were of late, if that is
    /// snapshot; the `store` has what else is snapshot.
    pub(in crate::seat) fn new(
        bucket: Bucket,
        node_token: Option<String>,
        value_bytes: Option<usize>,
        in_bulk: Option<usize>,
        store: Rc<CacheStore>,
    ) -> Self {
        // The bus itself lists the few keys of one node.
        let stage = if in_bulk.is_some() && node_token.is_none() {
            Stage::Queueing
        } else {
            Stage::Listing(KeyLister::new(bucket, node_token.clone()))
        };
        let is_long = node_token.is_none() && store.has_long_list(bucket);
        BucketReader {
            bucket,
            // Nobody but the seat writes there, as long as its rights are what they should be.
            value_bytes: value_bytes.or((bucket == Bucket::Registry).then_some(SHORT_ANSWER_BYTES)),
            mean_bytes: 0,
            in_bulk,
            store,
            stage,
            node_token,
            list: if is_long { List::WaitsForRoom } else { List::Unknown },
            as_of: AsOf { sequence: 0, at: None },
            state: None,
            snapshot: None,
            builder: None,
            total: 0,
            given: 0,
        }
    }

    /// Reads the registry. Nothing is read again if it is as it was when it became `known`.
    pub(in crate::seat) fn of_registry(snapshot: Option<Rc<Snapshot>>) -> Self {
        let scan = BucketReader::new(Bucket::Registry, None, None, None, Rc::default());
        let stage = if snapshot.is_some() { Stage::Looking { asked: false } } else { scan.stage };
        BucketReader { stage, snapshot, builder: Some(SnapshotBuilder::default()), ..scan }
    }

    pub(in crate::seat) const fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// The state of the bucket that its keys were taken from.
    pub(in crate::seat) fn as_of(&self) -> AsOf {
        self.as_of.clone()
    }

    /// The first key whose value has not been given.
    pub(in crate::seat) fn first_unread(&self) -> Option<&str> {
        match &self.stage {
            Stage::Reading(values) => values.first_unread(),
            Stage::Telling { catch_up, after, chunk } => {
                let next = || catch_up.entries_after(after.as_deref()).next().map(|(key, _)| key);
                chunk.as_slice().first().map(|(key, _)| key.as_str()).or_else(next)
            }
            _ => None,
        }
    }

    /// How far it is, in words.
    pub(in crate::seat) fn progress(&self) -> String {
        match self.stage {
            Stage::Queueing | Stage::CatchingUp(_) | Stage::Looking { .. } | Stage::Listing(_) => {
                format!("the keys of bucket {} were not listed", self.bucket)
            }
            _ => format!("{} of {} values of bucket {} were read", self.given, self.total, self.bucket),
        }
    }

    pub(in crate::seat) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        if matches!(self.stage, Stage::Queueing) {
            let lease = self.store.lease(self.bucket)?;
            self.stage = Stage::CatchingUp(CatchUp::new(self.bucket, self.in_bulk.unwrap_or(0), lease));
        }
        match &mut self.stage {
            Stage::CatchingUp(catch_up) => catch_up.next_call(budget),
            Stage::Looking { asked } => (!mem::replace(asked, true)).then(|| Call {
                tag: Tag::Look,
                request: stream_info::get(Kv::new(self.bucket.name())),
                cost: Cost::Single,
            }),
            Stage::Listing(listing)
                if budget.listing && (budget.long_list || self.list != List::WaitsForRoom) =>
            {
                if budget.long_list {
                    self.list = List::HasRoom;
                }
                listing.next_call().map(|request| Call { tag: Tag::Listing, request, cost: Cost::Listing })
            }
            Stage::Reading(values) => values.next_call(budget),
            _ => None,
        }
    }

    /// Takes the answer to the request of `tag`.
    pub(in crate::seat) fn on_reply(&mut self, tag: Tag, body: Result<&[u8], Cause>) -> Result<(), Cause> {
        match (&mut self.stage, tag) {
            (Stage::CatchingUp(catch_up), Tag::Look) => {
                match catch_up.on_reply(body?)? {
                    Ok(()) => {}
                    Err(Uncacheable::Now) => self.list(),
                    Err(Uncacheable::ForAWhile(why)) => {
                        self.store.note_uncacheable(self.bucket, why);
                        self.leave_bulk();
                    }
                }
                Ok(())
            }
            (Stage::Looking { .. }, Tag::Look) => {
                let look = stream_info::parse(body?).map_err(Cause::Api)?;
                self.looked(look.map(|look| look.state));
                Ok(())
            }
            (Stage::Listing(listing), Tag::Listing) => {
                listing.on_reply(keys::parse(Kv::new(self.bucket.name()), body?).map_err(Cause::Api)?)
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

    /// Takes a part of the answer to a request in bulk; the error says why that is given up.
    pub(in crate::seat) fn on_part(&mut self, tag: Tag, part: Part) -> Result<(), String> {
        match (&mut self.stage, tag) {
            (Stage::CatchingUp(catch_up), Tag::Batch(_)) => match catch_up.on_part(part) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(Uncacheable::Now)) => {
                    self.list();
                    Ok(())
                }
                Ok(Err(Uncacheable::ForAWhile(why))) => {
                    self.leave_bulk();
                    Err(why.to_owned())
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

    /// Reads one by one from now on.
    pub(in crate::seat) fn leave_bulk(&mut self) {
        self.in_bulk = None;
        match &mut self.stage {
            Stage::Queueing | Stage::CatchingUp(_) => self.list(),
            Stage::Reading(values) => values.leave_batches(),
            _ => {}
        }
    }

    /// Whether its keys are still to come, in bulk.
    pub(in crate::seat) const fn is_following(&self) -> bool {
        matches!(self.stage, Stage::Queueing | Stage::CatchingUp(_))
    }

    /// Whether it waits for the connection for reads in bulk, or for its turn there.
    pub(in crate::seat) fn waits_for_bulk(&self) -> bool {
        match &self.stage {
            Stage::CatchingUp(catch_up) => catch_up.is_to_read(),
            Stage::Reading(values) => values.waits_for_batch(),
            _ => false,
        }
    }

    fn list(&mut self) {
        self.stage = Stage::Listing(KeyLister::new(self.bucket, self.node_token.clone()));
    }

    /// The bucket is found in this state, if that was said.
    fn looked(&mut self, state: Option<State>) {
        let snapshot = self.snapshot.as_ref().filter(|snapshot| snapshot.is_of(state.as_ref()));
        match snapshot.zip(state) {
            Some((snapshot, state)) => {
                self.stage = Stage::Listed(snapshot.keys());
                self.as_of = AsOf { sequence: state.last_sequence, at: Some(state.last_at.clone()) };
                self.state = Some(state);
            }
            None => self.list(),
        }
    }

    /// What there is by now.
    pub(in crate::seat) fn poll(&mut self) -> Step {
        match &mut self.stage {
            Stage::CatchingUp(catch_up) if catch_up.is_at_the_end() => {
                self.as_of = catch_up.as_of();
                self.total = catch_up.keys();
                let mean_bytes = catch_up.mean_bytes();
                self.expect_values_of(mean_bytes);
                Step::Cached
            }
            Stage::Listing(listing) => match listing.take() {
                None => Step::Waiting,
                Some(Listed { keys, mean_bytes, last_sequence, last_at, state }) => {
                    self.expect_values_of(mean_bytes);
                    self.as_of = AsOf { sequence: last_sequence, at: last_at };
                    self.state = state;
                    self.total = keys.len();
                    if self.node_token.is_none() {
                        self.store.note_list(self.bucket, keys.len() > LONG_LIST);
                    }
                    self.stage = Stage::Picking(keys);
                    Step::Listed
                }
            },
            Stage::Listed(keys) => {
                self.stage = Stage::Picking(mem::take(keys));
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
                None if values.is_done() => Step::End,
                None => Step::Waiting,
            },
            Stage::Telling { catch_up, after, chunk } => {
                if chunk.len() == 0 {
                    let next = catch_up.entries_after(after.as_deref()).take(CHUNK);
                    let next: Vec<_> = next.map(|(key, entry)| (key.to_owned(), entry.clone())).collect();
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
            Stage::Queueing | Stage::CatchingUp(_) | Stage::Looking { .. } | Stage::Picking(_) => {
                Step::Waiting
            }
        }
    }

    fn expect_values_of(&mut self, mean_bytes: usize) {
        self.mean_bytes = mean_bytes;
        // Values come in base64. That of many is known before any of them is asked for.
        let mean = (mean_bytes > 0).then_some(mean_bytes / 3 * 4 + SHORT_ANSWER_BYTES);
        self.value_bytes = self.value_bytes.max(mean);
    }

    /// Tells the keys of the cache behind `after`.
    pub(in crate::seat) fn tell(&mut self, after: Option<&str>) {
        match mem::replace(&mut self.stage, Stage::Picking(Vec::new())) {
            Stage::CatchingUp(catch_up) => {
                let after = after.map(str::to_owned);
                self.stage = Stage::Telling { catch_up, after, chunk: Vec::new().into_iter() };
            }
            other => self.stage = other,
        }
    }

    /// Whether it keeps a long list of keys, or may be about to.
    pub(in crate::seat) fn keeps_long_list(&self) -> bool {
        self.list == List::HasRoom
            && match &self.stage {
                Stage::Listing(_) | Stage::Listed(_) | Stage::Picking(_) => true,
                Stage::Reading(values) => values.left() > LONG_LIST,
                _ => false,
            }
    }

    /// Says which keys to read: those behind `after` that concern the query, in order, at most so many and the one
    /// behind them. Look-alikes stay together.
    pub(in crate::seat) fn pick(
        &mut self,
        after: Option<&str>,
        at_most: usize,
        concerns: impl Fn(&str) -> bool,
    ) {
        let Stage::Picking(listed) = &mut self.stage else { return };
        let behind =
            mem::take(listed).into_iter().filter(|key| after.is_none_or(|after| key.as_str() > after));
        let mut keys = Vec::new();
        for key in behind.filter(|key| concerns(key)) {
            let is_behind = keys.len() > at_most && keys.last() != Some(&key);
            keys.push(key);
            if is_behind {
                break;
            }
        }
        self.read_listed(keys);
    }

    fn read_listed(&mut self, keys: Vec<String>) {
        if let Some(snapshot) = self.snapshot.as_ref().filter(|snapshot| snapshot.is_of(self.state.as_ref()))
        {
            self.total = keys.len();
            self.stage = Stage::Recalling(snapshot.recall(&keys));
            return;
        }
        if keys.len() < self.total {
            // A part of the bucket is not worth knowing.
            self.builder = None;
        }
        if keys.len() > LONG_LIST && self.list != List::HasRoom {
            self.list = List::WaitsForRoom;
            return self.list();
        }
        self.read(keys);
    }

    /// Reads these keys, which are in order.
    pub(in crate::seat) fn read(&mut self, keys: Vec<String>) {
        self.total = keys.len();
        // A batch comes in the order of the writes: many of its values may have to wait for one that is missing.
        let are_short = self.mean_bytes <= MAX_BYTES_IN_BATCHES;
        let in_batches = are_short && self.in_bulk.is_some_and(|few| keys.len() > few);
        let batches_since = in_batches.then_some(self.as_of.sequence);
        self.stage = Stage::Reading(ValueReader::new(self.bucket, keys, self.value_bytes, batches_since));
    }

    /// What this reader, now that it is at its end, has found that the next one may count on.
    pub(in crate::seat) fn learned(&mut self) -> Option<Rc<Snapshot>> {
        let builder = self.builder.take()?;
        let whole = matches!(&self.stage, Stage::Reading(values) if values.is_done());
        if whole { builder.known(self.state.clone()?) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_ROOM: Budget = Budget { listing: true, batch: false, long_list: false, large_bytes: usize::MAX };
    const ROOM: Budget = Budget { long_list: true, ..NO_ROOM };

    fn listed(scan: &mut BucketReader, keys: usize) {
        scan.stage = Stage::Picking((0..keys).map(|at| format!("{at:06}")).collect());
        scan.pick(None, usize::MAX, |_| true);
    }

    fn scan_without_room(keys: usize) -> BucketReader {
        let mut scan = BucketReader::new(Bucket::Needs, None, None, None, Rc::default());
        assert_eq!(scan.next_call(NO_ROOM).unwrap().tag, Tag::Listing);
        listed(&mut scan, keys);
        scan
    }

    #[test]
    fn a_long_list_that_there_is_no_room_for_is_asked_for_again_once_there_is() {
        let mut scan = scan_without_room(LONG_LIST + 1);
        assert!(!scan.keeps_long_list());
        assert_eq!(scan.next_call(NO_ROOM), None);
        assert_eq!(scan.next_call(ROOM).unwrap().tag, Tag::Listing);
        assert!(scan.keeps_long_list(), "what is awaited takes the room that it was given");
        listed(&mut scan, LONG_LIST + 1);
        assert!(scan.keeps_long_list());
        assert_eq!(scan.next_call(NO_ROOM).unwrap().tag, Tag::Value(0));
    }

    #[test]
    fn a_short_list_needs_no_room() {
        let mut scan = scan_without_room(LONG_LIST);
        assert!(!scan.keeps_long_list());
        assert_eq!(scan.next_call(NO_ROOM).unwrap().tag, Tag::Value(0));
    }

    #[test]
    fn what_is_picked_ends_with_the_key_behind_it_and_keeps_look_alikes_together() {
        let picked = |after, at_most| {
            let mut scan = BucketReader::new(Bucket::Needs, None, None, None, Rc::default());
            let keys = ["a", "b", "b", "b", "c", "d"];
            scan.stage = Stage::Picking(keys.map(str::to_owned).to_vec());
            scan.pick(after, at_most, |key| key != "d");
            scan.total
        };
        assert_eq!(picked(Some("a"), 1), 4);
        assert_eq!(picked(None, 0), 2);
        assert_eq!(picked(None, 9), 5);
    }
}
