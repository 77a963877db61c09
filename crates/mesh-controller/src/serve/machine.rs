//! The machine of `serve`: pure. It knows no clock, no file, no secret and no other thread.
//!
//! It is on the bus only while it holds the lease, and writes there only while it knows that it does.

mod bus;
mod own;
mod status;

use crate::serve::accounts::Accounts;
use crate::serve::cleaning::{self, Cleaning};
use crate::serve::joins::Requests;
use crate::serve::mirror::{Found, Mirror};
use crate::serve::reports::Reports;
use crate::serve::task::{Own, Place, Reading, Task};
use crate::serve::wire::{self, CONTROLLER, REPLIES, VERBS};
use crate::store::sent::Bucket;
use log::Level;
use mesh_daemon::exit::Exit;
use mesh_jetstream::message::Outgoing;
use mesh_model::digest::Digest;
use mesh_model::keys::MeshKey;
use mesh_runtime::{Action, Event, Machine, Subscription};
use mesh_service::backoff::Backoff;
use mesh_service::follow::Follow;
use mesh_service::identity::Identity;
use mesh_service::inboxes::Inboxes;
use mesh_service::log_limit::LogLimiter;
use mesh_service::reply_guard::Asked;
use mesh_service::services::{Monitor, Work};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use status::Status;

/// The bucket of reports, which is followed after the controller's own.
const REPORTS: &str = "mesh-controller_reports";

/// How often the lease is renewed.
const RENEW: Duration = crate::store::lease::RENEW;

/// How long after its last renewal the lease counts as held. It lives for 15 s: the rest is the margin.
const SURE: Duration = Duration::from_secs(10);

/// How often the store is asked whether a command has changed it. A command that is in a hurry sends HUP.
const LOOK: Duration = Duration::from_millis(250);

/// How long giving back the lease may take.
const LAST: Duration = Duration::from_secs(2);

/// The answer to a request that comes at the end.
const STOPPING: &str = "the controller is stopping: try again";

/// The answer to a request while another program has the lease.
const STANDING_BY: &str = "this controller does not have the lease: ask again";

/// How often a connection is tried.
const RECONNECT: Backoff = Backoff { first: Duration::from_millis(250), last: Duration::from_secs(30) };

/// How long to wait for a further connection before another attempt is made.
const MOVE_AGAIN: Duration = Duration::from_secs(2);

/// The settings of a controller that serves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who it is.
    pub identity: Identity,
    /// When it started, as RFC 3339.
    pub started: String,
    /// What its inbox and the names of its consumers begin with: nobody else knows it.
    pub secret: String,
    /// The key that signs declarations.
    pub mesh: MeshKey,
    /// Its place within delays, from 0 to 1.
    pub jitter: f64,
    /// More prefixes of reply subjects that are answered.
    pub reply_prefixes: Vec<String>,
}

/// What log lines are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Connection,
    Lease,
    Store,
    Users,
    Changed,
    Foreign,
    Ahead,
    Write,
    Bucket,
    Lost,
    Clean,
}

/// The connection.
#[derive(Debug)]
enum Link {
    /// None, and none is wanted: another program has the lease.
    Off,
    /// Tried again then.
    Waiting(Duration),
    /// Being made.
    Trying,
    /// It is up.
    Up { server: String, max_payload: usize },
}

/// The lease, as far as it is known.
#[derive(Debug, Default)]
struct Held {
    fence: Option<u64>,
    /// When it was last known to be ours.
    sure: Duration,
    asked: Option<Duration>,
    due: Duration,
    /// Who has it instead.
    theirs: Option<String>,
    /// Whether the store has told anything yet.
    is_known: bool,
}

/// A call to the bus.
#[derive(Debug)]
enum Call {
    Put(Place),
    Follow,
    Clean,
}

/// The machine.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether a task of one kind is under way")]
pub struct Controller {
    settings: Settings,
    link: Link,
    failures: u32,
    inboxes: Inboxes,
    /// When to move to another connection, since the server is about to shut down.
    move_at: Option<Duration>,
    held: Held,
    /// The controller's own buckets in their order, and the reports.
    follows: Vec<Follow>,
    mirror: Mirror,
    calls: BTreeMap<u64, Call>,
    next_call: u64,
    requests: Requests,
    accounts: Accounts,
    loading: bool,
    has_picture: bool,
    load_due: Duration,
    load_anyway: bool,
    nodes: BTreeSet<String>,
    reports: Reports,
    cleaning: Cleaning,
    done: Vec<(Place, Option<Digest>, u64)>,
    noting: bool,
    store_failure: Option<String>,
    stopping: Option<Duration>,
    log: LogLimiter<Topic>,
    work: Work,
}

type Actions = Vec<Action<Task>>;

impl Controller {
    /// One that has just started.
    pub fn new(settings: Settings) -> Self {
        let names = Bucket::ALL.map(Bucket::name).into_iter().chain([REPORTS]).enumerate();
        let follow = |(place, bucket): (usize, &str)| {
            Follow::new(bucket, ">", &format!("{}-{place}", settings.secret), settings.jitter)
        };
        Controller {
            follows: names.map(follow).collect(),
            inboxes: Inboxes::new(wire::inbox(&settings.secret)),
            settings,
            link: Link::Off,
            failures: 0,
            move_at: None,
            held: Held::default(),
            mirror: Mirror::default(),
            calls: BTreeMap::new(),
            next_call: 0,
            requests: Requests::default(),
            accounts: Accounts::default(),
            loading: false,
            has_picture: false,
            load_due: Duration::ZERO,
            load_anyway: false,
            nodes: BTreeSet::new(),
            reports: Reports::default(),
            cleaning: Cleaning::default(),
            done: Vec::new(),
            noting: false,
            store_failure: None,
            stopping: None,
            log: LogLimiter::default(),
            work: Work::default(),
        }
    }

    /// Whether the lease is ours beyond doubt: a process that was frozen finds out here.
    fn is_sure(&self, now: Duration) -> bool {
        self.held.fence.is_some() && now < self.held.sure + SURE
    }

    fn say(&mut self, level: Level, topic: Topic, text: &str, now: Duration) -> Option<Action<Task>> {
        // The server's words may name the inbox. What is in the log may be read by people who may not write there.
        let text = &text.replace(&self.settings.secret, "<secret>");
        self.log.line(topic, text, text, now).map(|line| Action::Say(level, line))
    }

    /// A verb or a word of the services API.
    fn request(
        &mut self,
        place: usize,
        subject: &str,
        reply: Option<String>,
        body: Vec<u8>,
        now: Duration,
    ) -> Actions {
        let Some(reply) = reply else { return Vec::new() };
        let asked = if place < VERBS.len() { Asked::Verb } else { Asked::Monitoring };
        if !REPLIES.may_answer(&reply, asked, &self.settings.reply_prefixes) {
            return Vec::new();
        }
        // What had arrived when the lease was lost, or over a connection that was being made then.
        let has_lease = self.held.fence.is_some();
        if asked == Asked::Monitoring {
            return if has_lease { self.monitor(subject, reply) } else { Vec::new() };
        }
        self.work.requests += 1;
        if !has_lease {
            return vec![self.error(reply, 503, "standing_by", STANDING_BY)];
        }
        if self.stopping.is_some() {
            return vec![self.error(reply, 503, "stopping", STOPPING)];
        }
        let answer = match place {
            0 => self.requests.join(reply, body, now),
            place => {
                let verb = if place == 1 { Reading::Status } else { Reading::Plan };
                self.requests.ask(reply, verb, body, now)
            }
        };
        self.sends(answer.into_iter().collect())
    }

    fn error(&mut self, reply: String, code: u16, reason: &str, message: &str) -> Action<Task> {
        self.work.errors += 1;
        message.clone_into(&mut self.work.last_error);
        Action::Send(wire::error(reply, code, reason, message))
    }

    fn monitor(&self, subject: &str, reply: String) -> Actions {
        let identity = &self.settings.identity;
        let body = match CONTROLLER.monitor(subject, &identity.id) {
            Some(Monitor::Ping) => CONTROLLER.ping(identity),
            Some(Monitor::Info) => CONTROLLER.info_of(identity, &VERBS),
            Some(Monitor::Stats) => {
                let counters =
                    format!(r#"{{"joined":{},"refused":{}}}"#, self.requests.joined, self.requests.refused);
                let data = RawValue::from_string(counters).expect("two numbers");
                CONTROLLER.stats(identity, &self.settings.started, &self.work, &data)
            }
            None => return Vec::new(),
        };
        vec![Action::Send(wire::answer(reply, body))]
    }

    /// What was found on the bus, as lines for the log and as work for the store.
    fn found(&mut self, found: Vec<Found>, now: Duration) -> Actions {
        let mut actions = Vec::new();
        for found in found {
            match found {
                Found::Done(place, digest, revision) => self.done.push((place, digest, revision)),
                Found::Changed(Place { bucket, key }) => {
                    let text = format!("{bucket}: another client changed {key}; it is restored");
                    actions.extend(self.say(Level::Warn, Topic::Changed, &text, now));
                }
                Found::Ahead(Place { bucket, key }) => {
                    let text = format!(
                        "{bucket}: {key} is a later declaration of this mesh than the store has, and is left: the store is older than the bus: push {key} again"
                    );
                    actions.extend(self.say(Level::Warn, Topic::Ahead, &text, now));
                }
            }
        }
        actions
    }

    /// What became possible: at the end of each turn.
    fn go_on(&mut self, now: Duration) -> Actions {
        let mut actions = Vec::new();
        if self.stopping.is_some() {
            return actions;
        }
        if self.held.asked.is_none() && self.held.due <= now {
            self.held.asked = Some(now);
            self.held.due = now + RENEW;
            actions.push(Action::Do(Task::Lease));
        }
        if self.held.fence.is_some() && !self.loading && (self.load_anyway || self.load_due <= now) {
            self.loading = true;
            let anyway = std::mem::take(&mut self.load_anyway);
            actions.push(Action::Do(Task::Load { anyway }));
        }
        if !self.is_sure(now) {
            return actions;
        }
        actions.extend(self.accounts.next(now).map(Action::Do));
        actions.extend(self.requests.batch().map(Action::Do));
        actions.extend(self.requests.read().map(Action::Do));
        if self.has_picture {
            let reports = self.reports.take(&self.nodes);
            if !reports.is_empty() {
                actions.push(Action::Do(Task::Reports(reports)));
            }
        }
        if !self.noting && !self.done.is_empty() {
            self.noting = true;
            actions.push(Action::Do(Task::Done(std::mem::take(&mut self.done))));
        }
        if matches!(self.link, Link::Up { .. }) && self.has_picture {
            let places = self.mirror.fetch();
            if !places.is_empty() {
                actions.push(Action::Do(Task::Fetch(places)));
            }
            // The file has the rights for it, and lets the node in no more.
            if self.accounts.is_loaded() {
                let step = self.cleaning.next(now);
                actions.extend(step.map(|step| self.clean(step)));
            }
        }
        actions
    }

    fn due(&mut self, now: Duration) -> Actions {
        let mut actions = Vec::new();
        if let Some(until) = self.stopping {
            if until <= now {
                let told = self.requests.end("stopping", STOPPING);
                actions.extend(self.sends(told));
                actions.push(Action::Exit(Exit::Done));
            }
            return actions;
        }
        match self.link {
            Link::Waiting(until) if until <= now => actions.push(self.connect()),
            // The connection stays until the next one is up. An attempt that fails is not told of: it is made again.
            Link::Up { .. } if self.move_at.is_some_and(|at| at <= now) => {
                self.move_at = Some(now + MOVE_AGAIN);
                actions.push(Action::Connect);
            }
            _ => {}
        }
        self.mirror.due(now);
        for place in 0..self.follows.len() {
            let steps = self.follows[place].due(now);
            actions.extend(self.steps(place, steps, now));
        }
        if self.reports.is_list_due(now) {
            let place = self.follows.len() - 1;
            let steps = self.follows[place].relist(now);
            actions.extend(self.steps(place, steps, now));
        }
        if let Some(words) = self.cleaning.due(now) {
            actions.extend(self.say(Level::Warn, Topic::Clean, &words, now));
        }
        let late = self.requests.due(now);
        actions.extend(self.sends(late));
        actions
    }

    fn clean(&mut self, step: cleaning::Step) -> Action<Task> {
        match step {
            cleaning::Step::Send(message) => {
                let (number, action) = self.call(Call::Clean, message);
                self.cleaning.asked(number);
                action
            }
            cleaning::Step::Done(node) => Action::Do(Task::Cleaned(node)),
        }
    }

    fn sends(&mut self, messages: Vec<Outgoing>) -> Actions {
        for message in &messages {
            if !message.headers.is_empty() {
                self.work.errors += 1;
            }
        }
        messages.into_iter().map(Action::Send).collect()
    }

    fn connect(&mut self) -> Action<Task> {
        self.link = Link::Trying;
        Action::Connect
    }

    fn stop(&mut self, now: Duration) -> Actions {
        if self.stopping.is_some() {
            return Vec::new();
        }
        self.stopping = Some(now + LAST);
        vec![Action::StopListening, Action::Do(Task::Release)]
    }
}

impl Machine for Controller {
    type Own = Own;
    type Task = Task;
    type Status = Status;

    fn handle(&mut self, event: Event<Own>, now: Duration) -> Actions {
        let mut actions = match event {
            Event::Up { server, max_payload } => self.up(server, max_payload, now),
            Event::Down { why } => self.down(&why, now),
            Event::ServerError(words) => self.server_error(&words, now),
            Event::MaxPayload(bytes) => {
                if let Link::Up { max_payload, .. } = &mut self.link {
                    *max_payload = bytes;
                }
                Vec::new()
            }
            Event::LameDuck => self.lame_duck(now),
            Event::Request { place, subject, reply, body } => self.request(place, &subject, reply, body, now),
            Event::Reply { call, no_responders, error, body } => {
                self.reply(call, no_responders, error.as_ref(), &body, now)
            }
            Event::Delivery(delivery) => self.delivery(delivery, now),
            Event::Overrun(count) => {
                let text =
                    format!("{count} messages were dropped, since they came faster than they were taken");
                let mut actions: Actions =
                    self.say(Level::Warn, Topic::Lost, &text, now).into_iter().collect();
                for place in 0..self.follows.len() {
                    let steps = self.follows[place].relist(now);
                    actions.extend(self.steps(place, steps, now));
                }
                actions
            }
            Event::Undelivered(count) => {
                let text = format!("{count} messages could not be sent");
                self.say(Level::Warn, Topic::Lost, &text, now).into_iter().collect()
            }
            Event::Reload => {
                self.load_anyway = true;
                Vec::new()
            }
            Event::Stop => self.stop(now),
            Event::Own(own) => self.own(own, now),
            Event::Part { .. } | Event::Clock(_) | Event::Due => Vec::new(),
        };
        actions.extend(self.due(now));
        actions.extend(self.go_on(now));
        actions
    }

    fn next_deadline(&self) -> Option<Duration> {
        if self.stopping.is_some() {
            return self.stopping;
        }
        let lease = self.held.asked.is_none().then_some(self.held.due);
        let load = (self.held.fence.is_some() && !self.loading).then_some(self.load_due);
        let link = match self.link {
            Link::Waiting(until) => Some(until),
            Link::Up { .. } => self.move_at,
            _ => None,
        };
        let reports = self.reports.next_deadline();
        let cleans = matches!(self.link, Link::Up { .. }) && self.has_picture && self.accounts.is_loaded();
        let cleaning = cleans.then(|| self.cleaning.next_deadline()).flatten();
        let accounts = self.held.fence.and(self.accounts.next_deadline());
        let follows = self.follows.iter().filter_map(Follow::next_deadline);
        [
            lease,
            load,
            link,
            accounts,
            reports,
            cleaning,
            self.mirror.next_deadline(),
            self.requests.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .chain(follows)
        .min()
    }

    fn inbox(&self) -> String {
        self.inboxes.next()
    }

    fn deliveries(&self) -> usize {
        self.follows.len()
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        wire::subscriptions(&self.settings.identity.id)
    }

    fn is_serving(&self) -> bool {
        self.held.theirs.is_some() || self.has_picture
    }

    fn is_ready(&self, now: Duration) -> bool {
        self.is_well(now)
    }

    fn status_line(&self, now: Duration) -> String {
        self.line(now)
    }

    fn status(&self, now: Duration) -> Status {
        self.tell(now)
    }

    fn ended(&self, now: Duration, _: Exit) -> Status {
        Status { serving: false, ..self.tell(now) }
    }
}
