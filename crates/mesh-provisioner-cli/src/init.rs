//! `init`: makes the buckets that are missing, and says how those that are there differ from the advice.

use super::connect::{Environment, Inbox, connect, explain, parse_inbox_prefix};
use super::connecting;
use super::parse_whole;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_jetstream::api::{ApiError, STREAM_CREATE, STREAM_INFO};
use mesh_jetstream::bucket::{Kv, differences};
use mesh_jetstream::stream_info;
use mesh_model::bucket::Bucket;
use mesh_provisioner_api::failure::Cause;
use serde_json::Value;
use std::time::Duration;

/// How long one request may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

connecting! {
    /// create the missing ones of the four buckets, with an administrator's credentials; existing buckets are left alone
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "init",
        note = "Exit status: 0 all are there; 1 the bus refuses one; 69 the bus cannot be reached; 77 denied.",
        example = "{command_name} --creds administrator.creds --replicas 3"
    )]
    pub struct Init {
        /// number of servers of a cluster that store each new bucket [1]
        #[argh(option, arg_name = "count", default = "1", from_str_fn(parse_replicas))]
        replicas: u8,

        /// where answers come to, for an account that has an inbox of its own [_INBOX]
        #[argh(option, arg_name = "subject", from_str_fn(parse_inbox_prefix))]
        inbox_prefix: Option<String>,
    }
}

/// JetStream keeps a stream on five servers at most.
fn parse_replicas(text: &str) -> Result<u8, String> {
    parse_whole(text, 1, 5)
}

impl Init {
    /// Runs the command; returns how it ended.
    pub fn run(self, environment: Environment<'_>) -> Exit {
        let mut client = match connect(&self.flags(), environment, &Inbox::usual(self.inbox_prefix.as_ref()))
        {
            Ok(client) => client,
            Err(exit) => return exit,
        };
        let nobody = "JetStream does not answer on this bus: enable it in the nats-server's configuration";
        let mut exit = Exit::Done;
        for bucket in Bucket::ALL {
            let advice = advice(bucket, self.replicas);
            let mut call = |request: &str, body: Vec<u8>| {
                let subject = format!("{request}{}", Kv::new(bucket.name()).stream());
                client.call(&subject, Vec::new(), body, COMMAND_TIMEOUT)
            };
            let made = match call(STREAM_INFO, Vec::new())
                .map(|answer| stream_info::parse_config(&answer.body))
            {
                Ok(Err(error)) if error.err_code() == Some(ApiError::NO_STREAM) => {
                    call(STREAM_CREATE, advice.to_string().into_bytes())
                        .map(|answer| stream_info::parse_config(&answer.body).map(|_| "created".to_owned()))
                }
                other => other.map(|there| {
                    let config = there?;
                    match stream_info::bucket_fault(Kv::new(bucket.name()), &config) {
                        Some(fault) => Err(ApiError::NotABucket(fault)),
                        None => Ok(compare(&config, &advice)),
                    }
                }),
            };
            let ended = match made {
                Ok(Ok(line)) => print(&format!("bucket {bucket}: {line}\n")),
                Ok(Err(error @ ApiError::NotABucket(_))) => {
                    complain(&Cause::Api(error).tell(bucket));
                    Exit::Failed
                }
                Ok(Err(error)) => {
                    complain(&format!("bucket {bucket}: the bus refuses: {error}"));
                    Exit::Failed
                }
                Err(error) => explain(&error, &format!("bucket {bucket}"), nobody, "administrator"),
            };
            if ended != Exit::Done {
                exit = ended;
            }
        }
        client.close();
        exit
    }
}

/// The configuration of a bucket's stream. The registry keeps more history, so that a write of another client can still be
/// looked at after it was put right.
pub(super) fn advice(bucket: Bucket, replicas: u8) -> Value {
    let history = if bucket == Bucket::Registry { 8 } else { 1 };
    Kv::new(bucket.name()).configuration(history, replicas)
}

fn compare(there: &Value, advice: &Value) -> String {
    let differences = differences(there, advice);
    if differences.is_empty() {
        "there, as advised".to_owned()
    } else {
        format!("there, left as it is: {}", differences.join("; "))
    }
}
