//! What the machine believes: signatures, sequences, epochs, digests.

mod duty;
#[path = "../support/mod.rs"]
mod support;

use mesh_model::keys::SealingKey;
use mesh_service::follow::Entry;
use mesh_vault::machine::{Change, Known, MOST_UNDECLARED, Needs};
use mesh_vault::wire::Bucket;
use nkeys::XKey;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use support::controller::{Controller, made};

struct Bench {
    controller: Controller,
    known: Known,
    sequence: u64,
}

impl Bench {
    fn new() -> Bench {
        let mut controller = Controller::new(SealingKey::of(&XKey::new()));
        controller.join("attic");
        let known = Known::new(controller.key(), None, BTreeMap::new());
        Bench { controller, known, sequence: 0 }
    }

    fn put(&mut self, bucket: Bucket, key: &str, value: Option<Vec<u8>>) -> Result<(), String> {
        self.entry(bucket, key, value).map(drop)
    }

    fn entry(&mut self, bucket: Bucket, key: &str, value: Option<Vec<u8>>) -> Result<Change, String> {
        self.sequence += 1;
        let entry = Entry { key: key.to_owned(), value, revision: self.sequence, header_fault: None };
        self.known.on_entry(bucket, &entry)
    }

    fn node(&mut self, value: Vec<u8>) -> Result<(), String> {
        self.put(Bucket::Nodes, "attic", Some(value))
    }

    fn declare(&mut self, value: Vec<u8>) -> Result<(), String> {
        self.put(Bucket::Declarations, "attic", Some(value))
    }

    fn assignment(&mut self, value: Vec<u8>) -> Result<(), String> {
        self.put(Bucket::Assignments, "attic.web", Some(value))
    }

    /// The names of the secrets that the module needs, or how it stands.
    fn needs(&self) -> String {
        match self.known.needs("attic", "web") {
            Needs::NoDeclaration => "no declaration".to_owned(),
            Needs::NotAssigned(declared) => format!("not assigned by {}", declared.sequence),
            Needs::NotThere(declared) => format!("not there by {}", declared.sequence),
            Needs::Of(declared, needs) => {
                let names: Vec<&str> = needs.iter().map(|need| need.name.as_str()).collect();
                format!("{} by {}", names.join(","), declared.sequence)
            }
        }
    }
}

#[test]
fn an_assignment_counts_only_by_the_digest_in_the_newest_declaration() {
    let mut bench = Bench::new();
    assert_eq!(bench.needs(), "no declaration");
    let first = bench.controller.assign("attic", "web", &json!([made("a", "hex")]));
    bench.assignment(first.clone()).unwrap();
    assert_eq!(bench.needs(), "no declaration", "an assignment alone gives nothing");
    let declaration = bench.controller.declare("attic");
    bench.declare(declaration).unwrap();
    assert_eq!(bench.needs(), "a by 1");

    // A push writes the assignment first: until its declaration is there, the one before counts.
    let second = bench.controller.assign("attic", "web", &json!([made("b", "hex")]));
    bench.assignment(second).unwrap();
    assert_eq!(bench.needs(), "a by 1");
    let third = bench.controller.assign("attic", "web", &json!([made("c", "hex")]));
    bench.assignment(third).unwrap();
    assert_eq!(bench.needs(), "a by 1");
    let declaration = bench.controller.declare("attic");
    bench.declare(declaration).unwrap();
    assert_eq!(bench.needs(), "c by 2");

    // What another client writes there is not what was declared; nor does a deletion take anything away.
    bench.assignment(first).unwrap();
    assert_eq!(bench.needs(), "c by 2");
    bench.assignment(b"junk".to_vec()).unwrap_err();
    bench.put(Bucket::Assignments, "attic.web", None).unwrap();
    bench.put(Bucket::Declarations, "attic", None).unwrap();
    bench.known.on_complete(Bucket::Declarations, &BTreeSet::new());
    assert_eq!(bench.needs(), "c by 2");
    bench.controller.unassign("attic", "web");
    let declaration = bench.controller.declare("attic");
    bench.declare(declaration).unwrap();
    assert_eq!(bench.needs(), "not assigned by 3");
}

#[test]
fn an_older_declaration_or_one_of_another_key_mesh_or_node_is_not_believed() {
    let mut bench = Bench::new();
    let assignment = bench.controller.assign("attic", "web", &json!([made("a", "hex")]));
    bench.assignment(assignment).unwrap();
    bench.controller.nodes.get_mut("attic").unwrap().sequence = 7;
    let declaration = bench.controller.declare("attic");
    bench.declare(declaration).unwrap();
    assert_eq!(bench.needs(), "a by 8");
    let older = bench.controller.declaration("attic", 7);
    assert_eq!(bench.declare(older).unwrap_err(), "its sequence is 7, and 8 was seen before");

    let mut stranger = Controller::new(bench.controller.vault.clone());
    stranger.join("attic");
    let forged = stranger.declaration("attic", 9);
    assert!(bench.declare(forged).unwrap_err().contains("is not this mesh's key"));
    bench.controller.id = "other".to_owned();
    let other = bench.controller.declaration("attic", 9);
    assert!(bench.declare(other).unwrap_err().contains("it is of the mesh \"other\""));
    bench.controller.id = "mesh-of-the-tests".to_owned();
    bench.controller.join("cellar");
    let moved = bench.controller.declaration("cellar", 9);
    assert_eq!(bench.declare(moved).unwrap_err(), "it is of the node \"cellar\"");
    let record = bench.controller.record("attic");
    assert!(bench.declare(record).unwrap_err().contains("payload type"));
    assert_eq!(bench.needs(), "a by 8");
    assert_eq!(bench.known.seen["attic"].sequence, 8);
}

#[test]
fn a_lower_epoch_and_a_new_key_within_one_are_not_believed() {
    let mut bench = Bench::new();
    let first = bench.controller.record("attic");
    bench.node(first.clone()).unwrap();
    bench.node(first.clone()).unwrap();
    let key = bench.known.node("attic").unwrap().sealing.clone();
    bench.controller.join("attic");
    bench.controller.nodes.get_mut("attic").unwrap().epoch = 1;
    let within = bench.controller.record("attic");
    assert_eq!(bench.node(within).unwrap_err(), "its sealing key changed within the epoch 1");
    assert_eq!(bench.known.node("attic").unwrap().sealing, key);
    bench.controller.nodes.get_mut("attic").unwrap().epoch = 2;
    let second = bench.controller.record("attic");
    bench.node(second).unwrap();
    assert_ne!(bench.known.node("attic").unwrap().sealing, key);
    assert_eq!(bench.node(first).unwrap_err(), "its epoch is 1, and 2 was seen before");
    // A record that is gone is not a key; what was seen stays.
    bench.known.on_complete(Bucket::Nodes, &BTreeSet::new());
    assert!(bench.known.node("attic").is_none());
    assert_eq!(bench.known.seen["attic"].epoch, 2);
}

fn applied(secrets: &serde_json::Value) -> Vec<u8> {
    let digest = mesh_model::digest::Digest::of(b"x");
    let applied = json!({"version": "1", "sequence": 1, "assignment": digest, "settings": digest, "resources": 0, "changed": 0, "needs": 1, "secrets": secrets});
    applied.to_string().into_bytes()
}

/// A node writes what it likes below its own name: what is kept of it has a bound, and none of it is in the way of what is
/// declared, on this node or another.
#[test]
fn what_undeclared_modules_have_applied_is_kept_within_a_bound() {
    let mut bench = Bench::new();
    for number in 0..10 * MOST_UNDECLARED {
        bench.put(Bucket::Applied, &format!("attic.junk-{number}"), Some(applied(&json!({"a": 1})))).unwrap();
    }
    assert_eq!(bench.known.applied_modules(), MOST_UNDECLARED);
    let key = "attic.web";
    bench.put(Bucket::Applied, key, Some(applied(&json!({"a": 3})))).unwrap();
    assert_eq!(bench.known.applied("attic", "web", "a"), 0);
    bench.put(Bucket::Applied, "cellar.web", Some(applied(&json!({"a": 4})))).unwrap();
    assert_eq!(bench.known.applied("cellar", "web", "a"), 4);

    // The declaration may come after it: then everything is read again, once.
    bench.controller.assign("attic", "web", &json!([made("a", "hex")]));
    let declaration = bench.controller.declare("attic");
    let change = bench.entry(Bucket::Declarations, "attic", Some(declaration)).unwrap();
    assert!(bench.known.is_to_be_read_again(&change) && !bench.known.is_to_be_read_again(&change));
    bench.put(Bucket::Applied, key, Some(applied(&json!({"a": 3})))).unwrap();
    assert_eq!(bench.known.applied("attic", "web", "a"), 3);
    // What goes makes room.
    bench.put(Bucket::Applied, "attic.junk-0", None).unwrap();
    bench.put(Bucket::Applied, "attic.junk-1000", Some(applied(&json!({"a": 7})))).unwrap();
    assert_eq!(bench.known.applied("attic", "junk-1000", "a"), 7);
    assert_eq!(bench.known.applied_modules(), MOST_UNDECLARED + 2);

    // One that names more secrets than an assignment can have is not a record; the last good one stays.
    let many: serde_json::Map<_, _> = (0..20_000).map(|number| (number.to_string(), json!(1))).collect();
    bench.put(Bucket::Applied, key, Some(applied(&many.into()))).unwrap();
    assert_eq!(bench.known.applied("attic", "web", "a"), 3);
}

#[test]
fn a_foreign_value_in_a_bucket_leaves_the_last_good_one() {
    let mut bench = Bench::new();
    bench.put(Bucket::Applied, "attic.web", Some(applied(&json!({"a": 3})))).unwrap();
    bench.put(Bucket::Applied, "attic.web", Some(b"[]".to_vec())).unwrap();
    assert_eq!(bench.known.applied("attic", "web", "a"), 3);
    bench.put(Bucket::Applied, "attic.web", None).unwrap();
    assert_eq!(bench.known.applied("attic", "web", "a"), 0);
}
