//! The command line: one file a command.

#![expect(clippy::doc_markdown, reason = "doc comments of options are the text of --help")]
#![allow(rustdoc::broken_intra_doc_links, reason = "their brackets hold what an option is without the flag")]

mod ask;
mod check;
mod completion;
mod connect;
mod health;
mod init;
mod permissions;
mod plan;
mod query;
mod report;
mod serve;
mod status;
mod watch;
mod why;

use argh::{ArgsInfo, FromArgs};
use mesh_bus::config::environment;
use mesh_daemon::arguments::{Early, Grammar};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::Color;
use mesh_runtime::connecting;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::IsTerminal;
use std::str::FromStr;

/// Holds the provisioner's seat of a mesh: keeps the registry of kinds, and answers what every module on every node
/// needs, what is applied where, and what is in every collection.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    note = "Flags override environment variables, which override the selected context of the nats tool. They may stand\nbefore or after the command, also as --flag=value. Passwords and tokens come from files or the environment,\nnever from a flag.",
    example = "{command_name} status",
    example = "{command_name} why attic web port:http",
    example = "{command_name} ask drift --not-ok",
    example = "{command_name} serve --creds /etc/mesh-provisioner/seat.creds"
)]
struct Arguments {
    /// print the version
    #[argh(switch)]
    version: bool,

    /// when to colour: auto, always or never [auto]
    #[argh(option, arg_name = "when", default = "Color::Auto", from_str_fn(parse_color))]
    color: Color,

    #[argh(subcommand)]
    command: Command,
}

fn parse_color(word: &str) -> Result<Color, String> {
    Color::parse(word)
}

#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Command {
    Status(status::Status),
    Why(why::Why),
    Ask(ask::Ask),
    Report(report::Report),
    Serve(serve::Serve),
    Plan(plan::PlanCommand),
    Init(init::Init),
    Check(check::Check),
    Permissions(permissions::Permissions),
    Health(health::Health),
    Completion(completion::Completion),
}

/// The program's name, as it is typed.
const PROGRAM: &str = "mesh-provisioner";

/// What the parser does not know of the command line: other spellings, mostly those of the `nats` tool.
const GRAMMAR: Grammar = Grammar {
    program: PROGRAM,
    aliases: &[
        ("-s", "--server"),
        ("--tlsca", "--tls-ca"),
        ("--tlscert", "--tls-cert"),
        ("--tlskey", "--tls-key"),
        ("-o", "--output"),
        ("-w", "--watch"),
        ("--colour", "--color"),
        ("--no-header", "--no-headers"),
    ],
    instead: &[
        (
            "--password",
            "set NATS_PASSWORD, since every user of the machine can read the arguments of a process",
        ),
        ("--token", "set NATS_TOKEN, since every user of the machine can read the arguments of a process"),
        ("--timeout", "a question is answered or refused within 6 seconds"),
    ],
    defaults: &[("--watch", "2s")],
};

/// Runs the command that `arguments` name; returns how it ended.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Exit {
    let arguments = match GRAMMAR.parse::<Arguments>(arguments) {
        Ok(arguments) => arguments,
        Err(early) => return end(early),
    };
    if arguments.version {
        return print(&mesh_daemon::version("mesh-provisioner"));
    }
    arguments.color.choose();
    match arguments.command {
        Command::Status(status) => status.run(&environment),
        Command::Why(why) => why.run(&environment),
        Command::Ask(ask) => ask.run(&environment),
        Command::Report(report) => report.run(&environment),
        Command::Serve(serve) => serve.run(&environment),
        Command::Plan(plan) => plan.run(&environment),
        Command::Init(init) => init.run(&environment),
        Command::Check(check) => check.run(&environment),
        Command::Permissions(permissions) => permissions.run(),
        Command::Health(health) => health.run(&environment),
        Command::Completion(completion) => completion.run(&environment),
    }
}

/// Ends where there is no command to run.
fn end(early: Early) -> Exit {
    match early {
        Early::Help(text) => print(&text),
        Early::Version => print(&mesh_daemon::version("mesh-provisioner")),
        // A person who types the name alone wants to know what there is. A unit file that does is wrong.
        Early::NoCommand(help) if std::io::stdout().is_terminal() => print(&help),
        Early::NoCommand(_) => {
            complain(&format!("no command is given: {PROGRAM} serve holds the seat"));
            complain(&format!("see {PROGRAM} --help"));
            Exit::Usage
        }
        Early::Wrong { message, see } => {
            complain(&message);
            complain(&format!("see {see}"));
            Exit::Usage
        }
    }
}

/// Reads a whole number of an option.
fn parse_whole<T: FromStr + PartialOrd + Display + Copy>(text: &str, least: T, most: T) -> Result<T, String> {
    match text.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("{text:?} is not an integer from {least} to {most}")),
    }
}
