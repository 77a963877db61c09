//! A small mesh: keys, signed declarations, and a daemon on a tree.

use crate::tree::{Ran, Tree, program};
use mesh_model::assignment::Need;
use mesh_model::host_api::MAX_REQUEST_BYTES;
use mesh_model::keys::SealingKey;
use mesh_model::sealed::{Label, Sealed};
use mesh_model::secret::Secret;
use mesh_model::signed::{Envelope, PayloadType};
use nkeys::{KeyPair, XKey};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Mesh {
    pub(crate) tree: Tree,
    operator: KeyPair,
    vault: XKey,
    own: SealingKey,
}

/// One module of a request.
pub(crate) struct Module {
    pub(crate) name: &'static str,
    pub(crate) needs: Value,
    pub(crate) contributes: Value,
    pub(crate) placement: Value,
    pub(crate) settings: Value,
    pub(crate) resources: Value,
    pub(crate) values: Option<Value>,
}

impl Module {
    pub(crate) fn new(name: &'static str, resources: Value) -> Self {
        Self {
            name,
            needs: json!([]),
            contributes: json!([]),
            placement: json!({"dir": {}, "access": {}, "port": {}, "seat": {}, "machine": {}}),
            settings: json!({}),
            resources,
            values: Some(json!({})),
        }
    }

    fn assignment(&self) -> String {
        json!({"module": self.name, "version": "1", "needs": self.needs, "contributes": self.contributes,
               "placement": self.placement, "resources": self.resources})
        .to_string()
    }
}

impl Mesh {
    pub(crate) fn new() -> Self {
        let tree = Tree::new();
        let (operator, vault) = (KeyPair::new_operator(), XKey::new());
        let made = tree.run(&["key", "make"]);
        assert_eq!(made.code, 0, "{}", made.err);
        let settings = json!({"mesh": "m", "mesh-key": operator.public_key(), "vault": vault.public_key(), "node": "attic",
                              "client-uid": 4242});
        tree.write("/etc/mesh-host/host.json", &settings.to_string());
        Self { tree, operator, vault, own: made.out.trim().parse().unwrap() }
    }

    /// A request to apply these modules, signed.
    pub(crate) fn request(&self, sequence: u64, modules: &[Module]) -> Value {
        self.request_with(&json!({"sequence": sequence}), modules)
    }

    /// The same, with some members of the declaration in another form.
    pub(crate) fn request_with(&self, members: &Value, modules: &[Module]) -> Value {
        let digest = |text: &str| mesh_model::digest::Digest::of(text.as_bytes()).to_string();
        let parts: Vec<_> = modules
            .iter()
            .map(|module| {
                json!({"module": module.name, "assignment": digest(&module.assignment()),
                       "settings": digest(&module.settings.to_string())})
            })
            .collect();
        let mut declaration = json!({"mesh": "m", "node": "attic", "sequence": 1, "fence": 1, "at": "now",
                                     "vault": self.vault.public_key(), "modules": parts, "adoption": null});
        for (name, value) in members.as_object().unwrap() {
            declaration[name] = value.clone();
        }
        let payload = declaration.to_string().into_bytes();
        let envelope = Envelope::sign(PayloadType::Declaration, payload, &self.operator).unwrap();
        let coded = |text: String| json!(data_encoding::BASE64.encode(text.as_bytes()));
        let mut apply = json!({"declaration": envelope, "assignments": {}, "settings": {}, "values": {}});
        for module in modules {
            apply["assignments"][module.name] = coded(module.assignment());
            apply["settings"][module.name] = coded(module.settings.to_string());
            if let Some(values) = &module.values {
                apply["values"][module.name] = values.clone();
            }
        }
        json!({ "apply": apply })
    }

    /// A secret, sealed to this host.
    pub(crate) fn sealed(&self, module: &str, name: &str, revision: u64, value: &str) -> Value {
        let label = Label {
            mesh: "m".into(),
            node: "attic".into(),
            module: module.into(),
            kind: "secret".into(),
            name: name.into(),
            of: None,
        };
        let nonce = mesh_host::site::random().unwrap()[..24].try_into().unwrap();
        let sealed =
            Sealed::seal(&label, revision, &Secret::copy(value.as_bytes()), &self.vault, &self.own, nonce);
        json!({"sealed": [sealed.unwrap()]})
    }

    pub(crate) fn apply(&self, request: &Value) -> Ran {
        let path = self.tree.path("/request.json");
        std::fs::write(&path, request.to_string()).unwrap();
        let ran = self.tree.run(&["apply", "--json", path.to_str().unwrap()]);
        std::fs::remove_file(path).unwrap();
        ran
    }

    pub(crate) fn serve(&self, every: u64) -> Daemon {
        self.serve_in(&["env"], every)
    }

    /// The daemon, started by another command.
    pub(crate) fn serve_in(&self, wrapper: &[&str], every: u64) -> Daemon {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(program()).args(["serve", "--every", &every.to_string(), "--root"]);
        command.arg(self.tree.root()).env_remove("RUST_LOG");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the daemon ended before it listened");
        }
        // Read on, so that the daemon never waits for room.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Daemon { child, socket: self.tree.path("/run/mesh-host/host.sock") }
    }
}

/// A need of the kind that most tests use.
pub(crate) fn secret_need(name: &str) -> Value {
    serde_json::to_value(Need::new("secret", name)).unwrap()
}

pub(crate) struct Daemon {
    pub(crate) child: Child,
    socket: std::path::PathBuf,
}

impl Daemon {
    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends bytes and returns the lines of the answer.
    pub(crate) fn send(&self, bytes: &[u8]) -> Vec<Value> {
        assert!(bytes.len() <= MAX_REQUEST_BYTES + 2);
        let mut stream = self.connect();
        // It may hang up before it has read all.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn ask(&self, request: &Value) -> Vec<Value> {
        self.send(format!("{request}\n").as_bytes())
    }

    /// The last line of the answer.
    pub(crate) fn last(&self, request: &Value) -> Value {
        self.ask(request).pop().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Waits until `is` holds, within a bound.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what} within 60 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}
