//! The buckets, and where the entries of the registry lead.

use super::rights::refused_write;
use super::{Line, Report, Verdict};
use crate::init;
use crate::query::acknowledged;
use mesh_bus::client::{CallError, Client};
use mesh_jetstream::api::{ApiError, STREAM_INFO};
use mesh_jetstream::bucket::{Kv, differences};
use mesh_jetstream::kv::{self, WriteAnswer};
use mesh_jetstream::stream_info;
use mesh_model::bucket::Bucket;
use mesh_model::registry::{self, Source};
use mesh_provisioner_api::failure::Cause;
use serde_json::Value;
use std::time::Duration;

/// How long one request may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// Says how each bucket is, and where the registry leads.
pub(super) fn tried(client: &mut Client, report: &mut Report) {
    let mut buckets = Vec::new();
    for bucket in Bucket::ALL {
        let line = bucket_line(client, bucket);
        let verdict = line.verdict;
        report.say(line);
        buckets.push((bucket.name(), verdict));
    }
    let mut told: Vec<&Source<'_>> = Vec::new();
    for entry in &registry::ENTRIES {
        if told.contains(&&entry.source) {
            continue;
        }
        told.push(&entry.source);
        let kinds = registry::ENTRIES.iter().filter(|other| other.source == entry.source);
        let kinds: Vec<&str> = kinds.map(|other| other.kind).collect();
        let kinds = kinds.join(", ");
        report.say(match &entry.source {
            Source::Verb { verb } => verb_line(client, &kinds, verb, entry.module),
            Source::Bucket { bucket, .. } => {
                let ours = buckets.iter().find(|(name, _)| name == bucket).map(|(_, verdict)| *verdict);
                lead_line(client, &kinds, bucket, entry.module, ours)
            }
        });
    }
}

fn bucket_line(client: &mut Client, bucket: Bucket) -> Line {
    let what = format!("bucket {bucket}");
    let config = match stream(client, bucket.name()) {
        Ok(config) => config,
        Err(Cause::Denied(_)) => return Line::unknown(what, "this account may not look, see above"),
        Err(cause) => return Line::wrong(what, cause.tell(bucket)),
    };
    if let Some(fault) = stream_info::bucket_fault(Kv::new(bucket.name()), &config) {
        let cause = Cause::Api(ApiError::NotABucket(fault));
        return Line::wrong(what, cause.tell(bucket));
    }
    if bucket == Bucket::Registry
        && let Err(why) = write(client)
    {
        return Line::wrong(what, why);
    }
    let mut advised = init::advice(bucket, 1);
    // How many servers store it is the operator's choice.
    advised["num_replicas"] = config["num_replicas"].clone();
    let differences = differences(&config, &advised);
    if differences.is_empty() {
        return Line::ok(what, "");
    }
    Line::ok(what, format!("update its stream: {}", differences.join("; ")))
}

/// Tries to write the registry, in a way that the bus must refuse.
fn write(client: &mut Client) -> Result<(), String> {
    let request = refused_write(&registry::ENTRIES[0]);
    let answer = match client.call(&request.subject, request.headers, request.body, COMMAND_TIMEOUT) {
        Ok(answer) => answer,
        // The right has a line of its own.
        Err(CallError::Denied(_)) => return Ok(()),
        Err(CallError::Silent) => {
            return Err("a write has no answer: set no_ack to false in its stream".to_owned());
        }
        Err(error) => return Err(cause(error).tell(Bucket::Registry)),
    };
    match kv::parse_write(Kv::new(Bucket::Registry.name()), &answer.body) {
        WriteAnswer::Conflict => Ok(()),
        WriteAnswer::Refused(error) => Err(format!("the bus refuses every write: {error}: mend its stream")),
        WriteAnswer::Stored(sequence) => Err(format!(
            "the bus stored a write that expected another sequence (as {sequence}): its stream is not a key-value bucket: delete it, and run mesh-provisioner init"
        )),
        WriteAnswer::Unknown(why) => Err(format!("the answer to a write cannot be read: {why}")),
    }
}

fn lead_line(client: &mut Client, kinds: &str, bucket: &str, module: &str, ours: Option<Verdict>) -> Line {
    let what = format!("{kinds} in bucket {bucket}");
    if bucket.contains('<') {
        return Line::unknown(what, "each provider module has its own");
    }
    match ours {
        Some(Verdict::Ok) => return Line::ok(what, ""),
        Some(verdict) => return Line { verdict, what, how: "see above".to_owned() },
        None => {}
    }
    match stream(client, bucket) {
        Ok(_) => Line::ok(what, ""),
        Err(Cause::Denied(_)) => Line::unknown(what, "this account may not look"),
        Err(Cause::Api(error)) if error.err_code() == Some(ApiError::NO_STREAM) => {
            Line::wrong(what, format!("the bucket does not exist: start the module {module}, which owns it"))
        }
        Err(Cause::Api(error)) => Line::wrong(what, format!("the bus refuses: {error}")),
        Err(_) => Line::unknown(what, "JetStream gave no answer"),
    }
}

fn verb_line(client: &mut Client, kinds: &str, verb: &str, module: &str) -> Line {
    let what = format!("{kinds} by verb {verb}");
    match client.call(verb, Vec::new(), Vec::new(), COMMAND_TIMEOUT) {
        Ok(reply) => match acknowledged(&reply.body, verb) {
            Some(why) => Line::wrong(what, why),
            None => Line::ok(what, ""),
        },
        Err(CallError::Denied(_)) => Line::unknown(what, "this account may not ask"),
        Err(CallError::NoResponders) => {
            Line::wrong(what, format!("nobody answers: start the module {module}"))
        }
        Err(CallError::Silent) => {
            Line::wrong(what, format!("no response in time: look at the module {module}"))
        }
        Err(CallError::Lost(why)) => Line::wrong(what, format!("the connection broke: {why}")),
    }
}

/// The configuration of a bucket's stream.
fn stream(client: &mut Client, bucket: &str) -> Result<Value, Cause> {
    let subject = format!("{STREAM_INFO}{}", Kv::new(bucket).stream());
    let answer = client.call(&subject, Vec::new(), Vec::new(), COMMAND_TIMEOUT).map_err(cause)?;
    stream_info::parse_config(&answer.body).map_err(Cause::Api)
}

fn cause(error: CallError) -> Cause {
    match error {
        CallError::Denied(words) => Cause::Denied(words),
        CallError::NoResponders => Cause::NoResponders,
        CallError::Silent | CallError::Lost(_) => Cause::Silent,
    }
}
