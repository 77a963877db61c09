//! Who may be on the bus, as the store has it.

use crate::broker::users::{self, Accounts, Body, ModuleAccount, Role};
use crate::identity::Signer;
use crate::store::{Error, Moment, Store, identity, inventory, nodes, time_of};
use mesh_daemon::time::rfc3339;
use mesh_model::json::Read as _;
use mesh_model::keys::BusKey;
use mesh_model::manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};

/// A day, in milliseconds.
pub const DAY: Moment = 24 * 60 * 60 * 1000;

/// The day of a moment, as `2026-11-30`.
pub fn day(at: Moment) -> String {
    let mut text = rfc3339(time_of(at));
    text.truncate("2026-11-30".len());
    text
}

/// The accounts that the store knows at that moment. Of those who join there are two: of this day and of the one before.
pub fn accounts(store: &Store, signer: &Signer, at: Moment) -> Result<Accounts, Error> {
    let mut manifests = BTreeMap::new();
    for module in inventory::modules(store.inventory())? {
        let manifest = Manifest::from_json_bytes(&module.manifest)
            .map_err(|why| Error::Broken(format!("the stored manifest of {}: {why}", module.name)))?;
        manifests.insert(module.name, manifest);
    }
    // A node that was removed lets nobody in, nor its modules, also where its keys are still to go.
    let known: BTreeSet<String> = nodes::all(store.inventory())?.into_iter().map(|node| node.name).collect();
    let mut accounts = Accounts::default();
    for account in identity::accounts(store.identity())? {
        if account.node.is_empty() {
            if let Some(role) = Role::of(&account.module) {
                accounts.roles.insert(role, account.key);
            }
        } else if let Some(manifest) =
            manifests.get(&account.module).filter(|_| known.contains(&account.node))
        {
            let of = ModuleAccount {
                key: account.key,
                emits: manifest.emits.clone(),
                consumes: manifest.consumes.clone(),
                provides: !manifest.provides.is_empty(),
            };
            accounts.modules.insert((account.node, account.module), of);
        }
    }
    let keys = identity::node_keys(store.identity())?.into_iter().filter(|keys| known.contains(&keys.node));
    accounts.nodes = keys.map(|keys| (keys.node, keys.bus)).collect();
    for at in [at.saturating_sub(DAY), at] {
        let day = day(at);
        let key = signer.joiner(&day).public_key().parse().map_err(Error::Broken)?;
        accounts.joiners.insert(day, key);
    }
    accounts.leaving = nodes::leaving(store.inventory())?.into_iter().collect();
    let provides = manifests.iter().filter(|(_, manifest)| !manifest.provides.is_empty());
    accounts.providers = provides.map(|(name, _)| name.clone()).collect();
    Ok(accounts)
}

/// The accounts that the store once had and has no more, by their names in the file: nodes that were removed, and
/// modules that lost theirs.
pub fn gone(store: &Store) -> Result<BTreeSet<String>, Error> {
    let known: BTreeSet<String> = nodes::all(store.inventory())?.into_iter().map(|node| node.name).collect();
    let had = identity::all_that_joined(store.identity())?;
    let mut gone: BTreeSet<String> =
        had.into_iter().filter(|node| !known.contains(node)).map(|node| users::node_name(&node)).collect();
    for account in identity::accounts(store.identity())? {
        if !account.node.is_empty() {
            gone.insert(users::module_name(&account.node, &account.module));
        }
    }
    Ok(gone)
}

/// The file of users without its last user.
pub fn body(store: &Store, signer: &Signer, at: Moment) -> Result<Body, Error> {
    accounts(store, signer, at)?.body().map_err(|why| Error::Unfit(why.to_string()))
}

/// The whole file.
pub fn file(body: &Body, signer: &Signer) -> Result<String, Error> {
    let sentinel: BusKey = signer.sentinel(&body.digest()).public_key().parse().map_err(Error::Broken)?;
    Ok(body.with_sentinel(&sentinel))
}
