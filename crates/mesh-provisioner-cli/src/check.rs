//! `check`: tries what the seat needs of the bus, one line each, and does no harm: reads, a write that the bus must
//! refuse, answers to nobody, and subscriptions that take no request from a seat that runs.

mod buckets;
mod rights;

use super::connect::{Environment, account, settings};
use super::connecting;
use super::permissions::parse_prefix;
use argh::{ArgsInfo, FromArgs};
use mesh_bus::client::{Client, ConnectError};
use mesh_bus::config::BusConfig;
use mesh_bus::rights_probe::RightsProbe;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_daemon::screen::{Screen, wrap};
use mesh_daemon::terminal::{Paint, Style, escape};
use mesh_model::provisioner::INBOX;
use mesh_model::rights::Rights;
use serde_json::json;

connecting! {
    /// try the connection, every right and every bucket of the seat, and where the registry leads
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "check",
        note = "Run it under the seat's account, with the seat running or not. One line for each thing: ok; wrong, with\nwhat mends it; or unknown, where it is not tried or this account may not look. Nothing is changed: the\nregistry write that is tried is one that the bus must refuse, and the subscription that takes requests is\ntried only where no seat runs. A verb of the registry is asked with an empty request, if the account may.\nThe server's log notes what it denies.\n\nExit status: 0 nothing is wrong; 1 something is; 78 the configuration is wrong.",
        example = "{command_name} --creds /etc/mesh-provisioner/seat.creds"
    )]
    pub struct Check {
        /// a subject that the seat is told to answer under too; may be repeated
        #[argh(option, arg_name = "subject", from_str_fn(parse_prefix))]
        reply_prefix: Vec<String>,

        /// print one line of JSON
        #[argh(switch)]
        json: bool,
    }
}

/// The name under which the trial of rights connects.
const CLIENT: &str = "mesh-provisioner check";

impl Check {
    /// Runs the command; returns how it ended.
    pub fn run(self, environment: Environment<'_>) -> Exit {
        let settings = match settings(&self.flags(), environment) {
            Ok(settings) => settings,
            Err(exit) => return exit,
        };
        let mut report = Report { account: account(&settings), json: self.json, lines: Vec::new() };
        match self.try_all(&settings, &mut report) {
            Ok(()) => {}
            Err(why) => report.say(Line::wrong("connection", why)),
        }
        report.end()
    }

    /// Tries everything; the error is why the bus cannot be reached any more.
    fn try_all(&self, settings: &BusConfig, report: &mut Report) -> Result<(), String> {
        let id = nuid::next().to_string();
        let rights = Rights::of_seat(&self.reply_prefix);
        let trial = RightsProbe::open(settings.clone(), CLIENT, rights::subscriptions(&rights, &id))?;
        report.say(Line::ok("connection", format!("{}, as {}", trial.server(), report.account)));
        for line in rights::tried(&trial, &rights, &id) {
            report.say(line);
        }
        report.say(rights::tried_verb(settings.clone(), &trial, &id));
        trial.close();
        match Client::connect(settings.clone(), super::connect::CLIENT, &[INBOX], &id) {
            Ok(mut client) => {
                buckets::tried(&mut client, report);
                client.close();
            }
            Err(ConnectError::NoInbox(_)) => {
                report.say(Line::unknown("buckets", "no response can be received without the seat's inbox"));
            }
            Err(ConnectError::Unreachable(why)) => return Err(why),
        }
        Ok(())
    }
}

/// What was found out of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Wrong,
    Unknown,
}

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    verdict: Verdict,
    /// The thing that was tried.
    what: String,
    /// How it is; if it is wrong, what mends it too.
    how: String,
}

impl Line {
    fn ok(what: impl Into<String>, how: impl Into<String>) -> Self {
        Line { verdict: Verdict::Ok, what: what.into(), how: how.into() }
    }

    fn wrong(what: impl Into<String>, how: impl Into<String>) -> Self {
        Line { verdict: Verdict::Wrong, what: what.into(), how: how.into() }
    }

    fn unknown(what: impl Into<String>, how: impl Into<String>) -> Self {
        Line { verdict: Verdict::Unknown, what: what.into(), how: how.into() }
    }
}

/// The lines as they come, and what they mean together.
#[derive(Debug)]
struct Report {
    /// Who is on the bus.
    account: String,
    /// All is printed at the end, as JSON.
    json: bool,
    lines: Vec<Line>,
}

impl Report {
    fn say(&mut self, line: Line) {
        if !self.json {
            let (word, style) = match line.verdict {
                Verdict::Ok => ("ok     ", Style::Green),
                Verdict::Wrong => ("wrong  ", Style::Red),
                Verdict::Unknown => ("unknown", Style::Yellow),
            };
            let colon = if line.how.is_empty() { "" } else { ": " };
            let paint = Paint::of_stdout();
            let said = escape(&format!("{}{colon}{}", line.what, line.how)).into_owned();
            let width = Screen::of_stdout().width.map(|width| width.saturating_sub(INDENT.len()));
            let said = wrap(&said, width, 0).replace('\n', &format!("\n{INDENT}"));
            print(&format!("{}  {said}\n", paint.paint(style, word)));
        }
        self.lines.push(line);
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.lines.iter().filter(|line| line.verdict == verdict).count()
    }

    /// All in one sentence.
    fn summary(&self) -> String {
        let [ok, wrong, unknown] =
            [Verdict::Ok, Verdict::Wrong, Verdict::Unknown].map(|verdict| self.count(verdict));
        let rights = |line: &&Line| line.what.starts_with("publish ") || line.what.starts_with("subscribe ");
        let rights: Vec<Verdict> = self.lines.iter().filter(rights).map(|line| line.verdict).collect();
        let denied = rights.iter().filter(|verdict| **verdict == Verdict::Wrong).count();
        let counts = format!("{ok} ok, {wrong} wrong, {unknown} unknown");
        if denied * 4 > rights.len() {
            return format!(
                "{counts}: {} lacks {denied} of the seat's {} rights: is it another account? check is meant for the seat's own",
                self.account,
                rights.len()
            );
        }
        counts
    }

    fn end(self) -> Exit {
        let summary = self.summary();
        let is_ok = self.count(Verdict::Wrong) == 0;
        let printed = if self.json {
            let line =
                |line: &Line| json!({"verdict": line.verdict.word(), "what": line.what, "how": line.how});
            let lines: Vec<_> = self.lines.iter().map(line).collect();
            let report = json!({"ok": is_ok, "account": self.account, "summary": summary, "lines": lines});
            print(&format!("{report}\n"))
        } else {
            print(&format!("\n{}\n", wrap(&escape(&summary), Screen::of_stdout().width, 0)))
        };
        if is_ok { printed } else { Exit::Failed }
    }
}

/// As wide as a verdict and the space after it.
const INDENT: &str = "         ";

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Wrong => "wrong",
            Verdict::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Ok, Unknown, Wrong};
    use super::*;

    #[test]
    fn a_summary_says_whose_account_it_is_if_that_is_not_the_seats() {
        let report = |rights: &[Verdict]| {
            let line = |verdict: &Verdict| Line {
                verdict: *verdict,
                what: "publish x".to_owned(),
                how: String::new(),
            };
            let mut lines = vec![Line::ok("connection", "")];
            lines.extend(rights.iter().map(line));
            Report { account: "the user \"administrator\"".to_owned(), json: false, lines }.summary()
        };
        assert_eq!(report(&[Ok, Ok, Ok, Wrong, Unknown]), "4 ok, 1 wrong, 1 unknown");
        assert_eq!(
            report(&[Wrong, Wrong, Ok]),
            "2 ok, 2 wrong, 0 unknown: the user \"administrator\" lacks 2 of the seat's 3 rights: is it another account? check is meant for the seat's own"
        );
    }
}
