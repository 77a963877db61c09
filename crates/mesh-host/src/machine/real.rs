//! The real machine: its files, and its managers.

use super::{Machine, Tools};
use crate::facts::{Answer, Manager, Question};
use crate::files::Files;
use crate::managers::{Managers, Users};
use crate::outcome::Failure;
use crate::step::Step;
use std::collections::BTreeSet;
use std::time::Duration;

/// The real machine, or a tree of files that is not one and has no managers.
#[derive(Debug)]
pub struct Real {
    /// The files.
    pub files: Files,
    /// The accounts.
    pub users: Users,
    /// The managers. `None` with `--root`.
    pub managers: Option<Managers>,
}

impl Machine for Real {
    fn look(&mut self, questions: &[Question]) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = questions.iter().map(|_| None).collect();
        // Whatever one of them is asked is asked at once.
        let asked: BTreeSet<Manager> = questions.iter().map(Question::manager).collect();
        for manager in asked {
            let places: Vec<usize> =
                (0..questions.len()).filter(|place| questions[*place].manager() == manager).collect();
            let asked: Vec<&Question> = places.iter().map(|place| &questions[*place]).collect();
            let found = match (manager, &mut self.managers) {
                (Manager::Files | Manager::Owners, _) => self.files.look(&asked),
                (Manager::Accounts, _) => self.users.look(&asked),
                (_, Some(managers)) => managers.look(manager, &asked),
                (_, None) => Vec::new(),
            };
            for (place, answer) in places.into_iter().zip(found) {
                answers[place] = Some(answer);
            }
        }
        let silent = || Answer::NotAnswered("nobody here answers this question".to_owned());
        answers.into_iter().map(|answer| answer.unwrap_or_else(silent)).collect()
    }

    fn ahead(&mut self, steps: &[&Step]) {
        if let Some(managers) = &mut self.managers {
            managers.ahead(steps);
        }
    }

    fn perform(&mut self, step: &Step, tools: &Tools<'_>) -> Result<(), Failure> {
        if let Step::Files(step) = step {
            return self.files.perform(step, tools);
        }
        // What a manager is told about is on the disk by then.
        self.files.sync()?;
        if let Step::User(step) = step {
            return self.users.perform(step);
        }
        match &mut self.managers {
            Some(managers) => managers.perform(step, tools),
            None => Err(Failure::Failed("a tree of files has no managers".to_owned())),
        }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.files.sync()
    }

    fn wait(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }
}
