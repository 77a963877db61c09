//! The command line. The commands that hold the seat, or decide as it does, are here; the others are in
//! `mesh-provisioner-cli`.

#![expect(clippy::doc_markdown, reason = "doc comments of options are the text of --help")]
#![allow(rustdoc::broken_intra_doc_links, reason = "their brackets hold what an option is without the flag")]

mod plan;
mod serve;

use argh::{ArgsInfo, FromArgs};
use mesh_bus::config::environment;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_daemon::terminal::Color;
use mesh_provisioner_cli::{
    Ask, Check, Completion, GRAMMAR, Health, Init, PROGRAM, Permissions, Report, Status, Why,
};
use mesh_runtime::connecting;
use std::ffi::OsString;

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
    Status(Status),
    Why(Why),
    Ask(Ask),
    Report(Report),
    Serve(serve::Serve),
    Plan(plan::PlanCommand),
    Init(Init),
    Check(Check),
    Permissions(Permissions),
    Health(Health),
    Completion(Completion),
}

/// Runs the command that `arguments` name; returns how it ended.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Exit {
    let arguments = match GRAMMAR.parse::<Arguments>(arguments) {
        Ok(arguments) => arguments,
        Err(early) => return early.end(PROGRAM, "mesh-provisioner serve holds the seat"),
    };
    if arguments.version {
        return print(&mesh_daemon::version(PROGRAM));
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
        Command::Completion(completion) => completion.run(&Arguments::get_args_info(), &environment),
    }
}
