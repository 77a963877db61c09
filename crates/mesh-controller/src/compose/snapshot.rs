//! What is composed from: everything that the controller knows, as plain values.

use mesh_model::json::Json;
use mesh_model::keys::{BusKey, SealingKey};
use mesh_model::manifest::Manifest;
use mesh_model::node_record::Recovery;
use mesh_model::report::HeldPort;
use std::collections::BTreeMap;

/// A number of an act; what it was stands in the store.
pub type ActId = i64;

/// Milliseconds since 1970.
pub type Moment = i64;

/// Everything that is known at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The mesh's id.
    pub mesh: String,
    /// The vault's public key.
    pub vault: Option<SealingKey>,
    /// Who can open the second copies.
    pub recovery: Option<Recovery>,
    /// Every node.
    pub nodes: BTreeMap<String, Node>,
    /// Every module.
    pub modules: BTreeMap<String, Module>,
    /// Layers of settings, by module and node; without a node that of the mesh.
    pub layers: BTreeMap<(String, Option<String>), Set<Json>>,
    /// Who runs what, by node and module.
    pub assignments: BTreeMap<(String, String), Set<()>>,
    /// Ports that are kept, by node, module and name; also of modules that left.
    pub ports: BTreeMap<(String, String, String), Port>,
    /// Bindings that are kept, by node, module and name.
    pub bindings: BTreeMap<(String, String, String), Set<Bound>>,
    /// Seats that are held.
    pub seats: BTreeMap<String, Set<Holder>>,
    /// What modules keep, by node and module; also of modules that left.
    pub data: BTreeMap<(String, String), String>,
}

/// A value, since when it holds, and the act that made it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set<T> {
    /// The value.
    pub value: T,
    /// Since when.
    pub since: Moment,
    /// By which act.
    pub act: ActId,
}

/// What is known of a node.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Whether what is found there is left alone.
    pub adopted: bool,
    /// Its address, as the operator said.
    pub address: Option<String>,
    /// Where it stands.
    pub zone: Option<String>,
    /// The act that added or last changed it.
    pub act: ActId,
    /// The operator's paths.
    pub accesses: BTreeMap<String, (String, ActId)>,
    /// What it joined with.
    pub keys: Option<Keys>,
    /// The ports that the machine gives to outgoing connections, as reported.
    pub ephemeral: Option<(u16, u16)>,
    /// The ports that declared resources hold, as reported.
    pub held: Vec<HeldPort>,
    /// The act that declared it from a file, until the next push.
    pub declared: Option<ActId>,
}

/// What a node joined with.
#[derive(Debug, Clone)]
pub struct Keys {
    /// One more with every new pair.
    pub epoch: u64,
    /// Its key on the bus.
    pub bus: BusKey,
    /// The key that its secrets are sealed to.
    pub sealing: SealingKey,
    /// When it joined.
    pub joined: Moment,
    /// The address that it joined from.
    pub address: Option<String>,
    /// Its architecture.
    pub arch: Option<String>,
}

impl Node {
    /// Where the others reach it: as the operator said, else where it joined from.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref().or_else(|| self.keys.as_ref()?.address.as_deref())
    }
}

/// A module, and the act that added its manifest.
#[derive(Debug, Clone)]
pub struct Module {
    /// The manifest, or why it cannot be read.
    pub manifest: Result<Manifest, String>,
    /// By which act.
    pub act: ActId,
}

/// A port that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The number.
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Since when.
    pub since: Moment,
}

/// Who provides a `requires` entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// What.
    pub provision: String,
    /// The provider's node.
    pub node: String,
    /// The provider.
    pub module: String,
}

/// Who holds a seat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The node.
    pub node: String,
    /// The module.
    pub module: String,
}
