//! A world for the client: a bus with faults, a vault, a host, and an operator who changes things. One seed gives one run.

mod host;
mod judge;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mesh_jetstream::message::Outgoing;
use mesh_model::digest::Digest;
use mesh_model::host_api::{Given, Request};
use mesh_model::json::Read as _;
use mesh_model::keys::SealingKey;
use mesh_model::registry::ENTRIES;
use mesh_model::signed::{Envelope, PayloadType};
use mesh_provisioner_client::machine::memory::Memory;
use mesh_provisioner_client::machine::{Client, Mode, Own, Settings, Task};
use mesh_runtime::{Action, Delivery, Event, Machine};
use nkeys::{KeyPair, XKey};
use serde_json::{Value, json};

pub const REGISTRY: &str = "mesh-provisioner_registry";
pub const NEEDS: &str = "mesh-provisioner_needs";
pub const APPLIED: &str = "mesh-provisioner_applied";
const ASSIGNMENTS: &str = "mesh-controller_assignments";
const SETTINGS: &str = "mesh-controller_settings";
const DECLARATIONS: &str = "mesh-controller_declarations";
const REVISIONS: &str = "mesh-vault_revisions";
pub const BOUND: &str = "postgres_bound";
const BUCKETS: [&str; 10] = [
    REGISTRY,
    NEEDS,
    APPLIED,
    "mesh-provisioner_collect",
    ASSIGNMENTS,
    SETTINGS,
    DECLARATIONS,
    REVISIONS,
    BOUND,
    "mesh-controller_reports",
];

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// How likely each fault is, for each message or task.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub lose: f64,
    pub break_link: f64,
    pub kill: f64,
    pub host_fails: f64,
}

#[derive(Debug, Default)]
struct Bucket {
    sequence: u64,
    keys: BTreeMap<String, (Option<Vec<u8>>, u64)>,
}

#[derive(Debug)]
struct Consumer {
    name: String,
    bucket: String,
    filter: String,
    deliver: String,
    delivered: u64,
    beat: Duration,
}

#[derive(Debug)]
enum Happens {
    /// A message reaches the server.
    Sent(u64, Outgoing),
    /// Something reaches the client of that connection.
    Comes(u64, Event<Own>),
    Connected(u64),
    /// The host ends an apply of that process.
    HostEnds {
        process: u64,
        call: u64,
        request: Vec<u8>,
        fails: bool,
    },
    Starts,
    /// The state could not be kept, before that hand-over.
    Fails(u64, Option<u64>),
}

/// What a module is made of: what the host applied, or what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content {
    pub assignment: String,
    pub settings: String,
    pub values: String,
}

#[expect(clippy::struct_excessive_bools, reason = "each switches something else")]
pub struct World {
    /// The node's name.
    pub name: String,
    random: u64,
    pub now: Duration,
    queue: BTreeMap<(Duration, u64), Happens>,
    numbers: u64,
    buckets: BTreeMap<&'static str, Bucket>,
    consumers: Vec<Consumer>,
    connection: u64,
    is_up: bool,
    inbox: String,
    /// Order over one connection.
    last_to_client: Duration,
    client: Option<(Client, Duration)>,
    process: u64,
    kept: Option<String>,
    pub faults: Faults,
    key: KeyPair,
    vault: XKey,
    node: SealingKey,
    pub vault_is_up: bool,
    pub bus_is_up: bool,
    pub secrets: BTreeMap<(String, String), u64>,
    pub refused: BTreeSet<(String, String)>,
    pub asked: BTreeMap<(String, String), u64>,
    sequence: u64,
    pub modules: BTreeMap<String, (Value, Value)>,
    /// What the host has.
    pub machine: BTreeMap<String, Content>,
    copy: BTreeMap<String, BTreeMap<String, Given>>,
    highest: u64,
    host_is_busy: Option<u64>,
    /// Everything that was ever applied, by module.
    history: BTreeSet<(String, Content)>,
    applied_revisions: BTreeSet<(String, String, u64)>,
    /// How often a module was handed over, and how often that changed nothing.
    pub applies: BTreeMap<String, u64>,
    pub needless: BTreeMap<String, u64>,
    pub hand_overs: u64,
    /// Modules that the host never applies.
    pub broken: BTreeSet<String>,
    /// Whether the state folder of the client can be written.
    pub state_is_writable: bool,
    /// How long the vault takes, and how often it says the same.
    pub vault_takes: Duration,
    pub vault_repeats: u64,
    /// After how long the vault's values are to be asked for again.
    pub again_after: u64,
    /// When the vault was asked.
    pub asked_at: Vec<Duration>,
    /// The processor's time that the client took.
    pub worked: Duration,
    /// Whether nothing is written down.
    pub is_quiet: bool,
    trace: Vec<String>,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in self.trace.iter().rev().take(80).rev() {
                println!("{line}");
            }
        }
    }
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut world = World {
            name: "attic".to_owned(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            numbers: 0,
            buckets: BUCKETS.into_iter().map(|name| (name, Bucket::default())).collect(),
            consumers: Vec::new(),
            connection: 0,
            is_up: false,
            inbox: String::new(),
            last_to_client: Duration::ZERO,
            client: None,
            process: 0,
            kept: None,
            faults,
            key: KeyPair::new_operator(),
            vault: XKey::new(),
            node: XKey::new().public_key().parse().unwrap(),
            vault_is_up: true,
            bus_is_up: true,
            secrets: BTreeMap::new(),
            refused: BTreeSet::new(),
            asked: BTreeMap::new(),
            sequence: 0,
            modules: BTreeMap::new(),
            machine: BTreeMap::new(),
            copy: BTreeMap::new(),
            highest: 0,
            host_is_busy: None,
            history: BTreeSet::new(),
            applied_revisions: BTreeSet::new(),
            applies: BTreeMap::new(),
            needless: BTreeMap::new(),
            hand_overs: 0,
            broken: BTreeSet::new(),
            state_is_writable: true,
            vault_takes: Duration::ZERO,
            vault_repeats: 1,
            again_after: 300,
            asked_at: Vec::new(),
            worked: Duration::ZERO,
            is_quiet: false,
            trace: Vec::new(),
        };
        for entry in &ENTRIES {
            world.put(REGISTRY, entry.kind, Some(entry.to_json().into_bytes()));
        }
        world
    }

    fn note(&mut self, line: impl Into<String>) {
        if self.is_quiet {
            return;
        }
        self.trace.push(format!("{:>9} ms  {}", self.now.as_millis(), line.into()));
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % most.max(1)
    }

    fn happens(&mut self, chance: f64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a chance")]
        let drawn = self.below(1_000_000) as f64 / 1e6;
        drawn < chance
    }

    fn key_of(&self, module: &str) -> String {
        format!("{}.{module}", self.name)
    }

    fn later(&mut self, after: Duration, what: Happens) {
        self.numbers += 1;
        self.queue.insert((self.now + after, self.numbers), what);
    }

    // The operator.

    /// Sets a module; it is there with the next push.
    pub fn set(&mut self, name: &str, assignment: Value, settings: Value) {
        self.modules.insert(name.to_owned(), (assignment, settings));
    }

    pub fn push(&mut self) {
        self.sequence += 1;
        let mut parts = Vec::new();
        for (name, (assignment, settings)) in self.modules.clone() {
            let (assignment, settings) = (assignment.to_string(), settings.to_string());
            parts.push(json!({
                "module": name,
                "assignment": Digest::of(assignment.as_bytes()).to_string(),
                "settings": Digest::of(settings.as_bytes()).to_string(),
            }));
            self.put(ASSIGNMENTS, &self.key_of(&name), Some(assignment.into_bytes()));
            self.put(SETTINGS, &self.key_of(&name), Some(settings.into_bytes()));
        }
        let payload = json!({
            "mesh": "m1", "node": self.name, "sequence": self.sequence, "fence": 1,
            "at": "2026-11-30T20:00:00Z", "vault": self.vault.public_key(), "modules": parts,
            "adoption": null,
        });
        let bytes = payload.to_string().into_bytes();
        let envelope = Envelope::sign(PayloadType::Declaration, bytes, &self.key).unwrap();
        self.note(format!("push {}", self.sequence));
        self.put(DECLARATIONS, &self.name.clone(), Some(envelope.to_bytes()));
    }

    /// Makes a new revision of a secret.
    pub fn rotate(&mut self, module: &str, name: &str) {
        let revision = self.secrets.entry((module.to_owned(), name.to_owned())).or_default();
        *revision += 1;
        let value = format!(r#"{{"revision":{revision},"origin":"made","recovery":null}}"#);
        self.note(format!("rotate {module} {name}"));
        self.put(REVISIONS, &format!("{}.{module}.{name}", self.name), Some(value.into_bytes()));
    }

    /// Writes a key as anyone with the right may; nothing: deletes it.
    #[expect(clippy::needless_pass_by_value, reason = "callers make the value on the spot")]
    pub fn put(&mut self, bucket: &'static str, key: &str, value: Option<Vec<u8>>) -> u64 {
        let Some(stored) = self.buckets.get_mut(bucket) else { return 0 };
        stored.sequence += 1;
        let sequence = stored.sequence;
        stored.keys.insert(key.to_owned(), (value.clone(), sequence));
        for place in 0..self.consumers.len() {
            let consumer = &self.consumers[place];
            if consumer.bucket == bucket && matches(&consumer.filter, key) {
                self.deliver(place, key, value.clone(), sequence, 0);
            }
        }
        sequence
    }

    pub fn get(&self, bucket: &str, key: &str) -> Option<Value> {
        let value = self.buckets[bucket].keys.get(key)?.0.as_ref()?;
        serde_json::from_slice(value).ok()
    }

    pub fn keys(&self, bucket: &str) -> Vec<String> {
        let keys = self.buckets[bucket].keys.iter().filter(|(_, (value, _))| value.is_some());
        keys.map(|(key, _)| key.clone()).collect()
    }

    fn deliver(&mut self, place: usize, key: &str, value: Option<Vec<u8>>, sequence: u64, pending: usize) {
        let number = self.consumers[place].delivered + 1;
        let Consumer { name, bucket, deliver, .. } = &self.consumers[place];
        let reply = format!("$JS.ACK.KV_{bucket}.{name}.1.{sequence}.{number}.1796082841714165364.{pending}");
        let headers =
            if value.is_none() { b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n".to_vec() } else { Vec::new() };
        let delivery = Delivery {
            place: deliver.rsplit('.').next().unwrap().parse().unwrap(),
            subject: format!("$KV.{bucket}.{key}"),
            reply: Some(reply),
            headers,
            body: value.unwrap_or_default(),
        };
        self.consumers[place].delivered = number;
        self.bring(Event::Delivery(delivery));
    }

    /// Sends something to the client, in order, if it is not lost.
    fn bring(&mut self, event: Event<Own>) {
        if !self.is_up || self.happens(self.faults.lose) {
            return;
        }
        let delay = MS * u32::try_from(1 + self.below(3)).unwrap();
        let at = (self.now + delay).max(self.last_to_client);
        self.last_to_client = at;
        let connection = self.connection;
        self.numbers += 1;
        self.queue.insert((at, self.numbers), Happens::Comes(connection, event));
    }

    // The client.

    pub fn start_client(&mut self) {
        self.later(Duration::ZERO, Happens::Starts);
    }

    fn starts(&mut self) {
        self.process += 1;
        self.break_link();
        let memory = self.kept.as_ref().map(|text| Memory::parse(text.as_bytes()).unwrap());
        let settings = Settings {
            mesh: "m1".to_owned(),
            mesh_key: self.key.public_key().parse().unwrap(),
            node: self.name.clone(),
            nonce: format!("nonce{}", self.process),
            seed: self.random,
            mode: Mode::Serve,
            tells_differences: false,
            memory: memory.unwrap_or_else(|| Memory::new("salt".to_owned())),
        };
        self.note("client starts");
        self.client = Some((Client::new(settings), self.now));
    }

    /// How many values of providers the client keeps.
    pub fn provided_values(&self) -> usize {
        self.client.as_ref().map_or(0, |(client, _)| client.provided_values())
    }

    pub fn kill(&mut self) {
        self.note("client killed");
        self.client = None;
        self.break_link();
        let wait = SECOND + MS * u32::try_from(self.below(2000)).unwrap();
        self.later(wait, Happens::Starts);
    }

    fn break_link(&mut self) {
        self.is_up = false;
        self.consumers.clear();
        self.connection += 1;
    }

    fn tell(&mut self, event: Event<Own>) {
        let Some((client, began)) = &mut self.client else { return };
        let since = self.now.saturating_sub(*began);
        let clock = Instant::now();
        let actions = client.handle(event, since);
        self.worked += clock.elapsed();
        for action in actions {
            match action {
                Action::Connect => {
                    self.connection += 1;
                    let connection = self.connection;
                    if let Some((client, _)) = &self.client {
                        self.inbox = client.inbox();
                    }
                    self.later(MS * 5, Happens::Connected(connection));
                }
                Action::Send(message) => {
                    let connection = self.connection;
                    if self.is_up && !self.happens(self.faults.lose) {
                        let delay = MS * u32::try_from(1 + self.below(3)).unwrap();
                        self.later(delay, Happens::Sent(connection, message));
                    }
                }
                Action::Say(level, line) => self.note(format!("{level} {line}")),
                Action::Do(task) => {
                    self.perform(task);
                    if self.client.is_none() {
                        return;
                    }
                }
                Action::Exit(exit) => panic!("the client ends: {exit:?}"),
                Action::StopListening => {}
            }
        }
    }

    /// A step that a kill may come before or after.
    fn killed(&mut self) -> bool {
        let killed = self.happens(self.faults.kill);
        if killed {
            self.kill();
        }
        killed
    }

    fn perform(&mut self, task: Task) {
        if self.killed() {
            return;
        }
        match task {
            Task::Keep(text) if self.state_is_writable => self.kept = Some(text),
            Task::Keep(_) => self.later(Duration::ZERO, Happens::Fails(self.process, None)),
            Task::HandOver { call, .. } if !self.state_is_writable => {
                self.later(Duration::ZERO, Happens::Fails(self.process, Some(call)));
            }
            Task::HandOver { call, memory, request } => {
                if let Some(memory) = memory {
                    self.kept = Some(memory);
                    if self.killed() {
                        return;
                    }
                }
                if let Request::Apply(_) = Request::from_json_bytes(&request).unwrap() {
                    assert_ne!(self.host_is_busy, Some(self.process), "one apply at a time");
                    self.host_is_busy = Some(self.process);
                    self.hand_overs += 1;
                }
                let took = MS * u32::try_from(5 + self.below(200)).unwrap();
                let fails = self.happens(self.faults.host_fails);
                let process = self.process;
                self.later(took, Happens::HostEnds { process, call, request, fails });
                self.killed();
            }
            Task::Print(_) | Task::Verdict(_) => {}
        }
    }

    // Time.

    /// Lets the world go on for so long.
    pub fn go(&mut self, time: Duration) {
        let end = self.now + time;
        let (mut spins, mut last) = (0, Duration::ZERO);
        loop {
            self.beat();
            let due = self.client.as_ref().and_then(|(client, began)| Some(client.next_deadline()? + *began));
            let next = self.queue.keys().next().map(|(at, _)| *at);
            let beat = self.consumers.iter().map(|consumer| consumer.beat).min();
            let at = [due, next, beat].into_iter().flatten().min().unwrap_or(end).max(self.now);
            if at > end {
                self.now = end;
                return;
            }
            self.now = at;
            if self.happens(self.faults.break_link) && self.is_up {
                self.note("the link breaks");
                self.break_link();
                self.tell(Event::Down { why: "broken".to_owned() });
                continue;
            }
            if next.is_some_and(|next| next <= self.now) {
                let (_, what) = self.queue.pop_first().unwrap();
                self.step(what);
            } else if due.is_some_and(|due| due <= self.now) {
                self.tell(Event::Due);
                spins = if self.now == last { spins + 1 } else { 0 };
                last = self.now;
                assert!(spins < 1000, "the client spins");
            }
        }
    }

    fn beat(&mut self) {
        for place in 0..self.consumers.len() {
            if self.consumers[place].beat > self.now {
                continue;
            }
            let Consumer { deliver, delivered, .. } = &self.consumers[place];
            let headers = format!("NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {delivered}\r\n\r\n");
            let delivery = Delivery {
                place: deliver.rsplit('.').next().unwrap().parse().unwrap(),
                subject: deliver.clone(),
                reply: None,
                headers: headers.into_bytes(),
                body: Vec::new(),
            };
            self.consumers[place].beat = self.now + SECOND * 5;
            self.bring(Event::Delivery(delivery));
        }
    }

    fn step(&mut self, what: Happens) {
        match what {
            Happens::Starts => self.starts(),
            Happens::Connected(connection) if connection == self.connection && self.client.is_some() => {
                if self.bus_is_up {
                    self.is_up = true;
                    self.consumers.clear();
                    self.last_to_client = self.now;
                    self.tell(Event::Up { server: "sim".to_owned(), max_payload: 1 << 20 });
                } else {
                    self.tell(Event::Down { why: "no server".to_owned() });
                }
            }
            Happens::Sent(connection, message) if connection == self.connection && self.is_up => {
                self.sent(&message);
            }
            Happens::Comes(connection, event) if connection == self.connection && self.is_up => {
                self.tell(event);
            }
            Happens::HostEnds { process, call, request, fails } => {
                let result = self.host(&request, fails);
                if self.host_is_busy == Some(process)
                    && matches!(Request::from_json_bytes(&request), Ok(Request::Apply(_)))
                {
                    self.host_is_busy = None;
                }
                if process == self.process {
                    self.tell(Event::Own(Own::Ended { call, result }));
                }
            }
            Happens::Fails(process, call) if process == self.process => {
                let why = "no space left on the device".to_owned();
                self.tell(Event::Own(match call {
                    Some(call) => Own::Ended { call, result: Err(why) },
                    None => Own::NotKept(why),
                }));
            }
            Happens::Connected(_) | Happens::Sent(..) | Happens::Comes(..) | Happens::Fails(..) => {}
        }
    }

    /// The bus goes away.
    pub fn bus_away(&mut self) {
        self.bus_is_up = false;
        self.break_link();
        self.tell(Event::Down { why: "the bus is away".to_owned() });
    }
}

fn matches(filter: &str, key: &str) -> bool {
    filter == ">" || filter == key || filter.strip_suffix('>').is_some_and(|prefix| key.starts_with(prefix))
}
