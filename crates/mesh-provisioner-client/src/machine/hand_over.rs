//! Handing ready modules over to the host: when, what, and what becomes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use log::Level;
use mesh_model::host_api::{Apply, Line, ModuleValues, Request};
use mesh_model::report::{ModuleState, Outcome, Report, Reported, Word};
use mesh_model::standing::Applied;

use super::assess::{LATE, collects};
use super::memory::{Done, Started};
use super::module::Fitting;
use super::{Applying, Client, Mode, Task, Topic};
use mesh_runtime::Action;

/// How long further changes settle, and how long at most.
const SETTLE: Duration = Duration::from_millis(200);
const SETTLE_AT_MOST: Duration = Duration::from_secs(2);

/// How long after a failure it is tried again: doubling from the first to the last.
const FIRST: Duration = Duration::from_secs(5);
const LAST: Duration = Duration::from_secs(600);

fn again(failures: u32) -> Duration {
    FIRST.saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX)).min(LAST)
}

impl Client {
    /// The declaration as a whole has not been handed over yet.
    pub(super) fn is_full_owed(&self) -> bool {
        self.declaration.as_ref().is_some_and(|(_, declaration)| {
            declaration.sequence > self.settings.memory.sequence || self.only_looks() && !self.ended_pass
        })
    }

    /// Modules whose values are all here and that the host has not applied in this form.
    fn owed(&self) -> Vec<String> {
        let now = self.now;
        let is_owed = |name: &String| {
            let module = &self.modules[name];
            let Some(whole) = module.whole else { return false };
            let memory = &self.settings.memory;
            let stands = memory.done(name).is_some_and(|done| done.whole == whole);
            if stands && !memory.is_unfinished(name) {
                return false;
            }
            let is_due = module.failed != Some(whole) || module.retry.is_none_or(|at| at <= now);
            is_due && self.can_be_sent(name, module)
        };
        self.modules.keys().filter(|name| is_owed(name)).cloned().collect()
    }

    /// When the next hand-over is due; nothing: there is nothing to hand over.
    pub(super) fn due(&self) -> Option<Duration> {
        if self.applying.is_some() || self.declaration.is_none() {
            return None;
        }
        // A new declaration or value is tried at once.
        if let Some((at, _)) = self.host_retry
            && self.now < at
            && self.change.is_none()
        {
            return Some(at);
        }
        let settled = |change: Option<super::Change>, last: Option<Duration>| {
            let Some(change) = change else { return self.now };
            let is_quiet = last.is_none_or(|start| start + SETTLE_AT_MOST <= change.first);
            if is_quiet { change.first } else { (change.last + SETTLE).min(change.first + SETTLE_AT_MOST) }
        };
        if self.is_full_owed() {
            if let Some((at, _)) = self.full_retry
                && self.now < at
                && self.change.is_none()
            {
                return Some(at);
            }
            let late = self.declared_at + LATE;
            let all = self.modules.values().all(super::module::Module::is_settled);
            let complete = all && self.are_bytes_here();
            return Some(if complete {
                settled(self.change, self.last_start)
            } else {
                late.max(settled(self.change, self.last_start))
            });
        }
        let owed = self.owed();
        if !owed.is_empty() {
            // A quiet module waits for no other one.
            let last = owed.iter().filter_map(|name| self.modules[name].handed_over).max();
            return Some(settled(self.change, last));
        }
        let retries =
            self.modules.values().filter(|module| module.whole.is_some() && module.whole == module.failed);
        retries.filter_map(|module| module.retry).filter(|at| *at > self.now).min()
    }

    /// Whether every value that must be sent is here in bytes, and not only known to be somewhere.
    fn are_bytes_here(&self) -> bool {
        self.modules.iter().all(|(name, module)| module.whole.is_none() || self.can_be_sent(name, module))
    }

    /// Whether the host holds the outside values of a module already, or they are here.
    fn can_be_sent(&self, name: &str, module: &super::module::Module) -> bool {
        module.outside == module.with_host || self.outside_values(name).is_ok()
    }

    /// Asks for the bytes of what is to be handed over.
    fn want_bytes(&mut self) {
        let names: Vec<String> = self
            .modules
            .iter()
            .filter(|(_, module)| module.whole.is_some() && module.outside != module.with_host)
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            if let Err(missing) = self.outside_values(&name) {
                for asked in missing {
                    if let Some(ask) = self.asks.get_mut(&asked) {
                        ask.needs_bytes = true;
                    }
                }
            }
        }
    }

    /// Hands over what is due.
    pub(super) fn hand_over(&mut self) {
        self.want_bytes();
        if self.due().is_none_or(|at| self.now < at) {
            return;
        }
        let is_full = self.is_full_owed();
        let mut names: Vec<String> =
            if is_full { self.modules.keys().cloned().collect() } else { self.owed() };
        let mut values = BTreeMap::new();
        names.retain(|name| {
            let module = &self.modules[name];
            if module.whole.is_none() {
                return false;
            }
            let given = if module.outside == module.with_host && module.outside.is_some() {
                ModuleValues::Same
            } else {
                match self.outside_values(name) {
                    Ok(values) => ModuleValues::Given(values),
                    Err(_) => return false,
                }
            };
            values.insert(name.clone(), given);
            true
        });
        if names.is_empty() && !is_full {
            self.change = None;
            return;
        }
        let Some((envelope, declaration)) = &self.declaration else { return };
        let sequence = declaration.sequence;
        let with_all = is_full || names.iter().any(|name| collects(&self.modules[name]));
        let mut parts = [BTreeMap::new(), BTreeMap::new()];
        for (name, module) in &self.modules {
            let Some(Fitting { bytes, .. }) = &module.fitting else { continue };
            if with_all || names.contains(name) {
                for (part, bytes) in parts.iter_mut().zip(bytes) {
                    part.insert(name.clone(), bytes.clone());
                }
            }
            // The host keeps its copy whole: what it has of the others stays in it, also of one that waits for a value
            // now and is declared as it was applied.
            let applied = self.settings.memory.done(name).map(|done| &done.applied);
            let is_as_applied = applied.is_some_and(|applied| {
                (applied.assignment, applied.settings) == (module.part.assignment, module.part.settings)
            });
            if is_as_applied || !is_full && module.with_host.is_some() {
                values.entry(name.clone()).or_insert(ModuleValues::Same);
            }
        }
        let [assignments, settings] = parts;
        let apply = Box::new(Apply {
            declaration: envelope.clone(),
            assignments,
            settings,
            values,
            only: (!is_full).then(|| names.clone()),
        });
        let mut handed = BTreeMap::new();
        for name in &names {
            let Some(done) = self.as_done(name, sequence) else { continue };
            let remembered = self.settings.memory.modules.entry(name.clone()).or_default();
            remembered.started = Some(Started { sequence, whole: done.whole });
            handed.insert(name.clone(), done);
        }
        self.change = None;
        self.last_start = Some(self.now);
        for name in &names {
            if let Some(module) = self.modules.get_mut(name) {
                module.handed_over = Some(self.now);
            }
        }
        self.counters.hand_overs += 1;
        let call = if self.only_looks() {
            let differences =
                if self.settings.tells_differences { self.differences() } else { String::new() };
            if !differences.is_empty() {
                self.actions.push(Action::Do(Task::Print(differences)));
            }
            self.host(&Request::Plan(apply), None)
        } else {
            let memory = Some(self.settings.memory.to_text());
            self.host(&Request::Apply(apply), memory)
        };
        self.applying = Some(Applying { call, modules: handed, is_full, sequence });
    }

    pub(super) fn outcome(&mut self, outcome: &Outcome) {
        if self.only_looks() {
            let text = format!("{} {} {}\n", outcome.word, outcome.id, outcome.target);
            self.actions.push(Action::Do(Task::Print(text)));
            return;
        }
        // The host's own log has the rest.
        if matches!(outcome.word, Word::Failed) {
            let id = outcome.id.clone();
            let cause: String = outcome.cause.chars().take(200).collect();
            self.notice(Level::Warn, Topic::Host, &id, &format!("the host failed with {id}: {cause}"));
        }
    }

    pub(super) fn host_ended(&mut self, call: u64, result: Result<Line, String>) {
        let is_this = self.applying.as_ref().is_some_and(|applying| applying.call == call);
        if !is_this {
            if let Err(why) | Ok(Line::Error { message: why, .. }) = result {
                self.notice(Level::Warn, Topic::Host, "other", &format!("the host: {why}"));
            }
            return;
        }
        let Some(applying) = self.applying.take() else { return };
        match result {
            Ok(Line::Report(reported)) => {
                self.host_retry = None;
                self.host_problem = None;
                self.reported(&applying, reported);
            }
            Ok(Line::Superseded {}) => {
                self.host_failed(&applying, "a newer request took its place".to_owned());
            }
            Ok(Line::Error { code, message }) => self.host_failed(&applying, format!("{code} {message}")),
            Ok(_) => self.host_failed(&applying, "an answer of another form".to_owned()),
            Err(why) => self.host_failed(&applying, why),
        }
    }

    /// Nothing was applied, or nobody knows: what was handed over stays begun.
    fn host_failed(&mut self, applying: &Applying, why: String) {
        let failures = self.host_retry.map_or(0, |(_, failures)| failures + 1);
        self.host_retry = Some((self.now + again(failures), failures));
        let line = format!("{} modules were not handed over, trying again: {why}", applying.modules.len());
        self.notice(Level::Error, Topic::Host, &why, &line);
        self.host_problem = Some(why);
        if matches!(self.settings.mode, Mode::Once(_) | Mode::Plan(_)) {
            self.verdict(5);
        }
    }

    fn reported(&mut self, applying: &Applying, reported: Reported) {
        let report = match reported {
            Reported::Report(report) => Some(*report),
            Reported::Same => None,
        };
        if self.only_looks() {
            self.ended_pass = true;
            let changed = report.is_some_and(|report| report.changed);
            return self.verdict(if changed { 2 } else { 0 });
        }
        for (name, done) in &applying.modules {
            self.module_ended(name, done, report.as_ref());
        }
        if applying.is_full {
            self.full_ended(applying, report.as_ref());
        }
        if let Some(report) = report {
            self.settings.memory.report = Some(merged(self.settings.memory.report.take(), report, applying));
        }
        if applying.is_full || self.settings.memory.report.is_some() {
            self.report_due = Some(self.now);
        }
        self.actions.push(Action::Do(Task::Keep(self.settings.memory.to_text())));
    }

    /// What is remembered of a module once the host has applied it as it is now.
    fn as_done(&self, name: &str, sequence: u64) -> Option<Done> {
        let module = self.modules.get(name)?;
        let fitting = module.fitting.as_ref()?;
        let applied = Applied {
            version: fitting.assignment.version.clone(),
            sequence,
            assignment: module.part.assignment,
            settings: module.part.settings,
            resources: fitting.assignment.resources.len() as u64,
            changed: 0,
            needs: module.stands.len() as u64,
            secrets: self.held_revisions(name),
        };
        Some(Done { whole: module.whole?, outside: module.outside?, applied })
    }

    fn module_ended(&mut self, name: &str, handed: &Done, report: Option<&Report>) {
        let remembered = self.settings.memory.modules.entry(name.to_owned()).or_default();
        remembered.started = None;
        let Some(module) = self.modules.get_mut(name) else { return };
        let found = report.map(|report| report.modules.get(name));
        let trouble = match found {
            None => None,
            Some(None) => Some((None, "the host says nothing of it".to_owned())),
            Some(Some(found)) if found.state == ModuleState::Applied => None,
            Some(Some(found)) => Some((Some(found.state), format!("{}: {}", found.state, found.why))),
        };
        if let Some((state, words)) = trouble {
            // It may be that the host lost its copy: the next time it gets all values.
            let has_values = !matches!(state, None | Some(ModuleState::Waiting | ModuleState::Refused));
            module.with_host = has_values.then_some(handed.outside);
            // What the host says is not there does not stand, whatever was applied before: it is handed over again.
            if !has_values && remembered.done.as_ref().is_some_and(|done| done.whole == handed.whole) {
                remembered.done = None;
            }
            module.failed = Some(handed.whole);
            module.retry = Some(self.now + again(module.failures));
            module.failures = module.failures.saturating_add(1);
            module.problem = Some(words.clone());
            self.notice(Level::Error, Topic::Host, name, &format!("{name} was not applied, {words}"));
            return;
        }
        module.with_host = Some(handed.outside);
        module.failed = None;
        module.retry = None;
        module.failures = 0;
        module.problem = None;
        let mut done = handed.clone();
        if let Some(found) = found.flatten() {
            done.applied.resources = found.resources;
            done.applied.changed = found.changed;
        }
        remembered.done = Some(done);
        self.publish_applied(name);
    }

    /// The declaration as a whole came to its end.
    fn full_ended(&mut self, applying: &Applying, report: Option<&Report>) {
        let failure = report.and_then(|report| report.first_failure.as_ref());
        // A failure outside of the declared modules is one of a removal: it is owed.
        let is_outside = failure.is_some_and(|failure| !self.modules.contains_key(&failure.module));
        if is_outside {
            let failures = self.full_retry.map_or(0, |(_, failures)| failures + 1);
            self.full_retry = Some((self.now + again(failures), failures));
            return;
        }
        self.full_retry = None;
        self.settings.memory.sequence = applying.sequence;
        self.confirm = Some(applying.sequence);
        let modules = &self.modules;
        self.settings.memory.modules.retain(|name, _| modules.contains_key(name));
    }

    pub(super) fn publish_applied(&mut self, name: &str) {
        if let Some(done) = self.settings.memory.done(name) {
            let text = serde_json::to_string(&done.applied).expect("texts and numbers");
            let key = format!("{}.{}", self.token, mesh_model::name::encode(name));
            self.mirrors[1].want(name, BTreeMap::from([(key, text)]));
        }
    }
}

/// The newest report, with what is known of the modules that this hand-over was not about.
fn merged(before: Option<Report>, report: Report, applying: &Applying) -> Report {
    let Some(mut all) = before.filter(|_| !applying.is_full) else { return report };
    let is_old = |outcome: &Outcome| !applying.modules.contains_key(&outcome.module);
    all.outcomes.retain(is_old);
    all.outcomes.extend(report.outcomes);
    all.first_failure = report.first_failure.or_else(|| all.first_failure.filter(is_old));
    for (name, module) in report.modules {
        if applying.modules.contains_key(&name) {
            all.modules.insert(name, module);
        }
    }
    Report {
        outcomes: all.outcomes,
        first_failure: all.first_failure,
        modules: all.modules,
        ..Report {
            v: report.v,
            sequence: report.sequence,
            fence: report.fence,
            changed: report.changed,
            gated: report.gated,
            totals: report.totals,
            modules: BTreeMap::new(),
            first_failure: None,
            outcomes: Vec::new(),
            facts: report.facts,
            schedules: report.schedules,
        }
    }
}
