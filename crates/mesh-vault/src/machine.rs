//! The vault's machine: pure. [`Vault::handle`] takes an event and returns actions; [`Vault::next_deadline`] says when
//! to wake it if nothing happens. It knows no clock, no chance, no file and no plaintext.

mod answer;
mod judge;
mod known;
mod link;
mod lists;
mod others;
mod publish;
mod signed;
mod status;
mod topic;

pub use known::{Change, Declared, Known, MOST_UNDECLARED, Needs, Published};
pub use status::{Counters, Reading, Status};

use crate::holdings::{Holdings, List};
use crate::place::Place;
use crate::task::{Done, Outcome, Task, Work};
use crate::wire::{Bucket, INBOX, VAULT, Verb};
use answer::{Parked, Waiting};
use link::LinkState;
use log::Level;
use mesh_jetstream::message::Outgoing;
use mesh_model::keys::{MeshKey, SealingKey};
use mesh_model::rights::QUEUE;
use mesh_model::standing::Revision;
use mesh_runtime::{Action, Event, Subscription};
use mesh_service::follow::{Follow, Step};
use mesh_service::identity::Identity;
use mesh_service::inboxes::Inboxes;
use mesh_service::log_limit::LogLimiter;
use mesh_service::services::Work as Worked;
use others::Duty;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use topic::Topic;

/// How long a call to the bus waits for its answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long after a failure the store is tried again for what nobody asked for.
const STORE_AGAIN: Duration = Duration::from_secs(5);

/// How many requests of a verb may wait for the loop.
const MAX_UNTAKEN_REQUESTS: usize = 2048;

/// How many monitoring requests may wait for the loop, on each subject.
const MAX_UNTAKEN_MONITORING: usize = 64;

/// The settings of a vault.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who it is.
    pub identity: Identity,
    /// When it started, as RFC 3339.
    pub started: String,
    /// The last token of its inbox, which nobody else knows.
    pub inbox: String,
    /// What the names of its consumers on the bus begin with: hard to guess.
    pub names: String,
    /// The seed of the jitter, different for each vault.
    pub jitter_seed: u64,
    /// The key whose signatures count.
    pub mesh: MeshKey,
    /// The vault's own public key.
    pub own: SealingKey,
    /// The recovery key for nodes whose record names none.
    pub recovery: Option<SealingKey>,
    /// Whether nodes whose record names no recovery key have no second copy, even if the vault has a key for them.
    pub no_recovery: bool,
    /// Whether secrets that the store lost are made again.
    pub remake: bool,
    /// Additional prefixes of reply subjects that may get responses.
    pub reply_prefixes: Vec<String>,
}

/// What a call to the bus is for.
#[derive(Debug, Clone)]
enum Call {
    /// Who else is a vault. It may have several answers.
    Ping,
    /// A consumer of a followed bucket.
    Follow(Bucket),
    /// The revision of a place.
    Write(Place, Revision),
}

#[derive(Debug)]
struct Sent {
    call: Call,
    due: Duration,
    subject: String,
}

/// What follows from a task.
#[derive(Debug)]
enum Job {
    /// Nothing but a line in the log if it fails.
    Remember(BTreeSet<String>),
    /// A secret is kept, and the request that waits for it is answered.
    Keep { place: Place, revision: u64, answer: Option<Waiting>, id: Option<String>, sequence: Option<u64> },
    /// A list and its credentials are kept.
    List { place: Place, list: List, busy: Vec<Place> },
    /// Older revisions are gone.
    Forget { place: Place, before: u64 },
    /// Sealed copies are answered.
    Give { answer: Waiting, what: Asked, revision: u64, sequence: u64 },
    /// A page of recovery copies is answered.
    Export { answer: Waiting, id: String },
}

/// What a client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Secret(mesh_model::vault_api::SecretRequest),
    Consumers(mesh_model::vault_api::ConsumersRequest),
}

/// The vault.
#[derive(Debug)]
pub struct Vault {
    settings: Settings,
    link: LinkState,
    inboxes: Inboxes,
    duty: Duty,
    /// When to connect again so that the subscriptions are those of the duty.
    reconnect: Option<Duration>,
    /// When to ask who else is a vault.
    ask_others: Option<Duration>,
    /// Whether the subscriptions of the connection that is up are those of the duty.
    listens: bool,
    denied_subscriptions: BTreeSet<String>,
    known: Known,
    holdings: Holdings,
    follows: Vec<Follow>,
    /// Buckets whose list was complete once.
    read: BTreeSet<Bucket>,
    calls: BTreeMap<u64, Sent>,
    last_call: u64,
    jobs: BTreeMap<u64, Job>,
    last_job: u64,
    /// Places that a task is under way for.
    busy: BTreeSet<Place>,
    parked: Vec<Parked>,
    /// Whether something changed that parked requests may wait for.
    rejudge: bool,
    /// Why lists of consumers are not made.
    lists_that_wait: BTreeMap<Place, crate::wire::Refusal>,
    /// Places whose revision in the bucket is to be compared.
    unchecked: BTreeSet<Place>,
    writing: BTreeSet<Place>,
    unpublished: BTreeSet<Place>,
    publish_again: Option<Duration>,
    /// When the store is tried again after it failed. Until then everything that only reads it goes on.
    store_again: Option<Duration>,
    stopping: Option<Duration>,
    ended: bool,
    log_limiter: LogLimiter<Topic>,
    counters: Counters,
    work: BTreeMap<Verb, Worked>,
    last_bus_error: Option<String>,
    jitter: u64,
    /// The start, as time since 1970.
    clock: Option<Duration>,
    actions: Vec<Action<Task>>,
}

impl Vault {
    /// A vault without a connection, with what its store has. It asks for a connection at once.
    pub fn new(settings: Settings, holdings: Holdings) -> Vault {
        let known = Known::new(settings.mesh.clone(), holdings.mesh.clone(), holdings.nodes.clone());
        let mut vault = Vault {
            link: LinkState::Down {
                retry: Duration::ZERO,
                attempts: 0,
                why: "no attempt was made yet".to_owned(),
            },
            inboxes: Inboxes::new(format!("{INBOX}.{}", settings.inbox)),
            duty: Duty::Looking { until: None },
            reconnect: None,
            ask_others: None,
            listens: false,
            denied_subscriptions: BTreeSet::new(),
            known,
            holdings,
            follows: Vec::new(),
            read: BTreeSet::new(),
            calls: BTreeMap::new(),
            last_call: 0,
            jobs: BTreeMap::new(),
            last_job: 0,
            busy: BTreeSet::new(),
            parked: Vec::new(),
            rejudge: false,
            lists_that_wait: BTreeMap::new(),
            unchecked: BTreeSet::new(),
            writing: BTreeSet::new(),
            unpublished: BTreeSet::new(),
            publish_again: None,
            store_again: None,
            stopping: None,
            ended: false,
            log_limiter: LogLimiter::default(),
            counters: Counters::default(),
            work: Verb::ALL.into_iter().map(|verb| (verb, Worked::default())).collect(),
            last_bus_error: None,
            jitter: settings.jitter_seed,
            clock: None,
            actions: Vec::new(),
            settings,
        };
        let jitter = vault.jitter();
        vault.follows = Bucket::ALL
            .into_iter()
            .map(|bucket| {
                let names = format!("{}{}", vault.settings.names, bucket as usize);
                Follow::new(bucket.name(), ">", &names, jitter)
            })
            .collect();
        vault
    }

    /// Handles an event at `now` (time since the start) and returns the actions, in order.
    #[must_use]
    pub fn handle(&mut self, event: Event<Done>, now: Duration) -> Vec<Action<Task>> {
        match event {
            Event::Up { server, max_payload } => self.up(server, max_payload, now),
            Event::Down { why } => self.down(why, now),
            Event::ServerError(words) => self.on_server_error(&words, now),
            Event::MaxPayload(bytes) => self.link.set_max_payload(bytes),
            Event::LameDuck => self.lame_duck(now),
            Event::Request { subject, reply, body, .. } => self.on_request(&subject, reply, &body, now),
            Event::Reply { call, no_responders, body, .. } => self.on_reply(call, no_responders, &body, now),
            Event::Delivery(delivery) => {
                if let Some(follow) = self.follows.get_mut(delivery.place) {
                    let reply = delivery.reply.as_deref();
                    let steps =
                        follow.delivered(&delivery.subject, reply, &delivery.headers, delivery.body, now);
                    self.follow(Bucket::ALL[delivery.place], steps, now);
                }
            }
            Event::Overrun(count) => {
                self.counters.overrun += count;
                self.notice(Level::Warn, Topic::Overrun, "", "queue full: dropping messages", now);
                for bucket in Bucket::ALL {
                    let steps = self.follows[bucket as usize].relist(now);
                    self.follow(bucket, steps, now);
                }
            }
            Event::Undelivered(count) => {
                self.counters.undelivered += count;
                let text = "outgoing queue full: dropping messages";
                self.notice(Level::Warn, Topic::Undelivered, "", text, now);
            }
            Event::Reload => {
                self.say(Level::Info, "reading all buckets again");
                for bucket in Bucket::ALL {
                    let steps = self.follows[bucket as usize].relist(now);
                    self.follow(bucket, steps, now);
                }
                self.check_all();
            }
            Event::Stop => self.stop(now),
            Event::Clock(since_1970) => self.clock = Some(since_1970.saturating_sub(now)),
            Event::Due | Event::Part { .. } => {}
            Event::Own(done) => self.on_done(done, now),
        }
        self.poll(now);
        std::mem::take(&mut self.actions)
    }

    /// When to wake it with [`Event::Due`] if nothing happens before.
    pub fn next_deadline(&self) -> Option<Duration> {
        let follows = self.follows.iter().filter_map(Follow::next_deadline);
        let calls = self.calls.values().map(|sent| sent.due);
        let parked = self.parked.iter().map(|parked| parked.until);
        let publish = self.publish_again.filter(|_| self.is_on_duty() && self.link.is_up());
        let others = [
            self.link.due(),
            self.duty.due(),
            self.reconnect,
            publish,
            self.store_again,
            self.stopping,
            self.ask_others,
        ];
        others.into_iter().flatten().chain(follows).chain(calls).chain(parked).min()
    }

    /// The subscriptions of the next connection: none before it is known that no other vault answers.
    pub fn subscriptions(&self) -> Vec<Subscription> {
        if self.duty != Duty::Serving || self.stopping.is_some() {
            return Vec::new();
        }
        let verb = |verb: Verb| Subscription {
            subject: verb.subject().to_owned(),
            queue: Some(QUEUE),
            limit: MAX_UNTAKEN_REQUESTS,
        };
        let monitoring =
            |subject: String| Subscription { subject, queue: None, limit: MAX_UNTAKEN_MONITORING };
        let monitored = VAULT.monitored(&self.settings.identity.id);
        Verb::ALL.into_iter().map(verb).chain(monitored.map(monitoring)).collect()
    }

    /// What the subjects of replies begin with, on the next connection.
    pub fn inbox(&self) -> String {
        self.inboxes.next()
    }

    fn connect(&mut self) {
        self.actions.push(Action::Connect);
    }

    /// Whether it has ended: everything is answered, and the loop may end.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether every bucket was read.
    fn has_read(&self) -> bool {
        self.read.len() == Bucket::ALL.len()
    }

    /// Whether it may make, hand out and publish: no other vault does, and all is read.
    fn is_on_duty(&self) -> bool {
        self.duty == Duty::Serving && self.has_read()
    }

    fn is_busy(&self, place: &Place) -> bool {
        self.busy.contains(place)
    }

    fn say(&mut self, level: Level, text: impl Into<String>) {
        self.actions.push(Action::Say(level, text.into()));
    }

    fn notice(&mut self, level: Level, topic: Topic, key: &str, text: &str, now: Duration) {
        let line = self.log_limiter.line(topic, key, &self.hide(text), now);
        self.actions.extend(line.map(|line| Action::Say(level, line)));
    }

    /// The server's words may name the inbox and the consumers. Neither the log nor the status file shows their secret parts.
    fn hide(&self, text: &str) -> String {
        text.replace(&self.settings.inbox, "<secret>").replace(&self.settings.names, "<secret>")
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

    fn call(&mut self, call: Call, message: Outgoing, now: Duration) -> u64 {
        self.last_call += 1;
        let number = self.last_call;
        let subject = message.subject.clone();
        let reply = Some(format!("{}.{number}", self.inboxes.current()));
        self.calls.insert(number, Sent { call, due: now + CALL_TIMEOUT, subject });
        self.actions.push(Action::Send(Outgoing { reply, ..message }));
        number
    }

    fn begin(&mut self, work: Work, job: Job) {
        self.last_job += 1;
        self.jobs.insert(self.last_job, job);
        self.actions.push(Action::Do(Task { number: self.last_job, work }));
    }

    /// Carries out what follows from a followed bucket.
    fn follow(&mut self, bucket: Bucket, steps: Vec<Step>, now: Duration) {
        for step in steps {
            match step {
                Step::Send(message) => {
                    // An earlier call for a consumer of this bucket is no longer awaited.
                    self.calls.retain(|_, sent| !matches!(sent.call, Call::Follow(of) if of == bucket));
                    let number = self.call(Call::Follow(bucket), message, now);
                    self.follows[bucket as usize].asked(number);
                }
                Step::Entry(entry) => match self.known.on_entry(bucket, &entry) {
                    Ok(change) => {
                        self.read_again_by(&change, now);
                        self.changed(change);
                    }
                    Err(why) => {
                        self.counters.unbelieved += 1;
                        let text = format!("{} {:?} does not count: {why}", bucket.name(), entry.key);
                        self.notice(Level::Warn, Topic::Unbelieved, &entry.key, &text, now);
                    }
                },
                Step::Complete(keys) => {
                    for change in self.known.on_complete(bucket, &keys) {
                        self.changed(change);
                    }
                    let was_read = self.has_read();
                    self.read.insert(bucket);
                    if self.has_read() && !was_read {
                        let (nodes, declared) = self.known.counts();
                        self.say(
                            Level::Info,
                            format!("all buckets are read: {nodes} nodes, {declared} declarations"),
                        );
                    }
                    if bucket == Bucket::Revisions || self.has_read() != was_read {
                        self.check_all();
                    }
                }
                Step::Missing => {
                    let text = format!(
                        "the bucket {} does not exist: run mesh-controller init, and mesh-provisioner init",
                        bucket.name()
                    );
                    self.notice(Level::Warn, Topic::Buckets, bucket.name(), &text, now);
                }
                Step::Refused(why) => {
                    let text = format!("the bucket {} cannot be read: {why}", bucket.name());
                    self.notice(Level::Warn, Topic::Buckets, bucket.name(), &text, now);
                }
            }
        }
    }

    fn changed(&mut self, change: Change) {
        match change {
            Change::None => return,
            Change::Rights | Change::Declared(_) => {}
            Change::Applied(node, module) => {
                let of = |place: &&Place| place.node == node && place.module == module;
                // The places of one module stand together.
                let from = Place::new(&node, &module, "");
                let own = self.holdings.secrets.range(&from..).map(|(place, _)| place).take_while(of);
                let mut places: BTreeSet<Place> = own.cloned().collect();
                for (_, list) in self.holdings.lists.range(&from..).take_while(|(place, _)| of(place)) {
                    places.extend(list.members.iter().map(|(consumer, _)| Place::of_consumer(consumer)));
                }
                self.unchecked.extend(places);
            }
            Change::Revision(place) => drop(self.unchecked.insert(place)),
        }
        self.rejudge = true;
    }

    /// Compares everything with the bucket of revisions.
    fn check_all(&mut self) {
        let held = self.holdings.secrets.keys().chain(self.holdings.lists.keys());
        self.unchecked.extend(held.chain(self.known.published_places()).cloned());
        self.rejudge = true;
    }

    /// A task was carried out.
    fn on_done(&mut self, done: Done, now: Duration) {
        let Some(job) = self.jobs.remove(&done.number) else { return };
        self.rejudge = true;
        match (job, done.outcome) {
            (Job::Remember(nodes), Err(failure)) => {
                self.known.unsaved.extend(nodes);
                self.store_again = Some(now + STORE_AGAIN);
                self.store_failed(&failure, now);
            }
            (Job::Remember(_), Ok(_)) => {}
            (Job::Keep { place, revision, answer, id, sequence }, outcome) => {
                self.busy.remove(&place);
                match outcome {
                    Ok(Outcome::Kept(held)) => {
                        self.counters.kept += 1;
                        let origin = held.origin;
                        self.holdings.secrets.entry(place.clone()).or_default().insert(revision, held);
                        self.say(Level::Info, format!("{origin}: {place}, revision {revision}"));
                        self.unchecked.insert(place.clone());
                        self.kept(place, revision, answer, id, sequence, now);
                    }
                    Ok(_) => {}
                    Err(failure) => self.not_done(answer, sequence, &failure, now),
                }
            }
            (Job::List { place, list, busy }, outcome) => {
                for place in busy {
                    self.busy.remove(&place);
                }
                match outcome {
                    Ok(Outcome::KeptList(new)) => {
                        let text = format!(
                            "{place}, revision {}: {} consumers, {} new, {} left out",
                            list.revision,
                            list.members.len(),
                            new.len(),
                            list.left_out.len()
                        );
                        self.say(Level::Info, text);
                        self.counters.kept += new.len() as u64;
                        for (place, revision, held) in new {
                            self.holdings.secrets.entry(place.clone()).or_default().insert(revision, held);
                            self.unchecked.insert(place);
                        }
                        self.holdings.lists.insert(place.clone(), list);
                        self.unchecked.insert(place);
                    }
                    Ok(_) => {}
                    Err(failure) => {
                        self.store_again = Some(now + STORE_AGAIN);
                        self.store_failed(&failure, now);
                    }
                }
            }
            (Job::Forget { place, before }, outcome) => {
                self.busy.remove(&place);
                match outcome {
                    Ok(_) => {
                        if let Some(held) = self.holdings.secrets.get_mut(&place) {
                            *held = held.split_off(&before);
                        }
                        self.unchecked.insert(place);
                    }
                    Err(failure) => self.store_failed(&failure, now),
                }
            }
            (Job::Give { answer, what, revision, sequence }, outcome) => match outcome {
                Ok(outcome) => self.give(answer, what, revision, outcome, now),
                Err(failure) => self.not_done(Some(answer), Some(sequence), &failure, now),
            },
            (Job::Export { answer, id }, outcome) => match outcome {
                Ok(outcome) => self.give_page(answer, id, outcome, now),
                Err(failure) => self.not_done(Some(answer), None, &failure, now),
            },
        }
    }

    /// Does what is due.
    fn poll(&mut self, now: Duration) {
        self.give_up_calls(now);
        self.try_to_connect(now);
        self.look_for_others(now);
        for bucket in Bucket::ALL {
            let steps = self.follows[bucket as usize].due(now);
            self.follow(bucket, steps, now);
        }
        if self.store_again.is_some_and(|due| due <= now) {
            self.store_again = None;
            self.rejudge = true;
        }
        if self.is_on_duty() && self.stopping.is_none() {
            if self.store_again.is_none() {
                self.remember();
            }
            if self.rejudge && self.link.is_up() && self.store_again.is_none() {
                self.look_after_lists();
            }
            if self.link.is_up() {
                self.publish(now);
            }
        }
        self.judge_parked(now);
        self.end_if_done(now);
    }

    /// Gives up calls that were not answered in time.
    fn give_up_calls(&mut self, now: Duration) {
        let overdue: Vec<u64> =
            self.calls.iter().filter(|(_, sent)| now >= sent.due).map(|(number, _)| *number).collect();
        for number in overdue {
            if let Some(Call::Write(place, revision)) = self.calls.remove(&number).map(|sent| sent.call) {
                self.written(place, revision, None, now);
            }
        }
    }

    /// Has the store remember what was seen of nodes.
    fn remember(&mut self) {
        if self.known.unsaved.is_empty() {
            return;
        }
        let names = std::mem::take(&mut self.known.unsaved);
        let seen = |name: &String| Some((name.clone(), self.known.seen.get(name)?.clone()));
        let work =
            Work::Remember { mesh: self.known.mesh.clone(), nodes: names.iter().filter_map(seen).collect() };
        self.begin(work, Job::Remember(names));
    }
}
