//! `health`: whether the seat on this machine is alive, without the bus; for a container's health check.

use super::connect::Environment;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::escape;
use mesh_daemon::{duration, status, time};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A status file that is older was left by a seat that hangs or is gone: it is written every 15 s.
const MAX_AGE: Duration = Duration::from_secs(60);

/// More than any status file has.
const MAX_BYTES: u64 = 1 << 20;

/// Where the unit and the container have it.
const USUAL: &str = "/run/mesh-provisioner/status.json";

/// say whether the seat on this machine is alive; needs no bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "health",
    note = "Exit status: 0 the seat is alive, ready or not; 1 it is not, or there is no status file.",
    example = "{command_name}",
    example = "{command_name} --json --status-file /run/mesh-provisioner/status.json"
)]
pub struct Health {
    /// the status file of the seat [$RUNTIME_DIRECTORY/status.json, or /run/mesh-provisioner/status.json]
    #[argh(option, arg_name = "file")]
    status_file: Option<PathBuf>,

    /// print one line of JSON
    #[argh(switch)]
    json: bool,
}

/// What the file says.
#[derive(Deserialize)]
struct Status {
    at: String,
    live: bool,
    ready: bool,
    missing: Vec<String>,
    pid: u32,
}

/// The report on the seat.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Report {
    live: bool,
    ready: bool,
    /// In words.
    status: String,
    /// How old what the file says is.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<u64>,
}

impl Health {
    /// Runs the command; returns how it ended.
    pub fn run(self, environment: Environment<'_>) -> Exit {
        let usual = || status::default_path(environment).unwrap_or_else(|| USUAL.into());
        let path = self.status_file.unwrap_or_else(usual);
        let is_running = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
        let report = look(&path, SystemTime::now(), &is_running).unwrap_or_else(|why| Report {
            live: false,
            ready: false,
            status: why,
            age_seconds: None,
        });
        let printed = if self.json {
            print(&(serde_json::to_string(&report).expect("a report is text and numbers") + "\n"))
        } else if report.live {
            print(&format!("{}\n", escape(&report.status)))
        } else {
            complain(&format!("{}: {}", path.display(), report.status));
            Exit::Done
        };
        if report.live { printed } else { Exit::Failed }
    }
}

/// What the status file at `path` says of a seat `now`; the error says why it says nothing.
fn look(path: &Path, now: SystemTime, is_running: &dyn Fn(u32) -> bool) -> Result<Report, String> {
    let file = File::open(path)
        .map_err(|error| format!("{error}: is the seat running, with this as its --status-file?"))?;
    let marked = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let status: Status = serde_json::from_reader(file.take(MAX_BYTES))
        .map_err(|error| format!("this is not a status file of a seat: {error}"))?;
    let at = time::parse(&status.at).map_err(|error| format!("its time is wrong: {error}"))?;
    let apart = |then: SystemTime| now.duration_since(then).unwrap_or_else(|ahead| ahead.duration());
    let (age, seconds) = (apart(at), apart(at).as_secs());
    let report =
        |live: bool, status: String| Ok(Report { live, ready: false, status, age_seconds: Some(seconds) });
    let missing = status.missing.join("; ");
    if !status.live {
        return report(false, format!("{missing}, {} ago", duration::age(age)));
    }
    if age > MAX_AGE {
        // A seat that cannot write its file marks the old one.
        if marked.is_some_and(|marked| apart(marked) <= MAX_AGE) {
            let text = "live, but its status file cannot be written, and what it says is";
            return report(
                true,
                format!(
                    "{text} {} old: look at the space on its disk, and at the seat's log",
                    duration::age(age)
                ),
            );
        }
        let why = if is_running(status.pid) {
            format!("process {} runs, but hangs or cannot write the file: look at its log", status.pid)
        } else {
            format!("process {} does not run any more: start the seat, and look at its log", status.pid)
        };
        return report(false, format!("the status file is {seconds} s old: {why}"));
    }
    let text = if status.ready { "live, ready".to_owned() } else { format!("live, not ready: {missing}") };
    Ok(Report { live: true, ready: status.ready, status: text, age_seconds: Some(seconds) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_seat_is_alive_as_long_as_its_file_is_fresh() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("status.json");
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let later = |seconds, runs: bool| {
            let report = look(&path, written + Duration::from_secs(seconds), &|_| runs)?;
            Ok::<_, String>((report.live, report.ready, report.status))
        };
        let put = |live: bool, ready: bool, missing: &str| {
            let at = "2023-11-14T22:13:20Z";
            fs::write(
                &path,
                format!(r#"{{"at":"{at}","live":{live},"ready":{ready},"missing":[{missing}],"pid":7}}"#),
            )
            .unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(written).unwrap();
            file
        };
        assert!(later(0, true).unwrap_err().contains("is the seat running"));
        let file = put(true, true, "");
        assert_eq!(later(60, true), Ok((true, true, "live, ready".to_owned())));
        let hangs = "the status file is 61 s old: process 7 runs, but hangs or cannot write the file: look at its log";
        assert_eq!(later(61, true), Ok((false, false, hangs.to_owned())));
        let gone = "the status file is 61 s old: process 7 does not run any more: start the seat, and look at its log";
        assert_eq!(later(61, false), Ok((false, false, gone.to_owned())));
        // It could not be written for two minutes, and was marked just now.
        file.set_modified(written + Duration::from_secs(120)).unwrap();
        let (live, _, said) = later(125, true).unwrap();
        assert!(live && said.starts_with("live, but its status file cannot be written"), "{said}");
        put(true, false, r#""a","b""#);
        assert_eq!(later(1, true), Ok((true, false, "live, not ready: a; b".to_owned())));
        put(false, false, r#""the seat has ended with exit code 0""#);
        let ended = "the seat has ended with exit code 0, 5s ago";
        assert_eq!(later(5, true), Ok((false, false, ended.to_owned())));
        fs::write(&path, "{}").unwrap();
        assert!(later(1, true).unwrap_err().starts_with("this is not a status file"));
    }
}
