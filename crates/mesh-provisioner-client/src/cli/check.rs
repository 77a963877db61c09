//! `check`: settings, rights, buckets, and the host's socket.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};
use mesh_bus::client::{CallError, Client, ConnectError};
use mesh_bus::config;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_jetstream::api::ApiError;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::consumer::{self, Wanted};
use mesh_model::bucket::Bucket;
use mesh_model::host_api::{Line, Request};
use mesh_model::name;
use mesh_model::rights::Inbox;

use super::{Environment, flags, pin, site};
use crate::host;
use crate::site::{Joined, Site};

/// How long the host may take to answer.
const HOST_WITHIN: Duration = Duration::from_secs(10);

/// settings, the host's socket, rights on the bus, and buckets: a line each
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "check", example = "{command_name}")]
pub(super) struct Check {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the bus's servers: URLs, comma-separated [NATS_URL; what joining wrote]
    #[argh(option, arg_name = "urls")]
    server: Option<String>,

    /// the CA that signed the server certificates [NATS_CA; ca.pem beside the settings]
    #[argh(option, arg_name = "file")]
    tls_ca: Option<String>,
}

/// The lines so far, and whether one of them is a failure.
#[derive(Default)]
struct Found {
    text: String,
    failed: bool,
}

impl Found {
    fn line(&mut self, what: &str, result: Result<String, String>) {
        match result {
            Ok(words) => writeln!(self.text, "ok    {what}: {words}").ok(),
            Err(why) => {
                self.failed = true;
                writeln!(self.text, "FAIL  {what}: {why}").ok()
            }
        };
    }
}

impl Check {
    pub(super) fn run(&self, environment: Environment<'_>) -> Exit {
        let site = site(self.root.as_ref());
        let mut found = Found::default();
        let joined = site.joined();
        found.line(
            "settings",
            joined.as_ref().map(|joined| format!("node {}", joined.node)).map_err(Clone::clone),
        );
        found.line("key on the bus", seed(&site));
        found.line("host", host_answers(&site));
        if let Ok(joined) = joined {
            let flags =
                flags(&site, &joined.servers, self.server.as_ref(), self.tls_ca.as_ref(), environment);
            match config::load(&flags, environment) {
                Ok(mut settings) => {
                    pin(&joined, self.server.as_ref(), environment, &mut settings);
                    bus(&joined, settings, &mut found);
                }
                Err(error) => found.line("bus", Err(error.to_string())),
            }
        }
        let exit = if found.failed { Exit::Failed } else { Exit::Done };
        match print(&found.text) {
            Exit::Done => exit,
            other => {
                complain("cannot print");
                other
            }
        }
    }
}

fn seed(site: &Site) -> Result<String, String> {
    let path = site.seed_path();
    let metadata = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mode = metadata.permissions().mode() & 0o7777;
    let of_others = mode & 0o077;
    if of_others == 0 {
        Ok(format!("{} has the mode {mode:04o}", path.display()))
    } else {
        Err(format!("{} has the mode {mode:04o}, and others can read it: chmod 0600", path.display()))
    }
}

fn host_answers(site: &Site) -> Result<String, String> {
    match host::ask(&site.socket(), &Request::Key, HOST_WITHIN)? {
        Line::Key(key) => Ok(format!("{} answers, its key is {key}", site.socket().display())),
        Line::Error { code, message } => Err(format!("{code} {message}")),
        _ => Err("an answer of another form".to_owned()),
    }
}

fn bus(joined: &Joined, settings: config::BusConfig, found: &mut Found) {
    let inbox = format!("{}.check", Inbox::Node(&joined.node).prefix());
    let mut client =
        match Client::connect(settings, "mesh-provisioner-client check", &[&inbox], &nuid::next()) {
            Ok(client) => client,
            Err(ConnectError::Unreachable(why)) => return found.line("bus", Err(why)),
            Err(ConnectError::NoInbox(words)) => {
                return found.line("bus", Err(format!("the own inbox cannot be subscribed: {words}")));
            }
        };
    found.line("bus", Ok(format!("connected to {}", client.server())));
    let token = name::encode(&joined.node);
    let below = format!("{token}.>");
    for (bucket, keys) in [
        ("mesh-controller_declarations", token.as_str()),
        ("mesh-controller_assignments", below.as_str()),
        ("mesh-controller_settings", below.as_str()),
        (Bucket::Registry.name(), ">"),
        ("mesh-vault_revisions", below.as_str()),
        (Bucket::Needs.name(), below.as_str()),
        (Bucket::Applied.name(), below.as_str()),
        (Bucket::Collect.name(), below.as_str()),
    ] {
        let wanted = Wanted {
            bucket: Kv::new(bucket),
            name: &nuid::next(),
            keys,
            deliver: &format!("{inbox}.nobody"),
            heartbeat: Duration::from_secs(5),
            inactive: Duration::from_millis(500),
        };
        let request = wanted.create();
        let answer = client.call(&request.subject, request.headers, request.body, Duration::from_secs(5));
        let result = match answer {
            Ok(answer) => match consumer::parse_created(&answer.body) {
                Ok(created) => Ok(format!("readable, {} keys", created.pending)),
                Err(error) if error.err_code() == Some(ApiError::NO_STREAM) => {
                    Err("does not exist: mesh-controller init and mesh-provisioner init make the buckets"
                        .to_owned())
                }
                Err(error) => Err(error.to_string()),
            },
            Err(CallError::Denied(words)) => Err(format!("the bus says: {words}")),
            Err(CallError::NoResponders) => Err("JetStream does not answer".to_owned()),
            Err(CallError::Silent) => Err("no answer in time".to_owned()),
            Err(CallError::Lost(why)) => Err(format!("the connection broke: {why}")),
        };
        found.line(bucket, result);
    }
    client.close();
}
