//! `health`: whether the seat on this machine is alive, without the bus; for a container's health check.

use super::connect::Environment;
use argh::FromArgs;
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::{status, time};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A status file that is older was left behind by a seat that hangs or is gone: it is written every 15 s.
const MAX_AGE: Duration = Duration::from_secs(60);

/// say whether the seat on this machine is alive; needs no bus
#[derive(FromArgs, Debug)]
#[argh(
    subcommand,
    name = "health",
    note = "Exit status: 0 the seat is alive, ready or not; 1 it is not, or there is no status file.",
    example = "{command_name} --status-file /run/mesh-provisioner/status.json"
)]
pub(super) struct Health {
    /// the file that the seat writes [$RUNTIME_DIRECTORY/status.json]
    #[argh(option, arg_name = "file")]
    status_file: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Status {
    at: String,
    ready: bool,
    missing: Vec<String>,
}

impl Health {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let Some(path) = self.status_file.or_else(|| status::default_path(environment)) else {
            complain("no status file is named: give --status-file, the same as the seat's");
            return Exit::Usage;
        };
        match look(&path, SystemTime::now()) {
            Ok(line) => print(&format!("{line}\n")),
            Err(why) => {
                complain(&format!("{}: {why}", path.display()));
                Exit::Failed
            }
        }
    }
}

/// What the status file at `path` says of a seat that is alive `now`; why it is taken for dead.
fn look(path: &Path, now: SystemTime) -> Result<String, String> {
    let text = fs::read(path)
        .map_err(|error| format!("{error}: is the seat running, with this as its --status-file?"))?;
    let status: Status =
        serde_json::from_slice(&text).map_err(|error| format!("this is no status file: {error}"))?;
    let at = time::parse(&status.at).map_err(|error| format!("its time is wrong: {error}"))?;
    let age = now.duration_since(at).unwrap_or_else(|ahead| ahead.duration());
    if age > MAX_AGE {
        return Err(format!("written {} s ago: the seat hangs or is gone", age.as_secs()));
    }
    Ok(if status.ready {
        "live, ready".to_owned()
    } else {
        format!("live, not ready: {}", status.missing.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_alive_as_long_as_its_file_is_fresh() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("status.json");
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let later = |seconds| look(&path, written + Duration::from_secs(seconds));
        assert!(later(0).unwrap_err().contains("is the seat running"));
        fs::write(&path, r#"{"at":"2023-11-14T22:13:20Z","ready":true,"missing":[]}"#).unwrap();
        assert_eq!(later(60), Ok("live, ready".to_owned()));
        assert_eq!(later(61), Err("written 61 s ago: the seat hangs or is gone".to_owned()));
        fs::write(&path, r#"{"at":"2023-11-14T22:13:20Z","ready":false,"missing":["a","b"]}"#).unwrap();
        assert_eq!(later(1), Ok("live, not ready: a; b".to_owned()));
        fs::write(&path, "{}").unwrap();
        assert!(later(1).unwrap_err().starts_with("this is no status file"));
    }
}
