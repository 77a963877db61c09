//! One turn: what follows from whatever happened.

use std::fmt::Write as _;
use std::time::Duration;

use log::Level;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::{self, WriteAnswer};
use mesh_jetstream::message::Outgoing;
use mesh_model::host_api::Request;
use mesh_model::name;
use mesh_model::report::{MAX_BYTES, Report};
use mesh_runtime::Action;

use super::link::PATIENCE;
use super::{Call, Client, DECLARATIONS, Mode, Task, Topic};

const REPORTS: &str = "mesh-controller_reports";

/// How often the report is written again, so that its age tells whether the node is alive.
const REPORT_EVERY: Duration = Duration::from_secs(600);

/// When the client is ready at the latest, whatever the bus does.
const READY_AFTER: Duration = Duration::from_secs(10);

/// How often what waits is named.
const NAME_EVERY: Duration = Duration::from_secs(60);

impl Client {
    pub(super) fn turn(&mut self) {
        // The own writes are answered and come back by the thousand: nothing else follows from them.
        if self.only_writes
            && self.settings.mode == Mode::Serve
            && self.rests_until.is_none_or(|at| self.now < at)
        {
            self.write();
            let again = self.mirrors.iter().filter_map(|mirror| mirror.next_deadline(self.now));
            let answers = self.now + PATIENCE;
            self.rests_until = again.chain(self.rests_until).chain([answers]).min();
            return;
        }
        self.wrote = true;
        self.whole_turn();
        self.rests_until = self.whole_deadline();
    }

    fn whole_turn(&mut self) {
        self.connect();
        self.overdue();
        for place in 0..self.follows.len() {
            let steps = self.follows[place].due(self.now);
            self.steps(place, steps);
        }
        self.late();
        self.assess();
        self.hand_over();
        self.ask();
        self.assess();
        self.write();
        self.report();
        self.pass();
        self.name_waiting();
    }

    /// Writes what differs in the own buckets.
    fn write(&mut self) {
        if !self.link.is_up() || self.only_looks() {
            return;
        }
        let now = self.now;
        for mirror in 0..self.mirrors.len() {
            let [needs, applied, _] = &mut self.mirrors;
            // What is applied is written after the needs of its module.
            if mirror == 1 && !needs.has_idled() && !self.wrote {
                continue;
            }
            let writes = if mirror == 1 {
                applied.poll(now, |key| {
                    let module = key.split('.').nth(1).and_then(|token| name::decode(token).ok());
                    module.is_none_or(|module| !needs.is_busy(&module))
                })
            } else {
                self.mirrors[mirror].poll(now, |_| true)
            };
            for (key, request) in writes {
                self.counters.writes += 1;
                self.call(Outgoing::from(request), Call::Write(mirror, key), PATIENCE);
            }
        }
        self.wrote = false;
    }

    pub(super) fn write_answered(&mut self, mirror: usize, key: &str, body: Option<&[u8]>) {
        self.only_writes = true;
        self.wrote |= mirror > 0;
        match self.mirrors[mirror].written(key, body, self.now) {
            Ok(true) if mirror == 0 => {
                // What is applied is written again after each write of a need, once the module stands.
                let module = key.split('.').nth(1).and_then(|token| name::decode(token).ok());
                if let Some(module) = module
                    && self.stands_as_applied(&module)
                {
                    let key = format!("{}.{}", self.token, name::encode(&module));
                    self.publish_applied(&module);
                    self.mirrors[1].force(&key);
                }
            }
            Ok(_) => {}
            Err(why) => {
                let bucket = self.mirrors[mirror].bucket();
                let line = format!("{bucket} {key} was not written, trying again: {why}");
                self.notice(Level::Warn, Topic::Write, bucket, &line);
            }
        }
    }

    /// Whether what is applied of a module is what is declared, with the newest values.
    pub(super) fn stands_as_applied(&self, name: &str) -> bool {
        let whole = self.modules.get(name).and_then(|module| module.whole);
        whole.is_some() && self.settings.memory.done(name).map(|done| done.whole) == whole
    }

    fn report(&mut self) {
        if !self.link.is_up() || self.only_looks() || self.report_due.is_none_or(|at| self.now < at) {
            return;
        }
        let Some(report) = &self.settings.memory.report else {
            self.report_due = None;
            return;
        };
        let text = fitting(report);
        self.report_due = Some(self.now + REPORT_EVERY);
        let request = kv::overwrite(Kv::new(REPORTS), &self.token.clone(), &text);
        self.counters.writes += 1;
        self.call(Outgoing::from(request), Call::Report, PATIENCE);
    }

    pub(super) fn report_answered(&mut self, no_responders: bool, body: &[u8]) {
        let answer = if no_responders {
            WriteAnswer::Unknown("nobody keeps that bucket".to_owned())
        } else {
            kv::parse_write(Kv::new(REPORTS), body)
        };
        if let WriteAnswer::Stored(_) = answer {
            // A round trip over the bus after the apply: what could have cut it off may stay.
            if let Some(sequence) = self.confirm.take() {
                self.host(&Request::Confirm { sequence }, None);
            }
        } else {
            self.notice(
                Level::Warn,
                Topic::Write,
                REPORTS,
                &format!("the report was not written: {answer:?}"),
            );
            self.report_due = Some(self.now + Duration::from_secs(30));
        }
    }

    /// Whether the first pass is over, and what follows from that.
    fn pass(&mut self) {
        let now = self.now;
        let late = now >= READY_AFTER;
        let is_over = self.is_pass_over();
        if !self.ready && (is_over || late) {
            self.ready = true;
            if !is_over {
                self.say(Level::Warn, "ready, though the first look at everything is not over");
            }
            if self.settings.memory.report.is_some() && self.report_due.is_none() {
                self.report_due = Some(now);
            }
            let names: Vec<String> = self.modules.keys().cloned().collect();
            for name in names {
                self.publish_applied(&name);
            }
        }
        let limit = match self.settings.mode {
            Mode::Serve => return,
            Mode::Once(limit) | Mode::Plan(limit) => limit,
        };
        if self.stopping {
            return;
        }
        if is_over && self.is_quiet() && !self.only_looks() {
            let waiting = self.waiting_names();
            if waiting.is_empty() && self.modules.values().all(|module| module.problem.is_none()) {
                return self.verdict(0);
            }
            if waiting.is_empty() {
                return self.verdict(5);
            }
            // It may still come, until the time is over.
        }
        if now >= limit {
            if !self.link.is_up() || !self.was_read.contains(&DECLARATIONS) {
                return self.verdict(69);
            }
            let code = if self.waiting_names().is_empty() { 5 } else { 3 };
            self.verdict(code);
        }
    }

    /// Whether everything was looked at, and what was ready was handed over and has ended.
    pub(super) fn is_pass_over(&self) -> bool {
        self.was_read.contains(&DECLARATIONS)
            && self
                .modules
                .values()
                .all(|module| module.is_settled() || self.late_at.is_none() && self.declaration.is_some())
            && self.applying.is_none()
            && (self.declaration.is_none() || !self.is_full_owed())
            && self.modules.iter().all(|(name, module)| {
                module.whole.is_none() || self.stands_as_applied(name) || module.failed == module.whole
            })
    }

    /// Whether nothing is to be written any more.
    fn is_quiet(&self) -> bool {
        let is_written = |name: &String| self.mirrors.iter().take(2).all(|mirror| !mirror.is_busy(name));
        self.modules.keys().all(is_written)
            && !self.calls.values().any(|(call, _)| matches!(call, Call::Report))
    }

    /// What waits, as `module: kind:name (why)`.
    pub(super) fn waiting_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (name, module) in &self.modules {
            names.extend(module.waiting().map(|(need, why)| format!("{name}: {need} ({why})")));
            if let Some(why) = &module.broken {
                names.push(format!("{name}: {why}"));
            } else if module.fitting.is_none() && module.stands.is_empty() {
                names.push(format!("{name}: digest does not fit"));
            } else {
                let unread = module.stands.iter().filter(|(_, stand)| *stand == super::module::Stand::Unread);
                names.extend(
                    unread.map(|(need, _)| format!("{name}: {}:{} (not read yet)", need.kind, need.name)),
                );
            }
        }
        names
    }

    /// Ends a command that ends.
    pub(super) fn verdict(&mut self, code: u8) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        let mut text = String::new();
        for name in self.waiting_names() {
            writeln!(text, "waiting {name}").ok();
        }
        for (name, module) in &self.modules {
            if let Some(problem) = &module.problem {
                writeln!(text, "{name}: {problem}").ok();
            }
        }
        if !text.is_empty() {
            self.actions.push(Action::Do(Task::Print(text)));
        }
        self.actions.push(Action::Do(Task::Verdict(code)));
        self.actions.push(Action::Exit(crate::Exit::Done));
    }

    /// What waits is named once a minute.
    fn name_waiting(&mut self) {
        if self.name_at.is_some_and(|at| self.now < at) {
            return;
        }
        let waiting = self.waiting_names();
        if waiting.is_empty() || self.settings.mode != Mode::Serve {
            self.name_at = Some(self.now + NAME_EVERY);
            return;
        }
        if self.ready {
            self.name_at = Some(self.now + NAME_EVERY);
            let shown: Vec<&str> = waiting.iter().take(20).map(String::as_str).collect();
            let more = waiting.len().saturating_sub(shown.len());
            let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
            let line = format!("waiting: {}{rest}", shown.join("; "));
            self.say(Level::Warn, line);
        }
    }

    /// When to look again.
    pub(super) fn deadline(&self) -> Option<Duration> {
        if self.only_writes { self.rests_until } else { self.whole_deadline() }
    }

    fn whole_deadline(&self) -> Option<Duration> {
        let follows = self.follows.iter().filter_map(mesh_service::follow::Follow::next_deadline);
        let calls = self.calls.values().map(|(_, until)| *until);
        let mirrors = self.mirrors.iter().filter_map(|mirror| mirror.next_deadline(self.now));
        let up = self.link.is_up();
        let others = [
            self.link.deadline(),
            self.late_at,
            self.due(),
            self.ask_deadline(),
            self.report_due.filter(|_| up && !self.only_looks()),
            (!self.ready).then_some(READY_AFTER),
            self.name_at,
            match self.settings.mode {
                Mode::Serve => None,
                Mode::Once(limit) | Mode::Plan(limit) => Some(limit),
            },
        ];
        follows.chain(calls).chain(mirrors.filter(|_| up)).chain(others.into_iter().flatten()).min()
    }
}

/// The report for the bucket, with as many failures as fit.
fn fitting(report: &Report) -> String {
    let mut report = report.for_the_bus();
    loop {
        let text = serde_json::to_string(&report).expect("texts and numbers");
        if text.len() <= MAX_BYTES || report.outcomes.pop().is_none() {
            return text;
        }
    }
}
