//! `status`: what the vault on this machine says of itself, without the bus.

use super::Environment;
use argh::{ArgsInfo, FromArgs};
use mesh_daemon::exit::Exit;
use mesh_daemon::output::{complain, print};
use mesh_daemon::terminal::escape;
use mesh_daemon::{duration, status, time};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A status file that is older was left by a vault that hangs or is gone: it is written every 15 s.
const MAX_AGE: Duration = Duration::from_secs(60);

/// More than any status file has.
const MAX_BYTES: u64 = 1 << 20;

/// Where the unit and the container have it.
const USUAL: &str = "/run/mesh-vault/status.json";

/// say how the vault on this machine stands: what it has, what is missing; needs no bus
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    subcommand,
    name = "status",
    note = "Exit status: 0 it is ready; 1 it does not run, or there is no status file; 3 it runs and is not ready.",
    example = "{command_name}",
    example = "{command_name} --json"
)]
pub(super) struct StatusCommand {
    /// the status file of the vault [$RUNTIME_DIRECTORY/status.json, or /run/mesh-vault/status.json]
    #[argh(option, arg_name = "file")]
    status_file: Option<PathBuf>,

    /// print the status file, one line of JSON
    #[argh(switch)]
    json: bool,
}

/// What a status file says.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    /// Whether the vault runs.
    pub(super) live: bool,
    /// Whether it answers.
    pub(super) ready: bool,
    /// Both in words.
    pub(super) status: String,
    /// How old the file is.
    pub(super) age_seconds: Option<u64>,
    /// The whole file.
    pub(super) file: Value,
}

/// Reads the status file; also where it is.
pub(super) fn find(given: Option<PathBuf>, environment: Environment<'_>) -> (PathBuf, Found) {
    let path = given.unwrap_or_else(|| status::default_path(environment).unwrap_or_else(|| USUAL.into()));
    let is_running = |pid: u64| Path::new("/proc").join(pid.to_string()).exists();
    let found = look(&path, SystemTime::now(), &is_running).unwrap_or_else(|status| Found {
        live: false,
        ready: false,
        status,
        age_seconds: None,
        file: Value::Null,
    });
    (path, found)
}

/// What the status file at `path` says of a vault `now`; the error says why it says nothing.
fn look(path: &Path, now: SystemTime, is_running: &dyn Fn(u64) -> bool) -> Result<Found, String> {
    let open = File::open(path)
        .map_err(|error| format!("{error}: is the vault running, with this as its --status-file?"))?;
    let marked = open.metadata().and_then(|metadata| metadata.modified()).ok();
    let no_file = |why: &dyn std::fmt::Display| format!("this is not a status file of a vault: {why}");
    let file: Value = serde_json::from_reader(open.take(MAX_BYTES)).map_err(|error| no_file(&error))?;
    let at = file["at"].as_str().ok_or_else(|| no_file(&"it has no time"))?;
    let at = time::parse(at).map_err(|error| format!("its time is wrong: {error}"))?;
    let (Some(live), Some(ready), Some(missing), Some(pid)) =
        (file["live"].as_bool(), file["ready"].as_bool(), file["missing"].as_array(), file["pid"].as_u64())
    else {
        return Err(no_file(&"it does not say whether the vault is live"));
    };
    let missing: Vec<&str> = missing.iter().filter_map(Value::as_str).collect();
    let missing = missing.join("; ");
    let apart = |then: SystemTime| now.duration_since(then).unwrap_or_else(|ahead| ahead.duration());
    let age = apart(at);
    let (is_old, is_marked) = (age > MAX_AGE, marked.is_some_and(|marked| apart(marked) <= MAX_AGE));
    let (live, ready, status) = match (live, is_old, is_marked) {
        (false, _, _) => (false, false, format!("{missing}, {} ago", duration::age(age))),
        (true, false, _) if ready => (true, true, "live, ready".to_owned()),
        (true, false, _) => (true, false, format!("live, not ready: {missing}")),
        // A vault that cannot write its file marks the old one.
        (true, true, true) => {
            let text =
                "live, but its status file cannot be written: look at the space on its disk, and at its log";
            (true, false, text.to_owned())
        }
        (true, true, false) if is_running(pid) => {
            let text = format!(
                "the status file is {} s old: process {pid} runs, but hangs: look at its log",
                age.as_secs()
            );
            (false, false, text)
        }
        (true, true, false) => {
            let text = format!(
                "the status file is {} s old: process {pid} does not run any more: look at its log",
                age.as_secs()
            );
            (false, false, text)
        }
    };
    Ok(Found { live, ready, status, age_seconds: Some(age.as_secs()), file })
}

impl StatusCommand {
    pub(super) fn run(self, environment: Environment<'_>) -> Exit {
        let (path, found) = find(self.status_file, environment);
        if found.file.is_null() {
            complain(&format!("{}: {}", path.display(), found.status));
            return Exit::Failed;
        }
        let printed = if self.json { print(&format!("{}\n", found.file)) } else { print(&text(&found)) };
        match found {
            Found { ready: true, .. } => printed,
            Found { live: true, .. } => Exit::NotOk,
            _ => Exit::Failed,
        }
    }
}

fn text(found: &Found) -> String {
    let file = &found.file;
    let mut lines = vec![format!("mesh-vault  {}", escape(&found.status))];
    let mut say = |what: &str, value: &Value| match value {
        Value::Null => {}
        Value::String(text) => lines.push(format!("{what:<12}{}", escape(text))),
        other => lines.push(format!("{what:<12}{other}")),
    };
    say("key", &file["key"]);
    say("server", &file["server"]);
    say("secrets", &file["secrets"]);
    say("lists", &file["lists"]);
    say("unpublished", &file["unpublished"]);
    for bucket in file["buckets"].as_array().into_iter().flatten() {
        let (name, state) = (bucket["bucket"].as_str(), bucket["state"].as_str());
        lines.push(format!("{:<12}{}", escape(state.unwrap_or_default()), escape(name.unwrap_or_default())));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vault_is_alive_as_long_as_its_file_is_fresh() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.json");
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let put = |text: &str| {
            std::fs::write(&path, text).unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
        };
        let later = |seconds, runs: bool| {
            let found = look(&path, written + Duration::from_secs(seconds), &|_| runs)?;
            Ok::<_, String>((found.live, found.ready, found.status))
        };
        assert!(later(0, true).unwrap_err().contains("is the vault running"));
        put(r#"{"at":"2023-11-14T22:13:20Z","live":true,"ready":true,"missing":[],"pid":7}"#);
        assert_eq!(later(60, true), Ok((true, true, "live, ready".to_owned())));
        let hangs = "the status file is 61 s old: process 7 runs, but hangs: look at its log";
        assert_eq!(later(61, true), Ok((false, false, hangs.to_owned())));
        assert!(!later(61, false).unwrap().0);
        put(r#"{"at":"2023-11-14T22:13:20Z","live":true,"ready":false,"missing":["a","b"],"pid":7}"#);
        assert_eq!(later(1, true), Ok((true, false, "live, not ready: a; b".to_owned())));
        put(r#"{"at":"2023-11-14T22:13:20Z","live":false,"ready":false,"missing":["gone"],"pid":7}"#);
        assert_eq!(later(5, true), Ok((false, false, "gone, 5s ago".to_owned())));
        put("[]");
        assert!(later(1, true).unwrap_err().starts_with("this is not a status file"));
    }
}
