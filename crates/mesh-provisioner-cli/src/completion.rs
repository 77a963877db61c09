//! `completion`: what a shell needs to complete command lines. The scripts only hand the words over; which commands,
//! options and values there are is known here, and names of nodes and modules come from the seat.

mod candidates;
mod live;

use super::connect::Environment;
use crate::PROGRAM;
use argh::{ArgsInfo, CommandInfoWithArgs, FromArgs};
use candidates::{Candidates, candidates};
use mesh_daemon::arguments::mask;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::escape;

/// print the script that completes command lines in bash, zsh or fish
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "completion",
    note = "The script asks this program for the candidates, and this program asks the seat for the names of nodes and\nmodules, as the options and the environment say.",
    example = "{command_name} bash"
)]
pub struct Completion {
    /// the shell: bash, zsh or fish
    #[argh(positional)]
    shell: String,

    /// for the scripts: the words typed so far
    #[argh(positional, hidden_help)]
    words: Vec<String>,
}

const BASH: &str = include_str!("../../../packaging/mesh-provisioner/mesh-provisioner.bash");
const ZSH: &str = include_str!("../../../packaging/mesh-provisioner/_mesh-provisioner");
const FISH: &str = include_str!("../../../packaging/mesh-provisioner/mesh-provisioner.fish");

impl Completion {
    /// Runs the command; returns how it ended. `program` is the command line to complete.
    pub fn run(self, program: &CommandInfoWithArgs, environment: Environment<'_>) -> Exit {
        let script = match (self.shell.as_str(), &self.words[..]) {
            ("bash", []) => BASH,
            ("zsh", []) => ZSH,
            ("fish", []) => FISH,
            ("candidates", words) => return print(&answer(program, words, environment)),
            ("bash" | "zsh" | "fish", [extra, ..]) => {
                complain(&mask(&format!("{extra:?} is one word too many: completion takes a shell")));
                return Exit::Usage;
            }
            (other, _) => {
                complain(&mask(&format!(
                    "{other:?} is not a shell that {PROGRAM} completes for: bash, zsh or fish"
                )));
                return Exit::Usage;
            }
        };
        print(script)
    }
}

/// The candidates, one a line, each with a tab and what it is, if that is known. `:files` means names of files.
fn answer(program: &CommandInfoWithArgs, words: &[String], environment: Environment<'_>) -> String {
    match candidates(program, words, &|names, given| live::names(names, given, environment)) {
        Candidates::Files => ":files\n".to_owned(),
        Candidates::Words(words) => {
            let line = |(word, what): (String, String)| {
                let what = if what.is_empty() { what } else { format!("\t{what}") };
                format!("{}{what}\n", escape(&word))
            };
            words.into_iter().map(line).collect()
        }
    }
}
