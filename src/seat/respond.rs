//! Requests, from their arrival to their response: exactly one for each that may get one.

use super::in_flight::Owner;
use super::limits::SLOW_LIST;
use super::link_state::LinkState;
use super::queries::{Answered, Client};
use super::topic::Topic;
use super::{Action, Seat};
use log::Level;
use mesh_jetstream::message::{Body, Headers, Outgoing};
use mesh_model::provisioner::VERB;
use mesh_provisioner_api::failure::{Refusal, shorten};
use mesh_provisioner_api::reason::Reason;
use mesh_provisioner_api::request::{Ask, What};
use mesh_provisioner_api::{PROVISIONING, REPLIES, response};
use mesh_service::errors;
use mesh_service::identity::Identity;
use mesh_service::json::json;
use mesh_service::reply_guard::Asked;
use mesh_service::services::Monitor;
use serde_json::value::RawValue;
use std::time::Duration;

/// How many characters of a refused reply subject are in the log.
const MAX_SHOWN: usize = 100;

impl Seat {
    pub(super) fn on_request(&mut self, subject: &str, reply: Option<String>, body: &[u8], now: Duration) {
        let is_verb = subject == VERB;
        if is_verb {
            self.counters.requests += 1;
            self.work.requests += 1;
        }
        let Some(reply) = reply else {
            self.counters.without_reply += 1;
            let text = "request without a reply subject: no response can be sent";
            return self.notice(Level::Warn, Topic::WithoutReply, "", text, now);
        };
        if let Some(other) = asking_seat(subject, body) {
            if other.id == self.settings.identity.id {
                return;
            }
            self.other_seats.hint(&other.id, now);
        }
        let asked = if is_verb { Asked::Verb } else { Asked::Monitoring };
        if !REPLIES.may_answer(&reply, asked, &self.settings.reply_prefixes) {
            self.counters.refused_replies += 1;
            let shown: String = reply.escape_debug().take(MAX_SHOWN).collect();
            let text = format!(
                "request with the reply subject \"{shown}\", which is not allowed: use an inbox under _INBOX or _R_, or one that --reply-prefix names"
            );
            return self.notice(Level::Warn, Topic::RefusedReply, "", &text, now);
        }
        if is_verb {
            match Ask::parse(body) {
                Ok(ask) => self.accept(ask, reply, now),
                Err(bad) => self.reject(reply, now, now, Refusal::new(bad.reason, bad.message)),
            }
        } else if let Some(monitor) = PROVISIONING.monitor(subject, &self.settings.identity.id) {
            let seat = &self.settings.identity;
            let body = match monitor {
                Monitor::Ping => PROVISIONING.ping(seat),
                Monitor::Info => PROVISIONING.info(seat),
                Monitor::Stats => {
                    PROVISIONING.stats(seat, &self.settings.started, &self.work, &self.counters_json())
                }
            };
            self.send(reply, Headers::new(), body.into_bytes().into());
        }
    }

    pub(super) fn counters_json(&self) -> Box<RawValue> {
        RawValue::from_string(json(&self.counters)).expect("counters are numbers")
    }

    pub(super) fn accept(&mut self, ask: Ask, reply: String, now: Duration) {
        if ask.what == What::Health {
            let health = self.health(now);
            let body = response::health_json(health.ready, &json(&health), &self.settings.identity);
            return self.respond(reply, now, now, body.into_bytes().into());
        }
        let refused = if self.stopping.is_some() {
            Err(Refusal::stopping())
        } else if self.is_jetstream_stuck {
            let message = "JetStream does not answer, and is asked again within a minute: check the load, the disk and the log of the nats-server";
            Err(Refusal::new(Reason::JetstreamUnavailable, message.to_owned()))
        } else {
            self.queries.accept(ask, Client { reply: reply.clone(), since: now })
        };
        if let Err(refusal) = refused {
            self.reject(reply, now, now, refusal);
        }
    }

    pub(super) fn respond(&mut self, to: String, since: Duration, now: Duration, body: Body) {
        if let LinkState::Up { max_payload, .. } = self.link
            && body.len() > max_payload
        {
            let message = format!(
                "the response has {} bytes, more than the server's max_payload of {max_payload}: request less, or raise max_payload of the nats-server",
                body.len()
            );
            return self.reject(to, since, now, Refusal::new(Reason::ResponseTooLarge, message));
        }
        self.counters.answers += 1;
        self.work.time += now.saturating_sub(since);
        self.send(to, Headers::new(), body);
    }

    pub(super) fn reject(&mut self, to: String, since: Duration, now: Duration, refusal: Refusal) {
        let code = refusal.reason.code();
        let message = shorten(refusal.message);
        match code {
            503 => self.counters.unavailable += 1,
            504 => self.counters.too_late += 1,
            _ => self.counters.bad_requests += 1,
        }
        let line = errors::one_line(&message);
        if code >= 500 {
            self.notice(Level::Warn, Topic::ErrorResponse, &line, &format!("answered {code}: {line}"), now);
        }
        self.work.errors += 1;
        self.work.time += now.saturating_sub(since);
        let body = response::error_json(refusal.reason, &message);
        self.work.last_error = format!("{code}: {line}");
        self.send(to, errors::headers(code, &message), body.into_bytes().into());
    }

    pub(super) fn send(&mut self, subject: String, headers: Headers, body: Body) {
        self.actions.push(Action::Send(Outgoing { subject, reply: None, headers, body }));
    }

    pub(super) fn send_responses(&mut self, now: Duration) {
        self.queries.cut_short(now);
        while let Some(Answered { id, clients, outcome, registry }) = self.queries.answered() {
            if let Some(id) = id {
                self.give_up(Owner::Request(id), now);
            }
            let outcome = outcome.map(|body| Body::from(body.into_bytes()));
            for client in clients {
                self.settle(client, outcome.clone(), now);
            }
            if let Some(state) = registry {
                self.registry_seen(&state, now);
            }
        }
        while let Some((id, client, refusal)) = self.queries.overdue(now) {
            if let Some(id) = id {
                self.give_up(Owner::Request(id), now);
            }
            self.settle(client, Err(refusal), now);
        }
    }

    /// Waits no longer for the calls of `owner`. A list that is still not there is too long for the line.
    fn give_up(&mut self, owner: Owner, now: Duration) {
        if self.in_flight.outstanding(owner) == 0 {
            return;
        }
        let slow = self.in_flight.costs(Some(owner), now.saturating_sub(SLOW_LIST));
        self.note_long_reads(slow.into_iter().filter(|cost| cost.is_list()), now);
        self.in_flight.forget(owner);
    }

    pub(super) fn settle(&mut self, client: Client, outcome: Result<Body, Refusal>, now: Duration) {
        match outcome {
            Ok(body) => self.respond(client.reply, client.since, now, body),
            Err(refusal) => self.reject(client.reply, client.since, now, refusal),
        }
    }
}

/// Who sent this, if it is the question of a seat who else is there: its body names who asks.
fn asking_seat(subject: &str, body: &[u8]) -> Option<Identity> {
    if subject == PROVISIONING.ping_subject() && !body.is_empty() {
        PROVISIONING.parse_ping(body)
    } else {
        None
    }
}
