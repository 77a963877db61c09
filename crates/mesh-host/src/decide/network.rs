//! A network of the container runtime. Only its presence counts, and not who made it.

use super::{Decided, Failure, Move, Remember, View, failed};
use crate::facts::{Answer, Question};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{NetworkStep, Step};

pub(super) fn next(view: &View<'_>) -> Decided {
    let name = view.target.name.clone();
    let present = is_present(view)?;
    let made = view.did.iter().any(|step| matches!(step, Step::Network(_)));
    let begun = view.memory.intents.contains_key(view.target);
    let verdict = match view.record() {
        None => Verdict::plain(Outcome::Created),
        Some(_) => Verdict::new(Outcome::Corrected(Drift::Gone), "it had been removed from the machine"),
    };
    if present {
        let claim = match view.record().map(|record| record.claim) {
            _ if made || begun => Claim::Made,
            Some(claim) => claim,
            None => Claim::Agreed,
        };
        let verdict = if made { verdict } else { Verdict::plain(Outcome::Unchanged) };
        return Ok(Move::Done(
            verdict,
            Remember::Applied { claim, mount: None, written: Written::Network {} },
        ));
    }
    if made {
        return Err(failed(Failure::Failed(format!("the network {name} was made and is not there"))));
    }
    Ok(Move::Do(Step::Network(NetworkStep::Create { name }), verdict))
}

/// A network that this host made goes; one that is still used stays, and that is a failure.
pub(super) fn next_orphan(view: &View<'_>) -> Decided {
    let name = view.target.name.clone();
    match (is_present(view)?, view.did.is_empty()) {
        (false, true) => {
            Ok(Move::Done(Verdict::new(Outcome::Forgotten, "it is gone already"), Remember::Dropped))
        }
        (false, false) => Ok(Move::Done(Verdict::plain(Outcome::Removed), Remember::Dropped)),
        (true, true) => {
            Ok(Move::Do(Step::Network(NetworkStep::Remove { name }), Verdict::plain(Outcome::Removed)))
        }
        (true, false) => {
            Err(failed(Failure::Failed(format!("the network {name} was removed and is still there"))))
        }
    }
}

fn is_present(view: &View<'_>) -> Result<bool, Box<Move>> {
    let question = Question::Network(view.target.name.clone());
    view.look(std::slice::from_ref(&question))?;
    match view.facts.get(&question) {
        Some(Answer::Present) => Ok(true),
        Some(Answer::Absent) => Ok(false),
        other => Err(super::not_as_asked(other, &question)),
    }
}
