//! `status`: the whole mesh on one screen.

mod grid;
mod prometheus;
pub(super) mod survey;
mod text;

use super::connect::{Environment, Inbox, parse_inbox_prefix};
use super::connecting;
use super::query::Seat;
use super::watch::{self, parse_every};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::duration;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print_on};
use mesh_daemon::screen::Screen;
use mesh_provisioner_api::request::MAX_STALE_AFTER;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::{Duration, SystemTime};
use survey::Survey;

connecting! {
    /// show the mesh on one screen: the seat, and everything that is not well
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "status",
        note = "Exit status: 0 all is well; 3 something is not; 1 the seat gave an error; 69 nobody answers.",
        example = "{command_name}",
        example = "{command_name} --stale-after 1d --watch 5s",
        example = "{command_name} --grid",
        example = "{command_name} --format prometheus"
    )]
    pub struct Status {
        /// how long without a write makes a node stale, such as 1h30m or 1d [no node is]
        #[argh(option, arg_name = "time", from_str_fn(parse_stale_after))]
        stale_after: Option<Duration>,

        /// show the modules of each node as a table of nodes and modules
        #[argh(switch)]
        grid: bool,

        /// the form of the output: text, json or prometheus [text]
        #[argh(option, arg_name = "form", default = "Format::Text", from_str_fn(parse_format))]
        format: Format,

        /// the same as --format json
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Prometheus,
}

fn parse_format(word: &str) -> Result<Format, String> {
    match word {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        "prometheus" => Ok(Format::Prometheus),
        _ => Err(format!("{word:?} is not a form of output; it can be text, json or prometheus")),
    }
}

pub(super) fn parse_stale_after(text: &str) -> Result<Duration, String> {
    duration::parse(text, Duration::ZERO..=Duration::from_secs(MAX_STALE_AFTER))
}

impl Status {
    /// Runs the command; returns how it ended.
    pub fn run(mut self, environment: Environment<'_>) -> Exit {
        if self.json {
            self.format = Format::Json;
        }
        if self.grid && self.format != Format::Text {
            complain("--grid is a form of text: leave out --format and --json");
            return Exit::Usage;
        }
        let connect = || {
            let seat = Seat::connect(&self.flags(), environment, &Inbox::usual(self.inbox_prefix.as_ref()));
            if seat.is_err() {
                self.down();
            }
            seat
        };
        watch::run(self.watch, connect, |seat| self.show(seat))
    }

    /// What a collector of metrics reads where nobody answers.
    fn down(&self) {
        if self.format == Format::Prometheus {
            print_on(&prometheus::down()).ok();
        }
    }

    fn show(&self, seat: &mut Seat) -> ControlFlow<Exit, Exit> {
        let survey = match Survey::make(seat, self.stale_after, SystemTime::now()) {
            Ok(survey) => survey,
            Err(error) => {
                self.down();
                return Continue(error.report());
            }
        };
        let screen = Screen::of_stdout();
        let text = match self.format {
            Format::Text if self.grid => grid::render(&survey, screen),
            Format::Text => text::render(&survey, screen),
            Format::Json => survey.to_json(),
            Format::Prometheus => prometheus::render(&survey),
        };
        print_on(&text).map_or_else(Break, Continue)?;
        Continue(if survey.is_ok() { Exit::Done } else { Exit::NotOk })
    }
}
