//! A directory: there, with its mode and owner.

use super::{Decided, Failure, Move, Remember, View, failed, updated_or};
use crate::desired::Directory;
use crate::facts::{FileKind, PathFact, Question};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{FileStep, Ids, Step};

pub(super) fn next(directory: &Directory, view: &View<'_>) -> Decided {
    let path = &directory.path;
    let question = Question::Path(path.clone());
    let mut questions = vec![question.clone()];
    questions.extend(view.owner_question(directory.owner.as_ref()));
    view.look(&questions)?;
    let answer = view.path(&question)?;
    let owner = view.owner(directory.owner.as_ref())?;
    let before = view.path_before(&question);
    let Some(fact) = &answer.found else {
        let text = format!("{path} was made and is not there");
        if !view.did.is_empty() {
            return Err(failed(Failure::Failed(text)));
        }
        let owner = owner.or(view.owners.then_some(Ids { uid: 0, gid: 0 }));
        let step = FileStep::MakeDirectory { path: path.clone(), mode: directory.mode, owner };
        return Ok(Move::Do(Step::Files(step), verdict(directory, owner, before, view)));
    };
    if !matches!(fact.kind, FileKind::Directory { .. }) {
        let text = format!("{path} is {}, and a directory is declared: move it away", fact.kind.words());
        return Err(failed(Failure::Failed(text)));
    }
    let same_owner = owner.is_none_or(|owner| owner == owner_of(fact));
    if fact.mode != directory.mode || !same_owner {
        if !view.did.is_empty() {
            let is = format!("{:04o} {}", fact.mode, owner_of(fact).words());
            let text = format!("{path} was set to {:04o} and reads back as {is}", directory.mode);
            return Err(failed(Failure::Failed(text)));
        }
        let (mode, seen) = (directory.mode, fact.stamp);
        let step = FileStep::SetDirectory { path: path.clone(), seen, mode, owner };
        return Ok(Move::Do(Step::Files(step), verdict(directory, owner, before, view)));
    }
    let written = Written::Directory { mode: fact.mode, owner: owner_of(fact) };
    let mount = Some(answer.mount.clone());
    let remember = Remember::Applied { claim: claim(view), mount, written };
    Ok(Move::Done(verdict(directory, owner, before, view), remember))
}

/// A directory is ours if this host made it: before, now, or before a kill.
fn claim(view: &View<'_>) -> Claim {
    let made = |step: &Step| matches!(step, Step::Files(FileStep::MakeDirectory { .. }));
    let intents = view.memory.intents.get(view.target).map_or(&[][..], Vec::as_slice);
    match view.record().map(|record| record.claim) {
        _ if view.did.iter().any(made) || intents.iter().any(|intent| intent.creates) => Claim::Made,
        Some(Claim::Made) => Claim::Made,
        _ if !view.did.is_empty() || !intents.is_empty() => Claim::Configured,
        Some(claim) => claim,
        None => Claim::Agreed,
    }
}

fn owner_of(fact: &PathFact) -> Ids {
    Ids { uid: fact.uid, gid: fact.gid }
}

/// How the work ends, seen from what was there before.
fn verdict(directory: &Directory, owner: Option<Ids>, before: Option<&PathFact>, view: &View<'_>) -> Verdict {
    let written = view.record().map(|record| &record.written);
    let Some(fact) = before else {
        let to = format!("{:04o}", directory.mode);
        return match written {
            None => Verdict::plain(Outcome::Created),
            Some(Written::Directory { mode, .. }) => {
                let put_back = (*mode == directory.mode).then_some(Outcome::Corrected(Drift::Gone));
                updated_or(put_back, "it had been removed from the machine".to_owned())
            }
            Some(_) => Verdict::plain(Outcome::Updated),
        }
        .moved(None, to);
    };
    let was = owner_of(fact);
    let other_mode = fact.mode != directory.mode;
    let other_owner = owner.filter(|owner| *owner != was);
    let (recorded_mode, recorded_owner) = match written {
        Some(Written::Directory { mode, owner }) => (Some(*mode), Some(*owner)),
        _ => (None, None),
    };
    let mut details = Vec::new();
    let mut drift = None;
    let mut all_drifted = true;
    if other_mode {
        details.push(format!("mode {:04o} to {:04o}", fact.mode, directory.mode));
        drift = Some(Drift::Mode);
        all_drifted &= recorded_mode == Some(directory.mode);
    }
    if let Some(owner) = other_owner {
        details.push(format!("owner {} to {}", was.words(), owner.words()));
        drift = drift.or(Some(Drift::Owner));
        all_drifted &= recorded_owner == Some(owner);
    }
    match drift {
        None => Verdict::plain(Outcome::Unchanged),
        Some(drift) => {
            let words = |mode: u32, owner: Ids| format!("{mode:04o} {}", owner.words());
            let to = words(directory.mode, other_owner.unwrap_or(was));
            updated_or(all_drifted.then_some(Outcome::Corrected(drift)), details.join(", "))
                .moved(words(fact.mode, was), to)
        }
    }
}
