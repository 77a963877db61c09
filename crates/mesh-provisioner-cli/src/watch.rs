//! `--watch`: the same question again and again.

use super::query::Seat;
use mesh_daemon::duration;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print_on;
use std::io::IsTerminal;
use std::ops::ControlFlow::{self, Break, Continue};
use std::thread;
use std::time::Duration;

/// Empties a terminal and begins at its top. What was there before stays above, to be scrolled to.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Reads how often.
pub(super) fn parse_every(text: &str) -> Result<Duration, String> {
    duration::parse(text, Duration::from_millis(100)..=Duration::from_secs(86_400))
}

/// Runs `show` once, or, if `every` is given, that often until it is interrupted or breaks, since its reader went away.
/// A connection that broke is made again.
pub(super) fn run(
    every: Option<Duration>,
    connect: impl Fn() -> Result<Seat, Exit>,
    mut show: impl FnMut(&mut Seat) -> ControlFlow<Exit, Exit>,
) -> Exit {
    let is_terminal = std::io::stdout().is_terminal();
    let mut kept: Option<Seat> = None;
    loop {
        if every.is_some() && is_terminal && print_on(CLEAR).is_err() {
            return Exit::Failed;
        }
        let shown = match kept.take().map_or_else(&connect, Ok) {
            Ok(mut seat) => {
                let shown = show(&mut seat);
                match shown {
                    Continue(exit) if every.is_some() && exit != Exit::Unavailable => kept = Some(seat),
                    _ => seat.close(),
                }
                shown
            }
            Err(exit @ Exit::Unavailable) => Continue(exit),
            Err(exit) => Break(exit),
        };
        match (shown, every) {
            (Break(exit), _) | (Continue(exit), None) => return exit,
            (Continue(_), Some(every)) => thread::sleep(every),
        }
    }
}
