//! Other vaults. Two of them do harm: each would make secrets that the other does not have. So a vault subscribes to
//! nothing before it has asked who else is one, and steps back when another answers.

use super::topic::Topic;
use super::{Call, Vault};
use crate::wire::VAULT;
use log::Level;
use mesh_jetstream::message::Outgoing;
use mesh_runtime::Action;
use std::time::Duration;

/// How long responses are awaited where a program subscribes. Where none does, the server says so at once.
const WAIT: Duration = Duration::from_millis(1500);

/// How often a vault that stands by looks whether the other is gone.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How soon after it began to serve a vault asks again: another may have begun at the same moment.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// How often a vault that serves asks.
const EVERY: Duration = Duration::from_secs(20);

/// What a vault does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Duty {
    /// It asks who else is a vault, until then.
    Looking { until: Option<Duration> },
    /// It serves.
    Serving,
    /// Another one serves.
    Standby { other: String, look: Duration },
}

impl Duty {
    pub(super) const fn due(&self) -> Option<Duration> {
        match self {
            Duty::Looking { until } => *until,
            Duty::Serving => None,
            Duty::Standby { look, .. } => Some(*look),
        }
    }
}

impl Vault {
    /// A connection is up that has no subscriptions yet.
    pub(super) fn look_at_once(&mut self) {
        self.duty = Duty::Looking { until: None };
    }

    pub(super) fn look_for_others(&mut self, now: Duration) {
        if !self.link.is_up() || self.stopping.is_some() {
            return;
        }
        match &self.duty {
            Duty::Looking { until: None } => {
                self.ping(now);
                self.duty = Duty::Looking { until: Some(now + WAIT) };
            }
            Duty::Looking { until: Some(until) } if now >= *until => self.nobody_answers(now),
            Duty::Standby { look, .. } if now >= *look => {
                self.duty = Duty::Looking { until: None };
                self.look_for_others(now);
            }
            Duty::Serving if self.listens && self.ask_others.is_none() => {
                self.ask_others = Some(now + FIRST_LOOK);
            }
            Duty::Serving if self.ask_others.is_some_and(|at| now >= at) => {
                self.ask_others = Some(now + EVERY);
                self.ping(now);
            }
            _ => {}
        }
    }

    fn ping(&mut self, now: Duration) {
        self.calls.retain(|_, sent| !matches!(sent.call, Call::Ping));
        let body = VAULT.ping(&self.settings.identity).into_bytes().into();
        let message = Outgoing { subject: VAULT.ping_subject(), reply: None, headers: Vec::new(), body };
        self.call(Call::Ping, message, now);
    }

    /// Nobody else is a vault: this one serves, over a connection with its subscriptions.
    pub(super) fn nobody_answers(&mut self, now: Duration) {
        if let Duty::Looking { .. } = self.duty {
            self.duty = Duty::Serving;
            self.ask_others = None;
            self.connect_again(now);
            self.try_to_connect(now);
        }
    }

    /// An answer to the question who else is a vault.
    pub(super) fn on_pong(&mut self, no_responders: bool, body: &[u8], now: Duration) {
        if no_responders {
            return self.nobody_answers(now);
        }
        let Some(other) = VAULT.parse_ping(body).filter(|other| other.id != self.settings.identity.id) else {
            return;
        };
        match self.duty {
            Duty::Serving if other.id > self.settings.identity.id => {
                let text = format!("another vault serves, {}: it will step back", other.id);
                self.notice(Level::Error, Topic::Others, "", &text, now);
            }
            Duty::Serving => {
                let text = format!("another vault serves, {}: stepping back; stop one of them", other.id);
                self.notice(Level::Error, Topic::Others, "", &text, now);
                self.actions.push(Action::StopListening);
                self.duty = Duty::Standby { other: other.id, look: now + LOOK_AGAIN };
                self.listens = false;
                self.ask_others = None;
                self.connect_again(now);
                self.try_to_connect(now);
            }
            Duty::Looking { .. } => {
                let text = format!("another vault serves, {}: standing by", other.id);
                self.notice(Level::Warn, Topic::Others, "", &text, now);
                self.duty = Duty::Standby { other: other.id, look: now + LOOK_AGAIN };
            }
            Duty::Standby { .. } => {}
        }
    }
}
