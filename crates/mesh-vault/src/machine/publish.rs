//! Tells of revisions: after the commit, by compare-and-set, and only upwards. What stands in the bucket is compared
//! with the store whenever either changes, so what a crash or a lost message left out is written later.

use super::topic::Topic;
use super::{Call, Job, Vault};
use crate::place::Place;
use crate::task::Work;
use crate::wire::{Bucket, REVISIONS};
use log::Level;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::{self, WriteAnswer};
use mesh_model::standing::{Origin, Revision};
use mesh_service::json::json;
use std::time::Duration;

/// How many writes may be under way.
const MAX_WRITES: usize = 64;

/// How long after a write that failed it is tried again.
const AGAIN: Duration = Duration::from_secs(1);

impl Vault {
    /// What the bucket should say of a place; none if it is to be left alone.
    pub(super) fn to_publish(&self, place: &Place) -> Option<Revision> {
        if let Some(list) = self.holdings.lists.get(place) {
            return Some(Revision { revision: list.revision, origin: Origin::Made, recovery: None });
        }
        let held = self.holdings.secrets.get(place)?;
        // A credential is told once its provider has applied it.
        let told =
            held.iter().rev().find(|(revision, held)| self.is_applied_by_provider(place, **revision, held));
        told.map(|(revision, held)| Revision {
            revision: *revision,
            origin: held.origin,
            recovery: held.recovery.clone(),
        })
    }

    /// Compares the places that changed with the bucket, writes what differs, and forgets what nobody uses any more.
    pub(super) fn publish(&mut self, now: Duration) {
        if self.publish_again.is_some_and(|again| now >= again) {
            self.publish_again = None;
            let failed = std::mem::take(&mut self.unpublished);
            self.unchecked.extend(failed);
        }
        while self.writing.len() < MAX_WRITES
            && let Some(place) = self.unchecked.pop_first()
        {
            self.forget_older(&place);
            if self.writing.contains(&place) {
                continue;
            }
            let Some(wanted) = self.to_publish(&place) else { continue };
            let published = self.known.published(&place);
            let there = published.and_then(|published| published.revision.as_ref());
            // A higher one is of a store that is not here: see `Reason::StoreLost`.
            if there.is_some_and(|there| there.revision > wanted.revision || *there == wanted) {
                continue;
            }
            let sequence = published.map_or(0, |published| published.sequence);
            let request = kv::put(Kv::new(REVISIONS), &place.key(), &json(&wanted), sequence);
            self.writing.insert(place.clone());
            self.call(Call::Write(place, wanted), request.into(), now);
        }
    }

    /// A write was answered; nothing: it was not.
    pub(super) fn written(&mut self, place: Place, revision: Revision, answer: Option<&[u8]>, now: Duration) {
        self.writing.remove(&place);
        match answer.map(|body| kv::parse_write(Kv::new(REVISIONS), body)) {
            Some(WriteAnswer::Stored(sequence)) => {
                self.counters.published += 1;
                self.known.wrote(place.clone(), sequence, revision);
                self.unchecked.insert(place);
                self.rejudge = true;
            }
            Some(WriteAnswer::Refused(error)) => {
                let text = format!("the revision of {place} cannot be written: {error}: trying again");
                self.notice(Level::Warn, Topic::Writes, "", &text, now);
                self.publish_later(place, now);
            }
            // Another message is the newest: it is in the next list.
            Some(WriteAnswer::Conflict) => {
                let steps = self.follows[Bucket::Revisions as usize].relist(now);
                self.follow(Bucket::Revisions, steps, now);
                self.publish_later(place, now);
            }
            Some(WriteAnswer::Unknown(_)) | None => self.publish_later(place, now),
        }
    }

    fn publish_later(&mut self, place: Place, now: Duration) {
        self.unpublished.insert(place);
        self.publish_again.get_or_insert(now + AGAIN);
    }

    /// Older revisions go when the node says that it has applied the newest.
    fn forget_older(&mut self, place: &Place) {
        let Some(held) = self.holdings.secrets.get(place).filter(|held| held.len() > 1) else { return };
        let newest = held.last_key_value().map_or(0, |(revision, _)| *revision);
        let applied = self.known.applied(&place.node, &place.module, &place.name);
        if applied < newest || self.is_busy(place) {
            return;
        }
        self.busy.insert(place.clone());
        self.begin(
            Work::Forget { place: place.clone(), before: newest },
            Job::Forget { place: place.clone(), before: newest },
        );
    }
}
