//! The seat under a supervisor, which starts it again whenever it ends, as systemd would.

use super::Soak;
use super::support::process::Process;
use super::support::program::Program;
use super::support::seat::Seat;
use super::support::transcript::Transcript;
use super::support::wait::{PATIENCE, tail};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long after its end the seat is started again.
const RESTART: Duration = Duration::from_millis(500);

/// How often it is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// How long a seat that was told to end may take: PROTOCOL.md says 5 s for what is under way.
const FAREWELL: Duration = Duration::from_secs(7);

/// The code of a seat whose connection is stuck beyond repair.
const STUCK: i32 = 75;

/// How often the registry is looked after.
const EVERY: &str = "20s";

/// Whoever starts the seat.
pub(crate) struct Supervisor {
    program: Program,
    running: Mutex<Running>,
}

struct Running {
    process: Process,
    transcript: Transcript,
    /// Since when it has been told to end.
    told: Option<Instant>,
    killed: bool,
    frozen: bool,
}

impl Running {
    fn start(program: &Program) -> Self {
        let (process, transcript) = program.spawn("seat");
        Self { process, transcript, told: None, killed: false, frozen: false }
    }
}

impl Supervisor {
    /// What holds the seat at this address.
    pub(crate) fn program(url: &str, binary: Option<&str>) -> Program {
        let program = Seat::program(url).args(&["--every", EVERY]);
        match binary {
            Some(binary) => program.binary(binary),
            None => program,
        }
    }

    pub(crate) fn start(program: Program) -> Self {
        let running = Mutex::new(Running::start(&program));
        Self { program, running }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks after the seat until the end.
    pub(crate) fn run(&self, soak: &Soak) {
        while !soak.over_after(GLANCE) {
            let mut running = self.lock();
            if let Some(kib) = status_number(running.process.id(), "VmHWM") {
                soak.tally.memory(kib);
            }
            if let Some(status) = running.process.status() {
                let told = running.told;
                soak.tally.exit(words(status), told.map(|told| told.elapsed()));
                let right = match (status.code(), status.signal()) {
                    (Some(0), _) => told.is_some(),
                    (Some(code), _) => code == STUCK,
                    (None, _) => running.killed,
                };
                if !right {
                    running.transcript.finish();
                    let log = tail(&running.transcript.text());
                    soak.tally.fail(&format!("the seat ended with {}:\n{log}", words(status)));
                }
                drop(running);
                soak.over_after(RESTART);
                *self.lock() = Running::start(&self.program);
            } else if running.told.is_some_and(|told| told.elapsed() > FAREWELL) && !running.frozen {
                soak.tally.fail(&format!("the seat was told to end and did not within {FAREWELL:?}"));
                running.killed = true;
                running.process.kill();
            }
        }
    }

    /// Sends a signal, to a seat that has not ended.
    fn signal(&self, name: &str) {
        let mut running = self.lock();
        if running.process.status().is_none() {
            running.process.signal(name);
        }
    }

    /// Has it look after the registry now.
    pub(crate) fn hang_up(&self) {
        self.signal("HUP");
    }

    /// Tells it to end.
    pub(crate) fn terminate(&self) {
        self.lock().told.get_or_insert_with(Instant::now);
        self.signal("TERM");
    }

    /// Ends it without a word.
    pub(crate) fn kill(&self) {
        self.lock().killed = true;
        self.signal("KILL");
    }

    /// Has it stand still for so long.
    pub(crate) fn freeze(&self, soak: &Soak, during: Duration) {
        self.lock().frozen = true;
        self.signal("STOP");
        soak.pause(during);
        self.signal("CONT");
        let mut running = self.lock();
        running.frozen = false;
        // Told while it stood still, it learns of it only now.
        running.told = running.told.map(|_| Instant::now());
    }

    /// The names of its threads.
    pub(crate) fn threads(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.lock().process.id()));
        let names = tasks.into_iter().flatten().flatten().map(|task| {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            format!("{} {}", task.file_name().display(), name.trim())
        });
        names.collect()
    }

    /// The end of its log.
    pub(crate) fn log(&self) -> String {
        tail(&self.lock().transcript.text())
    }

    /// Tells it to end, at the end of everything.
    pub(crate) fn finish(&self, soak: &Soak) {
        let mut running = self.lock();
        running.process.signal("TERM");
        let told = Instant::now();
        match running.process.ended(PATIENCE) {
            Some(status) if status.success() => soak.tally.exit(words(status), Some(told.elapsed())),
            other => soak.tally.fail(&format!("told to end at the end of all: {other:?}")),
        }
    }
}

fn status_number(id: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
