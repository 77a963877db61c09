//! Loads one file of the sample mesh into the buckets, through the account of the node that it belongs to.
//!
//! `load-sample FILE`, with `NATS_URL`, `NATS_USER` and `NATS_PASSWORD` in the environment. A line is the last word of
//! a bucket's name, a key and a value; `#` starts a comment. The lines are written in order, each one acknowledged
//! before the next: exit 1 at the first that is not.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command: what it says is its output")]
#![allow(deprecated, reason = "the synchronous client is meant; its successor is asynchronous")]

use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::{env, fs};

use crossbeam_channel::{Receiver, select, unbounded};
use serde::Deserialize;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(5);

/// What `JetStream` answers to a publish.
#[derive(Deserialize)]
struct PubAck {
    #[serde(default)]
    seq: u64,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct ApiError {
    description: String,
}

struct Bus {
    connection: nats::Connection,
    inbox: String,
    acks: nats::Subscription,
    /// The server's complaints: a publish that is not allowed has no other answer.
    complaints: Receiver<String>,
}

impl Bus {
    fn connect() -> Result<Self, String> {
        let url = variable("NATS_URL")?;
        let user = variable("NATS_USER")?;
        let password = variable("NATS_PASSWORD")?;
        let (complain, complaints) = unbounded();
        let options = nats::Options::with_user_pass(&user, &password)
            .error_callback(move |error| drop(complain.send(error.to_string())));

        // The library waits without limit for a server that accepts and says nothing.
        let (send, connected) = mpsc::channel();
        let server = url.clone();
        thread::spawn(move || send.send(options.connect(server.as_str())));
        let connection = connected
            .recv_timeout(CONNECT_WITHIN)
            .map_err(|_| format!("{url}: no connection within {CONNECT_WITHIN:?}"))?
            .map_err(|error| format!("{url}: {error}"))?;

        // A node's account may listen under this prefix only, see packaging/bus/nats-server.conf.
        let inbox = format!("_INBOX_mesh.node.{user}.{}", nuid::next());
        let acks = connection.subscribe(&inbox).map_err(|error| format!("{inbox}: {error}"))?;
        Ok(Self { connection, inbox, acks, complaints })
    }

    fn write(&self, subject: &str, value: &str) -> Result<(), String> {
        self.connection.publish_request(subject, &self.inbox, value).map_err(|error| error.to_string())?;
        let message = select! {
            recv(self.acks.receiver()) -> message => message.map_err(|_| "the connection is closed")?,
            recv(self.complaints) -> complaint => {
                return Err(complaint.unwrap_or_else(|_| "the connection is closed".to_owned()));
            }
            default(ACKNOWLEDGED_WITHIN) => {
                return Err(format!("not acknowledged within {ACKNOWLEDGED_WITHIN:?}"));
            }
        };
        if message.is_no_responders() {
            return Err("no such bucket".to_owned());
        }
        let ack: PubAck = serde_json::from_slice(&message.data)
            .map_err(|error| format!("not an acknowledgement: {error}"))?;
        match ack {
            PubAck { error: Some(error), .. } => Err(error.description),
            PubAck { seq: 0, .. } => Err("acknowledged without a sequence, so not stored".to_owned()),
            PubAck { .. } => Ok(()),
        }
    }
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// Splits a line into bucket, key and value; `None` for one that holds none.
fn parse(line: &str) -> Result<Option<(&str, &str, &str)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut fields = line.splitn(3, ' ');
    match (fields.next(), fields.next(), fields.next()) {
        (Some(bucket @ ("needs" | "applied" | "collect")), Some(key), Some(value)) => {
            Ok(Some((bucket, key, value)))
        }
        _ => Err("not `needs|applied|collect KEY VALUE`".to_owned()),
    }
}

/// Writes every line of the file; the number of writes.
fn load(path: &str) -> Result<usize, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let bus = Bus::connect()?;
    let mut written = 0;
    for (index, line) in text.lines().enumerate() {
        let place = |why| format!("{path}:{}: {why}: {line}", index + 1);
        if let Some((bucket, key, value)) = parse(line).map_err(place)? {
            bus.write(&format!("$KV.mesh-provisioner_{bucket}.{key}"), value).map_err(place)?;
            written += 1;
        }
    }
    Ok(written)
}

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: load-sample FILE");
        return ExitCode::from(64);
    };
    match load(&path) {
        Ok(written) => {
            println!("{path}: {written} keys written");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("load-sample: {why}");
            ExitCode::FAILURE
        }
    }
}
