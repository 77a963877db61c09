//! Prints each need of a node, one JSON object per line: a client of the seat on the `nats` crate.
//!
//! `cargo run --example ask NODE`, with `NATS_URL`, `NATS_USER` and `NATS_PASSWORD` in the environment.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command: its output is the result")]

use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::{env, error::Error, thread::sleep, time::Duration};

const VERB: &str = "mesh-provisioner.provisioning";
const TIMEOUT: Duration = Duration::from_secs(6);
const RETRY: [&str; 6] =
    ["jetstream_error", "jetstream_unavailable", "bucket_changing", "full", "stopping", "timeout"];

/// A page or an error. Unknown fields are ignored.
#[derive(Deserialize)]
struct Response<'a> {
    /// As written, digit for digit.
    #[serde(borrow, default)]
    entries: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    malformed: Vec<&'a RawValue>,
    next: Option<String>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    code: u16,
    reason: String,
    message: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (user, password) = (env::var("NATS_USER")?, env::var("NATS_PASSWORD")?);
    let bus = nats::Options::with_user_pass(&user, &password).connect(env::var("NATS_URL")?)?;
    let node = env::args().nth(1).ok_or("usage: ask NODE")?;
    let (mut query, mut tries) = (json!({"what": "needs", "node": node, "limit": 100}), 0);
    loop {
        let message = bus.request_timeout(VERB, query.to_string(), TIMEOUT)?;
        let page: Response<'_> = serde_json::from_slice(&message.data)?;
        if let Some(Failure { code, reason, message }) = page.error {
            tries += 1;
            if tries > 3 || !RETRY.contains(&reason.as_str()) {
                return Err(format!("error {code}: {message}").into());
            }
            sleep(Duration::from_secs(1 << tries));
            continue;
        }
        page.entries.iter().for_each(|entry| println!("{entry}"));
        page.malformed.iter().for_each(|malformed| eprintln!("malformed: {malformed}"));
        let Some(next) = page.next else { return Ok(()) };
        query["after"] = next.into();
    }
}
