//! The real machine: its files, and its managers.

use super::{Machine, Tools};
use crate::facts::{Answer, Question};
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
        let of_files = |question: &&Question| {
            matches!(
                question,
                Question::Path(_) | Question::Content { .. } | Question::Leaves { .. } | Question::Owner(_)
            )
        };
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
        match step {
            Step::Files(step) => self.files.perform(step, tools),
        }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.files.sync()
    }

    fn wait(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }
}
