//! `module issue`: an account on the bus for a module on a node, with the subjects that its manifest names.

use super::bus::connect;
use super::connecting;
use super::context::{Doing, Ended, Environment, OrEnd, store};
use super::secret::give;
use crate::join::register;
use crate::store::{Error, Store, identity, inventory, nodes, now};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::output::print;
use mesh_model::json::Read as _;
use mesh_model::keys::BusKey;
use mesh_model::manifest::Manifest;
use mesh_model::secret::Secret;
use nkeys::KeyPair;
use zeroize::Zeroizing;

connecting! {
    /// give a module on a node an account of its own on the bus, for what its manifest emits and consumes
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "issue",
        note = "Without --public-key a key is made, and its seed is handed to the vault as the module's secret bus; the seed is\nprinted nowhere. The account is loaded by serve. Issued again, the key of before is no longer let in.",
        example = "{command_name} web --node attic"
    )]
    pub(super) struct Issue {
        /// the node
        #[argh(option, arg_name = "name")]
        node: String,

        /// a key that the module has already (U…); no seed is made then
        #[argh(option, arg_name = "key")]
        public_key: Option<BusKey>,

        /// the module
        #[argh(positional, arg_name = "module")]
        module: String,
    }
}

impl Issue {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let manifest = expect(&store, &self.node, &self.module).or_end()?;
        let key = match &self.public_key {
            Some(key) => {
                expect_free(&store, key, &self.node, &self.module).or_end()?;
                key.clone()
            }
            None => self.make(&store, environment)?,
        };
        // The vault took its time, and the node may be gone by now.
        nodes::expect(store.inventory(), &self.node).or_end()?;
        let doing = Doing::new(environment, "module issue", format!("{} {} {key}", self.node, self.module));
        let change = store.change_identity(&doing.act()).or_end()?;
        identity::put_account(&change, &self.node, &self.module, &key).or_end()?;
        change.commit().or_end()?;
        let list =
            |subjects: &[String]| if subjects.is_empty() { "nothing".into() } else { subjects.join(" ") };
        Ok(print(&format!(
            "{} on {}: {key}\nemits     {}\nconsumes  {}\n",
            self.module,
            self.node,
            list(&manifest.emits),
            list(&manifest.consumes)
        )))
    }

    /// Makes a key, and hands its seed to the vault before anything is written down here.
    fn make(&self, store: &Store, environment: Environment<'_>) -> Result<BusKey, mesh_daemon::exit::Exit> {
        let pair = KeyPair::new_user();
        let broken = |why: String| Error::Broken(format!("a key cannot be made: {why}"));
        let seed = pair.seed().map(Zeroizing::new).map_err(|why| broken(why.to_string())).or_end()?;
        let mut client = connect(&self.flags(), environment)?;
        let place = (self.node.as_str(), self.module.as_str(), "bus");
        let given = give(store, &mut client, place, &Secret::copy(seed.as_bytes()));
        client.close();
        given?;
        pair.public_key().parse().map_err(broken).or_end()
    }
}

fn expect(store: &Store, node: &str, module: &str) -> Result<Manifest, Error> {
    nodes::expect(store.inventory(), node)?;
    let known = inventory::expect_module(store.inventory(), module)?;
    Manifest::from_json_bytes(&known.manifest)
        .map_err(|why| Error::Broken(format!("the manifest of {module}: {why}")))
}

/// Two accounts with one key would keep the server from taking any.
fn expect_free(store: &Store, key: &BusKey, node: &str, module: &str) -> Result<(), Error> {
    let taken = |whose: String| Error::Refused(format!("{key} is the key of {whose}: make another one"));
    if let Some((other, _)) = identity::owner_of(store.identity(), key)? {
        return Err(taken(format!("the node {other}, or was")));
    }
    if register::joiners(&crate::identity::open(store)?, now()).iter().any(|joiner| joiner == key.as_str()) {
        return Err(taken("whoever joins".into()));
    }
    let same = identity::accounts(store.identity())?.into_iter().find(|account| account.key == *key);
    match same {
        Some(account) if account.node != node || account.module != module => {
            Err(taken(format!("{} {}", account.module, account.node)))
        }
        _ => Ok(()),
    }
}
