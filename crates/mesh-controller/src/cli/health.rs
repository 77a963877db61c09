//! `health`: whether `serve` on this machine is alive, without the bus; for a container's health check.

use super::context::Environment;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::status;
use mesh_daemon::terminal::escape;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A status file that is older was left by a program that hangs or is gone: it is written every 15 s.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Where the unit and the container have it.
const USUAL: &str = "/run/mesh-controller/status.json";

/// say whether serve on this machine is alive; needs no bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "health",
    note = "Exit status: 0 it is alive, ready or not; 1 it is not, or there is no status file.",
    example = "{command_name} --json"
)]
pub(super) struct Health {
    /// the status file of serve [$RUNTIME_DIRECTORY/status.json, or /run/mesh-controller/status.json]
    #[argh(option, arg_name = "file")]
    status_file: Option<PathBuf>,

    /// print one line of JSON
    #[argh(switch)]
    json: bool,
}

impl Health {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let path =
            self.status_file.or_else(|| status::default_path(environment)).unwrap_or_else(|| USUAL.into());
        let found = look(&path);
        if self.json {
            let (live, status) = match &found {
                Ok(status) => (true, status.clone()),
                Err(why) => (false, Value::from(why.as_str())),
            };
            print(&format!("{}\n", json!({"live": live, "status": status})));
        }
        match found {
            Ok(status) if !self.json => {
                let line = status["status"].as_str().unwrap_or("alive").to_owned();
                print(&format!("{}\n", escape(&line)))
            }
            Ok(_) => Exit::Done,
            Err(why) => {
                complain(&format!("{}: {why}", path.display()));
                Exit::Failed
            }
        }
    }
}

/// What the file says, if the program that wrote it still runs.
fn look(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("serve does not run, or elsewhere: {error}"))?;
    let status: Value =
        serde_json::from_str(&text).map_err(|error| format!("is not a status file: {error}"))?;
    let written = std::fs::metadata(path).and_then(|file| file.modified());
    let age =
        written.ok().and_then(|written| SystemTime::now().duration_since(written).ok()).unwrap_or_default();
    if age > MAX_AGE {
        return Err(format!("was written {} s ago: serve hangs, or is gone", age.as_secs()));
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::look;

    #[test]
    fn a_file_that_is_old_or_none_is_not_alive() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("status.json");
        assert!(look(&path).unwrap_err().contains("does not run"));
        std::fs::write(&path, r#"{"status":"ready"}"#).unwrap();
        assert_eq!(look(&path).unwrap()["status"], "ready");
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        assert!(look(&path).unwrap_err().contains("100 s ago"));
    }
}
