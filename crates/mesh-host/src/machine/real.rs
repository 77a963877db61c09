//! The real machine: its files, and its managers.

use super::{Machine, Tools};
use crate::facts::{Answer, Manager, Question};
use crate::files::Files;
use crate::managers::Managers;
use crate::outcome::Failure;
use crate::step::Step;
use std::time::Duration;

/// The real machine, or a tree of files that is not one and has no managers.
#[derive(Debug)]
pub struct Real {
    /// The files.
    pub files: Files,
    /// The managers. `None` with `--root`.
    pub managers: Option<Managers>,
}

impl Machine for Real {
    fn look(&mut self, questions: &[Question]) -> Vec<Answer> {
        let of_files = |question: &&Question| question.manager() == Manager::Files;
        let (files, others): (Vec<&Question>, Vec<&Question>) = questions.iter().partition(of_files);
        let mut files = self.files.look(&files).into_iter();
        let mut others = match &mut self.managers {
            Some(managers) => managers.look(&others),
            None => others.iter().map(|_| Answer::NotAnswered("there are no managers".to_owned())).collect(),
        }
        .into_iter();
        let one = |question: &Question| {
            let answer = if of_files(&question) { files.next() } else { others.next() };
            answer.unwrap_or_else(|| Answer::NotAnswered("nobody answered".to_owned()))
        };
        questions.iter().map(one).collect()
    }

    fn perform(&mut self, step: &Step, tools: &Tools<'_>) -> Result<(), Failure> {
        if let Step::Files(step) = step {
            return self.files.perform(step, tools);
        }
        // What a manager is told about is on the disk by then.
        self.files.sync()?;
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
