//! Requests, from their arrival to their response: exactly one for each that may get one.

use super::judge::Verdict;
use super::link::LinkState;
use super::topic::Topic;
use super::{Asked, Job, Vault};
use crate::place::Place;
use crate::task::{Failure, Outcome, Work};
use crate::wire::{AGAIN_AFTER, Bucket, REPLIES, Reason, Refusal, VAULT, Verb};
use log::Level;
use mesh_jetstream::message::{Body, Headers, Outgoing};
use mesh_model::json::Read;
use mesh_model::vault_api::{ConsumersAnswer, ConsumersRequest, RevisionAnswer, SecretAnswer, SecretRequest};
use mesh_service::errors;
use mesh_service::json::json;
use mesh_service::reply_guard::Asked as For;
use mesh_service::services::Monitor;
use serde_json::value::RawValue;
use std::time::Duration;

/// The largest request of a node, in bytes.
const MAX_REQUEST_BYTES: usize = 4096;

/// How many characters of a refused reply subject are in the log.
const MAX_SHOWN: usize = 100;

/// How many requests may wait for a change.
const MAX_PARKED: usize = 1024;

/// How long a request waits for what may be under way, such as the declaration of an assignment that is there.
const A_MOMENT: Duration = Duration::from_secs(1);

/// How long a request waits until all buckets are read. A client waits for five seconds.
const UNTIL_READ: Duration = Duration::from_secs(4);

/// Whoever gets a response.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) reply: String,
    pub(super) since: Duration,
    pub(super) verb: Verb,
}

/// A request that waits for a change.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) until: Duration,
    answer: Waiting,
    what: Asked,
}

impl Vault {
    pub(super) fn on_request(&mut self, subject: &str, reply: Option<String>, body: &[u8], now: Duration) {
        let verb = Verb::of(subject);
        if let Some(work) = verb.and_then(|verb| self.work.get_mut(&verb)) {
            work.requests += 1;
            self.counters.requests += 1;
        }
        let Some(reply) = reply else {
            self.counters.without_reply += 1;
            let text = "request without a reply subject: no response can be sent";
            return self.notice(Level::Warn, Topic::WithoutReply, "", text, now);
        };
        let asked = if verb.is_some() { For::Verb } else { For::Monitoring };
        if !REPLIES.may_answer(&reply, asked, &self.settings.reply_prefixes) {
            self.counters.refused_replies += 1;
            let shown: String = reply.escape_debug().take(MAX_SHOWN).collect();
            let text = format!(
                "request with the reply subject \"{shown}\", which is not allowed: use an inbox under _INBOX, or one that --reply-prefix names"
            );
            return self.notice(Level::Warn, Topic::RefusedReply, "", &text, now);
        }
        match verb {
            Some(verb) => self.on_verb(Waiting { reply, since: now, verb }, body, now),
            None => self.on_monitoring(subject, reply, body),
        }
    }

    fn on_monitoring(&mut self, subject: &str, reply: String, body: &[u8]) {
        let own = &self.settings.identity;
        // Our own question who else is a vault.
        if subject == VAULT.ping_subject() && VAULT.parse_ping(body).is_some_and(|asker| asker.id == own.id) {
            return;
        }
        let Some(monitor) = VAULT.monitor(subject, &own.id) else { return };
        let body = match monitor {
            Monitor::Ping => VAULT.ping(own),
            Monitor::Info => VAULT.info_of(own, &Verb::ALL.map(Verb::endpoint)),
            Monitor::Stats => {
                let work: Vec<_> = self.work.iter().map(|(verb, work)| (verb.endpoint(), work)).collect();
                let counters = RawValue::from_string(json(&self.counters)).expect("counters are numbers");
                VAULT.stats_of(own, &self.settings.started, &work, &counters)
            }
        };
        self.send(reply, Headers::new(), body.into_bytes().into());
    }

    fn on_verb(&mut self, answer: Waiting, body: &[u8], now: Duration) {
        if self.stopping.is_some() {
            return self.reject(
                answer,
                &Refusal::new(Reason::Stopping, "the vault is stopping: ask again"),
                now,
            );
        }
        let what = match answer.verb {
            Verb::Accept | Verb::Rotate | Verb::Export => return self.on_signed(answer, body, now),
            _ if body.len() > MAX_REQUEST_BYTES => {
                Err(format!("the request has {} bytes, and {MAX_REQUEST_BYTES} are allowed", body.len()))
            }
            Verb::Secret => read::<SecretRequest>(body).map(Asked::Secret),
            Verb::Consumers => read::<ConsumersRequest>(body).map(Asked::Consumers),
        };
        match what {
            Ok(what) => self.consider(answer, what, now),
            Err(why) => {
                let message = format!("{why}: see docs/mesh-vault.md for the form of a request");
                self.reject(answer, &Refusal::new(Reason::BadRequest, message), now);
            }
        }
    }

    /// Answers a request, begins what it takes, or lets it wait.
    fn consider(&mut self, answer: Waiting, what: Asked, now: Duration) {
        if !self.is_on_duty() {
            let refusal = Refusal::new(Reason::NotRead, self.tell_unread());
            return self.park(answer, what, UNTIL_READ, &refusal, now);
        }
        let verdict = match &what {
            Asked::Secret(request) => self.judge_secret(request),
            Asked::Consumers(request) => self.judge_consumers(request),
        };
        match verdict {
            Verdict::Give(work, sequence) => {
                let revision = match &*work {
                    Work::Give { revision, .. } => *revision,
                    Work::GiveList { place, .. } => self.holdings.revision(place),
                    _ => 0,
                };
                self.begin(*work, Job::Give { answer, what, revision, sequence });
            }
            Verdict::Make(work, sequence) => {
                if let Work::Make { place, revision, .. } = &*work {
                    let (place, revision) = (place.clone(), *revision);
                    self.busy.insert(place.clone());
                    let sequence = Some(sequence);
                    self.begin(
                        *work,
                        Job::Keep { place, revision, answer: Some(answer), id: None, sequence },
                    );
                }
            }
            Verdict::Wait(refusal) => self.park(answer, what, A_MOMENT, &refusal, now),
            Verdict::Refuse(refusal) => self.reject(answer, &refusal, now),
        }
    }

    fn park(&mut self, answer: Waiting, what: Asked, wait: Duration, refusal: &Refusal, now: Duration) {
        let until = answer.since + wait;
        if now >= until || self.parked.len() >= MAX_PARKED {
            return self.reject(answer, refusal, now);
        }
        self.parked.push(Parked { until, answer, what });
    }

    /// Looks at the requests that wait, if something changed or the time of one is over.
    pub(super) fn judge_parked(&mut self, now: Duration) {
        let is_over = self.parked.iter().any(|parked| now >= parked.until);
        if !std::mem::take(&mut self.rejudge) && !is_over && self.stopping.is_none() {
            return;
        }
        for Parked { answer, what, .. } in std::mem::take(&mut self.parked) {
            if self.stopping.is_some() {
                self.reject(answer, &Refusal::new(Reason::Stopping, "the vault is stopping: ask again"), now);
            } else {
                self.consider(answer, what, now);
            }
        }
    }

    /// Which buckets are not read.
    pub(super) fn tell_unread(&self) -> String {
        let unread: Vec<&str> =
            Bucket::ALL.into_iter().filter(|bucket| !self.read.contains(bucket)).map(Bucket::name).collect();
        format!("the vault has not read {} yet: ask again, or look at its log", unread.join(", "))
    }

    /// A secret is kept: its request gets it, or the number of its revision.
    pub(super) fn kept(
        &mut self,
        place: Place,
        revision: u64,
        answer: Option<Waiting>,
        id: Option<String>,
        sequence: Option<u64>,
        now: Duration,
    ) {
        match (answer, id) {
            (Some(answer), Some(id)) => self.respond(answer, &RevisionAnswer { id, revision }, now),
            (Some(answer), None) => {
                let Place { node, module, name } = place.clone();
                let what = Asked::Secret(SecretRequest { node, module, name });
                let sequence = sequence.unwrap_or(0);
                self.begin(Work::Give { place, revision }, Job::Give { answer, what, revision, sequence });
            }
            (None, _) => {}
        }
    }

    /// Sealed copies were read.
    pub(super) fn give(
        &mut self,
        answer: Waiting,
        what: Asked,
        revision: u64,
        outcome: Outcome,
        now: Duration,
    ) {
        match (what, outcome) {
            (Asked::Secret(SecretRequest { node, module, name }), Outcome::Copy(sealed)) => {
                let again_after = AGAIN_AFTER;
                let body = SecretAnswer { node, module, name, revision, sealed, again_after };
                self.counters.given += 1;
                self.respond(answer, &body, now);
            }
            (Asked::Consumers(ConsumersRequest { node, module, provision }), Outcome::Copies(sealed)) => {
                let place = Place::of_list(&node, &module, &provision);
                let left_out =
                    self.holdings.lists.get(&place).map(|list| list.left_out.clone()).unwrap_or_default();
                let again_after = AGAIN_AFTER;
                let body =
                    ConsumersAnswer { node, module, provision, revision, sealed, left_out, again_after };
                self.counters.given += 1;
                self.respond(answer, &body, now);
            }
            (_, _) => self.reject(answer, &Refusal::new(Reason::Store, "the store gave something else"), now),
        }
    }

    /// A task failed.
    pub(super) fn not_done(
        &mut self,
        answer: Option<Waiting>,
        sequence: Option<u64>,
        failure: &Failure,
        now: Duration,
    ) {
        let (reason, message) = match failure {
            Failure::Store(_) | Failure::Absent => {
                self.store_failed(failure, now);
                (Reason::Store, "the vault's store cannot be used: look at its log".to_owned())
            }
            Failure::Seal(why) => {
                self.store_failed(failure, now);
                (Reason::Store, format!("the secret cannot be sealed: {why}"))
            }
            Failure::Value(why) => (Reason::BadRequest, why.clone()),
            Failure::UsedId => {
                (Reason::UsedId, "the id of the request was used before: sign a new one".to_owned())
            }
        };
        if let Some(answer) = answer {
            self.reject(answer, &Refusal { reason, message, sequence }, now);
        }
    }

    pub(super) fn store_failed(&mut self, failure: &Failure, now: Duration) {
        self.counters.store_failures += 1;
        let why = match failure {
            Failure::Store(why) | Failure::Seal(why) | Failure::Value(why) => why.as_str(),
            Failure::Absent => "a copy is missing",
            Failure::UsedId => "an id was used before",
        };
        let text = format!("the store: {why}: look at the space and the mount of its folder");
        self.notice(Level::Error, Topic::Store, why, &text, now);
    }

    pub(super) fn respond<T: serde::Serialize>(&mut self, to: Waiting, answer: &T, now: Duration) {
        let body: Body = json(answer).into_bytes().into();
        if let LinkState::Up { max_payload, .. } = self.link
            && body.len() > max_payload
        {
            let message = format!(
                "the response has {} bytes, more than the server's max_payload of {max_payload}: raise max_payload of the nats-server",
                body.len()
            );
            return self.reject(to, &Refusal::new(Reason::TooLarge, message), now);
        }
        self.counters.answers += 1;
        if let Some(work) = self.work.get_mut(&to.verb) {
            work.time += now.saturating_sub(to.since);
        }
        self.send(to.reply, Headers::new(), body);
    }

    pub(super) fn reject(&mut self, to: Waiting, refusal: &Refusal, now: Duration) {
        let code = refusal.reason.code();
        let line = errors::one_line(&refusal.message);
        self.counters.refusals += 1;
        if code >= 500 {
            self.notice(Level::Warn, Topic::ErrorResponse, &line, &format!("answered {code}: {line}"), now);
        }
        if let Some(work) = self.work.get_mut(&to.verb) {
            work.errors += 1;
            work.time += now.saturating_sub(to.since);
            work.last_error = format!("{code}: {line}");
        }
        let body = refusal.body().into_bytes().into();
        self.send(to.reply, errors::headers(code, &line), body);
    }

    fn send(&mut self, subject: String, headers: Headers, body: Body) {
        self.actions.push(mesh_runtime::Action::Send(Outgoing { subject, reply: None, headers, body }));
    }
}

fn read<T: Read>(body: &[u8]) -> Result<T, String> {
    T::from_json_bytes(body).map_err(|problem| {
        // It quotes what a client sent.
        let text = problem.to_string();
        match text.char_indices().nth(512) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    })
}
