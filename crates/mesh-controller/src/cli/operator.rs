//! `operator key`: the key that the second copy of every secret is sealed to. Its private half is never in the mesh.

use super::context::{Doing, Ended, Environment, OrEnd, store};
use crate::compose::compose;
use crate::snapshot;
use crate::store::{Store, identity};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_model::node_record::Recovery;
use nkeys::XKey;
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use zeroize::Zeroizing;

/// the operator's recovery key
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "operator")]
pub(super) struct OperatorCommand {
    #[argh(subcommand)]
    command: Of,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Of {
    Key(KeyCommand),
}

/// make, set or show the recovery key
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "key")]
struct KeyCommand {
    #[argh(subcommand)]
    command: Which,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Which {
    Make(Make),
    Set(Set),
    Show(Show),
}

/// make a key; its private half goes into a file that belongs off the mesh
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "make", example = "{command_name} --out recovery.xk")]
struct Make {
    /// the file, mode 0600 [recovery.xk]
    #[argh(option, arg_name = "file", default = "\"recovery.xk\".to_owned()")]
    out: String,
}

/// set the key, or none
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "set",
    note = "With none, a secret that is lost with its machine is lost. A new key re-seals nothing: the vault cannot open\nwhat it keeps. Made secrets get it when they are rotated, accepted ones when they are accepted again."
)]
struct Set {
    /// replace the key that is set
    #[argh(switch)]
    replace: bool,

    /// the public key, X…, or none
    #[argh(positional, arg_name = "key")]
    key: Recovery,
}

/// show the key, and which secrets it opens
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "show")]
struct Show {
    /// print JSON
    #[argh(switch)]
    json: bool,
}

impl OperatorCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let Of::Key(key) = self.command;
        match key.command {
            Which::Make(make) => make.run(),
            Which::Set(set) => set.run(environment),
            Which::Show(show) => show.run(environment),
        }
    }
}

impl Make {
    fn run(self) -> Ended {
        let key = XKey::new();
        let seed = key.seed().map(Zeroizing::new).map_err(|error| {
            complain(&format!("no key can be made: {error}"));
            Exit::Failed
        })?;
        let write = || -> std::io::Result<()> {
            let mut file =
                std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.out)?;
            file.write_all(seed.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()
        };
        write().map_err(|error| {
            complain(&format!("{} cannot be written: {error}: nothing was made", self.out));
            Exit::Failed
        })?;
        complain(&format!(
            "{} opens every secret of the mesh: keep it off the mesh, and set its public half with operator key set",
            self.out
        ));
        Ok(print(&format!("{}\n", key.public_key())))
    }
}

/// The secrets that the mesh needs, as `node module name`.
fn secrets(store: &Store) -> Result<Vec<String>, crate::store::Error> {
    let composed = compose(&snapshot::read(store.inventory(), store.identity())?);
    let mut found = Vec::new();
    for (node, plan) in &composed.nodes {
        for (module, of) in &plan.modules {
            for (_, key) in &of.sealed {
                found.push(format!("{node} {module} {key}"));
            }
        }
    }
    found.dedup();
    Ok(found)
}

impl Set {
    fn run(self, environment: Environment<'_>) -> Ended {
        let mut store = store(environment)?;
        let mesh = identity::expect_mesh(store.identity()).or_end()?;
        if mesh.recovery.as_ref() == Some(&self.key) {
            return Ok(print(&format!("the recovery key is {} already\n", self.key)));
        }
        if let Some(before) = mesh.recovery.as_ref().filter(|_| !self.replace) {
            complain(&format!(
                "the recovery key is {before}: give --replace, and keep the old one as long as it opens anything"
            ));
            return Err(Exit::Failed);
        }
        let only_old = match &mesh.recovery {
            Some(Recovery::Key(_)) => secrets(&store).or_end()?,
            _ => Vec::new(),
        };
        let doing = Doing::new(environment, "operator key set", self.key.to_string());
        let act = doing.act();
        let change = store.change_identity(&act).or_end()?;
        identity::set_recovery(&change, &self.key).or_end()?;
        change.commit().or_end()?;
        let mut text = format!("the recovery key is {}; nodes have it with the next push\n", self.key);
        if let (Some(Recovery::Key(old)), false) = (&mesh.recovery, only_old.is_empty()) {
            text += &format!("only {old} opens these, until they are rotated or accepted again:\n");
            for secret in only_old {
                text += &format!("  {secret}\n");
            }
        }
        Ok(print(&text))
    }
}

impl Show {
    fn run(self, environment: Environment<'_>) -> Ended {
        let store = store(environment)?;
        let mesh = identity::expect_mesh(store.identity()).or_end()?;
        let secrets = secrets(&store).or_end()?;
        let key = mesh.recovery.map(|recovery| recovery.to_string());
        if self.json {
            return Ok(print(&format!("{}\n", json!({"key": key, "secrets": secrets.len()}))));
        }
        Ok(print(&match key {
            Some(key) if key == "none" => format!("none: {} secrets have no second copy\n", secrets.len()),
            Some(key) => format!(
                "{key}\nnew copies of {} secrets are sealed to it; secret list says which have one\n",
                secrets.len()
            ),
            None => "not set: make one with operator key make, or say operator key set none\n".to_owned(),
        }))
    }
}
