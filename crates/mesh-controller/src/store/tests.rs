use super::*;
use mesh_model::keys::BusKey;
use tempfile::TempDir;

pub(crate) fn act(command: &str) -> acts::Act<'_> {
    acts::Act { at: now(), who: "test", command, what: "", why: None }
}

pub(crate) fn store() -> (TempDir, Store) {
    let folder = TempDir::new().unwrap();
    let paths = Paths::below(folder.path());
    migrate(&paths).unwrap();
    let mut store = Store::open(&paths).unwrap();
    crate::identity::make(&mut store, &act("migrate")).unwrap();
    (folder, store)
}

fn sent(fence: u64, value: Option<&[u8]>) -> sent::Sent {
    sent::Sent {
        bucket: sent::Bucket::Assignments,
        key: "attic.web".into(),
        node: "attic".into(),
        module: "web".into(),
        value: value.map(<[u8]>::to_vec),
        sequence: 1,
        fence,
        done: false,
        revision: 0,
        at: 0,
    }
}

fn ours(taken: lease::Taken) -> lease::Lease {
    match taken {
        lease::Taken::Ours(lease) => lease,
        lease::Taken::Theirs(row) => panic!("held by {row:?}"),
    }
}

#[test]
fn a_change_and_its_act_are_one() {
    let (_folder, mut store) = store();
    let change = store.change_inventory(&act("node add")).unwrap();
    nodes::add(&change, "attic", false, None, Some("home")).unwrap();
    drop(change);
    assert!(nodes::all(store.inventory()).unwrap().is_empty());
    assert!(acts::since(store.inventory(), 0).unwrap().is_empty());

    let change = store.change_inventory(&act("node add")).unwrap();
    nodes::add(&change, "attic", false, None, Some("home")).unwrap();
    assert_eq!(
        nodes::add(&change, "mesh-x", false, None, None).unwrap_err().to_string(),
        "\"mesh-x\" is a name of the mesh's own"
    );
    change.commit().unwrap();
    assert_eq!(nodes::all(store.inventory()).unwrap()[0].zone.as_deref(), Some("home"));
    assert_eq!(acts::since(store.inventory(), 0).unwrap()[0].command, "node add");
    assert_eq!(
        nodes::expect(store.inventory(), "atic").unwrap_err().to_string(),
        "there is no node atic; did you mean attic?"
    );
}

#[test]
fn a_store_that_is_not_there_says_how_to_make_it() {
    let folder = TempDir::new().unwrap();
    let error = Store::open(&Paths::below(folder.path())).unwrap_err().to_string();
    assert!(error.contains("mesh-controller migrate") && error.contains("MESH_STORE_INVENTORY"), "{error}");
}

#[test]
fn a_file_can_be_named_by_a_variable_or_by_a_file_that_a_variable_names() {
    let folder = TempDir::new().unwrap();
    let holder = folder.path().join("name");
    std::fs::write(&holder, "/elsewhere/inventory.db\n").unwrap();
    let holder_text = holder.display().to_string();
    let of = |asked: &str| (asked == "MESH_STORE_INVENTORY_FILE").then(|| holder_text.clone());
    let found = Paths::find(&of).unwrap();
    assert_eq!(found.inventory, Path::new("/elsewhere/inventory.db"));
    assert_eq!(found.identity, Path::new("/var/lib/mesh-controller/identity.db"));
    assert_eq!(found.key(), Path::new("/var/lib/mesh-controller/identity.nk"));
    let both = |_: &str| Some("x".to_owned());
    assert!(Paths::find(&both).unwrap_err().to_string().contains("are both set"));
}

#[test]
fn c04_a_lease_that_was_lost_writes_nothing_any_more() {
    let (_folder, mut store) = store();
    let old = ours(lease::take(&mut store, "old", 0).unwrap());
    let change = store.note_inventory().unwrap();
    sent::intend(&change, &sent(old.fence, Some(b"1"))).unwrap();
    change.commit().unwrap();
    // The holder is paused for longer than the lease lives; another process takes it.
    let change = store.note_inventory().unwrap();
    change.execute("UPDATE lease SET renewed = renewed - 20000", []).unwrap();
    change.commit().unwrap();
    let new = ours(lease::take(&mut store, "new", 0).unwrap());
    assert!(new.fence > old.fence);
    let change = store.note_inventory().unwrap();
    let error = sent::intend(&change, &sent(old.fence, Some(b"2"))).unwrap_err().to_string();
    assert!(error.contains("has the fence 1, and new has 2"), "{error}");
    assert!(sent::done(&change, old.fence, &sent(old.fence, Some(b"1")), 9).is_err());
    drop(change);
    assert!(old.renew(&mut store).is_err());
    old.release(&mut store).unwrap();
    assert_eq!(lease::row(store.inventory()).unwrap().holder.as_deref(), Some("new"));
}

#[test]
fn a_living_lease_is_not_taken_and_a_fence_only_grows() {
    let (_folder, mut store) = store();
    let lease = ours(lease::take(&mut store, "serve", 40).unwrap());
    assert_eq!(lease.fence, 41);
    assert!(
        matches!(lease::take(&mut store, "push", 0).unwrap(), lease::Taken::Theirs(row) if row.fence == 41)
    );
    lease.release(&mut store).unwrap();
    assert_eq!(ours(lease::take(&mut store, "push", 7).unwrap()).fence, 42);
}

#[test]
fn r06_the_lease_of_a_process_that_ended_is_free_at_once() {
    let (_folder, mut store) = store();
    let change = store.note_inventory().unwrap();
    // As a killed process leaves it: a young row, and no lock.
    let sql = "UPDATE lease SET holder = 'serve', pid = 1, fence = 7, renewed = ?1";
    change.execute(sql, [now()]).unwrap();
    change.commit().unwrap();
    assert_eq!(ours(lease::take(&mut store, "push", 0).unwrap()).fence, 8);
}

#[test]
fn what_was_intended_is_done_only_as_it_was_intended() {
    let (_folder, mut store) = store();
    let lease = ours(lease::take(&mut store, "push", 0).unwrap());
    let first = sent(lease.fence, Some(b"1"));
    let change = store.note_inventory().unwrap();
    sent::intend(&change, &first).unwrap();
    // Before the bus answers, something newer is intended.
    sent::intend(&change, &sent(lease.fence, Some(b"2"))).unwrap();
    sent::done(&change, lease.fence, &first, 5).unwrap();
    let found = sent::get(&change, first.bucket, &first.key).unwrap().unwrap();
    assert_eq!((found.done, found.revision, found.value.as_deref()), (false, 5, Some(&b"2"[..])));
    sent::done(&change, lease.fence, &found, 6).unwrap();
    assert!(sent::undone(&change).unwrap().is_empty());
    let gone = sent(lease.fence, None);
    sent::intend(&change, &gone).unwrap();
    assert_eq!(sent::undone(&change).unwrap()[0].revision, 6);
    sent::done(&change, lease.fence, &gone, 7).unwrap();
    assert!(sent::all(&change).unwrap().is_empty());
}

#[test]
fn a_former_key_is_known_and_epochs_only_grow() {
    let (_folder, mut store) = store();
    let key = || nkeys::KeyPair::new_user().public_key().parse::<BusKey>().unwrap();
    let keys = |epoch, bus: &BusKey| identity::NodeKeys {
        node: "attic".into(),
        epoch,
        bus: bus.clone(),
        sealing: nkeys::XKey::new().public_key().parse().unwrap(),
        token: "t".into(),
        joined: 0,
        address: None,
        arch: Some("x86_64".into()),
        facts: "{}".into(),
    };
    let (first, second) = (key(), key());
    let change = store.change_identity(&act("join")).unwrap();
    identity::put_node_keys(&change, &keys(1, &first)).unwrap();
    identity::put_node_keys(&change, &keys(2, &second)).unwrap();
    assert_eq!(identity::owner_of(&change, &first).unwrap(), Some(("attic".into(), false)));
    assert_eq!(identity::owner_of(&change, &second).unwrap(), Some(("attic".into(), true)));
    identity::drop_node_keys(&change, "attic").unwrap();
    assert_eq!(identity::owner_of(&change, &second).unwrap(), Some(("attic".into(), false)));
    assert_eq!(identity::highest_epoch(&change, "attic").unwrap(), 2);
}

#[test]
fn m04_a_key_that_is_not_the_meshs_is_refused() {
    let (_folder, store) = store();
    crate::identity::open(&store).unwrap();
    let other = nkeys::KeyPair::new_operator();
    std::fs::write(store.paths.key(), other.seed().unwrap()).unwrap();
    let error = crate::identity::open(&store).err().unwrap().to_string();
    assert!(error.contains(&other.public_key()) && error.contains("put the right file there"), "{error}");
    std::fs::remove_file(store.paths.key()).unwrap();
    assert!(crate::identity::open(&store).err().unwrap().to_string().contains("restore it from a backup"));
}

#[test]
fn m05_the_log_stays_small() {
    let (folder, mut store) = store();
    let change = store.change_inventory(&act("node add")).unwrap();
    nodes::add(&change, "attic", false, None, None).unwrap();
    change.commit().unwrap();
    for revision in 1..=1500 {
        let change = store.note_inventory().unwrap();
        let heard = nodes::Heard { at: 0, revision, body: vec![b'x'; 8000] };
        assert!(nodes::note_report(&change, "attic", &heard).unwrap());
        change.commit().unwrap();
    }
    let log = std::fs::metadata(folder.path().join("inventory.db-wal")).unwrap().len();
    assert!(log <= 8 * 1024 * 1024, "{log} bytes");
}

#[test]
fn a_node_that_comes_back_finds_no_settings_of_the_removed_one() {
    let (_folder, mut store) = store();
    let change = store.change_inventory(&act("node add")).unwrap();
    nodes::add(&change, "attic", false, None, None).unwrap();
    nodes::add(&change, "cellar", false, None, None).unwrap();
    inventory::put_module(&change, "web", "1", b"{}").unwrap();
    for node in [None, Some("attic"), Some("cellar")] {
        inventory::put_layer(&change, "web", node, b"{}").unwrap();
    }
    nodes::remove(&change, "attic").unwrap();
    nodes::add(&change, "attic", false, None, None).unwrap();
    let left: Vec<Option<String>> =
        inventory::layers(&change).unwrap().into_iter().map(|layer| layer.node).collect();
    assert_eq!(left, [None, Some("cellar".to_owned())]);
}

#[test]
fn r06_the_lease_of_a_killed_process_is_free_at_once_where_the_next_one_has_its_number() {
    let (_folder, mut store) = store();
    let change = store.note_inventory().unwrap();
    // As in a container, where the first process is always number 1.
    let sql = "UPDATE lease SET holder = 'serve', pid = ?1, fence = 7, renewed = ?2";
    change.execute(sql, rusqlite::params![std::process::id(), now()]).unwrap();
    change.commit().unwrap();
    assert_eq!(ours(lease::take(&mut store, "serve", 0).unwrap()).fence, 8);
}
