//! `check`: tries what the seat needs of the bus, one line each, and does no harm: reads, a write that the bus must
//! refuse, answers to nobody, and subscriptions that take no request from a seat that runs.

mod buckets;
mod rights;

use super::connect::{Environment, settings};
use super::connecting;
use super::permissions::parse_prefix;
use crate::wire;
use argh::FromArgs;
use mesh_bus::client::{Client, ConnectError};
use mesh_bus::rights_probe::RightsProbe;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_daemon::terminal::{Paint, Style};
use mesh_model::rights::Rights;

connecting! {
    /// try the connection, every right and every bucket of the seat, and where the registry leads
    #[derive(FromArgs, Debug)]
    #[argh(
        subcommand,
        name = "check",
        note = "Run it under the seat's account, with the seat running or not. One line for each thing: ok; wrong, with\nwhat mends it; or unknown, where it is not tried or this account may not look. Nothing is changed: the\nregistry write that is tried is one that the bus must refuse, and the subscription that takes requests is\ntried only where no seat runs. A verb of the registry is asked with an empty request, if the account may.\nThe server's log notes what it denies.\n\nExit status: 0 nothing is wrong; 1 something is; 78 the configuration is wrong.",
        example = "{command_name} --creds /etc/mesh-provisioner/seat.creds"
    )]
    pub(super) struct Check {
        /// a subject that the seat is told to answer under too; may be given several times
        #[argh(option, arg_name = "subject", from_str_fn(parse_prefix))]
        reply_prefix: Vec<String>,
    }
}

/// The name under which the trial of rights connects.
const CLIENT: &str = "mesh-provisioner check";

impl Check {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let settings = match settings(&self.flags(), environment) {
            Ok(settings) => settings,
            Err(exit) => return exit,
        };
        let id = nuid::next().to_string();
        let rights = Rights::of_seat(&self.reply_prefix);
        let mut report = Report::default();
        let trial = match RightsProbe::open(settings.clone(), CLIENT, rights::subscriptions(&rights, &id)) {
            Ok(trial) => trial,
            Err(why) => return report.end(&Line::wrong("connection", why)),
        };
        report.say(&Line::ok("connection", trial.server()));
        for line in rights::tried(&trial, &rights, &id) {
            report.say(&line);
        }
        report.say(&rights::tried_verb(settings.clone(), &trial, &id));
        trial.close();
        match Client::connect(settings, super::connect::CLIENT, &[wire::INBOX], &id) {
            Ok(mut client) => {
                buckets::tried(&mut client, &mut report);
                client.close();
            }
            Err(ConnectError::NoInbox(_)) => {
                report.say(&Line::unknown("buckets", "no answer can be heard without the seat's inbox"));
            }
            Err(ConnectError::Unreachable(why)) => return report.end(&Line::wrong("connection", why)),
        }
        report.exit
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
    exit: Exit,
}

impl Default for Report {
    fn default() -> Self {
        Report { exit: Exit::Done }
    }
}

impl Report {
    fn say(&mut self, line: &Line) {
        let Line { verdict, what, how } = line;
        let (word, style) = match verdict {
            Verdict::Ok => ("ok     ", Style::Green),
            Verdict::Wrong => ("wrong  ", Style::Red),
            Verdict::Unknown => ("unknown", Style::Yellow),
        };
        let colon = if how.is_empty() { "" } else { ": " };
        let paint = Paint::of_stdout();
        let said = paint.line(Style::Plain, &format!("{what}{colon}{how}"));
        let printed = print(&format!("{}  {said}\n", paint.paint(style, word)));
        if *verdict == Verdict::Wrong || printed != Exit::Done {
            self.exit = Exit::Failed;
        }
    }

    fn end(mut self, last: &Line) -> Exit {
        self.say(last);
        self.exit
    }
}
