//! `check`: tries what the vault needs, one line each, and changes nothing.

use super::{Environment, connecting, folder};
use crate::key;
use crate::store::{Setup, Store};
use crate::wire::{Bucket, INBOX, REVISIONS, VAULT, Verb};
use argh::{ArgsInfo, FromArgs};
use mesh_bus::client::{CallError, Client, ConnectError};
use mesh_bus::config;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_daemon::terminal::escape;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::{self, WriteAnswer};
use mesh_model::keys::SealingKey;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

connecting! {
    /// try the store, the key, the connection, every bucket and the right to write revisions
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "check",
        note = "Run it under the vault's account, with the vault running or not. One line for each thing: ok, or wrong with\nwhat mends it. Nothing is changed: the revision that is written is one that the bus must refuse.\n\nExit status: 0 nothing is wrong; 1 something is; 78 the configuration is wrong.",
        example = "{command_name} --nkey /etc/mesh-vault/vault.nk"
    )]
    pub(super) struct Check {
        /// the folder of the store [MESH_VAULT_STORE; STATE_DIRECTORY; /var/lib/mesh-vault]
        #[argh(option, arg_name = "folder")]
        store: Option<PathBuf>,

        /// print one line of JSON
        #[argh(switch)]
        json: bool,
    }
}

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What was tried, whether it is well, and how it is.
type Line = (String, bool, String);

impl Check {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let settings = match config::load(&self.flags(), environment) {
            Ok(settings) => settings,
            Err(error) => {
                mesh_daemon::output::complain(&error.to_string());
                return Exit::Configuration;
            }
        };
        let mut lines = of_the_machine(&folder(self.store, environment));
        match Client::connect(settings, "mesh-vault check", &[INBOX], &nuid::next()) {
            Ok(mut client) => {
                lines.push(("connection".to_owned(), true, client.server().to_owned()));
                lines.extend(of_the_bus(&mut client));
                client.close();
            }
            Err(ConnectError::NoInbox(words)) => {
                let how = format!("the bus says {words}: use the vault's account, or grant its rights");
                lines.push(("connection".to_owned(), false, how));
            }
            Err(ConnectError::Unreachable(why)) => lines.push(("connection".to_owned(), false, why)),
        }
        let is_well = lines.iter().all(|(_, well, _)| *well);
        let printed = if self.json {
            let line = |(what, well, how): &Line| json!({"what": what, "ok": well, "how": how});
            print(&format!(
                "{}\n",
                json!({"ok": is_well, "lines": lines.iter().map(line).collect::<Vec<_>>()})
            ))
        } else {
            let line = |(what, well, how): &Line| {
                format!("{} {what}: {}\n", if *well { "ok   " } else { "wrong" }, escape(how))
            };
            print(&lines.iter().map(line).collect::<String>())
        };
        if is_well { printed } else { Exit::Failed }
    }
}

fn of_the_machine(folder: &Path) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut say = |what: &str, found: Result<String, String>| {
        let well = found.is_ok();
        lines.push((what.to_owned(), well, found.unwrap_or_else(|why| why)));
    };
    let store = Store::look(folder).map_err(|why| why.to_string());
    match &store {
        Err(why) => say("store", Err(why.clone())),
        Ok(store) => {
            say("store", of_the_store(store));
            say(
                "mesh",
                match store.setup() {
                    Err(why) => Err(why.to_string()),
                    Ok(None) => Err("the vault knows no mesh: mesh-vault init --mesh O…".to_owned()),
                    Ok(Some(Setup { mesh, .. })) => Ok(mesh.to_string()),
                },
            );
        }
    }
    let key = key::read(folder).map(|pair| SealingKey::of(&pair).to_string()).map_err(|why| why.to_string());
    say("key", key);
    lines
}

fn of_the_store(store: &Store) -> Result<String, String> {
    let tell = |why: crate::store::Unusable| why.to_string();
    if let Some(fault) = store.faults().map_err(tell)?.first() {
        return Err(format!("the file is damaged, {fault}: restore a copy"));
    }
    let [secrets, revisions, recovery, lists] = store.counts().map_err(tell)?;
    Ok(format!("{secrets} secrets, {revisions} revisions, {recovery} second copies, {lists} lists"))
}

fn of_the_bus(client: &mut Client) -> Vec<Line> {
    let mut lines = Vec::new();
    for bucket in Bucket::ALL {
        let request = kv::next(Kv::new(bucket.name()), 1);
        let how = match client.call(&request.subject, Vec::new(), request.body, TIMEOUT) {
            Err(error) => Err(tell(&error)),
            Ok(reply) => match kv::parse_message(&reply.body) {
                Ok(Some(_)) => Ok("there".to_owned()),
                Ok(None) => Ok("there, empty".to_owned()),
                Err(error) => Err(format!("{error}: run mesh-controller init, and mesh-provisioner init")),
            },
        };
        lines.push(line(format!("bucket {}", bucket.name()), how));
    }
    // No key has this sequence, so nothing is written.
    let request = kv::put(Kv::new(REVISIONS), "check.mesh-vault.nothing", "{}", u64::from(u32::MAX));
    let how = match client.call(&request.subject, request.headers, request.body, TIMEOUT) {
        Err(error) => Err(tell(&error)),
        Ok(reply) => match kv::parse_write(Kv::new(REVISIONS), &reply.body) {
            WriteAnswer::Conflict => Ok("the right is there".to_owned()),
            other => Err(format!("the bus answered {other:?}")),
        },
    };
    lines.push(line("writing revisions".to_owned(), how));
    let how = match client.call(&VAULT.ping_subject(), Vec::new(), Vec::new(), TIMEOUT) {
        Ok(reply) => match VAULT.parse_ping(&reply.body) {
            Some(identity) => Ok(format!("{} serves, version {}", identity.id, identity.version)),
            None => Err("something else answers as mesh-vault".to_owned()),
        },
        Err(CallError::NoResponders | CallError::Silent) => Ok("no vault serves".to_owned()),
        Err(error) => Err(tell(&error)),
    };
    lines.push(line(format!("{} and its verbs", Verb::Secret.subject()), how));
    lines
}

fn line(what: String, how: Result<String, String>) -> Line {
    let well = how.is_ok();
    (what, well, how.unwrap_or_else(|why| why))
}

fn tell(error: &CallError) -> String {
    match error {
        CallError::Denied(words) => {
            format!("the bus says {words}: use the vault's account, or grant its rights")
        }
        CallError::NoResponders => "JetStream does not answer: enable it for this account".to_owned(),
        CallError::Silent => {
            "no answer came in time: look at the load and the log of the nats-server".to_owned()
        }
        CallError::Lost(why) => format!("the connection broke: {why}"),
    }
}
