//! The command line, before the derived parser sees it.
//!
//! The derived parser knows one spelling of everything. People know several: `--node=attic`, `-h`, `help ask`, the
//! names that the `nats` tool has for the same options, options before the command. They are put into that one
//! spelling here, and what cannot be understood is reported with what was probably meant. Which commands and options
//! there are is read from the derived parser, so nothing is listed twice.
//!
//! It knows no command of any program, so every program can use it.

mod line;
mod mask;
mod nearest;

pub use mask::mask;
pub use nearest::{did_you_mean, nearest};

use crate::exit::Exit;
use crate::output::{complain, print};
use crate::screen::{Screen, wrap};
use argh::{ArgsInfo, CommandInfoWithArgs, FlagInfo, FlagInfoKind, FromArgs};
use line::Line;
use std::ffi::OsString;
use std::io::IsTerminal;

/// What a program adds to its derived parser.
#[derive(Debug, Clone, Copy)]
pub struct Grammar {
    /// The program's name, as it is typed.
    pub program: &'static str,
    /// Other spellings of an option, each with the one that the parser knows: `("-s", "--server")`.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Options that people try and that cannot be, each with what to do instead.
    pub instead: &'static [(&'static str, &'static str)],
    /// Options whose value may be left out, each with the value that is then meant. A value begins with a digit.
    pub defaults: &'static [(&'static str, &'static str)],
}

/// Why there is nothing to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Early {
    /// Help was asked for: to be printed.
    Help(String),
    /// The version was asked for.
    Version,
    /// No command was given. The help of the program.
    NoCommand(String),
    /// The command line is wrong: what is wrong, and the command line that shows how it would be right.
    Wrong {
        /// One or more lines for the person.
        message: String,
        /// A command line, such as `mesh-provisioner ask --help`.
        see: String,
    },
}

impl Early {
    /// Prints it; returns how the program ends. `serve` says which command a unit runs, for who gave none.
    pub fn end(self, program: &str, serve: &str) -> Exit {
        let (message, see) = match self {
            Early::Help(text) => return print(&text),
            Early::Version => return print(&crate::version(program)),
            // A person who types the name alone wants to know what there is. A unit file that does is wrong.
            Early::NoCommand(help) if std::io::stdout().is_terminal() => return print(&help),
            Early::NoCommand(_) => (format!("no command is given: {serve}"), format!("{program} --help")),
            Early::Wrong { message, see } => (message, see),
        };
        complain(&message);
        complain(&format!("see {see}"));
        Exit::Usage
    }
}

impl Grammar {
    /// Reads the arguments of the process, without the program's own name.
    pub fn parse<T: FromArgs + ArgsInfo>(
        &self,
        arguments: impl Iterator<Item = OsString>,
    ) -> Result<T, Early> {
        // Read as well as it can be, an argument would be another name.
        let arguments: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
        let arguments = arguments.map_err(|argument| {
            let shown = shown(&argument.to_string_lossy());
            self.wrong(&[], format!("the argument {shown} is not UTF-8: give one that is"))
        })?;
        let info = T::get_args_info();
        let line = Line::read(self, &info, &arguments)?;
        let words = line.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        T::from_args(&[self.program], &words).map_err(|early| {
            if early.status.is_err() {
                return self.wrong(&line.commands, explain(&line, &early.output));
            }
            let help = fit(&early.output, Screen::of_stdout().width);
            match line.has_command {
                true => Early::Help(help),
                false if line.asks_help => Early::Help(help),
                false => Early::NoCommand(help),
            }
        })
    }

    /// What is wrong, and where to read on.
    fn wrong(&self, commands: &[String], message: impl Into<String>) -> Early {
        let path = commands.iter().fold(self.program.to_owned(), |path, command| path + " " + command);
        Early::Wrong { message: message.into(), see: format!("{path} --help") }
    }
}

/// The derived parser's help, which is laid out for 80 cells, for a screen of another width.
fn fit(help: &str, width: Option<usize>) -> String {
    if width.is_none() {
        return help.to_owned();
    }
    let description = " ".repeat(DESCRIPTION);
    let mut lines: Vec<String> = Vec::new();
    for line in help.lines() {
        match (line.strip_prefix(&description), lines.last_mut()) {
            (Some(more), Some(last)) => last.extend([" ", more]),
            _ => lines.push(line.to_owned()),
        }
    }
    let fitted = lines.iter().map(|line| {
        let start = line.len() - line.trim_start().len();
        let is_described = start > 0 && line[start..].contains("  ");
        wrap(line, width, if is_described { DESCRIPTION } else { start }) + "\n"
    });
    fitted.collect()
}

/// The column of the help in which descriptions begin.
const DESCRIPTION: usize = 20;

/// The derived parser's error in our words. It quotes the value, and says again what the reason says.
fn explain(line: &Line, output: &str) -> String {
    let output = output.trim_end();
    let option = line.levels.iter().flatten().find_map(|(flag, value)| {
        let value = value.as_ref()?;
        let why = output.strip_prefix(&format!("Error parsing option '{flag}' with value '{value}': "))?;
        Some(format!("{flag}: {why}"))
    });
    let positional = || {
        let rest = output.strip_prefix("Error parsing positional argument '")?;
        let (name, rest) = rest.split_once("' with value '")?;
        let why = line.positionals.iter().find_map(|value| rest.strip_prefix(&format!("{value}': ")))?;
        Some(format!("{name}: {why}"))
    };
    let lower = || {
        let mut letters = output.chars();
        letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
    };
    mask(&option.or_else(positional).unwrap_or_else(lower))
}

/// An argument as a message may show it: in quotes, without user information.
fn shown(argument: &str) -> String {
    format!("{:?}", mask(argument))
}

/// The flag that is spelt `name` among those of a command.
fn flag<'a>(info: &'a CommandInfoWithArgs, name: &str) -> Option<&'a FlagInfo<'static>> {
    info.flags.iter().find(|flag| flag.long == name)
}

/// Whether it takes a value.
const fn takes_value(flag: &FlagInfo<'_>) -> bool {
    matches!(flag.kind, FlagInfoKind::Option { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(FromArgs, ArgsInfo, Debug, PartialEq, Eq)]
    /// A program.
    struct Program {
        /// colours
        #[argh(option)]
        color: Option<String>,
        #[argh(subcommand)]
        command: Command,
    }

    #[derive(FromArgs, ArgsInfo, Debug, PartialEq, Eq)]
    #[argh(subcommand)]
    enum Command {
        Ask(Ask),
        Node(Node),
    }

    #[derive(FromArgs, ArgsInfo, Debug, PartialEq, Eq)]
    #[argh(subcommand, name = "ask")]
    /// ask something
    struct Ask {
        /// what
        #[argh(positional)]
        what: Option<String>,
        /// where
        #[argh(option)]
        server: Option<String>,
        /// which
        #[argh(option)]
        node: Option<String>,
        /// all of it
        #[argh(switch)]
        all: bool,
        /// how many
        #[argh(option, arg_name = "count")]
        limit: Option<u8>,
        /// again and again
        #[argh(option)]
        watch: Option<String>,
        /// may be repeated
        #[argh(option)]
        prefix: Vec<String>,
    }

    #[derive(FromArgs, ArgsInfo, Debug, PartialEq, Eq)]
    #[argh(subcommand, name = "node")]
    /// nodes
    struct Node {
        #[argh(subcommand)]
        command: NodeCommand,
    }

    #[derive(FromArgs, ArgsInfo, Debug, PartialEq, Eq)]
    #[argh(subcommand)]
    enum NodeCommand {
        Add(Add),
    }

    #[derive(FromArgs, ArgsInfo, Debug, PartialEq, Eq)]
    #[argh(subcommand, name = "add")]
    /// adds one
    struct Add {
        /// its name
        #[argh(positional)]
        name: String,
        /// its zone
        #[argh(option)]
        zone: Option<String>,
    }

    const GRAMMAR: Grammar = Grammar {
        program: "program",
        aliases: &[("-s", "--server"), ("--tlsca", "--server")],
        instead: &[("--password", "set NATS_PASSWORD")],
        defaults: &[("--watch", "2s")],
    };

    fn read(arguments: &[&str]) -> Result<Program, Early> {
        GRAMMAR.parse(arguments.iter().map(OsString::from))
    }

    fn ask(arguments: &[&str]) -> (Option<String>, Ask) {
        match read(arguments) {
            Ok(Program { color, command: Command::Ask(ask) }) => (color, ask),
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    fn nothing() -> Ask {
        Ask { what: None, server: None, node: None, all: false, limit: None, watch: None, prefix: vec![] }
    }

    fn wrong(arguments: &[&str]) -> (String, String) {
        match read(arguments) {
            Err(Early::Wrong { message, see }) => (message, see),
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    #[test]
    fn every_spelling_of_an_option_is_understood() {
        let on = |server: &str| Ask { server: Some(server.to_owned()), ..nothing() };
        for arguments in [
            &["ask", "--server", "h"][..],
            &["ask", "--server=h"],
            &["ask", "-s", "h"],
            &["ask", "-s=h"],
            &["--server", "h", "ask"],
            &["-s", "h", "ask"],
            &["--tlsca=h", "ask"],
        ] {
            assert_eq!(ask(arguments), (None, on("h")), "{arguments:?}");
        }
        assert_eq!(ask(&["ask", "--server=a=b"]).1, on("a=b"));
        assert_eq!(
            ask(&["ask", "--node=", "--all"]).1,
            Ask { node: Some(String::new()), all: true, ..nothing() }
        );
        // The program's own options stand anywhere.
        for arguments in [&["--color", "never", "ask"][..], &["ask", "--color=never"]] {
            assert_eq!(ask(arguments), (Some("never".to_owned()), nothing()));
        }
        assert_eq!(ask(&["ask", "--prefix=a", "--prefix=b"]).1.prefix, ["a", "b"]);
        let Ok(Program { command: Command::Node(node), .. }) = read(&["--zone=z", "node", "add", "attic"])
        else {
            panic!("not understood")
        };
        let add = Add { name: "attic".to_owned(), zone: Some("z".to_owned()) };
        assert_eq!(node, Node { command: NodeCommand::Add(add) });
    }

    #[test]
    fn help_is_laid_out_for_the_screen() {
        let help = "Usage: program ask [--node <name>]\n\nOptions:\n  --node            the node, by the name that it\n                    joined with\n  --all             every page\n\nNotes:\n  Shown as it is.\n";
        assert_eq!(fit(help, None), help);
        let wide = help.replace("it\n                    joined", "it joined");
        assert_eq!(fit(help, Some(200)), wide);
        let narrow = "Usage: program ask [--node\n<name>]\n\nOptions:\n  --node            the node, by\n                    the name\n                    that it\n                    joined with\n  --all             every page\n\nNotes:\n  Shown as it is.\n";
        assert_eq!(fit(help, Some(32)), narrow);
    }

    #[test]
    fn a_value_may_be_left_out_where_the_grammar_says_so() {
        let watch = |arguments: &[&str]| {
            let (_, ask) = ask(arguments);
            (ask.watch.unwrap(), ask.what)
        };
        assert_eq!(watch(&["ask", "--watch"]), ("2s".to_owned(), None));
        assert_eq!(watch(&["ask", "--watch", "5"]), ("5".to_owned(), None));
        assert_eq!(watch(&["ask", "--watch", "drift"]), ("2s".to_owned(), Some("drift".to_owned())));
        assert_eq!(watch(&["ask", "--watch=1m"]), ("1m".to_owned(), None));
    }

    #[test]
    fn a_word_behind_two_dashes_is_no_option() {
        let what = |what: &str| Ask { what: Some(what.to_owned()), ..nothing() };
        assert_eq!(ask(&["ask", "--", "--node"]).1, what("--node"));
        assert_eq!(ask(&["ask", "--", "help"]).1, what("help"));
        assert_eq!(ask(&["ask", "-"]).1, what("-"));
    }

    #[test]
    fn help_and_version_in_every_spelling() {
        let help = |arguments: &[&str]| match read(arguments) {
            Err(Early::Help(text)) => text.lines().next().unwrap().to_owned(),
            other => panic!("{arguments:?}: {other:?}"),
        };
        for arguments in [&["-h"][..], &["--help"], &["help"]] {
            assert!(help(arguments).starts_with("Usage: program "), "{arguments:?}");
        }
        for arguments in
            [&["ask", "-h"][..], &["ask", "--help"], &["ask", "help"], &["help", "ask"], &["-h", "ask"]]
        {
            assert!(help(arguments).starts_with("Usage: program ask "), "{arguments:?}");
        }
        assert!(help(&["help", "node", "add"]).starts_with("Usage: program node add "));
        for arguments in [&["-V"][..], &["--version"], &["version"], &["ask", "--version"]] {
            assert_eq!(read(arguments), Err(Early::Version), "{arguments:?}");
        }
        assert!(matches!(read(&[]), Err(Early::NoCommand(text)) if text.starts_with("Usage: program ")));
        assert!(matches!(read(&["--color", "never"]), Err(Early::NoCommand(_))));
    }

    #[test]
    fn what_is_wrong_is_reported_with_what_was_probably_meant() {
        for (arguments, message, see) in [
            (&["aks"][..], "there is no command \"aks\": did you mean ask?", "program --help"),
            (&["zzz"], "there is no command \"zzz\": the commands are ask, node", "program --help"),
            (&["node", "ad", "x"], "there is no command \"ad\": did you mean add?", "program node --help"),
            (&["help", "aks"], "there is no command \"aks\": did you mean ask?", "program --help"),
            (&["ask", "--nod", "x"], "there is no option --nod: did you mean --node?", "program ask --help"),
            (
                &["ask", "--severs=x"],
                "there is no option --severs: did you mean --server?",
                "program ask --help",
            ),
            (&["ask", "-x"], "there is no option -x", "program ask --help"),
            (
                &["ask", "--password", "hush"],
                "there is no option --password: set NATS_PASSWORD",
                "program ask --help",
            ),
            (&["ask", "--node"], "--node needs a value", "program ask --help"),
            (
                &["ask", "--node", "--all"],
                "--node needs a value; --all is an option (if it is meant, write --node=--all)",
                "program ask --help",
            ),
            (&["ask", "--limit"], "--limit needs a count", "program ask --help"),
            (&["ask", "--all=yes"], "--all takes no value", "program ask --help"),
            (&["ask", "--node", "a", "--node=b"], "--node is given twice", "program ask --help"),
            (&["ask", "a", "b"], "\"b\" is one word too many: ask takes one, what", "program ask --help"),
            (&["node", "add"], "node add needs a name", "program node add --help"),
            (
                &["node", "add", "--server", "h", "x"],
                "there is no option --server",
                "program node add --help",
            ),
            (
                &["--server", "h", "node", "add", "x"],
                "node add does not take the option --server",
                "program node add --help",
            ),
            (&["node"], "node needs a command: add", "program node --help"),
            (&["ask", "--limit", "many"], "--limit: invalid digit found in string", "program ask --help"),
        ] {
            assert_eq!(wrong(arguments), (message.to_owned(), see.to_owned()), "{arguments:?}");
        }
    }

    #[test]
    fn no_message_shows_user_information() {
        for arguments in [
            &["--server=nats://u:hush@h"][..],
            &["ask", "what", "nats://u:hush@h"],
            &["ask", "what", "u:hush@h:4222"],
            &["nats://u:hush@h"],
            &["ask", "--nats://u:hush@h"],
            &["ask", "--limit", "nats://u:hush@h"],
            &["ask", "--all=nats://hush@h"],
            &["node", "add", "--zone", "--nats://u:hush@h"],
        ] {
            let said = format!("{:?}", read(arguments));
            assert!(!said.contains("hush"), "{arguments:?}: {said}");
        }
    }

    #[test]
    fn an_argument_that_is_not_utf_8_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let arguments = ["ask".into(), OsString::from_vec(b"a\xff".to_vec())];
        let said = GRAMMAR.parse::<Program>(arguments.into_iter()).unwrap_err();
        let message = "the argument \"a\u{fffd}\" is not UTF-8: give one that is".to_owned();
        assert_eq!(said, Early::Wrong { message, see: "program --help".to_owned() });
    }
}
