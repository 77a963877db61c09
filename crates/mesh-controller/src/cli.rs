//! The command line: one file for each group of commands. Usage, completions and the manual page's list come from the types
//! here.

#![expect(clippy::doc_markdown, reason = "doc comments of options are the text of --help")]
#![allow(clippy::format_push_string, reason = "texts for people, a few lines each")]
#![allow(rustdoc::broken_intra_doc_links, reason = "their brackets hold what an option is without the flag")]

mod acts;
mod assign;
mod broker;
mod bus;
mod completion;
mod context;
mod declare;
mod doctor;
mod health;
mod identity;
mod init;
mod issue;
mod migrate;
mod module;
mod node;
mod operator;
pub mod pages;
mod plan;
mod push;
mod seats;
mod secret;
mod serve;
mod settings;
mod show;
mod status;
mod terminal;
mod token;

use argh::{ArgsInfo, FromArgs};
use mesh_bus::config::environment;
use mesh_daemon::arguments::Grammar;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_daemon::terminal::Color;
use mesh_runtime::connecting;
use std::ffi::OsString;

/// Decides and signs what each node of a mesh runs: records of nodes, modules, settings and assignments, and the operator's
/// command line.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    note = "The store is two SQLite files. MESH_STORE_INVENTORY names the first, /var/lib/mesh-controller/inventory.db\notherwise; MESH_STORE_IDENTITY the second, /var/lib/mesh-controller/identity.db. With _FILE behind either name\nthe variable names a file that holds the name. identity.nk, the mesh's key, lies beside the second.\n\nFlags may stand before or after the command, also as --flag=value. No secret is ever an argument. assign and\nsettings change the store alone: plan shows what would be sent, push sends it.",
    example = "{command_name} module add web.json",
    example = "{command_name} assign attic web",
    example = "{command_name} plan",
    example = "{command_name} push --why 'the new shop'"
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

/// The table of commands.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
enum Command {
    Status(status::Status),
    Plan(plan::PlanCommand),
    Push(push::Push),
    Assign(assign::Assign),
    Unassign(assign::Unassign),
    Node(node::NodeCommand),
    Module(module::ModuleCommand),
    Settings(settings::SettingsCommand),
    Secret(secret::SecretCommand),
    Seats(seats::Seats),
    Declare(declare::Declare),
    Acts(acts::Acts),
    Token(token::TokenCommand),
    Broker(broker::BrokerCommand),
    Serve(serve::Serve),
    Operator(operator::OperatorCommand),
    Identity(identity::Identity),
    Migrate(migrate::Migrate),
    Prepare(migrate::Prepare),
    Init(init::Init),
    Doctor(doctor::Doctor),
    Health(health::Health),
    Completion(completion::Completion),
}

/// The program's name, as it is typed.
const PROGRAM: &str = "mesh-controller";

/// What the parser does not know of the command line.
const GRAMMAR: Grammar = Grammar {
    program: PROGRAM,
    aliases: &[
        ("-s", "--server"),
        ("--tlsca", "--tls-ca"),
        ("--tlscert", "--tls-cert"),
        ("--tlskey", "--tls-key"),
        ("--colour", "--color"),
    ],
    instead: &[
        (
            "--password",
            "set NATS_PASSWORD, since every user of the machine can read the arguments of a process",
        ),
        ("--token", "set NATS_TOKEN, since every user of the machine can read the arguments of a process"),
        (
            "--value",
            "secret accept asks for the value, or takes it with --from FILE, since every user of the machine can read the arguments of a process",
        ),
        ("--force", "push --yes DIGEST sends exactly the plan with that digest"),
    ],
    defaults: &[],
};

/// Runs the command that `arguments` name; returns how it ended.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Exit {
    let arguments = match GRAMMAR.parse::<Arguments>(arguments) {
        Ok(arguments) => arguments,
        Err(early) => return early.end(PROGRAM, "mesh-controller serve is the one for a unit"),
    };
    if arguments.version {
        return print(&mesh_daemon::version(PROGRAM));
    }
    arguments.color.choose();
    arguments.command.run()
}

impl Command {
    fn run(self) -> Exit {
        let environment = &environment;
        let ended = match self {
            Command::Status(command) => command.run(environment),
            Command::Plan(command) => command.run(environment),
            Command::Push(command) => command.run(environment),
            Command::Assign(command) => command.run(environment),
            Command::Unassign(command) => command.run(environment),
            Command::Node(command) => command.run(environment),
            Command::Module(command) => command.run(environment),
            Command::Settings(command) => command.run(environment),
            Command::Secret(command) => command.run(environment),
            Command::Seats(command) => command.run(environment),
            Command::Declare(command) => command.run(environment),
            Command::Acts(command) => command.run(environment),
            Command::Token(command) => command.run(environment),
            Command::Broker(command) => command.run(environment),
            Command::Serve(command) => command.run(environment),
            Command::Operator(command) => command.run(environment),
            Command::Identity(command) => command.run(environment),
            Command::Migrate(command) => command.run(environment),
            Command::Prepare(command) => command.run(environment),
            Command::Init(command) => command.run(environment),
            Command::Doctor(command) => command.run(environment),
            Command::Health(command) => Ok(command.run(environment)),
            Command::Completion(command) => command.run(),
        };
        ended.unwrap_or_else(|exit| exit)
    }
}
