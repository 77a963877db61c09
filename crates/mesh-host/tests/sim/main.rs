//! The engine against a simulated machine: declarations that change, hands that meddle, refusals, silence, and a kill
//! at every operation. A seed reproduces a run and stands in every message.

mod adoption;
mod archives;
mod chance;
mod disk;
mod fuse;
mod managers;
mod node;
mod runtime;
mod scenario;
mod services;
mod state;
mod world;

use chance::Chance;
use mesh_host::desired::Spec;
use mesh_host::engine::Ended;
use mesh_host::outcome::Outcome;
use node::Node;
use scenario::{FOREIGN, Round};
use std::collections::BTreeSet;
use world::{Planted, Thing};

/// How many seeds the plain run takes; more by hand, with `SIM_SEEDS`.
fn seeds() -> u64 {
    std::env::var("SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

/// What must hold after every apply that came to its end.
fn check(node: &Node, round: &Round, ended: &[Ended]) -> Result<(), String> {
    let memory = node.memory();
    for desired in round.desired.iter().filter(|desired| !round.waiting.contains(&desired.origin)) {
        let end = ended.iter().find(|end| end.id == desired.id && end.target == desired.target());
        let end = end.ok_or(format!("{} is not reported", desired.id))?;
        let failed = !end.verdict.outcome.is_well();
        if failed && end.verdict.detail.contains("was written and") {
            return Err(format!("{}: {}", desired.id, end.verdict.detail));
        }
        if failed {
            continue;
        }
        let record =
            memory.records.get(&desired.target()).ok_or(format!("{} is not recorded", desired.id))?;
        if record.id != desired.id {
            return Err(format!("{} is recorded as {}", desired.id, record.id));
        }
        match &desired.spec {
            Spec::File(file) => {
                let real = node.world.nodes.get(&file.path).ok_or(format!("{} is not there", file.path))?;
                let Thing::File(bytes) = &real.thing else {
                    return Err(format!("{} is not a file", file.path));
                };
                let kept = end.verdict.outcome == Outcome::KeptFile;
                if !kept && (bytes != round.content(&desired.id) || real.mode != file.mode) {
                    return Err(format!("{} is not as declared", file.path));
                }
            }
            Spec::Directory(directory) => {
                let real = node
                    .world
                    .nodes
                    .get(&directory.path)
                    .ok_or(format!("{} is not there", directory.path))?;
                if real.thing != Thing::Directory || real.mode != directory.mode {
                    return Err(format!("{} is not as declared", directory.path));
                }
            }
            Spec::Archive(archive) => {
                for (name, thing) in archives::entries(round.content(&desired.id)) {
                    let path = format!("{}/{name}", archive.path);
                    if node.world.nodes.get(&path).is_none_or(|real| real.thing != thing) {
                        return Err(format!("{path} is not as it was unpacked"));
                    }
                }
            }
            Spec::Access(_) | Spec::Into(_) | Spec::Managed(_) => {}
        }
    }
    for end in ended.iter().filter(|end| end.verdict.outcome.is_well()) {
        if let Some(intents) = memory.intents.get(&end.target) {
            return Err(format!("{} is still begun: {intents:?}", end.target));
        }
    }
    match node.world.nodes.keys().find(|path| path.contains(".mesh-host-")) {
        Some(path) => Err(format!("{path} is left over")),
        None => Ok(()),
    }
}

/// What this host did not make stays as it was left.
fn foreign(node: &Node) -> Vec<Option<(Thing, u32)>> {
    let seen = |path: &&str| node.world.nodes.get(*path).map(|node| (node.thing.clone(), node.mode));
    FOREIGN.iter().map(seen).collect()
}

/// One seed without kills: every apply ends right, and a second one has nothing to do.
fn undisturbed(seed: u64, planted: Option<Planted>) -> Result<(), String> {
    let mut node = Node::new(seed);
    node.world.planted = planted;
    for (number, round) in scenario::rounds(seed).iter().enumerate() {
        let at = |what: String| format!("seed {seed}, round {number}: {what}");
        node.hands(round);
        let before = foreign(&node);
        let ended = node.apply(round, None).expect("nothing kills it");
        check(&node, round, &ended).map_err(at)?;
        if foreign(&node) != before {
            return Err(at("something foreign was touched".to_owned()));
        }
        for original in node.memory().originals.values() {
            if !node.world.kept.contains_key(&original.name) {
                return Err(at("an original is recorded and not kept".to_owned()));
            }
        }
        let failed: BTreeSet<_> =
            ended.iter().filter(|end| !end.verdict.outcome.is_well()).map(|end| &end.id).collect();
        let again = node.apply(round, None).expect("nothing kills it");
        let settled = |end: &&Ended| matches!(end.verdict.outcome, Outcome::Unchanged | Outcome::KeptFile);
        let moved = again.iter().filter(|end| !failed.contains(&end.id)).find(|end| !settled(end));
        if let Some(end) = moved {
            return Err(at(format!("applied again, {} is {:?}", end.id, end.verdict)));
        }
    }
    Ok(())
}

/// One seed with kills: the next apply ends as if nothing had happened.
fn killed(seed: u64, sync_is_lost: bool) -> Result<(), String> {
    let (mut calm, mut torn) = (Node::new(seed), Node::new(seed));
    torn.disk.sync_is_lost = sync_is_lost;
    let mut chance = Chance::new(seed ^ 0x9999);
    let rounds = scenario::rounds(seed);
    for (number, round) in rounds.iter().enumerate() {
        calm.hands(round);
        calm.apply(round, None).expect("nothing kills it");
        torn.hands(round);
        let before = foreign(&torn);
        let mut kills = Vec::new();
        let ended = loop {
            let kill_at = (kills.len() < 3).then(|| chance.below(60) as u64);
            match torn.apply(round, kill_at) {
                Some(ended) => break ended,
                None => kills.extend(kill_at),
            }
        };
        let at = |what: String| format!("seed {seed}, round {number}, killed at {kills:?}: {what}");
        check(&torn, round, &ended).map_err(at)?;
        if foreign(&torn) != before {
            return Err(at("something foreign was touched".to_owned()));
        }
        // What was refused may have been made by something else meanwhile, so that a second apply finds it there.
        if !round.faults.refused.is_empty() {
            calm.apply(round, None).expect("nothing kills it");
            torn.apply(round, None).expect("nothing kills it");
        }
        if torn.world.seen() != calm.world.seen() {
            let (torn, calm) = (torn.world.seen(), calm.world.seen());
            let differs: Vec<_> = torn
                .keys()
                .chain(calm.keys())
                .filter(|path| torn.get(*path) != calm.get(*path))
                .map(|path| format!("{path}: {:?} and undisturbed {:?}", torn.get(path), calm.get(path)))
                .collect();
            return Err(at(differs.join("; ")));
        }
        let (torn, calm) = (torn.memory(), calm.memory());
        if torn.records != calm.records || torn.originals != calm.originals {
            let mut differs = Vec::new();
            for target in torn.records.keys().chain(calm.records.keys()) {
                let (torn, calm) = (torn.records.get(target), calm.records.get(target));
                if torn != calm {
                    differs.push(format!("{torn:?}; undisturbed {calm:?}"));
                }
            }
            let (torn, calm) = (torn.originals, calm.originals);
            differs.push(format!("originals {torn:?}; undisturbed {calm:?}"));
            return Err(at(differs.join("\n")));
        }
    }
    Ok(())
}

#[test]
fn every_apply_ends_as_declared_and_a_second_one_has_nothing_to_do() {
    for seed in 1..=seeds() {
        undisturbed(seed, None).unwrap();
    }
}

#[test]
fn after_a_kill_at_any_operation_the_next_apply_ends_as_if_nothing_had_happened() {
    for seed in 1..=seeds() {
        killed(seed, false).unwrap();
    }
}

#[test]
fn planted_faults_are_found() {
    let all = [
        Planted::WriteIsLost,
        Planted::UnlinkTakesMore,
        Planted::ModeIsLost,
        Planted::OriginalIsLost,
        Planted::EntryIsLost,
        Planted::RemovalTakesMore,
    ];
    for planted in all {
        let found = (1..=200).find(|seed| undisturbed(*seed, Some(planted)).is_err());
        assert!(found.is_some(), "{planted:?} is not found in 200 seeds");
    }
    let found = (1..=200).find(|seed| killed(*seed, true).is_err());
    assert!(found.is_some(), "a disk that loses what was synced is not found in 200 seeds");
}
