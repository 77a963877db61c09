//! The connection: when to make it, and what starts with it.

use std::time::Duration;

use log::Level;
use mesh_runtime::{Action, Delivery};
use mesh_service::backoff::Backoff;
use mesh_service::follow::Step;

use super::{COLLECT, Call, Client, NEEDS, Topic};

const RECONNECT: Backoff = Backoff { first: Duration::from_millis(250), last: Duration::from_secs(4) };

/// A connection that ends sooner counts as a failed attempt.
const LASTING: Duration = Duration::from_secs(1);

/// How long the answer to a call may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How the connection stands.
#[derive(Debug)]
pub(super) enum LinkState {
    /// It is to be made then.
    Down { at: Duration, attempts: u32 },
    /// It is being made.
    Connecting { attempts: u32 },
    /// It is there.
    Up { since: Duration, attempts: u32 },
}

impl LinkState {
    pub(super) const fn start() -> Self {
        LinkState::Down { at: Duration::ZERO, attempts: 0 }
    }

    pub(super) const fn is_up(&self) -> bool {
        matches!(self, LinkState::Up { .. })
    }

    pub(super) const fn deadline(&self) -> Option<Duration> {
        match self {
            LinkState::Down { at, .. } => Some(*at),
            LinkState::Connecting { .. } | LinkState::Up { .. } => None,
        }
    }
}

impl Client {
    /// Connects when it is time.
    pub(super) fn connect(&mut self) {
        if let LinkState::Down { at, attempts } = self.link
            && at <= self.now
        {
            self.link = LinkState::Connecting { attempts };
            self.connections += 1;
            self.actions.push(Action::Connect);
        }
    }

    pub(super) fn up(&mut self, server: &str) {
        let attempts = match self.link {
            LinkState::Connecting { attempts } | LinkState::Down { attempts, .. } => attempts,
            LinkState::Up { .. } => 0,
        };
        let line = format!("connected to {server}");
        self.notice(Level::Info, Topic::Connection, &line, &line);
        self.counters.connections += 1;
        self.link = LinkState::Up { since: self.now, attempts };
        self.abandon();
        for place in 0..self.follows.len() {
            self.follow_up(place);
        }
    }

    /// Lists a bucket over the connection that is up.
    pub(super) fn follow_up(&mut self, place: usize) {
        let deliver = format!("{}.c.{place}", self.inbox_prefix());
        let steps = self.follows[place].up(&deliver, self.now);
        self.steps(place, steps);
    }

    pub(super) fn down(&mut self, why: &str) {
        let attempts = match self.link {
            LinkState::Up { since, attempts } => {
                let line = format!("disconnected: {why}");
                self.notice(Level::Warn, Topic::Connection, &line, &line);
                if self.now < since + LASTING { attempts + 1 } else { 0 }
            }
            LinkState::Connecting { attempts } | LinkState::Down { attempts, .. } => {
                let line = format!("cannot connect, trying again: {why}");
                self.notice(Level::Warn, Topic::Connection, "connect", &line);
                attempts + 1
            }
        };
        let wait = match attempts {
            0 => Duration::ZERO,
            more => RECONNECT.after(more - 1, self.jitter()),
        };
        self.link = LinkState::Down { at: self.now + wait, attempts };
        self.abandon();
        for follow in &mut self.follows {
            follow.down();
        }
    }

    /// Answers to what was asked over the earlier connection do not come any more.
    fn abandon(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        for (call, _) in calls.into_values() {
            if let Call::Verb(asked) = call
                && let Some(ask) = self.asks.get_mut(&asked)
            {
                ask.call = None;
            }
        }
        for mirror in &mut self.mirrors {
            mirror.down();
        }
    }

    /// Something was dropped on its way to us: everything is listed again.
    pub(super) fn relist(&mut self) {
        for place in 0..self.follows.len() {
            let steps = self.follows[place].relist(self.now);
            self.steps(place, steps);
        }
    }

    /// An operator asks for everything at once: lists, and what waits for a back-off.
    pub(super) fn reload(&mut self) {
        self.say(Level::Info, "everything is looked at again");
        self.providers.0.clear();
        for ask in self.asks.values_mut() {
            ask.not_before = Duration::ZERO;
        }
        for module in self.modules.values_mut() {
            module.retry = module.retry.map(|_| Duration::ZERO);
        }
        self.full_retry = self.full_retry.map(|(_, failures)| (Duration::ZERO, failures));
        self.host_retry = None;
        self.relist();
    }

    pub(super) fn server_error(&mut self, words: &str) {
        let shown = words.replace(&self.settings.nonce, "<secret>");
        self.notice(Level::Warn, Topic::ServerError, &shown, &format!("the server says {shown:?}"));
        for place in 0..self.follows.len() {
            let steps = self.follows[place].server_error(words, self.now);
            self.steps(place, steps);
        }
        let subject = words.split('"').nth(1).unwrap_or_default();
        if words.to_ascii_lowercase().starts_with("permissions violation for publish") {
            self.denied(subject);
        }
    }

    pub(super) fn delivery(&mut self, delivery: Delivery) {
        let Delivery { place, subject, reply, headers, body } = delivery;
        let Some(follow) = self.follows.get_mut(place) else { return };
        let steps = follow.delivered(&subject, reply.as_deref(), &headers, body, self.now);
        let is_mirror = (NEEDS..=COLLECT).contains(&place);
        self.only_writes = is_mirror && steps.iter().all(|step| matches!(step, Step::Entry(_)));
        self.wrote |= is_mirror && place != NEEDS;
        self.steps(place, steps);
    }

    pub(super) fn steps(&mut self, place: usize, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Send(message) => {
                    let call = self.call(message, Call::Follow(place), PATIENCE);
                    self.follows[place].asked(call);
                }
                Step::Entry(entry) => self.entry(place, entry),
                Step::Complete(list) => {
                    self.was_read.insert(place);
                    self.complete(place, &list);
                }
                Step::Missing => {
                    let bucket = self.follows[place].bucket().to_owned();
                    self.notice(
                        Level::Warn,
                        Topic::Bucket,
                        &bucket,
                        &format!("the bucket {bucket} does not exist; it is looked for again"),
                    );
                    self.missing(place);
                }
                Step::Refused(why) => {
                    let bucket = self.follows[place].bucket().to_owned();
                    let why = why.replace(&self.settings.nonce, "<secret>");
                    let line = format!("the bucket {bucket} cannot be read, trying again: {why}");
                    self.notice(Level::Warn, Topic::Bucket, &bucket, &line);
                    self.missing(place);
                }
            }
        }
    }
}
