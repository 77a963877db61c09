//! The command line: one file a command.

#![expect(clippy::doc_markdown, reason = "doc comments of options are the text of --help")]
#![allow(rustdoc::broken_intra_doc_links, reason = "their brackets hold what an option is without the flag")]

mod check;
mod health;
mod init;
mod key;
mod serve;
mod status;

use argh::{ArgsInfo, FromArgs};
use mesh_bus::config::environment;
use mesh_daemon::arguments::Grammar;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_model::keys::{MeshKey, SealingKey};
use mesh_runtime::connecting;
use std::ffi::OsString;
use std::path::PathBuf;

/// The environment's variables.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The vault of a mesh: makes its secrets, keeps sealed copies alone, and hands each to the machine that uses it.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    note = "Flags override environment variables, which override the selected context of the nats tool. They may stand\nbefore or after the command, also as --flag=value. Passwords and tokens come from files or the environment,\nnever from a flag. The store is the folder of --store, MESH_VAULT_STORE, STATE_DIRECTORY, or /var/lib/mesh-vault.",
    example = "{command_name} init --mesh OAB… --recovery XAB…",
    example = "{command_name} key show",
    example = "{command_name} serve --nkey /etc/mesh-vault/vault.nk --status-file /run/mesh-vault/status.json"
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
    Init(init::Init),
    Key(key::Key),
    Check(check::Check),
    Status(status::StatusCommand),
    Health(health::Health),
    Version(Version),
}

/// print the version
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "version", example = "{command_name}")]
struct Version {}

/// The program's name, as it is typed.
const PROGRAM: &str = "mesh-vault";

/// What the parser does not know of the command line: other spellings, mostly those of the `nats` tool.
const GRAMMAR: Grammar = Grammar {
    program: PROGRAM,
    aliases: &[
        ("-s", "--server"),
        ("--tlsca", "--tls-ca"),
        ("--tlscert", "--tls-cert"),
        ("--tlskey", "--tls-key"),
    ],
    instead: &[
        (
            "--password",
            "set NATS_PASSWORD, since every user of the machine can read the arguments of a process",
        ),
        ("--token", "set NATS_TOKEN, since every user of the machine can read the arguments of a process"),
    ],
    defaults: &[],
};

/// Runs the command that `arguments` name; returns how it ended.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Exit {
    let arguments = match GRAMMAR.parse::<Arguments>(arguments) {
        Ok(arguments) => arguments,
        Err(early) => return early.end(PROGRAM, "mesh-vault serve runs the vault"),
    };
    if arguments.version {
        return print(&mesh_daemon::version(PROGRAM));
    }
    match arguments.command {
        Command::Serve(serve) => serve.run(&environment),
        Command::Init(init) => init.run(&environment),
        Command::Key(key) => key.run(&environment),
        Command::Check(check) => check.run(&environment),
        Command::Status(status) => status.run(&environment),
        Command::Health(health) => health.run(&environment),
        Command::Version(Version {}) => print(&mesh_daemon::version(PROGRAM)),
    }
}

/// The folder of the store.
fn folder(given: Option<PathBuf>, environment: Environment<'_>) -> PathBuf {
    let first = |directories: String| directories.split(':').next().unwrap_or_default().to_owned();
    given
        .or_else(|| environment("MESH_VAULT_STORE").map(PathBuf::from))
        .or_else(|| environment("STATE_DIRECTORY").map(first).map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from(crate::store::FOLDER))
}

fn parse_mesh(text: &str) -> Result<MeshKey, String> {
    text.parse().map_err(|why| format!("{text:?} {why}: mesh-controller identity prints it"))
}

fn parse_recovery(text: &str) -> Result<SealingKey, String> {
    text.parse().map_err(|why| format!("{text:?} {why}: mesh-controller operator key make prints it"))
}
