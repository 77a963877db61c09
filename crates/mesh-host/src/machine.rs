//! The machine: it answers questions and performs steps.

mod real;

pub use real::Real;

use crate::facts::{Answer, Question};
use crate::outcome::Failure;
use crate::step::Step;
use std::collections::BTreeMap;
use std::fmt;
use zeroize::Zeroizing;

/// What can be asked of a machine and done to it.
pub trait Machine {
    /// Answers each question, in order. Questions of one kind are answered by as few processes as possible.
    fn look(&mut self, questions: &[Question]) -> Vec<Answer>;

    /// Hears which steps are performed next, one after the other, since some are done better together.
    fn ahead(&mut self, _: &[&Step]) {}

    /// Performs one step. An intent of it is stored by then.
    fn perform(&mut self, step: &Step, tools: &Tools<'_>) -> Result<(), Failure>;

    /// Makes the steps since the last call last, as far as they do not do so themselves: directories are synced.
    fn sync(&mut self) -> Result<(), Failure>;

    /// Lets this time pass.
    fn wait(&mut self, ms: u64);
}

/// What a step needs beside its own fields.
#[derive(Clone, Copy, Debug)]
pub struct Tools<'a> {
    /// The content of resources.
    pub contents: &'a Contents,
    /// The name for a temporary file, which the journal knows.
    pub temporary: &'a str,
}

/// The filled content of resources, by id. Wiped when it is dropped.
#[derive(Default)]
pub struct Contents(BTreeMap<String, Zeroizing<Vec<u8>>>);

impl Contents {
    /// Takes the content of the resource `id`.
    pub fn insert(&mut self, id: String, content: Zeroizing<Vec<u8>>) {
        self.0.insert(id, content);
    }

    /// The content of the resource `id`.
    pub fn get(&self, id: &str) -> Option<&[u8]> {
        self.0.get(id).map(|content| content.as_slice())
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
