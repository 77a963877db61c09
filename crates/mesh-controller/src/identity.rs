//! The mesh's own key, `identity.nk` beside the store: made once, never printed, and proven before it signs.

use crate::store::{Error, Store, acts::Act, identity};
use mesh_model::digest::Digest;
use mesh_model::keys::MeshKey;
use mesh_model::signed::{Envelope, PayloadType};
use nkeys::{KeyPair, KeyPairType};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// The pair that signs for the mesh, and what else grows out of its seed.
pub struct Signer {
    pair: KeyPair,
    seed: Zeroizing<[u8; 32]>,
}

impl Signer {
    /// The pair.
    pub fn pair(&self) -> &KeyPair {
        &self.pair
    }

    /// Signs the compact JSON of a document.
    pub fn sign(
        &self,
        payload_type: PayloadType,
        document: &impl serde::Serialize,
    ) -> Result<Envelope, Error> {
        Envelope::sign_json(payload_type, document, &self.pair)
            .map_err(|error| Error::Broken(format!("the mesh's key cannot sign: {error}")))
    }

    /// The account for joining, of one day (as `2026-11-30`). It is computed, so no seed of it is stored.
    pub fn joiner(&self, day: &str) -> KeyPair {
        self.grown("joiner", day)
    }

    /// An account that proves a file of users to be loaded: its key follows from the file's digest.
    pub fn sentinel(&self, file: &Digest) -> KeyPair {
        self.grown("sentinel", &file.hex())
    }

    fn grown(&self, what: &str, of: &str) -> KeyPair {
        let seed =
            Digest::of_pieces(&[b"mesh-controller account", &self.seed[..], what.as_bytes(), of.as_bytes()]);
        KeyPair::new_from_raw(KeyPairType::User, *seed.bytes())
            .unwrap_or_else(|_| unreachable!("32 bytes are a seed"))
    }
}

/// Makes the mesh, where the store has none: its key and its id. Nothing else is made or replaced.
pub fn make(store: &mut Store, act: &Act<'_>) -> Result<bool, Error> {
    if identity::mesh(store.identity())?.is_some() {
        open(store)?;
        return Ok(false);
    }
    let path = store.paths.key();
    let pair = if path.exists() {
        // Written before a crash, and never used: the store knows of no mesh.
        read(&path)?
    } else {
        let pair = KeyPair::new_operator();
        write(&path, &pair)?;
        pair
    };
    let key: MeshKey = pair.public_key().parse().map_err(Error::Broken)?;
    let change = store.change_identity(act)?;
    identity::make_mesh(&change, &nuid::next(), &key)?;
    change.commit()?;
    Ok(true)
}

/// Opens the mesh's key, which must be the one that the store names.
pub fn open(store: &Store) -> Result<Signer, Error> {
    let mesh = identity::expect_mesh(store.identity())?;
    let path = store.paths.key();
    let pair = read(&path)?;
    if pair.public_key() != mesh.key.as_str() {
        return Err(Error::Unfit(format!(
            "{} is the key {}, and the mesh's is {}: put the right file there",
            path.display(),
            pair.public_key(),
            mesh.key
        )));
    }
    let proof = Envelope::sign(PayloadType::Node, b"{}".to_vec(), &pair).ok();
    if proof.is_none_or(|proof| proof.verify(PayloadType::Node, &mesh.key).is_err()) {
        return Err(Error::Unfit(format!("what {} signs cannot be verified: it is damaged", path.display())));
    }
    let seed = pair.seed().map(Zeroizing::new).map_err(|error| Error::Broken(error.to_string()))?;
    let seed = nkeys::decode_seed(&seed).map_err(|error| Error::Broken(error.to_string()))?.1;
    Ok(Signer { pair, seed: Zeroizing::new(seed) })
}

fn read(path: &Path) -> Result<KeyPair, Error> {
    let unfit = |why: &dyn std::fmt::Display| {
        Error::Unfit(format!("the mesh's key {} {why}: restore it from a backup", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| unfit(&format!("cannot be read: {error}")))?;
    let text = Zeroizing::new(text);
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o077);
    if mode != 0 {
        return Err(Error::Unfit(format!("{} can be read by others: chmod 600 it", path.display())));
    }
    let pair = KeyPair::from_seed(text.trim()).map_err(|_| unfit(&"is not a seed (SO…)"))?;
    if pair.key_pair_type() != KeyPairType::Operator {
        return Err(unfit(&"is not a seed of a mesh (SO…)"));
    }
    Ok(pair)
}

fn write(path: &Path, pair: &KeyPair) -> Result<(), Error> {
    let seed = Zeroizing::new(pair.seed().map_err(|error| Error::Broken(error.to_string()))?);
    let mut text = Zeroizing::new(String::with_capacity(seed.len() + 1));
    writeln!(text, "{}", *seed).ok();
    let written = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::File::open(
            path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        )?
        .sync_all()
    };
    written().map_err(|error| Error::Broken(format!("{} cannot be written: {error}", path.display())))
}
