//! A node below a folder: the real client, the real host, and who writes the buckets in place of the controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mesh_model::digest::Digest;
use mesh_model::keys::SealingKey;
use mesh_model::registry::ENTRIES;
use mesh_model::sealed::{Label, Sealed};
use mesh_model::secret::Secret;
use mesh_model::signed::{Envelope, PayloadType};
use mesh_testing::accounts::{self, TESTER};
use mesh_testing::client::Client;
use mesh_testing::server::Server;
use mesh_testing::setup::Setup;
use mesh_testing::wait;
use nkeys::{KeyPair, XKey};
use serde_json::{Value, json};

pub const ASSIGNMENTS: &str = "mesh-controller_assignments";
pub const SETTINGS: &str = "mesh-controller_settings";
pub const DECLARATIONS: &str = "mesh-controller_declarations";
pub const REPORTS: &str = "mesh-controller_reports";
pub const REVISIONS: &str = "mesh-vault_revisions";
pub const NEEDS: &str = "mesh-provisioner_needs";
pub const APPLIED: &str = "mesh-provisioner_applied";
pub const COLLECT: &str = "mesh-provisioner_collect";
pub const REGISTRY: &str = "mesh-provisioner_registry";

/// All of them.
pub const BUCKETS: [&str; 9] =
    [ASSIGNMENTS, SETTINGS, DECLARATIONS, REPORTS, REVISIONS, NEEDS, APPLIED, COLLECT, REGISTRY];

/// How long a change may take to the file.
pub const SOON: Duration = Duration::from_secs(15);

/// The bus, and the keys of the mesh.
pub struct Mesh {
    pub server: Server,
    pub tester: Client,
    key: KeyPair,
    vault: XKey,
    sequence: u64,
}

/// A program that is ended with the test.
pub struct Running(Child);

impl Running {
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One node.
pub struct Node {
    folder: tempfile::TempDir,
    host: Option<Running>,
    client: Option<Running>,
    url: String,
    sealing: SealingKey,
}

/// One module of a declaration.
pub struct Module {
    pub name: &'static str,
    pub assignment: Value,
    pub settings: Value,
}

pub fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_mesh-provisioner-client")).with_file_name(name);
    assert!(path.exists(), "{} is not built: cargo build -p {name}", path.display());
    path
}

impl Mesh {
    pub fn start() -> Self {
        let registry =
            "\"$JS.API.CONSUMER.CREATE.KV_mesh-provisioner_registry.*.$KV.mesh-provisioner_registry.>\"";
        let bound = "\"$JS.API.CONSUMER.CREATE.KV_postgres_bound.*.$KV.postgres_bound.attic.>\"";
        // The rights of a node in a mesh with one provider.
        let server = Setup::shipped().replace(registry, &format!("{registry}\n            {bound}")).start();
        let tester = server.client(&TESTER);
        for bucket in BUCKETS {
            tester.create_bucket(bucket, &json!({}));
        }
        for entry in &ENTRIES {
            tester.kv_put(REGISTRY, entry.kind, entry.to_json());
        }
        Mesh { server, tester, key: KeyPair::new_operator(), vault: XKey::new(), sequence: 0 }
    }

    /// The only key whose declarations count.
    pub fn key(&self) -> mesh_model::keys::MeshKey {
        self.key.public_key().parse().unwrap()
    }

    /// Ends the server and starts it again; it keeps its buckets.
    pub fn restart(&mut self) {
        self.server.restart();
        self.tester = self.server.client(&TESTER);
    }

    /// Writes what the controller would push.
    pub fn push(&mut self, modules: &[Module]) {
        self.sequence += 1;
        let mut parts = Vec::new();
        let mut writes = Vec::new();
        for Module { name, assignment, settings } in modules {
            let (assignment, settings) = (assignment.to_string(), settings.to_string());
            parts.push(json!({
                "module": name,
                "assignment": Digest::of(assignment.as_bytes()).to_string(),
                "settings": Digest::of(settings.as_bytes()).to_string(),
            }));
            writes.push((name, assignment, settings));
        }
        for (name, assignment, settings) in writes {
            self.tester.kv_put(ASSIGNMENTS, format!("attic.{name}"), assignment);
            self.tester.kv_put(SETTINGS, format!("attic.{name}"), settings);
        }
        let payload = json!({
            "mesh": "m1", "node": "attic", "sequence": self.sequence, "fence": 1,
            "at": "2026-11-30T20:00:00Z", "vault": self.vault.public_key(), "modules": parts,
            "adoption": null,
        });
        let bytes = payload.to_string().into_bytes();
        let envelope = Envelope::sign(PayloadType::Declaration, bytes, &self.key).unwrap();
        self.tester.kv_put(DECLARATIONS, "attic", envelope.to_bytes());
    }

    /// Answers the verbs for secrets and for consumers.
    pub fn vault(&self, node: &Node) -> Vault {
        let client = self.server.client(&TESTER);
        let requests = client.subscribe("mesh-vault.*", Some("q"));
        let secrets: Arc<Mutex<std::collections::BTreeMap<(String, String), Value>>> = Arc::default();
        let asked: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (secrets, asked, over) = (Arc::clone(&secrets), Arc::clone(&asked), Arc::clone(&over));
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Ok(message) = requests.next(Duration::from_millis(50)) else { continue };
                    let request: Value = serde_json::from_slice(&message.body).unwrap();
                    let text = |name: &str| request[name].as_str().unwrap().to_owned();
                    let name = match &message.subject[..] {
                        b"mesh-vault.consumers" => format!("consumers:{}", text("provision")),
                        _ => text("name"),
                    };
                    let key = (text("module"), name);
                    asked.lock().unwrap().push(key.clone());
                    let answer = secrets.lock().unwrap().get(&key).cloned().unwrap_or_else(
                        || json!({"error":{"code":404,"message":"not accepted yet","sequence":1}}),
                    );
                    client.publish(message.reply.unwrap(), answer.to_string());
                }
            })
        };
        let vault = XKey::from_seed(&self.vault.seed().unwrap()).unwrap();
        Vault { secrets, asked, over, thread: Some(thread), key: vault, sealing: node.sealing.clone() }
    }
}

fn seal(vault: &XKey, to: &SealingKey, label: &Label, revision: u64, value: &[u8]) -> Sealed {
    // One value for each place and revision, so the digest of both is a nonce.
    let digest = Digest::of(format!("{label:?} {revision}").as_bytes());
    let nonce = digest.bytes()[..24].try_into().unwrap();
    Sealed::seal(label, revision, &Secret::from(value.to_vec()), vault, to, nonce).unwrap()
}

/// The verb `mesh-vault.secret`.
pub struct Vault {
    secrets: Arc<Mutex<std::collections::BTreeMap<(String, String), Value>>>,
    asked: Arc<Mutex<Vec<(String, String)>>>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    key: XKey,
    sealing: SealingKey,
}

impl Vault {
    pub fn set(&self, module: &str, name: &str, revision: u64, value: &[u8]) {
        let label = Label {
            mesh: "m1".to_owned(),
            node: "attic".to_owned(),
            module: module.to_owned(),
            kind: "secret".to_owned(),
            name: name.to_owned(),
            of: None,
        };
        let sealed = seal(&self.key, &self.sealing, &label, revision, value);
        let answer = json!({"node":"attic","module":module,"name":name,"revision":revision,"sealed":sealed,"again_after":300});
        self.secrets.lock().unwrap().insert((module.to_owned(), name.to_owned()), answer);
    }

    /// The credentials of a provider's consumers: node, module and name of each, user and password.
    pub fn set_consumers(
        &self,
        module: &str,
        provision: &str,
        revision: u64,
        of: &[(&str, &str, &str, &str, &str)],
    ) {
        let sealed: Vec<Value> = of
            .iter()
            .map(|(node, of_module, name, user, password)| {
                let consumer = json!({"node":node,"module":of_module,"name":name});
                let label = Label {
                    mesh: "m1".to_owned(),
                    node: "attic".to_owned(),
                    module: module.to_owned(),
                    kind: "consumers".to_owned(),
                    name: provision.to_owned(),
                    of: Some(serde_json::from_value(consumer.clone()).unwrap()),
                };
                let credential = json!({"user":user,"password":password}).to_string();
                let sealed = seal(&self.key, &self.sealing, &label, revision, credential.as_bytes());
                json!({"for":consumer,"sealed":sealed})
            })
            .collect();
        let answer = json!({"node":"attic","module":module,"provision":provision,"revision":revision,"sealed":sealed,"again_after":300});
        let key = (module.to_owned(), format!("consumers:{provision}"));
        self.secrets.lock().unwrap().insert(key, answer);
    }

    pub fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Node {
    pub fn new(mesh: &Mesh) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for made in ["etc/mesh-host", "etc/mesh-provisioner-client", "srv"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        let host = json!({
            "mesh": "m1", "mesh-key": mesh.key.public_key(), "vault": mesh.vault.public_key(),
            "node": "attic", "client-uid": rustix::process::getuid().as_raw(),
        });
        fs::write(root.join("etc/mesh-host/host.json"), host.to_string()).unwrap();
        let client = json!({
            "mesh": "m1", "mesh-key": mesh.key.public_key(), "node": "attic",
            "servers": [mesh.server.client_url()],
        });
        fs::write(root.join("etc/mesh-provisioner-client/client.json"), client.to_string()).unwrap();
        let key = |what: &str| {
            let output =
                Command::new(program("mesh-host")).args(["key", what, "--root"]).arg(root).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        key("make");
        let sealing = key("show").trim().parse().unwrap();
        let url = mesh.server.client_url();
        Node { folder, host: None, client: None, url, sealing }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self, name: &str) -> Stdio {
        let path = self.root().join(name);
        Stdio::from(fs::OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    pub fn start_host(&mut self) {
        let child = Command::new(program("mesh-host"))
            .arg("serve")
            .arg("--root")
            .arg(self.root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log("host.log"))
            .spawn()
            .unwrap();
        self.host = Some(Running(child));
        let socket = self.root().join("run/mesh-host/host.sock");
        wait::until(
            "the host's socket",
            SOON,
            || if socket.exists() { Ok(()) } else { Err("none".to_owned()) },
        );
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let account = accounts::node("attic");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh-provisioner-client"));
        command
            .args(arguments)
            .arg("--root")
            .arg(self.root())
            .env_clear()
            .env("NATS_URL", &self.url)
            .env("NATS_USER", &*account.user)
            .env("NATS_PASSWORD", &*account.password)
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null());
        command
    }

    pub fn start_client(&mut self) {
        let mut command = self.command(&["serve"]);
        let child = command.stdout(Stdio::null()).stderr(self.log("client.log")).spawn().unwrap();
        self.client = Some(Running(child));
    }

    /// Ends the client at once, as a crash does.
    pub fn kill_client(&mut self) {
        self.client = None;
    }

    /// Waits until the client that was started last is ready.
    #[track_caller]
    pub fn until_ready(&self) {
        let pid = u64::from(self.client.as_ref().unwrap().0.id());
        let path = self.root().join("run/mesh-provisioner-client/status.json");
        wait::until("the client to be ready", SOON, || {
            let status: Value =
                serde_json::from_slice(&fs::read(&path).unwrap_or_default()).unwrap_or_default();
            if status["ready"] == true && status["pid"] == pid { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// The client and the host.
    pub fn processes(&self) -> Vec<u32> {
        [&self.client, &self.host].into_iter().flatten().map(|running| running.0.id()).collect()
    }

    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.root().join(path.trim_start_matches('/'))).ok()
    }

    pub fn logs(&self) -> String {
        ["client.log", "host.log"]
            .map(|name| {
                format!("--- {name}\n{}", fs::read_to_string(self.root().join(name)).unwrap_or_default())
            })
            .join("\n")
    }

    /// Waits until a file holds exactly that.
    #[track_caller]
    pub fn until_file(&self, path: &str, content: &[u8]) -> Duration {
        let begun = Instant::now();
        wait::until(&format!("{path} to be filled"), SOON, || match self.read(path) {
            Some(found) if found == content => Ok(()),
            found => Err(format!(
                "{:?}, {}",
                found.map(|found| String::from_utf8_lossy(&found).into_owned()),
                self.logs()
            )),
        });
        begun.elapsed()
    }

    /// Waits until a file is not there any more.
    #[track_caller]
    pub fn until_gone(&self, path: &str) {
        wait::until(&format!("{path} to be removed"), SOON, || {
            if self.read(path).is_none() { Ok(()) } else { Err(self.logs()) }
        });
    }

    /// Waits until a key of a bucket is so.
    #[track_caller]
    pub fn until_key(&self, mesh: &Mesh, bucket: &str, key: &str, is: impl Fn(Option<Value>) -> bool) {
        wait::until(&format!("{bucket} {key}"), SOON, || {
            let stored = mesh.tester.kv_get(bucket, key);
            let is_gone = stored.as_ref().is_some_and(|stored| stored.header("KV-Operation").is_some());
            let value = stored
                .filter(|_| !is_gone)
                .map(|stored| serde_json::from_slice(&stored.value).unwrap_or(Value::Null));
            if is(value.clone()) { Ok(()) } else { Err(format!("{value:?}, {}", self.logs())) }
        });
    }

    /// How often the host applied something, as its log tells: one line for each outcome that is news.
    pub fn hand_overs(&self) -> u64 {
        let status =
            fs::read(self.root().join("run/mesh-provisioner-client/status.json")).unwrap_or_default();
        let status: Value = serde_json::from_slice(&status).unwrap_or_default();
        status["counters"]["hand_overs"].as_u64().unwrap_or_default()
    }
}
