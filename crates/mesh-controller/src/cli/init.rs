//! `init`: makes the buckets of the controller and the vault, and tells the mesh its vault's key.

use super::bus::{call, connect};
use super::connecting;
use super::context::{Doing, Ended, Environment, OrEnd, store};
use crate::buckets;
use crate::store::identity;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_jetstream::api::{ApiError, STREAM_CREATE, STREAM_INFO};
use mesh_jetstream::bucket::{Kv, differences};
use mesh_jetstream::message::Request;
use mesh_jetstream::stream_info;
use mesh_model::keys::SealingKey;

connecting! {
    /// make the buckets that are missing, with an administrator's credentials, and tell the mesh its vault's key
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "init",
        note = "Existing buckets are left as they are, and differences are reported. With --vault nothing on the bus is\nchanged: the key goes into the store. Exit status: 0 done; 1 the bus refuses; 69 the bus cannot be reached;\n77 denied.",
        example = "{command_name} --nkey administrator.nk --replicas 3",
        example = "{command_name} --vault XABC…"
    )]
    pub(super) struct Init {
        /// the vault's public key, X…, as mesh-vault key prints it
        #[argh(option, arg_name = "key")]
        vault: Option<SealingKey>,

        /// number of servers of a cluster that store each new bucket [1]
        #[argh(option, arg_name = "count", default = "1", from_str_fn(parse_replicas))]
        replicas: u8,
    }
}

/// JetStream keeps a stream on five servers at most.
fn parse_replicas(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(count @ 1..=5) => Ok(count),
        _ => Err(format!("{text:?} is not an integer from 1 to 5")),
    }
}

impl Init {
    pub(super) fn run(self, environment: Environment<'_>) -> Ended {
        if let Some(vault) = &self.vault {
            return tell_vault(environment, vault);
        }
        let mut client = connect(&self.flags(), environment)?;
        let mut exit = Exit::Done;
        for (bucket, history) in buckets::all() {
            let stream = Kv::new(bucket).stream();
            let wanted = Kv::new(bucket).configuration(history, self.replicas);
            let request = |subject: &str, body: Vec<u8>| Request {
                subject: format!("{subject}{stream}"),
                headers: Vec::new(),
                body,
            };
            let there = call(&mut client, request(STREAM_INFO, Vec::new()))?;
            let line = match stream_info::parse_config(&there) {
                Ok(there) => {
                    let differences = differences(&there, &wanted);
                    if differences.is_empty() {
                        "there, as advised".to_owned()
                    } else {
                        format!("there, left as it is: {}", differences.join("; "))
                    }
                }
                Err(error) if error.err_code() == Some(ApiError::NO_STREAM) => {
                    let made = call(&mut client, request(STREAM_CREATE, wanted.to_string().into_bytes()))?;
                    match stream_info::parse_config(&made) {
                        Ok(_) => "created".to_owned(),
                        Err(error) => {
                            complain(&format!("bucket {bucket}: the bus refuses: {error}"));
                            exit = Exit::Failed;
                            continue;
                        }
                    }
                }
                Err(error) => {
                    complain(&format!("bucket {bucket}: the bus refuses: {error}"));
                    exit = Exit::Failed;
                    continue;
                }
            };
            print(&format!("bucket {bucket}: {line}\n"));
        }
        client.close();
        Ok(exit)
    }
}

fn tell_vault(environment: Environment<'_>, vault: &SealingKey) -> Ended {
    let mut store = store(environment)?;
    let mesh = identity::expect_mesh(store.identity()).or_end()?;
    if mesh.vault.as_ref() == Some(vault) {
        return Ok(print(&format!("the mesh's vault is {vault} already\n")));
    }
    let doing = Doing::new(environment, "init", format!("--vault {vault}"));
    let act = doing.act();
    let change = store.change_identity(&act).or_end()?;
    identity::set_vault(&change, vault).or_end()?;
    change.commit().or_end()?;
    if let Some(before) = mesh.vault {
        complain(&format!(
            "warning: the vault was {before}: every node takes the new key with its next declaration"
        ));
    }
    Ok(print(&format!("the mesh's vault is {vault}\n")))
}
