//! The seat: a pure machine. [`Seat::handle`] takes an event and returns actions; [`Seat::next_deadline`] returns
//! when to wake it if nothing happens.
//!
//! Nothing under `src/seat/` knows a clock, a thread, a random number, the environment or the client library. Time
//! and jitter are inputs, so that a test can run a whole life of the seat.

mod action;
mod bulk_pauses;
mod call;
mod check_schedule;
mod connection;
mod dispatch;
mod event;
mod health;
mod health_report;
mod in_flight;
pub mod limits;
mod link_state;
mod long_reads;
mod peers;
mod queries;
mod query;
mod read;
mod registry;
mod respond;
mod stream_checks;
mod topic;

pub use action::Action;
pub use call::Tag;
pub use event::Event;
pub use health_report::{Counters, Health, PassHealth, RegistryHealth};
pub use peers::OtherSeat;
pub use registry::plan::{Change, Plan, Planning, show, unnameable};

use bulk_pauses::BulkPauses;
use check_schedule::StreamChecks;
use in_flight::{InFlight, Owner};
use limits::FAREWELL;
use link_state::LinkState;
use log::Level;
use long_reads::LongReads;
use mesh_model::provisioner::{INBOX, VERB};
use mesh_provisioner_api::PROVISIONING;
use mesh_provisioner_api::failure::{Cause, Refusal};
use mesh_service::identity::Identity;
use mesh_service::log_limit::LogLimiter;
use mesh_service::services::Work;
use peers::OtherSeats;
use queries::Queries;
use registry::pass::{Line, Pass};
use std::collections::BTreeSet;
use std::time::Duration;
use topic::Topic;

/// The settings of a seat.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who it is.
    pub identity: Identity,
    /// When it started, as RFC 3339.
    pub started: String,
    /// The interval of registry passes.
    pub every: Duration,
    /// How often the streams of the buckets are looked at. A change of the registry is noticed within that time.
    pub check_every: Duration,
    /// Additional prefixes of reply subjects that may get responses.
    pub reply_prefixes: Vec<String>,
    /// Up to this many keys are read one by one, because that takes hardly longer than in bulk. With [`usize::MAX`]
    /// nothing is read in bulk.
    pub max_keys_one_by_one: usize,
    /// The last token of its inbox. Nobody else knows it, so nobody else can make the server send something there.
    pub inbox: String,
    /// The seed of the jitter, different for each seat.
    pub jitter_seed: u64,
}

/// The provisioner's seat.
#[derive(Debug)]
pub struct Seat {
    settings: Settings,
    link: LinkState,
    denied_subscriptions: BTreeSet<String>,
    /// How many subscriptions the server refused because of the account's limit.
    subscriptions_over_limit: usize,
    /// Whether JetStream was asked in vain on a connection of which the server then read nothing more, and has replied to
    /// no call of the seat's own since.
    is_jetstream_stuck: bool,
    in_flight: InFlight,
    bulk_pauses: BulkPauses,
    long_reads: LongReads,
    queries: Queries,
    pass: Pass,
    checks: StreamChecks,
    other_seats: OtherSeats,
    stopping: Option<Duration>,
    log_limiter: LogLimiter<Topic>,
    counters: Counters,
    work: Work,
    last_bus_error: Option<String>,
    jitter: u64,
    /// Round-robin position: which query may send calls first.
    turn: usize,
    /// The start, as time since 1970.
    clock: Duration,
    actions: Vec<Action>,
}

impl Seat {
    /// A seat without a connection. It requests one at once.
    pub fn new(settings: Settings) -> Self {
        Seat {
            link: LinkState::Down {
                retry: Duration::ZERO,
                attempts: 0,
                why: "no attempt was made yet".to_owned(),
            },
            denied_subscriptions: BTreeSet::new(),
            is_jetstream_stuck: false,
            subscriptions_over_limit: 0,
            in_flight: InFlight::default(),
            bulk_pauses: BulkPauses::default(),
            long_reads: LongReads::default(),
            queries: Queries::default(),
            pass: Pass::new(settings.every),
            checks: StreamChecks::new(settings.check_every),
            other_seats: OtherSeats::default(),
            stopping: None,
            log_limiter: LogLimiter::default(),
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

    /// Handles an event at `now` (time since the start) and returns the actions, in order.
    #[must_use]
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Action> {
        match event {
            Event::Up { server, max_payload } => self.up(server, max_payload, now),
            Event::Down { why } => self.down(why, now),
            Event::ServerError(words) => self.on_server_error(&words, now),
            Event::MaxPayload(bytes) => {
                if let LinkState::Up { max_payload, .. } = &mut self.link {
                    *max_payload = bytes;
                }
            }
            Event::LameDuck => self.lame_duck(now),
            Event::Request { subject, reply, body } => self.on_request(&subject, reply, &body, now),
            Event::Reply { call, no_responders, body } => {
                let body = if no_responders { Err(Cause::NoResponders) } else { Ok(body.as_slice()) };
                self.on_reply(call, body, now);
            }
            Event::Part { call, part } => self.on_part(call, part, now),
            Event::Overrun(count) => {
                self.counters.overrun += count;
                self.notice(Level::Warn, Topic::Overrun, "", "request queue full: dropping requests", now);
            }
            Event::Undelivered(count) => {
                self.counters.undelivered += count;
                self.notice(
                    Level::Warn,
                    Topic::Undelivered,
                    "",
                    "outgoing queue full: dropping responses",
                    now,
                );
            }
            Event::Reload => {
                self.say(Level::Info, "registry pass requested");
                self.begin_duties(now);
            }
            Event::Stop => self.stop(now),
            Event::Clock(since_1970) => self.clock = since_1970.saturating_sub(now),
            Event::Due => {}
        }
        self.poll(now);
        if cfg!(debug_assertions) {
            self.assert_invariants();
        }
        std::mem::take(&mut self.actions)
    }

    /// What holds after every event, whatever it was. Tests and the simulation check it at every step.
    fn assert_invariants(&self) {
        self.in_flight.assert_invariants();
        self.queries.assert_invariants();
        for (number, owner) in self.in_flight.owners() {
            let is_owned = match owner {
                Owner::Request(id) => self.queries.is_under_way(id),
                // A pass that failed leaves the rest of its calls in flight.
                Owner::Pass | Owner::Checks => self.stopping.is_none(),
                Owner::OtherSeats => self.other_seats.is_asking(),
                Owner::Echo => true,
            };
            assert!(is_owned, "call {number} of {owner:?} has no owner");
        }
        if !self.is_up() {
            assert!(self.in_flight.is_empty(), "a call is in flight without a connection");
        }
    }

    /// When to wake the seat with [`Event::Due`] if nothing happens before: to connect, to start a pass, to give up
    /// on a call or a request, to look for other seats, or to exit.
    pub fn next_deadline(&self) -> Option<Duration> {
        let (retry, move_at) = match &self.link {
            LinkState::Down { retry, .. } => (Some(*retry), None),
            LinkState::Connecting { .. } => (None, None),
            LinkState::Up { move_at, .. } => (None, *move_at),
        };
        let busy = self.queries.is_busy().then_some(Duration::ZERO);
        [
            busy,
            retry,
            move_at,
            self.queries.due(),
            self.queries.idle_until(),
            self.in_flight.due(),
            self.pass.due(),
            self.checks.due(),
            self.other_seats.due(),
            self.stopping,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether the seat serves: it is connected and has its subscriptions.
    pub fn is_serving(&self) -> bool {
        self.is_up()
            && self.denied_subscriptions.is_empty()
            && self.subscriptions_over_limit == 0
            && self.stopping.is_none()
    }

    const fn is_up(&self) -> bool {
        matches!(self.link, LinkState::Up { .. })
    }

    fn say(&mut self, level: Level, text: impl Into<String>) {
        self.actions.push(Action::Say(level, text.into()));
    }

    fn notice(&mut self, level: Level, topic: Topic, key: &str, text: &str, now: Duration) {
        let line = self.log_limiter.line(topic, key, text, now);
        self.actions.extend(line.map(|line| Action::Say(level, line)));
    }

    /// A pseudo-random number from 0 to 1 (splitmix64).
    fn jitter(&mut self) -> f64 {
        self.jitter = self.jitter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.jitter;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bits = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    fn stop(&mut self, now: Duration) {
        if self.stopping.is_some() {
            return;
        }
        self.say(Level::Info, format!("stopping: {} requests under way", self.queries.len()));
        self.stopping = Some(now + FAREWELL);
        self.pass.interrupt();
        self.in_flight.forget(Owner::Pass);
        self.checks.interrupt();
        self.in_flight.forget(Owner::Checks);
        self.other_seats.interrupt();
        self.in_flight.forget(Owner::OtherSeats);
        self.in_flight.forget(Owner::Echo);
        self.actions.push(Action::StopListening);
    }

    /// Does what is due, sends finished responses, and sends the next calls.
    fn poll(&mut self, now: Duration) {
        let silent = self.in_flight.overdue(now);
        for call in &silent {
            self.fail(call, Cause::Silent, now);
        }
        self.look_into_silence(&silent, now);
        self.try_to_connect(now);
        if self.pass.due().is_some_and(|due| now >= due) && self.is_up() && self.stopping.is_none() {
            let jitter = self.jitter();
            self.pass.begin(now, jitter);
        }
        self.look_for_others(now);
        self.check_streams(now);
        self.queries.poll(self.turn);
        self.send_responses(now);
        for (bucket, why) in self.queries.take_uncacheable() {
            self.not_in_bulk(bucket, why, now);
        }
        self.queries.forget_if_idle(now);
        self.send_calls(now);
        for line in self.pass.lines() {
            match line {
                // Each reports a write and is the only trace of the old value.
                Line::Change(level, text) => self.say(level, text),
                Line::Outcome(level, text) => self.notice(level, Topic::Registry, &text, &text, now),
            }
        }
        self.end_if_done(now);
    }

    /// The subjects that a connection subscribes to, in this order: its inbox, the verb, the services API.
    pub fn subscriptions(&self) -> Vec<String> {
        let answers = format!("{}.*", self.inbox());
        let monitoring = PROVISIONING.monitored(&self.settings.identity.id);
        [answers, VERB.to_owned()].into_iter().chain(monitoring).collect()
    }

    /// The prefix of the reply subjects of all calls.
    pub fn inbox(&self) -> String {
        format!("{INBOX}.{}", self.settings.inbox)
    }

    fn end_if_done(&mut self, now: Duration) {
        let Some(end) = self.stopping else { return };
        if self.queries.len() > 0 && now < end && self.is_up() {
            return;
        }
        for client in self.queries.take_all() {
            self.settle(client, Err(Refusal::stopping()), now);
        }
        self.actions.push(Action::Exit);
    }
}
