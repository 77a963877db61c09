use super::*;
use crate::holdings::{Held, List, Seen};
use crate::place::Place;
use crate::task::Once;
use mesh_model::assignment::Consumer;
use mesh_model::sealed::{Label, Sealed};
use mesh_model::secret::Secret;
use mesh_model::standing::Origin;
use nkeys::{KeyPair, XKey};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

fn sealed() -> Sealed {
    let label = Label {
        mesh: "m".into(),
        node: "a".into(),
        module: "w".into(),
        kind: "secret".into(),
        name: "k".into(),
        of: None,
    };
    Sealed::seal(&label, 1, &Secret::copy(b"v"), &XKey::new(), &SealingKey::of(&XKey::new()), [3; 24])
        .unwrap()
}

fn row(revision: u64) -> Row {
    let held = Held {
        origin: Origin::Made,
        key: SealingKey::of(&XKey::new()),
        recovery: Some(SealingKey::of(&XKey::new())),
        provider: None,
    };
    let (place, copy) = (Place::new("a", "w", "k"), sealed());
    Row { place, revision, held, sealed: copy.clone(), recovery: Some(copy), for_provider: None }
}

#[test]
fn what_was_kept_is_there_again() {
    let folder = TempDir::new().unwrap();
    let mut store = Store::make(folder.path()).unwrap();
    let (first, second) = (row(1), row(2));
    store.keep(&first, None).unwrap();
    store.keep(&second, None).unwrap();
    let seen = Seen { epoch: 2, sealing: Some(SealingKey::of(&XKey::new())), sequence: 9 };
    store.remember(Some("m"), &[("a".into(), seen.clone())]).unwrap();
    let consumer = |node: &str| Consumer { node: node.into(), module: "w".into(), name: "db".into() };
    let list = List { revision: 4, members: vec![(consumer("a"), 3)], left_out: vec![consumer("b")] };
    let place = Place::of_list("c", "db", "postgres");
    store.keep_list(&place, &list, &[]).unwrap();
    drop(store);

    let mut store = Store::open(folder.path()).unwrap();
    let holdings = store.holdings().unwrap();
    assert_eq!(holdings.mesh.as_deref(), Some("m"));
    assert_eq!(holdings.newest(&first.place), Some((2, &second.held)));
    assert_eq!(holdings.lists[&place], list);
    assert_eq!(holdings.nodes["a"], seen);
    assert_eq!(store.copy(&first.place, 1).unwrap(), first.sealed);
    assert_eq!(store.copy(&first.place, 3), Err(Failure::Absent));
    store.forget(&first.place, 2).unwrap();
    assert_eq!(store.copy(&first.place, 1), Err(Failure::Absent));
    assert_eq!(store.counts().unwrap(), [1, 1, 1, 1]);
    assert_eq!(store.faults().unwrap(), [""; 0]);
    // What was seen only grows, whatever is written later.
    store.remember(None, &[("a".into(), Seen { epoch: 1, sequence: 1, ..seen })]).unwrap();
    let again = store.holdings().unwrap().nodes["a"].clone();
    assert_eq!((again.epoch, again.sequence), (2, 9));
}

#[test]
fn an_id_is_good_once_and_what_failed_kept_nothing() {
    let folder = TempDir::new().unwrap();
    let mut store = Store::make(folder.path()).unwrap();
    let once = |now| Once { id: "x".into(), now };
    store.keep(&row(1), Some(&once(1_000_000))).unwrap();
    assert_eq!(store.keep(&row(2), Some(&once(1_000_001))), Err(Failure::UsedId));
    assert_eq!(store.copy(&row(2).place, 2), Err(Failure::Absent));
    // The same revision again is refused, and the id of that request is not used.
    let other = Once { id: "y".into(), now: 1_000_002 };
    assert!(matches!(store.keep(&row(1), Some(&other)), Err(Failure::Store(_))));
    assert_eq!(store.use_id(&other), Ok(()));
    assert_eq!(store.use_id(&once(1_000_000 + KEEP_IDS + 1)), Ok(()), "old ids are forgotten");
}

#[test]
fn nobody_else_may_read_it_and_one_program_has_it() {
    let outer = TempDir::new().unwrap();
    let folder = outer.path().join("store");
    assert!(matches!(Store::open(&folder), Err(Unusable::Absent(_))));
    let store = Store::make(&folder).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file(&folder)), mode(&folder.join("lock"))), (0o700, 0o600, 0o600));
    assert!(matches!(Store::open(&folder), Err(Unusable::Locked(_))));
    assert!(Store::look(&folder).is_ok(), "commands may look beside it");
    drop(store);
    assert!(Store::open(&folder).is_ok());
}

#[test]
fn it_belongs_to_one_mesh() {
    let folder = TempDir::new().unwrap();
    let mut store = Store::make(folder.path()).unwrap();
    assert_eq!(store.setup(), Ok(None));
    let key = || KeyPair::new_operator().public_key().parse().unwrap();
    let setup = Setup { mesh: key(), recovery: Some(SealingKey::of(&XKey::new())) };
    store.set_up(&setup).unwrap();
    assert_eq!(store.setup(), Ok(Some(setup.clone())));
    store.set_up(&Setup { recovery: None, ..setup.clone() }).unwrap();
    assert_eq!(store.setup(), Ok(Some(setup)), "a recovery key that is not given again stays");
    let other = store.set_up(&Setup { mesh: key(), recovery: None });
    assert!(matches!(other, Err(Unusable::Unfit(why)) if why.contains("belongs to the mesh")));
}

#[test]
fn migrations_go_forward_with_a_copy_and_whole_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    let path = file(folder.path());
    let mut store = Store::make(folder.path()).unwrap();
    store.keep(&row(1), None).unwrap();
    let more = |sql| [schema::STEPS, &[sql]].concat();
    let broken = store.migrate(
        &path,
        &more("CREATE TABLE x (y INTEGER) STRICT; DELETE FROM secrets; INSERT INTO nowhere VALUES (1);"),
    );
    assert!(matches!(broken, Err(Unusable::Broken(_))));
    assert_eq!(store.copy(&row(1).place, 1).map(drop), Ok(()));
    store.migrate(&path, &more("CREATE TABLE x (y INTEGER) STRICT;")).unwrap();
    let copy = path.with_extension("db.version-1");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    drop(store);
    // To this program the file is of a newer one.
    assert!(
        matches!(Store::open(folder.path()), Err(Unusable::Unfit(why)) if why.contains("use the newer program"))
    );
    assert!(matches!(Store::look(folder.path()), Err(Unusable::Unfit(_))));
}
