//! `report`: the mesh as one page of HTML.

mod collections;
mod html;
mod page;

use super::connect::{Environment, Inbox, parse_inbox_prefix};
use super::connecting;
use super::query::Seat;
use super::status::parse_stale_after;
use super::status::survey::Survey;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use std::time::{Duration, SystemTime};

connecting! {
    /// print the mesh as one page of HTML that needs nothing else
    #[derive(FromArgs, ArgsInfo, Debug)]
    #[argh(
        subcommand,
        name = "report",
        note = "Exit status: 0 the page is printed, whether or not the mesh is well; 1 the seat gave an error; 69 nobody answers.",
        example = "{command_name} > mesh.html",
        example = "{command_name} --stale-after 1d > mesh.html"
    )]
    pub struct Report {
        /// how long without a write makes a node stale, such as 1h30m or 1d [no node is]
        #[argh(option, arg_name = "time", from_str_fn(parse_stale_after))]
        stale_after: Option<Duration>,

        /// where answers come to, for an account that has an inbox of its own [_INBOX]
        #[argh(option, arg_name = "subject", from_str_fn(parse_inbox_prefix))]
        inbox_prefix: Option<String>,
    }
}

impl Report {
    /// Runs the command; returns how it ended.
    pub fn run(self, environment: Environment<'_>) -> Exit {
        let inbox = Inbox::usual(self.inbox_prefix.as_ref());
        let mut seat = match Seat::connect(&self.flags(), environment, &inbox) {
            Ok(seat) => seat,
            Err(exit) => return exit,
        };
        let survey = Survey::make(&mut seat, self.stale_after, SystemTime::now());
        seat.close();
        match survey {
            Ok(survey) => print(&page::render(&survey)),
            Err(error) => error.report(),
        }
    }
}
