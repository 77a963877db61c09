//! Where the client keeps what is its own. With `--root DIR` all of it is below DIR.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mesh_bus::config::address::parse_list;
use mesh_bus::config::{Auth, BusConfig, Tls};
use mesh_model::digest::Digest;
use mesh_model::json::{At, Fields, Json, Problem, Read};
use mesh_model::keys::MeshKey;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::journal::{self, Journal};
use crate::machine::memory::Memory;

/// The places of this client.
#[derive(Debug, Clone)]
pub struct Site {
    root: PathBuf,
    is_machine: bool,
}

/// What joining a mesh wrote down: `/etc/mesh-provisioner-client/client.json`. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Joined {
    /// The mesh's id.
    pub mesh: String,
    /// The only key whose declarations count.
    #[serde(rename = "mesh-key")]
    pub mesh_key: MeshKey,
    /// The name of this node.
    pub node: String,
    /// The bus's servers.
    pub servers: Vec<String>,
    /// The SHA-256 of the public key of the bus's certificate. Absent: the certificate is checked as usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<Digest>,
}

impl Read for Joined {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let joined = Joined {
            mesh: fields.required("mesh")?,
            mesh_key: fields.required("mesh-key")?,
            node: fields.required("node")?,
            servers: fields.required("servers")?,
            pin: fields.optional("pin")?,
        };
        fields.done()?;
        Ok(joined)
    }
}

/// How to connect to the servers that a token names, as that account; `ca` is trusted in place of the pin.
pub(crate) fn connection(
    servers: &[String],
    pin: Option<Digest>,
    ca: Option<PathBuf>,
    auth: Auth,
) -> Result<BusConfig, String> {
    let (servers, user) = parse_list(&servers.join(","))?;
    if user.is_some() {
        return Err("the servers' addresses hold a user: an account of a mesh has a key".into());
    }
    let pin = pin.filter(|_| ca.is_none()).map(|pin| *pin.bytes());
    Ok(BusConfig { servers, auth, tls: Tls { ca, pin, ..Tls::default() }, inbox_prefix: None })
}

impl Site {
    /// The machine itself, or a tree that is not one.
    pub fn new(root: Option<&Path>) -> Self {
        Site { root: root.unwrap_or(Path::new("/")).to_owned(), is_machine: root.is_none() }
    }

    /// Whether it is the machine itself.
    pub const fn is_machine(&self) -> bool {
        self.is_machine
    }

    /// The root of the tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the settings.
    pub fn settings(&self) -> PathBuf {
        self.root.join("etc/mesh-provisioner-client")
    }

    /// The file that joining wrote.
    pub fn joined_path(&self) -> PathBuf {
        self.settings().join("client.json")
    }

    /// The seed of this node's key on the bus: 0600, the client's own.
    pub fn seed_path(&self) -> PathBuf {
        self.state().join("bus.nk")
    }

    /// The CA of the bus, if there is one of its own.
    pub fn ca_path(&self) -> PathBuf {
        self.settings().join("ca.pem")
    }

    /// The folder of the state: 0700.
    pub fn state(&self) -> PathBuf {
        self.root.join("var/lib/mesh-provisioner-client")
    }

    /// The host's settings, which joining writes too.
    pub fn host_settings_path(&self) -> PathBuf {
        self.root.join("etc/mesh-host/host.json")
    }

    /// The host's socket.
    pub fn socket(&self) -> PathBuf {
        self.root.join(crate::host::SOCKET)
    }

    /// The status file of `serve`.
    pub fn status_path(&self) -> PathBuf {
        self.root.join("run/mesh-provisioner-client/status.json")
    }

    /// Reads what joining wrote. The error says what to do.
    pub fn joined(&self) -> Result<Joined, String> {
        let path = self.joined_path();
        let shown = path.display();
        let bytes = fs::read(&path)
            .map_err(|error| format!("cannot read {shown}: {error}; join the mesh first, which writes it"))?;
        Joined::from_json_bytes(&bytes).map_err(|problem| format!("{shown}: {problem}"))
    }

    /// Makes the folder of the state where it is missing.
    pub fn make_state(&self) -> io::Result<PathBuf> {
        let folder = self.state();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(folder)
    }

    /// Opens what is remembered. Without a readable one it begins again: everything is handed over again, which changes
    /// nothing that is right. The words say what was wrong with it.
    pub fn journal(&self, salt: &str) -> io::Result<(Journal, Memory, Option<String>)> {
        let (journal, last) = Journal::open(&self.make_state()?)?;
        let (memory, problem) = Self::memory(last, salt);
        Ok((journal, memory, problem))
    }

    /// What is remembered, for a command that only looks.
    pub fn look(&self, salt: &str) -> io::Result<(Memory, Option<String>)> {
        Ok(Self::memory(journal::look(&self.state())?, salt))
    }

    fn memory(last: Option<String>, salt: &str) -> (Memory, Option<String>) {
        let anew = || Memory::new(salt.to_owned());
        match last.map(|text| Memory::parse(text.as_bytes())) {
            Some(Ok(memory)) => (memory, None),
            Some(Err(why)) => (
                anew(),
                Some(format!("what was remembered cannot be read, everything is handed over again: {why}")),
            ),
            None => (anew(), None),
        }
    }

    /// Takes the lock by which one client serves a state; it is released with the handle. `None`: another one has it.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let folder = self.state();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_joining_wrote_is_read_and_connects() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new(Some(folder.path()));
        let why = site.joined().unwrap_err();
        assert!(why.ends_with("join the mesh first, which writes it"), "{why}");
        let joined = Joined {
            mesh: "m".into(),
            mesh_key: nkeys::KeyPair::new_operator().public_key().parse().unwrap(),
            node: "attic".into(),
            servers: vec!["tls://bus:4222".into(), "tls://bus2:4223".into()],
            pin: Some(Digest::of(b"key")),
        };
        fs::create_dir_all(site.settings()).unwrap();
        fs::write(site.joined_path(), serde_json::to_vec(&joined).unwrap()).unwrap();
        assert_eq!(site.joined(), Ok(joined.clone()));
        let connect = |ca| connection(&joined.servers, joined.pin, ca, Auth::Nkey(site.seed_path())).unwrap();
        assert_eq!(connect(None).servers.len(), 2);
        assert_eq!(connect(None).tls.pin, Some(*Digest::of(b"key").bytes()));
        assert_eq!(connect(Some("/ca.pem".into())).tls.pin, None);
        assert!(connection(&["nats://a:b@bus".into()], None, None, Auth::None).is_err());
    }

    #[test]
    fn one_client_has_the_state() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new(Some(folder.path()));
        let lock = site.lock().unwrap();
        assert!(lock.is_some() && site.lock().unwrap().is_none());
        drop(lock);
        assert!(site.lock().unwrap().is_some());
    }

    #[test]
    fn a_memory_that_cannot_be_read_begins_anew_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new(Some(folder.path()));
        let (mut journal, memory, problem) = site.journal("salt").unwrap();
        assert_eq!((memory, problem), (Memory::new("salt".into()), None));
        journal.keep(&Memory::new("first".into()).to_text()).unwrap();
        assert_eq!(site.look("salt").unwrap(), (Memory::new("first".into()), None));
        journal.keep("{}").unwrap();
        let (_, memory, problem) = site.journal("salt").unwrap();
        assert_eq!(memory, Memory::new("salt".into()));
        assert!(problem.is_some_and(|why| why.contains("missing field `salt`")));
    }
}
