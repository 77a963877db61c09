//! The lists of consumers that providers get, and the credentials in them. A list follows the provider's assignment:
//! each consumer in `of` that has a sealing key gets a credential, sealed to provider and consumer in one transaction.

use super::known::Needs;
use super::{Job, Vault};
use crate::holdings::{Held, List};
use crate::place::Place;
use crate::task::{NewCredential, Work};
use crate::wire::{Reason, Refusal};
use mesh_model::assignment::Consumer;

/// What a list is to become.
enum Wish {
    /// It is as it should be, or it is being made.
    Settled,
    /// It cannot be made yet.
    Waits(Refusal),
    /// This is to be done.
    Make(Box<Work>),
}

impl Vault {
    /// Brings every list up to date.
    pub(super) fn look_after_lists(&mut self) {
        let mut wanted: Vec<(Place, Vec<Consumer>)> = Vec::new();
        for (node, module) in self.known.providers() {
            let Needs::Of(declared, needs) = self.known.needs(node, module) else { continue };
            if declared.vault != self.settings.own {
                continue;
            }
            for need in needs.iter().filter(|need| need.kind == "consumers") {
                let consumers = need.of.clone().unwrap_or_default();
                wanted.push((Place::of_list(node, module, &need.name), consumers));
            }
        }
        self.lists_that_wait.clear();
        for (place, consumers) in wanted {
            match self.wish(&place, consumers) {
                Wish::Settled => {}
                Wish::Waits(refusal) => drop(self.lists_that_wait.insert(place, refusal)),
                Wish::Make(work) => {
                    let Work::List { new, list, .. } = &*work else { continue };
                    let places = new.iter().map(|new| Place::of_consumer(&new.consumer));
                    let busy: Vec<Place> = places.chain([place.clone()]).collect();
                    let job = Job::List { place, list: list.clone(), busy: busy.clone() };
                    self.busy.extend(busy);
                    self.begin(*work, job);
                }
            }
        }
    }

    fn wish(&self, place: &Place, mut consumers: Vec<Consumer>) -> Wish {
        if self.is_busy(place) {
            return Wish::Settled;
        }
        let waits = |reason, message| Wish::Waits(Refusal::new(reason, message));
        let (Some(record), Some(mesh)) = (self.known.node(&place.node), &self.known.mesh) else {
            return waits(Reason::NoRecord, format!("no record of the node {} counts", place.node));
        };
        let is_lost = |place: &Place| {
            !self.settings.remake && self.known.revision(place) > self.holdings.revision(place)
        };
        if is_lost(place) {
            return waits(Reason::StoreLost, self.tell_lost(place));
        }
        let (held, there) = (self.holdings.lists.get(place), self.known.revision(place));
        consumers.sort();
        consumers.dedup();
        let revision = held.map_or(0, |list| list.revision).max(there) + 1;
        let mut list = List { revision, ..List::default() };
        let mut new = Vec::new();
        for consumer in consumers {
            let own = Place::of_consumer(&consumer);
            let provided = |held: &Held| {
                let by = held.provider.as_ref();
                by.is_some_and(|by| by.list == *place && by.key == record.sealing)
            };
            let Some(of) = self.known.node(&consumer.node) else {
                // Only the assignment takes a consumer out: one whose record is gone keeps what it has.
                match self.holdings.newest(&own).filter(|(_, held)| provided(held)) {
                    Some((revision, _)) => list.members.push((consumer, revision)),
                    None => list.left_out.push(consumer),
                }
                continue;
            };
            if self.is_busy(&own) {
                return waits(Reason::Busy, format!("{own} is being made: ask again"));
            }
            if is_lost(&own) {
                return waits(Reason::StoreLost, self.tell_lost(&own));
            }
            if self.belongs_elsewhere(place, &consumer) {
                list.left_out.push(consumer);
                continue;
            }
            let fits = self.holdings.newest(&own).filter(|(revision, held)| {
                provided(held) && held.key == of.sealing && *revision >= self.known.revision(&own)
            });
            if let Some((revision, _)) = fits {
                list.members.push((consumer, revision));
                continue;
            }
            let revision = self.holdings.revision(&own).max(self.known.revision(&own)) + 1;
            list.members.push((consumer.clone(), revision));
            new.push(NewCredential { consumer, revision, keys: self.keys(of) });
        }
        let is_the_same = |held: &List| held.members == list.members && held.left_out == list.left_out;
        if held.is_some_and(|held| held.revision >= there && is_the_same(held)) {
            return Wish::Settled;
        }
        let (mesh, key) = (mesh.clone(), record.sealing.clone());
        Wish::Make(Box::new(Work::List { mesh, place: place.clone(), list, key, new }))
    }

    /// Whether the credential of `consumer` belongs to the list of another provider that has it too, as while a provider
    /// moves. The consumer's own need says which; without a word of it the list that has it keeps it.
    fn belongs_elsewhere(&self, place: &Place, consumer: &Consumer) -> bool {
        let held = self.holdings.newest(&Place::of_consumer(consumer));
        let Some(other) = held.and_then(|(_, held)| held.provider.as_ref()).map(|by| &by.list) else {
            return false;
        };
        *other != *place && self.lists(other, consumer) && !self.is_bound_to(place, consumer)
    }

    /// Whether the provider's newest assignment has that consumer in its list.
    fn lists(&self, place: &Place, consumer: &Consumer) -> bool {
        let Needs::Of(_, needs) = self.known.needs(&place.node, &place.module) else { return false };
        needs.iter().any(|need| {
            let is_it = need.kind == "consumers" && Some(need.name.as_str()) == place.provision();
            is_it && need.of.as_ref().is_some_and(|of| of.contains(consumer))
        })
    }

    /// Whether the consumer's own assignment names the provider of that list.
    fn is_bound_to(&self, place: &Place, consumer: &Consumer) -> bool {
        let Needs::Of(_, needs) = self.known.needs(&consumer.node, &consumer.module) else { return false };
        needs.iter().any(|need| {
            let provider = need.provider.as_ref();
            need.kind == "secret"
                && need.name == consumer.name
                && need.provision.as_deref() == place.provision()
                && provider.is_some_and(|by| by.node == place.node && by.module == place.module)
        })
    }
}
