//! A container that is no longer declared: it is stopped and removed if it is ours. Its volumes stay.

use super::{Decided, Failure, Move, Remember, failed, family, scheduled};
use crate::container::{ContainerStep, Family, next_name, prev_name};
use crate::decide::View;
use crate::facts::{Answer, PathAnswer, Question};
use crate::outcome::{Outcome, Verdict};
use crate::step::{FileStep, Step};

pub(in crate::decide) fn next(view: &View<'_>) -> Decided {
    let name = &view.target.name;
    let question = Question::Container(name.clone());
    let env = Question::Content { path: scheduled::env_path(view.state, name), keyed: false };
    view.look(&[question.clone(), env.clone()])?;
    let Family { current, next, prev, .. } = family(&question, view)?;
    if let Some(failure) = view.failed {
        return Err(failed(failure.clone()));
    }
    let removed = |detail: &str| Verdict::new(Outcome::Removed, detail);
    let names = [(name.clone(), current), (next_name(name), next), (prev_name(name), prev)];
    for (name, found) in names {
        let Some(found) = found else { continue };
        if !found.is_ours() {
            continue;
        }
        let gone = |step: &Step| matches!(step, Step::Container(ContainerStep::Remove { name: done, .. }) if *done == name);
        if view.did.iter().any(gone) {
            return Err(failed(Failure::Failed(format!("{name} was removed and is still there"))));
        }
        let number = found.number.clone();
        let step = ContainerStep::Remove { of: view.target.name.clone(), name, number };
        return Ok(Move::Do(Step::Container(step), removed("its volumes are left")));
    }
    if let Some(Answer::Path(PathAnswer { found: Some(fact), .. })) = view.facts.get(&env) {
        if view.did.iter().any(|step| matches!(step, Step::Files(_))) {
            return Err(failed(Failure::Failed("its environment was removed and is still there".to_owned())));
        }
        let step = FileStep::Unlink { path: scheduled::env_path(view.state, name), seen: fact.stamp };
        return Ok(Move::Do(Step::Files(step), removed("")));
    }
    let ended = if current.is_some() {
        Verdict::new(Outcome::Forgotten, "another container has the name now, and is left")
    } else if !view.did.is_empty() {
        let ran = view.did.iter().any(|step| matches!(step, Step::Container(_)));
        removed(if ran { "its volumes are left" } else { "" })
    } else if is_scheduled(view) {
        removed("its schedule is taken out")
    } else {
        Verdict::new(Outcome::Forgotten, "it is gone already")
    };
    Ok(Move::Done(ended, Remember::Dropped))
}

fn is_scheduled(view: &View<'_>) -> bool {
    use crate::record::Written;
    matches!(view.record().map(|record| &record.written), Some(Written::Container(record)) if record.schedule.is_some())
}
