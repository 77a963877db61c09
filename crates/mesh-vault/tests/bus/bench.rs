//! A server with the mesh's accounts, a controller, and a vault as a child process.

use super::support::controller::Controller;
use mesh_model::keys::SealingKey;
use mesh_model::rights::Rights;
use mesh_testing::accounts::{Account, TESTER};
use mesh_testing::client::Client;
use mesh_testing::process::Process;
use mesh_testing::server::Server;
use mesh_testing::setup::Setup;
use mesh_testing::wait::{PATIENCE, show_if_failing, until};
use mesh_testing::wire::Message;
use mesh_vault::key;
use mesh_vault::wire::BUCKETS;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mesh-vault");

/// The nodes that the server knows.
pub(crate) const NODES: [&str; 3] = ["attic", "cellar", "garage"];

/// A mesh with a vault.
pub(crate) struct Bench {
    pub(crate) vault: Option<Running>,
    pub(crate) server: Server,
    pub(crate) controller: Controller,
    pub(crate) tester: Client,
    pub(crate) folder: TempDir,
}

/// A vault that runs.
pub(crate) struct Running {
    pub(crate) process: Process,
    log: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        show_if_failing("the vault", || self.log());
    }
}

impl Running {
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

fn account(user: &str, inbox: &str) -> Account {
    Account { inbox: Cow::Owned(inbox.to_owned()), ..Account::new(user, &format!("password-of-{user}")) }
}

/// The vault's account.
pub(crate) fn vault() -> Account {
    account("vault", "_INBOX_mesh.vault")
}

/// The account of a node's client.
pub(crate) fn node(name: &str) -> Account {
    account(name, &format!("_INBOX_mesh.node.{name}"))
}

/// The account of the controller.
pub(crate) fn controller() -> Account {
    account("controller", "_INBOX_mesh.controller")
}

/// A server whose accounts have exactly the rights of their roles.
pub(crate) fn setup() -> Setup {
    let block = |account: &Account, rights: &Rights| {
        format!("{{ user: {}, password: {}\n{} }}\n", account.user, account.password, rights.to_config())
    };
    let mut users = format!("{{ user: {}, password: {} }}\n", TESTER.user, TESTER.password);
    users += &block(&vault(), &Rights::of_vault());
    users += &block(&controller(), &Rights::of_controller(&[]));
    for name in NODES {
        users += &block(&node(name), &Rights::of_node(name, &[]).expect("a name"));
    }
    Setup::custom(&format!(
        "jetstream: enabled\naccounts {{ M {{ jetstream: enabled\n users: [\n{users}] }} }}\n"
    ))
    .without_tls()
}

impl Bench {
    /// A mesh whose buckets are there, and whose vault is set up and does not run yet.
    #[track_caller]
    pub(crate) fn new() -> Bench {
        Bench::on(setup().start())
    }

    #[track_caller]
    pub(crate) fn on(server: Server) -> Bench {
        let folder = TempDir::new().expect("a folder");
        let tester = server.client(&TESTER);
        for bucket in BUCKETS {
            tester.create_bucket(bucket, &json!({"allow_rollup_hdrs": false}));
        }
        let store = folder.path().join("store");
        // The controller is made first, so that the vault learns its key; then it learns the vault's.
        let mut controller = Controller::new(SealingKey::of(&nkeys::XKey::new()));
        let made = command(&store, &["init", "--mesh", controller.key().as_str()]);
        assert!(made.status.success(), "{made:?}");
        controller.vault = String::from_utf8(made.stdout).expect("text").trim().parse().expect("a key");
        Bench { vault: None, server, controller, tester, folder }
    }

    /// The same with a vault that answers.
    #[track_caller]
    pub(crate) fn started() -> Bench {
        let mut bench = Bench::new();
        bench.start(&[]);
        bench.wait_ready();
        bench
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn status_file(&self) -> PathBuf {
        self.folder.path().join("status.json")
    }

    /// Starts the vault, with further arguments.
    #[track_caller]
    pub(crate) fn start(&mut self, args: &[&str]) {
        self.vault = None;
        // The one before left its last words there.
        let _ = std::fs::remove_file(self.status_file());
        let status = self.status_file().display().to_string();
        let args = [&["--status-file", &status], args].concat();
        self.vault = Some(self.another(&self.store(), &args));
    }

    /// Starts a vault with that store.
    #[track_caller]
    pub(crate) fn another(&self, store: &Path, args: &[&str]) -> Running {
        let log = tempfile::Builder::new().prefix("log-").tempfile_in(self.folder.path()).expect("a file");
        let (file, log) = log.keep().expect("a log");
        let vault = vault();
        let mut command = Command::new(PROGRAM);
        command
            .arg("serve")
            .arg("--server")
            .arg(self.server.client_url())
            .arg("--store")
            .arg(store)
            .args(args)
            .env_clear()
            .env("NATS_USER", &*vault.user)
            .env("NATS_PASSWORD", &*vault.password)
            .stdout(file.try_clone().expect("a file"))
            .stderr(file);
        Running { process: Process::start("mesh-vault", &mut command), log }
    }

    #[track_caller]
    pub(crate) fn wait_ready(&self) {
        self.wait_status("the vault to be ready", |status| status["ready"] == json!(true));
    }

    /// Waits for a status file that fits.
    #[track_caller]
    pub(crate) fn wait_status(&self, what: &str, fits: impl Fn(&Value) -> bool) {
        until(what, PATIENCE, || {
            let text = std::fs::read(self.status_file()).map_err(|error| error.to_string())?;
            let status: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
            if fits(&status) { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// Lets nodes join: their records are in the bucket.
    pub(crate) fn join(&mut self, nodes: &[&str]) {
        for node in nodes {
            self.controller.join(node);
            self.tester.kv_put("mesh-controller_nodes", node, self.controller.record(node));
        }
    }

    /// Assigns, and writes the assignment and then the declaration.
    pub(crate) fn assign(&mut self, node: &str, module: &str, needs: &Value) {
        let bytes = self.controller.assign(node, module, needs);
        self.tester.kv_put("mesh-controller_assignments", format!("{node}.{module}"), bytes);
        self.declare(node);
    }

    pub(crate) fn declare(&mut self, node: &str) {
        let declaration = self.controller.declare(node);
        self.tester.kv_put("mesh-controller_declarations", node, declaration);
    }

    /// Writes what a module has applied.
    pub(crate) fn apply(&self, node: &str, module: &str, secrets: &Value) {
        let digest = mesh_model::digest::Digest::of(b"x");
        let applied = json!({
            "version": "1.0.0", "sequence": 1, "assignment": digest, "settings": digest, "resources": 0,
            "changed": 0, "needs": 1, "secrets": secrets,
        });
        self.tester.kv_put("mesh-provisioner_applied", format!("{node}.{module}"), applied.to_string());
    }

    /// Asks for a secret as the node's client.
    #[track_caller]
    #[expect(clippy::unused_self, reason = "it stands beside what else is asked of the mesh")]
    pub(crate) fn secret(&self, client: &Client, node: &str, module: &str, name: &str) -> Message {
        let request = json!({"node": node, "module": module, "name": name});
        crate::schema::check("secret_request", &request);
        client.request("mesh-vault.secret", request.to_string(), PATIENCE).expect("an answer")
    }

    /// Waits until the bucket of revisions says so much.
    #[track_caller]
    pub(crate) fn wait_revision(&self, key: &str, revision: u64) -> Value {
        until(&format!("revision {revision} at {key}"), PATIENCE, || {
            let stored = self.tester.kv_get("mesh-vault_revisions", key).ok_or("nothing is there")?;
            let value: Value = serde_json::from_slice(&stored.value).map_err(|error| error.to_string())?;
            if value["revision"] == json!(revision) { Ok(value) } else { Err(value.to_string()) }
        })
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        key::file(&self.store())
    }
}

/// Runs a command of the vault with that store.
pub(crate) fn command(store: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(args).arg("--store").arg(store).env_clear();
    command.output().expect("the program")
}
