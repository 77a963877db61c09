//! One bucket read from end to end: its keys, then the values of those that the question picks.

use super::failure::Cause;
use super::known::{Known, Learning};
use super::listing::{Listed, Listing};
use super::question::{Allowance, Kind, Slot, Want};
use super::values::{Found, Values};
use crate::bucket::Bucket;
use crate::wire::answer::AsOf;
use crate::wire::direct::Part;
use crate::wire::jetstream::{self, State};
use std::collections::VecDeque;
use std::rc::Rc;

/// A list of more keys is long: few are kept at a time.
const LONG_LIST: usize = 8192;

/// How many bytes the answer with a short value has, such as those of the registry.
const SHORT_ANSWER_BYTES: usize = 512;

/// A bucket being read.
#[derive(Debug)]
pub(super) struct Scan {
    bucket: Bucket,
    value_bytes: Option<usize>,
    batches: bool,
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
    Listing(Listing),
    Picking,
    Reading(Values),
    Recalling(VecDeque<(String, Found)>),
}

/// What is known of the list of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// Whether it is long is not known.
    Unknown,
    /// It was long when there was no room for it: it is asked for again once there is.
    WaitsForRoom,
    /// Whatever its length, there is room.
    HasRoom,
}

/// What a scan has come to.
#[derive(Debug)]
pub(super) enum Scanned {
    /// Nothing before more is heard.
    Waiting,
    /// The whole list of keys; [`Scan::read`] says which of them to read.
    Listed(Vec<String>),
    /// The next key, in order, and what is under it.
    Key(String, Found),
    /// There is nothing more.
    End,
}

impl Scan {
    /// Reads `bucket`, only what is under the token `node_token` if there is one; its values in batches if it may.
    /// `value_bytes` says how large the answers with its values were of late, if that is known.
    pub(super) fn new(
        bucket: Bucket,
        node_token: Option<String>,
        value_bytes: Option<usize>,
        batches: bool,
    ) -> Self {
        Scan {
            bucket,
            // Nobody but the seat writes there, as long as its rights are what they should be.
            value_bytes: value_bytes.or((bucket == Bucket::Registry).then_some(SHORT_ANSWER_BYTES)),
            batches,
            stage: Stage::Listing(Listing::new(bucket, node_token.clone())),
            node_token,
            list: List::Unknown,
            as_of: AsOf { sequence: 0, at: None },
            state: None,
            known: None,
            learning: None,
            total: 0,
            given: 0,
        }
    }

    /// Reads the registry. Its values are not read again if `known` has them and the bucket is as it was then.
    pub(super) fn of_registry(known: Option<Rc<Known>>) -> Self {
        Scan { known, learning: Some(Learning::default()), ..Scan::new(Bucket::Registry, None, None, false) }
    }

    pub(super) const fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// The state of the bucket that the list of keys was taken from.
    pub(super) fn as_of(&self) -> AsOf {
        self.as_of.clone()
    }

    /// How many keys have been given.
    pub(super) const fn given(&self) -> usize {
        self.given
    }

    /// The first key whose value has not been given.
    pub(super) fn first_unread(&self) -> Option<&str> {
        match &self.stage {
            Stage::Reading(values) => values.first_unread(),
            Stage::Listing(_) | Stage::Picking | Stage::Recalling(_) => None,
        }
    }

    /// How far it is, in words.
    pub(super) fn progress(&self) -> String {
        match self.stage {
            Stage::Listing(_) => format!("the keys of bucket {} were not listed", self.bucket),
            _ => format!("{} of {} values of bucket {} were read", self.given, self.total, self.bucket),
        }
    }

    pub(super) fn want(&mut self, allowance: Allowance) -> Option<Want> {
        match &mut self.stage {
            Stage::Listing(listing)
                if allowance.listing && (allowance.long_list || self.list != List::WaitsForRoom) =>
            {
                if allowance.long_list {
                    self.list = List::HasRoom;
                }
                listing.want().map(|request| Want { slot: Slot::Listing, request, kind: Kind::Listing })
            }
            Stage::Reading(values) => values.want(allowance),
            Stage::Listing(_) | Stage::Picking | Stage::Recalling(_) => None,
        }
    }

    /// Takes the answer to the request of `slot`.
    pub(super) fn heard(&mut self, slot: Slot, body: Result<&[u8], Cause>) -> Result<(), Cause> {
        match (&mut self.stage, slot) {
            (Stage::Listing(listing), Slot::Listing) => {
                listing.heard(jetstream::parse_keys(self.bucket, body?).map_err(Cause::Api)?)
            }
            (Stage::Reading(values), Slot::Value(at)) => {
                let body = body?;
                let message = jetstream::parse_message(body).map_err(Cause::Api)?;
                values.heard(at, body.len(), message);
                Ok(())
            }
            (Stage::Reading(values), Slot::Batch(number)) => {
                values.give_up_batch(number);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes a part of the answer to a batch; the error says why the batch is given up.
    pub(super) fn heard_part(&mut self, slot: Slot, part: Part) -> Result<(), String> {
        let (Stage::Reading(values), Slot::Batch(number)) = (&mut self.stage, slot) else { return Ok(()) };
        let heard = values.heard_part(number, part);
        if heard.is_err() {
            values.give_up_batch(number);
        }
        heard
    }

    /// What there is by now.
    pub(super) fn next(&mut self) -> Scanned {
        match &mut self.stage {
            Stage::Listing(listing) => match listing.take() {
                None => Scanned::Waiting,
                Some(Listed { keys, mean_bytes, last_sequence, last_at, state }) => {
                    // Values come in base64. That of many is known before any of them is asked for.
                    let mean = (mean_bytes > 0).then_some(mean_bytes / 3 * 4 + SHORT_ANSWER_BYTES);
                    self.value_bytes = self.value_bytes.max(mean);
                    self.as_of = AsOf { sequence: last_sequence, at: last_at };
                    self.state = state;
                    self.total = keys.len();
                    self.stage = Stage::Picking;
                    Scanned::Listed(keys)
                }
            },
            Stage::Picking => Scanned::Waiting,
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
            Stage::Recalling(found) => match found.pop_front() {
                Some((key, found)) => {
                    self.given += 1;
                    Scanned::Key(key, found)
                }
                None => Scanned::End,
            },
        }
    }

    /// Whether it keeps a long list of keys, or may be about to.
    pub(super) fn keeps_long_list(&self) -> bool {
        self.list == List::HasRoom
            && match &self.stage {
                Stage::Listing(_) | Stage::Picking => true,
                Stage::Reading(values) => values.left() > LONG_LIST,
                Stage::Recalling(_) => false,
            }
    }

    /// Says which keys to read, in order.
    pub(super) fn read(&mut self, keys: Vec<String>) {
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
            self.stage = Stage::Listing(Listing::new(self.bucket, self.node_token.clone()));
            return;
        }
        self.total = keys.len();
        let batches_since = self.batches.then_some(self.as_of.sequence);
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

    fn scan_without_room(keys: usize) -> Scan {
        let mut scan = Scan::new(Bucket::Needs, None, None, false);
        assert_eq!(scan.want(NO_ROOM).unwrap().slot, Slot::Listing);
        scan.read((0..keys).map(|at| format!("{at:06}")).collect());
        scan
    }

    #[test]
    fn a_long_list_that_there_is_no_room_for_is_asked_for_again_once_there_is() {
        let mut scan = scan_without_room(LONG_LIST + 1);
        assert!(!scan.keeps_long_list());
        assert_eq!(scan.want(NO_ROOM), None);
        assert_eq!(scan.want(ROOM).unwrap().slot, Slot::Listing);
        assert!(scan.keeps_long_list(), "what is awaited takes the room that it was given");
        scan.read((0..=LONG_LIST).map(|at| format!("{at:06}")).collect());
        assert!(scan.keeps_long_list());
        assert_eq!(scan.want(NO_ROOM).unwrap().slot, Slot::Value(0));
    }

    #[test]
    fn a_short_list_needs_no_room() {
        let mut scan = scan_without_room(LONG_LIST);
        assert!(!scan.keeps_long_list());
        assert_eq!(scan.want(NO_ROOM).unwrap().slot, Slot::Value(0));
    }
}
