//! `health`: whether the vault on this machine is alive, without the bus; for a container's health check.

use super::Environment;
use super::status::{Found, find};
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::escape;
use std::path::PathBuf;

/// say whether the vault on this machine is alive; needs no bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "health",
    note = "Exit status: 0 the vault is alive, ready or not; 1 it is not, or there is no status file.",
    example = "{command_name}",
    example = "{command_name} --json --status-file /run/mesh-vault/status.json"
)]
pub(super) struct Health {
    /// the status file of the vault [$RUNTIME_DIRECTORY/status.json, or /run/mesh-vault/status.json]
    #[argh(option, arg_name = "file")]
    status_file: Option<PathBuf>,

    /// print one line of JSON
    #[argh(switch)]
    json: bool,
}

impl Health {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let (path, Found { live, ready, status, age_seconds, .. }) = find(self.status_file, environment);
        let printed = if self.json {
            let report = serde_json::json!({"live": live, "ready": ready, "status": status, "age_seconds": age_seconds});
            print(&format!("{report}\n"))
        } else if live {
            print(&format!("{}\n", escape(&status)))
        } else {
            complain(&format!("{}: {status}", path.display()));
            Exit::Done
        };
        if live { printed } else { Exit::Failed }
    }
}
