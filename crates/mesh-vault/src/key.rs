//! The vault's key: a curve key in a file that its owner alone may read.

use mesh_model::keys::SealingKey;
use nkeys::XKey;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The file of the key in the store's folder.
pub fn file(folder: &Path) -> PathBuf {
    folder.join("vault.nk")
}

/// Why there is no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoKey {
    /// There is no file.
    Absent(String),
    /// The file cannot be used.
    Unfit(String),
}

impl std::fmt::Display for NoKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (NoKey::Absent(why) | NoKey::Unfit(why)) = self;
        f.write_str(why)
    }
}

/// Reads the key. A file that others may read is refused: what it sealed is not a secret any more.
pub fn read(folder: &Path) -> Result<XKey, NoKey> {
    let path = file(folder);
    let shown = path.display();
    let unfit = |why: String| NoKey::Unfit(format!("{shown} {why}"));
    let open = File::open(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => NoKey::Absent(format!(
            "there is no key at {shown}: mount the store, or make a key with mesh-vault init"
        )),
        _ => unfit(format!("cannot be read: {error}")),
    })?;
    let mode = open.metadata().map_err(|error| unfit(format!("cannot be read: {error}")))?.mode();
    if mode & 0o077 != 0 {
        return Err(unfit(format!("may be read by others (mode {:04o}): chmod 600 it", mode & 0o7777)));
    }
    let seed =
        Zeroizing::new(fs::read_to_string(&path).map_err(|error| unfit(format!("cannot be read: {error}")))?);
    XKey::from_seed(seed.trim())
        .map_err(|_| unfit("is not a seed of a sealing key (SX…): restore it from a copy".into()))
}

/// Makes a key. One that is there is left alone.
pub fn make(folder: &Path) -> Result<SealingKey, NoKey> {
    let path = file(folder);
    let unfit = |why: String| NoKey::Unfit(format!("{} {why}", path.display()));
    let key = XKey::new();
    let seed = Zeroizing::new(key.seed().map_err(|error| unfit(format!("cannot be made: {error}")))?);
    // Whole or not at all: a half-written key would have sealed what nobody opens.
    let beside = folder.join(".vault.nk.new");
    let _ = fs::remove_file(&beside);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(seed.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::hard_link(&beside, &path)?;
        fs::remove_file(&beside)?;
        File::open(folder)?.sync_all()
    };
    match write() {
        Ok(()) => Ok(SealingKey::of(&key)),
        Err(error) => {
            let _ = fs::remove_file(&beside);
            Err(match error.kind() {
                ErrorKind::AlreadyExists => unfit(
                    "is there already: what it sealed can be opened with no other, so it is never replaced"
                        .into(),
                ),
                _ => unfit(format!("cannot be made: {error}")),
            })
        }
    }
}
