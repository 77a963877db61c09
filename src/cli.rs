//! The command line: one file a command.

#![expect(clippy::doc_markdown, reason = "doc comments of options are the text of --help")]

mod ask;
mod check;
mod connect;
mod health;
mod init;
mod permissions;
mod plan;
mod serve;

use argh::FromArgs;
use mesh_bus::config::environment;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use std::ffi::OsString;
use std::fmt::Display;
use std::str::FromStr;

/// Declares a command that connects to the bus: its own options, and those that say how to connect.
macro_rules! connecting {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident { $($options:tt)* }) => {
        $(#[$attribute])*
        $visible struct $name {
            $($options)*

            /// the bus's servers: URLs, comma-separated [NATS_URL; nats://127.0.0.1:4222]
            #[argh(option, arg_name = "urls")]
            server: Option<String>,

            /// a file with a user's JWT and seed [NATS_CREDS]
            #[argh(option, arg_name = "file")]
            creds: Option<String>,

            /// a file with a user's seed [NATS_NKEY]
            #[argh(option, arg_name = "file")]
            nkey: Option<String>,

            /// the user; the password comes from NATS_PASSWORD alone [NATS_USER]
            #[argh(option, arg_name = "name")]
            user: Option<String>,

            /// the CA that the servers' certificates are signed by [NATS_CA]
            #[argh(option, arg_name = "file")]
            tls_ca: Option<String>,

            /// our certificate [NATS_CERT]
            #[argh(option, arg_name = "file")]
            tls_cert: Option<String>,

            /// the key of our certificate [NATS_KEY]
            #[argh(option, arg_name = "file")]
            tls_key: Option<String>,

            /// a context of the nats tool, by name [NATS_CONTEXT; the selected one]
            #[argh(option, arg_name = "name")]
            context: Option<String>,
        }

        impl $name {
            fn flags(&self) -> mesh_bus::config::Flags {
                mesh_bus::config::Flags {
                    server: self.server.clone(),
                    creds: self.creds.clone(),
                    nkey: self.nkey.clone(),
                    user: self.user.clone(),
                    tls_ca: self.tls_ca.clone(),
                    tls_cert: self.tls_cert.clone(),
                    tls_key: self.tls_key.clone(),
                    context: self.context.clone(),
                }
            }
        }
    };
}
use connecting;

/// Holds the provisioner's seat of a mesh: keeps the registry of kinds, and answers what every module on every node
/// needs, what is applied where, and what is in every collection.
#[derive(FromArgs, Debug)]
#[argh(
    note = "Without a command it serves. How to connect: flags beat the environment, which beats the context of the\nnats tool. Passwords and tokens come from files or the environment, never from a flag.",
    example = "{command_name} serve --creds /etc/mesh-provisioner/seat.creds",
    example = "{command_name} ask needs --node attic",
    example = "{command_name} ask gaps"
)]
struct Arguments {
    /// say the version
    #[argh(switch)]
    version: bool,

    #[argh(subcommand)]
    command: Option<Command>,
}

#[derive(FromArgs, Debug)]
#[argh(subcommand)]
enum Command {
    Serve(serve::Serve),
    Ask(ask::Ask),
    Plan(plan::Planned),
    Init(init::Init),
    Check(check::Check),
    Permissions(permissions::Permissions),
    Health(health::Health),
}

/// The version, and the commit where build.rs knew it.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("MESH_PROVISIONER_COMMIT") {
        Some(commit) => format!("mesh-provisioner {version} ({commit})\n"),
        None => format!("mesh-provisioner {version}\n"),
    }
}

/// Runs the command that `arguments` name, and says how it ended.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Exit {
    // Read as well as it can be, it would be another name.
    let arguments: Vec<String> = match arguments.map(OsString::into_string).collect() {
        Ok(arguments) => arguments,
        Err(argument) => {
            complain(&format!(
                "the argument {:?} is not UTF-8: give one that is",
                argument.to_string_lossy()
            ));
            return Exit::Usage;
        }
    };
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Without a command it serves, also when only options of `serve` are given.
    let serves = match arguments.first() {
        None => true,
        Some(first) => first.starts_with('-') && !["--help", "help", "--version"].contains(first),
    };
    if serves {
        arguments.insert(0, "serve");
    }
    let command = match Arguments::from_args(&["mesh-provisioner"], &arguments) {
        Ok(Arguments { version: true, .. }) => {
            return print(&version());
        }
        Ok(Arguments { command: Some(command), .. }) => command,
        Ok(Arguments { command: None, .. }) => return Exit::Usage,
        Err(early) if early.status.is_ok() => return print(&early.output),
        Err(early) => {
            complain(early.output.trim_end());
            complain(&format!("see {}", help_of(&arguments)));
            return Exit::Usage;
        }
    };
    match command {
        Command::Serve(serve) => serve.run(&environment),
        Command::Ask(ask) => ask.run(&environment),
        Command::Plan(plan) => plan.run(&environment),
        Command::Init(init) => init.run(&environment),
        Command::Check(check) => check.run(&environment),
        Command::Permissions(permissions) => permissions.run(),
        Command::Health(health) => health.run(&environment),
    }
}

/// The command line that shows how `arguments` would be right.
fn help_of(arguments: &[&str]) -> String {
    let known = arguments.first().filter(|first| {
        Arguments::from_args(&["mesh-provisioner"], &[first, "--help"])
            .is_err_and(|early| early.status.is_ok())
    });
    match known {
        Some(command) => format!("mesh-provisioner {command} --help"),
        None => "mesh-provisioner --help".to_owned(),
    }
}

/// Reads a whole number of an option.
fn parse_whole<T: FromStr + PartialOrd + Display + Copy>(text: &str, least: T, most: T) -> Result<T, String> {
    match text.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("{text:?} is no whole number from {least} to {most}")),
    }
}
