//! Where the client keeps what is its own. With `--root DIR` all of it is below DIR.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mesh_model::json::{At, Fields, Json, Problem, Read};
use mesh_model::keys::MeshKey;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::machine::memory::Memory;

/// The places of this client.
#[derive(Debug, Clone)]
pub struct Site {
    root: PathBuf,
    is_machine: bool,
}

/// What joining a mesh wrote down: `/etc/mesh-provisioner-client/client.json`.
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
}

impl Read for Joined {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let joined = Joined {
            mesh: fields.required("mesh")?,
            mesh_key: fields.required("mesh-key")?,
            node: fields.required("node")?,
            servers: fields.required("servers")?,
        };
        fields.done()?;
        Ok(joined)
    }
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

    /// The seed of this node's key on the bus.
    pub fn seed_path(&self) -> PathBuf {
        self.settings().join("node.nk")
    }

    /// The CA of the bus, if there is one of its own.
    pub fn ca_path(&self) -> PathBuf {
        self.settings().join("ca.pem")
    }

    /// The folder of the state: 0700.
    pub fn state(&self) -> PathBuf {
        self.root.join("var/lib/mesh-provisioner-client")
    }

    /// The host's socket.
    pub fn socket(&self) -> PathBuf {
        self.root.join("run/mesh-host/host.sock")
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

    /// What is remembered. Without a readable one it begins anew: everything is handed over again, which changes nothing
    /// that is right.
    pub fn memory(&self, salt: &str) -> (Memory, Option<String>) {
        let path = self.state().join("memory.json");
        match fs::read(&path) {
            Ok(bytes) => match Memory::parse(&bytes) {
                Ok(memory) => (memory, None),
                Err(why) => (
                    Memory::new(salt.to_owned()),
                    Some(format!(
                        "{} cannot be read, everything is handed over again: {why}",
                        path.display()
                    )),
                ),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Memory::new(salt.to_owned()), None),
            Err(error) => (
                Memory::new(salt.to_owned()),
                Some(format!("{} cannot be read, everything is handed over again: {error}", path.display())),
            ),
        }
    }

    /// Keeps what is remembered; it lasts.
    pub fn keep(&self, text: &str) -> io::Result<()> {
        let folder = self.state();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        replace(&folder.join("memory.json"), text.as_bytes(), 0o600)
    }

    /// Takes the lock by which one client serves a state; it is given back with the handle. `None`: another one has it.
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

/// Writes a file in the place of the one before: whole, with its mode from the start, and synced.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let temporary = path.with_extension("new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
