//! The managers of the machine: service manager, package manager, container runtime, firewall, accounts.
//!
//! Each answers its questions with as few processes as possible, and performs its steps.

pub mod command;
mod service;

use crate::facts::{Answer, Manager, Question};
use crate::machine::Tools;
use crate::outcome::Failure;
use crate::step::Step;
use service::Services;

/// The managers that were found on this machine.
#[derive(Debug)]
pub struct Managers {
    services: Services,
}

impl Managers {
    /// Looks for the managers of this machine.
    pub fn find() -> Self {
        Self { services: Services::find() }
    }

    /// Answers questions, in order. Whatever one manager is asked is asked at once.
    pub fn look(&mut self, questions: &[&Question]) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = questions.iter().map(|_| None).collect();
        for manager in [Manager::Services, Manager::Log] {
            let places: Vec<usize> =
                (0..questions.len()).filter(|place| questions[*place].manager() == manager).collect();
            let asked: Vec<&Question> = places.iter().map(|place| questions[*place]).collect();
            if asked.is_empty() {
                continue;
            }
            let found = match manager {
                Manager::Services => self.services.look(&asked),
                Manager::Log => service::log(&asked),
                Manager::Files => Vec::new(),
            };
            for (place, answer) in places.into_iter().zip(found) {
                answers[place] = Some(answer);
            }
        }
        let silent = || Answer::NotAnswered("no manager answers this question".to_owned());
        answers.into_iter().map(|answer| answer.unwrap_or_else(silent)).collect()
    }

    /// Performs one step.
    pub fn perform(&mut self, step: &Step, _: &Tools<'_>) -> Result<(), Failure> {
        match step {
            Step::Files(_) => Err(Failure::Failed("no manager does files; report this as a bug".to_owned())),
            Step::Service(step) => self.services.perform(step),
        }
    }
}
