use super::*;
use mesh_model::assignment::Alphabet;
use proptest::prelude::*;
use tempfile::TempDir;

struct Bench {
    keeper: Keeper,
    vault: SealingKey,
    host: XKey,
    recovery: XKey,
    _folder: TempDir,
}

fn bench() -> Bench {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let pair = XKey::new();
    let vault = SealingKey::of(&pair);
    let keeper = Keeper::new(Store::make(folder.path()).unwrap(), pair);
    Bench { keeper, vault, host: XKey::new(), recovery: XKey::new(), _folder: folder }
}

impl Bench {
    fn keys(&self) -> Keys {
        Keys { node: SealingKey::of(&self.host), recovery: Some(SealingKey::of(&self.recovery)) }
    }

    fn make(&mut self, place: &Place, revision: u64, alphabet: Alphabet) -> Sealed {
        let (place, keys) = (place.clone(), self.keys());
        let make = Make { bytes: 16, alphabet };
        let work = Work::Make { mesh: "m".into(), place: place.clone(), revision, make, keys, once: None };
        let done = self.keeper.perform(Task { number: 1, work });
        assert!(matches!(done.outcome, Ok(Outcome::Kept(_))), "{done:?}");
        match self.keeper.perform(Task { number: 2, work: Work::Give { place, revision } }).outcome {
            Ok(Outcome::Copy(sealed)) => sealed,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn each_alphabet_gives_its_own_spelling() {
    let mut bench = bench();
    for (name, alphabet, length) in [
        ("a", Alphabet::Base64Url, 22),
        ("b", Alphabet::Base64, 24),
        ("c", Alphabet::Hex, 32),
        ("d", Alphabet::Raw, 16),
    ] {
        let place = Place::new("n", "w", name);
        let sealed = bench.make(&place, 1, alphabet);
        let opened = sealed.open(&bench.host, &bench.vault, &label("m", &place)).unwrap();
        assert_eq!((opened.revision, opened.value.expose().len()), (1, length));
    }
}

#[test]
fn no_two_consumers_share_a_user() {
    let consumer = |node: &str, module: &str, name: &str| Consumer {
        node: node.into(),
        module: module.into(),
        name: name.into(),
    };
    assert_eq!(user(&consumer("attic", "web", "database")), "web_database_attic");
    assert_ne!(user(&consumer("c", "a-b", "d")), user(&consumer("b-c", "a", "d")));
    let long = "n".repeat(60);
    let (one, other) = (user(&consumer(&long, "web", "x")), user(&consumer(&long, "web", "y")));
    assert_ne!(one, other);
    assert!(one.len() == 63 && other.len() == 63);
}

#[test]
fn without_random_bytes_nothing_is_made() {
    let Bench { keeper: Keeper { store, key, .. }, host, .. } = bench();
    let mut keeper = Keeper::with_chance(store, key, Box::new(|_| Err("no random bytes".into())));
    let keys = Keys { node: SealingKey::of(&host), recovery: None };
    let place = Place::new("n", "w", "k");
    let make = Make { bytes: 16, alphabet: Alphabet::Hex };
    let work = Work::Make { mesh: "m".into(), place: place.clone(), revision: 1, make, keys, once: None };
    assert!(matches!(keeper.perform(Task { number: 1, work }).outcome, Err(Failure::Seal(_))));
    let gone = keeper.perform(Task { number: 2, work: Work::Give { place, revision: 1 } });
    assert!(matches!(gone.outcome, Err(Failure::Absent)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// What is sealed opens only for the place, the mesh and the keys that it was made for.
    #[test]
    fn what_is_sealed_opens_only_where_it_was_made_for(
        place in ("[a-z]{1,3}", "[a-z]{1,3}", "[a-z]{1,3}"),
        other in ("[a-z]{1,3}", "[a-z]{1,3}", "[a-z]{1,3}"),
        revision in 1u64..9,
    ) {
        let mut bench = bench();
        let place = Place::new(&place.0, &place.1, &place.2);
        let other = Place::new(&other.0, &other.1, &other.2);
        let sealed = bench.make(&place, revision, Alphabet::Hex);
        let own = label("m", &place);
        let opens = |pair: &XKey, label: &Label| sealed.open(pair, &bench.vault, label).is_ok();
        prop_assert!(opens(&bench.host, &own));
        prop_assert_eq!(opens(&bench.host, &label("m", &other)), place == other);
        prop_assert!(!opens(&bench.host, &label("n", &place)));
        let of_list = Label { kind: "consumers".into(), ..own.clone() };
        prop_assert!(!opens(&bench.host, &of_list));
        let of = Some(Consumer { node: "a".into(), module: "b".into(), name: "c".into() });
        let of_another = Label { of, ..own.clone() };
        prop_assert!(!opens(&bench.host, &of_another));
        prop_assert!(!opens(&XKey::new(), &own) && !opens(&bench.recovery, &own));
        prop_assert!(sealed.open(&bench.host, &SealingKey::of(&XKey::new()), &own).is_err());
    }
}
