//! What the store has, without the sealed copies: enough to decide by.

use crate::place::Place;
use mesh_model::assignment::Consumer;
use mesh_model::keys::SealingKey;
use mesh_model::standing::Origin;
use std::collections::BTreeMap;

/// One revision of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Where it came from.
    pub origin: Origin,
    /// The key that it is sealed to.
    pub key: SealingKey,
    /// The key that its second copy is sealed to.
    pub recovery: Option<SealingKey>,
    /// Of a bound credential: who provides.
    pub provider: Option<HeldByProvider>,
}

/// The provider's copy of a bound credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldByProvider {
    /// The place of the provider's list.
    pub list: Place,
    /// The key that the provider's copy is sealed to.
    pub key: SealingKey,
    /// The first revision of the list that has this credential.
    pub since: u64,
}

/// A provider's list of consumers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// Its revision, which only grows.
    pub revision: u64,
    /// The consumers, each with the revision of its credential.
    pub members: Vec<(Consumer, u64)>,
    /// Those whose node has no sealing key.
    pub left_out: Vec<Consumer>,
}

/// What the vault remembers of a node, so that nothing older is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The highest epoch of its record.
    pub epoch: u64,
    /// The sealing key of that epoch; none before its first record.
    pub sealing: Option<SealingKey>,
    /// The highest sequence of its declarations.
    pub sequence: u64,
}

/// All that the store has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The mesh's id, once a signed document told it.
    pub mesh: Option<String>,
    /// Secrets by place, each with its revisions: the newest, and those that a node may still use.
    pub secrets: BTreeMap<Place, BTreeMap<u64, Held>>,
    /// Lists of consumers by place.
    pub lists: BTreeMap<Place, List>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Seen>,
}

impl Holdings {
    /// The newest revision of a secret.
    pub fn newest(&self, place: &Place) -> Option<(u64, &Held)> {
        self.secrets.get(place)?.last_key_value().map(|(revision, held)| (*revision, held))
    }

    /// The newest revision of a secret or a list; 0 if there is none.
    pub fn revision(&self, place: &Place) -> u64 {
        let list = self.lists.get(place).map_or(0, |list| list.revision);
        self.newest(place).map_or(list, |(revision, _)| revision)
    }
}
