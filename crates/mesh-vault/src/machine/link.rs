//! The connection: when to make it, and what starts or stops with it.

use super::others::Duty;
use super::topic::Topic;
use super::{Call, Change, Vault};
use crate::wire::Bucket;
use log::Level;
use mesh_runtime::Action;
use mesh_service::backoff::Backoff;
use std::time::Duration;

/// The wait after the first failed attempt to connect, and the longest.
const RECONNECT: Backoff = Backoff { first: Duration::from_millis(250), last: Duration::from_secs(4) };

/// A connection that ends sooner counts as a failed attempt: the next one may end for the same reason.
const LASTING: Duration = Duration::from_secs(1);

/// How long to wait for a further connection before another attempt is made.
const MOVE_AGAIN: Duration = Duration::from_secs(2);

/// How long after a denied subscription to try again.
const TRY_RIGHTS_AGAIN: Duration = Duration::from_secs(60);

/// The state of the connection.
#[derive(Debug)]
pub(super) enum LinkState {
    /// There is none; the next attempt is due at this time.
    Down { retry: Duration, attempts: u32, why: String },
    /// An attempt is under way.
    Connecting { attempts: u32, why: String },
    /// It is up, after this many failed attempts.
    Up { server: String, max_payload: usize, since: Duration, attempts: u32 },
}

impl LinkState {
    pub(super) const fn is_up(&self) -> bool {
        matches!(self, LinkState::Up { .. })
    }

    pub(super) const fn due(&self) -> Option<Duration> {
        match self {
            LinkState::Down { retry, .. } => Some(*retry),
            LinkState::Connecting { .. } | LinkState::Up { .. } => None,
        }
    }

    pub(super) fn set_max_payload(&mut self, bytes: usize) {
        if let LinkState::Up { max_payload, .. } = self {
            *max_payload = bytes;
        }
    }
}

impl Vault {
    pub(super) fn up(&mut self, server: String, max_payload: usize, now: Duration) {
        self.counters.connections += 1;
        let attempts = match self.link {
            LinkState::Connecting { attempts, .. } | LinkState::Down { attempts, .. } => attempts,
            LinkState::Up { .. } => 0,
        };
        if !self.link.is_up() {
            let line = format!("connected to {server}");
            match attempts {
                0 => self.say(Level::Info, line),
                _ => self.notice(Level::Info, Topic::Connection, &line, &line, now),
            }
        }
        self.link = LinkState::Up { server, max_payload, since: now, attempts };
        self.denied_subscriptions.clear();
        self.abandon_calls(now);
        self.reconnect = None;
        self.inboxes.up();
        self.listens = self.duty == Duty::Serving;
        if self.stopping.is_some() {
            self.actions.push(Action::StopListening);
        }
        match self.duty {
            Duty::Serving => {
                for bucket in crate::wire::Bucket::ALL {
                    let deliver = format!("{}.c.{}", self.inboxes.current(), bucket as usize);
                    let steps = self.follows[bucket as usize].up(&deliver, now);
                    self.follow(bucket, steps, now);
                }
                self.check_all();
            }
            Duty::Looking { .. } | Duty::Standby { .. } => self.look_at_once(),
        }
    }

    pub(super) fn down(&mut self, why: String, now: Duration) {
        let attempts = match &self.link {
            LinkState::Up { since, attempts, .. } => {
                let attempts = if now < *since + LASTING { attempts + 1 } else { 0 };
                let line = format!("disconnected: {why}");
                match attempts {
                    0 => self.say(Level::Warn, line),
                    _ => self.notice(Level::Warn, Topic::Connection, &line, &line, now),
                }
                attempts
            }
            LinkState::Connecting { attempts, .. } | LinkState::Down { attempts, .. } => {
                let attempts = attempts + 1;
                let (key, line) = (format!("connect {why}"), format!("cannot connect, trying again: {why}"));
                self.notice(Level::Warn, Topic::Connection, &key, &line, now);
                attempts
            }
        };
        // After a connection that served, the next one is made at once.
        let wait = if attempts == 0 { Duration::ZERO } else { RECONNECT.after(attempts, self.jitter()) };
        self.link = LinkState::Down { retry: now + wait, attempts, why };
        self.abandon_calls(now);
        self.listens = false;
        self.reconnect = None;
        self.ask_others = None;
        // Another vault may have begun to serve meanwhile.
        self.duty = Duty::Looking { until: None };
    }

    /// Replies to calls on the previous connection will not arrive on the next one.
    fn abandon_calls(&mut self, now: Duration) {
        for follow in &mut self.follows {
            follow.down();
        }
        let calls = std::mem::take(&mut self.calls);
        for sent in calls.into_values() {
            if let Call::Write(place, revision) = sent.call {
                self.written(place, revision, None, now);
            }
        }
    }

    pub(super) fn on_server_error(&mut self, words: &str, now: Duration) {
        let shown = self.hide(words);
        self.notice(Level::Warn, Topic::ServerError, &shown, &format!("the server says {shown:?}"), now);
        self.last_bus_error = Some(shown);
        let subject = words.split('"').nth(1).unwrap_or_default();
        let lower = words.to_ascii_lowercase();
        if lower.starts_with("permissions violation for subscription")
            || lower.starts_with("maximum subscriptions exceeded")
        {
            let denied = self.hide(if subject.is_empty() { words } else { subject });
            self.denied_subscriptions.insert(denied);
            // A permission that is granted later takes effect on the next connection only.
            self.reconnect.get_or_insert(now + TRY_RIGHTS_AGAIN);
        } else if lower.starts_with("permissions violation for publish") {
            let denied: Vec<u64> = self
                .calls
                .iter()
                .filter(|(_, sent)| sent.subject == subject)
                .map(|(number, _)| *number)
                .collect();
            for number in denied {
                match self.calls.remove(&number).map(|sent| sent.call) {
                    Some(Call::Write(place, revision)) => self.written(place, revision, None, now),
                    // Nobody can be asked, so nobody can be found.
                    Some(Call::Ping) => self.nobody_answers(now),
                    Some(Call::Follow(_)) | None => {}
                }
            }
        }
        for bucket in crate::wire::Bucket::ALL {
            let steps = self.follows[bucket as usize].server_error(words, now);
            self.follow(bucket, steps, now);
        }
    }

    pub(super) fn lame_duck(&mut self, now: Duration) {
        if let LinkState::Up { server, .. } = &self.link {
            let line = format!("{server} is about to shut down: moving to another server");
            self.say(Level::Info, line);
            self.reconnect = Some(now);
        }
    }

    /// Connects again soon, so that the subscriptions are those of the duty.
    pub(super) const fn connect_again(&mut self, now: Duration) {
        self.reconnect = Some(now);
    }

    pub(super) fn try_to_connect(&mut self, now: Duration) {
        match &mut self.link {
            LinkState::Down { retry, attempts, why } if now >= *retry => {
                let (attempts, why) = (*attempts, std::mem::take(why));
                self.link = LinkState::Connecting { attempts, why };
                self.connect();
            }
            LinkState::Up { .. } if self.reconnect.is_some_and(|at| now >= at) => {
                self.reconnect = Some(now + MOVE_AGAIN);
                self.connect();
            }
            _ => {}
        }
    }

    /// Reads again what was left out, if a declaration may have made it count.
    pub(super) fn read_again_by(&mut self, change: &Change, now: Duration) {
        if self.known.is_to_be_read_again(change) {
            let steps = self.follows[Bucket::Applied as usize].relist(now);
            self.follow(Bucket::Applied, steps, now);
        }
    }
}
