//! What the controller signed, and what the buckets say beside.
//!
//! Nothing unsigned is believed: a node record and a declaration count by their signature, an assignment by its digest
//! in the newest declaration. What was applied only ends the life of older revisions and tells when a credential may
//! be handed out; it gives nobody a secret.

use crate::holdings::Seen;
use crate::place::Place;
use crate::wire::Bucket;
use mesh_model::assignment::{Assignment, Need};
use mesh_model::bucket::Bucket as OfNodes;
use mesh_model::declaration::Declaration;
use mesh_model::digest::Digest;
use mesh_model::json::Read;
use mesh_model::keys::{MeshKey, SealingKey};
use mesh_model::name;
use mesh_model::node_record::NodeRecord;
use mesh_model::signed::{Envelope, PayloadType};
use mesh_model::standing::{Applied, Revision};
use mesh_service::follow::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// How many modules of a node that are not declared may say what they have applied: a node writes there what it likes,
/// and a declaration may come after what it declares.
pub const MOST_UNDECLARED: usize = 64;

/// How many secrets a module may say that it has applied, and how long their names may be in all, in bytes. An assignment
/// of the largest size has fewer.
const MOST_APPLIED: usize = 16 * 1024;
const LONGEST_APPLIED: usize = 512 * 1024;

/// What is known of the mesh.
#[derive(Debug)]
pub struct Known {
    key: MeshKey,
    /// The mesh's id, once a signed document told it.
    pub mesh: Option<String>,
    nodes: BTreeMap<String, NodeRecord>,
    declared: BTreeMap<String, Declared>,
    assigned: BTreeMap<(String, String), Assigned>,
    applied: BTreeMap<(String, String), BTreeMap<String, u64>>,
    /// Nodes of whose undeclared modules some were left out.
    left_out: BTreeSet<String>,
    revisions: BTreeMap<Place, Published>,
    /// What was seen of each node, as the store remembers it.
    pub seen: BTreeMap<String, Seen>,
    /// Nodes of which something was seen that the store does not have yet.
    pub unsaved: BTreeSet<String>,
}

/// A declaration that counts.
#[derive(Debug)]
pub struct Declared {
    /// Its sequence.
    pub sequence: u64,
    /// The key of the vault that it names.
    pub vault: SealingKey,
    modules: BTreeMap<String, Digest>,
}

/// What the bucket says that a module is assigned: the newest, and the one before it. A push writes assignments first,
/// so for a moment the declaration names the one before.
#[derive(Debug, Default)]
struct Assigned {
    newest: Option<Wanted>,
    before: Option<Wanted>,
}

/// The needs of an assignment that are the vault's.
#[derive(Debug)]
struct Wanted {
    digest: Digest,
    needs: Vec<Need>,
}

/// What the bucket of revisions says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The sequence of the key's newest message.
    pub sequence: u64,
    /// Its value; none if it is deleted or none of ours.
    pub revision: Option<Revision>,
}

/// What a new entry concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// Who may have what.
    Rights,
    /// Who may have what on a node, by its newer declaration.
    Declared(String),
    /// What a module has applied.
    Applied(String, String),
    /// A revision in the bucket.
    Revision(Place),
}

/// How a module's needs stand.
#[derive(Debug, Clone, Copy)]
pub enum Needs<'k> {
    /// Nothing is declared for the node.
    NoDeclaration,
    /// The declaration does not name the module.
    NotAssigned(&'k Declared),
    /// The assignment that the declaration names is not in the bucket.
    NotThere(&'k Declared),
    /// These are needed.
    Of(&'k Declared, &'k [Need]),
}

impl Known {
    /// Nothing is known yet but what the store remembers.
    pub fn new(key: MeshKey, mesh: Option<String>, seen: BTreeMap<String, Seen>) -> Known {
        Known {
            key,
            mesh,
            nodes: BTreeMap::new(),
            declared: BTreeMap::new(),
            assigned: BTreeMap::new(),
            applied: BTreeMap::new(),
            left_out: BTreeSet::new(),
            revisions: BTreeMap::new(),
            seen,
            unsaved: BTreeSet::new(),
        }
    }

    /// The key whose signatures count.
    pub fn key(&self) -> &MeshKey {
        &self.key
    }

    /// The record of a node.
    pub fn node(&self, node: &str) -> Option<&NodeRecord> {
        self.nodes.get(node)
    }

    /// How many nodes there are, and how many declarations.
    pub fn counts(&self) -> (usize, usize) {
        (self.nodes.len(), self.declared.len())
    }

    /// What a module needs of the vault.
    pub fn needs(&self, node: &str, module: &str) -> Needs<'_> {
        let Some(declared) = self.declared.get(node) else { return Needs::NoDeclaration };
        let Some(digest) = declared.modules.get(module) else { return Needs::NotAssigned(declared) };
        let assigned = self.assigned.get(&(node.to_owned(), module.to_owned()));
        let both = assigned.into_iter().flat_map(|assigned| assigned.newest.iter().chain(&assigned.before));
        match both.into_iter().find(|wanted| wanted.digest == *digest) {
            Some(wanted) => Needs::Of(declared, &wanted.needs),
            None => Needs::NotThere(declared),
        }
    }

    /// The providers: modules whose assignment has a list of consumers.
    pub fn providers(&self) -> impl Iterator<Item = &(String, String)> {
        let provides = |assigned: &Assigned| {
            let both = assigned.newest.iter().chain(&assigned.before);
            both.flat_map(|wanted| &wanted.needs).any(|need| need.kind == "consumers")
        };
        self.assigned.iter().filter(move |(_, assigned)| provides(assigned)).map(|(of, _)| of)
    }

    /// The revision of a secret, or of `consumers:<provision>`, that a module has applied.
    pub fn applied(&self, node: &str, module: &str, name: &str) -> u64 {
        let secrets = self.applied.get(&(node.to_owned(), module.to_owned()));
        secrets.and_then(|secrets| secrets.get(name)).copied().unwrap_or(0)
    }

    /// Of how many modules it is known what they have applied.
    pub fn applied_modules(&self) -> usize {
        self.applied.len()
    }

    /// Whether a node whose modules were left out has a new declaration: what its modules have applied is to be read
    /// again. It says so once.
    pub fn is_to_be_read_again(&mut self, change: &Change) -> bool {
        match change {
            Change::Declared(node) => self.left_out.remove(node),
            _ => false,
        }
    }

    /// What the bucket says of a revision.
    pub fn published(&self, place: &Place) -> Option<&Published> {
        self.revisions.get(place)
    }

    /// The revision in the bucket; 0 if there is none.
    pub fn revision(&self, place: &Place) -> u64 {
        let revision = self.revisions.get(place).and_then(|published| published.revision.as_ref());
        revision.map_or(0, |revision| revision.revision)
    }

    /// All places in the bucket of revisions.
    pub fn published_places(&self) -> impl Iterator<Item = &Place> {
        self.revisions.keys()
    }

    /// A revision was written.
    pub fn wrote(&mut self, place: Place, sequence: u64, revision: Revision) {
        let known = self.revisions.get(&place).map_or(0, |published| published.sequence);
        if sequence > known {
            self.revisions.insert(place, Published { sequence, revision: Some(revision) });
        }
    }

    /// The newest message of a key. An error is why it does not count; the value before it stays.
    pub fn on_entry(&mut self, bucket: Bucket, entry: &Entry) -> Result<Change, String> {
        match bucket {
            Bucket::Declarations => self.on_declaration(entry),
            Bucket::Assignments => self.on_assignment(entry),
            Bucket::Nodes => self.on_node(entry),
            Bucket::Applied => Ok(self.on_applied(entry)),
            Bucket::Revisions => Ok(self.on_revision(entry)),
        }
    }

    /// The list of a bucket is complete: what it has not is gone. A declaration and an assignment stay until a newer
    /// declaration says otherwise.
    pub fn on_complete(&mut self, bucket: Bucket, keys: &BTreeSet<String>) -> Vec<Change> {
        match bucket {
            Bucket::Declarations | Bucket::Assignments => Vec::new(),
            Bucket::Nodes => {
                self.nodes.retain(|node, _| keys.contains(&name::encode(node)));
                vec![Change::Rights]
            }
            Bucket::Applied => {
                let is_there = |(node, module): &&(String, String)| keys.contains(&key(node, module));
                let gone: Vec<_> = self.applied.keys().filter(|of| !is_there(of)).cloned().collect();
                for of in &gone {
                    self.applied.remove(of);
                }
                gone.into_iter().map(|(node, module)| Change::Applied(node, module)).collect()
            }
            Bucket::Revisions => {
                // The bucket was emptied or made again. A key that was deleted has a marker, whose sequence is known.
                let is_gone = |(place, published): &(&Place, &Published)| {
                    published.revision.is_some() && !keys.contains(&place.key())
                };
                let gone = self.revisions.iter().filter(is_gone).map(|(place, _)| place.clone());
                let gone: Vec<Place> = gone.collect();
                for place in &gone {
                    self.revisions.remove(place);
                }
                gone.into_iter().map(Change::Revision).collect()
            }
        }
    }

    fn on_declaration(&mut self, entry: &Entry) -> Result<Change, String> {
        let Some(value) = &entry.value else { return Ok(Change::None) };
        let node = name::decode(&entry.key).map_err(|why| format!("the key {:?} {why}", entry.key))?;
        let declaration: Declaration = self.open(PayloadType::Declaration, value)?;
        self.expect(&declaration.mesh, &declaration.node, &node)?;
        let seen = self.seen.get(&node).map_or(0, |seen| seen.sequence);
        if declaration.sequence < seen {
            return Err(format!("its sequence is {}, and {seen} was seen before", declaration.sequence));
        }
        if declaration.sequence > seen {
            self.seen.entry(node.clone()).or_insert_with(unseen).sequence = declaration.sequence;
            self.unsaved.insert(node.clone());
        }
        self.mesh = Some(declaration.mesh);
        let modules = declaration.modules.into_iter().map(|part| (part.module, part.assignment)).collect();
        let declared = Declared { sequence: declaration.sequence, vault: declaration.vault, modules };
        self.declared.insert(node.clone(), declared);
        Ok(Change::Declared(node))
    }

    fn on_node(&mut self, entry: &Entry) -> Result<Change, String> {
        let node = name::decode(&entry.key).map_err(|why| format!("the key {:?} {why}", entry.key))?;
        let Some(value) = &entry.value else {
            self.nodes.remove(&node);
            return Ok(Change::Rights);
        };
        let record: NodeRecord = self.open(PayloadType::Node, value)?;
        self.expect(&record.mesh, &record.node, &node)?;
        let seen = self.seen.entry(node.clone()).or_insert_with(unseen);
        if record.epoch < seen.epoch {
            return Err(format!("its epoch is {}, and {} was seen before", record.epoch, seen.epoch));
        }
        match &seen.sealing {
            Some(known) if record.epoch == seen.epoch && *known != record.sealing => {
                return Err(format!("its sealing key changed within the epoch {}", record.epoch));
            }
            Some(_) if record.epoch == seen.epoch => {}
            _ => {
                (seen.epoch, seen.sealing) = (record.epoch, Some(record.sealing.clone()));
                self.unsaved.insert(node.clone());
            }
        }
        self.mesh = Some(record.mesh.clone());
        self.nodes.insert(node, record);
        Ok(Change::Rights)
    }

    fn on_assignment(&mut self, entry: &Entry) -> Result<Change, String> {
        // One that is deleted counts until a declaration no longer names it.
        let Some(value) = &entry.value else { return Ok(Change::None) };
        let of = pair(OfNodes::Applied.parse(&entry.key).map_err(|malformed| malformed.detail)?);
        let digest = Digest::of(value);
        let newest = self.assigned.get(&of).and_then(|assigned| assigned.newest.as_ref());
        if newest.is_some_and(|newest| newest.digest == digest) {
            return Ok(Change::None);
        }
        let assignment = Assignment::from_json_bytes(value).map_err(|problem| problem.to_string())?;
        if assignment.module != of.1 {
            return Err(format!("it is of the module {:?}", assignment.module));
        }
        let ours = |need: &Need| need.kind == "secret" || need.kind == "consumers";
        let needs = assignment.needs.unwrap_or_default().into_iter().filter(ours).collect();
        let declared = self.declared.get(&of.0).and_then(|declared| declared.modules.get(&of.1)).copied();
        let assigned = self.assigned.entry(of).or_default();
        let newest = assigned.newest.replace(Wanted { digest, needs });
        // Of those before, only the one that is declared is still good for something.
        if newest.as_ref().is_some_and(|newest| Some(newest.digest) == declared || assigned.before.is_none())
        {
            assigned.before = newest;
        }
        Ok(Change::Rights)
    }

    fn on_applied(&mut self, entry: &Entry) -> Change {
        let Ok(names) = OfNodes::Applied.parse(&entry.key) else { return Change::None };
        let (node, module) = pair(names);
        // What is not a record of ours says nothing of secrets; the last good one stays.
        let secrets = match &entry.value {
            None => BTreeMap::new(),
            Some(value) => match serde_json::from_slice::<Applied>(value) {
                Ok(applied) => applied.secrets,
                Err(_) => return Change::None,
            },
        };
        let of = (node, module);
        if secrets.is_empty() {
            self.applied.remove(&of);
        } else if secrets.len() > MOST_APPLIED
            || secrets.keys().map(String::len).sum::<usize>() > LONGEST_APPLIED
        {
            return Change::None;
        } else if self.applied.contains_key(&of) || self.is_declared(&of) || self.has_room(&of.0) {
            self.applied.insert(of.clone(), secrets);
        } else {
            self.left_out.insert(of.0);
            return Change::None;
        }
        Change::Applied(of.0, of.1)
    }

    fn is_declared(&self, (node, module): &(String, String)) -> bool {
        self.declared.get(node).is_some_and(|declared| declared.modules.contains_key(module))
    }

    /// Whether one more module of a node that is not declared may be known.
    fn has_room(&self, node: &str) -> bool {
        let from = (node.to_owned(), String::new());
        let of_node = self.applied.range(from..).map(|(of, _)| of).take_while(|(of, _)| of == node);
        of_node.filter(|of| !self.is_declared(of)).count() < MOST_UNDECLARED
    }

    fn on_revision(&mut self, entry: &Entry) -> Change {
        let Some(place) = Place::from_key(&entry.key) else { return Change::None };
        if self.revisions.get(&place).is_some_and(|published| published.sequence > entry.revision) {
            // Our own write was acknowledged before.
            return Change::None;
        }
        let revision = entry.value.as_ref().and_then(|value| serde_json::from_slice::<Revision>(value).ok());
        self.revisions.insert(place.clone(), Published { sequence: entry.revision, revision });
        Change::Revision(place)
    }

    fn open<T: Read>(&self, of: PayloadType, bytes: &[u8]) -> Result<T, String> {
        let envelope = Envelope::parse(bytes).map_err(|problem| problem.to_string())?;
        envelope.open(of, &self.key).map_err(|refused| refused.to_string())
    }

    fn expect(&self, mesh: &str, node: &str, key: &str) -> Result<(), String> {
        if node != key {
            return Err(format!("it is of the node {node:?}"));
        }
        match &self.mesh {
            Some(known) if known != mesh => Err(format!("it is of the mesh {mesh:?}, not of {known:?}")),
            _ => Ok(()),
        }
    }
}

fn unseen() -> Seen {
    Seen { epoch: 0, sealing: None, sequence: 0 }
}

/// The two names of a key of assignments and of what was applied.
fn pair(names: Vec<String>) -> (String, String) {
    let mut names = names.into_iter();
    (names.next().unwrap_or_default(), names.next().unwrap_or_default())
}

fn key(node: &str, module: &str) -> String {
    format!("{}.{}", name::encode(node), name::encode(module))
}
