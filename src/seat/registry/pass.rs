//! The registry pass: reads the bucket, writes entries that differ, deletes keys that are not kinds.
//!
//! Nothing is written after an incomplete read, and every write is a compare-and-set. A failed pass is retried with a
//! growing delay.

use crate::seat::call::{Budget, Call, Cost, Tag};
use crate::seat::registry::plan::{Change, Plan, Planning, show, unnameable};
use log::Level;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::{self, Message, WriteAnswer};
use mesh_jetstream::stream_info::State;
use mesh_model::bucket::Bucket;
use mesh_model::registry;
use mesh_provisioner_api::failure::Cause;
use mesh_service::backoff::Backoff;
use std::mem;
use std::time::Duration;

/// The first and the longest delay after a failed pass.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), last: Duration::from_secs(60) };

/// A pass that gets no reply for this long is aborted. Each of its calls has a shorter time-out, so this only ends a
/// pass whose call was lost.
const STALLED: Duration = Duration::from_secs(30);

/// How many passes in a row may restore what another client changed before it counts as a contest.
const CONTEST: u32 = 3;

/// The longest wait between the passes of a contest.
const LAST_CONTEST_WAIT: Duration = Duration::from_secs(3600);

/// How soon after the registry was seen changed a pass begins.
const AFTER_A_CHANGE: Duration = Duration::from_secs(1);

/// How a pass left the stream of the registry.
#[derive(Debug)]
enum Settled {
    /// In this state, in which it was read.
    At(State),
    /// The stream made then ended with a write of the pass.
    After { created: String, last_sequence: u64 },
}

/// The pass: idle until it is due, reading, or writing.
#[derive(Debug)]
pub(in crate::seat) struct Pass {
    every: Duration,
    stage: Stage,
    /// When to start the next pass; `None` while one is under way or there is no connection.
    due: Option<Duration>,
    /// Another pass was requested while one was under way.
    again: bool,
    failures: u32,
    /// How many connections in a row ended during a pass.
    interrupted: u32,
    /// The last call of a pass on this connection had no reply.
    is_silent: bool,
    /// How many passes in a row, up to the last, had to restore what another client had changed.
    restored: u32,
    /// When the current pass got its last reply.
    heard: Duration,
    /// When the registry was last verified.
    verified: Option<Duration>,
    /// In which state the last pass found the registry's stream, and how it left it.
    found: Option<State>,
    settled: Option<Settled>,
    /// The stream was seen in another state since.
    is_doubted: bool,
    /// The outcome of the last pass, and its time.
    last: Option<(Duration, Result<Tally, String>)>,
    /// Lines for the log.
    lines: Vec<Line>,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Reading(Box<Planning>),
    Writing(Vec<Write>),
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::seat) enum Line {
    /// What a write changed, ours or another client's: logged each time.
    Change(Level, String),
    /// The outcome of a pass or a key: the same text is logged at most once a minute.
    Outcome(Level, String),
}

/// The work of a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::seat) struct Tally {
    pub(in crate::seat) put: usize,
    pub(in crate::seat) deleted: usize,
    pub(in crate::seat) unchanged: usize,
}

/// A change that is being written. A write of another client replaces it.
#[derive(Debug)]
struct Write {
    change: Change,
    step: Step,
    conflicts: u32,
    /// The sequence under which it was stored.
    stored: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Write,
    AwaitWrite,
    Read,
    AwaitRead,
    /// It is written.
    Stored,
    /// No write was needed any more.
    Right,
    Failed(String),
}

impl Pass {
    pub(in crate::seat) const fn new(every: Duration) -> Self {
        Pass {
            every,
            stage: Stage::Idle,
            due: None,
            again: false,
            failures: 0,
            interrupted: 0,
            is_silent: false,
            restored: 0,
            heard: Duration::ZERO,
            verified: None,
            found: None,
            settled: None,
            is_doubted: false,
            last: None,
            lines: Vec::new(),
        }
    }

    /// When to start the next pass, or to abort the current one.
    pub(in crate::seat) fn due(&self) -> Option<Duration> {
        match self.stage {
            Stage::Idle => self.due,
            _ => Some(self.heard + STALLED),
        }
    }

    /// How many passes in a row restored what another client had changed, if there were enough to call it a contest.
    pub(in crate::seat) fn contest(&self) -> Option<u32> {
        (self.restored >= CONTEST).then_some(self.restored)
    }

    /// When the registry was last verified.
    pub(in crate::seat) const fn verified(&self) -> Option<Duration> {
        self.verified
    }

    /// Whether it is not known yet in which state the last pass left the stream.
    pub(in crate::seat) const fn is_unsettled(&self) -> bool {
        !matches!(self.settled, Some(Settled::At(_)))
    }

    /// Whether the registry was seen in another state since than the last pass left it in.
    pub(in crate::seat) const fn is_doubted(&self) -> bool {
        self.is_doubted
    }

    /// Whether a stream of the registry in this state is as the last pass left it. While one is under way, that is
    /// not known, and is taken to be so.
    pub(in crate::seat) fn is_settled_at(&mut self, state: &State) -> bool {
        if !matches!(self.stage, Stage::Idle) {
            return true;
        }
        let is_settled = match &self.settled {
            None => false,
            Some(Settled::At(settled)) => settled == state,
            Some(Settled::After { created, last_sequence }) => {
                // A purge leaves the sequence as it is.
                *created == state.created
                    && *last_sequence == state.last_sequence
                    && state.messages >= registry::ENTRIES.len() as u64
            }
        };
        if is_settled {
            self.settled = Some(Settled::At(state.clone()));
        }
        is_settled
    }

    /// The registry was seen in another state: it counts as verified only after another pass, which is due soon.
    /// Where another client changes it again and again, passes are not due sooner for that.
    pub(in crate::seat) fn doubt(&mut self, now: Duration) {
        if !matches!(self.stage, Stage::Idle) || self.verified.is_none() {
            return;
        }
        self.is_doubted = true;
        if self.contest().is_none() {
            self.due = self.due.map(|due| due.min(now + AFTER_A_CHANGE));
        }
    }

    /// The outcome of the last pass, and its time.
    pub(in crate::seat) const fn last(&self) -> Option<&(Duration, Result<Tally, String>)> {
        self.last.as_ref()
    }

    /// How long a verification is valid.
    pub(in crate::seat) const fn every(&self) -> Duration {
        self.every
    }

    /// Requests a pass because a connection came up: at once, unless previous connections ended during their passes.
    /// A server with a hanging disk stops responding on the connection that writes. The seat then waits longer before
    /// each pass, and meanwhile serves what needs no bucket.
    pub(in crate::seat) fn connected(&mut self, now: Duration, jitter: f64) {
        self.due = Some(match self.interrupted.checked_sub(2) {
            None => now,
            Some(before) => now + RETRY.after(before, jitter),
        });
    }

    /// Requests a pass at once.
    pub(in crate::seat) fn request(&mut self, now: Duration) {
        match self.stage {
            Stage::Idle => self.due = Some(now),
            _ => self.again = true,
        }
    }

    /// The connection is lost: the current writes have an unknown outcome, and the next pass reads again.
    pub(in crate::seat) fn interrupt(&mut self) {
        let is_silent = mem::take(&mut self.is_silent);
        self.interrupted += u32::from(is_silent || !matches!(self.stage, Stage::Idle));
        self.stage = Stage::Idle;
        self.due = None;
        self.again = false;
    }

    /// Starts a pass that is due, or aborts the current one if it stalled.
    pub(in crate::seat) fn begin(&mut self, now: Duration, jitter: f64) {
        if !matches!(self.stage, Stage::Idle) {
            let seconds = STALLED.as_secs();
            return self.finish(Err(format!("JetStream answered nothing for {seconds} s")), now, jitter);
        }
        self.heard = now;
        self.due = None;
        self.again = false;
        self.stage = Stage::Reading(Box::new(Planning::new()));
    }

    /// Log lines since the last call.
    pub(in crate::seat) fn lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// The next call, if there is one that may be sent now.
    pub(in crate::seat) fn next_call(&mut self, budget: Budget) -> Option<Call> {
        match &mut self.stage {
            Stage::Idle => None,
            Stage::Reading(planning) => planning.next_call(budget),
            Stage::Writing(writes) => {
                let (tag, write) = writes
                    .iter_mut()
                    .enumerate()
                    .find(|(_, write)| matches!(write.step, Step::Write | Step::Read))?;
                let change = &write.change;
                let key = &change.key;
                let request = match (&write.step, change.entry) {
                    (Step::Read, _) => kv::get(Kv::new(Bucket::Registry.name()), key),
                    (_, Some(entry)) => {
                        kv::put(Kv::new(Bucket::Registry.name()), key, &entry.to_json(), change.expected)
                    }
                    (_, None) => kv::delete(Kv::new(Bucket::Registry.name()), key, change.expected),
                };
                write.step = if write.step == Step::Read { Step::AwaitRead } else { Step::AwaitWrite };
                Some(Call { tag: Tag::Value(tag), request, cost: Cost::Single })
            }
        }
    }

    /// Handles the reply for `tag`. `jitter` is a number below 1.
    pub(in crate::seat) fn on_reply(
        &mut self,
        tag: Tag,
        body: Result<&[u8], Cause>,
        now: Duration,
        jitter: f64,
    ) {
        self.heard = now;
        match &body {
            Ok(_) => self.is_silent = false,
            Err(Cause::Silent) => self.is_silent = true,
            Err(_) => {}
        }
        match &mut self.stage {
            Stage::Idle => {}
            Stage::Reading(planning) => match planning.on_reply(tag, body) {
                Ok(None) => {}
                Ok(Some(plan)) => {
                    let found = planning.state();
                    self.write(plan, found);
                }
                Err(cause) => self.finish(Err(cause.tell(Bucket::Registry)), now, jitter),
            },
            Stage::Writing(writes) => {
                if let Tag::Value(at) = tag
                    && let Some(write) = writes.get_mut(at)
                {
                    write.on_reply(body, self.verified.is_some(), &mut self.lines);
                }
            }
        }
        self.finish_if_done(now, jitter);
    }

    fn write(&mut self, plan: Plan, found: Option<State>) {
        self.found = found;
        self.lines.extend(plan.unnameable.iter().map(|key| Line::Outcome(Level::Warn, unnameable(key))));
        let writes = plan.changes.into_iter().map(|change| Write {
            change,
            step: Step::Write,
            conflicts: 0,
            stored: None,
        });
        self.stage = Stage::Writing(writes.collect());
    }

    fn finish_if_done(&mut self, now: Duration, jitter: f64) {
        let Stage::Writing(writes) = &self.stage else { return };
        if writes.iter().any(|write| !matches!(write.step, Step::Stored | Step::Right | Step::Failed(_))) {
            return;
        }
        let failed: Vec<&str> = writes
            .iter()
            .filter_map(|write| match &write.step {
                Step::Failed(why) => Some(why.as_str()),
                _ => None,
            })
            .collect();
        // A write of another client among them leaves a higher sequence than our writes alone.
        let written: Vec<u64> = writes.iter().filter_map(|write| write.stored).collect();
        self.settled = match (self.found.take(), written.iter().max()) {
            (found, None) => found.map(Settled::At),
            (Some(State { created, last_sequence, .. }), Some(last))
                if last_sequence + written.len() as u64 == *last =>
            {
                Some(Settled::After { created, last_sequence: *last })
            }
            _ => None,
        };
        let outcome = match failed[..] {
            [] => {
                let stored = writes.iter().filter(|write| write.step == Step::Stored);
                let (put, deleted): (Vec<_>, Vec<_>) = stored.partition(|write| write.change.entry.is_some());
                let unchanged = registry::ENTRIES.len() - put.len();
                Ok(Tally { put: put.len(), deleted: deleted.len(), unchanged })
            }
            [only] => Err(only.to_owned()),
            [first, ..] => Err(format!("{first}; {} keys in all could not be corrected", failed.len())),
        };
        self.finish(outcome, now, jitter);
    }

    fn finish(&mut self, outcome: Result<Tally, String>, now: Duration, jitter: f64) {
        self.stage = Stage::Idle;
        if !self.is_silent {
            self.interrupted = 0;
        }
        let wait = match &outcome {
            Ok(tally) => {
                self.failures = 0;
                let was_undone = self.verified.is_some() && tally.put + tally.deleted > 0;
                self.restored = if was_undone { self.restored.saturating_add(1) } else { 0 };
                self.verified = Some(now);
                self.is_doubted = false;
                let level = if tally.put + tally.deleted > 0 { Level::Info } else { Level::Debug };
                let Tally { put, deleted, unchanged } = tally;
                let line = format!("registry in place: {put} put, {deleted} deleted, {unchanged} unchanged");
                self.lines.push(Line::Outcome(level, line));
                if self.restored == CONTEST {
                    self.lines.push(Line::Outcome(Level::Warn, contest(self.restored)));
                }
                contest_wait(self.restored).max(self.every)
            }
            Err(why) => {
                let wait = RETRY.after(self.failures, jitter).min(self.every);
                self.failures += 1;
                // Without the delay, so that the same failure gives the same line and is logged once a minute.
                self.lines
                    .push(Line::Outcome(Level::Warn, format!("registry pass failed, trying again: {why}")));
                wait
            }
        };
        self.last = Some((now, outcome));
        self.due = Some(if std::mem::take(&mut self.again) { now } else { now + wait });
    }
}

/// The report of a contest: another client changes the registry again and again.
pub(in crate::seat) fn contest(passes: u32) -> String {
    format!(
        "another client keeps changing the registry, {passes} passes in a row had to restore it: find the other account that may publish to $KV.{}.>",
        Bucket::Registry
    )
}

/// The wait after this many passes in a row that restored what another client had changed: nothing at first, then 1 min
/// doubling to 1 h. Two clients that undo each other's writes would otherwise write without end.
fn contest_wait(restored: u32) -> Duration {
    match restored.checked_sub(CONTEST) {
        None => Duration::ZERO,
        Some(more) => RETRY.last.saturating_mul(1 << more.min(6)).min(LAST_CONTEST_WAIT),
    }
}

impl Write {
    fn on_reply(&mut self, body: Result<&[u8], Cause>, verified_before: bool, lines: &mut Vec<Line>) {
        match (&self.step, body) {
            (Step::AwaitWrite, Ok(body)) => match kv::parse_write(Kv::new(Bucket::Registry.name()), body) {
                WriteAnswer::Stored(revision) => {
                    lines.push(self.say_stored(revision, verified_before));
                    self.step = Step::Stored;
                    self.stored = Some(revision);
                }
                WriteAnswer::Conflict if self.conflicts == 0 => {
                    self.conflicts = 1;
                    self.step = Step::Read;
                }
                WriteAnswer::Conflict => self.fail("another client keeps writing it", lines),
                WriteAnswer::Refused(error) => {
                    self.fail(&format!("JetStream refuses the write: {error}"), lines);
                }
                WriteAnswer::Unknown(why) => {
                    self.fail(&format!("write status unknown: {why}"), lines);
                }
            },
            (Step::AwaitRead, Ok(body)) => match kv::parse_message(body) {
                Ok(message) => self.reread(message, lines),
                Err(error) => self.fail(&format!("it cannot be read again: {error}"), lines),
            },
            (Step::AwaitWrite | Step::AwaitRead, Err(cause)) => {
                let why = match cause {
                    Cause::Denied(words) => format!(
                        "the server says {words:?}: grant the seat the permissions that mesh-provisioner permissions seat prints"
                    ),
                    Cause::Silent => "write status unknown: JetStream timed out".to_owned(),
                    other => other.tell(Bucket::Registry),
                };
                self.fail(&why, lines);
            }
            _ => {}
        }
    }

    /// Another client wrote the key after it was read.
    fn reread(&mut self, message: Option<Message>, lines: &mut Vec<Line>) {
        let (value, sequence) = match message {
            Some(message) => ((!message.deleted).then_some(message.value), message.sequence),
            None => (None, 0),
        };
        let change = &mut self.change;
        let right = match (&value, change.entry) {
            (Some(value), Some(entry)) => entry.says_the_same_as(value),
            (None, None) => true,
            _ => false,
        };
        let line = format!(
            "registry key {}: changed by another client, {} to {} (revision {sequence})",
            change.key,
            show(change.old.as_deref()),
            show(value.as_deref())
        );
        lines.push(Line::Change(Level::Warn, line));
        change.old = value;
        change.expected = sequence;
        self.step = if right { Step::Right } else { Step::Write };
    }

    fn say_stored(&self, revision: u64, verified_before: bool) -> Line {
        let Change { key, entry, old, .. } = &self.change;
        let by = if verified_before { "changed by another client since the last pass: " } else { "" };
        let (level, text) = match (entry, old) {
            (Some(entry), Some(old)) => (
                Level::Warn,
                format!(
                    "registry key {key}: {by}{} restored to {} (revision {revision})",
                    show(Some(old)),
                    entry.to_json()
                ),
            ),
            (Some(_), None) => (Level::Info, format!("registry key {key}: put (revision {revision})")),
            (None, old) => (
                Level::Warn,
                format!(
                    "registry key {key}: no domain answers it, {} deleted (revision {revision})",
                    show(old.as_deref())
                ),
            ),
        };
        Line::Change(level, text)
    }

    fn fail(&mut self, why: &str, lines: &mut Vec<Line>) {
        let why = format!("registry key {}: {why}", self.change.key);
        lines.push(Line::Outcome(Level::Warn, why.clone()));
        self.step = Step::Failed(why);
    }
}
