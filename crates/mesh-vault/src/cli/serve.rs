//! `serve`: runs the vault.

use super::{Environment, connecting, folder};
use crate::keeper::Keeper;
use crate::machine::{Settings, Vault};
use crate::store::{Store, Unusable};
use crate::wire::{REPLIES, SERVICE};
use crate::{key, runtime};
use ::log::{error, info};
use argh::{ArgsInfo, FromArgs};
use crossbeam_channel::never;
use mesh_daemon::exit::Exit;
use mesh_daemon::status;
use mesh_daemon::time::rfc3339;
use mesh_model::keys::SealingKey;
use mesh_service::identity::Identity;
use std::path::PathBuf;
use std::time::SystemTime;

connecting! {
    /// run the vault until TERM or INT; HUP reads all buckets again
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "serve",
        note = "It answers once no other vault answers and all buckets are read.\n\nExit status: 0 stopped on request; 64 the command line is wrong; 70 a bug; 75 the connection is stuck;\n78 the configuration is wrong, or there is no store, or another vault has it.",
        example = "{command_name} --nkey /etc/mesh-vault/vault.nk --status-file /run/mesh-vault/status.json"
    )]
    pub(super) struct Serve {
        /// the folder of the store [MESH_VAULT_STORE; STATE_DIRECTORY; /var/lib/mesh-vault]
        #[argh(option, arg_name = "folder")]
        store: Option<PathBuf>,

        /// make again the secrets that were handed out and that the store no longer has
        #[argh(switch)]
        remake: bool,

        /// no second copy where a node's record names no recovery key, even if init was given one
        #[argh(switch)]
        no_recovery: bool,

        /// answer under this subject too, besides _INBOX and _R_; may be repeated
        #[argh(option, arg_name = "subject", from_str_fn(parse_prefix))]
        reply_prefix: Vec<String>,

        /// status file to write [$RUNTIME_DIRECTORY/status.json, if there is one]
        #[argh(option, arg_name = "file")]
        status_file: Option<PathBuf>,
    }
}

fn parse_prefix(prefix: &str) -> Result<String, String> {
    REPLIES.check_prefix(prefix).map(|()| prefix.to_owned())
}

impl Serve {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let started = match mesh_runtime::start(&self.flags(), environment) {
            Ok(started) => started,
            Err(exit) => return exit,
        };
        match self.serve(started, environment) {
            Ok(exit) => exit,
            Err(why) => {
                error!("{why}");
                Exit::Configuration
            }
        }
    }

    fn serve(self, started: mesh_runtime::Started, environment: Environment<'_>) -> Result<Exit, String> {
        let folder = folder(self.store, environment);
        let store = Store::open(&folder).map_err(|why| why.to_string())?;
        let setup = store.setup().map_err(|why| why.to_string())?.ok_or_else(|| {
            format!(
                "the vault at {} knows no mesh: mesh-vault init --mesh O…, with the key that mesh-controller identity prints",
                folder.display()
            )
        })?;
        let pair = key::read(&folder).map_err(|why| why.to_string())?;
        let holdings = store.holdings().map_err(|why: Unusable| why.to_string())?;
        let own = SealingKey::of(&pair);
        let identity =
            Identity { id: nuid::next().to_string(), version: env!("CARGO_PKG_VERSION").to_owned() };
        info!(
            "mesh-vault {} serves as {} with the key {own}: {} secrets",
            identity.version,
            identity.id,
            holdings.secrets.len()
        );
        let client = format!("{SERVICE} {}", identity.id);
        let vault = Vault::new(
            Settings {
                jitter_seed: seed(&identity.id),
                inbox: mesh_runtime::secret(),
                names: mesh_runtime::secret(),
                identity,
                started: rfc3339(SystemTime::now()),
                mesh: setup.mesh,
                own,
                recovery: setup.recovery,
                no_recovery: self.no_recovery,
                remake: self.remake,
                reply_prefixes: self.reply_prefix,
            },
            holdings,
        );
        let mut keeper = Keeper::new(store, pair);
        let settings = mesh_runtime::Settings {
            started,
            client,
            status_file: self.status_file.or_else(|| status::default_path(environment)),
        };
        let exit = mesh_runtime::serve(runtime::Machine(vault), settings, never(), |task| {
            vec![keeper.perform(task)]
        });
        Ok(exit)
    }
}

/// Another number for each id.
fn seed(id: &str) -> u64 {
    id.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)))
}
