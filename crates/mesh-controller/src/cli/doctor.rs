//! `doctor`: looks at everything that the controller stands on, and says the next step for what is wrong.

use super::bus::CALL_TIMEOUT;
use super::connecting;
use super::context::{Ended, Environment, OrEnd, paths};
use super::plan::current;
use crate::broker::{gather, load};
use crate::buckets;
use crate::identity;
use crate::store::{Context, Paths, Store, identity as ids, is_remote, lease, now, sent};
use argh::{ArgsInfo, FromArgs};
use mesh_bus::client::Client;
use mesh_bus::config::{self, Flags};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_daemon::terminal::{Paint, Style};
use mesh_jetstream::api::STREAM_INFO;
use mesh_jetstream::bucket::{Kv, differences};
use mesh_jetstream::kv;
use mesh_jetstream::stream_info;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

connecting! {
    /// look at store, key, lease, plan and bus; each line says the next step
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(subcommand, name = "doctor", note = "Exit status: 0 all is well; 1 something is not.")]
    pub(super) struct Doctor {
        /// print JSON
        #[argh(switch)]
        json: bool,
    }
}

/// One thing that was looked at.
struct Finding {
    what: &'static str,
    well: bool,
    detail: String,
}

impl Doctor {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        let mut findings = Vec::new();
        let mut find = |what: &'static str, result: Result<String, String>| {
            let well = result.is_ok();
            findings.push(Finding { what, well, detail: result.unwrap_or_else(|why| why) });
        };
        let paths = paths(environment)?;
        for context in Context::ALL {
            let path = paths.of(context);
            let private = || {
                let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode() & 0o077);
                match (mode, is_remote(path)) {
                    (0, None) => Ok(path.display().to_string()),
                    (0, Some(kind)) => {
                        Err(format!("{} lies on {kind}: put it on a local disk", path.display()))
                    }
                    _ => Err(format!("{} can be read by others: chmod 600 it", path.display())),
                }
            };
            find(context.name(), private());
        }
        match Store::open(&paths) {
            Err(error) => find("store", Err(error.to_string())),
            Ok(store) => {
                find("store", Ok("opens, of this program's version".into()));
                let key =
                    identity::open(&store).map(|signer| format!("{} signs", signer.pair().public_key()));
                find("key", key.map_err(|error| error.to_string()));
                let mesh = ids::expect_mesh(store.identity()).or_end()?;
                let vault = mesh.vault.map(|vault| vault.to_string());
                find("vault", vault.ok_or_else(|| "not known: init --vault X…".to_owned()));
                let recovery = mesh.recovery.map(|recovery| recovery.to_string());
                find(
                    "recovery",
                    recovery.ok_or_else(|| "not decided: operator key set X…, or none".to_owned()),
                );
                let row = lease::row(store.inventory()).or_end()?;
                let holder = if row.is_held(now()) { row.holder } else { None };
                find(
                    "lease",
                    Ok(format!("fence {}, held by {}", row.fence, holder.as_deref().unwrap_or("nobody"))),
                );
                let undone = sent::undone(store.inventory()).or_end()?.len();
                find(
                    "sent",
                    match undone {
                        0 => Ok("everything that was written down is on the bus".into()),
                        count => Err(format!("{count} values are not on the bus yet: push, or start serve")),
                    },
                );
                let (_, plan) = current(&store, None).or_end()?;
                let hindered: Vec<&str> = plan
                    .nodes
                    .iter()
                    .filter(|(_, change)| !change.problems.is_empty())
                    .map(|(node, _)| node.as_str())
                    .collect();
                find(
                    "plan",
                    match hindered[..] {
                        [] => Ok("every node can have what it should".into()),
                        _ => Err(format!("hindered: {}: see plan", hindered.join(", "))),
                    },
                );
            }
        }
        self.bus(environment, &mut find);
        let all_well = findings.iter().all(|finding| finding.well);
        if self.json {
            let rows: Vec<Value> = findings
                .iter()
                .map(|finding| json!({"what": finding.what, "well": finding.well, "detail": finding.detail}))
                .collect();
            print(&format!("{}\n", Value::from(rows)));
        } else {
            let paint = Paint::of_stdout();
            for finding in &findings {
                let (word, style) = if finding.well { ("ok", Style::Green) } else { ("no", Style::Red) };
                let line = format!("{}  {:<10}{}", paint.paint(style, word), finding.what, finding.detail);
                print(&format!("{line}\n"));
            }
        }
        Ok(if all_well { Exit::Done } else { Exit::Failed })
    }

    fn bus(&self, environment: Environment<'_>, find: &mut dyn FnMut(&'static str, Result<String, String>)) {
        let Ok(mut client) = super::bus::connect(&self.flags(), environment) else {
            find("bus", Err("cannot be used: see above".into()));
            return;
        };
        find("bus", Ok(client.server().to_owned()));
        find("users", users(&self.flags(), environment));
        find("mirrors", mirrors(&mut client, environment));
        for (bucket, history) in buckets::all() {
            let subject = format!("{STREAM_INFO}{}", Kv::new(bucket).stream());
            let result = match client.call(&subject, Vec::new(), Vec::new(), CALL_TIMEOUT) {
                Err(error) => Err(format!("{bucket}: {error:?}: use the controller's account")),
                Ok(answer) => match stream_info::parse_config(&answer.body) {
                    Err(error) => Err(format!("{bucket}: {error}: make it with mesh-controller init")),
                    Ok(there) => {
                        let mut advised = Kv::new(bucket).configuration(history, 1);
                        // How many servers store it is the operator's choice.
                        advised["num_replicas"] = there["num_replicas"].clone();
                        let differences = differences(&there, &advised);
                        match differences[..] {
                            [] => Ok(bucket.to_owned()),
                            _ => Err(format!("{bucket}: {}: update the stream", differences.join("; "))),
                        }
                    }
                },
            };
            find("bucket", result);
        }
        client.close();
    }
}

/// Whether the server has the newest file of users: its sentinel is let in.
fn users(flags: &Flags, environment: Environment<'_>) -> Result<String, String> {
    let words = |why: &dyn std::fmt::Display| why.to_string();
    let connection = config::load(flags, environment).map_err(|why| words(&why))?;
    let paths = Paths::find(environment).map_err(|why| words(&why))?;
    let store = Store::open(&paths).map_err(|why| words(&why))?;
    let signer = identity::open(&store).map_err(|why| words(&why))?;
    let body = gather::body(&store, &signer, now()).map_err(|why| words(&why))?;
    match load::prove(&connection, &signer.sentinel(&body.digest())) {
        Ok(()) => Ok(format!("the server has the newest file: {} users", body.users())),
        Err(why) => Err(format!(
            "the server does not have the newest file ({why}): broker users --out FILE and reload it, or give serve --reload-pid; a second users in the account would replace it without a word"
        )),
    }
}

/// How many values of the controller's buckets are compared.
const MOST_COMPARED: usize = 2_000;

/// Whether the bus holds what was sent.
fn mirrors(client: &mut Client, environment: Environment<'_>) -> Result<String, String> {
    let paths = Paths::find(environment).map_err(|why| why.to_string())?;
    let store = Store::open(&paths).map_err(|why| why.to_string())?;
    let all = sent::all(store.inventory()).map_err(|why| why.to_string())?;
    let mut differ = Vec::new();
    for sent in all.iter().take(MOST_COMPARED) {
        let request = kv::get(Kv::new(sent.bucket.name()), &sent.key);
        let answer = client
            .call(&request.subject, request.headers, request.body, CALL_TIMEOUT)
            .map_err(|why| format!("{}: {why:?}: use the controller's account", sent.bucket))?;
        let there = kv::parse_message(&answer.body).map_err(|why| format!("{}: {why}", sent.bucket))?;
        let there = there.filter(|there| !there.deleted).map(|there| there.value);
        if there != sent.value {
            differ.push(format!("{} {}", sent.bucket, sent.key));
        }
    }
    match &differ[..] {
        [] if all.len() > MOST_COMPARED => {
            Ok(format!("{MOST_COMPARED} of {} values were looked at, and are as they were sent", all.len()))
        }
        [] => Ok(format!("{} values are as they were sent", all.len())),
        [first, ..] => {
            Err(format!("{} values are not as they were sent, {first} first: start serve", differ.len()))
        }
    }
}
