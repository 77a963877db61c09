//! `init`: makes store and key, and tells the vault whose mesh it serves.

use super::{Environment, folder, parse_mesh, parse_recovery};
use crate::key::{self, NoKey};
use crate::store::{Setup, Store, Unusable};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_model::keys::{MeshKey, SealingKey};
use std::path::PathBuf;

/// make the store and the key, if there are none, and tell the vault the key of its mesh; needs no bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "init",
    note = "It prints the public half of the vault's key, for mesh-controller init --vault. Again with the same mesh\nchanges nothing but a recovery key that is given.\n\nExit status: 0 done; 1 the store cannot be made; 78 it belongs to another mesh, or is in use.",
    example = "{command_name} --mesh OAB… --recovery XAB…"
)]
pub(super) struct Init {
    /// the public key of the mesh (O…), which mesh-controller identity prints
    #[argh(option, arg_name = "key", from_str_fn(parse_mesh))]
    mesh: MeshKey,

    /// the recovery key (X…) of nodes whose record names none [none]
    #[argh(option, arg_name = "key", from_str_fn(parse_recovery))]
    recovery: Option<SealingKey>,

    /// the folder of the store [MESH_VAULT_STORE; STATE_DIRECTORY; /var/lib/mesh-vault]
    #[argh(option, arg_name = "folder")]
    store: Option<PathBuf>,
}

impl Init {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let folder = folder(self.store, environment);
        let setup = Setup { mesh: self.mesh, recovery: self.recovery };
        let made = Store::make(&folder).and_then(|mut store| store.set_up(&setup).map(|()| store));
        // The store is locked until the key is there.
        let _store = match made {
            Ok(store) => store,
            Err(why) => {
                complain(&why.to_string());
                return match why {
                    Unusable::Broken(_) => Exit::Failed,
                    _ => Exit::Configuration,
                };
            }
        };
        let public = match key::read(&folder) {
            Ok(pair) => Ok(SealingKey::of(&pair)),
            Err(NoKey::Absent(_)) => key::make(&folder),
            Err(why) => Err(why),
        };
        match public {
            Ok(public) => print(&format!("{public}\n")),
            Err(why) => {
                complain(&why.to_string());
                Exit::Failed
            }
        }
    }
}
