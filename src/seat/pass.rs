//! The registry pass: read what is stored, write only what differs, delete what no domain answers.
//!
//! Nothing is written on the strength of an incomplete read, and every write is a compare-and-set. A pass that
//! could not finish is tried again, sooner at first.

use super::failure::Cause;
use super::question::Want;
use super::reading::Found;
use super::scan::{Scan, Scanned};
use crate::bucket::Bucket;
use crate::registry::{self, Entry};
use crate::wire::jetstream::{self, Message, WriteAnswer};
use log::Level;
use std::time::Duration;

/// How much of a stored value a log line shows, in bytes.
const SHOWN_BYTES: usize = 400;

/// How long the first wait after a failed pass is, and the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// The pass: idle until it is due, reading, or writing.
#[derive(Debug)]
pub(super) struct Pass {
    every: Duration,
    stage: Stage,
    /// When to begin the next pass; `None` while one is under way or there is no connection.
    due: Option<Duration>,
    /// Somebody asked for another pass while one was under way.
    again: bool,
    failures: u32,
    /// When the registry was last known to be as it should.
    verified: Option<Duration>,
    /// How the last pass ended, and when.
    last: Option<(Duration, Result<Tally, String>)>,
    /// What there is to say in the log.
    lines: Vec<(Level, String)>,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Reading { scan: Scan, stored: Vec<(String, Found)> },
    Writing(Vec<Change>),
}

/// What a pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) put: usize,
    pub(super) deleted: usize,
    pub(super) unchanged: usize,
}

/// A key to put right.
#[derive(Debug)]
struct Change {
    key: String,
    /// What is to stand there; `None` if nothing is.
    entry: Option<&'static Entry<'static>>,
    /// What stands there.
    old: Option<Vec<u8>>,
    /// The sequence that the key's newest message must still have.
    expected: u64,
    step: Step,
    conflicts: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Write,
    AwaitWrite,
    Read,
    AwaitRead,
    /// It is written.
    Stored,
    /// It needed no write any more.
    Right,
    Failed(String),
}

impl Pass {
    pub(super) const fn new(every: Duration) -> Self {
        Pass {
            every,
            stage: Stage::Idle,
            due: None,
            again: false,
            failures: 0,
            verified: None,
            last: None,
            lines: Vec::new(),
        }
    }

    /// When the next pass is to begin.
    pub(super) const fn due(&self) -> Option<Duration> {
        self.due
    }

    /// When the registry was last known to be as it should.
    pub(super) const fn verified(&self) -> Option<Duration> {
        self.verified
    }

    /// How the last pass ended, and when.
    pub(super) const fn last(&self) -> Option<&(Duration, Result<Tally, String>)> {
        self.last.as_ref()
    }

    /// How long a verification counts.
    pub(super) const fn every(&self) -> Duration {
        self.every
    }

    /// Asks for a pass at once: the connection is up, or somebody said so.
    pub(super) fn request(&mut self, now: Duration) {
        match self.stage {
            Stage::Idle => self.due = Some(now),
            _ => self.again = true,
        }
    }

    /// The connection is gone: what is under way has an unknown outcome and is read again once it is back.
    pub(super) fn interrupt(&mut self) {
        self.stage = Stage::Idle;
        self.due = None;
        self.again = false;
    }

    /// Begins the pass that is due.
    pub(super) fn begin(&mut self) {
        self.due = None;
        self.again = false;
        self.stage = Stage::Reading { scan: Scan::new(Bucket::Registry, None), stored: Vec::new() };
    }

    /// Log lines since the last call.
    pub(super) fn lines(&mut self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.lines)
    }

    /// The next request to send, if there is one to send now; one that lists keys only if `may_list`.
    pub(super) fn want(&mut self, may_list: bool) -> Option<Want> {
        match &mut self.stage {
            Stage::Idle => None,
            Stage::Reading { scan, .. } => scan.want(may_list),
            Stage::Writing(changes) => {
                let waiting = |change: &&mut Change| matches!(change.step, Step::Write | Step::Read);
                let (slot, change) = changes.iter_mut().enumerate().find(|(_, change)| waiting(change))?;
                let key = &change.key;
                let request = match (&change.step, change.entry) {
                    (Step::Read, _) => jetstream::get(Bucket::Registry, key),
                    (_, Some(entry)) => {
                        jetstream::put(Bucket::Registry, key, &entry.to_json(), change.expected)
                    }
                    (_, None) => jetstream::delete(Bucket::Registry, key, change.expected),
                };
                change.step = if change.step == Step::Read { Step::AwaitRead } else { Step::AwaitWrite };
                Some(Want { slot, request, lists: false })
            }
        }
    }

    /// Takes the answer to the request of `slot`. `jitter` is a number below 1.
    pub(super) fn heard(&mut self, slot: usize, body: Result<&[u8], Cause>, now: Duration, jitter: f64) {
        match &mut self.stage {
            Stage::Idle => {}
            Stage::Reading { scan, .. } => match scan.heard(slot, body) {
                Ok(()) => self.go_on_reading(),
                Err(cause) => self.finish(Err(cause.tell(Bucket::Registry)), now, jitter),
            },
            Stage::Writing(changes) => {
                if let Some(change) = changes.get_mut(slot) {
                    change.heard(body, self.verified.is_some(), &mut self.lines);
                }
            }
        }
        self.finish_if_done(now, jitter);
    }

    fn go_on_reading(&mut self) {
        let Stage::Reading { scan, stored } = &mut self.stage else { return };
        loop {
            match scan.next() {
                Scanned::Waiting => return,
                Scanned::Listed(keys) => scan.read(keys),
                Scanned::Key(key, found) => stored.push((key, found)),
                Scanned::End => break,
            }
        }
        let stored = std::mem::take(stored);
        let changes = plan(stored, &mut self.lines);
        self.stage = Stage::Writing(changes);
    }

    fn finish_if_done(&mut self, now: Duration, jitter: f64) {
        let Stage::Writing(changes) = &self.stage else { return };
        if changes.iter().any(|change| !matches!(change.step, Step::Stored | Step::Right | Step::Failed(_))) {
            return;
        }
        let failed: Vec<&str> = changes
            .iter()
            .filter_map(|change| match &change.step {
                Step::Failed(why) => Some(why.as_str()),
                _ => None,
            })
            .collect();
        let outcome = match failed[..] {
            [] => {
                let stored = changes.iter().filter(|change| change.step == Step::Stored);
                let (put, deleted): (Vec<_>, Vec<_>) = stored.partition(|change| change.entry.is_some());
                let unchanged = registry::ENTRIES.len() - put.len();
                Ok(Tally { put: put.len(), deleted: deleted.len(), unchanged })
            }
            [only] => Err(only.to_owned()),
            [first, ..] => Err(format!("{first}; {} keys in all could not be put right", failed.len())),
        };
        self.finish(outcome, now, jitter);
    }

    fn finish(&mut self, outcome: Result<Tally, String>, now: Duration, jitter: f64) {
        self.stage = Stage::Idle;
        let wait = match &outcome {
            Ok(tally) => {
                self.failures = 0;
                self.verified = Some(now);
                let level = if tally.put + tally.deleted > 0 { Level::Info } else { Level::Debug };
                let Tally { put, deleted, unchanged } = tally;
                let line = format!("registry in place: {put} put, {deleted} deleted, {unchanged} unchanged");
                self.lines.push((level, line));
                self.every
            }
            Err(why) => {
                let wait = retry_wait(self.failures, jitter).min(self.every);
                self.failures += 1;
                // Without the wait, so that the same failure makes the same line and is said once a minute.
                self.lines.push((Level::Warn, format!("registry pass failed, trying again: {why}")));
                wait
            }
        };
        self.last = Some((now, outcome));
        self.due = Some(if std::mem::take(&mut self.again) { now } else { now + wait });
    }
}

/// The wait after `failures` failed passes: 1 s doubling to 60 s, less up to a quarter so that many seats that lost
/// the same bus do not come back as one.
fn retry_wait(failures: u32, jitter: f64) -> Duration {
    let wait = FIRST_RETRY.saturating_mul(1 << failures.min(6)).min(LAST_RETRY);
    wait.mul_f64(0.95 - jitter.clamp(0.0, 1.0) / 4.0)
}

/// What has to change for `stored` to be the registry.
fn plan(stored: Vec<(String, Found)>, lines: &mut Vec<(Level, String)>) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut there = Vec::new();
    for (key, found) in stored {
        let entry = registry::ENTRIES.iter().find(|entry| crate::name::encode(entry.kind) == key);
        let (old, expected) = match found {
            Found::Message(message) => {
                if entry.is_some_and(|entry| entry.says_the_same_as(&message.value)) {
                    there.push(key);
                    continue;
                }
                (Some(message.value), message.sequence)
            }
            // A marker of a kind that nobody answers is how it should be.
            Found::Gone { .. } if entry.is_none() => continue,
            Found::Gone { marker } => (None, marker.unwrap_or(0)),
            Found::Unnameable => {
                let line = format!(
                    "registry: the key {key:?} is no kind and cannot be deleted by its name: purge it as an administrator"
                );
                lines.push((Level::Warn, line));
                continue;
            }
        };
        there.push(key.clone());
        changes.push(Change { key, entry, old, expected, step: Step::Write, conflicts: 0 });
    }
    for entry in &registry::ENTRIES {
        let key = crate::name::encode(entry.kind);
        if !there.contains(&key) {
            let change =
                Change { key, entry: Some(entry), old: None, expected: 0, step: Step::Write, conflicts: 0 };
            changes.push(change);
        }
    }
    changes
}

impl Change {
    fn heard(&mut self, body: Result<&[u8], Cause>, verified_before: bool, lines: &mut Vec<(Level, String)>) {
        match (&self.step, body) {
            (Step::AwaitWrite, Ok(body)) => match jetstream::parse_write(body) {
                WriteAnswer::Stored(revision) => {
                    lines.push(self.say_stored(revision, verified_before));
                    self.step = Step::Stored;
                }
                WriteAnswer::Conflict if self.conflicts == 0 => {
                    self.conflicts = 1;
                    self.step = Step::Read;
                }
                WriteAnswer::Conflict => self.fail("somebody else keeps writing it", lines),
                WriteAnswer::Refused(error) => {
                    self.fail(&format!("the bus refuses the write: {error}"), lines);
                }
                WriteAnswer::Unknown(why) => {
                    self.fail(&format!("it is not known whether the write was stored: {why}"), lines);
                }
            },
            (Step::AwaitRead, Ok(body)) => match jetstream::parse_message(body) {
                Ok(message) => self.reread(message, lines),
                Err(error) => self.fail(&format!("it cannot be read again: {error}"), lines),
            },
            (Step::AwaitWrite | Step::AwaitRead, Err(cause)) => {
                let why = match cause {
                    Cause::Denied(words) => format!(
                        "the bus says {words:?}: grant the seat the rights that mesh-provisioner permissions seat prints"
                    ),
                    Cause::Silent => {
                        "it is not known whether the write was stored: the bus gave no answer in time"
                            .to_owned()
                    }
                    other => other.tell(Bucket::Registry),
                };
                self.fail(&why, lines);
            }
            _ => {}
        }
    }

    /// Somebody else wrote the key after it was read.
    fn reread(&mut self, message: Option<Message>, lines: &mut Vec<(Level, String)>) {
        let (value, sequence) = match message {
            Some(message) => ((!message.deleted).then_some(message.value), message.sequence),
            None => (None, 0),
        };
        let right = match (&value, self.entry) {
            (Some(value), Some(entry)) => entry.says_the_same_as(value),
            (None, None) => true,
            _ => false,
        };
        let line = format!(
            "registry key {}: somebody else wrote it meanwhile, {} to {} (revision {sequence})",
            self.key,
            show(self.old.as_deref()),
            show(value.as_deref())
        );
        lines.push((Level::Warn, line));
        self.old = value;
        self.expected = sequence;
        self.step = if right { Step::Right } else { Step::Write };
    }

    fn say_stored(&self, revision: u64, verified_before: bool) -> (Level, String) {
        let key = &self.key;
        let by = if verified_before { "somebody else had changed it since the last pass: " } else { "" };
        match (self.entry, &self.old) {
            (Some(entry), Some(old)) => (
                Level::Warn,
                format!(
                    "registry key {key}: {by}{} put right to {} (revision {revision})",
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
        }
    }

    fn fail(&mut self, why: &str, lines: &mut Vec<(Level, String)>) {
        let why = format!("registry key {}: {why}", self.key);
        lines.push((Level::Warn, why.clone()));
        self.step = Step::Failed(why);
    }
}

/// A stored value for a log line.
fn show(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let shown = String::from_utf8_lossy(&value[..value.len().min(SHOWN_BYTES)]);
            let rest = value.len().saturating_sub(SHOWN_BYTES);
            if rest == 0 { shown.into_owned() } else { format!("{shown}… ({rest} bytes more)") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_to_a_minute_and_never_passes_it() {
        let waits = |jitter| [0, 1, 5, 6, 60].map(|failures| retry_wait(failures, jitter).as_millis());
        assert_eq!(waits(0.0), [950, 1900, 30_400, 57_000, 57_000]);
        assert_eq!(waits(1.0), [700, 1400, 22_400, 42_000, 42_000]);
    }

    #[test]
    fn a_long_value_is_cut_in_the_log() {
        assert_eq!(show(None), "nothing");
        assert_eq!(show(Some(b"{}")), "{}");
        let shown = show(Some(&[b'x'; 500]));
        assert!(shown.ends_with("x… (100 bytes more)"), "{shown}");
    }
}
