//! `key`: the vault's key.

use super::{Environment, folder};
use crate::key;
use crate::store::Store;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_model::keys::SealingKey;
use std::path::PathBuf;

/// the vault's key, which seals every secret; needs no bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "key",
    note = "The seed is in vault.nk in the store's folder, and is never printed. Copy it as you copy the store: hosts take\nsecrets from this key alone.",
    example = "{command_name} show"
)]
pub(super) struct Key {
    #[argh(subcommand)]
    act: Act,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Act {
    Make(Make),
    Show(Show),
}

/// make the key, if there is none, and print its public half
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "make",
    note = "Exit status: 0 made; 1 there is one, or it cannot be made.",
    example = "{command_name}"
)]
struct Make {
    /// the folder of the store [MESH_VAULT_STORE; STATE_DIRECTORY; /var/lib/mesh-vault]
    #[argh(option, arg_name = "folder")]
    store: Option<PathBuf>,
}

/// print the public half of the key (X…)
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "show",
    note = "Exit status: 0 printed; 1 there is none.",
    example = "{command_name}"
)]
struct Show {
    /// the folder of the store [MESH_VAULT_STORE; STATE_DIRECTORY; /var/lib/mesh-vault]
    #[argh(option, arg_name = "folder")]
    store: Option<PathBuf>,
}

impl Key {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let public = match self.act {
            Act::Make(Make { store }) => {
                let folder = folder(store, environment);
                match Store::make(&folder) {
                    Ok(_store) => key::make(&folder).map_err(|why| why.to_string()),
                    Err(why) => Err(why.to_string()),
                }
            }
            Act::Show(Show { store }) => {
                let pair = key::read(&folder(store, environment));
                pair.map(|pair| SealingKey::of(&pair)).map_err(|why| why.to_string())
            }
        };
        match public {
            Ok(public) => print(&format!("{public}\n")),
            Err(why) => {
                complain(&why);
                Exit::Failed
            }
        }
    }
}
