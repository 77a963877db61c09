//! What is reported of an apply: a line for each resource, totals, and how each module stands.

mod facts;

pub use facts::facts;

use crate::engine::Ended;
use crate::facts::Question;
use crate::outcome::{Gate, Outcome as End};
use crate::prepare::NotReady;
use mesh_model::digest::Digest;
use mesh_model::report::{Facts, ModuleReport, ModuleState, Outcome, Report, ScheduleReport, Word};
use mesh_model::resource::Kind;
use std::collections::BTreeMap;

/// Gathers the outcomes of one apply.
#[derive(Debug)]
pub struct Gathering {
    report: Report,
    modules: BTreeMap<String, ModuleReport>,
}

impl Gathering {
    /// Begins the report of a declaration, or of a bundle, which has neither sequence nor fence.
    pub fn new(sequence: u64, fence: u64) -> Self {
        let report = Report::new(sequence, fence);
        Self { report, modules: BTreeMap::new() }
    }

    /// A module that takes part, with the digest of its assignment and its number of resources.
    pub fn module(&mut self, name: &str, assignment: Digest, resources: u64) {
        let state = ModuleState::Applied;
        let report = ModuleReport { state, why: String::new(), assignment, resources, changed: 0 };
        self.modules.insert(name.to_owned(), report);
    }

    /// A module that is not applied now.
    pub fn not_ready(&mut self, name: &str, why: &NotReady) {
        let Some(module) = self.modules.get_mut(name) else { return };
        (module.state, module.why) = match why {
            NotReady::Waiting(why) => (ModuleState::Waiting, why.clone()),
            NotReady::Refused(why) => (ModuleState::Refused, why.clone()),
        };
    }

    /// How one resource ended.
    pub fn ended(&mut self, ended: &Ended, ms: u64) -> Outcome {
        let outcome = outcome(ended, ms);
        let effect = ended.verdict.outcome.effect();
        let report = &mut self.report;
        *report.totals.entry(outcome.word).or_default() += 1;
        report.changed |= effect.moved;
        let failed = matches!(ended.verdict.outcome, End::Failed | End::NotAnswered);
        if failed && report.first_failure.is_none() {
            report.first_failure = Some(outcome.clone());
        }
        if let Some(module) = self.modules.get_mut(ended.origin.name()) {
            module.changed += u64::from(effect.moved);
            let state = match &ended.verdict.outcome {
                End::NotAttempted(Gate::Failed(_)) => Some(ModuleState::Gated),
                End::Failed | End::NotAnswered | End::NotAttempted(_) => Some(ModuleState::Failed),
                _ => None,
            };
            if let Some(state) = state
                && module.state != ModuleState::Gated
            {
                module.state = state;
                if module.why.is_empty() {
                    module.why = format!("{}: {}", ended.id, ended.verdict.detail);
                }
            }
        }
        report.outcomes.push(outcome.clone());
        outcome
    }

    /// The whole report.
    pub fn finish(mut self, gated: bool, facts: Facts, schedules: Vec<ScheduleReport>) -> Report {
        self.report.facts = facts;
        self.report.schedules = schedules;
        self.report.gated = gated;
        self.report.modules = self.modules;
        self.report
    }
}

fn outcome(ended: &Ended, ms: u64) -> Outcome {
    let verdict = &ended.verdict;
    let bad = !verdict.outcome.is_well();
    let drift = match &verdict.outcome {
        End::Corrected(drift) => drift.name(),
        _ => "",
    };
    // What went wrong is the cause; otherwise the cause is the kind of drift.
    let (cause, detail) = if bad {
        (verdict.detail.clone(), String::new())
    } else {
        (drift.to_owned(), verdict.detail.clone())
    };
    Outcome {
        module: ended.origin.name().to_owned(),
        id: ended.id.clone(),
        kind: ended.target.kind.name().parse::<Kind>().unwrap_or(Kind::File),
        target: ended.target.name.split('#').next().unwrap_or_default().to_owned(),
        word: verdict.outcome.word().parse::<Word>().unwrap_or(Word::Failed),
        cause,
        detail,
        from: verdict.from.clone(),
        to: verdict.to.clone(),
        asked: asked(&ended.asked),
        ms,
    }
}

/// What was asked to read a resource back, in words.
fn asked(questions: &[Question]) -> Option<String> {
    let mut words: Vec<&str> = questions
        .iter()
        .filter_map(|question| match question {
            Question::Path(_) => Some("stat"),
            Question::Content { .. } | Question::Leaves { .. } => Some("stat and content"),
            Question::Unpacked { .. } => Some("each entry"),
            Question::Owner(_) | Question::UnitLog(_) | Question::Image(_) => None,
            Question::Container(_) => Some("container inspect"),
            Question::Listener(_) => Some("sockets"),
            Question::Opening(_) | Question::Guard(_) => Some("firewall"),
            Question::Network(_) => Some("network ls"),
            Question::Unit(_) => Some("systemctl show"),
            Question::Package(_) => Some("dpkg-query"),
            Question::Account(_) => Some("passwd and group"),
            Question::Holds(_) => Some("verify"),
        })
        .collect();
    words.dedup();
    if words.is_empty() { None } else { Some(words.join(", ")) }
}

/// The sentence that ends a failed apply: the first failure, how many others, and what is true of the rest.
pub fn failure(report: &Report) -> Option<String> {
    let first = report.first_failure.as_ref()?;
    let count = |word| report.totals.get(&word).copied().unwrap_or(0);
    let others = count(Word::Failed) + count(Word::NotAnswered) - 1;
    let others = match others {
        0 => String::new(),
        1 => "; one other resource also failed".to_owned(),
        several => format!("; {several} other resources also failed"),
    };
    let rest = if report.gated {
        "nothing after it in its module was attempted"
    } else {
        "everything was attempted, so what is not listed as failed was done"
    };
    let bad = [Word::Failed, Word::NotAnswered, Word::NotAttempted, Word::Waiting];
    let well: u64 =
        report.totals.iter().filter(|(word, _)| !bad.contains(word)).map(|(_, count)| count).sum();
    Some(format!("{} failed: {}{others}; {rest}; {well} applied and remaining", first.id, first.cause))
}

/// One line of the log for an outcome; `None`: it is no news.
pub fn line(outcome: &Outcome, news: bool) -> Option<String> {
    if outcome.word == Word::Unchanged || outcome.word == Word::Held && !news {
        return None;
    }
    let why = if outcome.detail.is_empty() { &outcome.cause } else { &outcome.detail };
    let why = if why.is_empty() { String::new() } else { format!("  {why}") };
    Some(format!(
        "{:<13}{}  {} {}{why}",
        outcome.word.as_str(),
        outcome.id,
        outcome.kind.as_str(),
        outcome.target
    ))
}
