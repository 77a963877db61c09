//! Who gets which secret: pure verdicts over what is known and held.

use super::Vault;
use super::known::Needs;
use crate::holdings::Held;
use crate::place::Place;
use crate::task::{Keys, Work};
use crate::wire::{Reason, Refusal};
use mesh_model::assignment::{Need, Provider};
use mesh_model::keys::SealingKey;
use mesh_model::node_record::{NodeRecord, Recovery};
use mesh_model::vault_api::{ConsumersRequest, SecretRequest};

/// What a request gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The sealed copies that this task reads, by the declaration of that sequence.
    Give(Box<Work>, u64),
    /// What this task makes.
    Make(Box<Work>, u64),
    /// This, if nothing changes in a moment: what it waits for may be under way.
    Wait(Refusal),
    /// This.
    Refuse(Refusal),
}

/// A need that the newest declaration gives to a module, and what goes with it.
pub(super) struct Granted<'k> {
    pub(super) sequence: u64,
    pub(super) need: &'k Need,
    pub(super) record: &'k NodeRecord,
    pub(super) mesh: &'k str,
}

impl Vault {
    /// The need of a module that fits, as the newest declaration has it.
    pub(super) fn granted(
        &self,
        node: &str,
        module: &str,
        what: &str,
        fits: impl Fn(&Need) -> bool,
    ) -> Result<Granted<'_>, Verdict> {
        let (declared, needs) = match self.known.needs(node, module) {
            Needs::NoDeclaration => {
                let message = format!("nothing is declared for the node {node}: push to it");
                return Err(Verdict::Wait(Refusal::new(Reason::NotAssigned, message)));
            }
            Needs::NotAssigned(declared) => {
                let message = format!("{module} is not assigned to {node}");
                return Err(Verdict::Wait(Refusal::by(declared.sequence, Reason::NotAssigned, message)));
            }
            Needs::NotThere(declared) => {
                let message = format!(
                    "the assignment of {module} to {node} in the bucket is not the one that is declared: push again"
                );
                return Err(Verdict::Wait(Refusal::by(declared.sequence, Reason::DoesNotFit, message)));
            }
            Needs::Of(declared, needs) => (declared, needs),
        };
        let sequence = declared.sequence;
        if declared.vault != self.settings.own {
            let message = format!(
                "the mesh takes secrets from the vault of {} alone, and this one is {}: tell the mesh with mesh-controller init --vault",
                declared.vault, self.settings.own
            );
            return Err(Verdict::Refuse(Refusal::by(sequence, Reason::OtherVault, message)));
        }
        let Some(need) = needs.iter().find(|need| fits(need)) else {
            let message = format!("the assignment of {module} to {node} has no {what}");
            return Err(Verdict::Wait(Refusal::by(sequence, Reason::NotAssigned, message)));
        };
        let (Some(record), Some(mesh)) = (self.known.node(node), &self.known.mesh) else {
            let message = format!("no record of the node {node} counts: has it joined?");
            return Err(Verdict::Wait(Refusal::by(sequence, Reason::NoRecord, message)));
        };
        Ok(Granted { sequence, need, record, mesh })
    }

    /// What the request for a secret gets.
    pub(super) fn judge_secret(&self, request: &SecretRequest) -> Verdict {
        let SecretRequest { node, module, name } = request;
        let fits = |need: &Need| need.kind == "secret" && need.name == *name;
        let granted = match self.granted(node, module, &format!("secret {name}"), fits) {
            Ok(granted) => granted,
            Err(verdict) => return verdict,
        };
        let place = Place::new(node, module, name);
        if self.is_busy(&place) {
            let message = format!("{place} is being made: ask again");
            return Verdict::Wait(Refusal::by(granted.sequence, Reason::Busy, message));
        }
        match (&granted.need.provider, &granted.need.provision) {
            (Some(provider), Some(provision)) => self.judge_credential(&granted, &place, provider, provision),
            _ => self.judge_own(&granted, place),
        }
    }

    fn judge_own(&self, granted: &Granted<'_>, place: Place) -> Verdict {
        let (sequence, record) = (granted.sequence, granted.record);
        let refuse = |reason, message: String| Verdict::Refuse(Refusal::by(sequence, reason, message));
        let newest = self.holdings.newest(&place);
        let there = self.known.revision(&place);
        let is_lost = there > newest.map_or(0, |(revision, _)| revision);
        match (newest, granted.need.make) {
            (Some((revision, held)), _) if !is_lost && held.key == record.sealing => {
                Verdict::Give(Box::new(Work::Give { place, revision }), sequence)
            }
            _ if is_lost && !self.settings.remake => {
                let message = self.tell_lost(&place);
                refuse(Reason::StoreLost, message)
            }
            (newest, Some(make)) => {
                let work = Work::Make {
                    mesh: granted.mesh.to_owned(),
                    revision: newest.map_or(0, |(revision, _)| revision).max(there) + 1,
                    place,
                    make,
                    keys: self.keys(record),
                    once: None,
                };
                Verdict::Make(Box::new(work), sequence)
            }
            (Some(_), None) => refuse(
                Reason::AcceptAgain,
                format!(
                    "{place} is sealed to a key that the node no longer has: accept it again or recover it"
                ),
            ),
            (None, None) if is_lost => refuse(
                Reason::AcceptAgain,
                format!("the store no longer has {place}: accept it again or recover it"),
            ),
            (None, None) => refuse(
                Reason::NotAccepted,
                format!("{place} is not accepted yet: mesh-controller secret accept {place}"),
            ),
        }
    }

    fn judge_credential(
        &self,
        granted: &Granted<'_>,
        place: &Place,
        provider: &Provider,
        provision: &str,
    ) -> Verdict {
        let list = Place::of_list(&provider.node, &provider.module, provision);
        let is_lost = self.known.revision(place) > self.holdings.revision(place);
        match self.given(place, &list, &granted.record.sealing) {
            _ if is_lost && !self.settings.remake => {
                let message = self.tell_lost(place);
                Verdict::Refuse(Refusal::by(granted.sequence, Reason::StoreLost, message))
            }
            Some(revision) => {
                Verdict::Give(Box::new(Work::Give { place: place.clone(), revision }), granted.sequence)
            }
            None => {
                let Provider { node, module } = provider;
                let message = format!(
                    "the provider {module} on {node} has not applied the credential of {place} yet: it gets it first"
                );
                Verdict::Wait(Refusal::by(granted.sequence, Reason::NotApplied, message))
            }
        }
    }

    /// The newest revision of a credential that its provider has applied, sealed to this key.
    fn given(&self, place: &Place, list: &Place, key: &SealingKey) -> Option<u64> {
        let held = self.holdings.secrets.get(place)?;
        let of_list = |held: &Held| held.provider.as_ref().is_some_and(|provider| provider.list == *list);
        let found = held.iter().rev().find(|(revision, held)| {
            held.key == *key && of_list(held) && self.is_applied_by_provider(place, **revision, held)
        })?;
        Some(*found.0)
    }

    /// Whether a provider has applied a credential: it says so, or it said so once and the revision was published.
    pub(super) fn is_applied_by_provider(&self, place: &Place, revision: u64, held: &Held) -> bool {
        let Some(provider) = &held.provider else { return true };
        let list = &provider.list;
        self.known.applied(&list.node, &list.module, &list.name) >= provider.since
            || self.known.revision(place) >= revision
    }

    /// What the request for a provider's consumers gets.
    pub(super) fn judge_consumers(&self, request: &ConsumersRequest) -> Verdict {
        let ConsumersRequest { node, module, provision } = request;
        let fits = |need: &Need| need.kind == "consumers" && need.name == *provision;
        let granted = match self.granted(node, module, &format!("consumers of {provision}"), fits) {
            Ok(granted) => granted,
            Err(verdict) => return verdict,
        };
        let place = Place::of_list(node, module, provision);
        let sequence = granted.sequence;
        let later = |reason| {
            Verdict::Wait(Refusal::by(sequence, reason, format!("{place} is being made: ask again")))
        };
        if self.is_busy(&place) {
            return later(Reason::Busy);
        }
        if let Some(refusal) = self.lists_that_wait.get(&place) {
            return Verdict::Wait(Refusal { sequence: Some(sequence), ..refusal.clone() });
        }
        match self.holdings.lists.get(&place) {
            Some(list)
                if list.revision >= self.known.revision(&place)
                    && self.fits_provider(&place, &granted.record.sealing) =>
            {
                let members = list.members.clone();
                Verdict::Give(Box::new(Work::GiveList { place, members }), sequence)
            }
            _ => later(Reason::Busy),
        }
    }

    /// Whether all credentials of a list are sealed to the provider's key.
    fn fits_provider(&self, place: &Place, key: &SealingKey) -> bool {
        let Some(list) = self.holdings.lists.get(place) else { return false };
        list.members.iter().all(|(consumer, revision)| {
            let held = self.holdings.secrets.get(&Place::of_consumer(consumer));
            let provider = held.and_then(|held| held.get(revision)?.provider.as_ref());
            provider.is_some_and(|provider| provider.key == *key)
        })
    }

    /// What a new secret of a node is sealed to. A record that names no recovery key is the operator's word that there
    /// is to be no second copy, unless the vault itself was given a key for that.
    pub(super) fn keys(&self, record: &NodeRecord) -> Keys {
        let recovery = match &record.recovery {
            Recovery::Key(key) => Some(key.clone()),
            Recovery::None if self.settings.no_recovery => None,
            Recovery::None => self.settings.recovery.clone(),
        };
        Keys { node: record.sealing.clone(), recovery }
    }

    /// That the store has not what was handed out.
    pub(super) fn tell_lost(&self, place: &Place) -> String {
        let (there, held) = (self.known.revision(place), self.holdings.revision(place));
        let held = if held == 0 { "none".to_owned() } else { format!("revision {held}") };
        format!(
            "revision {there} of {place} was handed out, and the store has {held}: mount the right store, or start with --remake"
        )
    }
}
