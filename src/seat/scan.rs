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

/// A bucket being read.
#[derive(Debug)]
pub(super) struct Scan {
    bucket: Bucket,
    batches: bool,
    stage: Stage,
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
    pub(super) fn new(bucket: Bucket, node_token: Option<String>, batches: bool) -> Self {
        Scan {
            bucket,
            batches,
            stage: Stage::Listing(Listing::new(bucket, node_token)),
            as_of: AsOf { sequence: 0, at: None },
            state: None,
            known: None,
            learning: None,
            total: 0,
            given: 0,
        }
    }

    /// Reads the registry. Its values are not read again if `known` has them and the bucket is as it was then.
    pub(super) fn of_registry(known: Option<Rc<Known>>, batches: bool) -> Self {
        Scan { known, learning: Some(Learning::default()), ..Scan::new(Bucket::Registry, None, batches) }
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
            Stage::Listing(listing) if allowance.listing => {
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
                Some(Listed { keys, last_sequence, last_at, state }) => {
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
        self.total = keys.len();
        let batches_since = self.batches.then_some(self.as_of.sequence);
        self.stage = Stage::Reading(Values::new(self.bucket, keys, batches_since));
    }

    /// What this scan, now that it is at its end, has found that the next one may count on.
    pub(super) fn learned(&mut self) -> Option<Rc<Known>> {
        let learning = self.learning.take()?;
        let whole = matches!(&self.stage, Stage::Reading(values) if values.is_done());
        if whole { learning.known(self.state.clone()?) } else { None }
    }
}
