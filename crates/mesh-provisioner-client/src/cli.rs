//! The command line.

#![expect(clippy::doc_markdown, reason = "doc comments of options are the text of --help")]
#![allow(rustdoc::broken_intra_doc_links, reason = "their brackets hold what an option is without the flag")]

mod check;
mod completion;
mod explain;
mod health;
mod join;
mod lint;
pub mod pages;
mod serve;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};
use mesh_bus::config::{BusConfig, Flags, environment};
use mesh_daemon::arguments::Grammar;
use mesh_daemon::output::print;

use crate::site::{Joined, Site};

/// The environment's variables.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Finds the value of every placeholder of this node's modules, hands ready modules to mesh-host, and tells the mesh
/// what is needed, contributed and applied.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    note = "The settings are in /etc/mesh-provisioner-client, where join writes them; the state is in\n/var/lib/mesh-provisioner-client. With --root DIR all of it is below DIR.",
    example = "{command_name} join -",
    example = "{command_name} serve",
    example = "{command_name} explain web"
)]
struct Arguments {
    /// print the version
    #[argh(switch)]
    version: bool,

    #[argh(subcommand)]
    command: Command,
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Command {
    Serve(serve::Serve),
    Once(serve::Once),
    Plan(serve::Plan),
    Explain(explain::Explain),
    Lint(lint::Lint),
    Join(join::Join),
    Check(check::Check),
    Status(explain::StatusCommand),
    Health(health::Health),
    Completion(completion::Completion),
    Version(Version),
}

/// print the version
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "version")]
struct Version {}

const PROGRAM: &str = "mesh-provisioner-client";

const GRAMMAR: Grammar = Grammar {
    program: PROGRAM,
    aliases: &[("-s", "--server"), ("--tlsca", "--tls-ca")],
    instead: &[(
        "--token",
        "give the token on stdin with join -, or in MESH_TOKEN, since every user of the machine can read arguments",
    )],
    defaults: &[],
};

/// Runs the command that `arguments` name; returns how it ended.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = match GRAMMAR.parse::<Arguments>(arguments) {
        Ok(arguments) => arguments,
        Err(early) => {
            return early.end(PROGRAM, "mesh-provisioner-client serve is the one for a unit").into();
        }
    };
    if arguments.version {
        return print(&mesh_daemon::version(PROGRAM)).into();
    }
    match arguments.command {
        Command::Serve(serve) => serve.run(&environment).into(),
        Command::Once(once) => ExitCode::from(once.run(&environment)),
        Command::Plan(plan) => ExitCode::from(plan.run(&environment)),
        Command::Explain(explain) => explain.run().into(),
        Command::Lint(lint) => lint.run().into(),
        Command::Join(join) => join.run(&environment).into(),
        Command::Check(check) => check.run(&environment).into(),
        Command::Status(status) => status.run().into(),
        Command::Health(health) => health.run().into(),
        Command::Completion(completion) => completion.run().into(),
        Command::Version(_) => print(&mesh_daemon::version(PROGRAM)).into(),
    }
}

fn site(root: Option<&PathBuf>) -> Site {
    Site::new(root.map(PathBuf::as_path))
}

/// How to connect: as the flags say, else as the environment says, else as joining wrote down.
fn flags(
    site: &Site,
    servers: &[String],
    server: Option<&String>,
    tls_ca: Option<&String>,
    environment: Environment<'_>,
) -> Flags {
    let is_set = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let is_known = ["NATS_CREDS", "NATS_NKEY", "NATS_USER"].iter().any(|name| is_set(name));
    let own_ca = (site.ca_path().exists() && !is_set("NATS_CA")).then(|| text(&site.ca_path()));
    Flags {
        server: server.cloned().or_else(|| (!is_set("NATS_URL")).then(|| servers.join(","))),
        nkey: (!is_known).then(|| text(&site.seed_path())),
        tls_ca: tls_ca.cloned().or(own_ca),
        ..Flags::default()
    }
}

/// Has the servers that joining wrote down known by their pin, unless a CA is named.
fn pin(joined: &Joined, server: Option<&String>, environment: Environment<'_>, settings: &mut BusConfig) {
    let is_own = server.is_none() && environment("NATS_URL").is_none_or(|value| value.is_empty());
    if is_own && settings.tls.ca.is_none() {
        settings.tls.pin = joined.pin.map(|pin| *pin.bytes());
    }
}
