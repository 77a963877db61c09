//! One run: a vault, its store, nodes that ask, an operator, and faults.

use crate::bus::{Bus, Sent};
use crate::support::controller::{Controller, bound, consumers, made};
use mesh_model::keys::SealingKey;
use mesh_model::sealed::Sealed;
use mesh_model::vault_api::{ConsumersAnswer, SecretAnswer};
use mesh_runtime::{Action, Event};
use mesh_service::identity::Identity;
use mesh_testing::dice::Dice;
use mesh_vault::keeper::Keeper;
use mesh_vault::key;
use mesh_vault::machine::{Settings, Vault};
use mesh_vault::place::Place;
use mesh_vault::store::{Setup, Store};
use mesh_vault::task::{Done, Task};
use nkeys::XKey;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tempfile::TempDir;

/// How often a fault happens, in a thousand chances.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    /// A message to or from the vault is lost.
    pub(crate) loss: u32,
    /// The program is killed before or after a step.
    pub(crate) kill: u32,
    /// The connection breaks.
    pub(crate) cut: u32,
}

const NODES: [&str; 3] = ["attic", "cellar", "garage"];
const SECRETS: [(&str, &str, &str); 5] = [
    ("attic", "web", "key"),
    ("attic", "web", "salt"),
    ("garage", "web", "key"),
    ("attic", "web", "database"),
    ("garage", "web", "database"),
];

pub(crate) struct World {
    dice: Dice,
    faults: Faults,
    now: Duration,
    started: Duration,
    pub(crate) bus: Bus,
    controller: Controller,
    /// Every host's key that there ever was.
    hosts: BTreeMap<String, Vec<XKey>>,
    folder: TempDir,
    vault: Option<(Vault, Keeper)>,
    /// Whether the connection is up, and what is on its way to the vault.
    connected: bool,
    coming: VecDeque<Event<Done>>,
    asked: u64,
    /// What was ever handed out: by place, revision and who got it.
    values: BTreeMap<(Place, u64), Vec<u8>>,
    newest: BTreeMap<(String, Place), u64>,
    /// Everything that left the program: messages, log lines, status.
    said: Vec<u8>,
    pub(crate) kills: usize,
    calm: bool,
}

fn folder() -> TempDir {
    // In memory where that is possible: what a crash of the machine leaves is SQLite's own matter.
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> World {
        let folder = folder();
        let mut store = Store::make(folder.path()).unwrap();
        let own = key::make(folder.path()).unwrap();
        let controller = Controller::new(own);
        store.set_up(&Setup { mesh: controller.key(), recovery: None }).unwrap();
        drop(store);
        let mut world = World {
            dice: Dice::new(seed),
            faults,
            now: Duration::from_secs(1_796_000_000),
            started: Duration::ZERO,
            bus: Bus::default(),
            controller,
            hosts: BTreeMap::new(),
            folder,
            vault: None,
            connected: false,
            coming: VecDeque::new(),
            asked: 0,
            values: BTreeMap::new(),
            newest: BTreeMap::new(),
            said: Vec::new(),
            kills: 0,
            calm: false,
        };
        for node in NODES {
            world.join(node);
        }
        let database = bound("database", "postgres", "cellar", "db");
        world.assign("attic", "web", &json!([made("key", "hex"), made("salt", "base64url"), database]));
        world.assign("garage", "web", &json!([made("key", "raw"), database]));
        let of = [("attic", "web", "database"), ("garage", "web", "database")];
        world.assign("cellar", "db", &json!([consumers("postgres", &of)]));
        world.restart();
        world
    }

    fn put(&mut self, bucket: &str, key: &str, value: &[u8]) {
        let (_, sent) = self.bus.put(bucket, key, value);
        self.bring(sent);
    }

    fn join(&mut self, node: &str) {
        self.controller.join(node);
        self.hosts.entry(node.to_owned()).or_default().push(self.controller.nodes[node].host.clone());
        let record = self.controller.record(node);
        self.put("mesh-controller_nodes", node, &record);
    }

    fn assign(&mut self, node: &str, module: &str, needs: &serde_json::Value) {
        let bytes = self.controller.assign(node, module, needs);
        self.put("mesh-controller_assignments", &format!("{node}.{module}"), &bytes);
        let declaration = self.controller.declare(node);
        self.put("mesh-controller_declarations", node, &declaration);
    }

    /// Starts the program again; what it had in memory is gone.
    pub(crate) fn restart(&mut self) {
        self.vault = None;
        self.disconnect();
        let store = Store::open(self.folder.path()).unwrap();
        let setup = store.setup().unwrap().unwrap();
        let pair = key::read(self.folder.path()).unwrap();
        let settings = Settings {
            identity: Identity { id: format!("V{}", self.dice.roll()), version: "0".to_owned() },
            started: "2026-12-01T00:00:00Z".to_owned(),
            inbox: format!("i{}", self.dice.roll()),
            names: format!("n{}", self.dice.roll()),
            jitter_seed: self.dice.roll(),
            mesh: setup.mesh,
            own: SealingKey::of(&pair),
            recovery: setup.recovery,
            no_recovery: false,
            remake: false,
            reply_prefixes: Vec::new(),
        };
        let vault = Vault::new(settings, store.holdings().unwrap());
        let mut dice = Dice::new(self.dice.roll());
        let chance = move |buffer: &mut [u8]| {
            buffer.fill_with(|| dice.roll().to_le_bytes()[0]);
            Ok(())
        };
        self.vault = Some((vault, Keeper::with_chance(store, pair, Box::new(chance))));
        self.started = self.now;
        self.handle(Event::Clock(self.now));
    }

    fn disconnect(&mut self) {
        self.connected = false;
        self.coming.clear();
        self.bus.cut();
    }

    fn fault(&mut self, per_mille: u32) -> bool {
        !self.calm && self.dice.chance(per_mille)
    }

    fn killed(&mut self) -> bool {
        let dies = self.fault(self.faults.kill);
        if dies {
            self.kills += 1;
            self.restart();
        }
        dies
    }

    fn bring(&mut self, sent: Vec<Sent>) {
        for sent in sent {
            if self.fault(self.faults.loss) {
                continue;
            }
            self.coming.push_back(match sent {
                Sent::Reply { call, no_responders, body } => {
                    Event::Reply { call, no_responders, error: None, body }
                }
                Sent::Delivery(delivery) => Event::Delivery(delivery),
            });
        }
    }

    /// Passes an event to the machine and carries out its actions, unless it is killed before.
    fn handle(&mut self, event: Event<Done>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = self.now.saturating_sub(self.started);
            let Some((vault, _)) = &mut self.vault else { return };
            let actions = vault.handle(event, now);
            assert!(!vault.has_ended());
            if actions.iter().any(|action| matches!(action, Action::Say(..))) {
                self.said.extend(serde_json::to_vec(&vault.status()).unwrap());
            }
            for action in actions {
                if self.killed() {
                    return;
                }
                match action {
                    Action::Connect => {
                        self.disconnect();
                        self.connected = true;
                        let event = if self.fault(self.faults.cut) {
                            self.connected = false;
                            Event::Down { why: "no server".to_owned() }
                        } else {
                            Event::Up { server: "sim".to_owned(), max_payload: 1 << 20 }
                        };
                        self.coming.push_back(event);
                    }
                    Action::Send(message) => {
                        self.said.extend(&*message.body);
                        if !self.connected || self.fault(self.faults.loss) {
                            continue;
                        }
                        if message.reply.is_none() {
                            self.answered(&message.subject, &message.body);
                        } else {
                            let sent = self.bus.take(&message);
                            self.bring(sent);
                        }
                    }
                    Action::Do(task) => {
                        let Some(done) = self.perform(task) else { return };
                        events.push_back(Event::Own(done));
                    }
                    Action::Say(_, line) => self.said.extend(line.into_bytes()),
                    Action::StopListening | Action::Exit(_) => {}
                }
            }
        }
    }

    /// Carries out a task; nothing, if the program is killed after it, so that nobody learns of the commit.
    fn perform(&mut self, task: Task) -> Option<Done> {
        let (_, keeper) = self.vault.as_mut()?;
        let done = keeper.perform(task);
        (!self.killed()).then_some(done)
    }

    fn opened(&self, node: &str, open: impl Fn(&XKey) -> Option<(u64, Vec<u8>)>) -> (u64, Vec<u8>) {
        let found = self.hosts[node].iter().rev().find_map(open);
        found.unwrap_or_else(|| panic!("no key of {node} opens what it was given"))
    }

    /// A client has an answer.
    fn answered(&mut self, subject: &str, body: &[u8]) {
        if subject.starts_with("_INBOX.secret.") {
            let Ok(answer) = serde_json::from_slice::<SecretAnswer>(body) else { return };
            let place = Place::new(&answer.node, &answer.module, &answer.name);
            let label = self.controller.label(&place.node, &place.module, &place.name);
            let value = self.open(&place.node, &answer.sealed, &label, answer.revision);
            self.got(&place.node, &place, answer.revision, &value);
            let secrets = json!({place.name: answer.revision});
            self.apply(&place.node, &place.module, &secrets);
        } else if subject.starts_with("_INBOX.consumers.") {
            let Ok(answer) = serde_json::from_slice::<ConsumersAnswer>(body) else { return };
            for entry in &answer.sealed {
                let label = self.controller.consumer_label("cellar", "db", "postgres", &entry.of);
                let (revision, value) = self.opened("cellar", |host| {
                    let opened = entry.sealed.open(host, &self.controller.vault, &label).ok()?;
                    Some((opened.revision, opened.value.expose().to_vec()))
                });
                self.got("cellar", &Place::of_consumer(&entry.of), revision, &value);
            }
            let list = Place::of_list("cellar", "db", "postgres");
            self.got("cellar", &list, answer.revision, format!("{:?}", answer.sealed).as_bytes());
            let secrets = json!({"consumers:postgres": answer.revision});
            self.apply("cellar", "db", &secrets);
        }
    }

    fn open(&self, node: &str, sealed: &Sealed, label: &mesh_model::sealed::Label, revision: u64) -> Vec<u8> {
        let (found, value) = self.opened(node, |host| {
            let opened = sealed.open(host, &self.controller.vault, label).ok()?;
            Some((opened.revision, opened.value.expose().to_vec()))
        });
        assert_eq!(found, revision, "the answer and what is sealed name one revision");
        value
    }

    /// One revision has one value, for provider and consumer alike, and nobody is given an older one.
    fn got(&mut self, node: &str, place: &Place, revision: u64, value: &[u8]) {
        let newest = self.newest.entry((node.to_owned(), place.clone())).or_default();
        assert!(revision >= *newest, "{place}: revision {revision} behind {newest}");
        *newest = revision;
        let known = self.values.entry((place.clone(), revision)).or_insert_with(|| value.to_vec());
        assert!(known == value, "{place}: two values of revision {revision}");
    }

    /// The node applies what it got, sometimes.
    fn apply(&mut self, node: &str, module: &str, secrets: &serde_json::Value) {
        if !self.calm && self.dice.chance(300) {
            return;
        }
        let digest = mesh_model::digest::Digest::of(b"x");
        let applied = json!({
            "version": "1", "sequence": 1, "assignment": digest, "settings": digest, "resources": 0, "changed": 0,
            "needs": 1, "secrets": secrets,
        });
        self.put("mesh-provisioner_applied", &format!("{node}.{module}"), applied.to_string().as_bytes());
    }

    fn ask(&mut self, subject: &str, reply: &str, body: Vec<u8>) {
        self.asked += 1;
        if !self.connected || self.fault(self.faults.loss) {
            return;
        }
        let reply = Some(format!("_INBOX.{reply}.{}", self.asked));
        self.coming.push_back(Event::Request { place: 0, subject: subject.to_owned(), reply, body });
    }

    fn ask_secret(&mut self, (node, module, name): (&str, &str, &str)) {
        let body = json!({"node": node, "module": module, "name": name}).to_string().into_bytes();
        self.ask("mesh-vault.secret", "secret", body);
    }

    fn ask_consumers(&mut self) {
        let body =
            json!({"node": "cellar", "module": "db", "provision": "postgres"}).to_string().into_bytes();
        self.ask("mesh-vault.consumers", "consumers", body);
    }

    fn rotate(&mut self, name: &str) {
        let at = mesh_daemon::time::rfc3339(std::time::SystemTime::UNIX_EPOCH + self.now);
        let fields = json!({"node": "attic", "module": "web", "name": name});
        let id = format!("id-{}", self.dice.roll());
        let request = self.controller.request("rotate", &id, &at, &fields);
        self.ask("mesh-vault.rotate", "operator", request);
    }

    /// Time passes, and everything that is due or on its way happens.
    fn settle(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..20_000 {
            if let Some(event) = self.coming.pop_front() {
                self.handle(event);
                continue;
            }
            let (vault, _) = self.vault.as_ref().expect("a vault");
            match vault.next_deadline().map(|due| self.started + due) {
                Some(due) if due <= end => {
                    self.now = self.now.max(due);
                    self.handle(Event::Due);
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!(
            "the vault does not come to rest: {:?}",
            self.vault.as_ref().map(|(vault, _)| vault.next_deadline())
        );
    }

    pub(crate) fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.dice.below(20) {
                0..=8 => {
                    let of = *self.dice.pick(&SECRETS);
                    self.ask_secret(of);
                }
                9..=12 => self.ask_consumers(),
                13 => self.rotate("key"),
                14 if self.dice.chance(200) => {
                    let node = *self.dice.pick(&NODES);
                    self.join(node);
                }
                15 => {
                    // Somebody writes what is not ours, and deletes nothing.
                    let junk = self.dice.roll().to_string().into_bytes();
                    self.put("mesh-controller_declarations", "attic", &junk);
                    let declaration = self.controller.declare("attic");
                    self.put("mesh-controller_declarations", "attic", &declaration);
                }
                16 if self.fault(self.faults.cut * 5) => {
                    self.disconnect();
                    self.coming.push_back(Event::Down { why: "cut".to_owned() });
                }
                _ => {
                    let beats = self.bus.heartbeats();
                    self.bring(beats);
                }
            }
            let time = self.dice.within(2_000);
            self.settle(time);
        }
    }

    /// The faults end, and everything comes to rest.
    pub(crate) fn calm(&mut self) {
        self.calm = true;
        for _ in 0..24 {
            let beats = self.bus.heartbeats();
            self.bring(beats);
            self.ask_consumers();
            self.settle(Duration::from_secs(3));
        }
        for of in SECRETS {
            self.ask_secret(of);
            self.settle(Duration::from_secs(3));
        }
    }

    pub(crate) fn judge(&mut self) {
        let (vault, _) = self.vault.as_ref().unwrap();
        assert!(vault.is_ready(), "{:?}", vault.status());
        for (key, revisions) in &self.bus.revisions {
            assert!(revisions.is_sorted(), "{key} went back: {revisions:?}");
        }
        // Everybody has the newest of what is told, and what is told is what the store has.
        let store = Store::look(self.folder.path()).unwrap().holdings().unwrap();
        for (node, module, name) in SECRETS {
            let place = Place::new(node, module, name);
            let told = self.bus.get("mesh-vault_revisions", &place.key()).expect("a revision");
            let told: serde_json::Value = serde_json::from_slice(told).unwrap();
            let newest = self.newest.get(&(node.to_owned(), place.clone())).copied();
            assert_eq!(newest, told["revision"].as_u64(), "{place}");
            assert_eq!(newest, store.newest(&place).map(|(revision, _)| revision), "{place}");
        }
        assert_eq!(self.bus.keys("mesh-vault_revisions").len(), SECRETS.len() + 1);
        for ((place, revision), value) in &self.values {
            if place.provision().is_some() {
                continue;
            }
            let value = match mesh_model::secret::Credential::read(&mesh_model::secret::Secret::copy(value)) {
                Some(credential) => credential.password.expose().to_vec(),
                None => value.clone(),
            };
            let is_said = self.said.windows(value.len()).any(|window| window == value);
            assert!(!is_said, "the value of {place}, revision {revision}, was told in clear");
        }
    }
}
