//! The candidates for the last word of a command line.

use crate::GRAMMAR;
use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality};
use mesh_model::registry;
use mesh_provisioner_api::request::What;
use std::collections::BTreeMap;

/// What may be at this place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Candidates {
    /// Names of files.
    Files,
    /// These words, and what each is.
    Words(Vec<(String, String)>),
}

/// Names that only the seat knows, or this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Nodes,
    Modules,
    Collections,
    Placeholders,
    Contexts,
}

/// The options and the words before, by their names.
pub(super) type Given = BTreeMap<String, String>;

/// The candidates for the last of `words`; `live` gives the names.
pub(super) fn candidates(
    program: &CommandInfoWithArgs,
    words: &[String],
    live: &dyn Fn(Names, &Given) -> Vec<String>,
) -> Candidates {
    let (current, before) = words.split_last().map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
    let mut typed = Line { path: vec![program], given: Given::new(), positionals: 0, pending: None };
    for word in before {
        typed.take(word);
    }
    let begins = |words: Vec<(String, String)>| {
        Candidates::Words(words.into_iter().filter(|(word, _)| word.starts_with(current)).collect())
    };
    if let Some(flag) = typed.pending {
        return match values(flag.long, typed.command(), flag_is_file(flag), &typed.given, live) {
            Candidates::Words(words) => begins(words),
            files @ Candidates::Files => files,
        };
    }
    if let Some((name, _)) = current.split_once('=').filter(|_| current.starts_with('-')) {
        return match typed.flag(known(name)) {
            Some(flag) => match values(flag.long, typed.command(), flag_is_file(flag), &typed.given, live) {
                Candidates::Words(words) => {
                    begins(words.into_iter().map(|(word, what)| (format!("{name}={word}"), what)).collect())
                }
                files @ Candidates::Files => files,
            },
            None => Candidates::Words(Vec::new()),
        };
    }
    if current.starts_with('-') {
        return begins(typed.flags());
    }
    let command = typed.command();
    if !command.commands.is_empty() {
        let commands = command.commands.iter();
        return begins(
            commands.map(|inner| (inner.name.to_owned(), first_line(inner.command.description))).collect(),
        );
    }
    let last = command.positionals.last().filter(|last| last.optionality == Optionality::Repeating);
    match command.positionals.get(typed.positionals).or(last) {
        Some(positional) => match values(positional.name, command, false, &typed.given, live) {
            Candidates::Words(words) => begins(words),
            files @ Candidates::Files => files,
        },
        None => begins(typed.flags()),
    }
}

struct Line<'a> {
    /// The program, and the commands that were entered.
    path: Vec<&'a CommandInfoWithArgs>,
    given: Given,
    positionals: usize,
    /// The option whose value comes next.
    pending: Option<&'a FlagInfo<'static>>,
}

impl<'a> Line<'a> {
    fn command(&self) -> &'a CommandInfoWithArgs {
        self.path[self.path.len() - 1]
    }

    fn take(&mut self, word: &str) {
        if let Some(flag) = self.pending.take() {
            self.given.insert(flag.long.to_owned(), word.to_owned());
            return;
        }
        if word.starts_with('-') {
            let (name, value) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            if let Some(flag) = self.flag(known(name)) {
                let takes_value = matches!(flag.kind, FlagInfoKind::Option { .. });
                if takes_value && value.is_none() {
                    self.pending = Some(flag);
                } else {
                    self.given.insert(flag.long.to_owned(), value.unwrap_or_default().to_owned());
                }
            }
            return;
        }
        let command = self.command();
        if let Some(inner) = command.commands.iter().find(|inner| inner.name == word) {
            self.path.push(&inner.command);
        } else if let Some(positional) = command.positionals.get(self.positionals) {
            self.given.insert(positional.name.to_owned(), word.to_owned());
            self.positionals += 1;
        }
    }

    /// The option of that name, of the innermost command first; before the command of any.
    fn flag(&self, name: &str) -> Option<&'a FlagInfo<'static>> {
        let entered = self.path.iter().rev().flat_map(|info| info.flags);
        let later = self.command().commands.iter().flat_map(|inner| inner.command.flags);
        entered.chain(later).find(|flag| flag.long == name)
    }

    /// The options that may come next.
    fn flags(&self) -> Vec<(String, String)> {
        let command = self.command();
        let all = command.flags.iter().chain(self.path[0].flags);
        let free = all
            .filter(|flag| flag.optionality == Optionality::Repeating || !self.given.contains_key(flag.long));
        let mut flags: Vec<(String, String)> = free
            .filter(|flag| !flag.hidden)
            .map(|flag| (flag.long.to_owned(), first_line(flag.description)))
            .collect();
        flags.push(("--help".to_owned(), "print how to use it".to_owned()));
        flags.sort_unstable();
        flags.dedup_by(|one, other| one.0 == other.0);
        flags
    }
}

/// The spelling of an option that the parser knows.
fn known(name: &str) -> &str {
    GRAMMAR.aliases.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, known)| *known)
}

fn flag_is_file(flag: &FlagInfo<'_>) -> bool {
    matches!(flag.kind, FlagInfoKind::Option { arg_name: "file" })
}

fn first_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What may be the value of an option or of a positional word.
fn values(
    name: &str,
    command: &CommandInfoWithArgs,
    is_file: bool,
    given: &Given,
    live: &dyn Fn(Names, &Given) -> Vec<String>,
) -> Candidates {
    if is_file {
        return Candidates::Files;
    }
    let plain = |words: &[&str]| words.iter().map(|word| ((*word).to_owned(), String::new())).collect();
    let names = |names: Names| live(names, given).into_iter().map(|name| (name, String::new())).collect();
    Candidates::Words(match (name.trim_start_matches('-'), command.name) {
        ("node", _) => names(Names::Nodes),
        ("module", _) => names(Names::Modules),
        ("collection", _) => names(Names::Collections),
        ("placeholder", _) => names(Names::Placeholders),
        ("context", _) => names(Names::Contexts),
        ("kind", _) => {
            registry::ENTRIES.iter().map(|entry| (entry.kind.to_owned(), entry.domain.to_owned())).collect()
        }
        ("what", "ask") => plain(&What::ALL.map(What::word)),
        ("output", _) => plain(&["table", "wide", "name", "json"]),
        ("color", _) => plain(&["auto", "always", "never"]),
        ("format", "status") => plain(&["text", "json", "prometheus"]),
        ("format", "permissions") => plain(&["nats", "nsc", "json"]),
        ("state", _) if given.get("what").is_some_and(|what| what == "collections") => {
            plain(&["read", "unread", "unfed"])
        }
        ("state", _) => plain(&["current", "never", "unapplied", "orphan"]),
        ("role", "permissions") => match given.get("role").map(String::as_str) {
            None => plain(&crate::permissions::ROLES),
            Some("node") => names(Names::Nodes),
            Some(_) => Vec::new(),
        },
        ("shell", _) => plain(&["bash", "zsh", "fish"]),
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ask, Completion, Health, Permissions, Status, Why};
    use argh::{ArgsInfo, FromArgs};

    /// The program, with the commands that these tests complete.
    #[derive(FromArgs, ArgsInfo)]
    #[expect(dead_code, reason = "only its description is read")]
    struct Arguments {
        /// when to colour
        #[argh(option)]
        color: Option<String>,

        #[argh(subcommand)]
        command: Command,
    }

    #[derive(FromArgs, ArgsInfo)]
    #[argh(subcommand)]
    #[expect(dead_code, reason = "only its description is read")]
    enum Command {
        Status(Status),
        Why(Why),
        Ask(Ask),
        Permissions(Permissions),
        Health(Health),
        Completion(Completion),
    }

    fn complete(words: &[&str]) -> Candidates {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        candidates(&Arguments::get_args_info(), &words, &|names, given| {
            let node = given.get("--node").or_else(|| given.get("node"));
            let names: &[&str] = match names {
                Names::Nodes => &["attic", "cellar"],
                Names::Modules if node.is_some_and(|node| node == "attic") => &["web"],
                Names::Modules => &["web", "db"],
                Names::Collections => &["shell:zsh:normal"],
                Names::Placeholders => &["port:http"],
                Names::Contexts => &["lab"],
            };
            names.iter().map(ToString::to_string).collect()
        })
    }

    fn words(typed: &[&str]) -> Vec<String> {
        match complete(typed) {
            Candidates::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
            Candidates::Files => panic!("{typed:?}: files"),
        }
    }

    #[test]
    fn each_place_of_a_line_has_its_candidates() {
        for (typed, right) in [
            (&["st"][..], &["status"][..]),
            (&["ask", "d"], &["drift"]),
            (&["ask", "drift", "--node", ""], &["attic", "cellar"]),
            (&["ask", "drift", "--node", "c"], &["cellar"]),
            (&["ask", "drift", "--node=c"], &["--node=cellar"]),
            (&["ask", "drift", "--node", "attic", "--module", ""], &["web"]),
            (&["ask", "--kind", "se"], &["secret", "seat"]),
            (&["ask", "collections", "--state", "un"], &["unread", "unfed"]),
            (&["ask", "drift", "--state", "un"], &["unapplied"]),
            (&["ask", "-o", "j"], &["json"]),
            (&["why", ""], &["attic", "cellar"]),
            (&["why", "attic", ""], &["web"]),
            (&["why", "attic", "web", ""], &["port:http"]),
            (&["--context", ""], &["lab"]),
            (&["permissions", "no"], &["node"]),
            (&["permissions", "node", ""], &["attic", "cellar"]),
            (&["completion", ""], &["bash", "zsh", "fish"]),
            (&["ask", "--lim"], &["--limit"]),
            (&["ask", "--limit", "5", "--lim"], &[]),
            (&["ask", "--col"], &["--collection", "--color"]),
        ] {
            assert_eq!(words(typed), right, "{typed:?}");
        }
    }

    #[test]
    fn a_question_is_offered_once_and_then_the_options() {
        assert!(words(&["ask", ""]).contains(&"gaps".to_owned()));
        let after = words(&["ask", "gaps", ""]);
        assert!(after.contains(&"--node".to_owned()) && !after.contains(&"gaps".to_owned()), "{after:?}");
    }

    #[test]
    fn files_are_left_to_the_shell() {
        assert_eq!(complete(&["ask", "--creds", ""]), Candidates::Files);
        assert_eq!(complete(&["ask", "--tlsca=/etc"]), Candidates::Files);
        assert_eq!(complete(&["health", "--status-file", ""]), Candidates::Files);
    }
}
