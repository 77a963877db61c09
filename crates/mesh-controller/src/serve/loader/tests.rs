use super::*;
use crate::broker::{self, gather};
use crate::store::identity::NodeKeys;
use crate::store::tests::act;
use crate::store::{Paths, Store, identity, migrate, nodes, now};
use mesh_bus::config::{self, Flags};
use std::path::Path;
use tempfile::TempDir;

fn empty(folder: &Path) -> (Store, Signer) {
    let paths = Paths::below(folder);
    migrate(&paths).unwrap();
    let mut store = Store::open(&paths).unwrap();
    crate::identity::make(&mut store, &act("migrate")).unwrap();
    let signer = crate::identity::open(&store).unwrap();
    (store, signer)
}

fn join(store: &mut Store, node: &str) {
    let change = store.change_inventory(&act("node add")).unwrap();
    nodes::add(&change, node, false, None, None).unwrap();
    change.commit().unwrap();
    let change = store.change_identity(&act("join")).unwrap();
    let keys = NodeKeys {
        node: node.to_owned(),
        epoch: 1,
        bus: nkeys::KeyPair::new_user().public_key().parse().unwrap(),
        sealing: nkeys::XKey::new().public_key().parse().unwrap(),
        token: "t".into(),
        joined: now(),
        address: None,
        arch: None,
        facts: "{}".into(),
    };
    identity::put_node_keys(&change, &keys).unwrap();
    change.commit().unwrap();
}

fn users(store: &Store, signer: &Signer) -> UsersFile {
    let accounts = gather::accounts(store, signer, now()).unwrap();
    let body = accounts.body().unwrap();
    UsersFile {
        generation: 1,
        digest: body.digest(),
        text: gather::file(&body, signer).unwrap().into(),
        users: body.users(),
        missing: accounts.missing(),
        gone: gather::gone(store).unwrap(),
    }
}

/// What a loader without a server says of a file: what counts here is whether it wrote it.
fn load(file: &Path, store: &Store, signer: &Signer) -> String {
    let flags = Flags { server: Some("nats://127.0.0.1:1".into()), ..Flags::default() };
    let loader = Loader {
        file: file.to_owned(),
        reload: Reload::Command(vec!["false".into()]),
        connection: config::load(&flags, &|_| None).unwrap(),
        signer: crate::identity::open(store).unwrap(),
    };
    loader.load(&users(store, signer)).unwrap_err()
}

#[test]
fn a_store_without_the_keys_of_the_programs_writes_no_file() {
    let folder = TempDir::new().unwrap();
    let (store, signer) = empty(folder.path());
    let file = folder.path().join("users.conf");
    std::fs::write(&file, "users: []\n").unwrap();
    let why = load(&file, &store, &signer);
    assert!(why.contains("has no key of administrator, controller, reader, seat, vault"), "{why}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "users: []\n");
}

#[test]
fn a_store_that_was_lost_locks_nobody_out_until_a_person_says_so() {
    let (old_folder, new_folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let keys = old_folder.path().join("keys");
    let file = old_folder.path().join("users.conf");
    let (mut old, signer) = empty(old_folder.path());
    join(&mut old, "attic");
    let make = |store: &mut Store, signer: &Signer| {
        broker::users(store, signer, Some(&keys), false, &act("broker users")).unwrap().text
    };
    let first = make(&mut old, &signer);
    assert!(load(&file, &old, &signer).starts_with("there is no "), "the first one is a person's");
    assert!(!file.exists());
    std::fs::write(&file, &first).unwrap();
    // From then on it is written as accounts come and go.
    join(&mut old, "cellar");
    assert!(load(&file, &old, &signer).starts_with("--reload-command"));
    assert!(std::fs::read_to_string(&file).unwrap().contains("# node cellar\n"));
    let change = old.change_inventory(&act("node remove")).unwrap();
    nodes::remove(&change, "attic").unwrap();
    change.commit().unwrap();
    let change = old.change_identity(&act("node remove")).unwrap();
    identity::drop_node_keys(&change, "attic").unwrap();
    change.commit().unwrap();
    assert!(load(&file, &old, &signer).starts_with("--reload-command"));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("# node attic\n") && text.contains("# node cellar\n"));
    // A new empty store, with the same keys of the programs, does not know the node.
    let (mut new, signer) = empty(new_folder.path());
    let wanted = make(&mut new, &signer);
    let why = load(&file, &new, &signer);
    assert!(why.contains("would be locked out: node cellar: bring the right store back"), "{why}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    std::fs::write(&file, &wanted).unwrap();
    assert!(load(&file, &new, &signer).starts_with("--reload-command"), "what a person wrote is loaded");
}
