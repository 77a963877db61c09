//! An archive, unpacked into a directory of its own: its digest decides, and every entry has to stand as it was unpacked.

use super::{Decided, Failure, Move, Remember, View, failed, not_as_asked, updated_or};
use crate::desired::Archive;
use crate::digest::Digest;
use crate::facts::{Answer, FileKind, Question, UnpackedAnswer, UnpackedFact};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{FileStep, Ids, Step};
use std::collections::BTreeSet;

pub(super) fn next(id: &str, archive: &Archive, view: &View<'_>) -> Decided {
    let path = &archive.path;
    let question = question(path, Some(&archive.digest), view);
    let mut questions = vec![question.clone()];
    questions.extend(view.owner_question(archive.owner.as_ref()));
    view.look(&questions)?;
    let answer = answer(&question, view)?;
    let owner = view.owner(archive.owner.as_ref())?.or(view.owners.then_some(Ids { uid: 0, gid: 0 }));
    let found = answer.found.as_ref();
    if let Some(fact) = found.filter(|fact| !matches!(fact.kind, FileKind::Directory { .. })) {
        let text = format!("{path} is {}, and an archive is unpacked there: move it away", fact.kind.words());
        return Err(failed(Failure::Failed(text)));
    }
    let verdict = verdict(archive, &question, view);
    let same = |fact: &&UnpackedFact| {
        fact.holds.as_ref() == Some(&archive.digest) && owner.is_none_or(|owner| owner == fact.owner)
    };
    if let Some(fact) = found.filter(same) {
        let written = Written::Archive { digest: archive.digest.clone(), owner: fact.owner };
        let mount = Some(answer.mount.clone());
        return Ok(Move::Done(verdict, Remember::Applied { claim: Claim::Made, mount, written }));
    }
    if !view.did.is_empty() {
        return Err(failed(Failure::Failed(format!("{path} was unpacked and reads back otherwise"))));
    }
    if let Some((first, count)) = found.and_then(|fact| fact.foreign.as_ref()) {
        let others = if *count > 1 { format!(" and {} others are", count - 1) } else { " is".to_owned() };
        let text = format!("{first}{others} in {path} and came from no archive of ours: move them away");
        return Err(failed(Failure::Failed(text)));
    }
    let step = FileStep::Unpack {
        path: path.clone(),
        id: id.to_owned(),
        source: archive.source.clone(),
        digest: archive.digest.clone(),
        strip: archive.strip,
        owner,
        seen: found.map(|fact| fact.stamp),
    };
    Ok(Move::Do(Step::Files(step), verdict))
}

/// The archives that may stand there: the declared one, the recorded one, and those that were begun.
fn question(path: &str, declared: Option<&Digest>, view: &View<'_>) -> Question {
    let mut archives: BTreeSet<Digest> = declared.into_iter().cloned().collect();
    archives.extend(recorded(view).map(|(digest, _)| digest.clone()));
    let intents = view.memory.intents.get(view.target).into_iter().flatten();
    archives.extend(intents.filter_map(|intent| intent.digest.clone()));
    Question::Unpacked { path: path.to_owned(), archives: archives.into_iter().collect() }
}

fn recorded<'a>(view: &View<'a>) -> Option<(&'a Digest, Ids)> {
    match view.record().map(|record| &record.written) {
        Some(Written::Archive { digest, owner }) => Some((digest, *owner)),
        _ => None,
    }
}

fn answer<'a>(question: &Question, view: &View<'a>) -> Result<&'a UnpackedAnswer, Box<Move>> {
    let answer = match view.facts.get(question) {
        Some(Answer::Unpacked(answer)) => answer,
        other => return Err(not_as_asked(other, question)),
    };
    view.same_mount(&answer.mount)?;
    Ok(answer)
}

fn verdict(archive: &Archive, question: &Question, view: &View<'_>) -> Verdict {
    let before = match view.before.get(question).or_else(|| view.facts.get(question)) {
        Some(Answer::Unpacked(answer)) => answer.found.as_ref(),
        _ => None,
    };
    let recorded = recorded(view);
    let put_back = recorded.is_some_and(|(digest, _)| *digest == archive.digest);
    let to = archive.digest.to_string();
    let Some(fact) = before else {
        return match recorded {
            None => Verdict::plain(Outcome::Created),
            Some(_) => updated_or(
                put_back.then_some(Outcome::Corrected(Drift::Gone)),
                "it had been removed from the machine".to_owned(),
            ),
        }
        .moved(None, to);
    };
    if fact.holds.as_ref() == Some(&archive.digest) && view.did.is_empty() {
        return Verdict::plain(Outcome::Unchanged);
    }
    let from = fact.holds.as_ref().map(ToString::to_string);
    if recorded.is_none() && fact.holds.is_none() {
        return Verdict::plain(Outcome::Created).moved(None, to);
    }
    if fact.holds.as_ref() == Some(&archive.digest) {
        return updated_or(put_back.then_some(Outcome::Corrected(Drift::Owner)), "owner".to_owned());
    }
    let drifted = fact.holds.is_none();
    let detail = if drifted { "entries had been changed on the machine" } else { "another archive" };
    let corrected = (put_back && drifted).then_some(Outcome::Corrected(Drift::Content));
    updated_or(corrected, detail.to_owned()).moved(from, to)
}

/// What it brought is removed; what was changed since, and what else is there, is kept.
pub(super) fn remove(view: &View<'_>) -> Decided {
    let path = &view.target.name;
    let question = question(path, None, view);
    view.look(std::slice::from_ref(&question))?;
    let answer = answer(&question, view)?;
    let forgotten =
        |detail: &str| Ok(Move::Done(Verdict::new(Outcome::Forgotten, detail), Remember::Dropped));
    let removed = Verdict::plain(Outcome::Removed);
    let Some(fact) = &answer.found else {
        return if view.did.is_empty() {
            forgotten("it is gone already")
        } else {
            Ok(Move::Done(removed, Remember::Dropped))
        };
    };
    let kept = |detail: String| Ok(Move::Done(Verdict::new(Outcome::KeptOrphan, detail), Remember::Dropped));
    if !matches!(fact.kind, FileKind::Directory { .. }) {
        return kept(format!("it is {} now, which this host did not make", fact.kind.words()));
    }
    if !view.did.is_empty() {
        return kept(
            "what was changed or added by hand is left: look at it and remove it yourself".to_owned(),
        );
    }
    let intents = view.memory.intents.get(view.target).into_iter().flatten();
    let begun = intents
        .filter_map(|intent| intent.digest.as_ref())
        .find(|digest| fact.holds.as_ref() == Some(digest));
    // Killed after the exchange, it holds what was begun.
    match begun.or(recorded(view).map(|(digest, _)| digest)) {
        Some(digest) => {
            let step = FileStep::RemoveUnpacked { path: path.clone(), digest: digest.clone() };
            Ok(Move::Do(Step::Files(step), removed))
        }
        None => forgotten("it was never unpacked"),
    }
}
