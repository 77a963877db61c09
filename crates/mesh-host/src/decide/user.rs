//! An account: made with what is declared, and changed where it can be changed. It is never removed, since files belong
//! to it.

use super::{Decided, Failure, Move, Remember, View, failed, not_as_asked, updated_or};
use crate::facts::{AccountFact, Answer, Question};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{Step, UserStep};
use mesh_model::resource::User;

pub(super) fn next(user: &User, view: &View<'_>) -> Decided {
    let name = user.name.to_string();
    let question = Question::Account(name.clone());
    view.look(std::slice::from_ref(&question))?;
    let fact = match view.facts.get(&question) {
        Some(Answer::Account(fact)) => fact,
        Some(Answer::Absent) if view.did.is_empty() => return Ok(add(user, view)),
        Some(Answer::Absent) => {
            return Err(failed(Failure::Failed(format!("the user {name} was added and is not there"))));
        }
        other => return Err(not_as_asked(other, &question)),
    };
    if let Some(why) = fixed(user, fact) {
        return Err(failed(Failure::Failed(why)));
    }
    let change = change(user, fact);
    if !change.is_empty() {
        if !view.did.is_empty() {
            let text = format!("the user {name} was set and differs still: {}", change.words());
            return Err(failed(Failure::Failed(text)));
        }
        let step = UserStep::Change {
            name,
            home: change.home.clone(),
            shell: change.shell.clone(),
            join: change.join.clone(),
        };
        return Ok(Move::Do(Step::User(step), updated(&change, view)));
    }
    let verdict = match view.before.get(&question).filter(|_| !view.did.is_empty()) {
        None => Verdict::plain(Outcome::Unchanged),
        Some(Answer::Account(before)) => updated(&self::change(user, before), view),
        Some(_) => created(view),
    };
    let creates = |step: &Step| matches!(step, Step::User(UserStep::Add { .. }));
    let begun = view.memory.intents.get(view.target).into_iter().flatten().any(|intent| intent.creates);
    let claim = match view.record().map(|record| record.claim) {
        _ if begun || view.did.iter().any(creates) => Claim::Made,
        Some(claim) => claim,
        None if view.did.is_empty() => Claim::Agreed,
        None => Claim::Configured,
    };
    let written = Written::Account { uid: fact.uid, gid: fact.gid };
    Ok(Move::Done(verdict, Remember::Applied { claim, mount: None, written }))
}

fn add(user: &User, view: &View<'_>) -> Move {
    let step = UserStep::Add {
        name: user.name.to_string(),
        uid: user.uid,
        group: user.group.as_ref().map(ToString::to_string),
        groups: user.groups.iter().map(ToString::to_string).collect(),
        home: user.home.as_ref().map(ToString::to_string),
        shell: user.shell.as_ref().map(ToString::to_string),
        system: user.system,
    };
    Move::Do(Step::User(step), created(view))
}

fn created(view: &View<'_>) -> Verdict {
    match view.record() {
        None => Verdict::plain(Outcome::Created),
        Some(_) => Verdict::new(Outcome::Corrected(Drift::Gone), "it had been removed from the machine"),
    }
}

/// What no tool changes safely while files belong to the account.
fn fixed(user: &User, fact: &AccountFact) -> Option<String> {
    let name = &user.name;
    let next = "files belong to it, so it is not changed: declare what is there, or change it yourself";
    if let Some(uid) = user.uid.filter(|uid| *uid != fact.uid) {
        return Some(format!("the uid of {name} is {} and {uid} is declared; {next}", fact.uid));
    }
    let group = user.group.as_ref().map(ToString::to_string)?;
    if fact.group.as_ref() == Some(&group) {
        return None;
    }
    let is = fact.group.clone().unwrap_or_else(|| fact.gid.to_string());
    Some(format!("the primary group of {name} is {is} and {group} is declared; {next}"))
}

/// What can be changed.
struct Change {
    home: Option<String>,
    shell: Option<String>,
    join: Vec<String>,
}

fn change(user: &User, fact: &AccountFact) -> Change {
    let other = |declared: Option<String>, is: &str| declared.filter(|declared| declared != is);
    let groups = user.groups.iter().map(ToString::to_string);
    let is_in = |group: &String| fact.groups.contains(group) || fact.group.as_ref() == Some(group);
    Change {
        home: other(user.home.as_ref().map(ToString::to_string), &fact.home),
        shell: other(user.shell.as_ref().map(ToString::to_string), &fact.shell),
        join: groups.filter(|group| !is_in(group)).collect(),
    }
}

impl Change {
    fn is_empty(&self) -> bool {
        self.home.is_none() && self.shell.is_none() && self.join.is_empty()
    }

    fn words(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.home.as_ref().map(|home| format!("home {home}")));
        words.extend(self.shell.as_ref().map(|shell| format!("shell {shell}")));
        if !self.join.is_empty() {
            words.push(format!("member of {}", self.join.join(", ")));
        }
        words.join(", ")
    }
}

fn updated(change: &Change, view: &View<'_>) -> Verdict {
    // What is recorded was as declared then, and the declaration has no other form of these.
    let corrected = view.record().map(|_| Outcome::Corrected(Drift::Configuration));
    updated_or(corrected, change.words())
}
