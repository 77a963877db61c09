//! The managers of the machine: service manager, package manager, container runtime, firewall, accounts.
//!
//! Each answers its questions with as few processes as possible, and performs its steps.

mod action;
pub mod command;
mod firewall;
mod listener;
mod package;
mod runtime;
mod service;
mod user;

pub use user::Users;

pub(crate) use firewall::{Told, confirm, undone};
pub use runtime::{RunOf, Runtime, Runtimes};

use crate::facts::{Answer, Manager, Question};
use crate::machine::{Contents, Tools};
use crate::outcome::Failure;
use crate::step::{PackageStep, Step};
use firewall::Firewall;
use package::Packages;
use service::Services;
use std::path::Path;
use std::rc::Rc;

/// The managers that were found on this machine.
#[derive(Debug)]
pub struct Managers {
    services: Services,
    packages: Packages,
    runtimes: Runtimes,
    firewall: Firewall,
    contents: Rc<Contents>,
}

impl Managers {
    /// Looks for the managers of this machine. `contents` holds the environments of commands; `run` is the folder of what
    /// does not outlive a boot, and `undo` that of what the firewall undoes; `told` says by which declaration.
    pub(crate) fn find(contents: Rc<Contents>, run: &Path, undo: &Path, told: Told) -> Self {
        let services = Services::find(run);
        let packages = Packages::new(services.is_there());
        Self {
            packages,
            services,
            runtimes: Runtimes::new(run),
            firewall: Firewall::new(run, undo, told),
            contents,
        }
    }

    /// The managers for a caller that only asks what they are.
    pub fn idle(run: &Path) -> Self {
        let told = Told { sequence: 0, by_hand: true };
        Self::find(Rc::default(), run, &run.join("undo"), told)
    }

    /// The container runtime and its version, if one answers.
    pub fn runtime_words(&mut self) -> Option<String> {
        self.runtimes.runtime().ok().map(Runtime::words)
    }

    /// The firewall that is found: `ufw`, `firewalld` or `nftables`.
    pub fn firewall() -> Option<String> {
        firewall::Found::find().map(|found| found.as_str().to_owned())
    }

    /// Sets what was lost with the process or the machine that set it: the timer that opens again what was closed.
    pub fn mend(&self) -> Result<(), Failure> {
        self.firewall.mend()
    }

    /// Answers questions that `manager` is asked at once, in order.
    pub fn look(&mut self, manager: Manager, questions: &[&Question]) -> Vec<Answer> {
        match manager {
            Manager::Services => self.services.look(questions),
            Manager::Log => service::log(questions),
            Manager::Packages => Packages::look(questions),
            Manager::Runtime => self.runtimes.look(questions),
            Manager::Firewall => self.firewall.look(questions),
            Manager::Sockets => listener::look(questions),
            Manager::Commands => {
                let (contents, runtimes) = (&self.contents, &mut self.runtimes);
                questions.iter().map(|question| action::look(question, contents, runtimes)).collect()
            }
            Manager::Files | Manager::Owners | Manager::Accounts => Vec::new(),
        }
    }

    /// Hears which steps are performed next.
    pub fn ahead(&mut self, steps: &[&Step]) {
        let packages = steps.iter().filter_map(|step| match step {
            Step::Package(PackageStep::Install { package }) => Some(package.clone()),
            _ => None,
        });
        self.packages.ahead(packages.collect());
    }

    /// Performs one step.
    pub fn perform(&mut self, step: &Step, tools: &Tools<'_>) -> Result<(), Failure> {
        match step {
            Step::Service(step) => self.services.perform(step),
            Step::Package(PackageStep::Install { package }) => self.packages.install(package),
            Step::Action(step) => action::perform(&step.command, &self.contents, &mut self.runtimes),
            Step::Container(step) => self.runtimes.perform(step, tools),
            Step::Opening(step) => self.firewall.perform(step),
            Step::Network(step) => self.runtimes.perform_network(step),
            Step::Files(_) | Step::User(_) => {
                Err(Failure::Failed("no manager does this; report this as a bug".to_owned()))
            }
        }
    }
}
