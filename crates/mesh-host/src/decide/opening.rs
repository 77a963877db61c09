//! A port that the firewall of the machine lets in: opened by the found firewall's own tool, or in a table of our own.

use super::{Decided, Failure, Move, Remember, View, failed};
use crate::facts::{Answer, OpeningFact, Question};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{OpeningStep, Step};
use mesh_model::resource::Opening;
use std::collections::BTreeSet;

pub(super) fn next(opening: &Opening, view: &View<'_>) -> Decided {
    let fact = fact(view)?;
    let from: BTreeSet<String> = opening.from.iter().map(ToString::to_string).collect();
    let opened = fact.from.as_ref() == Some(&from);
    let verdict = verdict(&from, view);
    if !opened {
        if !view.did.is_empty() {
            let text = format!("{} was opened and reads back otherwise", view.target.name);
            return Err(failed(Failure::Failed(text)));
        }
        // In our own table nobody else opens anything; a rule of the machine's own firewall may be a person's.
        let is_ours = fact.firewall == "nftables"
            || view.record().is_some_and(|record| record.claim == Claim::Made)
            || view.memory.intents.contains_key(view.target);
        if let Some(theirs) = fact.from.as_ref().filter(|_| !is_ours) {
            return Err(failed(Failure::Failed(format!(
                "{} lets {} in {} by a rule that this host did not make: declare it as it is, or remove the rule",
                fact.firewall,
                view.target.name,
                words(theirs)
            ))));
        }
        let step = OpeningStep::Open { name: view.target.name.clone(), from };
        return Ok(Move::Do(Step::Opening(step), verdict));
    }
    // Somebody else's table has the last word.
    if let Some(rule) = &fact.blocked {
        return Err(failed(Failure::Failed(format!(
            "{} is open in the table of this host, and another table drops it: {rule}",
            view.target.name
        ))));
    }
    let claim = match view.record().map(|record| record.claim) {
        _ if !view.did.is_empty() || view.memory.intents.contains_key(view.target) => Claim::Made,
        Some(claim) => claim,
        // In our own table nobody else opens anything.
        None if fact.firewall == "nftables" => Claim::Made,
        None => Claim::Agreed,
    };
    let verdict = if view.did.is_empty() { Verdict::plain(Outcome::Unchanged) } else { verdict };
    let written = Written::Opening { firewall: fact.firewall.to_owned(), from };
    Ok(Move::Done(verdict, Remember::Applied { claim, mount: None, written }))
}

pub(super) fn next_orphan(view: &View<'_>) -> Decided {
    let fact = fact(view)?;
    match (&fact.from, view.did.is_empty()) {
        (None, true) => {
            Ok(Move::Done(Verdict::new(Outcome::Forgotten, "it is closed already"), Remember::Dropped))
        }
        (None, false) => Ok(Move::Done(Verdict::plain(Outcome::Removed), Remember::Dropped)),
        (Some(from), true) => {
            let step = OpeningStep::Close { name: view.target.name.clone(), from: from.clone() };
            Ok(Move::Do(Step::Opening(step), Verdict::plain(Outcome::Removed)))
        }
        (Some(_), false) => {
            Err(failed(Failure::Failed(format!("{} was closed and is still open", view.target.name))))
        }
    }
}

/// What the firewall says, if it is the one that was told.
fn fact<'a>(view: &View<'a>) -> Result<&'a OpeningFact, Box<Move>> {
    let question = Question::Opening(view.target.name.clone());
    view.look(std::slice::from_ref(&question))?;
    let fact = match view.facts.get(&question) {
        Some(Answer::Opening(fact)) => fact,
        other => return Err(super::not_as_asked(other, &question)),
    };
    match view.record().map(|record| &record.written) {
        Some(Written::Opening { firewall, .. }) if firewall != fact.firewall => {
            Err(failed(Failure::NotAnswered(format!(
                "it was opened in {firewall}, and {} is found now: close it there and forget the resource",
                fact.firewall
            ))))
        }
        _ => Ok(fact),
    }
}

fn verdict(from: &BTreeSet<String>, view: &View<'_>) -> Verdict {
    let question = Question::Opening(view.target.name.clone());
    let before = match view.before.get(&question).or_else(|| view.facts.get(&question)) {
        Some(Answer::Opening(fact)) => fact.from.as_ref(),
        _ => None,
    };
    let put_back = match view.record().map(|record| &record.written) {
        Some(Written::Opening { from: recorded, .. }) => recorded == from,
        _ => false,
    };
    let verdict = match before {
        None if put_back => {
            Verdict::new(Outcome::Corrected(Drift::Gone), "it had been closed on the machine")
        }
        None if view.record().is_some() => Verdict::plain(Outcome::Updated),
        None => Verdict::plain(Outcome::Created),
        Some(_) if put_back => {
            Verdict::new(Outcome::Corrected(Drift::Configuration), "it had been changed on the machine")
        }
        Some(_) => Verdict::plain(Outcome::Updated),
    };
    verdict.moved(before.map(words), words(from))
}

fn words(from: &BTreeSet<String>) -> String {
    if from.is_empty() {
        "open".to_owned()
    } else {
        format!("from {}", Vec::from_iter(from.clone()).join(", "))
    }
}
