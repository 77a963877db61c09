//! A port that the firewall of the machine lets in: opened by the found firewall's own tool, or in a table of our own.

use super::{Decided, Failure, Move, Remember, View, failed};
use crate::facts::{Answer, OpeningFact, Question};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{OpeningStep, Owned, Step};
use mesh_model::resource::Opening;
use std::collections::BTreeSet;

/// What ids of an adopted node's guard begin with.
pub(crate) const GUARD: &str = "adoption.guard-";

pub(super) fn next(id: &str, opening: &Opening, view: &View<'_>) -> Decided {
    let from: BTreeSet<String> = opening.from.iter().map(ToString::to_string).collect();
    // A guard that lets everybody in is none.
    let guard = id.starts_with(GUARD) && !from.is_empty();
    let fact = fact(guard, view)?;
    let guarded = guarded(view);
    let stands = if guard { guarded == Some(&from) } else { guarded.is_none() };
    let opened = fact.from.as_ref() == Some(&from);
    let verdict = verdict(&from, guard, view);
    if !opened || !stands {
        if !view.did.is_empty() {
            let text = format!("{} was opened and reads back otherwise", view.target.name);
            return Err(failed(Failure::Failed(text)));
        }
        // In our own table nobody else opens anything; a rule of the machine's own firewall may be a person's.
        let is_ours = opened
            || fact.firewall == "nftables"
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
        if fact.from.as_ref().is_some_and(|now| is_narrower(now, &from)) || guard && !stands {
            not_undone(fact, view)?;
        }
        let step = OpeningStep::Open { name: view.target.name.clone(), from, guard };
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
    let written = Written::Opening { firewall: fact.firewall.to_owned(), from, guard };
    Ok(Move::Done(verdict, Remember::Applied { claim, mount: None, written }))
}

/// Whether an address is no longer let in. An empty set means everywhere.
fn is_narrower(now: &BTreeSet<String>, from: &BTreeSet<String>) -> bool {
    !from.is_empty() && (now.is_empty() || !now.is_subset(from))
}

/// What this declaration closed was opened again, since the bus was not reached. The next one closes it again.
fn not_undone(fact: &OpeningFact, view: &View<'_>) -> Result<(), Box<Move>> {
    let now = view.memory.accepted.as_ref().map(|accepted| accepted.sequence);
    match fact.undone {
        Some(sequence) if Some(sequence) == now => Err(failed(Failure::Failed(format!(
            "the declaration {sequence} let fewer in at {}, and the bus was not reached afterwards, so that was undone: the \
             next declaration tries again",
            view.target.name
        )))),
        _ => Ok(()),
    }
}

pub(super) fn next_orphan(view: &View<'_>) -> Decided {
    let fact = fact(false, view)?;
    let guarded = guarded(view).is_some();
    match (fact.from.is_some() || guarded, view.did.is_empty()) {
        (false, true) => {
            Ok(Move::Done(Verdict::new(Outcome::Forgotten, "it is closed already"), Remember::Dropped))
        }
        (false, false) => Ok(Move::Done(Verdict::plain(Outcome::Removed), Remember::Dropped)),
        (true, true) => {
            not_undone(fact, view)?;
            let begun = view.memory.intents.get(view.target).and_then(|intents| intents.last());
            let of = match (view.record(), begun) {
                (Some(record), _) => Some((&record.id, &record.origin, record.place)),
                (None, begun) => begun.map(|begun| (&begun.id, &begun.origin, begun.place)),
            };
            let of = of.map(|(id, origin, place)| Owned { id: id.clone(), origin: origin.clone(), place });
            let step = OpeningStep::Close { name: view.target.name.clone(), guard: guarded, of };
            Ok(Move::Do(Step::Opening(step), Verdict::plain(Outcome::Removed)))
        }
        (true, false) => {
            Err(failed(Failure::Failed(format!("{} was closed and is still open", view.target.name))))
        }
    }
}

/// From where a guard lets it in; `None`: there is none, or none was asked for.
fn guarded<'a>(view: &View<'a>) -> Option<&'a BTreeSet<String>> {
    match view.facts.get(&Question::Guard(view.target.name.clone())) {
        Some(Answer::Sources(from)) => Some(from),
        _ => None,
    }
}

/// What the firewall says, if it is the one that was told.
fn fact<'a>(guard: bool, view: &View<'a>) -> Result<&'a OpeningFact, Box<Move>> {
    let question = Question::Opening(view.target.name.clone());
    let had = match view.record().map(|record| &record.written) {
        Some(Written::Opening { guard, .. }) => *guard,
        _ => false,
    };
    let guards = guard || had || view.memory.intents.contains_key(view.target);
    let mut wanted = vec![question.clone()];
    wanted.extend(guards.then(|| Question::Guard(view.target.name.clone())));
    view.look(&wanted)?;
    if guards {
        match view.facts.get(&wanted[1]) {
            Some(Answer::Sources(_) | Answer::Absent) => {}
            other => return Err(super::not_as_asked(other, &wanted[1])),
        }
    }
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

fn verdict(from: &BTreeSet<String>, guard: bool, view: &View<'_>) -> Verdict {
    let question = Question::Opening(view.target.name.clone());
    let before = match view.before.get(&question).or_else(|| view.facts.get(&question)) {
        Some(Answer::Opening(fact)) => fact.from.as_ref(),
        _ => None,
    };
    let put_back = match view.record().map(|record| &record.written) {
        Some(Written::Opening { from: recorded, guard: was, .. }) => recorded == from && *was == guard,
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
    let to = if guard { format!("{} alone", words(from)) } else { words(from) };
    verdict.moved(before.map(words), to)
}

fn words(from: &BTreeSet<String>) -> String {
    if from.is_empty() {
        "open".to_owned()
    } else {
        format!("from {}", Vec::from_iter(from.clone()).join(", "))
    }
}
