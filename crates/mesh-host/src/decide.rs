//! What to do next about one resource: `next(desired, view) → Move`. Pure: no clock, no file, no process.
//!
//! A stepper is asked again after every answer and every step. It asks for the facts that it lacks; if the machine
//! differs from the declaration, it names one step; if nothing differs, it says how the work ended. A step drops the
//! facts that it touched, so the stepper asks for them again: that is the read-back.

mod access;
mod action;
mod archive;
mod container;
mod directory;
mod file;
mod into;
mod managed;
mod network;
mod opening;
mod orphan;
mod package;
mod process;
mod reach;
mod service;
mod unit;
mod user;

pub(crate) use reach::reaches;

use crate::desired::{Desired, Spec};
use crate::digest::{Digest, DigestKey};
use crate::facts::{Answer, Facts, PathAnswer, PathFact, Question};
use crate::outcome::{Failure, Outcome, Verdict};
use crate::record::{Claim, Memory, Record, Written};
use crate::step::{Ids, Step};
use crate::target::Target;
use std::collections::BTreeSet;

/// What a stepper wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// These facts are missing.
    Look(Vec<Question>),
    /// This is to be done; if it goes well and nothing more is to be done, the work ends like this.
    Do(Step, Verdict),
    /// All is done but to see whether it lasts: ask again when everything else is done and this time has passed.
    Settle {
        /// In milliseconds.
        after_ms: u64,
    },
    /// The work has ended.
    Done(Verdict, Remember),
}

/// What becomes of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remember {
    /// The resource stands as declared.
    Applied {
        /// Whether it is ours.
        claim: Claim,
        /// The mount point under which its path lies.
        mount: Option<String>,
        /// What was written.
        written: Written,
    },
    /// Nothing of it is ours any more.
    Dropped,
    /// Nothing of it is ours any more, and the kept original is in its place again.
    PutBack,
    /// The record, or its absence, stays as it is.
    Same,
    /// The record stays, and this form of the resource failed: it is not tried again at every apply.
    Tried(Digest),
}

/// All that a stepper may look at.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct View<'a> {
    /// What is known right now.
    pub facts: &'a Facts,
    /// What was known before the first step of this resource.
    pub before: &'a Facts,
    /// What the managers said before the first step of this apply.
    pub first: &'a Facts,
    /// What this host remembers.
    pub memory: &'a Memory,
    /// What the resource is about.
    pub target: &'a Target,
    /// The steps of this resource that went well in this apply.
    pub did: &'a [Step],
    /// The ids that were made or mended in this apply.
    pub changed: &'a BTreeSet<String>,
    /// Whether the time to settle has passed.
    pub settled: bool,
    /// Why the last step of this resource failed, if it did: what was begun is taken back.
    pub failed: Option<&'a Failure>,
    /// Whether what is there and not ours is held: an adopted node, and the module is not taken.
    pub untaken: bool,
    /// Whether what failed before is tried again at once.
    pub again: bool,
    /// Seconds since 1970, when the apply began.
    pub now_s: u64,
    /// The key of this node's digests.
    pub key: &'a DigestKey,
    /// The folder of this host's own state.
    pub state: &'a str,
    /// Whether there are managers: not with `--root`.
    pub managers: bool,
    /// Whether owners are managed: not without root's rights.
    pub owners: bool,
}

impl<'a> View<'a> {
    /// The record of the target.
    pub fn record(&self) -> Option<&'a Record> {
        self.memory.records.get(self.target)
    }

    /// The questions of `wanted` that have no answer yet.
    fn look(&self, wanted: &[Question]) -> Result<(), Box<Move>> {
        let missing: Vec<_> = wanted.iter().filter(|q| self.facts.get(q).is_none()).cloned().collect();
        if missing.is_empty() { Ok(()) } else { Err(Box::new(Move::Look(missing))) }
    }

    /// What is at a path; a path on another file system than recorded is not answered.
    fn path(&self, question: &Question) -> Result<&'a PathAnswer, Box<Move>> {
        let answer = match self.facts.get(question) {
            Some(Answer::Path(answer)) => answer,
            other => return Err(not_as_asked(other, question)),
        };
        self.same_mount(&answer.mount)?;
        Ok(answer)
    }

    /// A path on another file system than recorded is not answered.
    fn same_mount(&self, now: &str) -> Result<(), Box<Move>> {
        match self.record().and_then(|record| record.mount.as_deref()) {
            Some(mount) if mount != now => Err(failed(Failure::NotAnswered(format!(
                "it was on the file system mounted at {mount} and would now be on the one at {now}: mount it, or forget \
                 the resource"
            )))),
            _ => Ok(()),
        }
    }

    /// The numbers of a declared owner; `None` where owners are not managed or none is declared.
    fn owner(&self, owner: Option<&String>) -> Result<Option<Ids>, Box<Move>> {
        let Some(question) = self.owner_question(owner) else { return Ok(None) };
        match self.facts.get(&question) {
            Some(Answer::Owner { uid, gid }) => Ok(Some(Ids { uid: *uid, gid: *gid })),
            Some(Answer::Absent) => Err(failed(Failure::Failed(format!(
                "the owner {} is not known: declare the user before it, or correct the name",
                owner.map_or("", String::as_str)
            )))),
            other => Err(not_as_asked(other, &question)),
        }
    }

    fn owner_question(&self, owner: Option<&String>) -> Option<Question> {
        owner.filter(|_| self.owners).map(|owner| Question::Owner(owner.clone()))
    }

    /// The path as it was before the first step of this resource.
    fn path_before(&self, question: &Question) -> Option<&'a PathFact> {
        match self.before.get(question).or_else(|| self.facts.get(question)) {
            Some(Answer::Path(answer)) => answer.found.as_ref(),
            _ => None,
        }
    }
}

/// The end of a resource that could not be decided: a refusal, a silence, or an answer to another question.
fn not_as_asked(answer: Option<&Answer>, question: &Question) -> Box<Move> {
    failed(match answer {
        Some(Answer::Refused(text)) => Failure::Failed(text.clone()),
        Some(Answer::NotAnswered(text)) => Failure::NotAnswered(text.clone()),
        other => Failure::NotAnswered(format!(
            "unexpected answer to {question:?}: {other:?}; report this as a bug"
        )),
    })
}

/// The end of a resource that failed: its record stays as it is.
fn failed(failure: Failure) -> Box<Move> {
    Box::new(Move::Done(failure.verdict(), Remember::Same))
}

/// What a stepper returns: an error is an early end, or a look for what is missing.
type Decided = Result<Move, Box<Move>>;

/// What to do next about a declared resource.
pub fn next(desired: &Desired, view: &View<'_>) -> Move {
    let decided = match &desired.spec {
        Spec::Directory(directory) => directory::next(directory, view),
        Spec::Access(access) => access::next(access, view),
        Spec::File(file) => file::next(&desired.id, file, view),
        Spec::Into(into) => into::next(&desired.id, into, view),
        Spec::Archive(archive) => archive::next(&desired.id, archive, view),
        Spec::Managed(managed) => managed::next(desired, managed, view),
    };
    decided.unwrap_or_else(|early| *early)
}

/// What a manager of the machine holds, where there is none.
fn skipped() -> Move {
    let detail = "a tree of files has no managers";
    Move::Done(Verdict::new(Outcome::Skipped, detail), Remember::Same)
}

/// What to do next about something that is no longer declared.
pub fn next_orphan(view: &View<'_>) -> Move {
    orphan::next(view).unwrap_or_else(|early| *early)
}

/// An outcome of a thing that was there and now has another form: corrected if that is the form which this host had
/// last written.
fn updated_or(corrected: Option<Outcome>, detail: String) -> Verdict {
    match corrected {
        Some(outcome) => Verdict::new(outcome, detail),
        None => Verdict::new(Outcome::Updated, detail),
    }
}
