//! Keys of the mesh inside a file that the machine owns. The machine works out what the file shall hold; mode and owner
//! of the file are not ours to say.

use super::{Decided, Failure, Move, Remember, View, failed, updated_or};
use crate::desired::Into;
use crate::facts::{Answer, LeavesAnswer, Question};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{FileStep, Step};
use mesh_model::resource::Format;

pub(super) fn next(id: &str, into: &Into, view: &View<'_>) -> Decided {
    let question = Question::Leaves {
        path: into.path.clone(),
        target: view.target.name.clone(),
        id: Some(id.to_owned()),
        format: into.format,
    };
    let answer = ask(&question, view)?;
    let done = answer.found == answer.wanted;
    let verdict = verdict(into, view, answer, &question);
    if done {
        let made = !view.did.is_empty() || view.memory.intents.contains_key(view.target);
        let claim =
            if made { Claim::Made } else { view.record().map_or(Claim::Agreed, |record| record.claim) };
        let written = Written::Into {
            path: into.path.clone(),
            format: into.format.to_string(),
            digest: into.digest.clone(),
        };
        let mount = Some(answer.mount.clone());
        return Ok(Move::Done(verdict, Remember::Applied { claim, mount, written }));
    }
    if !view.did.is_empty() {
        return Err(failed(Failure::Failed(format!("{} was set and reads back otherwise", into.path))));
    }
    let private = into.digest.is_keyed();
    Ok(Move::Do(step((&into.path, into.format, Some(id)), private, view, answer), verdict))
}

/// Takes back what was set.
pub(super) fn remove(path: &str, format: Format, view: &View<'_>) -> Decided {
    let question =
        Question::Leaves { path: path.to_owned(), target: view.target.name.clone(), id: None, format };
    let answer = ask(&question, view)?;
    if answer.found == answer.wanted {
        let verdict = if view.did.is_empty() {
            Verdict::new(Outcome::Forgotten, "nothing of ours stands in the file any more")
        } else {
            Verdict::new(Outcome::Removed, "our keys are out of the file; it is left")
        };
        return Ok(Move::Done(verdict, Remember::Dropped));
    }
    if !view.did.is_empty() {
        return Err(failed(Failure::Failed(format!(
            "our keys were taken out of {path} and are still there"
        ))));
    }
    Ok(Move::Do(step((path, format, None), false, view, answer), Verdict::plain(Outcome::Removed)))
}

fn ask<'a>(question: &Question, view: &View<'a>) -> Result<&'a LeavesAnswer, Box<Move>> {
    view.look(std::slice::from_ref(question))?;
    let answer = match view.facts.get(question) {
        Some(Answer::Leaves(answer)) => answer,
        other => return Err(super::not_as_asked(other, question)),
    };
    view.same_mount(&answer.mount)?;
    Ok(answer)
}

fn step(
    (path, format, id): (&str, Format, Option<&str>),
    private: bool,
    view: &View<'_>,
    answer: &LeavesAnswer,
) -> Step {
    Step::Files(FileStep::SetLeaves {
        path: path.to_owned(),
        target: view.target.name.clone(),
        id: id.map(str::to_owned),
        format,
        seen: answer.seen,
        digest: answer.wanted.clone(),
        private,
    })
}

fn verdict(into: &Into, view: &View<'_>, now: &LeavesAnswer, question: &Question) -> Verdict {
    let before = match view.before.get(question) {
        Some(Answer::Leaves(before)) => before,
        _ => now,
    };
    let recorded = match view.record().map(|record| &record.written) {
        Some(Written::Into { digest, .. }) => Some(digest),
        _ => None,
    };
    if before.found == before.wanted {
        return Verdict::plain(Outcome::Unchanged);
    }
    let (from, to) =
        (before.found.as_ref().map(ToString::to_string), before.wanted.as_ref().map(ToString::to_string));
    let verdict = match (&before.found, recorded) {
        (None, None) => Verdict::plain(Outcome::Created),
        (None, Some(_)) => {
            Verdict::new(Outcome::Corrected(Drift::Gone), "the file had been removed from the machine")
        }
        (Some(_), recorded) => {
            let corrected = (recorded == Some(&into.digest)).then_some(Outcome::Corrected(Drift::Content));
            let detail =
                if corrected.is_some() { "our keys had been changed on the machine" } else { "our keys" };
            updated_or(corrected, detail.to_owned())
        }
    };
    verdict.moved(from, to)
}
