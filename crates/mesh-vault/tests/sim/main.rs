//! The vault's machine and its keeper on a simulated bus: messages are lost, connections break, and the program is
//! killed between any two steps, also between a commit and what it tells of it. The store is a real one.
//!
//! One seed is one run: `MESH_SEED=7 cargo test -p mesh-vault --test sim` runs that one alone.

mod bus;
#[path = "../support/mod.rs"]
mod support;
mod world;

use world::{Faults, World};

/// How many seeds a run of the tests takes.
const SEEDS: u64 = 30;

fn seeds() -> Vec<u64> {
    match std::env::var("MESH_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..SEEDS).collect(),
    }
}

#[test]
fn revisions_only_grow_and_no_revision_has_two_values_whatever_is_lost_or_killed() {
    let mut kills = 0;
    for seed in seeds() {
        let mut world = World::new(seed, Faults { loss: 30, kill: 25, cut: 10 });
        world.run(250);
        world.calm();
        world.judge();
        kills += world.kills;
    }
    assert!(kills >= seeds().len(), "the program was killed {kills} times");
}

#[test]
fn a_quiet_bus_needs_no_second_write() {
    let mut world = World::new(1, Faults { loss: 0, kill: 0, cut: 0 });
    world.run(150);
    world.calm();
    world.judge();
    let writes = world.bus.sequence("mesh-vault_revisions");
    world.restart();
    world.calm();
    assert_eq!(world.bus.sequence("mesh-vault_revisions"), writes);
}
