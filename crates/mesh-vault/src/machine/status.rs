//! What the vault says of itself, and its end.

use super::link::LinkState;
use super::others::Duty;
use super::{Call, Sent, Vault};
use crate::wire::Bucket;
use log::Level;
use mesh_runtime::Action;
use mesh_service::follow::Reading as Follows;
use mesh_service::identity::Identity;
use serde::Serialize;
use std::time::Duration;

/// How long a stopping vault still finishes what is under way.
const FAREWELL: Duration = Duration::from_secs(5);

/// What was counted since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Connections that were made.
    pub connections: u64,
    /// Requests to the verbs.
    pub requests: u64,
    /// Responses that are not errors.
    pub answers: u64,
    /// Error responses.
    pub refusals: u64,
    /// Secrets and lists that were handed out.
    pub given: u64,
    /// Secrets that were made or accepted.
    pub kept: u64,
    /// Revisions that were written to the bucket.
    pub published: u64,
    /// Values in the buckets that do not count.
    pub unbelieved: u64,
    /// Requests without a reply subject.
    pub without_reply: u64,
    /// Requests whose reply subject is not allowed.
    pub refused_replies: u64,
    /// Failures of the store.
    pub store_failures: u64,
    /// Messages that came faster than they were taken.
    pub overrun: u64,
    /// Messages that could not be sent.
    pub undelivered: u64,
}

/// How a bucket stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// Its name.
    pub bucket: &'static str,
    /// `current`, `listing`, `missing` or `refused`.
    pub state: &'static str,
}

/// The contents of the status file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Who it is.
    pub vault: Identity,
    /// The public half of its key.
    pub key: String,
    /// Whether it runs.
    pub live: bool,
    /// Whether it answers, with everything read.
    pub ready: bool,
    /// What is missing for that.
    pub missing: Vec<String>,
    /// The server it is connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How many secrets it has.
    pub secrets: usize,
    /// How many lists of consumers.
    pub lists: usize,
    /// How many revisions are not in their bucket yet.
    pub unpublished: usize,
    /// The buckets.
    pub buckets: Vec<Reading>,
    /// The server's last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_bus_error: Option<String>,
    /// What was counted.
    pub counters: Counters,
}

impl Vault {
    /// Whether the service manager may be told that it is ready: it is connected, and serves or stands by.
    pub fn is_serving(&self) -> bool {
        match self.duty {
            Duty::Serving => self.listens && self.link.is_up() && self.denied_subscriptions.is_empty(),
            Duty::Standby { .. } => self.link.is_up(),
            Duty::Looking { .. } => false,
        }
    }

    /// Whether it answers, with everything read.
    pub fn is_ready(&self) -> bool {
        self.missing().is_empty()
    }

    /// What is missing for that, the most important first.
    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        match &self.link {
            LinkState::Down { why, .. } | LinkState::Connecting { why, .. } => {
                missing.push(format!("no connection to the bus: {why}"));
            }
            LinkState::Up { .. } => {}
        }
        match &self.duty {
            Duty::Standby { other, .. } => {
                missing.push(format!("another vault serves, {other}: stop one of them"));
            }
            Duty::Looking { .. } if self.link.is_up() => missing.push("looking for other vaults".to_owned()),
            _ => {}
        }
        for subject in &self.denied_subscriptions {
            missing
                .push(format!("the bus denies the subscription of {subject}: grant the rights of the vault"));
        }
        if self.link.is_up() && self.duty == Duty::Serving {
            for reading in self.readings().into_iter().filter(|reading| reading.state != "current") {
                missing.push(match reading.state {
                    "missing" => {
                        format!("the bucket {} does not exist: run mesh-controller init", reading.bucket)
                    }
                    "refused" => format!("the bucket {} cannot be read: look at the log", reading.bucket),
                    _ => format!("reading the bucket {}", reading.bucket),
                });
            }
        }
        if self.stopping.is_some() {
            missing.push("stopping".to_owned());
        }
        missing
    }

    fn readings(&self) -> Vec<Reading> {
        let reading = |bucket: Bucket| Reading {
            bucket: bucket.name(),
            state: match self.follows[bucket as usize].reading() {
                Follows::Current => "current",
                Follows::Listing => "listing",
                Follows::Missing => "missing",
                Follows::Refused => "refused",
            },
        };
        Bucket::ALL.into_iter().map(reading).collect()
    }

    /// One line for the service manager.
    pub fn status_line(&self) -> String {
        match (self.missing().into_iter().next(), &self.link) {
            (Some(missing), _) => missing,
            (None, LinkState::Up { server, .. }) => {
                format!("{} secrets, serving on {server}", self.holdings.secrets.len())
            }
            (None, _) => "starting".to_owned(),
        }
    }

    /// The contents of the status file.
    pub fn status(&self) -> Status {
        let missing = self.missing();
        let server = match &self.link {
            LinkState::Up { server, .. } => Some(server.clone()),
            _ => None,
        };
        Status {
            vault: self.settings.identity.clone(),
            key: self.settings.own.to_string(),
            live: true,
            ready: missing.is_empty(),
            missing,
            server,
            secrets: self.holdings.secrets.len(),
            lists: self.holdings.lists.len(),
            unpublished: self.unchecked.len() + self.writing.len() + self.unpublished.len(),
            buckets: self.readings(),
            last_bus_error: self.last_bus_error.clone(),
            counters: self.counters.clone(),
        }
    }

    /// The last contents: nobody is to take a vault that has ended for one that serves.
    pub fn last_status(&self, code: u8) -> Status {
        let missing = vec![format!("the vault has ended with exit code {code}")];
        Status { live: false, ready: false, missing, ..self.status() }
    }

    pub(super) fn stop(&mut self, now: Duration) {
        if self.stopping.is_some() {
            return;
        }
        self.say(
            Level::Info,
            format!("stopping: {} requests under way", self.parked.len() + self.jobs.len()),
        );
        self.stopping = Some(now + FAREWELL);
        self.ask_others = None;
        self.reconnect = None;
        self.publish_again = None;
        self.calls.retain(|_, sent| matches!(sent.call, Call::Write(..)));
        for follow in &mut self.follows {
            follow.down();
        }
        if let Duty::Looking { .. } | Duty::Standby { .. } = self.duty {
            self.duty = Duty::Looking { until: None };
        }
        self.actions.push(Action::StopListening);
    }

    /// A reply came to a call.
    pub(super) fn on_reply(&mut self, number: u64, no_responders: bool, body: &[u8], now: Duration) {
        let Some(sent) = self.calls.get(&number) else { return };
        if let Call::Ping = sent.call {
            return self.on_pong(no_responders, body, now);
        }
        let Some(Sent { call, .. }) = self.calls.remove(&number) else { return };
        match call {
            Call::Ping => {}
            Call::Write(place, revision) => {
                self.written(place, revision, (!no_responders).then_some(body), now);
            }
            Call::Follow(bucket) => {
                if self.follows[bucket as usize].awaits(number) {
                    let steps = self.follows[bucket as usize].answered(no_responders, body, now);
                    self.follow(bucket, steps, now);
                }
            }
        }
    }

    pub(super) fn end_if_done(&mut self, now: Duration) {
        let Some(end) = self.stopping else { return };
        let idle = self.jobs.is_empty() && self.writing.is_empty() && self.parked.is_empty();
        if idle || now >= end || !self.link.is_up() {
            self.ended = true;
        }
    }
}
