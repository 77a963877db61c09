//! A command that makes something true, and another that says whether it is: the host itself knows no meaning.

use super::{Decided, Failure, Move, Remember, View, failed, not_as_asked};
use crate::facts::{Answer, Check, Question};
use crate::outcome::{Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{ActionStep, Step};
use mesh_model::resource::{Action, Command};

/// How long each command may take where nothing is declared, in milliseconds.
const LIMIT_MS: u64 = 60_000;

pub(super) fn next(id: &str, action: &Action, private: bool, view: &View<'_>) -> Decided {
    let limit = action.limit.map(|limit| u64::try_from(limit.duration().as_millis()).unwrap_or(u64::MAX));
    let check = |command: &Command| Check {
        id: id.to_owned(),
        command: command.words().to_vec(),
        within: action.within.as_ref().map(ToString::to_string),
        limit_ms: limit.unwrap_or(LIMIT_MS),
        private,
    };
    let question = Question::Holds(Box::new(check(&action.verify)));
    view.look(std::slice::from_ref(&question))?;
    let (yes, said) = match view.facts.get(&question) {
        Some(Answer::Holds { yes, said }) => (*yes, said),
        other => return Err(not_as_asked(other, &question)),
    };
    let done = !view.did.is_empty();
    if !yes && done {
        let said = if said.is_empty() { String::new() } else { format!(": verify says {said}") };
        let text = format!("the command reported success and nothing happened{said}");
        return Err(failed(Failure::Failed(text)));
    }
    if !yes {
        let step = ActionStep { command: check(&action.command) };
        return Ok(Move::Do(Step::Action(step), Verdict::plain(Outcome::Created)));
    }
    let verdict = if done { Verdict::plain(Outcome::Created) } else { already() };
    let made = done || view.memory.intents.contains_key(view.target);
    let claim = if made { Claim::Made } else { view.record().map_or(Claim::Agreed, |record| record.claim) };
    Ok(Move::Done(verdict, Remember::Applied { claim, mount: None, written: Written::Action }))
}

fn already() -> Verdict {
    Verdict::new(Outcome::Unchanged, "already true")
}
