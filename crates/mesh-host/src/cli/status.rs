//! `status`: what is remembered of the machine.

use super::{site, trouble};
use crate::record::{Claim, Memory};
use crate::session;
use argh::FromArgs;
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
            print(&format!("{}\n", crate::status::to_json(&memory)))
        } else {
            print(&to_text(&memory))
        }
    }
}

fn to_text(memory: &Memory) -> String {
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
