//! One bucket read from end to end: its keys, then the values of those that the question picks.
//!
//! Where it may be read in bulk, its keys come from its index, which is followed to the bucket's end first, and with
//! them what the index knows of each. Everywhere else the keys are listed, and the values read one by one.

use super::failure::Cause;
use super::following::{Following, Unfit};
use super::index::{Entry, Shelf};
use super::known::{Known, Learning};
use super::listing::{Listed, Listing};
use super::question::{Allowance, Kind, Slot, Want};
use super::values::{Found, Values};
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

/// How many keys are taken out of an index at a time.
const CHUNK: usize = 1024;

/// A bucket being read.
#[derive(Debug)]
pub(super) struct Scan {
    bucket: Bucket,
    value_bytes: Option<usize>,
    /// How many bytes a message of the bucket has on average; 0 if that is not known.
    mean_bytes: usize,
    /// More keys than these are read in bulk.
    in_bulk: Option<usize>,
    shelf: Rc<Shelf>,
    stage: Stage,
    node_token: Option<String>,
    list: List,
    as_of: AsOf,
    state: Option<State>,
    /// What an earlier scan has found, which counts if the bucket has not changed since.
    known: Option<Rc<Known>>,
    learning: Option<Learning>,
    total: usize,
    given: usize,
}

#[derive(Debug)]
enum Stage {
    /// Somebody else has the bucket's index.
    Queueing,
    Following(Following),
    /// Looking whether the bucket is as it is known.
    Looking {
        asked: bool,
    },
    Listing(Listing),
    Listed(Vec<String>),
    Picking(Vec<String>),
    Reading(Values),
    Telling {
        following: Following,
        /// The last key that was taken out of the index.
        after: Option<String>,
        chunk: vec::IntoIter<(String, Entry)>,
    },
    Recalling(VecDeque<(String, Found)>),
}

/// What is known of the list of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// Whether it is long is not known.
    Unknown,
    /// It was long, now or the last time, and there was no room for it: it is asked for once there is.
    WaitsForRoom,
    /// Whatever its length, there is room.
    HasRoom,
}

/// What a scan has come to.
#[derive(Debug)]
pub(super) enum Scanned {
    /// Nothing before more is heard.
    Waiting,
    /// The keys were listed; [`Scan::pick`] says which of them to read.
    Listed,
    /// The keys are in the index; [`Scan::tell`] says behind which of them to begin.
    Indexed,
    /// The next key of the index, in order, and what that knows of it.
    Entry(String, Entry),
    /// There are no more keys in the index. [`Scan::read`] says which of them to read, if any.
    Told,
    /// The next key, in order, and what is under it.
    Key(String, Found),
    /// There is nothing more to read.
    End,
}

impl Scan {
    /// Reads `bucket`, only what is under the token `node_token` if there is one; if that is more
    /// than `in_bulk` keys, in bulk. `value_bytes` says how large the answers with its values were of late, if that is
    /// known; the `shelf` has what else is known.
    pub(super) fn new(
        bucket: Bucket,
        node_token: Option<String>,
        value_bytes: Option<usize>,
        in_bulk: Option<usize>,
        shelf: Rc<Shelf>,
    ) -> Self {
        // The bus itself lists the few keys of one node.
        let stage = if in_bulk.is_some() && node_token.is_none() {
            Stage::Queueing
        } else {
            Stage::Listing(Listing::new(bucket, node_token.clone()))
        };
        let is_long = node_token.is_none() && shelf.has_long_list(bucket);
        Scan {
            bucket,
            // Nobody but the seat writes there, as long as its rights are what they should be.
            value_bytes: value_bytes.or((bucket == Bucket::Registry).then_some(SHORT_ANSWER_BYTES)),
            mean_bytes: 0,
            in_bulk,
            shelf,
            stage,
            node_token,
            list: if is_long { List::WaitsForRoom } else { List::Unknown },
            as_of: AsOf { sequence: 0, at: None },
            state: None,
            known: None,
            learning: None,
            total: 0,
            given: 0,
        }
    }

    /// Reads the registry. Nothing is read again if it is as it was when it became `known`.
    pub(super) fn of_registry(known: Option<Rc<Known>>) -> Self {
        let scan = Scan::new(Bucket::Registry, None, None, None, Rc::default());
        let stage = if known.is_some() { Stage::Looking { asked: false } } else { scan.stage };
        Scan { stage, known, learning: Some(Learning::default()), ..scan }
    }

    pub(super) const fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// The state of the bucket that its keys were taken from.
    pub(super) fn as_of(&self) -> AsOf {
        self.as_of.clone()
    }

    /// The first key whose value has not been given.
    pub(super) fn first_unread(&self) -> Option<&str> {
        match &self.stage {
            Stage::Reading(values) => values.first_unread(),
            Stage::Telling { following, after, chunk } => {
                let next = || following.behind(after.as_deref()).next().map(|(key, _)| key);
                chunk.as_slice().first().map(|(key, _)| key.as_str()).or_else(next)
            }
            _ => None,
        }
    }

    /// How far it is, in words.
    pub(super) fn progress(&self) -> String {
        match self.stage {
            Stage::Queueing | Stage::Following(_) | Stage::Looking { .. } | Stage::Listing(_) => {
                format!("the keys of bucket {} were not listed", self.bucket)
            }
            _ => format!("{} of {} values of bucket {} were read", self.given, self.total, self.bucket),
        }
    }

    pub(super) fn want(&mut self, allowance: Allowance) -> Option<Want> {
        if matches!(self.stage, Stage::Queueing) {
            let lent = self.shelf.lend(self.bucket)?;
            self.stage = Stage::Following(Following::new(self.bucket, self.in_bulk.unwrap_or(0), lent));
        }
        match &mut self.stage {
            Stage::Following(following) => following.want(allowance),
            Stage::Looking { asked } => (!mem::replace(asked, true)).then(|| Want {
                slot: Slot::Look,
                request: stream_info::get(Kv::new(self.bucket.name())),
                kind: Kind::Single,
            }),
            Stage::Listing(listing)
                if allowance.listing && (allowance.long_list || self.list != List::WaitsForRoom) =>
            {
                if allowance.long_list {
                    self.list = List::HasRoom;
                }
                listing.want().map(|request| Want { slot: Slot::Listing, request, kind: Kind::Listing })
            }
            Stage::Reading(values) => values.want(allowance),
            _ => None,
        }
    }

    /// Takes the answer to the request of `slot`.
    pub(super) fn heard(&mut self, slot: Slot, body: Result<&[u8], Cause>) -> Result<(), Cause> {
        match (&mut self.stage, slot) {
            (Stage::Following(following), Slot::Look) => {
                match following.heard(body?)? {
                    Ok(()) => {}
                    Err(Unfit::Now) => self.list(),
                    Err(Unfit::ForAWhile(why)) => {
                        self.shelf.note_unfit(self.bucket, why);
                        self.leave_bulk();
                    }
                }
                Ok(())
            }
            (Stage::Looking { .. }, Slot::Look) => {
                let look = stream_info::parse(body?).map_err(Cause::Api)?;
                self.looked(look.map(|look| look.state));
                Ok(())
            }
            (Stage::Listing(listing), Slot::Listing) => {
                listing.heard(keys::parse(Kv::new(self.bucket.name()), body?).map_err(Cause::Api)?)
            }
            (Stage::Reading(values), Slot::Value(at)) => {
                let body = body?;
                let message = kv::parse_message(body).map_err(Cause::Api)?;
                values.heard(at, body.len(), message);
                Ok(())
            }
            (Stage::Reading(values), Slot::Batch(number)) => {
                values.give_up_batch(number);
                Ok(())
            }
            (Stage::Following(_), Slot::Batch(_)) => {
                self.leave_bulk();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes a part of the answer to a request in bulk; the error says why that is given up.
    pub(super) fn heard_part(&mut self, slot: Slot, part: Part) -> Result<(), String> {
        match (&mut self.stage, slot) {
            (Stage::Following(following), Slot::Batch(_)) => match following.heard_part(part) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(Unfit::Now)) => {
                    self.list();
                    Ok(())
                }
                Ok(Err(Unfit::ForAWhile(why))) => {
                    self.leave_bulk();
                    Err(why.to_owned())
                }
                Err(why) => {
                    self.leave_bulk();
                    Err(why)
                }
            },
            (Stage::Reading(values), Slot::Batch(number)) => {
                let heard = values.heard_part(number, part);
                if heard.is_err() {
                    values.give_up_batch(number);
                }
                heard
            }
            _ => Ok(()),
        }
    }

    /// Reads one by one from now on.
    pub(super) fn leave_bulk(&mut self) {
        self.in_bulk = None;
        match &mut self.stage {
            Stage::Queueing | Stage::Following(_) => self.list(),
            Stage::Reading(values) => values.leave_batches(),
            _ => {}
        }
    }

    /// Whether its keys are still to come, in bulk.
    pub(super) const fn is_following(&self) -> bool {
        matches!(self.stage, Stage::Queueing | Stage::Following(_))
    }

    /// Whether it waits for the connection for reads in bulk, or for its turn there.
    pub(super) fn waits_for_bulk(&self) -> bool {
        match &self.stage {
            Stage::Following(following) => following.is_to_read(),
            Stage::Reading(values) => values.waits_for_batch(),
            _ => false,
        }
    }

    fn list(&mut self) {
        self.stage = Stage::Listing(Listing::new(self.bucket, self.node_token.clone()));
    }

    /// The bucket is found in this state, if that was said.
    fn looked(&mut self, state: Option<State>) {
        let known = self.known.as_ref().filter(|known| known.is_of(state.as_ref()));
        match known.zip(state) {
            Some((known, state)) => {
                self.stage = Stage::Listed(known.keys());
                self.as_of = AsOf { sequence: state.last_sequence, at: Some(state.last_at.clone()) };
                self.state = Some(state);
            }
            None => self.list(),
        }
    }

    /// What there is by now.
    pub(super) fn next(&mut self) -> Scanned {
        match &mut self.stage {
            Stage::Following(following) if following.is_at_the_end() => {
                self.as_of = following.as_of();
                self.total = following.keys();
                let mean_bytes = following.mean_bytes();
                self.expect_values_of(mean_bytes);
                Scanned::Indexed
            }
            Stage::Listing(listing) => match listing.take() {
                None => Scanned::Waiting,
                Some(Listed { keys, mean_bytes, last_sequence, last_at, state }) => {
                    self.expect_values_of(mean_bytes);
                    self.as_of = AsOf { sequence: last_sequence, at: last_at };
                    self.state = state;
                    self.total = keys.len();
                    if self.node_token.is_none() {
                        self.shelf.note_list(self.bucket, keys.len() > LONG_LIST);
                    }
                    self.stage = Stage::Picking(keys);
                    Scanned::Listed
                }
            },
            Stage::Listed(keys) => {
                self.stage = Stage::Picking(mem::take(keys));
                Scanned::Listed
            }
            Stage::Reading(values) => match values.next() {
                Some((key, found)) => {
                    self.given += 1;
                    if let Some(learning) = &mut self.learning {
                        learning.take(&key, &found);
                    }
                    Scanned::Key(key, found)
                }
                None if values.is_done() => Scanned::End,
                None => Scanned::Waiting,
            },
            Stage::Telling { following, after, chunk } => {
                if chunk.len() == 0 {
                    let next = following.behind(after.as_deref()).take(CHUNK);
                    let next: Vec<_> = next.map(|(key, entry)| (key.to_owned(), entry.clone())).collect();
                    *after = next.last().map(|(key, _)| key.clone());
                    *chunk = next.into_iter();
                }
                match chunk.next() {
                    Some((key, entry)) => Scanned::Entry(key, entry),
                    None => Scanned::Told,
                }
            }
            Stage::Recalling(found) => match found.pop_front() {
                Some((key, found)) => {
                    self.given += 1;
                    Scanned::Key(key, found)
                }
                None => Scanned::End,
            },
            Stage::Queueing | Stage::Following(_) | Stage::Looking { .. } | Stage::Picking(_) => {
                Scanned::Waiting
            }
        }
    }

    fn expect_values_of(&mut self, mean_bytes: usize) {
        self.mean_bytes = mean_bytes;
        // Values come in base64. That of many is known before any of them is asked for.
        let mean = (mean_bytes > 0).then_some(mean_bytes / 3 * 4 + SHORT_ANSWER_BYTES);
        self.value_bytes = self.value_bytes.max(mean);
    }

    /// Tells the keys of the index behind `after`.
    pub(super) fn tell(&mut self, after: Option<&str>) {
        match mem::replace(&mut self.stage, Stage::Picking(Vec::new())) {
            Stage::Following(following) => {
                let after = after.map(str::to_owned);
                self.stage = Stage::Telling { following, after, chunk: Vec::new().into_iter() };
            }
            other => self.stage = other,
        }
    }

    /// Whether it keeps a long list of keys, or may be about to.
    pub(super) fn keeps_long_list(&self) -> bool {
        self.list == List::HasRoom
            && match &self.stage {
                Stage::Listing(_) | Stage::Listed(_) | Stage::Picking(_) => true,
                Stage::Reading(values) => values.left() > LONG_LIST,
                _ => false,
            }
    }

    /// Says which keys to read: those behind `after` that concern the question, in order, at most so many and the one
    /// behind them. Look-alikes stay together.
    pub(super) fn pick(&mut self, after: Option<&str>, at_most: usize, concerns: impl Fn(&str) -> bool) {
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
        if let Some(known) = self.known.as_ref().filter(|known| known.is_of(self.state.as_ref())) {
            self.total = keys.len();
            self.stage = Stage::Recalling(known.recall(&keys));
            return;
        }
        if keys.len() < self.total {
            // A part of the bucket is not worth knowing.
            self.learning = None;
        }
        if keys.len() > LONG_LIST && self.list != List::HasRoom {
            self.list = List::WaitsForRoom;
            return self.list();
        }
        self.read(keys);
    }

    /// Reads these keys, which are in order.
    pub(super) fn read(&mut self, keys: Vec<String>) {
        self.total = keys.len();
        // A batch comes in the order of the writes: many of its values may have to wait for one that is missing.
        let are_short = self.mean_bytes <= MAX_BYTES_IN_BATCHES;
        let in_batches = are_short && self.in_bulk.is_some_and(|few| keys.len() > few);
        let batches_since = in_batches.then_some(self.as_of.sequence);
        self.stage = Stage::Reading(Values::new(self.bucket, keys, self.value_bytes, batches_since));
    }

    /// What this scan, now that it is at its end, has found that the next one may count on.
    pub(super) fn learned(&mut self) -> Option<Rc<Known>> {
        let learning = self.learning.take()?;
        let whole = matches!(&self.stage, Stage::Reading(values) if values.is_done());
        if whole { learning.known(self.state.clone()?) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_ROOM: Allowance =
        Allowance { listing: true, batch: false, long_list: false, large_bytes: usize::MAX };
    const ROOM: Allowance = Allowance { long_list: true, ..NO_ROOM };

    fn listed(scan: &mut Scan, keys: usize) {
        scan.stage = Stage::Picking((0..keys).map(|at| format!("{at:06}")).collect());
        scan.pick(None, usize::MAX, |_| true);
    }

    fn scan_without_room(keys: usize) -> Scan {
        let mut scan = Scan::new(Bucket::Needs, None, None, None, Rc::default());
        assert_eq!(scan.want(NO_ROOM).unwrap().slot, Slot::Listing);
        listed(&mut scan, keys);
        scan
    }

    #[test]
    fn a_long_list_that_there_is_no_room_for_is_asked_for_again_once_there_is() {
        let mut scan = scan_without_room(LONG_LIST + 1);
        assert!(!scan.keeps_long_list());
        assert_eq!(scan.want(NO_ROOM), None);
        assert_eq!(scan.want(ROOM).unwrap().slot, Slot::Listing);
        assert!(scan.keeps_long_list(), "what is awaited takes the room that it was given");
        listed(&mut scan, LONG_LIST + 1);
        assert!(scan.keeps_long_list());
        assert_eq!(scan.want(NO_ROOM).unwrap().slot, Slot::Value(0));
    }

    #[test]
    fn a_short_list_needs_no_room() {
        let mut scan = scan_without_room(LONG_LIST);
        assert!(!scan.keeps_long_list());
        assert_eq!(scan.want(NO_ROOM).unwrap().slot, Slot::Value(0));
    }

    #[test]
    fn what_is_picked_ends_with_the_key_behind_it_and_keeps_look_alikes_together() {
        let picked = |after, at_most| {
            let mut scan = Scan::new(Bucket::Needs, None, None, None, Rc::default());
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
