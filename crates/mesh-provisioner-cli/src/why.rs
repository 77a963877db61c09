//! `why`: why a placeholder is filled or not, in one sentence, with the evidence and the next command.

mod verdict;

use super::ask::nothing::{unknown_module, unknown_node};
use super::connect::{Environment, Inbox, parse_inbox_prefix};
use super::connecting;
use super::query::{All, ModuleRow, Need, NoAnswer, Seat, about};
use super::watch::{self, parse_every};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print_on};
use mesh_daemon::screen::{Screen, wrap};
use mesh_daemon::terminal::{Style, escape};
use mesh_provisioner_api::request::What;
use std::fmt::Write;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::{Duration, SystemTime};
use verdict::{Facts, Judgement, Placeholder, judge};

connecting! {
    /// say why a placeholder of a module is filled or not, or the first thing that is wrong with the module
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "why",
        note = "It prints the verdict in a sentence, the evidence, and the next command.\n\nExit status: 0 it is filled, or all of the module is; 1 there is no such node or module; 3 it is not; 69\nnobody answers.",
        example = "{command_name} attic web port:http",
        example = "{command_name} attic web"
    )]
    pub struct Why {
        /// the node's name
        #[argh(positional)]
        node: String,

        /// the module's name
        #[argh(positional)]
        module: String,

        /// the placeholder, as kind:name
        #[argh(positional, from_str_fn(parse_placeholder))]
        placeholder: Option<Placeholder>,

        /// print the verdict as one line of JSON
        #[argh(switch)]
        json: bool,

        /// ask again and again, this often [2s]
        #[argh(option, arg_name = "time", from_str_fn(parse_every))]
        watch: Option<Duration>,

        /// where answers come to, for an account that has an inbox of its own [_INBOX]
        #[argh(option, arg_name = "subject", from_str_fn(parse_inbox_prefix))]
        inbox_prefix: Option<String>,
    }
}

/// Reads `port:http`, also in the form of a file: `${port:http}`.
fn parse_placeholder(text: &str) -> Result<Placeholder, String> {
    let bare = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    match bare.split_once(':') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => {
            Ok(Placeholder { kind: kind.to_owned(), name: name.to_owned() })
        }
        _ => Err(format!("{text:?} is not a placeholder: write kind:name, such as port:http")),
    }
}

impl Why {
    /// Runs the command; returns how it ended.
    pub fn run(self, environment: Environment<'_>) -> Exit {
        for (what, name) in [("node", &self.node), ("module", &self.module)] {
            if let Err(why) = mesh_model::name::check(name) {
                complain(&format!("{what}: {name:?} {why}: give a name"));
                return Exit::Usage;
            }
        }
        let connect = || Seat::connect(&self.flags(), environment, &Inbox::usual(self.inbox_prefix.as_ref()));
        watch::run(self.watch, connect, |seat| self.show(seat))
    }

    fn show(&self, seat: &mut Seat) -> ControlFlow<Exit, Exit> {
        let facts = match self.facts(seat) {
            Ok(Ok(facts)) => facts,
            Ok(Err(sentence)) => {
                complain(&sentence);
                return Continue(Exit::Failed);
            }
            Err(error) => return Continue(error.report()),
        };
        let verdict = judge(&facts);
        let text = if self.json {
            serde_json::to_string(&verdict).expect("a verdict is text") + "\n"
        } else {
            render(&verdict, Screen::of_stdout())
        };
        print_on(&text).map_or_else(Break, Continue)?;
        Continue(if verdict.ok { Exit::Done } else { Exit::NotOk })
    }

    /// What the seat knows of it; a sentence if there is no such node or module.
    fn facts(&self, seat: &mut Seat) -> Result<Result<Facts, String>, NoAnswer> {
        let (node, module) = (Some(self.node.as_str()), Some(self.module.as_str()));
        let needs: All<Need> = seat.all(&about(What::Needs, node, module))?;
        let drift: All<ModuleRow> = seat.all(&about(What::Drift, node, module))?;
        let collections = seat.all(&about(What::Collections, node, None))?.entries;
        if needs.entries.is_empty() && needs.malformed.is_empty() && drift.entries.is_empty() {
            if let Some(sentence) = unknown_node(seat, &self.node)? {
                return Ok(Err(sentence));
            }
            if let Some(sentence) = unknown_module(seat, node, &self.module)? {
                return Ok(Err(sentence));
            }
        }
        let health = seat.health()?;
        Ok(Ok(Facts {
            node: self.node.clone(),
            module: self.module.clone(),
            placeholder: self.placeholder.clone(),
            needs: needs.entries,
            malformed: needs.malformed,
            drift: drift.entries.into_iter().next(),
            registry: seat.all(&about(What::Registry, None, None))?.entries,
            collections,
            missing: health.missing,
            now: SystemTime::now(),
        }))
    }
}

fn render(verdict: &Judgement, screen: Screen) -> String {
    let style = if verdict.ok { Style::Green } else { Style::Yellow };
    let sentence = wrap(&escape(&verdict.verdict), screen.width, 2);
    let mut text = sentence.lines().map(|line| screen.paint.paint(style, line) + "\n").collect::<String>();
    let widest = verdict.evidence.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    if !verdict.evidence.is_empty() {
        text.push('\n');
    }
    for (what, how) in &verdict.evidence {
        let line = format!("{what:widest$}  {}", escape(how));
        writeln!(text, "{}", wrap_aligned(&line, screen.width, widest + 2)).ok();
    }
    if let Some(next) = &verdict.next {
        writeln!(text, "\nnext: {}\n  {}", wrap(&next.what, screen.width, 2), escape(&next.command)).ok();
    }
    text
}

/// A line whose first column must keep its spaces.
fn wrap_aligned(line: &str, width: Option<usize>, indent: usize) -> String {
    let (head, rest) = line.split_at(indent);
    let spaces = " ".repeat(indent);
    let wrapped = wrap(rest, width.map(|width| width.saturating_sub(indent)), 0);
    head.to_owned() + &wrapped.replace('\n', &format!("\n{spaces}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_read_as_it_stands_in_a_file() {
        let read = |text: &str| parse_placeholder(text).map(|Placeholder { kind, name }| (kind, name)).ok();
        let port = Some(("port".to_owned(), "http".to_owned()));
        assert_eq!(read("port:http"), port);
        assert_eq!(read("${port:http}"), port);
        assert_eq!(read("shell:zsh:normal"), Some(("shell".to_owned(), "zsh:normal".to_owned())));
        for bad in ["port", ":http", "port:", "", "${port}"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
