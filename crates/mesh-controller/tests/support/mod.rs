//! A mesh with a real bus: a store, a server with the shipped configuration and the controller's file of users, and the
//! controller that serves.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use crossbeam_channel::{Sender, unbounded};
use mesh_bus::config::{self, BusConfig, Flags};
use mesh_controller::broker;
use mesh_controller::broker::load::Reload;
use mesh_controller::identity::{self, Signer};
use mesh_controller::join::tokens;
use mesh_controller::serve::{self, Settings, reads};
use mesh_controller::store::acts::Act;
use mesh_controller::store::{self, Paths, Store, migrate, now};
use mesh_daemon::exit::Exit;
use mesh_daemon::notify::Notify;
use mesh_daemon::signals::Signal;
use mesh_model::join::Request;
use mesh_model::json::Json;
use mesh_model::token::Token;
use mesh_runtime::Started;
use mesh_testing::accounts::Account;
use mesh_testing::client::Client;
use mesh_testing::server::Server;
use mesh_testing::setup::Setup;
use mesh_testing::wait;
use nkeys::{KeyPair, XKey};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

pub const WAIT: Duration = Duration::from_secs(20);

const SHIPPED: &str = include_str!("../../../../packaging/bus/mesh.conf");

/// The buckets of a mesh.
pub const BUCKETS: [&str; 10] = [
    "mesh-controller_declarations",
    "mesh-controller_assignments",
    "mesh-controller_settings",
    "mesh-controller_nodes",
    "mesh-controller_reports",
    "mesh-vault_revisions",
    "mesh-provisioner_registry",
    "mesh-provisioner_needs",
    "mesh-provisioner_applied",
    "mesh-provisioner_collect",
];

pub struct Mesh {
    pub server: Server,
    pub folder: TempDir,
    pub paths: Paths,
    pub keys: PathBuf,
}

pub fn act(command: &str) -> Act<'_> {
    Act { at: now(), who: "test", command, what: "", why: None }
}

/// A store with a mesh that has a vault, in a folder of its own.
pub fn store() -> (TempDir, Paths, Store) {
    let folder = TempDir::new().unwrap();
    let paths = Paths::below(folder.path());
    migrate(&paths).unwrap();
    let mut store = Store::open(&paths).unwrap();
    identity::make(&mut store, &act("migrate")).unwrap();
    let change = store.change_identity(&act("init")).unwrap();
    store::identity::set_vault(&change, &XKey::new().public_key().parse().unwrap()).unwrap();
    change.commit().unwrap();
    (folder, paths, store)
}

/// The shipped configuration, with a file for the process id.
pub fn shipped(server: &Server) -> Setup {
    shipped_with(server, "./users.conf")
}

/// One that includes another file of users.
pub fn shipped_with(server: &Server, users: &str) -> Setup {
    let pid = server.directory().join("nats.pid");
    Setup::custom(&SHIPPED.replace("include ./users.conf", &format!("include {users}")))
        .append(&format!("pid_file: \"{}\"", pid.display()))
}

/// A server that has the file of users beside its configuration.
pub fn server_with(users: &str) -> Server {
    let mut server = Setup::custom("jetstream { store_dir: $MESH_STORE_DIR }").start();
    std::fs::write(server.directory().join("users.conf"), users).unwrap();
    server.setup = shipped(&server);
    server.restart();
    server
}

/// A client that is let in by a key.
pub fn try_connect(server: &Server, pair: &KeyPair, inbox: &str) -> Result<Client, String> {
    Client::try_connect_by(server.address(), inbox, |info| {
        let nonce = info["nonce"].as_str().unwrap_or_default();
        let signature = pair.sign(nonce.as_bytes()).unwrap();
        json!({"nkey": pair.public_key(), "sig": data_encoding::BASE64URL_NOPAD.encode(&signature)})
    })
}

/// Registers the keys of nodes as if they had joined.
pub fn register(store: &mut Store, nodes: &[(String, Machine)]) {
    let change = store.change_inventory(&act("join")).unwrap();
    for (node, _) in nodes {
        store::nodes::add(&change, node, false, None, None).unwrap();
    }
    change.commit().unwrap();
    let change = store.change_identity(&act("join")).unwrap();
    for (node, machine) in nodes {
        let keys = store::identity::NodeKeys {
            node: node.clone(),
            epoch: 1,
            bus: machine.bus.public_key().parse().unwrap(),
            sealing: machine.sealing.public_key().parse().unwrap(),
            token: "t".into(),
            joined: now(),
            address: None,
            arch: None,
            facts: "{}".into(),
        };
        store::identity::put_node_keys(&change, &keys).unwrap();
    }
    change.commit().unwrap();
}

/// That many nodes with keys.
pub fn nodes(count: usize) -> Vec<(String, Machine)> {
    (0..count).map(|number| (format!("node-{number:04}"), Machine::new())).collect()
}

impl Mesh {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// One with nodes that have joined.
    pub fn with(nodes: &[(String, Machine)]) -> Self {
        let (folder, paths, mut store) = store();
        register(&mut store, nodes);
        let keys = folder.path().join("keys");
        let signer = identity::open(&store).unwrap();
        let made = broker::users(&mut store, &signer, Some(&keys), false, &act("broker users")).unwrap();
        let mesh = Mesh { server: server_with(&made.text), folder, paths, keys };
        let administrator = mesh.role("administrator", "_INBOX");
        for bucket in BUCKETS {
            administrator.create_bucket(bucket, &json!({"allow_rollup_hdrs": false, "allow_direct": true}));
        }
        mesh
    }

    pub fn store(&self) -> Store {
        Store::open(&self.paths).unwrap()
    }

    pub fn signer(&self) -> Signer {
        identity::open(&self.store()).unwrap()
    }

    pub fn seed(&self, role: &str) -> KeyPair {
        broker::keys::read(&self.keys.join(format!("{role}.nk"))).unwrap()
    }

    /// A client of one of the roles.
    #[track_caller]
    pub fn role(&self, role: &str, inbox: &str) -> Client {
        try_connect(&self.server, &self.seed(role), inbox).unwrap()
    }

    /// Who may do everything: no such account is shipped.
    pub fn controller(&self) -> Client {
        self.role("controller", "_INBOX_mesh.controller")
    }

    /// Runs a command of `program` with the controller's account: its exit code, what it printed, what it complained of.
    pub fn command(&self, program: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = std::process::Command::new(program);
        command.args(arguments).env("NATS_URL", self.server.client_url());
        command.env("MESH_STORE_INVENTORY", &self.paths.inventory);
        command.env("MESH_STORE_IDENTITY", &self.paths.identity);
        command.env("NATS_NKEY", self.keys.join("controller.nk"));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// Where the server is, for the controller.
    pub fn connection(&self) -> BusConfig {
        let flags = Flags {
            server: Some(self.server.client_url()),
            nkey: Some(self.keys.join("controller.nk").display().to_string()),
            ..Flags::default()
        };
        config::load(&flags, &|_| None).unwrap()
    }

    /// Starts a controller that serves.
    pub fn serve(&self) -> Serving {
        self.serve_with_users(self.server.directory().join("users.conf"))
    }

    /// One that has the file of users elsewhere.
    pub fn serve_with_users(&self, users: PathBuf) -> Serving {
        let connection = self.connection();
        let (signals, signal_receiver) = unbounded();
        let status = self.folder.path().join(format!("status-{}.json", nuid::next()));
        let settings = Settings {
            paths: self.paths.clone(),
            users_file: Some(users),
            reload: Reload::Pid(self.server.directory().join("nats.pid").display().to_string()),
            status_file: Some(status.clone()),
            version: "0.1.0".into(),
            reply_prefixes: Vec::new(),
            read: reads::read,
        };
        let started = Started {
            connection,
            signals: signal_receiver,
            notify: Notify::from_environment(&|_| None).unwrap(),
        };
        let thread = std::thread::spawn(move || serve::serve(started, settings));
        Serving { signals, status, thread }
    }

    /// A token for a new node.
    pub fn token(&self, node: &str) -> Token {
        let (mut store, signer) = (self.store(), self.signer());
        let servers = [self.server.client_url()];
        let wanted = tokens::Wanted {
            node,
            is_new: store::nodes::get(store.inventory(), node).unwrap().is_none(),
            adopted: false,
            valid: tokens::VALID,
            servers: &servers,
            pin: None,
        };
        let mut word = None;
        tokens::issue(&mut store, &signer, &wanted, &act("token issue"), |token| {
            word = Some(token.to_word());
            Ok(())
        })
        .unwrap();
        Token::from_word(&word.unwrap()).unwrap_or_else(|why| panic!("{why}"))
    }
}

/// A controller that serves in a thread.
pub struct Serving {
    pub signals: Sender<Signal>,
    status: PathBuf,
    pub thread: JoinHandle<Exit>,
}

impl Serving {
    pub fn status(&self) -> Value {
        let text = std::fs::read_to_string(&self.status).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait_ready(&self) {
        wait::until("the controller to be ready", WAIT, || {
            let status = self.status();
            if status["ready"] == true { Ok(()) } else { Err(status.to_string()) }
        });
    }

    pub fn stop(self) -> Exit {
        self.signals.send(Signal::Stop).unwrap();
        self.thread.join().unwrap()
    }
}

/// The keys of a machine that joins.
pub struct Machine {
    pub bus: KeyPair,
    pub sealing: XKey,
}

impl Machine {
    pub fn new() -> Self {
        Machine { bus: KeyPair::new_user(), sealing: XKey::new() }
    }

    /// The body of its request to join.
    pub fn request(&self, token: &Token) -> Vec<u8> {
        self.request_with(token, r#"{"arch":"x86_64","address":"10.0.0.7"}"#)
    }

    /// One with these facts.
    pub fn request_with(&self, token: &Token, facts: &str) -> Vec<u8> {
        let bus = self.bus.public_key().parse().unwrap();
        let sealing = self.sealing.public_key().parse().unwrap();
        let facts = Json::parse(facts).unwrap();
        let request = Request::new(&token.id, token.mesh.as_str(), &token.node, bus, sealing, facts);
        serde_json::to_vec(&request.prove(&token.key.pair(), &self.bus).unwrap()).unwrap()
    }
}

/// A client of a machine that joins.
pub fn joiner(server: &Server, token: &Token) -> Client {
    try_connect(server, &token.joiner.pair(), "_INBOX_mesh.joiner").unwrap()
}

pub fn anybody() -> Account {
    Account::new("anybody", "")
}
