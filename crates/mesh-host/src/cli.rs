//! The command line: one file a command.

mod apply;
mod check;
mod keep;
mod key;
mod run;
mod serve;
mod status;
mod take;

use crate::session::Trouble;
use crate::site::Site;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Makes this machine match the declaration of its mesh, and says truly what it did.
#[derive(FromArgs, Debug)]
#[argh(
    note = "The settings are in /etc/mesh-host/host.json, the state in /var/lib/mesh-host. With --root DIR all of it is\nbelow DIR, and what needs a manager of the machine is skipped.",
    example = "{command_name} plan foundation.json",
    example = "{command_name} apply foundation.json",
    example = "{command_name} status"
)]
struct Arguments {
    /// print the version
    #[argh(switch)]
    version: bool,

    #[argh(subcommand)]
    command: Option<Command>,
}

#[derive(FromArgs, Debug)]
#[argh(subcommand)]
enum Command {
    Apply(apply::Apply),
    Plan(apply::Plan),
    Status(status::Status),
    Key(key::Key),
    Forget(keep::Forget),
    Restore(keep::Restore),
    Take(take::Take),
    Confirm(keep::Confirm),
    Run(run::Run),
    Check(check::Check),
    Serve(serve::Serve),
    Answer(serve::Answer),
    Reapply(serve::Reapply),
}

/// The code of an apply that ended at a gate: an action failed, and nothing after it in its module was attempted.
const GATED: u8 = 4;

/// Runs the command that `arguments` name, and returns how it ended.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match command(arguments) {
        Ok(Command::Apply(command)) => command.run(),
        Ok(command) => command.run().into(),
        Err(exit) => exit.into(),
    }
}

impl Command {
    fn run(&self) -> Exit {
        match self {
            // It has codes of its own.
            Self::Apply(_) => Exit::Bug,
            Self::Plan(command) => command.run(),
            Self::Status(command) => command.run(),
            Self::Key(command) => command.run(),
            Self::Forget(command) => command.run(),
            Self::Restore(command) => command.run(),
            Self::Take(command) => command.run(),
            Self::Confirm(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Answer(command) => command.run(),
            Self::Reapply(command) => command.run(),
        }
    }
}

/// The command that `arguments` name; an error is how to end without one.
fn command(arguments: impl Iterator<Item = OsString>) -> Result<Command, Exit> {
    mesh_daemon::panic::end_process(|| false);
    mesh_daemon::log::start(&|name| std::env::var(name).ok());
    // Modes are set on handles; parents that are made have the mode that they are made with.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let arguments: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let arguments = match arguments {
        Ok(arguments) => arguments.into_iter().flat_map(split).collect::<Vec<_>>(),
        Err(argument) => {
            complain(&format!(
                "the argument {:?} is not UTF-8: give one that is",
                argument.to_string_lossy()
            ));
            return Err(Exit::Usage);
        }
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match Arguments::from_args(&["mesh-host"], &arguments) {
        Ok(Arguments { version: true, .. }) => Err(print(&mesh_daemon::version("mesh-host"))),
        Ok(Arguments { command: Some(command), .. }) => Ok(command),
        Ok(Arguments { command: None, .. }) => {
            complain("no command: see mesh-host --help");
            Err(Exit::Usage)
        }
        Err(early) if early.status.is_ok() => Err(print(&early.output)),
        Err(early) => {
            complain(early.output.trim_end());
            complain("see mesh-host --help");
            Err(Exit::Usage)
        }
    }
}

/// `--flag=value` is two arguments for the parser, and `-h` is `--help`.
fn split(argument: String) -> Vec<String> {
    match argument.split_once('=') {
        Some((flag, value)) if flag.starts_with("--") => vec![flag.to_owned(), value.to_owned()],
        _ if argument == "-h" => vec!["--help".to_owned()],
        _ => vec![argument],
    }
}

fn site(root: Option<&PathBuf>) -> Site {
    Site::new(root.map(PathBuf::as_path))
}

/// Tells why nothing was done.
fn trouble(trouble: &Trouble) -> Exit {
    match trouble {
        Trouble::Refused(why) => {
            complain(why);
            Exit::Failed
        }
        Trouble::Locked => {
            complain("another apply is under way: wait until it has ended, and try again");
            Exit::Stuck
        }
        Trouble::Broken(why) => {
            complain(why);
            Exit::Configuration
        }
    }
}
