//! What there is to do in one apply: a work for each target.

use super::request::{Family, Scope};
use crate::decide::Remember;
use crate::desired::{Desired, Spec};
use crate::facts::{Facts, Question};
use crate::outcome::{Failure, Verdict};
use crate::record::Memory;
use crate::step::{OWN_UNIT, Step};
use crate::target::{Origin, Target};
use mesh_model::resource::{Runs, What};
use std::collections::BTreeSet;

/// What ids of an adopted node's guard begin with.
const GUARD: &str = "adoption.guard-";
/// What ids of everything that comes with an adoption begin with.
const ADOPTION: &str = "adoption.";
/// Where this program lies.
const OWN_PROGRAM: &str = "/usr/bin/mesh-host";
/// The package that brings it.
const OWN_PACKAGE: &str = "mesh-host";

/// The parts of an apply, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// The guard of an adopted node.
    Guard,
    /// What is no longer declared.
    Orphans,
    /// What is declared.
    Apply,
    /// What this host itself is made of: everything else is done by then, should it be ended over it.
    Own,
    /// What an adoption left, once everything else stands without it.
    Late,
}

/// What is to be done about one target.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// Make it so.
    Apply(Desired),
    /// Undo it.
    Remove,
    /// Let go of what is held.
    LetGo,
}

/// The work on one target.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) phase: Phase,
    pub(super) job: Job,
    pub(super) id: String,
    pub(super) origin: Origin,
    pub(super) target: Target,
    pub(super) place: u64,
    pub(super) asked: Vec<Question>,
    pub(super) before: Facts,
    pub(super) did: Vec<Step>,
    pub(super) settles: Option<u64>,
    /// Why a step failed; what was begun is taken back.
    pub(super) failed: Option<Failure>,
    pub(super) end: Option<(Verdict, Remember)>,
    pub(super) told: bool,
}

impl Work {
    fn new(phase: Phase, job: Job, id: String, origin: Origin, target: Target, place: u64) -> Self {
        Self {
            phase,
            job,
            id,
            origin,
            target,
            place,
            asked: Vec::new(),
            before: Facts::default(),
            did: Vec::new(),
            settles: None,
            failed: None,
            end: None,
            told: false,
        }
    }

    /// Whether what comes after it in its module waits for it: an action, or a container that runs once.
    pub(super) fn gates(&self) -> bool {
        let Job::Apply(desired) = &self.job else { return false };
        match &desired.spec {
            Spec::Managed(managed) => match &managed.what {
                What::Action(_) => true,
                What::Container(container) => container.runs == Runs::Once,
                _ => false,
            },
            _ => false,
        }
    }

    /// The work on what is declared.
    pub(super) fn apply(place: u64, desired: Desired, adopted: bool) -> Self {
        let phase = match &desired.spec {
            _ if adopted && desired.id.starts_with(GUARD) => Phase::Guard,
            spec if is_own(spec) => Phase::Own,
            _ => Phase::Apply,
        };
        let (id, origin, target) = (desired.id.clone(), desired.origin.clone(), desired.target());
        Self::new(phase, Job::Apply(desired), id, origin, target, place)
    }
}

/// Whether it is the program itself, its unit or its package.
fn is_own(spec: &Spec) -> bool {
    match spec {
        Spec::File(file) => {
            file.path == OWN_PROGRAM
                || file.path.ends_with(&format!("/{OWN_UNIT}"))
                || file.path.contains(&format!("/{OWN_UNIT}.d/"))
        }
        Spec::Managed(managed) => match &managed.what {
            What::Service(service) => service.unit.to_string() == OWN_UNIT,
            What::Package(package) => package.package.to_string() == OWN_PACKAGE,
            _ => false,
        },
        _ => false,
    }
}

/// What is recorded, or begun, and no longer declared: in reverse order of its declaration.
pub(super) fn orphans(
    memory: &Memory,
    scope: &Scope,
    declared: &BTreeSet<Target>,
    adopted: bool,
) -> Vec<Work> {
    let recorded = memory
        .records
        .iter()
        .map(|(target, record)| (target, record.id.clone(), record.origin.clone(), record.place));
    let begun = memory.intents.iter().filter(|(target, _)| !memory.records.contains_key(target)).filter_map(
        |(target, intents)| {
            let last = intents.last()?;
            Some((target, last.id.clone(), last.origin.clone(), last.place))
        },
    );
    let mut work: Vec<Work> = recorded
        .chain(begun)
        .filter(|(target, _, origin, _)| {
            scope.includes(origin) && !declared.contains(target) && !scope.spoken_for.contains(target)
        })
        .map(|(target, id, origin, place)| {
            let phase = if !adopted && id.starts_with(ADOPTION) { Phase::Late } else { Phase::Orphans };
            Work::new(phase, Job::Remove, id, origin, target.clone(), place)
        })
        .collect();
    work.sort_by_key(|work| std::cmp::Reverse(work.place));
    work
}

/// Holds whose resources are no longer declared by the mesh.
pub(super) fn let_go(memory: &Memory, scope: &Scope, declared: &BTreeSet<Target>) -> Vec<Work> {
    if scope.family != Family::Mesh {
        return Vec::new();
    }
    let gone = memory.holds.iter().filter(|(target, hold)| {
        scope.includes(&hold.origin) && !declared.contains(target) && !scope.spoken_for.contains(target)
    });
    gone.map(|(target, hold)| {
        let (id, origin) = (hold.id.clone(), hold.origin.clone());
        Work::new(Phase::Orphans, Job::LetGo, id, origin, target.clone(), 0)
    })
    .collect()
}
