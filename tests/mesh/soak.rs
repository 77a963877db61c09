//! A soak: for a given time an operator assigns, unassigns, changes and rotates, while every program and the bus are killed
//! and frozen; then the faults end, and every file of every node has to be what the controller's plan says.
//!
//! `packaging/soak-mesh MINUTES` runs it. The seed that is printed first draws the same again; how it meets is the
//! machine's doing.

use super::judge::Judge;
use super::lab::{APPLIED, ASSIGNMENTS, DECLARATIONS, Lab, MODULES, NEEDS, SETTINGS, SOON, until};
use super::story::{NODES, holding};
use super::support::wait;
use super::watch::{self, Watch};
use crate::chance::Chance;
use nkeys::KeyPair;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long everything may take to be right again once the faults are off.
const RECOVERY: Duration = Duration::from_secs(180);

/// How long the host may take to put an edited file right: twice its interval.
const HEALED: Duration = Duration::from_secs(10);

/// How long nothing may be written after that.
const QUIET: Duration = Duration::from_secs(15);

/// What an operator may assign, beside the provider, which stays where it is.
const ASSIGNABLE: [&str; 5] = ["web", "shell", "motd", "metrics", "site"];

#[derive(Debug, Clone, Copy)]
enum Act {
    Assign,
    Unassign,
    Settings,
    Rotate,
    Bound,
    Edit,
    Kill,
    Freeze,
    KillBus,
    FreezeBus,
}

const ACTS: [(usize, Act); 10] = [
    (8, Act::Assign),
    (3, Act::Unassign),
    (6, Act::Settings),
    (4, Act::Rotate),
    (3, Act::Bound),
    (2, Act::Edit),
    (5, Act::Kill),
    (4, Act::Freeze),
    (1, Act::KillBus),
    (1, Act::FreezeBus),
];

struct Soak {
    lab: Lab,
    chance: Chance,
    provider: KeyPair,
    assigned: BTreeMap<&'static str, BTreeSet<&'static str>>,
    bound: BTreeMap<&'static str, u64>,
    /// What was edited by hand since a module was taken off.
    edited: Vec<(PathBuf, String)>,
    turn: u64,
    tally: BTreeMap<String, u64>,
    trouble: Vec<String>,
}

impl Soak {
    fn count(&mut self, what: &str) {
        *self.tally.entry(what.to_owned()).or_default() += 1;
    }

    /// A command that may be refused while something is away: then it counts as that, with the first line of why.
    fn try_command(&mut self, what: &str, args: &[&str]) -> bool {
        let ended = self.lab.run("controller", "mesh-controller", args);
        if ended.status.success() {
            self.count(what);
            return true;
        }
        let why = ended.stderr.lines().next().unwrap_or_default().to_owned();
        println!("{what} refused, {}: {why}", ended.status);
        self.count(&format!("{what}, refused"));
        false
    }

    /// Sends all that differs, whatever it takes away.
    fn push(&mut self) {
        let planned = self.lab.run("controller", "mesh-controller", &["plan", "--json"]);
        let plan: Value = serde_json::from_str(&planned.stdout).unwrap_or_default();
        match plan["digest"].as_str() {
            Some(digest) => drop(self.try_command("push", &["push", "--yes", digest])),
            None => self.trouble.push(format!("no plan: {planned:?}")),
        }
    }

    fn answer(&self, node: &str) {
        let value = json!({"host": format!("10.0.0.{}", self.bound[node]), "port": 5432});
        let key = format!("{node}.web.postgres.database");
        self.lab.answer_as(&self.provider, "cellar", "postgres", &key, &value);
    }

    fn any_assigned(&mut self) -> Option<(&'static str, &'static str)> {
        let all: Vec<_> = self
            .assigned
            .iter()
            .flat_map(|(node, modules)| modules.iter().map(|module| (*node, *module)))
            .collect();
        (!all.is_empty()).then(|| *self.chance.pick(&all))
    }

    /// The host keeps what a person changed when its module goes, and then it stands in the way of the next one. So an edit is
    /// put right before that: by the host, or by the person where the host has let go of the file.
    fn take_edits_back(&mut self) {
        for (path, text) in std::mem::take(&mut self.edited) {
            let until = Instant::now() + HEALED;
            while fs::read_to_string(&path).is_ok_and(|now| now == text) {
                if Instant::now() > until {
                    let _ = fs::remove_file(&path);
                    self.count("edit taken back by hand");
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    }

    fn change_settings(&mut self) {
        let turn = self.turn;
        let (module, settings) = match self.chance.below(3) {
            0 => ("web", json!({"title": format!("turn \"{turn}\" \\ é"), "pool": turn % 200 + 1})),
            1 => ("shell", json!({"prompt": format!("turn {turn} %# ")})),
            _ => ("metrics", json!({"labels": {"turn": turn}})),
        };
        let file = self.lab.path("settings");
        fs::write(&file, settings.to_string()).expect("a file");
        let mut args = vec!["settings", "set", module, &file];
        if self.chance.one_in(3) {
            args.extend(["--node", *self.chance.pick(&NODES)]);
        }
        if self.try_command("settings", &args) {
            self.push();
        }
    }

    fn freeze(&mut self) {
        let name = self.chance.pick(&self.lab.names()).clone();
        println!("{name}");
        self.lab.process(&name).freeze();
        // A push waits for a controller that stands still.
        if name != "controller" && name != "vault" && self.chance.one_in(2) {
            let next = self.chance.weighted(&ACTS[..3]);
            self.act(next);
        }
        thread::sleep(self.chance.between(100, 4000));
        self.lab.process(&name).thaw();
        self.count(&format!("freeze {}", kind(&name)));
    }

    fn act(&mut self, act: Act) {
        self.turn += 1;
        println!("{} {act:?}", mesh_daemon::time::rfc3339_millis(std::time::SystemTime::now()));
        let turn = self.turn;
        match act {
            Act::Assign => {
                let (node, module) = (*self.chance.pick(&NODES), *self.chance.pick(&ASSIGNABLE));
                if self.assigned.entry(node).or_default().contains(module) {
                    return;
                }
                if self.try_command("assign", &["assign", node, module]) {
                    self.assigned.entry(node).or_default().insert(module);
                    self.push();
                    if module == "web" {
                        self.bound.insert(node, turn % 250 + 1);
                        self.answer(node);
                    }
                }
            }
            Act::Unassign => {
                let Some((node, module)) = self.any_assigned() else { return };
                self.take_edits_back();
                if self.try_command("unassign", &["unassign", node, module]) {
                    self.assigned.entry(node).or_default().remove(module);
                    self.push();
                }
            }
            Act::Settings => self.change_settings(),
            Act::Rotate => {
                let webs: Vec<_> =
                    NODES.into_iter().filter(|node| self.assigned[node].contains("web")).collect();
                if webs.is_empty() || self.chance.one_in(3) {
                    self.try_command("rotate", &["secret", "rotate", "cellar", "postgres", "admin-password"]);
                } else {
                    let node = *self.chance.pick(&webs);
                    self.try_command("rotate", &["secret", "rotate", node, "web", "session-key"]);
                }
            }
            Act::Bound => {
                let webs: Vec<_> =
                    NODES.into_iter().filter(|node| self.assigned[node].contains("web")).collect();
                if !webs.is_empty() {
                    let node = *self.chance.pick(&webs);
                    self.bound.insert(node, turn % 250 + 1);
                    self.answer(node);
                    self.count("bound value");
                }
            }
            Act::Edit => {
                let files = watch::files(&self.lab.folder.path().join("nodes"));
                if !files.is_empty() {
                    let (path, text) =
                        (self.chance.pick(&files).clone(), format!("edited by hand, {turn}\n"));
                    if fs::write(&path, &text).is_ok() {
                        self.edited.push((path, text));
                    }
                    self.count("edit by hand");
                }
            }
            Act::Kill => {
                let name = self.chance.pick(&self.lab.names()).clone();
                println!("{name}");
                self.lab.end(&name);
                thread::sleep(self.chance.between(0, 400));
                self.lab.start_program(&name);
                self.count(&format!("kill {}", kind(&name)));
            }
            Act::Freeze => self.freeze(),
            Act::KillBus => {
                self.lab.server.kill();
                thread::sleep(self.chance.between(0, 2000));
                self.lab.server.restart();
                self.count("kill bus");
            }
            Act::FreezeBus => {
                self.lab.server.freeze();
                thread::sleep(self.chance.between(100, 6000));
                self.lab.server.thaw();
                self.count("freeze bus");
            }
        }
        for found in self.lab.look_after() {
            self.trouble.push(found);
        }
    }

    /// The faults are off: all is sent, and all comes to stand.
    fn end_well(&mut self) {
        for node in NODES.into_iter().filter(|node| self.assigned[node].contains("web")) {
            self.answer(node);
        }
        wait::until("the controller to have nothing to send", RECOVERY, || {
            self.push();
            let planned = self.lab.run("controller", "mesh-controller", &["plan"]);
            if planned.status.success() { Ok(()) } else { Err(planned.stdout + &planned.stderr) }
        });
        self.all_is_current();
    }

    fn all_is_current(&self) {
        let count = self.assigned.values().map(BTreeSet::len).sum::<usize>() + 1;
        wait::until("all modules to be current", RECOVERY, || {
            let said = self.lab.run("reader", "mesh-provisioner", &["status"]).stdout;
            let right = said.contains(&format!("{count}: {count} current"));
            let drift = self.lab.run("reader", "mesh-provisioner", &["ask", "drift"]).stdout;
            let gaps = self.lab.run("reader", "mesh-provisioner", &["ask", "gaps"]).stdout;
            if right { Ok(()) } else { Err(format!("{said}{drift}{gaps}")) }
        });
    }

    /// What is on the nodes that should not be, or the other way about.
    fn differences(&self, judge: &Judge) -> Vec<String> {
        let nodes = self.lab.folder.path().join("nodes");
        let mut expected: BTreeMap<_, _> =
            judge.files().into_iter().map(|((node, path), text)| (self.lab.on(&node, &path), text)).collect();
        let mut found = Vec::new();
        for path in watch::files(&nodes) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            match expected.remove(&path) {
                Some(wanted) if is_same(&path, &text, &wanted) => {}
                Some(wanted) => found.push(format!("{}: {text:?}, wanted {wanted:?}", path.display())),
                // The archive brings its own.
                None if path.starts_with(nodes.join(node_of(&nodes, &path)).join("srv/site")) => {}
                None => found.push(format!("{}: nobody wants it: {text:?}", path.display())),
            }
        }
        found.extend(expected.into_keys().map(|path| format!("{}: missing", path.display())));
        found
    }

    /// The secrets that stand anywhere but in the files that are to hold them.
    fn outside(&self, secrets: &BTreeSet<String>) -> Vec<String> {
        let mut places = vec![
            self.lab.server.directory().to_owned(),
            self.lab.folder.path().join("vault"),
            self.lab.folder.path().join("controller"),
        ];
        for node in NODES {
            places.extend(
                ["var/lib/mesh-host", "var/lib/mesh-provisioner-client", "run"]
                    .map(|path| self.lab.on(node, path)),
            );
        }
        let places: Vec<&Path> = places.iter().map(std::path::PathBuf::as_path).collect();
        let mut found = Vec::new();
        for secret in secrets {
            found.extend(holding(&places, secret));
            for name in self.lab.names() {
                if self.lab.log(&name).contains(secret.as_str()) {
                    found.push(format!("the log of {name}"));
                }
            }
        }
        found
    }

    fn sequences(&self) -> Vec<(&'static str, u64)> {
        let client = self.lab.role("administrator");
        let buckets = [ASSIGNMENTS, SETTINGS, DECLARATIONS, APPLIED, NEEDS];
        buckets.into_iter().map(|bucket| (bucket, client.last_sequence(bucket))).collect()
    }
}

fn node_of(nodes: &Path, path: &Path) -> String {
    let below = path.strip_prefix(nodes).expect("a path of a node");
    below.components().next().expect("a node").as_os_str().to_string_lossy().into_owned()
}

/// JSON is compared as JSON: the members of an object have no order.
fn is_same(path: &Path, text: &str, wanted: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    match path.extension().and_then(|end| end.to_str()) {
        Some("json") => value(text).is_some() && value(text) == value(wanted),
        Some("toml") => lines(text) == lines(wanted),
        _ => text == wanted,
    }
}

fn kind(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}

#[test]
#[ignore = "runs as long as it is told to: packaging/soak-mesh MINUTES"]
fn soak() {
    let minutes: f64 = from_environment("MESH_SOAK_MINUTES").unwrap_or(1.0);
    let seed = from_environment("MESH_SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let mut lab = Lab::start("15");
    println!("nats-server {:?}, {minutes} minutes, seed {seed}", lab.server.version());
    for node in NODES {
        lab.join(node);
        lab.controller(&["node", "set", node, "--zone", "home"]);
    }
    for module in ASSIGNABLE.iter().chain(&["postgres"]) {
        lab.controller(&["module", "add", &format!("{MODULES}/{module}.json")]);
    }
    lab.controller(&["assign", "cellar", "postgres"]);
    lab.push();
    lab.wait_current("cellar", "postgres");
    let provider = lab.provider("cellar", "postgres");
    let watch = Watch::start(&lab.folder.path().join("nodes"));
    let mut soak = Soak {
        lab,
        chance: Chance::new(seed, 0),
        provider,
        assigned: NODES.into_iter().map(|node| (node, BTreeSet::new())).collect(),
        bound: BTreeMap::new(),
        edited: Vec::new(),
        turn: 0,
        tally: BTreeMap::new(),
        trouble: Vec::new(),
    };
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < minutes * 60.0 {
        let act = soak.chance.weighted(&ACTS);
        soak.act(act);
        thread::sleep(soak.chance.between(0, 600));
    }

    println!("the faults are off");
    soak.end_well();
    // What was edited by hand is put right within the interval of the hosts.
    let judge = Judge::read(&soak.lab);
    let patience = Instant::now();
    let mut differences = soak.differences(&judge);
    while !differences.is_empty() && patience.elapsed() < SOON {
        thread::sleep(Duration::from_millis(200));
        differences = soak.differences(&judge);
    }

    // Everything is started again once more: nothing is written, on the nodes or on the bus.
    let (before, sequences) = (watch.so_far().0, soak.sequences());
    for name in soak.lab.names() {
        soak.lab.end(&name);
    }
    soak.lab.server.restart();
    for name in ["seat", "vault", "controller"] {
        soak.lab.start_program(name);
    }
    for node in NODES {
        soak.lab.start_program(&format!("host-{node}"));
        soak.lab.start_program(&format!("client-{node}"));
    }
    until("the seat to answer", || {
        let said = soak.lab.run("reader", "mesh-provisioner", &["ask", "drift"]);
        if said.status.success() { Ok(()) } else { Err(said.stdout + &said.stderr) }
    });
    soak.all_is_current();
    thread::sleep(QUIET);
    let (after, needless, mut secrets) = watch.so_far();
    secrets.extend(judge.secrets.values().filter(|secret| !secret.starts_with('{')).cloned());
    let outside = soak.outside(&secrets);
    soak.trouble.extend(soak.lab.look_after());
    for (what, count) in &soak.tally {
        println!("{count:6}  {what}");
    }
    println!("{before:6}  files written, {} secrets seen", secrets.len());
    println!("{:6}  differences of {} files", differences.len(), judge.files().len());
    println!("{:6}  needless writes, {} after all was started again", needless.len(), after - before);
    println!("{:6}  places outside with a secret", outside.len());
    assert_eq!(differences, Vec::<String>::new());
    assert_eq!(needless, Vec::<String>::new());
    assert_eq!(after, before, "files were written after all was started again");
    assert_eq!(soak.sequences(), sequences, "values were written after all was started again");
    assert_eq!(outside, Vec::<String>::new());
    assert_eq!(soak.trouble, Vec::<String>::new());
}
