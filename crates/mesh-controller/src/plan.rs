//! How what is composed differs from what was sent, and why: what `plan` shows, and exactly what `push` sends.

pub mod diff;

use crate::compose::reason::{Reason, Reasons};
use crate::compose::{Composed, ModulePlan, NodePlan};
use crate::store::sent::{Bucket, Sent};
use mesh_model::declaration::{Adoption, Declaration, Part};
use mesh_model::digest::Digest;
use mesh_model::json::{Json, Read};
use mesh_model::keys::SealingKey;
use mesh_model::name;
use mesh_model::node_record::NodeRecord;
use mesh_model::signed::Envelope;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What would change, node by node.
#[derive(Debug, Default)]
pub struct Plan {
    /// The nodes that were looked at.
    pub nodes: BTreeMap<String, NodeChange>,
}

/// What would change for one node.
#[derive(Debug, Default)]
pub struct NodeChange {
    /// The sequence of the declaration that it has.
    pub base: u64,
    /// A line for each changed path.
    pub lines: Vec<Line>,
    /// The values of assignments and settings that are to be written or deleted, in the order of sending.
    pub values: Vec<Value>,
    /// The record that is to be signed and written.
    pub record: Option<NodeRecord>,
    /// The declaration that is to be numbered, signed and written.
    pub declaration: Option<Declared>,
    /// Why nothing of the node can be sent.
    pub problems: Vec<String>,
    /// What is worth knowing.
    pub notes: Vec<String>,
    /// How many modules its declaration has.
    pub had: usize,
    /// How many of them go.
    pub loses: usize,
    /// How many it is to have.
    pub has: usize,
    wanted: Vec<Vec<u8>>,
}

/// A value of the assignments' or the settings' bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Where it belongs.
    pub bucket: Bucket,
    /// The module.
    pub module: String,
    /// Its key.
    pub key: String,
    /// The exact bytes; `None` where the key is to go.
    pub bytes: Option<Vec<u8>>,
}

/// What a declaration says, but for its number and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The only key whose sealed values count.
    pub vault: SealingKey,
    /// The modules with their digests.
    pub parts: Vec<Part>,
    /// What holds while the mesh takes the machine over.
    pub adoption: Option<Adoption>,
}

/// A path that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The module; empty for the node itself.
    pub module: String,
    /// The path.
    pub path: String,
    /// What stood there, as compact JSON.
    pub old: Option<String>,
    /// What is to stand there.
    pub new: Option<String>,
    /// Why.
    pub why: Option<Reason>,
}

impl NodeChange {
    /// Whether anything is to be written.
    pub fn differs(&self) -> bool {
        !self.values.is_empty() || self.record.is_some() || self.declaration.is_some()
    }

    /// Whether so much goes that the digest must be given: all modules, or more than half of them.
    pub fn takes_much(&self) -> bool {
        self.had > 0 && self.declaration.is_some() && (self.has == 0 || self.loses * 2 > self.had)
    }
}

impl Plan {
    /// Whether anything is to be written.
    pub fn differs(&self) -> bool {
        self.nodes.values().any(NodeChange::differs)
    }

    /// Whether some node cannot be sent what it should have.
    pub fn is_hindered(&self) -> bool {
        self.nodes.values().any(|node| !node.problems.is_empty())
    }

    /// What tells this plan from any other: nodes, the sequences that they have, and the digests that they are to have.
    pub fn digest(&self) -> Digest {
        let mut pieces: Vec<&[u8]> = Vec::new();
        let bases: Vec<[u8; 8]> = self.nodes.values().map(|node| node.base.to_be_bytes()).collect();
        for ((name, node), base) in self.nodes.iter().zip(&bases) {
            pieces.push(name.as_bytes());
            pieces.push(base);
            pieces.extend(node.wanted.iter().map(Vec::as_slice));
        }
        Digest::of_pieces(&pieces)
    }
}

/// The plan for one node, or for all of them.
pub fn plan(composed: &Composed, sent: &[Sent], only: Option<&str>) -> Plan {
    let names: BTreeSet<&str> = composed
        .nodes
        .keys()
        .map(String::as_str)
        // Of a node that was removed the declaration's row stays, since it has the highest sequence.
        .chain(sent.iter().filter(|sent| sent.value.is_some() || !sent.done).map(|sent| sent.node.as_str()))
        .filter(|name| only.is_none_or(|only| only == *name))
        .collect();
    let mut by_node: BTreeMap<&str, Vec<&Sent>> = BTreeMap::new();
    for row in sent {
        by_node.entry(&row.node).or_default().push(row);
    }
    let nodes = names.into_iter().map(|name| {
        let sent = by_node.get(name).map_or(&[][..], Vec::as_slice);
        let change = match composed.nodes.get(name) {
            Some(node) => of_node(name, node, sent),
            None => of_removed(sent),
        };
        (name.to_owned(), change)
    });
    Plan { nodes: nodes.collect() }
}

fn row<'s>(sent: &[&'s Sent], bucket: Bucket, module: &str) -> Option<&'s Sent> {
    sent.iter().find(|row| row.bucket == bucket && row.module == module).copied()
}

fn of_node(name: &str, node: &NodePlan, sent: &[&Sent]) -> NodeChange {
    let now = row(sent, Bucket::Declarations, "").and_then(|row| declaration_in(row.value.as_deref()?));
    let mut change = NodeChange {
        base: now.as_ref().map_or(0, |declaration| declaration.sequence),
        had: now.as_ref().map_or(0, |declaration| declaration.modules.len()),
        notes: node.notes.clone(),
        ..NodeChange::default()
    };
    if !node.problems.is_empty() {
        change.problems =
            node.problems.iter().map(|problem| format!("{}: {}", problem.module, problem.what)).collect();
        change.wanted = change.problems.iter().map(|problem| problem.clone().into_bytes()).collect();
        return change;
    }
    change.has = node.modules.len();
    change.loses = now
        .iter()
        .flat_map(|now| &now.modules)
        .filter(|part| !node.modules.contains_key(&part.module))
        .count();
    if let Some(record) = &node.record {
        of_record(record, sent, &mut change);
    }
    for (module, composed) in &node.modules {
        of_module(name, module, composed, sent, &mut change);
    }
    gone(node, sent, &mut change);
    of_declaration(node, now.as_ref(), &mut change);
    change.values.sort_by(|a, b| (a.bucket, &a.key).cmp(&(b.bucket, &b.key)));
    if change.differs() && !node.unsendable.is_empty() {
        change.problems.clone_from(&node.unsendable);
    }
    change
}

/// The declaration in an envelope that was made here.
fn declaration_in(bytes: &[u8]) -> Option<Declaration> {
    Declaration::from_json_bytes(&payload(bytes)?).ok()
}

/// The payload of an envelope that was made here: it needs no verification.
fn payload(bytes: &[u8]) -> Option<Vec<u8>> {
    Envelope::parse(bytes).ok().map(|envelope| envelope.payload_unverified().to_vec())
}

fn of_record(record: &NodeRecord, sent: &[&Sent], change: &mut NodeChange) {
    let wanted = json_of(record);
    change.wanted.push(wanted.to_string().into_bytes());
    let now = row(sent, Bucket::Nodes, "").and_then(|row| payload(row.value.as_deref()?));
    let now = now.and_then(|bytes| Json::parse_bytes(&bytes).ok());
    let mut why = Reasons::default();
    why.put(["recovery"], Reason::Recovery);
    let found = diff::diff(now.as_ref(), Some(&wanted));
    if !found.is_empty() {
        change.record = Some(record.clone());
    }
    lines("", "node", found, &why, change);
}

fn json_of(value: &impl Serialize) -> Json {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    Json::parse_bytes(&bytes).unwrap_or(Json::Null)
}

fn of_module(name: &str, module: &str, composed: &ModulePlan, sent: &[&Sent], change: &mut NodeChange) {
    let key = format!("{}.{}", name::encode(name), name::encode(module));
    let both = [
        (Bucket::Assignments, &composed.assignment, &composed.why, ""),
        (Bucket::Settings, &composed.settings, &composed.settings_why, "settings"),
    ];
    for (bucket, bytes, why, before) in both {
        change.wanted.push(Digest::of(bytes).bytes().to_vec());
        let now = row(sent, bucket, module).and_then(|row| row.value.as_deref());
        if now == Some(bytes.as_slice()) {
            continue;
        }
        change.values.push(Value {
            bucket,
            module: module.to_owned(),
            key: key.clone(),
            bytes: Some(bytes.clone()),
        });
        let now = now.and_then(|now| Json::parse_bytes(now).ok());
        let found = diff::diff(now.as_ref(), Json::parse_bytes(bytes).ok().as_ref());
        lines(module, before, found, why, change);
    }
}

/// Values of modules that the node no longer runs.
fn gone(node: &NodePlan, sent: &[&Sent], change: &mut NodeChange) {
    for row in sent.iter().filter(|row| !row.module.is_empty() && row.value.is_some()) {
        if node.modules.contains_key(&row.module) {
            continue;
        }
        change.values.push(Value {
            bucket: row.bucket,
            module: row.module.clone(),
            key: row.key.clone(),
            bytes: None,
        });
        if row.bucket == Bucket::Assignments {
            let version = row.value.as_deref().and_then(|value| Json::parse_bytes(value).ok());
            let version = version.and_then(|json| Some(json.get("version")?.to_string()));
            change.lines.push(Line {
                module: row.module.clone(),
                path: "version".into(),
                old: version.or_else(|| Some("…".into())),
                new: None,
                why: Some(Reason::Unassigned),
            });
        }
    }
}

fn of_declaration(node: &NodePlan, now: Option<&Declaration>, change: &mut NodeChange) {
    let Some(vault) = node.vault.clone() else { return };
    let parts = node.order.iter().filter_map(|module| {
        let composed = node.modules.get(module)?;
        Some(Part {
            module: module.clone(),
            assignment: Digest::of(&composed.assignment),
            settings: Digest::of(&composed.settings),
        })
    });
    let wanted = Declared { vault, parts: parts.collect(), adoption: node.adoption.clone() };
    change.wanted.push(view(&wanted).to_string().into_bytes());
    let now = now.map(|now| Declared {
        vault: now.vault.clone(),
        parts: now.modules.clone(),
        adoption: now.adoption.clone(),
    });
    // A node that never ran anything is told nothing.
    if now.as_ref() == Some(&wanted) || now.is_none() && wanted.parts.is_empty() {
        return;
    }
    let mut why = Reasons::default();
    why.put(["vault"], Reason::Vault);
    why.put(["order"], Reason::Order);
    let found =
        now.as_ref().map(|now| diff::diff(Some(&view(now)), Some(&view(&wanted)))).unwrap_or_default();
    let same_modules =
        |declared: &Declared| declared.parts.iter().map(|part| part.module.clone()).collect::<BTreeSet<_>>();
    let only_order = now.as_ref().is_some_and(|now| same_modules(now) == same_modules(&wanted));
    let found =
        found.into_iter().filter(|one| one.path.first().is_none_or(|first| first != "order") || only_order);
    lines("", "declaration", found.collect(), &why, change);
    if change.lines.is_empty() {
        // What stands there is a declaration of other bytes, from a file.
        change.lines.push(Line {
            module: String::new(),
            path: "declaration".into(),
            old: Some("of other digests".into()),
            new: Some("as composed".into()),
            why: None,
        });
    }
    change.declaration = Some(wanted);
}

/// What a declaration says of the node itself, as a document: the digests have their lines with the modules.
fn view(declared: &Declared) -> Json {
    let order = declared.parts.iter().map(|part| Json::text(part.module.as_str())).collect();
    Json::Object(vec![
        ("vault".into(), Json::text(declared.vault.as_str())),
        ("adoption".into(), json_of(&declared.adoption)),
        ("order".into(), Json::List(order)),
    ])
}

fn lines(module: &str, before: &str, found: Vec<diff::Difference>, why: &Reasons, change: &mut NodeChange) {
    for one in found {
        let mut path = diff::shown(&one.path);
        if !before.is_empty() {
            let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            path = format!("{before}{dot}{path}");
        }
        change.lines.push(Line {
            module: module.to_owned(),
            path,
            old: one.old.map(|json| json.to_string()),
            new: one.new.map(|json| json.to_string()),
            why: why.of(&one.path).cloned(),
        });
    }
}

/// What is left of a node that was removed: all its keys go.
fn of_removed(sent: &[&Sent]) -> NodeChange {
    let mut change = NodeChange::default();
    for row in sent.iter().filter(|row| row.value.is_some()) {
        change.base = change.base.max(row.sequence);
        change.values.push(Value {
            bucket: row.bucket,
            module: row.module.clone(),
            key: row.key.clone(),
            bytes: None,
        });
        change.lines.push(Line {
            module: row.module.clone(),
            path: row.bucket.name().to_owned(),
            old: Some("…".into()),
            new: None,
            why: Some(Reason::Unassigned),
        });
    }
    change
}

#[cfg(test)]
pub(crate) mod tests;
