//! `health`: whether the client on this machine is alive, without the bus; for a container's health check.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::escape;
use mesh_daemon::time;

use super::explain::read;
use super::site;

/// A status file that is older was left by a client that hangs or is gone: it is written every 15 s.
const MAX_AGE: Duration = Duration::from_secs(60);

/// say whether the client on this machine is alive; needs no bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "health",
    note = "Exit status: 0 the client is alive, ready or not; 1 it is not, or there is no status file.",
    example = "{command_name}"
)]
pub(super) struct Health {
    /// a tree that is not the machine
    #[argh(option, arg_name = "dir")]
    root: Option<PathBuf>,

    /// the status file of serve [/run/mesh-provisioner-client/status.json]
    #[argh(option, arg_name = "file")]
    status_file: Option<PathBuf>,
}

impl Health {
    pub(super) fn run(&self) -> Exit {
        let usual = || site(self.root.as_ref()).status_path();
        let path = self.status_file.clone().unwrap_or_else(usual);
        match look(&path, SystemTime::now()) {
            Ok(words) => print(&format!("{}\n", escape(&words))),
            Err(why) => {
                complain(&why);
                Exit::Failed
            }
        }
    }
}

/// What the status file says; an error: why the client is not alive.
fn look(path: &Path, now: SystemTime) -> Result<String, String> {
    let stored = read(path)?;
    if !stored.live {
        return Err(stored.status);
    }
    let at =
        time::parse(&stored.at).map_err(|error| format!("{}: its time is wrong: {error}", path.display()))?;
    let age = now.duration_since(at).unwrap_or_else(|ahead| ahead.duration());
    if age > MAX_AGE {
        return Err(format!(
            "{} is {} s old: the process {} hangs or does not run any more: look at its log",
            path.display(),
            age.as_secs(),
            stored.pid
        ));
    }
    let ready = if stored.ready { "ready" } else { "not ready" };
    Ok(format!("live, {ready}: {}", stored.status))
}
