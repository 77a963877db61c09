//! Damaged state: the last good one is used, the bad file is set aside, and nothing is removed for lack of a record.

use crate::disk::SimDisk;
use crate::node::Node;
use crate::scenario::{self, Round};
use mesh_host::engine::Ended;
use mesh_host::outcome::Outcome;
use mesh_host::state::{Disk as _, Journal};

/// A node after a few applies, with the round that was applied last.
fn after_some_applies(seed: u64) -> (Node, Vec<Round>) {
    let mut node = Node::new(seed);
    let rounds = scenario::rounds(seed);
    for round in &rounds {
        node.hands(round);
        node.apply(round, None).expect("nothing kills it");
    }
    (node, rounds)
}

type Damage = (&'static str, fn(&mut Vec<u8>));

const DAMAGES: [Damage; 4] = [
    ("zero length", Vec::clear),
    ("half of it", |bytes| bytes.truncate(bytes.len() / 2)),
    ("wrong checksum", |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    }),
    ("future version", |bytes| *bytes = future()),
];

/// A snapshot of a version that is not known yet.
fn future() -> Vec<u8> {
    use sha2::Digest as _;
    let json = br#"{"v":2,"seq":9000,"memory":{"everything":"is different"}}"#;
    let sum = mesh_host::digest::hex(&sha2::Sha256::digest(json)[..8]);
    [sum.as_bytes(), b" ", json, b"\n"].concat()
}

#[test]
fn h71_a_damaged_snapshot_is_set_aside_and_the_other_one_has_everything() {
    for seed in 1..=40 {
        for (what, damage) in DAMAGES {
            for name in ["snapshot.1", "snapshot.2"] {
                let (node, _) = after_some_applies(seed);
                let before = node.memory();
                let mut disk = node.disk.clone();
                if disk.read(name).unwrap().is_none() {
                    continue;
                }
                disk.damage(name, damage);
                let (journal, notes) = Journal::open(disk).unwrap();
                assert_eq!(*journal.memory(), before, "seed {seed}: {what} in {name}: {notes:?}");
                assert!(notes.len() == 1 && notes[0].contains(name), "seed {seed}: {what}: {notes:?}");
                let mut disk = journal.into_disk();
                assert!(
                    disk.read(&format!("{name}.bad")).unwrap().is_some(),
                    "{what} in {name} is not set aside"
                );
            }
        }
    }
}

#[test]
fn h71_without_any_state_nothing_is_removed() {
    for seed in 1..=200 {
        let (mut node, rounds) = after_some_applies(seed);
        let seen = node.world.seen();
        let mut disk = SimDisk::new(node.disk.fuse.clone());
        std::mem::swap(&mut disk, &mut node.disk);
        let mut empty = rounds[0].clone();
        empty.desired.clear();
        empty.waiting.clear();
        let ended: Vec<Ended> = node.apply(&empty, None).expect("nothing kills it");
        assert_eq!(ended, [], "seed {seed}");
        assert_eq!(node.world.seen(), seen, "seed {seed}");
        // With the state, the same declaration takes away what this host made.
        node.disk = disk;
        let ended = node.apply(&empty, None).expect("nothing kills it");
        assert!(ended.iter().all(|end| end.verdict.outcome != Outcome::Created), "seed {seed}");
        assert!(node.memory().records.is_empty(), "seed {seed}");
    }
}

#[test]
fn h71_a_journal_that_is_damaged_anywhere_loses_only_what_comes_after() {
    for seed in 1..=40 {
        let mut node = Node::new(seed);
        let rounds = scenario::rounds(seed);
        node.hands(&rounds[0]);
        // Killed late, so that the journal holds entries which no snapshot has.
        if node.apply(&rounds[0], Some(14)).is_some() {
            continue;
        }
        let mut disk = node.disk.clone();
        let Some(bytes) = disk.read("journal").unwrap() else { continue };
        let whole = node.memory();
        for at in (0..bytes.len()).step_by(97) {
            let mut disk = node.disk.clone();
            disk.damage("journal", |bytes| bytes[at] ^= 0x20);
            let (journal, notes) = Journal::open(disk).unwrap();
            let memory = journal.memory();
            let known = |target| whole.records.contains_key(target) || whole.intents.contains_key(target);
            assert!(memory.records.keys().all(known), "seed {seed}, byte {at}: {notes:?}");
            // A line break that is damaged joins two lines; every other byte damages one.
            assert!(!notes.is_empty() || memory == &whole || bytes[at] == b'\n', "seed {seed}, byte {at}");
        }
    }
}
