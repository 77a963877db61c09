//! The loop around the machine: the bus by the shared loop, the host by a thread, the memory by a journal.

use std::cell::Cell;
use std::path::PathBuf;

use crossbeam_channel::bounded;
use log::{error, warn};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::print;
use mesh_runtime::Started;

use crate::host::{self, Told};
use crate::journal::Journal;
use crate::machine::{Client, Own, Settings, Task};
use crate::site::Site;

impl From<Told> for Own {
    fn from(told: Told) -> Own {
        match told {
            Told::Outcome(outcome) => Own::Outcome(outcome),
            Told::Ended { call, result } => Own::Ended { call, result },
        }
    }
}

/// Runs the machine; `journal` is where its memory goes, and a run without an effect has none. Returns how the loop ended, and with which code a command that ends does.
pub fn run(
    site: &Site,
    mut journal: Option<Journal>,
    started: Started,
    settings: Settings,
    status_file: Option<PathBuf>,
) -> (Exit, Option<u8>) {
    // The thread's answers are few, and bounded by the requests; outcome lines wait for the loop.
    let (own, events) = bounded::<Own>(1024);
    let host = match host::start(site.socket(), own) {
        Ok(host) => host,
        Err(error) => {
            error!("cannot start a thread: {error}");
            return (Exit::Bug, None);
        }
    };
    let client = format!("mesh-provisioner-client {}", settings.node);
    let code = Cell::new(None);
    let machine = Client::new(settings);
    let settings = mesh_runtime::Settings { started, client, status_file };
    let mut keep = move |text: &str| match &mut journal {
        Some(journal) => journal.keep(text).map_err(|error| error.to_string()),
        None => Ok(()),
    };
    let perform = |task: Task| match task {
        Task::HandOver { call, memory, request } => {
            if let Some(memory) = memory
                && let Err(why) = keep(&memory)
            {
                let result = Err(format!("the state cannot be kept, so nothing is handed over: {why}"));
                return vec![Own::Ended { call, result }];
            }
            match host.try_send(host::Call { number: call, request }) {
                Ok(()) => Vec::new(),
                Err(_) => vec![Own::Ended { call, result: Err("too many requests wait".to_owned()) }],
            }
        }
        Task::Keep(text) => keep(&text).err().map(Own::NotKept).into_iter().collect(),
        Task::Print(text) => {
            if print(&text) != Exit::Done {
                warn!("cannot print");
            }
            Vec::new()
        }
        Task::Verdict(verdict) => {
            code.set(Some(verdict));
            Vec::new()
        }
    };
    let exit = mesh_runtime::serve(machine, settings, events, perform);
    (exit, code.get())
}
