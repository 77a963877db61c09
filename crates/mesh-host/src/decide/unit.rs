//! Bringing a unit of the service manager to what it shall be: unit files read, boot before state, a restart that is
//! owed, and a look whether it stays up.

use super::{Failure, Move, View, failed, not_as_asked};
use crate::facts::{Answer, Load, Question, UnitFact};
use crate::outcome::{Outcome, Verdict};
use crate::step::{BootStep, OWN_UNIT, ServiceStep, Step};
use mesh_model::resource::Period;
use std::collections::BTreeMap;

/// How long a unit has to stay up where nothing is declared, in milliseconds.
const SETTLE_MS: u64 = 2_000;

/// How long a unit has to stay up, in milliseconds.
pub(super) fn settle_ms(declared: Option<Period>) -> u64 {
    declared.map_or(SETTLE_MS, |settle| u64::try_from(settle.duration().as_millis()).unwrap_or(u64::MAX))
}

/// What a unit shall be.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) unit: &'a str,
    /// Whether it shall run; `None`: as it is.
    pub(super) runs: Option<bool>,
    /// Whether it shall start with the machine; `None`: as it is.
    pub(super) boot: Option<bool>,
    /// Why a restart is owed if it runs.
    pub(super) restart: Option<String>,
    /// Why a reload is owed if it runs.
    pub(super) reload: Option<String>,
    /// How long it has to stay up, in milliseconds.
    pub(super) settle_ms: u64,
    /// Whether what it says may hold secrets, and is not told on.
    pub(super) private: bool,
}

/// The word of the end is said when the end is reached.
fn do_it(step: ServiceStep) -> Move {
    Move::Do(Step::Service(step), Verdict::plain(Outcome::Updated))
}

fn fail(text: impl Into<String>) -> Box<Move> {
    failed(Failure::Failed(text.into()))
}

/// How the unit stands.
pub(super) fn fact<'a>(unit: &str, view: &View<'a>) -> Result<&'a UnitFact, Box<Move>> {
    let question = Question::Unit(unit.to_owned());
    view.look(std::slice::from_ref(&question))?;
    match view.facts.get(&question) {
        Some(Answer::Unit(fact)) => Ok(fact),
        other => Err(not_as_asked(other, &question)),
    }
}

/// How it stood before the first step of this resource.
pub(super) fn before<'a>(unit: &str, view: &View<'a>) -> Option<&'a UnitFact> {
    let question = Question::Unit(unit.to_owned());
    match view.before.get(&question).or_else(|| view.facts.get(&question)) {
        Some(Answer::Unit(fact)) => Some(fact),
        _ => None,
    }
}

fn did(view: &View<'_>, is: impl Fn(&ServiceStep) -> bool) -> bool {
    view.did.iter().any(|step| matches!(step, Step::Service(step) if is(step)))
}

/// Whether it was started or restarted in this apply.
pub(super) fn started(view: &View<'_>) -> bool {
    did(view, |step| matches!(step, ServiceStep::Start { .. } | ServiceStep::Restart { .. }))
}

/// The next step, or `None`: the unit is what it shall be, and has settled.
pub(super) fn next(wanted: &Wanted<'_>, view: &View<'_>) -> Result<Option<Move>, Box<Move>> {
    let unit = wanted.unit;
    let fact = fact(unit, view)?;
    loaded(wanted, fact)?;
    if fact.stale {
        if did(view, |step| matches!(step, ServiceStep::ReadAgain)) {
            return Err(fail(format!("systemd was told to read {unit} again and has not done so")));
        }
        return Ok(Some(do_it(ServiceStep::ReadAgain)));
    }
    if let Some(step) = boot(wanted, fact, view)? {
        return Ok(Some(step));
    }
    if let Some(step) = state(wanted, fact, view)? {
        return Ok(Some(step));
    }
    let moved = started(view) || did(view, |step| matches!(step, ServiceStep::Reload { .. }));
    if moved && !view.settled {
        return Ok(Some(Move::Settle { after_ms: wanted.settle_ms }));
    }
    if started(view) && fact.restarts > 0 {
        let times = fact.restarts;
        let text = format!("{unit} was started and restarted by itself {times} times since");
        return Err(with_log(wanted, fact, &text, view)?);
    }
    Ok(None)
}

/// What is not a unit, or not a whole one.
fn loaded(wanted: &Wanted<'_>, fact: &UnitFact) -> Result<(), Box<Move>> {
    let unit = wanted.unit;
    let starts = wanted.runs == Some(true) || wanted.boot == Some(true);
    let forbidden = fact.load == Load::Masked && starts;
    match &fact.load {
        Load::Loaded | Load::Masked if !forbidden => Ok(()),
        Load::Absent => Err(fail(format!(
            "{unit} is not on this machine: declare what brings it, a package or its unit file, before it"
        ))),
        Load::Loaded | Load::Masked => {
            Err(fail(format!("{unit} is masked: a person forbade it; systemctl unmask {unit} allows it")))
        }
        Load::Bad(why) => Err(fail(format!("{unit} cannot be read ({why}): correct its unit file"))),
    }
}

/// Boot before state, so that a failure half-way leaves it enabled and stopped rather than running and disabled.
fn boot(wanted: &Wanted<'_>, fact: &UnitFact, view: &View<'_>) -> Result<Option<Move>, Box<Move>> {
    let unit = wanted.unit;
    let Some(enabled) = wanted.boot else { return Ok(None) };
    let renew = enabled && fact.links_differ;
    if fact.is_enabled() == enabled && !renew {
        return Ok(None);
    }
    let cannot = match fact.boot.as_str() {
        "static" if enabled => Some("is static: its file has no [Install] section, so it cannot be enabled"),
        "indirect" if enabled => Some("is indirect: it is enabled through the units in its Also="),
        "generated" | "transient" => Some("is made by a generator, so its boot state is not ours to set"),
        _ => None,
    };
    if let Some(why) = cannot.filter(|_| enabled) {
        return Err(fail(format!("{unit} {why}: leave boot out, or declare another unit")));
    }
    if !enabled && !["enabled", "enabled-runtime", "alias", "linked", "linked-runtime"].contains(&&*fact.boot)
    {
        return Ok(None);
    }
    if did(view, |step| matches!(step, ServiceStep::Boot { .. })) {
        let asked = if enabled { "enabled" } else { "disabled" };
        let text = if renew {
            format!("{unit} was enabled again, and its links still differ from its file")
        } else {
            format!("{unit} was asked to be {asked} and is {}", fact.boot)
        };
        return Err(fail(text));
    }
    let to = match (enabled, renew) {
        (true, true) => BootStep::Renew,
        (true, false) => BootStep::Enable,
        (false, _) => BootStep::Disable,
    };
    let step = ServiceStep::Boot { unit: unit.to_owned(), to, was: fact.is_enabled() };
    Ok(Some(do_it(step)))
}

fn state(wanted: &Wanted<'_>, fact: &UnitFact, view: &View<'_>) -> Result<Option<Move>, Box<Move>> {
    let unit = wanted.unit.to_owned();
    let private = wanted.private;
    match wanted.runs {
        Some(false) if fact.is_stopped() => Ok(None),
        Some(false) => {
            let asked = did(view, |step| matches!(step, ServiceStep::Stop { .. }));
            if asked && unit == OWN_UNIT {
                return Ok(None);
            }
            if asked {
                return Err(fail(format!("{unit} was asked to stop and is {}", fact.words())));
            }
            Ok(Some(do_it(ServiceStep::Stop { unit })))
        }
        Some(true) if !fact.runs() => {
            if started(view) {
                let text = format!("{unit} was asked to be running and is {}", fact.words());
                return Err(with_log(wanted, fact, &text, view)?);
            }
            // What is about to start itself again is told to start now; a plain start would wait for that.
            let step = if fact.sub == "auto-restart" && unit != OWN_UNIT {
                ServiceStep::Restart { unit, private }
            } else {
                ServiceStep::Start { unit, private }
            };
            Ok(Some(do_it(step)))
        }
        _ if !fact.runs() || started(view) => Ok(None),
        _ if wanted.restart.is_some() => Ok(Some(do_it(ServiceStep::Restart { unit, private }))),
        _ if wanted.reload.is_some() && !did(view, |step| matches!(step, ServiceStep::Reload { .. })) => {
            Ok(Some(do_it(ServiceStep::Reload { unit, private })))
        }
        _ => Ok(None),
    }
}

/// A failure, with how the unit ended and what it wrote last. The outer error is the look at the log.
fn with_log(
    wanted: &Wanted<'_>,
    fact: &UnitFact,
    text: &str,
    view: &View<'_>,
) -> Result<Box<Move>, Box<Move>> {
    let oneshot = fact.active == "inactive" && fact.result == "success" && fact.exit == 0;
    let how = if oneshot {
        "it ran to its end: set RemainAfterExit=yes in its file, or declare it stopped".to_owned()
    } else {
        format!("result {}, exit code {}", fact.result, fact.exit)
    };
    let unit = wanted.unit;
    if wanted.private {
        return Ok(fail(format!("{text}; {how}; see journalctl -u {unit}")));
    }
    let question = Question::UnitLog(unit.to_owned());
    view.look(std::slice::from_ref(&question))?;
    let said = match view.facts.get(&question) {
        Some(Answer::Text(said)) if !said.is_empty() => format!("; it wrote: {said}"),
        _ => String::new(),
    };
    Ok(fail(format!("{text}; {how}{said}")))
}

/// What was done in this apply, for people; empty if nothing was.
pub(super) fn details(wanted: &Wanted<'_>, view: &View<'_>) -> Vec<String> {
    let Some(before) = before(wanted.unit, view) else { return Vec::new() };
    let mut details = Vec::new();
    let waits = if wanted.unit == OWN_UNIT { ", once this apply has ended" } else { "" };
    for step in view.did {
        let Step::Service(step) = step else { continue };
        details.push(match step {
            ServiceStep::ReadAgain => "unit files read again".to_owned(),
            ServiceStep::Boot { to: BootStep::Renew, .. } => "enabled again, as its file says now".to_owned(),
            ServiceStep::Boot { to, .. } => {
                let from = if before.boot.is_empty() { "absent" } else { &before.boot };
                let to = if *to == BootStep::Enable { "enabled" } else { "disabled" };
                format!("boot {from} to {to}")
            }
            ServiceStep::Start { .. } => format!("{} to running", state_word(before)),
            ServiceStep::Stop { .. } => format!("{} to stopped{waits}", state_word(before)),
            ServiceStep::Restart { .. } => match &wanted.restart {
                Some(why) => format!("restarted for {why}{waits}"),
                None => format!("{} to running", state_word(before)),
            },
            ServiceStep::Reload { .. } => {
                format!("reloaded for {}", wanted.reload.as_deref().unwrap_or_default())
            }
        });
    }
    details
}

/// The word of the report for a state.
pub(super) fn state_word(fact: &UnitFact) -> &str {
    match fact.active.as_str() {
        "active" => "running",
        "inactive" => "stopped",
        other => other,
    }
}

/// How often each of `ids` was made or mended until now.
pub(super) fn moves<'i>(ids: impl Iterator<Item = &'i str>, view: &View<'_>) -> BTreeMap<String, u64> {
    ids.filter_map(|id| Some((id.to_owned(), view.memory.moves(id)?))).collect()
}

/// Those of `ids` that moved since the unit was last started with them. `with`: what the record says, if there is one.
pub(super) fn owed(ids: &[String], with: Option<&BTreeMap<String, u64>>, view: &View<'_>) -> Option<String> {
    let moved = |id: &&String| {
        let Some(now) = view.memory.moves(id) else { return false };
        match with {
            Some(_) if view.changed.contains(*id) => true,
            Some(with) => with.get(*id).is_some_and(|then| *then != now),
            // It runs, and nobody knows since when: what this host made or mended may be news to it.
            None => now > 0,
        }
    };
    let moved: Vec<&str> = ids.iter().filter(moved).map(String::as_str).collect();
    if moved.is_empty() { None } else { Some(moved.join(", ")) }
}
