//! `migrate`: brings the store up to date, and makes the mesh's key where there is none.

use super::context::{Doing, Ended, Environment, OrEnd, paths};
use crate::identity;
use crate::store::{Context, Store, is_remote, migrate};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::output::{complain, print};

/// bring the store's schema up to date; the first time this makes the store and the mesh's key
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "migrate",
    note = "Forward only, a transaction for each step, a copy of each file beside it first. A newer file is refused.",
    example = "{command_name}"
)]
pub(super) struct Migrate {}

/// the same as migrate
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "prepare")]
pub(super) struct Prepare {}

impl Prepare {
    pub(super) fn run(&self, environment: Environment<'_>) -> Ended {
        let Prepare {} = self;
        run(environment)
    }
}

impl Migrate {
    pub(super) fn run(&self, environment: Environment<'_>) -> Ended {
        let Migrate {} = self;
        run(environment)
    }
}

fn run(environment: Environment<'_>) -> Ended {
    let paths = paths(environment)?;
    let migrated = migrate(&paths).or_end()?;
    let mut text = String::new();
    for one in &migrated {
        let path = paths.of(one.context).display();
        let name = one.context.name();
        text += &match (one.from, &one.copy) {
            (from, _) if from == one.to => {
                format!("{name}: version {}, nothing to do ({path})\n", one.to)
            }
            (0, _) => format!("{name}: made, version {} ({path})\n", one.to),
            (from, Some(copy)) => {
                format!("{name}: version {from} → {} ({path}; what it was: {})\n", one.to, copy.display())
            }
            (from, None) => format!("{name}: version {from} → {} ({path})\n", one.to),
        };
    }
    for context in Context::ALL {
        if let Some(kind) = is_remote(paths.of(context)) {
            complain(&format!(
                "warning: {} lies on a network file system ({kind}), where locks cannot be relied on: put it on a local disk",
                paths.of(context).display()
            ));
        }
    }
    let mut store = Store::open(&paths).or_end()?;
    let doing = Doing::new(environment, "migrate", "");
    if identity::make(&mut store, &doing.act()).or_end()? {
        text += &format!("the mesh's key: made ({}; keep a copy of it)\n", paths.key().display());
    }
    Ok(print(&text))
}
