//! The seat: a pure machine. [`Seat::handle`] takes what happened and returns what is to be done;
//! [`Seat::next_deadline`] says when it wants to be woken if nothing happens.
//!
//! Nothing under `src/seat/` knows a clock, a thread, a random number, the environment or the bus library: time and
//! jitter come in, so that a whole life of the seat can be played through in a test.

mod action;
mod batches;
mod calls;
mod event;
mod failure;
mod health;
mod listing;
mod notice;
mod pass;
mod plan;
mod presence;
mod question;
mod reply;
mod requests;
mod scan;
mod values;

pub use action::Action;
pub use event::Event;
pub use failure::{Cause, Refusal};
pub use health::{Counters, Health, PassHealth, RegistryHealth};
pub use plan::{Change, Plan, Planning, show, unnameable};
pub use question::Slot;
pub use reply::{check_prefix, may_answer};

use crate::bucket::Bucket;
use crate::wire::answer::{self, Identity, json};
use crate::wire::direct::Part;
use crate::wire::request::{Ask, What};
use crate::wire::service::{self, Monitor, Work};
use crate::wire::{Body, Headers, INBOX, Outgoing, VERB};
use batches::Batches;
use calls::{Call, Calls, Owner};
use log::Level;
use notice::Notices;
use pass::Pass;
use presence::Presence;
use question::{Frame, Kind, Want};
use requests::{Answered, Asker, Requests};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::time::Duration;

/// The largest answer, in bytes, whatever the bus would carry.
const PAGE_BYTES: usize = 512 * 1024;

/// What an answer leaves free of the bus's largest message, in bytes, for headers and the subject.
const PAYLOAD_MARGIN: usize = 8 * 1024;

/// The wait after the first failed attempt to connect, and the longest.
const FIRST_RECONNECT: Duration = Duration::from_millis(250);
const LAST_RECONNECT: Duration = Duration::from_secs(4);

/// A connection that ends sooner counts as a failed attempt: what ends it may end the next one too.
const LASTING: Duration = LAST_RECONNECT;

/// How long a server that is about to shut down is left to find out that another one does not take us yet.
const MOVE_AGAIN: Duration = Duration::from_secs(2);

/// How long after a denied subscription to try again.
const TRY_RIGHTS_AGAIN: Duration = Duration::from_secs(60);

/// How long a seat that ends answers what is under way.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a seat is told at its start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who it is.
    pub identity: Identity,
    /// When it started, as RFC 3339.
    pub started: String,
    /// How often the registry is written anew.
    pub every: Duration,
    /// First tokens of reply subjects that may be answered beside the usual ones.
    pub reply_prefixes: Vec<String>,
    /// Whether buckets are read in batches where the bus allows it.
    pub bulk_reads: bool,
    /// Where jitter comes from: any number, another one for each seat.
    pub jitter_seed: u64,
}

/// The connection, as far as the seat knows of it.
#[derive(Debug)]
enum Link {
    /// There is none; the next attempt is due then.
    Down { retry: Duration, attempts: u32, why: String },
    /// An attempt is under way.
    Connecting { attempts: u32, why: String },
    /// There is one, for which so many attempts failed.
    Up { server: String, max_payload: usize, move_at: Option<Duration>, since: Duration, attempts: u32 },
}

/// The provisioner's seat.
#[derive(Debug)]
pub struct Seat {
    settings: Settings,
    link: Link,
    denied_subscriptions: BTreeSet<String>,
    calls: Calls,
    batches: Batches,
    requests: Requests,
    pass: Pass,
    presence: Presence,
    stopping: Option<Duration>,
    notices: Notices,
    counters: Counters,
    work: Work,
    last_bus_error: Option<String>,
    jitter: u64,
    /// Whose turn it is to send first among the questions under way.
    turn: usize,
    /// What to add to the time since the start for the time since 1970.
    clock: Duration,
    actions: Vec<Action>,
}

impl Seat {
    /// A seat without a connection, which wants one at once.
    pub fn new(settings: Settings) -> Self {
        Seat {
            link: Link::Down {
                retry: Duration::ZERO,
                attempts: 0,
                why: "it has not been tried yet".to_owned(),
            },
            denied_subscriptions: BTreeSet::new(),
            calls: Calls::default(),
            batches: Batches::new(settings.bulk_reads),
            requests: Requests::default(),
            pass: Pass::new(settings.every),
            presence: Presence::default(),
            stopping: None,
            notices: Notices::default(),
            counters: Counters::default(),
            work: Work::default(),
            last_bus_error: None,
            jitter: settings.jitter_seed,
            turn: 0,
            clock: Duration::ZERO,
            actions: Vec::new(),
            settings,
        }
    }

    /// Takes what happened, `now` (time since the start), and returns what is to be done, in order.
    #[must_use]
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Action> {
        match event {
            Event::Up { server, max_payload } => self.up(server, max_payload, now),
            Event::Down { why } => self.down(why, now),
            Event::Protest(words) => self.protest(&words, now),
            Event::MaxPayload(bytes) => {
                if let Link::Up { max_payload, .. } = &mut self.link {
                    *max_payload = bytes;
                }
            }
            Event::LameDuck => self.lame_duck(now),
            Event::Request { subject, reply, body } => self.request(&subject, reply, &body, now),
            Event::Answer { call, no_responders, body } => {
                let body = if no_responders { Err(Cause::NoResponders) } else { Ok(body.as_slice()) };
                self.answer(call, body, now);
            }
            Event::Part { call, part } => self.part(call, part, now),
            Event::Overrun(count) => {
                self.counters.overrun += count;
                self.notice(
                    Level::Warn,
                    "overrun",
                    "requests come faster than they can be taken: some are lost",
                    now,
                );
            }
            Event::Undelivered(count) => {
                self.counters.undelivered += count;
                self.notice(
                    Level::Warn,
                    "undelivered",
                    "the connection takes nothing: answers are lost",
                    now,
                );
            }
            Event::Reload => {
                self.say(Level::Info, "registry pass asked for");
                self.begin_duties(now);
            }
            Event::Stop => self.stop(now),
            Event::Clock(since_1970) => self.clock = since_1970.saturating_sub(now),
            Event::Due => {}
        }
        self.go_on(now);
        std::mem::take(&mut self.actions)
    }

    /// When the seat wants to be woken with [`Event::Due`] if nothing happens before: to try to connect, to begin
    /// a pass, to give up on an answer or a request, to ask who else is there, or to end.
    pub fn next_deadline(&self) -> Option<Duration> {
        let (retry, move_at) = match &self.link {
            Link::Down { retry, .. } => (Some(*retry), None),
            Link::Connecting { .. } => (None, None),
            Link::Up { move_at, .. } => (None, *move_at),
        };
        let requests = self.requests.due();
        [retry, move_at, requests, self.calls.due(), self.pass.due(), self.presence.due(), self.stopping]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the seat serves: connected, with its subscriptions.
    pub fn is_serving(&self) -> bool {
        self.is_up() && self.denied_subscriptions.is_empty() && self.stopping.is_none()
    }

    const fn is_up(&self) -> bool {
        matches!(self.link, Link::Up { .. })
    }

    fn say(&mut self, level: Level, text: impl Into<String>) {
        self.actions.push(Action::Say(level, text.into()));
    }

    fn notice(&mut self, level: Level, kind: &str, text: &str, now: Duration) {
        self.actions.extend(self.notices.say(level, kind, text, now));
    }

    /// A number from 0 up to 1, another one each time (splitmix64).
    fn jitter(&mut self) -> f64 {
        self.jitter = self.jitter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.jitter;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bits = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    fn up(&mut self, server: String, max_payload: usize, now: Duration) {
        self.counters.connections += 1;
        let line = format!("connected to {server}");
        let attempts = match self.link {
            Link::Connecting { attempts, .. } | Link::Down { attempts, .. } => attempts,
            Link::Up { .. } => 0,
        };
        match attempts {
            0 => self.say(Level::Info, line),
            _ => self.notice(Level::Info, &line, &line, now),
        }
        self.link = Link::Up { server, max_payload, move_at: None, since: now, attempts };
        self.denied_subscriptions.clear();
        self.abandon_calls();
        if self.stopping.is_some() {
            self.actions.push(Action::StopListening);
        }
        self.begin_duties(now);
    }

    /// What the seat does of itself begins at once, if there is a connection and the seat is not about to end.
    fn begin_duties(&mut self, now: Duration) {
        if self.is_up() && self.stopping.is_none() {
            self.pass.request(now);
            self.presence.request(now);
        }
    }

    fn down(&mut self, why: String, now: Duration) {
        let attempts = match &self.link {
            Link::Up { since, attempts, .. } => {
                let attempts = if now < *since + LASTING { attempts + 1 } else { 0 };
                let line = format!("disconnected: {why}");
                match attempts {
                    0 => self.say(Level::Warn, line),
                    _ => self.notice(Level::Warn, &line, &line, now),
                }
                attempts
            }
            Link::Connecting { attempts, .. } | Link::Down { attempts, .. } => {
                let attempts = attempts + 1;
                self.notice(
                    Level::Warn,
                    &format!("connect {why}"),
                    &format!("cannot connect, trying again: {why}"),
                    now,
                );
                attempts
            }
        };
        let wait = FIRST_RECONNECT.saturating_mul(1 << attempts.min(8)).min(LAST_RECONNECT);
        let wait = wait.mul_f64(1.0 - self.jitter() / 2.0);
        self.link = Link::Down { retry: now + wait, attempts, why };
        for bucket in self.calls.batched().collect::<Vec<_>>() {
            self.batches.broke(bucket, now);
        }
        self.abandon_calls();
    }

    /// Answers to what was sent over the connection before will not come over the one after.
    fn abandon_calls(&mut self) {
        self.calls.clear();
        self.requests.begin_anew();
        self.pass.interrupt();
        self.presence.interrupt();
    }

    fn protest(&mut self, words: &str, now: Duration) {
        self.last_bus_error = Some(words.to_owned());
        self.notice(Level::Warn, words, &format!("the bus says {words:?}"), now);
        let subject = words.split('"').nth(1).unwrap_or_default();
        let lower = words.to_ascii_lowercase();
        if lower.starts_with("permissions violation for subscription") {
            self.denied_subscriptions.insert(subject.to_owned());
            // A right that is granted later takes effect on the next connection only.
            if let Link::Up { move_at, .. } = &mut self.link {
                move_at.get_or_insert(now + TRY_RIGHTS_AGAIN);
            }
        } else if lower.starts_with("permissions violation for publish") {
            for call in self.calls.denied(subject) {
                self.fail(&call, Cause::Denied(words.to_owned()), now);
            }
        }
    }

    fn lame_duck(&mut self, now: Duration) {
        if let Link::Up { server, move_at, .. } = &mut self.link {
            *move_at = Some(now);
            let line = format!("{server} is about to shut down: moving to another server");
            self.say(Level::Info, line);
        }
    }

    fn stop(&mut self, now: Duration) {
        if self.stopping.is_some() {
            return;
        }
        self.say(Level::Info, format!("stopping: {} requests under way", self.requests.len()));
        self.stopping = Some(now + FAREWELL);
        self.pass.interrupt();
        self.calls.forget(Owner::Pass);
        self.presence.interrupt();
        self.calls.forget(Owner::Presence);
        self.actions.push(Action::StopListening);
    }

    fn request(&mut self, subject: &str, reply: Option<String>, body: &[u8], now: Duration) {
        let is_verb = subject == VERB;
        if is_verb {
            self.counters.requests += 1;
            self.work.requests += 1;
        }
        let Some(reply) = reply else {
            self.counters.without_reply += 1;
            let text = "a request came without a reply subject: it cannot be answered";
            return self.notice(Level::Warn, "without reply", text, now);
        };
        if let Some(other) = asking_seat(subject, body) {
            if other.id != self.settings.identity.id && self.is_up() && self.stopping.is_none() {
                self.presence.note_question(other, now);
            }
            return;
        }
        if !reply::may_answer(&reply, &self.settings.reply_prefixes) {
            self.counters.refused_replies += 1;
            let text = format!(
                "a request came with the reply subject {reply:?}, which is not answered: askers use an inbox under _INBOX or _R_, or one that --reply-prefix names"
            );
            return self.notice(Level::Warn, "refused reply", &text, now);
        }
        if is_verb {
            match Ask::parse(body) {
                Ok(ask) => self.take(ask, reply, now),
                Err(bad) => self.refuse(reply, now, now, Refusal { code: bad.code, message: bad.message }),
            }
        } else if let Some(monitor) = Monitor::of(subject, &self.settings.identity.id) {
            let seat = &self.settings.identity;
            let body = match monitor {
                Monitor::Ping => service::ping(seat),
                Monitor::Info => service::info(seat),
                Monitor::Stats => {
                    service::stats(seat, &self.settings.started, &self.work, &self.counters_json())
                }
            };
            self.send(reply, Headers::new(), body.into_bytes().into());
        }
    }

    fn counters_json(&self) -> Box<RawValue> {
        RawValue::from_string(json(&self.counters)).expect("counters are numbers")
    }

    fn take(&mut self, ask: Ask, reply: String, now: Duration) {
        if ask.what == What::Health {
            let health = self.health(now);
            let body = answer::health_json(health.ready, &json(&health), &self.settings.identity);
            return self.reply(reply, now, now, body.into_bytes().into());
        }
        let refused = if self.stopping.is_some() {
            Err(Refusal::unavailable("the seat is stopping: ask again in a moment"))
        } else {
            self.requests.take(ask, Asker { reply: reply.clone(), since: now })
        };
        if let Err(refusal) = refused {
            self.refuse(reply, now, now, refusal);
        }
    }

    fn reply(&mut self, to: String, since: Duration, now: Duration, body: Body) {
        if let Link::Up { max_payload, .. } = self.link
            && body.len() > max_payload
        {
            let message = format!(
                "the answer has {} bytes and the bus carries {max_payload}: ask for less, or raise max_payload of the nats-server",
                body.len()
            );
            return self.refuse(to, since, now, Refusal::unavailable(message));
        }
        self.counters.answers += 1;
        self.work.time += now.saturating_sub(since);
        self.send(to, Vec::new(), body);
    }

    fn refuse(&mut self, to: String, since: Duration, now: Duration, refusal: Refusal) {
        let Refusal { code, message } = refusal;
        let message = failure::shorten(message);
        match code {
            503 => self.counters.unavailable += 1,
            504 => self.counters.too_late += 1,
            _ => self.counters.bad_requests += 1,
        }
        let line = answer::one_line(&message);
        if code >= 500 {
            self.notice(Level::Warn, &line, &format!("answered {code}: {line}"), now);
        }
        self.work.errors += 1;
        self.work.time += now.saturating_sub(since);
        let body = answer::error_json(code, &message);
        self.work.last_error = format!("{code}: {line}");
        self.send(to, answer::error_headers(code, &message), body.into_bytes().into());
    }

    fn send(&mut self, subject: String, headers: Headers, body: Body) {
        let message = Outgoing { subject, reply: None, headers, body };
        self.actions.push(Action::Send(message));
    }

    fn answer(&mut self, number: u64, body: Result<&[u8], Cause>, now: Duration) {
        let Some((owner, slot, kind)) = self.calls.settle(number) else { return };
        if let (Kind::Value { bucket, .. }, Ok(body)) = (kind, &body) {
            self.calls.note_value_bytes(bucket, body.len());
        }
        match (kind, body) {
            // The whole of a batch in one message that is none of its parts: nobody answers on its subject.
            (Kind::Batch(bucket), _) => self.give_up_batch(bucket, owner, slot, "nobody answers it", now),
            (_, body) => self.deliver(owner, slot, body, now),
        }
    }

    fn part(&mut self, number: u64, part: Part, now: Duration) {
        let is_last = !matches!(part, Part::Message { .. });
        let call = if is_last { self.calls.settle(number) } else { self.calls.part(number, now) };
        let Some((Owner::Request(id), slot, Kind::Batch(bucket))) = call else { return };
        let Some(question) = self.requests.question(id) else { return };
        if let Err(why) = question.heard_part(slot, part) {
            self.calls.settle(number);
            self.say_batch_given_up(bucket, &why, now);
        }
    }

    /// A request of ours comes to nothing.
    fn fail(&mut self, call: &Call, cause: Cause, now: Duration) {
        match (call.kind, &cause) {
            (Kind::Batch(bucket), Cause::Denied(words)) => {
                self.give_up_batch(bucket, call.owner, call.slot, words, now);
            }
            (Kind::Batch(bucket), _) => {
                self.give_up_batch(bucket, call.owner, call.slot, "no answer came in time", now);
            }
            _ => self.deliver(call.owner, call.slot, Err(cause), now),
        }
    }

    fn give_up_batch(&mut self, bucket: Bucket, owner: Owner, slot: Slot, why: &str, now: Duration) {
        self.say_batch_given_up(bucket, why, now);
        self.deliver(owner, slot, Err(Cause::Silent), now);
    }

    fn say_batch_given_up(&mut self, bucket: Bucket, why: &str, now: Duration) {
        self.batches.refused(bucket, now);
        let text =
            format!("bucket {bucket} is read one by one for a while, since a batch was of no use: {why}");
        self.notice(Level::Info, &format!("batch {bucket}"), &text, now);
    }

    fn deliver(&mut self, owner: Owner, slot: Slot, body: Result<&[u8], Cause>, now: Duration) {
        match owner {
            Owner::Request(id) => {
                if let Some(question) = self.requests.question(id) {
                    question.heard(slot, body);
                }
            }
            Owner::Pass => {
                let jitter = self.jitter();
                self.pass.heard(slot, body, now, jitter);
            }
            Owner::Presence => {
                let other = body.ok().and_then(service::parse_ping);
                if let Some(other) = other.filter(|other| other.id != self.settings.identity.id) {
                    self.presence.note(other);
                }
            }
        }
    }

    /// Does what became due, gives the answers that are there, and sends what is wanted next.
    fn go_on(&mut self, now: Duration) {
        self.try_to_connect(now);
        for call in self.calls.overdue(now) {
            self.fail(&call, Cause::Silent, now);
        }
        if self.pass.due().is_some_and(|due| now >= due) && self.is_up() && self.stopping.is_none() {
            self.pass.begin();
        }
        self.look_for_others(now);
        self.answer_requests(now);
        self.send_wanted(now);
        for (level, line) in self.pass.lines() {
            self.notice(level, &line.clone(), &line, now);
        }
        self.end_if_done(now);
    }

    fn try_to_connect(&mut self, now: Duration) {
        match &mut self.link {
            Link::Down { retry, attempts, why } if now >= *retry => {
                let (attempts, why) = (*attempts, std::mem::take(why));
                self.link = Link::Connecting { attempts, why };
                self.actions.push(Action::Connect);
            }
            Link::Up { move_at: Some(at), .. } if now >= *at => {
                *at = now + MOVE_AGAIN;
                self.actions.push(Action::Connect);
            }
            _ => {}
        }
    }

    fn look_for_others(&mut self, now: Duration) {
        if self.presence.begin(now, self.settings.every) {
            self.calls.forget(Owner::Presence);
            let request = crate::wire::jetstream::Request {
                subject: service::ping_subject(),
                headers: Vec::new(),
                body: service::ping(&self.settings.identity).into_bytes(),
            };
            self.call(Owner::Presence, Want { slot: Slot::Value(0), request, kind: Kind::Single }, now);
        }
        if let Some(others) = self.presence.end(now) {
            self.calls.forget(Owner::Presence);
            for line in presence::tell(&others, &self.settings.identity.version) {
                self.notice(Level::Warn, "another seat", &line, now);
            }
        }
    }

    fn answer_requests(&mut self, now: Duration) {
        while let Some(Answered { id, askers, outcome }) = self.requests.answered() {
            self.calls.forget(Owner::Request(id));
            let outcome = outcome.map(|body| Body::from(body.into_bytes()));
            for asker in askers {
                self.settle(asker, outcome.clone(), now);
            }
        }
        while let Some((id, asker, refusal)) = self.requests.overdue(now) {
            if let Some(id) = id {
                self.calls.forget(Owner::Request(id));
            }
            self.settle(asker, Err(refusal), now);
        }
    }

    fn settle(&mut self, asker: Asker, outcome: Result<Body, Refusal>, now: Duration) {
        match outcome {
            Ok(body) => self.reply(asker.reply, asker.since, now, body),
            Err(refusal) => self.refuse(asker.reply, asker.since, now, refusal),
        }
    }

    /// Sends what the pass and the questions want, as far as the bounds allow. Each question has its share of the
    /// outstanding requests, so that a large one does not hold up a small one.
    fn send_wanted(&mut self, now: Duration) {
        let Link::Up { max_payload, .. } = self.link else { return };
        let page_bytes = PAGE_BYTES.min(max_payload.saturating_sub(PAYLOAD_MARGIN).max(max_payload / 2));
        self.requests.begin(&Frame {
            page_bytes,
            seat: self.settings.identity.clone(),
            batches: self.batches.allowed(now),
            value_bytes: self.calls.value_bytes().clone(),
            clock: self.clock + now,
        });
        while self.calls.room() > 0
            && let Some(want) = self.pass.want(self.calls.allowance(0))
        {
            self.call(Owner::Pass, want, now);
        }
        let mut ids = self.requests.ids();
        // Where there is not room for all, another one is first each time.
        self.turn = self.turn.wrapping_add(1);
        if !ids.is_empty() {
            let first = self.turn % ids.len();
            ids.rotate_left(first);
        }
        let share = calls::MAX_OUTSTANDING / ids.len().max(1);
        for id in ids {
            let owner = Owner::Request(id);
            while self.calls.room() > 0 && self.calls.outstanding(owner) < share {
                let allowance = self.calls.allowance(self.requests.long_lists());
                let want = self.requests.question(id).and_then(|question| question.want(allowance));
                let Some(want) = want else { break };
                self.call(owner, want, now);
            }
        }
    }

    fn call(&mut self, owner: Owner, want: Want, now: Duration) {
        let Want { slot, request, kind } = want;
        let call = Call { owner, slot, subject: request.subject.clone(), kind, since: now };
        let number = self.calls.add(call);
        self.actions.push(Action::Send(Outgoing {
            subject: request.subject,
            reply: Some(format!("{}.{number}", self.inbox())),
            headers: request.headers,
            body: request.body.into(),
        }));
    }

    /// What the subjects of all answers to this seat start with.
    pub fn inbox(&self) -> String {
        inbox(&self.settings.identity.id)
    }

    fn end_if_done(&mut self, now: Duration) {
        let Some(end) = self.stopping else { return };
        if self.requests.len() > 0 && now < end && self.is_up() {
            return;
        }
        for asker in self.requests.take_all() {
            self.settle(asker, Err(Refusal::unavailable("the seat is stopping: ask again in a moment")), now);
        }
        self.actions.push(Action::Exit);
    }
}

/// The inbox of the seat `id`.
pub fn inbox(id: &str) -> String {
    format!("{INBOX}.{id}")
}

/// Who sent this, if it is the question of a seat who else is there: its body says who asks. Its answers go to
/// a seat's private inbox, which no other seat may write to, so seats know each other by their questions.
fn asking_seat(subject: &str, body: &[u8]) -> Option<Identity> {
    if subject == service::ping_subject() && !body.is_empty() { service::parse_ping(body) } else { None }
}
