//! The seeds of the programs and persons that a mesh has once: files of one folder, each made where it is missing.

use crate::broker::users::Role;
use crate::store::Error;
use mesh_model::keys::BusKey;
use nkeys::{KeyPair, KeyPairType};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The keys of all roles. The seeds that `folder` lacks are made there with mode 0600; gives their paths too.
pub fn make(folder: &Path) -> Result<(BTreeMap<Role, BusKey>, Vec<PathBuf>), Error> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::Broken(format!("{} cannot be made: {error}", folder.display())))?;
    let mut keys = BTreeMap::new();
    let mut made = Vec::new();
    for role in Role::ALL {
        let path = folder.join(format!("{}.nk", role.name()));
        let pair = if path.exists() {
            read(&path)?
        } else {
            let pair = KeyPair::new_user();
            write(&path, &pair)?;
            made.push(path);
            pair
        };
        keys.insert(role, pair.public_key().parse().map_err(Error::Broken)?);
    }
    Ok((keys, made))
}

/// Reads the seed of an account.
pub fn read(path: &Path) -> Result<KeyPair, Error> {
    let shown = path.display();
    let unfit = |why: String| Error::Unfit(format!("{shown} {why}"));
    let text = std::fs::read_to_string(path).map_err(|error| unfit(format!("cannot be read: {error}")))?;
    let text = Zeroizing::new(text);
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o077);
    if mode != 0 {
        return Err(unfit("can be read by others: chmod 600 it".into()));
    }
    let line = text.lines().map(str::trim).find(|line| line.starts_with("SU"));
    match line.map(KeyPair::from_seed) {
        Some(Ok(pair)) if pair.key_pair_type() == KeyPairType::User => Ok(pair),
        _ => Err(unfit("holds no seed of an account (SU…): put the right file there, or remove it".into())),
    }
}

/// Writes a seed where there is none yet, with mode 0600.
pub fn write(path: &Path, pair: &KeyPair) -> Result<(), Error> {
    let seed = pair.seed().map(Zeroizing::new).map_err(|error| Error::Broken(error.to_string()))?;
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(seed.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    };
    write().map_err(|error| Error::Broken(format!("{} cannot be written: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_made_once_and_for_their_owner_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let keys = folder.path().join("keys");
        let (first, made) = make(&keys).unwrap();
        assert_eq!((first.len(), made.len()), (5, 5));
        for path in &made {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::remove_file(keys.join("reader.nk")).unwrap();
        let (second, made) = make(&keys).unwrap();
        assert_eq!(made, [keys.join("reader.nk")]);
        assert_eq!(first[&Role::Seat], second[&Role::Seat]);
        assert_ne!(first[&Role::Reader], second[&Role::Reader]);
    }

    #[test]
    fn a_seed_that_others_can_read_or_that_is_none_is_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        make(folder.path()).unwrap();
        let path = folder.path().join("vault.nk");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            make(folder.path()).unwrap_err().to_string().ends_with("can be read by others: chmod 600 it")
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "SUAA").unwrap();
        assert!(make(folder.path()).unwrap_err().to_string().contains("holds no seed of an account"));
    }
}
