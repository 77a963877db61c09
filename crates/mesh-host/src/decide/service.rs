//! A unit that exists on the machine: whether it runs, whether it starts at boot, and what it restarts or reloads for.

use super::unit::{self, Wanted};
use super::{Decided, Move, Remember, View};
use crate::facts::{Load, UnitFact};
use crate::outcome::{Drift, Outcome, Verdict};
use crate::record::{Claim, Written};
use crate::step::{BootStep, ServiceStep, Step};
use mesh_model::resource::{Boot, Service, State};
use std::collections::BTreeMap;

pub(super) fn next(service: &Service, private: bool, view: &View<'_>) -> Decided {
    let name = service.unit.to_string();
    let restart_on: Vec<String> = service.restart_on.iter().map(ToString::to_string).collect();
    let reload_on: Vec<String> = service.reload_on.iter().map(ToString::to_string).collect();
    let recorded = recorded(view);
    let with = recorded.as_ref().map(|recorded| recorded.with);
    let wanted = Wanted {
        unit: &name,
        runs: service.state.map(|state| state == State::Running),
        boot: service.boot.map(|boot| boot == Boot::Enabled),
        restart: unit::owed(&restart_on, with, view),
        reload: unit::owed(&reload_on, with, view),
        settle_ms: unit::settle_ms(service.settle),
        private,
    };
    if let Some(step) = unit::next(&wanted, view)? {
        return Ok(match step {
            Move::Do(step, _) => {
                let planned = planned(&wanted, &step, view);
                Move::Do(step, planned)
            }
            other => other,
        });
    }
    let fact = unit::fact(&name, view)?;
    let ids = restart_on.iter().chain(&reload_on).map(String::as_str);
    let written = Written::Unit {
        runs: wanted.runs,
        boot: wanted.boot,
        boot_was: boot_was(recorded.as_ref(), view),
        with: unit::moves(ids, view),
    };
    let verdict = verdict(&wanted, fact, recorded.as_ref(), view);
    Ok(Move::Done(verdict, Remember::Applied { claim: claim(&name, view), mount: None, written }))
}

struct Recorded<'a> {
    runs: Option<bool>,
    boot: Option<bool>,
    boot_was: Option<bool>,
    with: &'a BTreeMap<String, u64>,
}

fn recorded<'a>(view: &View<'a>) -> Option<Recorded<'a>> {
    match view.record().map(|record| &record.written) {
        Some(Written::Unit { runs, boot, boot_was, with }) => {
            Some(Recorded { runs: *runs, boot: *boot, boot_was: *boot_was, with })
        }
        _ => None,
    }
}

/// Whether it was enabled before this host first said otherwise: by the record, by what a kill left, or by this apply.
fn boot_was(recorded: Option<&Recorded<'_>>, view: &View<'_>) -> Option<bool> {
    let begun =
        view.memory.intents.get(view.target).into_iter().flatten().find_map(|intent| intent.was.as_deref());
    let now = view.did.iter().find_map(|step| match step {
        Step::Service(ServiceStep::Boot { was, .. }) => Some(*was),
        _ => None,
    });
    recorded.and_then(|recorded| recorded.boot_was).or(begun.map(|was| was == "enabled")).or(now)
}

/// It is ours if this host started it, or if what brought it came in this very apply.
fn claim(name: &str, view: &View<'_>) -> Claim {
    let starts = |step: &Step| matches!(step, Step::Service(ServiceStep::Start { .. }));
    let intents = view.memory.intents.get(view.target).map_or(&[][..], Vec::as_slice);
    let question = crate::facts::Question::Unit(name.to_owned());
    let brought = matches!(
        view.first.get(&question),
        Some(crate::facts::Answer::Unit(UnitFact { load: Load::Absent, .. }))
    );
    match view.record().map(|record| record.claim) {
        Some(Claim::Made) => Claim::Made,
        _ if view.did.iter().any(starts) || intents.iter().any(|intent| intent.creates) => Claim::Made,
        None if brought => Claim::Made,
        _ if !view.did.is_empty() || !intents.is_empty() => Claim::Configured,
        Some(claim) => claim,
        None => Claim::Agreed,
    }
}

/// What a plan says of the first step.
fn planned(wanted: &Wanted<'_>, step: &Step, view: &View<'_>) -> Verdict {
    let did = [view.did, std::slice::from_ref(step)].concat();
    let view = View { did: &did, ..*view };
    match unit::before(wanted.unit, &view) {
        Some(fact) => verdict(wanted, fact, recorded(&view).as_ref(), &view),
        None => Verdict::plain(Outcome::Updated),
    }
}

/// How the work ends, seen from what was there before.
fn verdict(wanted: &Wanted<'_>, now: &UnitFact, recorded: Option<&Recorded<'_>>, view: &View<'_>) -> Verdict {
    let details = unit::details(wanted, view);
    let Some(before) = unit::before(wanted.unit, view).filter(|_| !details.is_empty()) else {
        return Verdict::new(Outcome::Unchanged, unit::state_word(now));
    };
    let did = |is: fn(&ServiceStep) -> bool| {
        view.did.iter().any(|step| matches!(step, Step::Service(step) if is(step)))
    };
    // Somebody stopped or started it, or set its boot state, since this host last said so.
    let state = did(|step| matches!(step, ServiceStep::Start { .. } | ServiceStep::Stop { .. }))
        || did(|step| matches!(step, ServiceStep::Restart { .. })) && !before.runs();
    let boot = did(|step| matches!(step, ServiceStep::Boot { to: BootStep::Enable | BootStep::Disable, .. }));
    let state_drifted = state && recorded.is_some_and(|recorded| recorded.runs == wanted.runs);
    let boot_drifted = boot && recorded.is_some_and(|recorded| recorded.boot == wanted.boot);
    let other = did(|step| matches!(step, ServiceStep::Reload { .. }))
        || wanted.restart.is_some() && unit::started(view) && before.runs();
    let drift = if state_drifted { Drift::State } else { Drift::Boot };
    let all = (state || boot) && state == state_drifted && boot == boot_drifted && !other;
    let outcome = if all { Outcome::Corrected(drift) } else { Outcome::Updated };
    let words = |fact: &UnitFact| format!("{}, {}", unit::state_word(fact), fact.boot);
    let to = [
        wanted.runs.map(|runs| if runs { "running" } else { "stopped" }),
        wanted.boot.map(|boot| if boot { "enabled" } else { "disabled" }),
    ];
    let to: Vec<&str> = to.into_iter().flatten().collect();
    Verdict::new(outcome, details.join(", ")).moved(words(before), to.join(", "))
}

/// What this host started is stopped, and gets its boot state back.
pub(super) fn remove(view: &View<'_>) -> Decided {
    let name = &view.target.name;
    let fact = unit::fact(name, view)?;
    let recorded = recorded(view);
    if fact.load == Load::Absent {
        let verdict = Verdict::new(Outcome::Forgotten, "it is gone already");
        return Ok(Move::Done(verdict, Remember::Dropped));
    }
    // Begun and not recorded: it is stopped only if it did not run before.
    let runs = match &recorded {
        Some(recorded) => recorded.runs == Some(true),
        None => claim(name, view) == Claim::Made,
    };
    let sets_boot = recorded.as_ref().is_none_or(|recorded| recorded.boot.is_some());
    let wanted = Wanted {
        unit: name,
        runs: runs.then_some(false),
        // As it was found; where nothing tells, it is left.
        boot: if sets_boot { boot_was(recorded.as_ref(), view) } else { None },
        restart: None,
        reload: None,
        settle_ms: 0,
        private: false,
    };
    if let Some(step) = unit::next(&wanted, view)? {
        return Ok(match step {
            Move::Do(step, _) => Move::Do(step, Verdict::plain(Outcome::Removed)),
            other => other,
        });
    }
    let detail = if runs { "stopped; the unit file is left" } else { "its boot state is as it was found" };
    Ok(Move::Done(Verdict::new(Outcome::Removed, detail), Remember::Dropped))
}
