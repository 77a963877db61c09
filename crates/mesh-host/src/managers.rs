//! The managers of the machine: service manager, package manager, container runtime, firewall, accounts.
//!
//! Each answers its questions with as few processes as possible, and performs its steps.

pub mod command;

use crate::facts::{Answer, Question};

/// The managers that were found on this machine.
#[derive(Debug, Default)]
pub struct Managers {}

impl Managers {
    /// Looks for the managers of this machine.
    pub fn find() -> Self {
        Self {}
    }

    /// Answers questions, in order.
    pub fn look(&mut self, questions: &[&Question]) -> Vec<Answer> {
        let answer = |_: &&Question| Answer::NotAnswered("no manager answers this question".to_owned());
        questions.iter().map(answer).collect()
    }
}
