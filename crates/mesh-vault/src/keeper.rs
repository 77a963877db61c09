//! Carries out the machine's tasks: makes, seals, keeps. The only place where plaintext and chance are.
//!
//! A plaintext is in memory that is overwritten, from when it is made or opened until it is sealed to everybody who
//! gets it. What is kept, answered and logged is sealed copies and names.

use crate::holdings::{Held, HeldByProvider, List};
use crate::place::Place;
use crate::store::{Row, Store};
use crate::task::{Done, Failure, Keys, NewCredential, Once, Outcome, Task, Work};
use mesh_model::assignment::{Consumer, Make};
use mesh_model::digest::Digest;
use mesh_model::keys::SealingKey;
use mesh_model::sealed::{Label, NONCE_BYTES, Sealed};
use mesh_model::secret::{Credential, Secret};
use mesh_model::standing::Origin;
use mesh_model::vault_api::MAX_SECRET_BYTES;
use nkeys::XKey;
use zeroize::Zeroizing;

/// How many random bytes a password has; as text it has 43 characters.
const PASSWORD_BYTES: usize = 32;

/// The longest name of a user that every database takes.
const MAX_USER_BYTES: usize = 63;

/// Fills a buffer with random bytes.
pub type Chance = Box<dyn FnMut(&mut [u8]) -> Result<(), String>>;

/// Does the machine's tasks.
pub struct Keeper {
    store: Store,
    key: XKey,
    chance: Chance,
}

impl Keeper {
    /// One with the kernel's random numbers.
    pub fn new(store: Store, key: XKey) -> Keeper {
        Keeper::with_chance(store, key, Box::new(kernel))
    }

    /// One with random numbers of a test's own.
    pub fn with_chance(store: Store, key: XKey, chance: Chance) -> Keeper {
        Keeper { store, key, chance }
    }

    /// Carries out a task.
    pub fn perform(&mut self, task: Task) -> Done {
        Done { number: task.number, outcome: self.carry_out(task.work) }
    }

    fn carry_out(&mut self, work: Work) -> Result<Outcome, Failure> {
        match work {
            Work::Remember { mesh, nodes } => {
                self.store.remember(mesh.as_deref(), &nodes)?;
                Ok(Outcome::Nothing)
            }
            Work::Make { mesh, place, revision, make, keys, once } => {
                let value = self.make(make)?;
                self.keep(&mesh, place, revision, Origin::Made, keys, &value, once.as_ref())
            }
            Work::Accept { mesh, place, revision, keys, value, once } => {
                let value = self.open(&mesh, &place, &value)?;
                self.keep(&mesh, place, revision, Origin::Accepted, keys, &value, Some(&once))
            }
            Work::List { mesh, place, list, key, new } => self.keep_list(&mesh, &place, &list, &key, &new),
            Work::Forget { place, before } => {
                self.store.forget(&place, before)?;
                Ok(Outcome::Nothing)
            }
            Work::Give { place, revision } => self.store.copy(&place, revision).map(Outcome::Copy),
            Work::GiveList { members, .. } => self.store.copies(&members).map(Outcome::Copies),
            Work::Export { mesh, after, bytes, once } => {
                let (copies, next) = self.store.recovery_copies(&mesh, after.as_deref(), bytes)?;
                self.store.use_id(&once)?;
                Ok(Outcome::Page(copies, next))
            }
        }
    }

    fn random(&mut self, bytes: usize) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let mut random = Zeroizing::new(vec![0; bytes]);
        (self.chance)(&mut random).map_err(Failure::Seal)?;
        Ok(random)
    }

    fn make(&mut self, make: Make) -> Result<Secret, Failure> {
        let random = self.random(usize::from(make.bytes))?;
        Ok(Secret::from(make.write(&random)))
    }

    /// Opens a value that a person gave: the signer of the request sealed it with a key of its own.
    fn open(&self, mesh: &str, place: &Place, value: &Sealed) -> Result<Secret, Failure> {
        let opened = value.open(&self.key, value.sender(), &label(mesh, place));
        let value = opened.map_err(|why| Failure::Value(format!("the value {why}")))?.value;
        match value.expose().len() {
            bytes if bytes > MAX_SECRET_BYTES => Err(Failure::Value(format!(
                "the value has {bytes} bytes, and a secret has {MAX_SECRET_BYTES} at most"
            ))),
            _ => Ok(value),
        }
    }

    fn seal(
        &mut self,
        label: &Label,
        revision: u64,
        value: &Secret,
        recipient: &SealingKey,
    ) -> Result<Sealed, Failure> {
        let mut nonce = [0; NONCE_BYTES];
        (self.chance)(&mut nonce).map_err(Failure::Seal)?;
        Sealed::seal(label, revision, value, &self.key, recipient, nonce)
            .map_err(|error| Failure::Seal(error.to_string()))
    }

    /// Seals a secret to the node and to the recovery key.
    fn row(
        &mut self,
        mesh: &str,
        place: Place,
        revision: u64,
        origin: Origin,
        keys: Keys,
        value: &Secret,
    ) -> Result<Row, Failure> {
        let label = label(mesh, &place);
        let sealed = self.seal(&label, revision, value, &keys.node)?;
        let recovery = match &keys.recovery {
            Some(key) => Some(self.seal(&label, revision, value, key)?),
            None => None,
        };
        let held = Held { origin, key: keys.node, recovery: keys.recovery, provider: None };
        Ok(Row { place, revision, held, sealed, recovery, for_provider: None })
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of what is kept")]
    fn keep(
        &mut self,
        mesh: &str,
        place: Place,
        revision: u64,
        origin: Origin,
        keys: Keys,
        value: &Secret,
        once: Option<&Once>,
    ) -> Result<Outcome, Failure> {
        let row = self.row(mesh, place, revision, origin, keys, value)?;
        self.store.keep(&row, once)?;
        Ok(Outcome::Kept(row.held))
    }

    fn keep_list(
        &mut self,
        mesh: &str,
        list_place: &Place,
        list: &List,
        key: &SealingKey,
        new: &[NewCredential],
    ) -> Result<Outcome, Failure> {
        let mut rows = Vec::new();
        for NewCredential { consumer, revision, keys } in new {
            let password = self.random(PASSWORD_BYTES)?;
            let password = Secret::from(data_encoding::BASE64URL_NOPAD.encode(&password));
            let value = Credential { user: Secret::from(user(consumer)), password }.to_secret();
            let place = Place::of_consumer(consumer);
            let mut row = self.row(mesh, place, *revision, Origin::Made, keys.clone(), &value)?;
            let provision = list_place.provision().unwrap_or_default();
            let at_provider = Label {
                kind: "consumers".to_owned(),
                name: provision.to_owned(),
                of: Some(consumer.clone()),
                ..label(mesh, list_place)
            };
            row.for_provider = Some(self.seal(&at_provider, *revision, &value, key)?);
            row.held.provider =
                Some(HeldByProvider { list: list_place.clone(), key: key.clone(), since: list.revision });
            rows.push(row);
        }
        self.store.keep_list(list_place, list, &rows)?;
        Ok(Outcome::KeptList(rows.into_iter().map(|row| (row.place, row.revision, row.held)).collect()))
    }
}

/// What the sealed copies of a secret say that they are.
fn label(mesh: &str, place: &Place) -> Label {
    Label {
        mesh: mesh.to_owned(),
        node: place.node.clone(),
        module: place.module.clone(),
        kind: "secret".to_owned(),
        name: place.name.clone(),
        of: None,
    }
}

/// The user of a consumer's credential: `<module>_<name>_<node>`. Names have no `_`, so no two consumers share one.
fn user(consumer: &Consumer) -> String {
    let Consumer { node, module, name } = consumer;
    let whole = format!("{module}_{name}_{node}");
    if whole.len() <= MAX_USER_BYTES {
        return whole;
    }
    let digest = Digest::of(whole.as_bytes()).hex();
    let head: String = whole.chars().take(MAX_USER_BYTES - 17).collect();
    format!("{head}_{}", &digest[..16])
}

/// Random bytes of the kernel.
fn kernel(buffer: &mut [u8]) -> Result<(), String> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::rand::getrandom(&mut buffer[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(bytes) => filled += bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("no random bytes: {error}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
