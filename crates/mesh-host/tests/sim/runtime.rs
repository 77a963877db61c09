//! Containers on a simulated runtime that refuses, hangs and does not answer, with kills at every operation.

use crate::chance::Chance;
use crate::disk::SimDisk;
use crate::fuse::Fuse;
use crate::world::KEY;
use mesh_host::apply;
use mesh_host::container::{ContainerStep, Family, Health, Instance, Status, next_name, prev_name};
use mesh_host::desired::{Desired, Managed, Spec};
use mesh_host::engine::{self, Ended, Engine, Request, Scope};
use mesh_host::facts::{Answer, Question};
use mesh_host::machine::{Contents, Machine, Tools};
use mesh_host::outcome::{Failure, Outcome};
use mesh_host::record::Memory;
use mesh_host::state::Journal;
use mesh_host::step::Step;
use mesh_host::target::Origin;
use mesh_model::json::Read as _;
use mesh_model::resource::Resource;
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 3] = ["aa", "bb", "cc"];
const FOREIGN: &str = "theirs";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Real {
    number: u64,
    id: Option<String>,
    digest: String,
    /// The word that it runs: `bad` ends at once.
    word: String,
    status: Status,
    lasts: bool,
}

/// Faults that the checks have to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// Removing by number removes every container.
    RemoveTakesMore,
    /// What is made runs something else than it was told.
    MadeOfSomethingElse,
}

#[derive(Clone, Debug)]
struct Runtime {
    containers: BTreeMap<String, Real>,
    fuse: Fuse,
    next: u64,
    /// Steps on these containers are refused.
    refused: BTreeSet<String>,
    /// Steps on these containers hang, and are given up.
    hangs: BTreeSet<String>,
    silent: bool,
    planted: Option<Planted>,
}

impl Runtime {
    fn new(fuse: Fuse) -> Self {
        let theirs = Real {
            number: 0,
            id: None,
            digest: String::new(),
            word: "good".to_owned(),
            status: Status::Running,
            lasts: true,
        };
        Self {
            containers: [(FOREIGN.to_owned(), theirs)].into(),
            fuse,
            next: 1,
            refused: BTreeSet::new(),
            hangs: BTreeSet::new(),
            silent: false,
            planted: None,
        }
    }

    fn instance(&self, name: &str) -> Option<Instance> {
        let real = self.containers.get(name)?;
        Some(Instance {
            number: real.number.to_string(),
            id: real.id.clone(),
            digest: real.digest.clone(),
            status: real.status,
            started: String::new(),
            restarts: 0,
            health: Health::Unchecked,
            lasts: real.lasts,
        })
    }

    fn burn(&self) -> Result<(), Failure> {
        if self.fuse.burn() { Ok(()) } else { Err(Failure::Failed("killed".to_owned())) }
    }

    fn of(&mut self, name: &str) -> Result<&mut Real, Failure> {
        self.containers.get_mut(name).ok_or_else(|| Failure::Failed(format!("no such container: {name}")))
    }

    fn step(&mut self, step: &ContainerStep) -> Result<(), Failure> {
        self.burn()?;
        if self.refused.contains(step.of()) && !matches!(step, ContainerStep::Rename { .. }) {
            return Err(Failure::Failed("the runtime refuses".to_owned()));
        }
        match step {
            ContainerStep::Pull { .. } => return Err(Failure::Failed("every image is here".to_owned())),
            ContainerStep::Create { name, id, digest, shape, .. } => {
                if self.containers.contains_key(name) {
                    return Err(Failure::Failed(format!("{name} is there already")));
                }
                let digest = format!("v2:{}", digest.as_str().trim_start_matches("keyed:"));
                let other = self.planted == Some(Planted::MadeOfSomethingElse);
                let (number, word) =
                    (self.next, if other { "other".to_owned() } else { shape.args.join(" ") });
                self.next += 1;
                let status = Status::Created;
                let real = Real { number, id: Some(id.clone()), digest, word, status, lasts: false };
                self.containers.insert(name.clone(), real);
            }
            ContainerStep::Start { name, .. } => {
                self.of(name)?.status = Status::Running;
            }
            ContainerStep::Stop { name, .. } => self.of(name)?.status = Status::Exited(137),
            ContainerStep::Rename { from, to, .. } => {
                if self.containers.contains_key(to) {
                    return Err(Failure::Failed(format!("{to} is there already")));
                }
                let real = self.of(from)?.clone();
                self.containers.remove(from);
                self.containers.insert(to.clone(), real);
            }
            ContainerStep::Last { of, .. } => self.of(of)?.lasts = true,
            ContainerStep::Finish { of, .. } => {
                let real = self.of(of)?;
                real.status = Status::Exited(i64::from(real.word == "bad"));
            }
            ContainerStep::Remove { name, number, .. } => {
                let real = self.of(name)?;
                assert_eq!(real.number.to_string(), *number, "another container has the name");
                assert!(real.id.is_some(), "a foreign container is removed");
                self.containers.remove(name);
                if self.planted == Some(Planted::RemoveTakesMore) {
                    self.containers.clear();
                }
            }
        }
        if self.hangs.contains(step.of()) {
            // It was done, and the response did not come in time.
            return Err(Failure::NotAnswered("the runtime hangs".to_owned()));
        }
        self.burn()
    }

    /// What a person sees: names, what they run, and whether they run.
    fn seen(&self) -> BTreeMap<String, (String, bool)> {
        let up = |real: &Real| real.status == Status::Running;
        self.containers.iter().map(|(name, real)| (name.clone(), (real.word.clone(), up(real)))).collect()
    }
}

impl Machine for Runtime {
    fn look(&mut self, questions: &[Question]) -> Vec<Answer> {
        let answer = |question: &Question| match question {
            _ if self.silent => Answer::NotAnswered("the runtime does not answer".to_owned()),
            Question::Container(name) => Answer::Container(Box::new(Family {
                runtime: "docker".to_owned(),
                current: self.instance(name),
                next: self.instance(&next_name(name)),
                prev: self.instance(&prev_name(name)),
            })),
            Question::Image(_) => Answer::Present,
            Question::Content { .. } => {
                Answer::Path(mesh_host::facts::PathAnswer { mount: "/".to_owned(), found: None })
            }
            other => panic!("{other:?} is asked"),
        };
        questions.iter().map(answer).collect()
    }

    fn perform(&mut self, step: &Step, _: &Tools<'_>) -> Result<(), Failure> {
        match step {
            Step::Container(step) => self.step(step),
            other => panic!("{other:?} is done"),
        }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.burn()
    }

    fn wait(&mut self, _: u64) {
        for real in
            self.containers.values_mut().filter(|real| real.word == "bad" && real.status == Status::Running)
        {
            real.status = Status::Exited(1);
        }
    }
}

/// One declaration, and what goes wrong while it is applied.
#[derive(Clone, Debug)]
struct Round {
    desired: Vec<Desired>,
    words: BTreeMap<String, String>,
    refused: BTreeSet<String>,
    hangs: BTreeSet<String>,
    silent: bool,
    /// What a person removes or stops before.
    hands: Vec<(String, bool)>,
}

fn rounds(seed: u64) -> Vec<Round> {
    let mut chance = Chance::new(seed ^ 0xc0ff_ee00);
    let count = 2 + chance.below(4);
    let mut rounds: Vec<Round> = (0..count).map(|_| round(&mut chance)).collect();
    // At last nothing is wrong any more.
    let last = rounds.last_mut().unwrap();
    (last.refused, last.hangs, last.silent) = (BTreeSet::new(), BTreeSet::new(), false);
    rounds
}

fn round(chance: &mut Chance) -> Round {
    let mut words = BTreeMap::new();
    let mut desired = Vec::new();
    for name in NAMES {
        if chance.once_in(4) {
            continue;
        }
        let word = *chance.pick(&["one", "two", "three", "bad"]);
        let once = if name == "cc" { r#","run-once":true"# } else { "" };
        let json = format!(
            r#"{{"id":"web.{name}","type":"container","name":"{name}","image":"lab","args":["{word}"]{once}}}"#
        );
        let what = Resource::from_json_bytes(json.as_bytes()).unwrap().what;
        let spec = Spec::Managed(Box::new(Managed { what, env: None, unit: None, private: false }));
        desired.push(Desired { id: format!("web.{name}"), origin: Origin::Mesh("web".to_owned()), spec });
        words.insert(name.to_owned(), word.to_owned());
    }
    let some = |chance: &mut Chance| {
        let name = (*chance.pick(&NAMES)).to_owned();
        if chance.once_in(5) { BTreeSet::from([name]) } else { BTreeSet::new() }
    };
    let (refused, hangs) = (some(chance), some(chance));
    let mut meddling = Vec::new();
    if chance.once_in(3) {
        meddling.push(((*chance.pick(&NAMES)).to_owned(), chance.once_in(2)));
    }
    Round { desired, words, refused, hangs, silent: chance.once_in(8), hands: meddling }
}

struct Node {
    runtime: Runtime,
    disk: SimDisk,
    chance: Chance,
    now_s: u64,
}

impl Node {
    fn new(seed: u64) -> Self {
        let fuse = Fuse::default();
        let (runtime, disk) = (Runtime::new(fuse.clone()), SimDisk::new(fuse));
        Self { runtime, disk, chance: Chance::new(seed), now_s: 1_000_000 }
    }

    fn memory(&self) -> Memory {
        Journal::open(self.disk.clone()).unwrap().0.memory().clone()
    }

    fn hands(&mut self, round: &Round) {
        for (name, removes) in &round.hands {
            if *removes {
                self.runtime.containers.remove(name);
            } else if let Some(real) = self.runtime.containers.get_mut(name) {
                real.status = Status::Exited(0);
            }
        }
    }

    fn apply(&mut self, round: &Round, again: bool, kill_at: Option<u64>) -> Option<Vec<Ended>> {
        self.runtime.refused.clone_from(&round.refused);
        self.runtime.hangs.clone_from(&round.hangs);
        self.runtime.silent = round.silent;
        let scope = Scope {
            family: engine::Family::Mesh,
            waiting: BTreeSet::new(),
            only: None,
            spoken_for: BTreeSet::new(),
        };
        let request = Request {
            desired: round.desired.clone(),
            scope,
            adopted: false,
            untaken: BTreeSet::new(),
            managers: true,
            owners: true,
            plan: false,
            again,
            now_s: self.now_s,
            key: KEY.clone(),
            state: "/var/lib/mesh-host".to_owned(),
        };
        self.runtime.fuse.light(kill_at);
        let disk = std::mem::take(&mut self.disk);
        let fuse = disk.fuse.clone();
        self.disk = disk.clone();
        let mut ended = Vec::new();
        let done = Journal::open(disk).ok().and_then(|(mut journal, _)| {
            let mut engine = Engine::new(request, journal.memory());
            let contents = Contents::default();
            let result = apply::run(&mut engine, &mut self.runtime, &mut journal, &contents, &mut |end| {
                ended.push(end);
            });
            self.disk = journal.into_disk();
            result.ok()
        });
        self.disk.fuse = fuse;
        self.runtime.fuse.light(None);
        if done.is_none() {
            self.disk.crash(&mut self.chance);
        }
        done.map(|()| ended)
    }
}

/// What must hold after every apply that came to its end.
fn check(
    node: &Node,
    before: &BTreeMap<String, (String, bool)>,
    round: &Round,
    ended: &[Ended],
) -> Result<(), String> {
    let seen = node.runtime.seen();
    if seen.get(FOREIGN) != Some(&("good".to_owned(), true)) {
        return Err("a foreign container was touched".to_owned());
    }
    let undisturbed =
        |name: &str| !round.silent && !round.refused.contains(name) && !round.hangs.contains(name);
    for end in ended.iter().filter(|end| undisturbed(&end.target.name)) {
        let name = end.target.name.as_str();
        if seen.contains_key(&next_name(name)) || seen.contains_key(&prev_name(name)) {
            return Err(format!("an exchange of {name} left something: {seen:?}; {:?}", end.verdict));
        }
        let found = seen.get(name);
        match (round.words.get(name), name == "cc", end.verdict.outcome.is_well()) {
            (None, _, _) if found.is_some() => return Err(format!("{name} is still there")),
            (Some(word), false, true) if found != Some(&(word.clone(), true)) => {
                return Err(format!("{name} is {found:?} and {word} is declared"));
            }
            (Some(_), true, true) if found.is_some() => {
                return Err(format!("{name} has ended and is still there"));
            }
            // What could not be made leaves what ran before.
            (Some(_), false, false) => match before.get(name) {
                Some((old, true)) if old != "bad" && found != Some(&(old.clone(), true)) => {
                    return Err(format!("{name} failed, {old} ran before and now {found:?}"));
                }
                _ => {}
            },
            _ => {}
        }
    }
    Ok(())
}

fn undisturbed(seed: u64, planted: Option<Planted>) -> Result<(), String> {
    let mut node = Node::new(seed);
    node.runtime.planted = planted;
    for (number, round) in rounds(seed).iter().enumerate() {
        let at = |what: String| format!("seed {seed}, round {number}: {what}");
        node.hands(round);
        let before = node.runtime.seen();
        let ended = node.apply(round, false, None).ok_or_else(|| at("it was killed".to_owned()))?;
        check(&node, &before, round, &ended).map_err(at)?;
        let well: BTreeSet<_> =
            ended.iter().filter(|end| end.verdict.outcome.is_well()).map(|end| end.id.clone()).collect();
        let again = node.apply(round, false, None).ok_or_else(|| at("it was killed".to_owned()))?;
        let moved =
            again.iter().find(|end| well.contains(&end.id) && end.verdict.outcome != Outcome::Unchanged);
        if let Some(end) = moved {
            return Err(at(format!("applied again, {} is {:?}", end.id, end.verdict)));
        }
    }
    Ok(())
}

/// With kills: the next apply ends as if nothing had happened. What failed is tried again at once in both.
fn killed(seed: u64) -> Result<(), String> {
    let (mut calm, mut torn) = (Node::new(seed), Node::new(seed));
    let mut chance = Chance::new(seed ^ 0x7777);
    for (number, round) in rounds(seed).iter().enumerate() {
        // Only what follows from the declaration is compared: a kill in a refusal may come before or after it.
        let round =
            Round { refused: BTreeSet::new(), hangs: BTreeSet::new(), silent: false, ..round.clone() };
        calm.hands(&round);
        torn.hands(&round);
        let before = torn.runtime.seen();
        calm.apply(&round, true, None).expect("nothing kills it");
        let mut kills = Vec::new();
        let ended = loop {
            let kill_at = (kills.len() < 3).then(|| chance.below(70) as u64);
            match torn.apply(&round, true, kill_at) {
                Some(ended) => break ended,
                None => kills.extend(kill_at),
            }
        };
        let at = |what: String| format!("seed {seed}, round {number}, killed at {kills:?}: {what}");
        check(&torn, &before, &round, &ended).map_err(at)?;
        let (torn_seen, calm_seen) = (torn.runtime.seen(), calm.runtime.seen());
        if torn_seen != calm_seen {
            return Err(at(format!("{torn_seen:?}; undisturbed {calm_seen:?}")));
        }
        let records = |node: &Node| {
            let memory = node.memory();
            memory.records.into_iter().map(|(target, record)| (target, record.written)).collect::<Vec<_>>()
        };
        if records(&torn) != records(&calm) {
            return Err(at(format!("{:?}; undisturbed {:?}", records(&torn), records(&calm))));
        }
    }
    Ok(())
}

#[test]
fn containers_end_as_declared_or_as_they_were_and_a_second_apply_has_nothing_to_do() {
    for seed in 1..=crate::seeds() {
        undisturbed(seed, None).unwrap();
    }
}

#[test]
fn h49_after_a_kill_at_any_step_of_an_exchange_there_is_one_container_of_the_right_name() {
    for seed in 1..=crate::seeds() {
        killed(seed).unwrap();
    }
}

#[test]
fn planted_faults_of_a_runtime_are_found() {
    for planted in [Planted::RemoveTakesMore, Planted::MadeOfSomethingElse] {
        let found = (1..=200).find(|seed| undisturbed(*seed, Some(planted)).is_err());
        assert!(found.is_some(), "{planted:?} is not found in 200 seeds");
    }
}
