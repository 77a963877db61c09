//! The timer: of systemd where it runs, else a process of its own that sleeps. It outlives this process.

use crate::managers::command::{Command, PATH};
use crate::outcome::Failure;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the client has to reach the bus again, in seconds.
const WITHIN_S: u64 = 120;
const LIMIT: Duration = Duration::from_secs(20);

/// A name that no timer had before.
pub(super) fn token() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", since.as_nanos(), std::process::id())
}

fn unit(token: &str) -> String {
    format!("mesh-host-undo-{token}")
}

fn has_systemd() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Claims the script before it is read: who adds to it later sees that the timer is over.
fn claim(folder: &Path, token: &str) -> String {
    format!(
        "cd '{}' && mv -f undo-{token}.sh undo.run && sh undo.run; rm -f undo.run undo-{token}.lock",
        folder.display()
    )
}

/// Starts it.
pub(super) fn start(folder: &Path, token: &str) -> Result<(), Failure> {
    if has_systemd() {
        let after = format!("--on-active={WITHIN_S}s");
        let exact = "--timer-property=AccuracySec=1s";
        return Command::new("systemd-run", LIMIT)
            .args(["--collect", "--unit", &unit(token), &after, exact, "sh", "-c", &claim(folder, token)])
            .run()
            .map_err(|why| why.failure())?
            .ok()
            .map(drop);
    }
    let failed = |error: std::io::Error| Failure::Failed(format!("the timer cannot be started: {error}"));
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(folder.join(format!("undo-{token}.lock")))
        .map_err(failed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
    // It holds the lock until it goes off, and nobody else does: what it sleeps by could outlive it.
    let sleeps = format!("sleep {WITHIN_S} </dev/null; exec </dev/null; {}", claim(folder, token));
    let status = std::process::Command::new("setsid")
        .args(["--fork", "sh", "-c", &sleeps])
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::from(lock))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(failed)?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Failed(format!("the timer cannot be started: setsid ended with {status}")))
    }
}

/// Whether it is still to go off.
pub(super) fn waits(folder: &Path, token: &str) -> Result<bool, Failure> {
    if has_systemd() {
        let timer = format!("{}.timer", unit(token));
        let ran = Command::new("systemctl", LIMIT)
            .args(["show", "--property", "SubState", "--value", &timer])
            .run()
            .map_err(|why| why.failure())?
            .ok()?;
        return Ok(ran.out.text().is_some_and(|state| state.trim() == "waiting"));
    }
    let Ok(lock) = OpenOptions::new().write(true).open(folder.join(format!("undo-{token}.lock"))) else {
        return Ok(false);
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(Failure::NotAnswered(format!("the timer cannot be looked at: {error}"))),
    }
}

/// Stops it. One that only sleeps finds no script when it wakes.
pub(super) fn stop(token: &str) -> Result<(), Failure> {
    if has_systemd() {
        let timer = format!("{}.timer", unit(token));
        Command::new("systemctl", LIMIT).args(["stop", &timer]).run().map_err(|why| why.failure())?;
    }
    Ok(())
}
