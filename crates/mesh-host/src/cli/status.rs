//! `status`: what is remembered of the machine.

use super::{site, trouble};
use crate::record::{Claim, Memory};
use crate::runs::{self, AllRuns};
use crate::session;
use argh::FromArgs;
use jiff::Timestamp;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_daemon::terminal::escape;
use std::path::PathBuf;

/// print what was applied, what is held, and what an apply left unfinished
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "status")]
pub(super) struct Status {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// print JSON
    #[argh(switch)]
    json: bool,
}

impl Status {
    pub(super) fn run(&self) -> Exit {
        let memory = match session::memory(&site(self.root.as_ref())) {
            Ok(memory) => memory,
            Err(why) => return trouble(&why),
        };
        if self.json {
            print(&format!(
                "{}\n",
                crate::status::to_json(&memory, &runs::load(&site(self.root.as_ref())), Timestamp::now())
            ))
        } else {
            print(&to_text(&memory, &runs::load(&site(self.root.as_ref())), Timestamp::now()))
        }
    }
}

fn to_text(memory: &Memory, runs: &AllRuns, now: Timestamp) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&escape(&line));
        text.push('\n');
    };
    match &memory.accepted {
        Some(accepted) => {
            line(format!("declaration {} accepted, fence {}", accepted.sequence, accepted.fence));
        }
        None => line("no declaration of a mesh was accepted yet".to_owned()),
    }
    for (target, record) in &memory.records {
        let found = if record.claim == Claim::Agreed { "  found as declared" } else { "" };
        line(format!("applied  {}  {target}{found}", record.id));
    }
    for schedule in runs::reports(memory, runs, now) {
        let next = schedule.next.as_deref().unwrap_or("never");
        let last = match (&schedule.last, schedule.well) {
            (Some(last), Some(true)) => format!("last {last}, well"),
            (Some(last), _) => format!("last {last}, failed"),
            (None, _) => "never run yet".to_owned(),
        };
        let skipped =
            if schedule.skipped == 0 { String::new() } else { format!("; {} left out", schedule.skipped) };
        line(format!("runs     {}  next {next}; {last}{skipped}", schedule.id));
    }
    for (target, tried) in &memory.tries {
        line(format!(
            "failed   {target}  {} in a row in this form; apply --again tries it at once",
            tried.times
        ));
    }
    for (target, hold) in &memory.holds {
        line(format!("held     {}  {target}  {}", hold.id, hold.why));
    }
    for target in memory.intents.keys() {
        line(format!("begun    {target}  the last apply did not finish it; the next one does"));
    }
    for path in memory.originals.keys() {
        line(format!("kept     {path}  as it was before; mesh-host restore puts it back"));
    }
    text
}
