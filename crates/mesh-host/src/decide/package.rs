//! A package: installed or not. Its version is the machine's affair, and it is never removed.

use super::{Decided, Failure, Move, Remember, View, failed, not_as_asked};
use crate::facts::{Answer, Question};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{PackageStep, Step};

pub(super) fn next(package: &str, view: &View<'_>) -> Decided {
    let question = Question::Package(package.to_owned());
    view.look(std::slice::from_ref(&question))?;
    let status = match view.facts.get(&question) {
        Some(Answer::Package(status)) => status.as_str(),
        Some(Answer::Absent) => "not installed",
        other => return Err(not_as_asked(other, &question)),
    };
    let begun = view.memory.intents.contains_key(view.target);
    if status == "installed" {
        let verdict = match (view.did.is_empty(), view.record()) {
            (true, _) => Verdict::new(Outcome::Unchanged, "already installed"),
            (false, None) => Verdict::plain(Outcome::Created),
            (false, Some(_)) => Verdict::new(Outcome::Corrected(Drift::Gone), "it had been removed"),
        };
        let made = !view.did.is_empty() || begun;
        let claim =
            if made { Claim::Made } else { view.record().map_or(Claim::Agreed, |record| record.claim) };
        return Ok(Move::Done(verdict, Remember::Applied { claim, mount: None, written: Written::Package }));
    }
    if !view.did.is_empty() {
        let text =
            format!("{package} was installed without an error, and the package database says {status}");
        return Err(failed(Failure::Failed(text)));
    }
    let verdict = match view.record() {
        None => Verdict::plain(Outcome::Created),
        Some(_) => Verdict::new(Outcome::Corrected(Drift::Gone), "it had been removed"),
    };
    Ok(Move::Do(Step::Package(PackageStep::Install { package: package.to_owned() }), verdict))
}
