//! The bus as the controller keeps it: who may be there, in a file that the server includes, and the proof that the server
//! has loaded it.

pub mod gather;
pub mod keys;
pub mod load;
pub mod users;

use crate::identity::Signer;
use crate::store::{Error, Moment, Store, acts::Act, identity};
use mesh_model::keys::BusKey;
use std::path::{Path, PathBuf};

/// What `broker users` made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The whole file.
    pub text: String,
    /// How many users it has.
    pub users: usize,
    /// The seeds that were made.
    pub seeds: Vec<PathBuf>,
    /// The roles that have no key yet: their programs cannot be on the bus.
    pub missing: Vec<&'static str>,
}

/// The file of users. With a folder for keys the missing seeds are made there, and the public halves are remembered. A
/// program that has another key already would be locked out: that is refused unless it is wanted.
pub fn users(
    store: &mut Store,
    signer: &Signer,
    keys: Option<&Path>,
    replace: bool,
    act: &Act<'_>,
) -> Result<Made, Error> {
    let mut seeds = Vec::new();
    if let Some(folder) = keys {
        let known = identity::accounts(store.identity())?;
        if !replace {
            expect_the_same(&known, folder)?;
        }
        let (keys, made) = keys::make(folder)?;
        seeds = made;
        let is_known = |role: users::Role, key: &BusKey| {
            let is = |account: &identity::Account| account.node.is_empty() && account.module == role.name();
            known.iter().any(|account| is(account) && account.key == *key)
        };
        if keys.iter().any(|(role, key)| !is_known(*role, key)) {
            let change = store.change_identity(act)?;
            for (role, key) in &keys {
                identity::put_account(&change, "", role.name(), key)?;
            }
            change.commit()?;
        }
    }
    let accounts = gather::accounts(store, signer, act.at)?;
    let missing = accounts.missing();
    let body = accounts.body().map_err(|why| Error::Unfit(why.to_string()))?;
    Ok(Made { text: gather::file(&body, signer)?, users: body.users(), seeds, missing })
}

/// Refuses a folder whose keys are not those that are known.
fn expect_the_same(known: &[identity::Account], folder: &Path) -> Result<(), Error> {
    for role in users::Role::ALL {
        let is = |account: &&identity::Account| account.node.is_empty() && account.module == role.name();
        let Some(account) = known.iter().find(is) else { continue };
        let path = folder.join(format!("{}.nk", role.name()));
        let key = if path.exists() { Some(keys::read(&path)?.public_key()) } else { None };
        if key.as_deref() != Some(account.key.as_str()) {
            return Err(Error::Refused(format!(
                "{} is not the key that {} has, {}: name the folder with the keys that were made before, or say --replace and give the program its new seed",
                path.display(),
                role.name(),
                account.key
            )));
        }
    }
    Ok(())
}

/// The account for joining with a token that is issued at that moment.
pub fn joiner(signer: &Signer, at: Moment) -> nkeys::KeyPair {
    signer.joiner(&gather::day(at))
}
