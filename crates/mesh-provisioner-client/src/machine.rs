//! The client's state machine: what the bus holds of this node becomes values, ready modules, and one hand-over at a
//! time to the host. It knows neither clock nor network.

mod asking;
mod asks;
mod assess;
mod bus;
mod differences;
mod hand_over;
mod link;
pub mod memory;
mod mirror;
mod module;
mod standing;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use asks::{Ask, Asked, Providers};
use link::LinkState;
use log::Level;
use memory::Memory;
use mesh_jetstream::message::Outgoing;
use mesh_model::bucket::Bucket;
use mesh_model::declaration::Declaration;
use mesh_model::host_api::Line;
use mesh_model::keys::MeshKey;
use mesh_model::name;
use mesh_model::report::Outcome;
use mesh_model::rights::Inbox;
use mesh_model::signed::Envelope;
use mesh_runtime::{Action, Event, Machine, Subscription};
use mesh_service::follow::Follow;
use mesh_service::log_limit::LogLimiter;
use mirror::Mirror;
use module::Module;
pub use standing::{ModuleStatus, NeedStatus, Status};

/// How many providers' buckets can be followed.
pub(crate) const MOST_PROVIDERS: usize = 64;

/// The buckets that are always followed, in the order of their places.
pub(crate) const DECLARATIONS: usize = 0;
pub(crate) const ASSIGNMENTS: usize = 1;
pub(crate) const SETTINGS: usize = 2;
pub(crate) const REGISTRY: usize = 3;
pub(crate) const REVISIONS: usize = 4;
pub(crate) const NEEDS: usize = 5;
pub(crate) const APPLIED: usize = 6;
pub(crate) const COLLECT: usize = 7;
pub(crate) const FIRST_BOUND: usize = 8;

/// What the client is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Goes on until it is stopped.
    Serve,
    /// One pass to its end, at most that long.
    Once(Duration),
    /// One pass without an effect: the host plans, and nothing is written.
    Plan(Duration),
}

/// What the machine is told at its start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The mesh's id.
    pub mesh: String,
    /// The only key whose declarations count.
    pub mesh_key: MeshKey,
    /// This node's name.
    pub node: String,
    /// Hard to guess, new in each process: part of the inbox and of the consumers' names.
    pub nonce: String,
    /// Decides about every delay that is to differ between programs.
    pub seed: u64,
    /// What to do.
    pub mode: Mode,
    /// Whether a plan also says what differs from what was applied.
    pub tells_differences: bool,
    /// What is remembered from before.
    pub memory: Memory,
}

/// What else wakes the machine.
#[derive(Debug)]
pub enum Own {
    /// The host did something: an outcome of the hand-over under way.
    Outcome(Box<Outcome>),
    /// The host's last line to that call, or why there is none.
    Ended {
        /// The call.
        call: u64,
        /// The line.
        result: Result<Line, String>,
    },
    /// What is remembered could not be kept.
    NotKept(String),
}

/// What the machine needs done beside the bus.
#[derive(Debug)]
pub enum Task {
    /// Keep the memory, and then send this request to the host. If it cannot be kept, nothing is sent.
    HandOver {
        /// The number that the answer has.
        call: u64,
        /// What to keep first.
        memory: Option<String>,
        /// One line of JSON.
        request: Vec<u8>,
    },
    /// Keep the memory.
    Keep(String),
    /// Print for the person who runs a command that ends.
    Print(String),
    /// With which code the command ends.
    Verdict(u8),
}

/// Topics of the log, each with its own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Connection,
    ServerError,
    Bucket,
    Declaration,
    Verb,
    Host,
    Write,
}

/// A call on the bus that has no answer yet.
#[derive(Debug)]
enum Call {
    Follow(usize),
    Verb(Asked),
    Write(usize, String),
    Report,
}

/// What was handed over and has no end yet.
#[derive(Debug)]
struct Applying {
    call: u64,
    /// Each module, as it was when it was handed over: it may have changed since.
    modules: BTreeMap<String, memory::Done>,
    is_full: bool,
    sequence: u64,
}

/// Changes that are to be handed over together.
#[derive(Debug, Clone, Copy)]
struct Change {
    first: Duration,
    last: Duration,
}

/// The client.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they have nothing to do with each other")]
pub struct Client {
    settings: Settings,
    token: String,
    random: u64,
    now: Duration,
    actions: Vec<Action<Task>>,
    limiter: LogLimiter<Topic>,
    link: LinkState,
    connections: u64,
    calls: BTreeMap<u64, (Call, Duration)>,
    next_call: u64,
    follows: Vec<Follow>,
    /// Which providers' buckets are followed, by the module's name, with their places.
    bound_places: BTreeMap<String, usize>,
    /// Raw values: assignments and settings by module; the newest that were read.
    raw: [BTreeMap<String, Vec<u8>>; 2],
    registry: BTreeMap<String, Vec<u8>>,
    revisions: BTreeMap<(String, String), u64>,
    bound: BTreeMap<(String, String), Vec<u8>>,
    /// Providers' buckets of which values were left out, since no need looks for them.
    left_out: BTreeSet<usize>,
    /// Whether a followed bucket was read completely since the start.
    was_read: BTreeSet<usize>,
    declaration: Option<(Envelope, Declaration)>,
    declared_at: Duration,
    late_at: Option<Duration>,
    modules: BTreeMap<String, Module>,
    dirty: BTreeSet<String>,
    asks: BTreeMap<Asked, Ask>,
    providers: Providers,
    mirrors: [Mirror; 3],
    applying: Option<Applying>,
    change: Option<Change>,
    last_start: Option<Duration>,
    full_retry: Option<(Duration, u32)>,
    host_retry: Option<(Duration, u32)>,
    host_problem: Option<String>,
    report_due: Option<Duration>,
    confirm: Option<u64>,
    name_at: Option<Duration>,
    /// Until when nothing is to be done but writing, unless something else than the own writes happens.
    rests_until: Option<Duration>,
    /// Whether this event concerns the own writes alone.
    only_writes: bool,
    /// A module whose needs are written, so that what is applied of it may be.
    wrote: bool,
    ready: bool,
    ended_pass: bool,
    stopping: bool,
    counters: Counters,
}

/// What was done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Connections to the bus.
    pub connections: u64,
    /// Hand-overs to the host.
    pub hand_overs: u64,
    /// Requests to verbs.
    pub asks: u64,
    /// Writes to buckets.
    pub writes: u64,
    /// Answers that came too late, twice, or from nobody who was asked.
    pub dropped: u64,
}

impl Client {
    /// A client that has read nothing yet.
    pub fn new(settings: Settings) -> Self {
        let token = name::encode(&settings.node);
        let mut client = Client {
            token: token.clone(),
            random: settings.seed | 1,
            now: Duration::ZERO,
            actions: Vec::new(),
            limiter: LogLimiter::default(),
            link: LinkState::start(),
            connections: 0,
            calls: BTreeMap::new(),
            next_call: 1,
            follows: Vec::new(),
            bound_places: BTreeMap::new(),
            raw: [BTreeMap::new(), BTreeMap::new()],
            registry: BTreeMap::new(),
            revisions: BTreeMap::new(),
            bound: BTreeMap::new(),
            left_out: BTreeSet::new(),
            was_read: BTreeSet::new(),
            declaration: None,
            declared_at: Duration::ZERO,
            late_at: None,
            modules: BTreeMap::new(),
            dirty: BTreeSet::new(),
            asks: BTreeMap::new(),
            providers: Providers::default(),
            mirrors: [
                Mirror::new(Bucket::Needs.name(), 1),
                Mirror::new(Bucket::Applied.name(), 1),
                Mirror::new(Bucket::Collect.name(), 2),
            ],
            applying: None,
            change: None,
            last_start: None,
            full_retry: None,
            host_retry: None,
            host_problem: None,
            report_due: None,
            confirm: None,
            name_at: None,
            rests_until: None,
            only_writes: false,
            wrote: false,
            ready: false,
            ended_pass: false,
            stopping: false,
            counters: Counters::default(),
            settings,
        };
        let below = format!("{token}.>");
        for (bucket, keys) in [
            ("mesh-controller_declarations", token.as_str()),
            ("mesh-controller_assignments", below.as_str()),
            ("mesh-controller_settings", below.as_str()),
            (Bucket::Registry.name(), ">"),
            ("mesh-vault_revisions", below.as_str()),
            (Bucket::Needs.name(), below.as_str()),
            (Bucket::Applied.name(), below.as_str()),
            (Bucket::Collect.name(), below.as_str()),
        ] {
            client.add_follow(bucket, keys);
        }
        client
    }

    fn add_follow(&mut self, bucket: &str, keys: &str) -> usize {
        let place = self.follows.len();
        let names = format!("{}-{place}", self.settings.nonce);
        let jitter = self.jitter();
        self.follows.push(Follow::new(bucket, keys, &names, jitter));
        place
    }

    /// A number from 0 to 1 (xorshift): reproducible from the seed.
    fn jitter(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let jitter = (self.random >> 11) as f64 / (1u64 << 53) as f64;
        jitter
    }

    /// A number from 0 to 1 that this node always has.
    fn own_place(&self) -> f64 {
        let hash = self.settings.node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The last letters of a name reach only the lower bits: without this, node-1 and node-2 have nearly the same place.
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = hash ^ (hash >> 29);
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let place = (hash >> 11) as f64 / (1u64 << 53) as f64;
        place
    }

    fn say(&mut self, level: Level, line: impl Into<String>) {
        self.actions.push(Action::Say(level, line.into()));
    }

    fn notice(&mut self, level: Level, topic: Topic, key: &str, text: &str) {
        if let Some(line) = self.limiter.line(topic, key, text, self.now) {
            self.say(level, line);
        }
    }

    /// The prefix of the current inbox: another one for each connection, so that no consumer of an earlier one finds a
    /// subscriber.
    fn inbox_prefix(&self) -> String {
        format!("{}.{}-{}", Inbox::Node(&self.settings.node).prefix(), self.settings.nonce, self.connections)
    }

    /// Sends a request whose answer is awaited for a time.
    fn call(&mut self, mut message: Outgoing, call: Call, within: Duration) -> u64 {
        let number = self.next_call;
        self.next_call += 1;
        message.reply = Some(format!("{}.{number}", self.inbox_prefix()));
        self.calls.insert(number, (call, self.now + within));
        self.actions.push(Action::Send(message));
        number
    }

    /// How many values of providers are kept.
    pub fn provided_values(&self) -> usize {
        self.bound.len()
    }

    /// How many hand-overs the host was given since the start.
    pub fn hand_overs(&self) -> u64 {
        self.counters.hand_overs
    }

    fn only_looks(&self) -> bool {
        matches!(self.settings.mode, Mode::Plan(_))
    }
}

impl Machine for Client {
    type Own = Own;
    type Task = Task;
    type Status = Status;

    fn handle(&mut self, event: Event<Own>, now: Duration) -> Vec<Action<Task>> {
        self.now = now;
        self.only_writes = false;
        match event {
            Event::Up { server, .. } => self.up(&server),
            Event::Down { why } => self.down(&why),
            Event::ServerError(words) => self.server_error(&words),
            Event::Delivery(delivery) => self.delivery(delivery),
            Event::Reply { call, no_responders, error, body } => {
                self.reply(call, no_responders, error.is_some(), &body);
            }
            Event::Overrun(_) => self.relist(),
            Event::LameDuck => self.actions.push(Action::Connect),
            Event::Own(Own::Outcome(outcome)) => self.outcome(&outcome),
            Event::Own(Own::Ended { call, result }) => self.host_ended(call, result),
            Event::Own(Own::NotKept(why)) => {
                self.notice(Level::Error, Topic::Host, "kept", &format!("the state cannot be kept: {why}"));
            }
            Event::Stop => {
                self.stopping = true;
                self.actions.push(Action::StopListening);
                self.actions.push(Action::Exit(crate::Exit::Done));
            }
            Event::Reload => self.reload(),
            Event::Due
            | Event::Undelivered(_)
            | Event::MaxPayload(_)
            | Event::Clock(_)
            | Event::Request { .. }
            | Event::Part { .. } => {}
        }
        if !self.stopping {
            self.turn();
        }
        std::mem::take(&mut self.actions)
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.deadline()
    }

    fn inbox(&self) -> String {
        self.inbox_prefix()
    }

    fn deliveries(&self) -> usize {
        FIRST_BOUND + MOST_PROVIDERS
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        Vec::new()
    }

    fn is_serving(&self) -> bool {
        self.ready
    }

    fn is_ready(&self, _: Duration) -> bool {
        self.ready && self.link.is_up()
    }

    fn status_line(&self, _: Duration) -> String {
        self.line()
    }

    fn status(&self, now: Duration) -> Status {
        self.stands(now, true)
    }

    fn ended(&self, now: Duration, _: crate::Exit) -> Status {
        self.stands(now, false)
    }
}
