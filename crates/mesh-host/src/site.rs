//! Where this host keeps what is its own: settings, keys, state, lock. With `--root DIR` all of it is below DIR.

use crate::digest::DigestKey;
use crate::state::{Folder, Journal};
use mesh_model::json::{At, Fields, Json, Problem, Read};
use mesh_model::keys::{MeshKey, SealingKey};
use nkeys::XKey;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The places of this host.
#[derive(Clone, Debug)]
pub struct Site {
    root: PathBuf,
    /// Below which this host's own folders lie.
    own: PathBuf,
    is_machine: bool,
}

/// What joining a mesh wrote down: `/etc/mesh-host/host.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The mesh's id.
    pub mesh: String,
    /// The only key whose declarations count.
    pub mesh_key: MeshKey,
    /// The vault's key at the time of the join.
    pub vault: SealingKey,
    /// The name of this node.
    pub node: String,
    /// The user who may use the socket beside root.
    pub client_uid: u32,
}

impl Read for Settings {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let mut fields = Fields::of(json, at)?;
        let settings = Self {
            mesh: fields.required("mesh")?,
            mesh_key: fields.required("mesh-key")?,
            vault: fields.required("vault")?,
            node: fields.required("node")?,
            client_uid: u32::try_from(fields.required::<u64>("client-uid")?)
                .map_err(|_| at.field("client-uid").problem("is not a user's number"))?,
        };
        fields.done()?;
        Ok(settings)
    }
}

impl Site {
    /// The machine itself, or a tree that is not one.
    pub fn new(root: Option<&Path>) -> Self {
        let is_machine = root.is_none();
        let root = root.unwrap_or(Path::new("/")).to_owned();
        Self { own: root.clone(), root, is_machine }
    }

    /// The machine itself, with what is this host's own below `own`: beside a host that is installed.
    pub fn beside(own: &Path) -> Self {
        Self { root: PathBuf::from("/"), own: own.to_owned(), is_machine: true }
    }

    /// The root of the tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is the machine itself, with managers.
    pub const fn is_machine(&self) -> bool {
        self.is_machine
    }

    /// The folder of the state: 0700.
    pub fn state(&self) -> PathBuf {
        self.own.join("var/lib/mesh-host")
    }

    /// The folder of what the firewall undoes unless the bus is reached: 0700.
    pub fn undo(&self) -> PathBuf {
        self.state().join("undo")
    }

    /// The folder of what does not outlive a boot.
    pub fn run(&self) -> PathBuf {
        self.own.join("run/mesh-host")
    }

    /// The settings that joining wrote.
    pub fn settings_path(&self) -> PathBuf {
        self.own.join("etc/mesh-host/host.json")
    }

    /// Reads the settings. The error says what to do.
    pub fn settings(&self) -> Result<Settings, String> {
        let path = self.settings_path();
        let shown = path.display();
        let bytes = fs::read(&path)
            .map_err(|error| format!("cannot read {shown}: {error}; join the mesh first, which writes it"))?;
        Settings::from_json_bytes(&bytes).map_err(|problem| format!("{shown}: {problem}"))
    }

    /// Makes the folders that are missing, the state's closed to everybody else.
    pub fn make_folders(&self) -> io::Result<()> {
        let make = |path: PathBuf, mode| fs::DirBuilder::new().recursive(true).mode(mode).create(path);
        make(self.state(), 0o700)?;
        make(self.state().join("kept"), 0o700)?;
        make(self.state().join("accepted"), 0o700)?;
        make(self.state().join("env"), 0o700)?;
        make(self.run(), 0o755)
    }

    /// Takes the lock of the state; it is released when the handle is dropped, or the process ends. `None`: somebody
    /// else has it.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.run().join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the journal. Also says what was wrong with the stored state.
    pub fn journal(&self) -> io::Result<(Journal<Folder>, Vec<String>)> {
        Journal::open(Folder::new(&self.state())?)
    }

    /// The key of keyed digests, which is made at the first use.
    pub fn digest_key(&self) -> io::Result<DigestKey> {
        let path = self.state().join("digest-key");
        match fs::read(&path) {
            Ok(bytes) => {
                let bytes: [u8; 32] = bytes.try_into().map_err(|_| {
                    io::Error::new(io::ErrorKind::InvalidData, format!("{} has not 32 bytes", path.display()))
                })?;
                Ok(DigestKey::new(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let bytes = random()?;
                write_new(&path, &bytes[..])?;
                Ok(DigestKey::new(*bytes))
            }
            Err(error) => Err(error),
        }
    }

    /// The sealing key, if there is one.
    pub fn sealing_key(&self) -> io::Result<Option<XKey>> {
        let path = self.state().join("key");
        let seed = match fs::read_to_string(&path) {
            Ok(seed) => Zeroizing::new(seed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        XKey::from_seed(seed.trim()).map(Some).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is not a seed of a sealing key", path.display()),
            )
        })
    }

    /// Makes the sealing key; an existing one is never replaced.
    pub fn make_sealing_key(&self) -> io::Result<XKey> {
        let key = XKey::new();
        let seed = Zeroizing::new(key.seed().map_err(|error| io::Error::other(error.to_string()))?);
        write_new(&self.state().join("key"), format!("{}\n", *seed).as_bytes())?;
        Ok(key)
    }
}

/// Random bytes from the kernel.
pub fn random() -> io::Result<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    File::open("/dev/urandom")?.read_exact(&mut bytes[..])?;
    Ok(bytes)
}

/// Writes a new file of mode 0600, whole and synced. One that is there is an error.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.exists() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{} is there already", path.display()),
        ));
    }
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::hard_link(&temporary, path)?;
    fs::remove_file(&temporary)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
