//! `completion`: the script that completes command lines.

use super::pages::pages;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};

/// print the script that completes command lines in bash, zsh or fish
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "completion", example = "{command_name} bash")]
pub(super) struct Completion {
    /// the shell: bash, zsh or fish
    #[argh(positional)]
    shell: String,
}

impl Completion {
    pub(super) fn run(&self) -> Exit {
        match self.shell.as_str() {
            "bash" => print(&pages().bash()),
            "zsh" => print(&pages().zsh()),
            "fish" => print(&pages().fish()),
            other => {
                complain(&format!(
                    "{other:?} is not a shell that command lines are completed for: bash, zsh or fish"
                ));
                Exit::Usage
            }
        }
    }
}
