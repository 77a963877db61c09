//! A whole mesh on a real bus: the five programs as they are built, and nodes, each in a folder of its own.

use super::support::client::Client;
use super::support::process::Process;
use super::support::program::{Finished, Program};
use super::support::server::Server;
use super::support::setup::Setup;
use super::support::transcript::Transcript;
use super::support::wait;
use mesh_model::rights::Inbox;
use nkeys::KeyPair;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// How long anything may take that works.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) const SHIPPED: &str = include_str!("../../packaging/bus/mesh.conf");
pub(crate) const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/sample/modules");

pub(crate) const ASSIGNMENTS: &str = "mesh-controller_assignments";
pub(crate) const SETTINGS: &str = "mesh-controller_settings";
pub(crate) const DECLARATIONS: &str = "mesh-controller_declarations";
pub(crate) const APPLIED: &str = "mesh-provisioner_applied";
pub(crate) const NEEDS: &str = "mesh-provisioner_needs";
pub(crate) const BOUND: &str = "postgres_bound";

/// A program that runs, and how to start it again.
struct Running {
    recipe: Program,
    process: Process,
    transcript: Transcript,
}

pub(crate) struct Lab {
    /// Dropped first: a program that loses its bus has nothing to say about it.
    running: BTreeMap<String, Running>,
    /// What programs wrote that have ended.
    ended: BTreeMap<String, String>,
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
    /// How often a host looks at everything by itself, in seconds.
    every: &'static str,
}

/// A program: one that is built beside the seat, since a test of the seat is certain of its own program alone, or the one
/// of that name in the folder `MESH_PROGRAMS`.
#[track_caller]
fn program(name: &str) -> String {
    let own = Path::new(env!("CARGO_BIN_EXE_mesh-provisioner")).with_file_name(name);
    let path = env::var_os("MESH_PROGRAMS").map_or(own, |folder| PathBuf::from(folder).join(name));
    assert!(path.exists(), "{} is not built: cargo build --workspace --bins", path.display());
    path.display().to_string()
}

impl Lab {
    /// A bus with the shipped accounts, the buckets, and the seat, the vault and the controller.
    #[track_caller]
    pub(crate) fn start(every: &'static str) -> Self {
        let folder = TempDir::new().expect("a folder");
        for name in ["vault", "controller", "nodes"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let server = Setup::custom("jetstream { store_dir: $MESH_STORE_DIR }").start();
        let mut lab = Self { running: BTreeMap::new(), ended: BTreeMap::new(), server, folder, every };
        lab.controller(&["migrate"]);
        let (keys, users) = (lab.path("keys"), lab.server.directory().join("users.conf"));
        lab.controller(&["broker", "users", "--keys", &keys, "--out", &users.display().to_string()]);
        let pid = lab.server.directory().join("nats.pid");
        lab.server.setup = Setup::custom(SHIPPED).append(&format!("pid_file: \"{}\"", pid.display()));
        lab.server.restart();

        lab.run("administrator", "mesh-provisioner", &["init"]).expect_code(0);
        lab.run("administrator", "mesh-controller", &["init"]).expect_code(0);
        let identity: Value = serde_json::from_str(&lab.controller(&["identity", "--json"])).expect("JSON");
        let recovery = lab.controller(&["operator", "key", "make", "--out", &lab.path("keys/recovery.xk")]);
        lab.controller(&["operator", "key", "set", recovery.trim()]);
        let mesh = identity["key"].as_str().expect("the key of the mesh");
        let said = lab.run("vault", "mesh-vault", &["init", "--mesh", mesh]).expect_code(0).stdout;
        let is_key = |word: &&str| word.len() == 56 && word.starts_with('X');
        let vault = said.split(|c: char| !c.is_ascii_alphanumeric()).find(is_key).expect("the vault's key");
        lab.controller(&["init", "--vault", vault]);
        for name in ["seat", "vault", "controller"] {
            lab.start_program(name);
        }
        for name in ["seat", "vault", "controller"] {
            lab.wait_ready(name);
        }
        lab
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A file or folder of a node.
    pub(crate) fn on(&self, node: &str, path: &str) -> PathBuf {
        self.folder.path().join("nodes").join(node).join(path.trim_start_matches('/'))
    }

    pub(crate) fn read(&self, node: &str, path: &str) -> Option<String> {
        fs::read_to_string(self.on(node, path)).ok()
    }

    /// A program of a node: what joining wrote is all that it needs.
    fn on_a_node(program_name: &str, args: &[&str]) -> Program {
        Program::new(args).binary(&program(program_name)).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    }

    /// A program with an account of its own, and the stores.
    fn recipe(&self, role: &str, program_name: &str, args: &[&str]) -> Program {
        Self::on_a_node(program_name, args)
            .env("NATS_URL", &self.server.client_url())
            .env("NATS_NKEY", &self.path(&format!("keys/{role}.nk")))
            .env("MESH_STORE_INVENTORY", &self.path("controller/inventory.db"))
            .env("MESH_STORE_IDENTITY", &self.path("controller/identity.db"))
            .env("MESH_VAULT_STORE", &self.path("vault"))
    }

    /// Runs a command with that account's key.
    #[track_caller]
    pub(crate) fn run(&self, role: &str, program: &str, args: &[&str]) -> Finished {
        self.recipe(role, program, args).run_within(SOON)
    }

    /// A command of the controller's that has to succeed.
    #[track_caller]
    pub(crate) fn controller(&self, args: &[&str]) -> String {
        self.run("controller", "mesh-controller", args).expect_code(0).stdout
    }

    /// Sends what differs; what it says.
    #[track_caller]
    pub(crate) fn push(&self) -> String {
        self.controller(&["push"])
    }

    /// Sends to one node what takes modules off it, too.
    #[track_caller]
    pub(crate) fn push_all_of(&self, node: &str) {
        let planned = self.run("controller", "mesh-controller", &["plan", node, "--json"]);
        let plan: Value = serde_json::from_str(&planned.stdout).expect("a plan as JSON");
        let digest = plan["digest"].as_str().expect("a digest");
        self.controller(&["push", node, "--yes", digest]);
    }

    /// How a server or a node's program is started.
    fn recipe_of(&self, name: &str) -> Program {
        let status = self.path(&format!("{name}.json"));
        match name.split_once('-') {
            Some(("host", node)) => Self::on_a_node(
                "mesh-host",
                &["serve", "--root", &self.path(&format!("nodes/{node}")), "--every", self.every],
            ),
            Some((_, node)) => Self::on_a_node(
                "mesh-provisioner-client",
                &["serve", "--root", &self.path(&format!("nodes/{node}"))],
            ),
            None if name == "seat" => {
                self.recipe("seat", "mesh-provisioner", &["serve", "--status-file", &status])
            }
            None if name == "vault" => {
                self.recipe("vault", "mesh-vault", &["serve", "--status-file", &status])
            }
            None => {
                let users = self.server.directory().join("users.conf").display().to_string();
                let pid = self.server.directory().join("nats.pid").display().to_string();
                let args = ["serve", "--users-file", &users, "--reload-pid", &pid, "--status-file", &status];
                self.recipe("controller", "mesh-controller", &args)
            }
        }
    }

    /// Starts a program that serves: `seat`, `vault`, `controller`, `host-NODE` or `client-NODE`.
    #[track_caller]
    pub(crate) fn start_program(&mut self, name: &str) {
        self.end(name);
        let recipe = self.recipe_of(name);
        let (process, transcript) = recipe.spawn(name);
        self.running.insert(name.to_owned(), Running { recipe, process, transcript });
    }

    /// SIGKILL, if it runs.
    pub(crate) fn end(&mut self, name: &str) {
        if let Some(mut running) = self.running.remove(name) {
            running.process.kill();
            self.ended.entry(name.to_owned()).or_default().push_str(&running.transcript.text());
        }
    }

    /// The process of a program that runs.
    #[track_caller]
    pub(crate) fn process(&self, name: &str) -> &Process {
        &self.running[name].process
    }

    /// Starts again whatever has ended by itself, as systemd would; says which, and how.
    pub(crate) fn look_after(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, running) in &mut self.running {
            let Some(status) = running.process.status() else { continue };
            let text = running.transcript.text();
            found.push(format!("{name} ended, {status}: {}", wait::tail(&text)));
            self.ended.entry(name.clone()).or_default().push_str(&text);
            (running.process, running.transcript) = running.recipe.spawn(name);
        }
        found
    }

    /// Everything that a program wrote.
    pub(crate) fn log(&self, name: &str) -> String {
        let mut text = self.ended.get(name).cloned().unwrap_or_default();
        if let Some(running) = self.running.get(name) {
            text.push_str(&running.transcript.text());
        }
        text
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.running.keys().cloned().collect()
    }

    #[track_caller]
    pub(crate) fn wait_ready(&self, name: &str) {
        let file = self.path(&format!("{name}.json"));
        until(&format!("{name} to be ready"), || {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if text.contains("\"ready\":true") { Ok(()) } else { Err(text) }
        });
    }

    /// A machine joins: a token, a join, a host and a client.
    #[track_caller]
    pub(crate) fn join(&mut self, node: &str) {
        let (root, token) = (self.path(&format!("nodes/{node}")), self.path("token"));
        fs::create_dir_all(&root).expect("a folder");
        self.controller(&["token", "issue", "--new", node, "--out", &token]);
        let word = fs::read_to_string(&token).expect("the token");
        fs::remove_file(&token).expect("the token");
        let join = Self::on_a_node("mesh-provisioner-client", &["join", "--root", &root]);
        join.env("MESH_TOKEN", word.trim()).run_within(SOON).expect_code(0);
        self.start_program(&format!("host-{node}"));
        self.start_program(&format!("client-{node}"));
    }

    /// A client with that key.
    pub(crate) fn client_of(&self, pair: &KeyPair, inbox: &str) -> Result<Client, String> {
        Client::try_connect_by(self.server.address(), inbox, |info| {
            let nonce = info["nonce"].as_str().unwrap_or_default();
            let signature = pair.sign(nonce.as_bytes()).expect("a signature");
            json!({"nkey": pair.public_key(), "sig": data_encoding::BASE64URL_NOPAD.encode(&signature)})
        })
    }

    /// A client of one of the roles.
    #[track_caller]
    pub(crate) fn role(&self, role: &str) -> Client {
        let seed = fs::read_to_string(self.path(&format!("keys/{role}.nk"))).expect("a seed");
        let pair = KeyPair::from_seed(seed.trim()).expect("a seed");
        let inbox = if role == "controller" { Inbox::Controller.prefix() } else { "_INBOX".to_owned() };
        until(&format!("the bus to let {role} in"), || self.client_of(&pair, &inbox))
    }

    /// The provider on a node: its program's account, made again.
    #[track_caller]
    pub(crate) fn provider(&self, node: &str, module: &str) -> KeyPair {
        let pair = KeyPair::new_user();
        self.controller(&["module", "issue", module, "--node", node, "--public-key", &pair.public_key()]);
        pair
    }

    /// Answers a consumer as its provider.
    #[track_caller]
    pub(crate) fn answer_as(&self, pair: &KeyPair, node: &str, module: &str, key: &str, value: &Value) {
        let inbox = Inbox::Module(node, module).prefix();
        let subject = format!("$KV.{module}_bound.{key}");
        // A server that loads its users again closes connections that it let in just before.
        until("the value of the provider to be stored", || {
            let client = self.client_of(pair, &inbox)?;
            let answer = client.request(&subject, value.to_string(), Duration::from_secs(5));
            let answer = answer.map_err(|error| error.to_string())?.json();
            if answer["seq"].is_u64() && answer["error"].is_null() { Ok(()) } else { Err(answer.to_string()) }
        });
    }

    /// How the seat sees a module of a node.
    pub(crate) fn state_of(&self, node: &str, module: &str) -> String {
        let asked = ["ask", "drift", "--node", node, "--module", module, "--json"];
        let answer = self.run("reader", "mesh-provisioner", &asked);
        let answer: Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
        answer["entries"][0]["state"].as_str().unwrap_or("-").to_owned()
    }

    #[track_caller]
    pub(crate) fn wait_current(&self, node: &str, module: &str) {
        until(&format!("{module} on {node} to be current"), || {
            let state = self.state_of(node, module);
            if state == "current" { Ok(()) } else { Err(state) }
        });
    }
}

/// Waits within [`SOON`].
#[track_caller]
pub(crate) fn until<T>(awaited: &str, look: impl FnMut() -> Result<T, String>) -> T {
    wait::until(awaited, SOON, look)
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in self.names() {
            wait::show_if_failing(&name, || self.log(&name));
        }
    }
}
