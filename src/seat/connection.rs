//! The service connection: when to (re)connect, and what starts or stops with it.

use super::call::{Call, Cost, Tag};
use super::in_flight::{Owner, Sent};
use super::link_state::LinkState;
use super::topic::Topic;
use super::{Action, Seat};
use log::Level;
use mesh_jetstream::message::Request;
use mesh_provisioner_api::failure::Cause;
use mesh_service::backoff::Backoff;
use std::time::Duration;

/// The wait after the first failed attempt to connect, and the longest.
const RECONNECT: Backoff = Backoff { first: Duration::from_millis(250), last: Duration::from_secs(4) };

/// A connection that ends sooner counts as a failed attempt: the next one may end for the same reason.
const LASTING: Duration = Duration::from_secs(1);

/// How long after a lame duck notice to try again if no other server accepts us.
const MOVE_AGAIN: Duration = Duration::from_secs(2);

/// How long after a denied subscription to try again.
const TRY_RIGHTS_AGAIN: Duration = Duration::from_secs(60);

impl Seat {
    pub(super) fn up(&mut self, server: String, max_payload: usize, now: Duration) {
        self.counters.connections += 1;
        let line = format!("connected to {server}");
        let attempts = match self.link {
            LinkState::Connecting { attempts, .. } | LinkState::Down { attempts, .. } => attempts,
            LinkState::Up { .. } => 0,
        };
        match attempts {
            0 => self.say(Level::Info, line),
            _ => self.notice(Level::Info, Topic::Connection, &line, &line, now),
        }
        self.link = LinkState::Up { server, max_payload, move_at: None, since: now, attempts };
        self.denied_subscriptions.clear();
        self.subscriptions_over_limit = 0;
        self.abandon_calls();
        if self.stopping.is_some() {
            self.actions.push(Action::StopListening);
        }
        if self.stopping.is_none() {
            let jitter = self.jitter();
            self.pass.connected(now, jitter);
            self.other_seats.request(now);
        }
    }

    /// The seat's own work starts at once, if there is a connection and the seat is not stopping.
    pub(super) fn begin_duties(&mut self, now: Duration) {
        if self.is_up() && self.stopping.is_none() {
            self.pass.request(now);
            self.other_seats.request(now);
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
                self.notice(
                    Level::Warn,
                    Topic::Connection,
                    &format!("connect {why}"),
                    &format!("cannot connect, trying again: {why}"),
                    now,
                );
                attempts
            }
        };
        // After a connection that served, the next one is made at once.
        let wait = if attempts == 0 { Duration::ZERO } else { RECONNECT.after(attempts, self.jitter()) };
        self.link = LinkState::Down { retry: now + wait, attempts, why };
        self.note_long_reads(self.in_flight.costs(None, now), now);
        self.abandon_calls();
    }

    /// Replies to calls on the previous connection will not arrive on the next one.
    pub(super) fn abandon_calls(&mut self) {
        self.in_flight.clear();
        self.queries.begin_anew();
        self.pass.interrupt();
        self.checks.interrupt();
        self.other_seats.interrupt();
    }

    pub(super) fn on_server_error(&mut self, words: &str, now: Duration) {
        // Neither the log nor `health` shows the secret part of the inbox.
        let secret = self.settings.inbox.clone();
        let hide = |text: &str| text.replace(&secret, "<secret>");
        let shown = hide(words);
        self.notice(Level::Warn, Topic::ServerError, &shown, &format!("the server says {shown:?}"), now);
        self.last_bus_error = Some(shown);
        let subject = words.split('"').nth(1).unwrap_or_default();
        let lower = words.to_ascii_lowercase();
        if lower.starts_with("permissions violation for subscription") {
            if self.denied_subscriptions.len() < self.subscriptions().len() {
                self.denied_subscriptions.insert(hide(subject));
            }
            self.connect_again_for_rights(now);
        } else if lower.starts_with("maximum subscriptions exceeded") {
            self.subscriptions_over_limit += 1;
            self.connect_again_for_rights(now);
        } else if lower.starts_with("permissions violation for publish") {
            for call in self.in_flight.denied(subject) {
                self.fail(&call, Cause::Denied(words.to_owned()), now);
            }
        }
    }

    /// A permission that is granted later takes effect on the next connection only.
    const fn connect_again_for_rights(&mut self, now: Duration) {
        if let LinkState::Up { move_at: move_at @ None, .. } = &mut self.link {
            *move_at = Some(now.saturating_add(TRY_RIGHTS_AGAIN));
        }
    }

    /// Calls had no reply in time. If they are the seat's own, it may be that the server reads nothing more: one of the
    /// 2.9 line whose disk hangs takes no message of a connection that asked JetStream for anything, and still sends it
    /// requests. So the seat sends itself a message. If that does not come back, the seat moves to another connection,
    /// and asks JetStream nothing but for its passes until one has a reply.
    pub(super) fn look_into_silence(&mut self, silent: &[Sent], now: Duration) {
        if silent.iter().any(|call| call.owner == Owner::Echo) {
            self.is_jetstream_stuck = true;
            let line = "no answer of JetStream, and the server reads nothing more on this connection: connecting again";
            self.notice(Level::Warn, Topic::Connection, "silent", line, now);
            if let LinkState::Up { move_at: move_at @ None, .. } = &mut self.link {
                *move_at = Some(now);
            }
        } else if silent.iter().any(|call| matches!(call.owner, Owner::Pass | Owner::Checks))
            && self.in_flight.outstanding(Owner::Echo) == 0
        {
            let number = self.in_flight.next_number();
            let subject = format!("{}.{number}", self.inbox());
            let request = Request { subject, headers: Vec::new(), body: Vec::new() };
            self.send_call(Owner::Echo, Call { tag: Tag::Value(0), request, cost: Cost::Single }, now);
        }
    }

    pub(super) fn lame_duck(&mut self, now: Duration) {
        if let LinkState::Up { server, move_at, .. } = &mut self.link {
            *move_at = Some(now);
            let line = format!("{server} is about to shut down: moving to another server");
            self.say(Level::Info, line);
        }
    }

    pub(super) fn try_to_connect(&mut self, now: Duration) {
        match &mut self.link {
            LinkState::Down { retry, attempts, why } if now >= *retry => {
                let (attempts, why) = (*attempts, std::mem::take(why));
                self.link = LinkState::Connecting { attempts, why };
                self.actions.push(Action::Connect);
            }
            LinkState::Up { move_at: Some(at), .. } if now >= *at => {
                *at = now + MOVE_AGAIN;
                self.actions.push(Action::Connect);
            }
            _ => {}
        }
    }
}
