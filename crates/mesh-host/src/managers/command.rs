//! Runs commands of the machine, each with a bound on time and output.
//!
//! A command has a process group of its own, no standard input, the C locale and a fixed path. It is over when it exits,
//! not when its pipes close, since what it leaves running may hold on to them. At its limit the whole group is ended.

mod capture;

pub use capture::Capture;

use crate::outcome::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Where programs are found.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of an output is kept where people read it, in bytes: one half from each end.
pub const OUTPUT: usize = 64 << 10;
/// How much of an answer is read that a program has to understand, in bytes.
pub const ANSWER: usize = 16 << 20;
/// How long a command that is told to end may take until it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A command that can be run. Its arguments are visible to everybody on the machine, so no secret may stand in them.
pub struct Command {
    program: String,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    limit: Duration,
    keep: usize,
}

impl Command {
    /// A command that may run for as long as `limit`.
    pub fn new(program: impl Into<String>, limit: Duration) -> Self {
        Self { program: program.into(), arguments: Vec::new(), environment: Vec::new(), limit, keep: OUTPUT }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// A variable of its environment, which has `PATH`, `HOME` and `LC_ALL` besides.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Keeps up to `bytes` of each output: an answer has to be whole to be understood.
    #[must_use]
    pub const fn keep(mut self, bytes: usize) -> Self {
        self.keep = bytes;
        self
    }

    /// The program and its first word, for messages: `systemctl show`.
    fn name(&self) -> String {
        let word =
            self.arguments.first().and_then(|word| word.to_str()).filter(|word| !word.starts_with('-'));
        let program = self.program.rsplit('/').next().unwrap_or(&self.program);
        word.filter(|word| word.len() <= 32)
            .map_or_else(|| program.to_owned(), |word| format!("{program} {word}"))
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// It could not be started, did not end in time, or was ended by a signal.
    pub fn run(&self) -> Result<Ran, NotRun> {
        let since = Instant::now();
        let ran = self.start_and_wait();
        let how = match &ran {
            Ok(ran) => format!("exited {}", ran.code),
            Err(why) => why.to_string(),
        };
        log::debug!("ran {}: {how}, {} ms", self.name(), since.elapsed().as_millis());
        ran
    }

    fn start_and_wait(&self) -> Result<Ran, NotRun> {
        let not_started = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => NotRun::Missing { program: self.program.clone() },
            _ => NotRun::NotStarted { name: self.name(), why: error.to_string() },
        };
        let mut command = std::process::Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", "/root")
            .env("LC_ALL", "C")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().map_err(not_started)?;
        let watched = self.watch(&mut child);
        if watched.is_err() {
            end(&child, Signal::KILL);
            // It may be in the kernel's hands for ever, so it is not waited for.
            child.try_wait().ok();
        }
        let (ended, out, err) = watched.map_err(not_started)?;
        let status = child.wait();
        let status = status.map_err(not_started)?;
        let name = self.name();
        if !ended {
            return Err(NotRun::Late { name, limit: self.limit });
        }
        match (status.code(), status.signal()) {
            (Some(code), _) => Ok(Ran { name, code, out, err }),
            (None, signal) => Err(NotRun::Signalled { name, signal: signal.unwrap_or(0) }),
        }
    }

    /// Reads until the command has exited. Says whether it did so by itself.
    fn watch(&self, child: &mut Child) -> io::Result<(bool, Capture, Capture)> {
        let mut out = Pipe::new(child.stdout.take(), self.keep)?;
        let mut err = Pipe::new(child.stderr.take(), self.keep)?;
        let pid = pid(child).ok_or_else(|| io::Error::other("it has no number"))?;
        let exited = pidfd_open(pid, PidfdFlags::empty())?;
        let mut until = Instant::now() + self.limit;
        let mut told = false;
        loop {
            let mut waits = vec![PollFd::new(&exited, PollFlags::IN)];
            waits.extend(out.wait().into_iter().chain(err.wait()));
            let left = until.saturating_duration_since(Instant::now());
            match poll(&mut waits, Some(&timespec(left))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let over = !waits[0].revents().is_empty();
            drop(waits);
            out.read()?;
            err.read()?;
            if over {
                if told {
                    // Those that it started and that did not hear.
                    end(child, Signal::KILL);
                }
                return Ok((!told, out.capture, err.capture));
            }
            if Instant::now() < until {
                continue;
            }
            end(child, if told { Signal::KILL } else { Signal::TERM });
            // A process in the kernel's hands cannot even be killed; it is not waited for without end.
            if told && Instant::now() >= until + GRACE {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it cannot be ended"));
            }
            if !told {
                until = Instant::now() + GRACE;
                told = true;
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    // A millisecond at least, so that a limit which is over does not make the loop spin.
    let time = time.max(Duration::from_millis(1));
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Signals the whole group. The child is not waited for yet, so its number belongs to nobody else.
fn end(child: &Child, signal: Signal) {
    if let Some(pid) = pid(child) {
        // Gone already is what was wanted.
        let _ = kill_process_group(pid, signal);
    }
}

/// One output of a command, until it is closed.
struct Pipe<R> {
    from: Option<R>,
    capture: Capture,
}

impl<R: Read + AsFd> Pipe<R> {
    fn new(from: Option<R>, keep: usize) -> io::Result<Self> {
        if let Some(from) = &from {
            let flags = fcntl_getfl(from)?;
            fcntl_setfl(from, flags | OFlags::NONBLOCK)?;
        }
        Ok(Self { from, capture: Capture::new(keep) })
    }

    /// Takes what is there.
    fn read(&mut self) -> io::Result<()> {
        let Some(from) = &mut self.from else { return Ok(()) };
        let mut buffer = zeroize::Zeroizing::new([0; 8 << 10]);
        // A command that writes without end has its limit all the same.
        for _ in 0..64 {
            match from.read(&mut buffer[..]) {
                Ok(0) => {
                    self.from = None;
                    return Ok(());
                }
                Ok(count) => self.capture.take(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// How a command ended by itself.
#[derive(Debug)]
pub struct Ran {
    name: String,
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub out: Capture,
    /// Its standard error.
    pub err: Capture,
}

impl Ran {
    /// The same, if it exited with 0. The failure has what it said.
    pub fn ok(self) -> Result<Self, Failure> {
        if self.code == 0 { Ok(self) } else { Err(Failure::Failed(self.words())) }
    }

    /// `NAME exited N: what it said last`.
    pub fn words(&self) -> String {
        let said = if self.err.is_empty() { self.out.last_lines() } else { self.err.last_lines() };
        let said = if said.is_empty() { "it said nothing".to_owned() } else { said };
        format!("{} exited {}: {said}", self.name, self.code)
    }

    /// `NAME exited N`, without a word of its output.
    pub fn code_words(&self) -> String {
        format!("{} exited {}", self.name, self.code)
    }
}

/// Why a command has no exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRun {
    /// There is no such program.
    Missing {
        /// The program.
        program: String,
    },
    /// It could not be started or watched.
    NotStarted {
        /// The command.
        name: String,
        /// Why.
        why: String,
    },
    /// It did not end in time, and was ended with everything that it started.
    Late {
        /// The command.
        name: String,
        /// How long it had.
        limit: Duration,
    },
    /// Somebody ended it.
    Signalled {
        /// The command.
        name: String,
        /// With this signal.
        signal: i32,
    },
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program } => write!(f, "{program} is not on this machine"),
            Self::NotStarted { name, why } => write!(f, "{name} cannot be started: {why}"),
            Self::Late { name, limit } => {
                write!(f, "{name} did not end within {} s and was ended", limit.as_secs_f64())
            }
            Self::Signalled { name, signal } => write!(f, "{name} was ended by signal {signal}"),
        }
    }
}

impl NotRun {
    /// As the end of a question or step: nothing is known.
    pub fn failure(&self) -> Failure {
        Failure::NotAnswered(self.to_string())
    }
}

impl<R: AsFd> Pipe<R> {
    fn wait(&self) -> Option<PollFd<'_>> {
        self.from.as_ref().map(|from| PollFd::new(from, PollFlags::IN))
    }
}

#[cfg(test)]
mod tests;
