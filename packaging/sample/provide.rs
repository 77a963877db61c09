//! Answers one consumer as the provider that it is bound to: puts a value into `<provider>_bound`, through the provider's
//! account.
//!
//! `provide key FILE` makes the seed of that account, mode 0600, and prints its public half, for
//! `mesh-controller module issue --public-key`.
//!
//! `provide NODE MODULE KEY VALUE`: the node and the module of the provider, the key (`<node>.<module>.<provision>.<local>` of
//! the consumer) and the value, JSON. `NATS_URL` and `NATS_NKEY` (a file with the account's seed) are in the environment.
//! Exit 1 if the bus does not acknowledge it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command: what it says is its output")]

use mesh_bus::client::Client;
use mesh_bus::config::{self, Flags};
use mesh_model::rights::Inbox;
use nkeys::KeyPair;
use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ExitCode;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(5);

fn provide(node: &str, module: &str, key: &str, value: &str) -> Result<(), String> {
    serde_json::from_str::<serde::de::IgnoredAny>(value)
        .map_err(|error| format!("the value is not JSON: {error}"))?;
    let settings =
        config::load(&Flags::default(), &config::environment).map_err(|error| error.to_string())?;
    let inbox = Inbox::Module(node, module).prefix();
    let mut client = Client::connect(settings, "provide", &[&inbox], &nuid::next())
        .map_err(|error| format!("no connection: {error:?}"))?;
    let subject = format!("$KV.{module}_bound.{key}");
    let answer = client.call(&subject, Vec::new(), value.as_bytes().to_vec(), WITHIN);
    client.close();
    let answer = answer.map_err(|error| format!("{subject}: {error:?}"))?;
    let stored: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if stored["seq"].is_u64() { Ok(()) } else { Err(format!("{subject}: {stored}")) }
}

fn make_key(file: &str) -> Result<(), String> {
    let pair = KeyPair::new_user();
    let seed = pair.seed().map_err(|error| error.to_string())?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    made.and_then(|mut made| made.write_all(seed.as_bytes())).map_err(|error| format!("{file}: {error}"))?;
    println!("{}", pair.public_key());
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["key", file] => make_key(file),
        [node, module, key, value] => provide(node, module, key, value),
        _ => {
            eprintln!("usage: provide key FILE, or provide NODE MODULE KEY VALUE");
            return ExitCode::from(64);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("provide: {why}");
            ExitCode::FAILURE
        }
    }
}
