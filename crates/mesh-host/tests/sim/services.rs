//! Units, packages and actions with managers that refuse, hang, or do not answer, hands that meddle, and kills.

use crate::chance::Chance;
use crate::managers::{CONFIG, Faults, Unit};
use crate::node::Node;
use crate::scenario::{self, Round};
use crate::seeds;
use mesh_host::desired::{Desired, File, Managed, Spec};
use mesh_host::digest::Digest;
use mesh_host::engine::{Ended, Request};
use mesh_host::facts::Manager;
use mesh_host::outcome::Outcome;
use mesh_host::target::Origin;
use mesh_model::json::Read as _;
use mesh_model::resource::Resource;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The units of the machine, and the one that a package brings.
const UNITS: [&str; 3] = ["a.service", "b.service", "p.service"];
const FOREIGN: &str = "foreign.service";

/// One declaration of managed things, and what happens before it is applied.
struct Turn {
    round: Round,
    faults: Faults,
    hands: Vec<&'static str>,
}

impl Turn {
    fn request(&self) -> Request {
        Request { managers: true, ..self.round.request() }
    }
}

fn managed(resource: &Value) -> Desired {
    let read = Resource::from_json_bytes(resource.to_string().as_bytes()).unwrap();
    let what = Managed { what: read.what, env: None, unit: None, private: false };
    Desired {
        id: read.id.to_string(),
        origin: Origin::Mesh("web".to_owned()),
        spec: Spec::Managed(Box::new(what)),
    }
}

fn declared(chance: &mut Chance) -> (Vec<Desired>, Vec<u8>) {
    let bytes = chance.pick(&["one", "two", "three"]).as_bytes().to_vec();
    let file = File {
        path: CONFIG.to_owned(),
        digest: Digest::plain(&bytes),
        mode: 0o644,
        owner: None,
        create_once: false,
        in_place: false,
        through_link: false,
    };
    let mut desired = vec![Desired {
        id: "web.conf".to_owned(),
        origin: Origin::Mesh("web".to_owned()),
        spec: Spec::File(file),
    }];
    let package = !chance.once_in(3);
    if package {
        desired.push(managed(&json!({"id": "web.p", "type": "package", "package": "p"})));
    }
    if chance.once_in(2) {
        let action = json!({"id": "web.act", "type": "action", "command": ["act"], "verify": ["act"]});
        desired.push(managed(&action));
    }
    for unit in UNITS {
        if chance.once_in(3) || unit == "p.service" && !package {
            continue;
        }
        let mut service = json!({"id": format!("web.{}", &unit[..1]), "type": "service", "unit": unit,
            "state": chance.pick(&["running", "running", "stopped"]), "restart-on": ["web.conf"]});
        if chance.once_in(2) {
            service["boot"] = json!(chance.pick(&["enabled", "disabled"]));
        }
        desired.push(managed(&service));
    }
    (desired, bytes)
}

fn turns(seed: u64) -> Vec<Turn> {
    let mut chance = Chance::new(seed ^ 0x7777);
    let count = 2 + chance.below(4);
    (0..count)
        .map(|number| {
            let mut round = scenario::rounds(1).remove(0);
            let (desired, bytes) = declared(&mut chance);
            round.desired = desired;
            round.waiting.clear();
            round.set_content("web.conf", bytes);
            let mut faults = Faults::default();
            let some = |chance: &mut Chance| {
                let all = ["a.service", "b.service", "p.service", "p", "act"];
                if chance.once_in(4) {
                    BTreeSet::from([(*chance.pick(&all)).to_owned()])
                } else {
                    BTreeSet::new()
                }
            };
            // In the last turn nothing is wrong any more.
            if number + 1 < count {
                (faults.refuse, faults.hang, faults.die) =
                    (some(&mut chance), some(&mut chance), some(&mut chance));
                if chance.once_in(6) {
                    let all = [Manager::Services, Manager::Packages, Manager::Commands];
                    faults.silent.insert(*chance.pick(&all));
                }
            }
            let hands = (0..chance.below(3)).map(|_| *chance.pick(&UNITS)).collect();
            Turn { round, faults, hands }
        })
        .collect()
}

fn node(seed: u64) -> Node {
    let mut node = Node::new(seed);
    let mut chance = Chance::new(seed ^ 0x3333);
    node.world.faults = crate::world::Faults::default();
    for name in ["a.service", "b.service", FOREIGN] {
        let (runs, enabled) = (chance.once_in(2), chance.once_in(2));
        node.world.managers.units.insert(name.to_owned(), Unit { runs, enabled, with: None });
    }
    node
}

fn hands(node: &mut Node, turn: &Turn, seed: u64) {
    let mut chance = Chance::new(seed ^ 0x1212);
    for name in &turn.hands {
        node.world.managers.meddle(name, &mut chance);
    }
    node.world.managers.faults = turn.faults.clone();
    node.world.faults = crate::world::Faults::default();
}

/// What must hold after an apply that came to its end.
fn check(node: &Node, turn: &Turn, ended: &[Ended]) -> Result<(), String> {
    let memory = node.memory();
    for desired in &turn.round.desired {
        let end = ended.iter().find(|end| end.id == desired.id && end.target == desired.target());
        let end = end.ok_or(format!("{} is not reported", desired.id))?;
        if !end.verdict.outcome.is_well() {
            continue;
        }
        let record =
            memory.records.get(&desired.target()).ok_or(format!("{} is not recorded", desired.id))?;
        if record.id != desired.id {
            return Err(format!("{} is recorded as {}", desired.id, record.id));
        }
        let Spec::Managed(managed) = &desired.spec else { continue };
        match &managed.what {
            mesh_model::resource::What::Service(service) => {
                let unit = &node.world.managers.units[&service.unit.to_string()];
                let wanted = service.state == Some(mesh_model::resource::State::Running);
                if unit.runs != wanted {
                    return Err(format!("{} runs: {}, and {wanted} is declared", desired.id, unit.runs));
                }
                let enabled = service.boot.map(|boot| boot == mesh_model::resource::Boot::Enabled);
                if enabled.is_some_and(|enabled| enabled != unit.enabled) {
                    return Err(format!("{} is enabled: {}", desired.id, unit.enabled));
                }
                // H01, H02: a restart that failed or was cut off is still owed.
                let config = turn.round.content("web.conf");
                let conf = ended.iter().any(|end| end.id == "web.conf" && end.verdict.outcome.is_well());
                let old = unit.with.as_deref().is_some_and(|with| with != config);
                if wanted && conf && old {
                    return Err(format!(
                        "{} runs with {:?}, and {config:?} lies there",
                        desired.id, unit.with
                    ));
                }
            }
            mesh_model::resource::What::Package(package)
                if !node.world.managers.packages.contains(&package.package.to_string()) =>
            {
                return Err(format!("{} is not installed", desired.id));
            }
            _ => {}
        }
    }
    // A gate closes for its own module, and everything before it stands.
    let gate = ended.iter().find(|end| end.id == "web.act" && !end.verdict.outcome.is_well());
    let after = |end: &&Ended| ["web.a", "web.b"].contains(&end.id.as_str());
    let attempted = |end: &&Ended| !matches!(end.verdict.outcome, Outcome::NotAttempted(_));
    let is_declared = |end: &&Ended| turn.round.desired.iter().any(|desired| desired.id == end.id);
    if gate.is_some()
        && let Some(end) = ended.iter().filter(is_declared).filter(after).find(attempted)
    {
        return Err(format!("{} is {:?} behind a closed gate", end.id, end.verdict.outcome));
    }
    Ok(())
}

fn run(seed: u64, lost: bool) -> Result<(), String> {
    let (mut calm, mut torn) = (node(seed), node(seed));
    (calm.world.managers.restart_is_lost, torn.world.managers.restart_is_lost) = (lost, lost);
    let foreign = calm.world.managers.units[FOREIGN].clone();
    let mut chance = Chance::new(seed ^ 0x9999);
    for (number, turn) in turns(seed).iter().enumerate() {
        hands(&mut calm, turn, seed);
        let ended = calm.request(turn.request(), &turn.round, None).expect("nothing kills it");
        let at = |what: String| format!("seed {seed}, turn {number}: {what}");
        check(&calm, turn, &ended).map_err(at)?;
        hands(&mut torn, turn, seed);
        let mut kills = Vec::new();
        let ended = loop {
            let kill_at = (kills.len() < 3).then(|| chance.below(50) as u64);
            match torn.request(turn.request(), &turn.round, kill_at) {
                Some(ended) => break ended,
                None => kills.extend(kill_at),
            }
        };
        let at = |what: String| format!("seed {seed}, turn {number}, killed at {kills:?}: {what}");
        check(&torn, turn, &ended).map_err(at)?;
        for node in [&calm, &torn] {
            if node.world.managers.units[FOREIGN] != foreign {
                return Err(at("a foreign unit was touched".to_owned()));
            }
        }
    }
    // Nothing is wrong any more: a second apply has nothing to do, killed before or not.
    let end_turn = turns(seed).pop().unwrap();
    for node in [&mut calm, &mut torn] {
        node.world.managers.faults = Faults::default();
        node.request(end_turn.request(), &end_turn.round, None).expect("nothing kills it");
        let again = node.request(end_turn.request(), &end_turn.round, None).expect("nothing kills it");
        if let Some(end) = again.iter().find(|end| end.verdict.outcome != Outcome::Unchanged) {
            return Err(format!("seed {seed}: applied again, {} is {:?}", end.id, end.verdict));
        }
    }
    Ok(())
}

#[test]
fn units_packages_and_actions_end_as_declared_whatever_managers_and_kills_do() {
    for seed in 1..=seeds() {
        run(seed, false).unwrap();
    }
}

#[test]
fn a_restart_that_did_nothing_is_found() {
    let found = (1..=200).find(|seed| run(*seed, true).is_err());
    assert!(found.is_some(), "a lost restart is not found in 200 seeds");
}
