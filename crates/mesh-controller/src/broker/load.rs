//! The file of users on its way into the server: written whole, loaded again, and proven by the sentinel.

use crate::store::Error;
use mesh_bus::config::{Auth, BusConfig, Secret};
use mesh_bus::rights_probe::RightsProbe;
use nkeys::KeyPair;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the command that reloads the server may take.
const COMMAND: Duration = Duration::from_secs(30);

/// How the server is told to read its configuration again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reload {
    /// SIGHUP to the process whose id is this, or stands in the file of this name.
    Pid(String),
    /// A program and its arguments; no shell.
    Command(Vec<String>),
    /// The operator carries the file to the server and reloads it there.
    ByHand,
}

impl Reload {
    /// From `--reload-command` and `--reload-pid`.
    pub fn of(command: Option<&str>, pid: Option<&str>) -> Result<Reload, Error> {
        match (command, pid) {
            (Some(_), Some(_)) => {
                Err(Error::Refused("--reload-command and --reload-pid: give one of them".into()))
            }
            (Some(command), None) => {
                let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
                if words.is_empty() {
                    return Err(Error::Refused("--reload-command is empty".into()));
                }
                Ok(Reload::Command(words))
            }
            (None, Some(pid)) => Ok(Reload::Pid(pid.to_owned())),
            (None, None) => Ok(Reload::ByHand),
        }
    }

    /// Tells the server. The error says what to look at.
    pub fn tell(&self) -> Result<(), String> {
        match self {
            Reload::ByHand => Ok(()),
            Reload::Pid(pid) => hang_up(pid),
            Reload::Command(words) => run(words),
        }
    }
}

fn hang_up(pid: &str) -> Result<(), String> {
    let text = if pid.bytes().all(|byte| byte.is_ascii_digit()) {
        pid.to_owned()
    } else {
        fs::read_to_string(pid).map_err(|error| format!("--reload-pid: {pid} cannot be read: {error}"))?
    };
    // What is not above 0 names a group of processes, or all of them.
    let number =
        text.trim().parse().ok().filter(|number| *number > 0).and_then(rustix::process::Pid::from_raw);
    let number = number.ok_or_else(|| format!("--reload-pid: {pid} holds no process id"))?;
    rustix::process::kill_process(number, rustix::process::Signal::HUP)
        .map_err(|error| format!("--reload-pid: no signal to process {}: {error}", text.trim()))
}

fn run(words: &[String]) -> Result<(), String> {
    let shown = words.join(" ");
    let failed = |why: String| format!("--reload-command: {shown}: {why}");
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let until = Instant::now() + COMMAND;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(failed(format!("ended with {status}"))),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                child.kill().ok();
                child.wait().ok();
                return Err(failed(format!("did not end within {} s", COMMAND.as_secs())));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    }
}

/// Replaces a file as a whole: a reader sees the old or the new one.
pub fn write(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    let write = || -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_string_lossy();
        let beside = folder.join(format!(".{name}.new"));
        fs::remove_file(&beside).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        // What is there keeps its mode: the server may run as another user.
        let mode = fs::metadata(path).map_or(mode, |old| old.permissions().mode() & 0o7777);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        // A service makes files for itself alone: the server, another user, could not read it.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        fs::File::open(folder)?.sync_all()
    };
    write().map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Tries to be let in as the sentinel.
pub fn prove(connection: &BusConfig, sentinel: &KeyPair) -> Result<(), String> {
    let seed = sentinel.seed().map_err(|error| error.to_string())?;
    let connection = BusConfig { auth: Auth::Seed(Secret::from(seed)), ..connection.clone() };
    let probe = RightsProbe::open(connection, "mesh-controller sentinel", [])?;
    probe.close();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_makes_files_for_itself_alone_writes_one_that_the_server_reads() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("users.conf");
        // The mask of the shipped unit. Nothing that another test makes meanwhile is less closed by it.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let written = [write(&path, "one", 0o644), write(&path, "two", 0o644)];
        rustix::process::umask(before);
        assert_eq!(written, [Ok(()), Ok(())]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        // What an operator made of it stays.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, "three", 0o644).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
    }

    #[test]
    fn a_file_that_names_a_group_of_processes_signals_none() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("nats.pid");
        for text in ["-2147483647", "0", "", "x"] {
            fs::write(&path, text).unwrap();
            let shown = path.display().to_string();
            let refused = Reload::Pid(shown.clone()).tell();
            assert_eq!(refused, Err(format!("--reload-pid: {shown} holds no process id")), "{text}");
        }
    }
}
