//! The middle of the controller: one pure function from everything that is known to what each node is to run.
//!
//! The same snapshot gives the same bytes. `assign` asks it whether something can be, `plan` shows how its result differs
//! from what was sent, `push` sends exactly that, and `status`, `seats` and `doctor` read it. It knows no store, no bus and
//! no time.

mod bindings;
mod module;
mod ports;
pub mod reason;
mod seats;
pub mod snapshot;

use mesh_model::declaration::Adoption;
use mesh_model::keys::SealingKey;
use mesh_model::node_record::{NodeRecord, Recovery};
use mesh_model::resource::Target;
use snapshot::{Bound, Holder, Node, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

pub use bindings::Entry;
pub use module::{ModulePlan, layers};
pub use ports::POOL;

/// What each node is to run, and what was decided on the way.
#[derive(Debug, Default)]
pub struct Composed {
    /// Every node.
    pub nodes: BTreeMap<String, NodePlan>,
    /// The provider of each `requires` entry.
    pub bindings: BTreeMap<Entry, Bound>,
    /// Who holds each seat.
    pub seats: BTreeMap<String, Holder>,
}

/// What one node is to run.
#[derive(Debug, Default)]
pub struct NodePlan {
    /// Its modules.
    pub modules: BTreeMap<String, ModulePlan>,
    /// Their order in the declaration: providers before who is bound to them, then by name.
    pub order: Vec<String>,
    /// What the mesh says of the node; absent until it has joined and the recovery key is decided.
    pub record: Option<NodeRecord>,
    /// What holds while the mesh takes the machine over.
    pub adoption: Option<Adoption>,
    /// The only key whose sealed values count.
    pub vault: Option<SealingKey>,
    /// What makes it impossible, by module; an empty name for the node itself. With one of these nothing of it is sent.
    pub problems: BTreeSet<Problem>,
    /// Why it cannot be sent yet, though it can be composed.
    pub unsendable: Vec<String>,
    /// What is worth knowing before it is sent.
    pub notes: Vec<String>,
}

/// Why a module cannot be on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Problem {
    /// The node.
    pub node: String,
    /// The module.
    pub module: String,
    /// Why, as a fragment that the module's name stands before.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}: {}", self.module, self.node, self.what)
    }
}

impl Composed {
    /// Every problem of every node.
    pub fn problems(&self) -> BTreeSet<Problem> {
        self.nodes.values().flat_map(|node| node.problems.iter().cloned()).collect()
    }
}

/// What each node is to run.
pub fn compose(snapshot: &Snapshot) -> Composed {
    compose_some(snapshot, |_| true)
}

/// What some of the nodes are to run, as [`compose`] says of them too.
pub fn compose_some(snapshot: &Snapshot, is_wanted: impl Fn(&str) -> bool) -> Composed {
    let prepared = module::prepare(snapshot);
    let bindings = bindings::find(snapshot, &prepared);
    let seating = seats::find(snapshot);
    let mut nodes = BTreeMap::new();
    for (name, node) in snapshot.nodes.iter().filter(|(name, _)| is_wanted(name)) {
        let around = module::Around {
            snapshot,
            prepared: &prepared,
            name,
            node,
            bindings: &bindings,
            seating: &seating,
        };
        nodes.insert(name.clone(), compose_node(&around));
    }
    Composed {
        nodes,
        bindings: bindings.bound.into_iter().map(|(entry, (bound, _))| (entry, bound)).collect(),
        seats: seating.holders,
    }
}

fn compose_node(around: &module::Around<'_>) -> NodePlan {
    let (snapshot, name, node) = (around.snapshot, around.name, around.node);
    let mut plan = NodePlan { vault: snapshot.vault.clone(), ..NodePlan::default() };
    let assigned: Vec<&str> = modules_of(snapshot, name).collect();
    let mut ports = ports::Ports::of(snapshot, name, node);
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for module in &assigned {
        if let Some(Ok(manifest)) = snapshot.modules.get(*module).map(|known| &known.manifest) {
            ports.claim_fixed(module, manifest, found.entry(module).or_default());
        }
    }
    for module in &assigned {
        let mut problems = found.remove(module).unwrap_or_default();
        let key = (name.to_owned(), (*module).to_owned());
        problems.extend(around.bindings.problems.get(&key).into_iter().flatten().cloned());
        problems.extend(around.seating.problems.get(&key).into_iter().flatten().cloned());
        match snapshot.modules.get(*module) {
            Some(known) => match &known.manifest {
                Ok(manifest) => {
                    let placed = ports.place(module, manifest, &mut problems, &mut plan.notes);
                    let composed = module::compose(
                        around,
                        (module, known, manifest),
                        &placed,
                        &mut problems,
                        &mut plan.notes,
                    );
                    if let Some(composed) = composed {
                        plan.modules.insert((*module).to_owned(), composed);
                    }
                }
                Err(why) => problems.push(format!("its manifest cannot be read: {why}")),
            },
            None => problems.push("there is no such module any more".to_owned()),
        }
        plan.problems.extend(problems.into_iter().map(|what| Problem {
            node: name.to_owned(),
            module: (*module).to_owned(),
            what,
        }));
    }
    clashes(name, &mut plan);
    plan.order = order(around, &plan);
    plan.record = record(snapshot, name, node);
    plan.adoption = node.adopted.then(Adoption::default);
    plan.unsendable = unsendable(snapshot, name, node, &plan);
    if let Some(act) = node.declared {
        plan.notes.push(format!("act {act} declared it from a file: the next push replaces that"));
    }
    plan
}

/// The modules that a node runs.
pub fn modules_of<'s>(snapshot: &'s Snapshot, node: &'s str) -> impl Iterator<Item = &'s str> {
    snapshot
        .assignments
        .range((node.to_owned(), String::new())..)
        .take_while(move |((at, _), _)| at == node)
        .map(|((_, module), _)| module.as_str())
}

/// Two modules of a node that act on the same thing would undo each other's work.
fn clashes(node: &str, plan: &mut NodePlan) {
    let mut seen: BTreeMap<&Target, (&str, &str)> = BTreeMap::new();
    let mut clashes = Vec::new();
    for (module, composed) in &plan.modules {
        for (target, id) in &composed.targets {
            match seen.get(target) {
                Some((other, theirs)) if *other != module && !target.shared => {
                    clashes.push((module.clone(), format!("{id} acts on {}, as {theirs} does", target.name)));
                }
                Some(_) => {}
                None => {
                    seen.insert(target, (module, id));
                }
            }
        }
    }
    for (module, what) in clashes {
        plan.problems.insert(Problem { node: node.to_owned(), module, what });
    }
}

/// Providers before who is bound to them, then by name.
fn order(around: &module::Around<'_>, plan: &NodePlan) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    let mut left: BTreeSet<&str> = plan.modules.keys().map(String::as_str).collect();
    let waits = |module: &str, left: &BTreeSet<&str>| {
        around.bindings.of(around.name, module).any(|provider| {
            provider.node == around.name
                && provider.module != module
                && left.contains(provider.module.as_str())
        })
    };
    while let Some(first) = left.iter().copied().next() {
        // Modules that wait for each other without a placeholder are not a fault: the first by name goes first.
        let next = left.iter().copied().find(|module| !waits(module, &left)).unwrap_or(first);
        left.remove(next);
        order.push(next.to_owned());
    }
    order
}

fn record(snapshot: &Snapshot, name: &str, node: &Node) -> Option<NodeRecord> {
    let keys = node.keys.as_ref()?;
    Some(NodeRecord {
        mesh: snapshot.mesh.clone(),
        node: name.to_owned(),
        epoch: keys.epoch,
        bus: keys.bus.clone(),
        sealing: keys.sealing.clone(),
        recovery: snapshot.recovery.clone().unwrap_or(Recovery::None),
        address: node.address().map(str::to_owned),
        zone: node.zone.clone(),
        arch: keys.arch.clone(),
    })
}

fn unsendable(snapshot: &Snapshot, name: &str, node: &Node, plan: &NodePlan) -> Vec<String> {
    let mut why = Vec::new();
    if snapshot.vault.is_none() {
        why.push(
            "the mesh's vault is not known: say its key with mesh-controller init --vault X…".to_owned(),
        );
    }
    let sealed: Vec<String> = plan
        .modules
        .iter()
        .flat_map(|(module, composed)| {
            composed.sealed.iter().map(move |(id, secret)| format!("{module}.{id} ({secret})"))
        })
        .collect();
    if node.keys.is_none() && !sealed.is_empty() {
        why.push(format!(
            "{name} has not joined, so nothing can be sealed to it, and these need a secret: {}: issue a token with token \
             issue --node {name}",
            sealed.join(", ")
        ));
    }
    if snapshot.recovery.is_none() && !sealed.is_empty() {
        why.push(
            "there is no recovery key for its secrets: set one with operator key set X…, or none with operator key set none"
                .to_owned(),
        );
    }
    why
}

#[cfg(test)]
pub(crate) mod tests;
