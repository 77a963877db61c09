//! A command that the service manager runs: a unit file and an environment file that this host writes, and the unit.

use super::unit::{self, Wanted};
use super::{Decided, Failure, Move, Remember, View, failed};
use crate::desired::Managed;
use crate::digest::Digest;
use crate::facts::{FileKind, PathFact, Question};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::prepare::unit_file::{content_of, environment_path, path};
use crate::record::{Claim, Written};
use crate::step::{Content, FileStep, Ids, ServiceStep, Step};
use mesh_model::resource::Process;
use std::collections::BTreeMap;

const ROOT: Ids = Ids { uid: 0, gid: 0 };

pub(super) fn next(id: &str, process: &Process, managed: &Managed, view: &View<'_>) -> Decided {
    let name = process.unit();
    let none = Digest::plain(b"");
    let digest = managed.unit.as_ref().unwrap_or(&none);
    let (file, env) = (path(&name), environment_path(&name));
    view.look(&[question(&file), question(&env), Question::Unit(name.clone())])?;
    let steps = [
        lay(&env, managed.env.as_ref(), 0o600, Content::Declared(id.to_owned()), view)?,
        lay(&file, Some(digest), 0o644, Content::Declared(content_of(id)), view)?,
    ];
    let recorded = recorded(view);
    if let Some(step) = steps.into_iter().flatten().next() {
        let planned = verdict(
            process,
            managed,
            recorded.as_ref(),
            &[view.did, std::slice::from_ref(&step)].concat(),
            view,
        );
        return Ok(Move::Do(step, planned));
    }
    let restart_on: Vec<String> = process.restart_on.iter().map(ToString::to_string).collect();
    let with = recorded.as_ref().map(|recorded| recorded.with);
    let wanted = Wanted {
        unit: &name,
        runs: Some(true),
        boot: Some(true),
        restart: restart(digest, managed.env.as_ref(), recorded.as_ref(), view)
            .or_else(|| unit::owed(&restart_on, with, view)),
        reload: None,
        settle_ms: unit::settle_ms(process.settle),
        private: managed.private,
    };
    if let Some(step) = unit::next(&wanted, view)? {
        return Ok(match step {
            Move::Do(step, _) => {
                let did = [view.did, std::slice::from_ref(&step)].concat();
                Move::Do(step, verdict(process, managed, recorded.as_ref(), &did, view))
            }
            other => other,
        });
    }
    let verdict = verdict(process, managed, recorded.as_ref(), view.did, view);
    let with = unit::moves(restart_on.iter().map(String::as_str), view);
    let written = Written::Process { unit: digest.clone(), env: managed.env.clone(), with };
    Ok(Move::Done(verdict, Remember::Applied { claim: Claim::Made, mount: None, written }))
}

fn question(path: &str) -> Question {
    // The keyed digest of a file without a secret does no harm, and one question is enough for both files.
    Question::Content { path: path.to_owned(), keyed: true }
}

struct Recorded<'a> {
    unit: &'a Digest,
    env: Option<&'a Digest>,
    with: &'a BTreeMap<String, u64>,
}

fn recorded<'a>(view: &View<'a>) -> Option<Recorded<'a>> {
    match view.record().map(|record| &record.written) {
        Some(Written::Process { unit, env, with }) => Some(Recorded { unit, env: env.as_ref(), with }),
        _ => None,
    }
}

/// Why it has to be started again for its own files.
fn restart(
    unit: &Digest,
    env: Option<&Digest>,
    recorded: Option<&Recorded<'_>>,
    view: &View<'_>,
) -> Option<String> {
    let wrote = view.did.iter().any(|step| matches!(step, Step::Files(_)));
    let other = recorded.is_none_or(|recorded| recorded.unit != unit || recorded.env != env);
    // What was begun before a kill may have been written and not been started yet.
    let begun = view.memory.intents.contains_key(view.target);
    (wrote || other || begun).then(|| "its own files".to_owned())
}

/// What is there, which has to be a file of ours.
fn found<'a>(path: &str, view: &View<'a>) -> Result<Option<&'a PathFact>, Box<Move>> {
    let found = view.path(&question(path))?.found.as_ref();
    let Some(fact) = found else { return Ok(None) };
    if !fact.is_regular() {
        let is = fact.kind.words();
        let text = format!("{path} is {is}, and this host's file goes there: move it away");
        return Err(failed(Failure::Failed(text)));
    }
    let known = view.record().is_some() || view.memory.intents.contains_key(view.target);
    if known || !view.did.is_empty() {
        return Ok(found);
    }
    let text =
        format!("{path} is there, and this host did not write it: move it away, or choose another name");
    Err(failed(Failure::Failed(text)))
}

/// The step that lays a file with this content there; `None`: it lies there already.
fn lay(
    path: &str,
    wanted: Option<&Digest>,
    mode: u32,
    content: Content,
    view: &View<'_>,
) -> Result<Option<Step>, Box<Move>> {
    let found = found(path, view)?;
    let owner = view.owners.then_some(ROOT);
    let Some(digest) = wanted else {
        return Ok(
            found.map(|fact| Step::Files(FileStep::Unlink { path: path.to_owned(), seen: fact.stamp }))
        );
    };
    let is = |fact: &PathFact| fact.has(digest) && fact.mode == mode && (fact.uid, fact.gid) == (0, 0);
    if found.is_some_and(is) {
        return Ok(None);
    }
    let wrote =
        |step: &Step| matches!(step, Step::Files(FileStep::Write { path: other, .. }) if other == path);
    if view.did.iter().any(wrote) {
        return Err(failed(Failure::Failed(format!("{path} was written and reads back otherwise"))));
    }
    Ok(Some(Step::Files(FileStep::Write {
        path: path.to_owned(),
        content,
        digest: digest.clone(),
        mode,
        owner,
        seen: found.map(|fact| fact.stamp),
        in_place: false,
    })))
}

/// How the work ends, seen from what was there before.
fn verdict(
    process: &Process,
    managed: &Managed,
    recorded: Option<&Recorded<'_>>,
    did: &[Step],
    view: &View<'_>,
) -> Verdict {
    let name = process.unit();
    let Some(recorded) = recorded else { return Verdict::plain(Outcome::Created) };
    if did.is_empty() {
        return Verdict::new(Outcome::Unchanged, "running");
    }
    let same = managed.unit.as_ref() == Some(recorded.unit) && managed.env.as_ref() == recorded.env;
    let files = did.iter().any(|step| matches!(step, Step::Files(_)));
    let before = unit::before(&name, view);
    let ran = before.is_some_and(crate::facts::UnitFact::runs);
    let enabled = before.is_some_and(crate::facts::UnitFact::is_enabled);
    let (outcome, detail) = match (same, files) {
        (false, _) => (Outcome::Updated, "restarted with its new files"),
        (true, true) => (Outcome::Corrected(Drift::Content), "its files had been changed on the machine"),
        (true, false) if !ran => (Outcome::Corrected(Drift::State), "it did not run"),
        (true, false) if !enabled => (Outcome::Corrected(Drift::Boot), "it was not enabled"),
        (true, false) => {
            let ids: Vec<String> = process.restart_on.iter().map(ToString::to_string).collect();
            let why =
                unit::owed(&ids, Some(recorded.with), view).unwrap_or_else(|| "its own files".to_owned());
            return Verdict::new(Outcome::Updated, format!("restarted for {why}"));
        }
    };
    Verdict::new(outcome, detail)
}

/// Stops it, and takes its files away again.
pub(super) fn remove(view: &View<'_>) -> Decided {
    let name = view.target.name.clone();
    let (file, env) = (path(&name), environment_path(&name));
    view.look(&[question(&file), question(&env), Question::Unit(name.clone())])?;
    let fact = unit::fact(&name, view)?;
    let removed = || Verdict::plain(Outcome::Removed);
    let file_fact = view.path(&question(&file))?.found.as_ref();
    let ours = file_fact.is_some_and(|fact| view.memory.wrote(view.target, |digest| fact.has(digest)));
    if let Some(fact) = file_fact.filter(|_| !ours) {
        let is =
            if fact.kind == FileKind::Regular { "was changed by hand" } else { "is not a file any more" };
        let verdict =
            Verdict::new(Outcome::KeptOrphan, format!("{file} {is}: it is left, and what it runs too"));
        return Ok(Move::Done(verdict, Remember::Dropped));
    }
    let did = |is: fn(&ServiceStep) -> bool| {
        view.did.iter().any(|step| matches!(step, Step::Service(step) if is(step)))
    };
    let service = |step| Ok(Move::Do(Step::Service(step), removed()));
    if file_fact.is_some() && fact.is_enabled() && !did(|step| matches!(step, ServiceStep::Boot { .. })) {
        return service(ServiceStep::Boot { unit: name, to: crate::step::BootStep::Disable, was: true });
    }
    if !fact.is_stopped() {
        if did(|step| matches!(step, ServiceStep::Stop { .. })) {
            return Err(failed(Failure::Failed(format!("{name} was asked to stop and is {}", fact.words()))));
        }
        return service(ServiceStep::Stop { unit: name });
    }
    for path in [&file, &env] {
        let found = view.path(&question(path))?.found.as_ref();
        if let Some(fact) = found.filter(|fact| fact.is_regular()) {
            let step = FileStep::Unlink { path: path.clone(), seen: fact.stamp };
            return Ok(Move::Do(Step::Files(step), removed()));
        }
    }
    if !view.did.is_empty() && !did(|step| matches!(step, ServiceStep::ReadAgain)) {
        return service(ServiceStep::ReadAgain);
    }
    if view.did.is_empty() {
        return Ok(Move::Done(Verdict::new(Outcome::Forgotten, "it is gone already"), Remember::Dropped));
    }
    Ok(Move::Done(removed(), Remember::Dropped))
}
