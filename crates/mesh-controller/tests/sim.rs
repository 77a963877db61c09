//! The machine of `serve` in a simulated world: connections that break, programs that are killed between what was intended
//! and what is done, leases that are taken, keys that others change, events that come late and in another order.
//!
//! `MESH_SIM_SEED=n` runs one seed alone; a failure names its seed. While faults last, nothing unsafe may happen; once they
//! end, everything must come right.

use mesh_controller::serve::machine::{Controller, Settings};
use mesh_controller::serve::task::{Lease, Own, Picture, Place, Task, UsersFile, Value};
use mesh_controller::store::sent::Bucket;
use mesh_jetstream::message::Outgoing;
use mesh_model::digest::Digest;
use mesh_runtime::{Action, Delivery, Event, Machine as _};
use mesh_service::identity::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SEEDS: u64 = 300;
/// How long the faults last, and how long the world may take to come right.
const FAULTS: Duration = Duration::from_secs(60);
const PEACE: Duration = Duration::from_secs(180);
const NODES: u64 = 3;

/// xorshift: the same seed, the same run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn one_in(&mut self, most: u64) -> bool {
        self.below(most) == 0
    }
}

#[derive(Clone)]
struct Row {
    value: Option<Vec<u8>>,
    sequence: u64,
    done: bool,
}

#[derive(Default)]
struct Stored {
    value: Option<Vec<u8>>,
    revision: u64,
}

#[derive(Clone)]
struct Consumer {
    name: String,
    deliver: String,
    delivered: u64,
}

struct World {
    chance: Chance,
    now: Duration,
    machine: Controller,
    /// What comes to the machine, and when.
    queue: BTreeMap<(Duration, u64), Event<Own>>,
    counter: u64,
    is_up: bool,
    rows: BTreeMap<Place, Row>,
    changed: bool,
    bus: BTreeMap<Place, Stored>,
    last: BTreeMap<Bucket, u64>,
    consumers: BTreeMap<Bucket, Consumer>,
    /// The fence of the store, and the one that the machine's process has.
    fence: u64,
    own_fence: Option<u64>,
    other_until: Duration,
    /// Keys that others changed: what is said of order does not hold for them.
    touched: BTreeSet<Place>,
    version: u64,
    junk: bool,
}

fn settings(start: u64) -> Settings {
    Settings {
        identity: Identity { id: format!("id{start}"), version: "0".into() },
        started: String::new(),
        secret: format!("s{start}"),
        mesh: nkeys::KeyPair::new_operator().public_key().parse().unwrap(),
        jitter: 0.5,
        reply_prefixes: Vec::new(),
    }
}

impl World {
    fn new(seed: u64) -> Self {
        World {
            chance: Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            now: Duration::ZERO,
            machine: Controller::new(settings(0)),
            queue: BTreeMap::new(),
            counter: 0,
            is_up: false,
            rows: BTreeMap::new(),
            changed: true,
            bus: BTreeMap::new(),
            last: BTreeMap::new(),
            consumers: BTreeMap::new(),
            fence: 0,
            own_fence: None,
            other_until: Duration::ZERO,
            touched: BTreeSet::new(),
            version: 0,
            junk: seed & 1 == 0,
        }
    }

    fn later(&mut self, event: Event<Own>, most_millis: u64) {
        let wait = Duration::from_millis(1 + self.chance.below(most_millis));
        self.counter += 1;
        self.queue.insert((self.now + wait, self.counter), event);
    }

    /// A push: the values of a module, and a declaration that names them; sometimes the module goes.
    fn push(&mut self) {
        self.version += 1;
        let node = format!("n{}", self.chance.below(NODES));
        let goes = self.chance.one_in(4);
        let value = |what: &str, gone: bool| (!gone).then(|| format!("{what} {}", self.version).into_bytes());
        let rows = [
            (Bucket::Assignments, format!("{node}.web"), value("a", goes)),
            (Bucket::Settings, format!("{node}.web"), value("s", goes)),
            (Bucket::Declarations, node, value(if goes { "empty" } else { "d" }, false)),
        ];
        for (bucket, key, value) in rows {
            self.rows.insert(Place { bucket, key }, Row { value, sequence: self.version, done: false });
        }
        self.changed = true;
    }

    fn handle(&mut self, event: Event<Own>) {
        let now = self.now;
        let actions = self.machine.handle(event, now);
        for action in actions {
            match action {
                Action::Connect => {
                    let fails = self.now < FAULTS && self.chance.one_in(3);
                    let event = if fails {
                        Event::Down { why: "refused".into() }
                    } else {
                        Event::Up { server: "s".into(), max_payload: 1 << 20 }
                    };
                    self.later(event, 50);
                }
                Action::Send(message) => self.send(&message),
                Action::Do(task) => self.perform(task),
                Action::StopListening | Action::Say(..) => {}
                Action::Exit(exit) => panic!("it ends: {exit:?}"),
            }
        }
    }

    fn send(&mut self, message: &Outgoing) {
        if !self.is_up {
            return;
        }
        let Some(reply) = message.reply.clone() else { return };
        let call = reply.rsplit('.').next().unwrap().parse().unwrap();
        let lost = self.now < FAULTS && self.chance.one_in(20);
        let body = if let Some(rest) = message.subject.strip_prefix("$JS.API.CONSUMER.CREATE.KV_") {
            if lost {
                return;
            }
            self.create(rest, &message.body)
        } else {
            let rest = message.subject.strip_prefix("$KV.").expect("a write");
            let (bucket, key) = rest.split_once('.').unwrap();
            Some(self.put(bucket, key, message))
        };
        let Some(body) = body else { return };
        if !lost {
            let body = body.into_bytes();
            self.later(Event::Reply { call, no_responders: false, error: None, body }, 30);
        }
    }

    fn bucket(name: &str) -> Option<Bucket> {
        Bucket::ALL.into_iter().find(|bucket| bucket.name() == name)
    }

    fn create(&mut self, rest: &str, body: &[u8]) -> Option<String> {
        let mut parts = rest.split('.');
        let (bucket, name) = (parts.next()?, parts.next()?.to_owned());
        let body: serde_json::Value = serde_json::from_slice(body).unwrap();
        let deliver = body["config"]["deliver_subject"].as_str().unwrap().to_owned();
        let Some(bucket) = Self::bucket(bucket) else {
            return Some(format!(r#"{{"name":"{name}","num_pending":0}}"#));
        };
        let consumer = Consumer { name: name.clone(), deliver, delivered: 0 };
        self.consumers.insert(bucket, consumer);
        let mut there: Vec<(u64, Place)> = self
            .bus
            .iter()
            .filter(|(place, _)| place.bucket == bucket)
            .map(|(place, stored)| (stored.revision, place.clone()))
            .collect();
        there.sort();
        let count = there.len();
        for (at, (_, place)) in there.into_iter().enumerate() {
            self.deliver(&place, (count - at - 1) as u64);
        }
        Some(format!(r#"{{"name":"{name}","num_pending":{count}}}"#))
    }

    fn deliver(&mut self, place: &Place, pending: u64) {
        let Some(consumer) = self.consumers.get_mut(&place.bucket) else { return };
        consumer.delivered += 1;
        let (name, number) = (consumer.name.clone(), consumer.delivered);
        let at: usize = consumer.deliver.rsplit('.').next().unwrap().parse().unwrap();
        let stored = &self.bus[place];
        let bucket = place.bucket.name();
        let reply = format!("$JS.ACK.KV_{bucket}.{name}.1.{}.{number}.1.{pending}", stored.revision);
        let headers: &[u8] =
            if stored.value.is_some() { b"" } else { b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n" };
        let delivery = Delivery {
            place: at,
            subject: format!("$KV.{bucket}.{}", place.key),
            reply: Some(reply),
            headers: headers.to_vec(),
            body: stored.value.clone().unwrap_or_default(),
        };
        // In order, as the server does; now and then one is dropped.
        if self.now < FAULTS && self.chance.one_in(50) {
            return;
        }
        self.counter += 1;
        self.queue.insert((self.now + Duration::from_millis(31), self.counter), Event::Delivery(delivery));
    }

    fn put(&mut self, bucket: &str, key: &str, message: &Outgoing) -> String {
        let bucket = Self::bucket(bucket).expect("an own bucket");
        let place = Place { bucket, key: key.to_owned() };
        let header = |name: &str| {
            message.headers.iter().find(|(header, _)| *header == name).map(|(_, value)| value.clone())
        };
        let expected: u64 = header("Nats-Expected-Last-Subject-Sequence").unwrap().parse().unwrap();
        assert_eq!(self.own_fence, Some(self.fence), "a write of {place:?} without the lease");
        let revision = self.bus.get(&place).map_or(0, |stored| stored.revision);
        if revision != expected {
            let error =
                r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence"},"seq":0}"#;
            return error.to_owned();
        }
        let value = header("KV-Operation").is_none().then(|| message.body.to_vec());
        self.check_order(&place, value.as_deref());
        let revision = self.store(&place, value);
        format!(r#"{{"stream":"KV_{}","seq":{revision}}}"#, bucket.name())
    }

    fn store(&mut self, place: &Place, value: Option<Vec<u8>>) -> u64 {
        let last = self.last.entry(place.bucket).or_default();
        *last += 1;
        let revision = *last;
        self.bus.insert(place.clone(), Stored { value, revision });
        self.deliver(place, 0);
        revision
    }

    /// A declaration is written after what it names; what the last one names is deleted after it.
    fn check_order(&self, place: &Place, value: Option<&[u8]>) {
        let node = place.key.split('.').next().unwrap();
        let of = |bucket, key: String| Place { bucket, key };
        let number = |value: &[u8]| -> u64 {
            String::from_utf8_lossy(value).rsplit(' ').next().unwrap().parse().unwrap_or(0)
        };
        let at = |place: &Place| self.bus.get(place).and_then(|stored| stored.value.as_deref());
        match (place.bucket, value) {
            (Bucket::Declarations, Some(value)) if value.starts_with(b"d") => {
                for bucket in [Bucket::Assignments, Bucket::Settings] {
                    let part = of(bucket, format!("{node}.web"));
                    if !self.touched.contains(&part) && self.rows[&part].sequence == number(value) {
                        assert!(
                            at(&part).is_some_and(|part| number(part) >= number(value)),
                            "{place:?} before {part:?}"
                        );
                    }
                }
            }
            (Bucket::Assignments | Bucket::Settings, None) => {
                let declaration = of(Bucket::Declarations, node.to_owned());
                if !self.touched.contains(&declaration) {
                    assert!(
                        at(&declaration).is_some_and(|there| there.starts_with(b"empty")),
                        "{place:?} too early: {:?}, wanted {:?}",
                        at(&declaration).map(String::from_utf8_lossy),
                        self.rows
                            .iter()
                            .filter(|(place, _)| place.key.starts_with(node))
                            .map(|(place, row)| (place.bucket, row.sequence, row.done))
                            .collect::<Vec<_>>()
                    );
                }
            }
            _ => {}
        }
    }

    fn perform(&mut self, task: Task) {
        let slow = if self.now < FAULTS && self.chance.one_in(30) { 3_000 } else { 5 };
        let own = match task {
            Task::Lease => self.lease(),
            Task::Load { anyway } => {
                if anyway || self.changed {
                    self.changed = false;
                    Own::Picture(self.picture())
                } else {
                    Own::Unchanged
                }
            }
            Task::Fetch(places) => {
                if self.own_fence.is_none() {
                    Own::Failed(
                        mesh_controller::serve::task::Failed::Fetch(places),
                        "the lease was lost".into(),
                    )
                } else {
                    let value = |place: &Place| self.rows.get(place).and_then(|row| row.value.clone());
                    Own::Values(places.iter().map(|place| (place.clone(), value(place))).collect())
                }
            }
            Task::Done(done) => {
                for (place, digest, _) in done {
                    if let Some(row) = self.rows.get_mut(&place)
                        && row.value.as_deref().map(Digest::of) == digest
                        && self.own_fence.is_some()
                    {
                        row.done = true;
                        // As the store does: a key that is gone has no row.
                        if row.value.is_none() {
                            self.rows.remove(&place);
                        }
                    }
                }
                Own::Noted
            }
            Task::Users(users) => {
                let fails = self.now < FAULTS && self.chance.one_in(3);
                Own::Users(users.generation, if fails { Err("not loaded".into()) } else { Ok(()) })
            }
            Task::Raise(_)
            | Task::Release
            | Task::Join(_)
            | Task::Reports(_)
            | Task::Cleaned(_)
            | Task::Read { .. } => return,
        };
        self.later(Event::Own(own), slow);
    }

    fn lease(&mut self) -> Own {
        Own::Lease(match self.own_fence {
            Some(fence) if fence == self.fence => Lease::Ours(fence),
            Some(_) => {
                self.own_fence = None;
                Lease::Lost("another has it".into())
            }
            None if self.now < self.other_until => Lease::Theirs("another".into()),
            None => {
                self.fence += 1;
                self.own_fence = Some(self.fence);
                Lease::Ours(self.fence)
            }
        })
    }

    fn picture(&self) -> Picture {
        let value = |(place, row): (&Place, &Row)| Value {
            place: place.clone(),
            digest: row.value.as_deref().map(Digest::of),
            sequence: row.sequence,
            done: row.done,
        };
        let digest = Digest::of(b"");
        let users = UsersFile {
            generation: 1,
            digest,
            text: "users: []".into(),
            users: 1,
            missing: Vec::new(),
            gone: BTreeSet::new(),
        };
        Picture {
            only: None,
            values: self.rows.iter().map(value).collect(),
            users: Some(users),
            nodes: BTreeSet::new(),
            leaving: BTreeSet::new(),
        }
    }

    fn fault(&mut self) {
        match self.chance.below(12) {
            0 | 1 => self.disconnect(),
            2 => {
                // Killed: what it knew is gone, what the store and the bus have is not.
                self.counter += 1;
                self.machine = Controller::new(settings(self.counter));
                self.queue.clear();
                self.consumers.clear();
                (self.is_up, self.own_fence) = (false, None);
            }
            3 if self.own_fence.is_some() => {
                // Another program takes the lease, as after a pause.
                self.fence += 1;
                self.own_fence = Some(self.fence - 1);
                self.other_until = self.now + Duration::from_secs(7);
                // The pause itself: the machine finds out by its clock before it writes.
                self.now += Duration::from_secs(16);
            }
            4 | 5 if self.junk => {
                let places: Vec<Place> = self.rows.keys().cloned().collect();
                if !places.is_empty() {
                    let place =
                        places[usize::try_from(self.chance.below(places.len() as u64)).unwrap()].clone();
                    let value = self.chance.one_in(2).then(|| b"junk".to_vec());
                    self.touched.insert(place.clone());
                    self.store(&place, value);
                }
            }
            _ => self.push(),
        }
    }

    fn disconnect(&mut self) {
        if self.is_up {
            self.is_up = false;
            self.consumers.clear();
            // What was on its way over the connection is lost.
            self.queue.retain(|_, event| !matches!(event, Event::Reply { .. } | Event::Delivery(_)));
            self.later(Event::Down { why: "broken".into() }, 5);
        }
    }

    /// One step: the next event, or the machine's deadline.
    fn step(&mut self) {
        let due = self.machine.next_deadline().unwrap_or(self.now + Duration::from_secs(1));
        match self.queue.first_key_value().map(|(key, _)| *key) {
            Some(key) if key.0 <= due.max(self.now) => {
                self.now = self.now.max(key.0);
                let event = self.queue.remove(&key).unwrap();
                match event {
                    Event::Up { .. } => self.is_up = true,
                    Event::Down { .. } => self.is_up = false,
                    _ => {}
                }
                self.handle(event);
            }
            _ => {
                self.now = self.now.max(due) + Duration::from_millis(1);
                self.handle(Event::Due);
            }
        }
    }

    fn is_right(&self) -> bool {
        self.rows.iter().all(|(place, row)| {
            let there = self.bus.get(place).and_then(|stored| stored.value.as_ref());
            row.done && there == row.value.as_ref()
        }) && self.machine.is_ready(self.now)
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..3 {
        world.push();
    }
    let mut next_fault = Duration::from_millis(200);
    while world.now < FAULTS {
        world.step();
        if world.now >= next_fault {
            world.fault();
            next_fault = world.now + Duration::from_millis(world.chance.below(2_000));
        }
    }
    while !world.is_right() {
        assert!(
            world.now < FAULTS + PEACE,
            "not right after {} s: {}",
            world.now.as_secs(),
            serde_json::to_string(&world.machine.status(world.now)).unwrap()
        );
        world.step();
    }
}

#[test]
fn whatever_happens_comes_right_and_nothing_is_written_out_of_order_or_without_the_lease() {
    if let Ok(seed) = std::env::var("MESH_SIM_SEED") {
        return run(seed.parse().expect("a number"));
    }
    for seed in 0..SEEDS {
        let ended = std::panic::catch_unwind(|| run(seed));
        assert!(ended.is_ok(), "MESH_SIM_SEED={seed} fails");
    }
}
