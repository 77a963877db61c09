//! A child process that is signalled by name, waited for within a bound, and never outlives its owner.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::wait::{self, PATIENCE};

/// Owns the child: dropping it kills it.
pub struct Process {
    name: String,
    child: Child,
    /// True if the child only leads to the process that is meant, as `unshare` does.
    wrapped: bool,
}

impl Process {
    /// Starts `command`; `name` is for messages.
    #[track_caller]
    pub fn start(name: &str, command: &mut Command) -> Self {
        match command.stdin(Stdio::null()).spawn() {
            Ok(child) => Self { name: name.to_owned(), child, wrapped: false },
            Err(error) => panic!("cannot start {name} ({command:?}): {error}"),
        }
    }

    /// Starts a `command` whose own child is the process that signals are meant for.
    #[track_caller]
    pub fn start_wrapped(name: &str, command: &mut Command) -> Self {
        let mut process = Self::start(name, command);
        process.wrapped = true;
        process
    }

    /// The process that is meant, past any wrapper.
    #[track_caller]
    pub fn id(&self) -> u32 {
        let outer = self.child.id();
        if !self.wrapped {
            return outer;
        }
        wait::until(&format!("{} under its wrapper", self.name), PATIENCE, || {
            first_child(outer).ok_or_else(|| format!("process {outer} has no child"))
        })
    }

    /// Sends a signal by its short name: `TERM`, `HUP`, `USR2`.
    #[track_caller]
    pub fn signal(&self, signal: &str) {
        send(&self.name, self.id(), signal);
    }

    /// Stops it in its tracks; returns once every thread of it stands still.
    #[track_caller]
    pub fn freeze(&self) {
        let id = self.id();
        send(&self.name, id, "STOP");
        wait::until(&format!("{} to stand still", self.name), PATIENCE, || match thread_states(id) {
            states if !states.is_empty() && states.iter().all(|state| *state == 'T') => Ok(()),
            states => Err(format!("its threads are in the states {states:?}")),
        });
    }

    /// Lets it go on after [`Process::freeze`].
    #[track_caller]
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// How it ended, if it has.
    #[track_caller]
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_else(|error| panic!("cannot look at {}: {error}", self.name))
    }

    /// Waits for its end; `None` when it still runs after `within`.
    #[track_caller]
    pub fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.status() {
                return Some(status);
            }
            if begun.elapsed() >= within {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// SIGKILL, and gone when this returns. Nothing happens to one that has ended already.
    pub fn kill(&mut self) {
        if self.wrapped
            && self.child.try_wait().is_ok_and(|status| status.is_none())
            && let Some(inner) = first_child(self.child.id())
        {
            let _ = kill_command(inner, "KILL").status();
            // The wrapper reaps it and ends too; killed first, it would leave its child behind.
            self.ended(PATIENCE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The memory of a process that may be written, as a core has it.
pub fn memory(id: u32) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
    let file = fs::File::open(format!("/proc/{id}/mem")).unwrap();
    let mut core = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        let mut part = vec![0; usize::try_from(to - from).unwrap()];
        if file.read_at(&mut part, from).is_ok() {
            core.extend(part);
        }
    }
    core
}

#[track_caller]
fn send(name: &str, id: u32, signal: &str) {
    let sent = kill_command(id, signal).output();
    match sent {
        Ok(output) if output.status.success() => {}
        other => panic!("cannot send SIG{signal} to {name} (process {id}): {other:?}"),
    }
}

/// `kill` is a builtin of every shell, so no package is needed for it, and no unsafe code.
fn kill_command(id: u32, signal: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$1\" \"$2\"", "kill", signal, &id.to_string()]);
    command
}

fn first_child(id: u32) -> Option<u32> {
    fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?.split_whitespace().next()?.parse().ok()
}

/// The scheduler's letter for each thread: `T` is stopped.
fn thread_states(id: u32) -> Vec<char> {
    let tasks = fs::read_dir(PathBuf::from(format!("/proc/{id}/task"))).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).ok()?;
            // The name stands in parentheses and may hold anything, so count from its end.
            stat.rsplit_once(')')?.1.trim_start().chars().next()
        })
        .collect()
}
