//! `completion`: the script that completes command lines.

use super::context::Ended;
use super::pages::pages;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};

/// print the script that completes command lines in bash, zsh or fish
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "completion", example = "{command_name} bash")]
pub(super) struct Completion {
    /// the shell: bash, zsh or fish
    #[argh(positional, arg_name = "shell")]
    shell: String,
}

impl Completion {
    pub(super) fn run(self) -> Ended {
        match self.shell.as_str() {
            "bash" => Ok(print(&pages().bash())),
            "zsh" => Ok(print(&pages().zsh())),
            "fish" => Ok(print(&pages().fish())),
            other => {
                complain(&format!(
                    "{other:?} is not a shell that command lines are completed for: bash, zsh or fish"
                ));
                Err(Exit::Usage)
            }
        }
    }
}
