//! Managers of the simulated machine: units, packages and commands, in memory. They refuse, hang, or do not answer.

use crate::chance::Chance;
use mesh_host::container::{Family, Health, HeldPort, Instance, Status};
use mesh_host::facts::{Answer, Load, Manager, Question, UnitFact};
use mesh_host::outcome::Failure;
use mesh_host::step::{BootStep, PackageStep, ServiceStep, Step};
use std::collections::{BTreeMap, BTreeSet};

/// What every unit reads when it starts.
pub(crate) const CONFIG: &str = "/etc/x";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) runs: bool,
    pub(crate) enabled: bool,
    /// What it read when it was last started.
    pub(crate) with: Option<Vec<u8>>,
}

/// How managers go wrong, for the time of one apply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Jobs of these units fail, and so do these packages and commands.
    pub(crate) refuse: BTreeSet<String>,
    /// Jobs of these are done, and the response does not come in time.
    pub(crate) hang: BTreeSet<String>,
    /// These start, and end soon after.
    pub(crate) die: BTreeSet<String>,
    /// These answer nothing at all.
    pub(crate) silent: BTreeSet<Manager>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Managers {
    pub(crate) units: BTreeMap<String, Unit>,
    pub(crate) packages: BTreeSet<String>,
    /// The commands that were run, and made true what they say.
    pub(crate) done: BTreeSet<String>,
    /// The ports on which something listens.
    pub(crate) listening: BTreeSet<HeldPort>,
    /// Somebody else's containers.
    pub(crate) found: BTreeSet<String>,
    pub(crate) faults: Faults,
    /// A planted fault: a restart says that it went well, and nothing happened.
    pub(crate) restart_is_lost: bool,
}

impl Managers {
    pub(crate) fn look(&self, question: &Question) -> Answer {
        if self.faults.silent.contains(&question.manager()) {
            return Answer::NotAnswered("it does not answer".to_owned());
        }
        match question {
            Question::Unit(name) => Answer::Unit(self.fact(name)),
            Question::UnitLog(_) => Answer::Text("last words".to_owned()),
            Question::Package(name) if self.packages.contains(name) => {
                Answer::Package("installed".to_owned())
            }
            Question::Holds(check) => {
                Answer::Holds { yes: self.done.contains(&check.command.join(" ")), said: String::new() }
            }
            Question::Listener(port) if self.listening.contains(port) => Answer::Present,
            Question::Package(_) | Question::Listener(_) | Question::Network(_) => Answer::Absent,
            Question::Image(_) => Answer::Present,
            Question::Container(name) => Answer::Container(Box::new(Family {
                runtime: "podman".to_owned(),
                current: self.found.contains(name).then(|| Instance {
                    number: "1".to_owned(),
                    id: None,
                    digest: String::new(),
                    status: Status::Running,
                    started: String::new(),
                    restarts: 0,
                    health: Health::Unchecked,
                    lasts: true,
                }),
                next: None,
                prev: None,
            })),
            _ => Answer::NotAnswered("not simulated".to_owned()),
        }
    }

    fn fact(&self, name: &str) -> UnitFact {
        let unit = self.units.get(name);
        let runs = unit.is_some_and(|unit| unit.runs);
        let text = |yes: bool, then: &str, otherwise: &str| if yes { then } else { otherwise }.to_owned();
        UnitFact {
            load: if unit.is_some() { Load::Loaded } else { Load::Absent },
            active: text(runs, "active", "inactive"),
            sub: text(runs, "running", "dead"),
            boot: text(unit.is_some_and(|unit| unit.enabled), "enabled", "disabled"),
            stale: false,
            links_differ: false,
            restarts: 0,
            result: "success".to_owned(),
            exit: 0,
        }
    }

    /// `config` is what lies at [`CONFIG`] now.
    pub(crate) fn perform(&mut self, step: &Step, config: Option<Vec<u8>>) -> Result<(), Failure> {
        let name = match step {
            Step::Service(
                ServiceStep::Boot { unit, .. }
                | ServiceStep::Start { unit, .. }
                | ServiceStep::Restart { unit, .. }
                | ServiceStep::Reload { unit, .. }
                | ServiceStep::Stop { unit },
            ) => unit.clone(),
            Step::Package(PackageStep::Install { package }) => package.clone(),
            Step::Action(action) => action.command.command.join(" "),
            _ => return Err(Failure::Failed("not simulated".to_owned())),
        };
        if self.faults.refuse.contains(&name) {
            return Err(Failure::Failed(format!("{name} is refused")));
        }
        match step {
            Step::Package(_) => {
                // A package brings its unit, started and enabled, as packages do.
                self.packages.insert(name.clone());
                let unit = Unit { runs: true, enabled: true, with: config };
                self.units.entry(format!("{name}.service")).or_insert(unit);
            }
            Step::Action(_) => drop(self.done.insert(name.clone())),
            Step::Service(step) => {
                let dies = self.faults.die.contains(&name);
                let unit = self.units.get_mut(&name).expect("a job of a unit that is not there");
                match step {
                    ServiceStep::Boot { to, .. } => unit.enabled = *to != BootStep::Disable,
                    ServiceStep::Stop { .. } => unit.runs = false,
                    ServiceStep::Restart { .. } if self.restart_is_lost => {}
                    ServiceStep::Start { .. } | ServiceStep::Restart { .. } => {
                        unit.runs = !dies;
                        unit.with = config;
                    }
                    _ => unit.with = config,
                }
            }
            _ => {}
        }
        if self.faults.hang.contains(&name) {
            return Err(Failure::NotAnswered(format!("{name} did not answer in time")));
        }
        Ok(())
    }

    /// A change by a person.
    pub(crate) fn meddle(&mut self, name: &str, chance: &mut Chance) {
        let Some(unit) = self.units.get_mut(name) else { return };
        match chance.below(3) {
            0 => unit.runs = false,
            1 => unit.enabled = !unit.enabled,
            _ => {}
        }
    }
}
