//! Measures the program on a bus: how large it is, how soon it is ready, how many threads and how much memory it takes.
//! `packaging/footprint` prepares the bus and runs it.
//!
//! `measure PROGRAM`, with `NATS_URL`, a reader's `NATS_USER` and `NATS_PASSWORD`, and the seat's `SEAT_PASSWORD` in the
//! environment. Prints a line for each figure; exit 1 when one is over its bound.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command: what it says is its output")]
#![allow(deprecated, reason = "the synchronous client is meant; its successor is asynchronous")]

use std::env;
use std::error::Error;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const MAX_PROGRAM_BYTES: u64 = 5 * 1024 * 1024;
const MAX_READY: Duration = Duration::from_millis(50);
const MAX_THREADS: u64 = 6;
const MAX_IDLE_KIB: u64 = 6 << 10;
const MAX_ASKED_KIB: u64 = 10 << 10;

/// The machine may be busy with other things, so the middle one of these counts.
const STARTS: usize = 11;

const ASKS: usize = 10_000;

/// The seat takes as many requests at once; what comes beyond waits there.
const UNDER_WAY: usize = 64;

/// Long enough for anything that works.
const PATIENCE: Duration = Duration::from_secs(10);

const VERB: &str = "mesh-provisioner.provisioning";

/// Every question, each in its turn.
const WHATS: [&str; 9] =
    ["registry", "needs", "applied", "collect", "gaps", "drift", "nodes", "collections", "health"];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A running seat; killed when it is dropped.
struct Seat(Child);

impl Seat {
    /// Starts it, and gives how long it took until it said that it is ready.
    fn start(program: &str) -> Outcome<(Self, Duration)> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("notify");
        let manager = UnixDatagram::bind(&path)?;
        manager.set_read_timeout(Some(PATIENCE))?;
        let mut command = Command::new(program);
        command.arg("serve").env("NATS_USER", "seat").env("NATS_PASSWORD", env::var("SEAT_PASSWORD")?);
        command.env("NOTIFY_SOCKET", &path).stderr(Stdio::null());
        let begun = Instant::now();
        let seat = Self(command.spawn()?);
        let mut notice = [0; 512];
        loop {
            let length =
                manager.recv(&mut notice).map_err(|error| format!("the seat is not ready: {error}"))?;
            if notice[..length].starts_with(b"READY=1") {
                return Ok((seat, begun.elapsed()));
            }
        }
    }

    /// A number of `/proc/<pid>/status`.
    fn status(&self, field: &str) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).ok_or("no such field")?;
        Ok(line.trim_start_matches(':').split_whitespace().next().ok_or("no number")?.parse()?)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The middle one of some starts.
fn time_to_ready(program: &str) -> Outcome<Duration> {
    let mut times =
        (0..STARTS).map(|_| Seat::start(program).map(|(_, time)| time)).collect::<Outcome<Vec<_>>>()?;
    times.sort();
    Ok(times[STARTS / 2])
}

fn reader() -> Outcome<nats::Connection> {
    let options = nats::Options::with_user_pass(&env::var("NATS_USER")?, &env::var("NATS_PASSWORD")?);
    Ok(options.connect(env::var("NATS_URL")?.as_str())?)
}

/// Waits until the seat has written its registry: it is idle from then on.
fn wait_until_idle(bus: &nats::Connection) -> Outcome<()> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let answer = bus.request_timeout(VERB, r#"{"what":"health"}"#, PATIENCE)?;
        if String::from_utf8_lossy(&answer.data).contains("\"ready\":true") {
            return Ok(());
        }
    }
    Err("the registry was not written".into())
}

/// Asks everything many times, several at once; an error is not an answer.
fn ask(bus: &nats::Connection) -> Outcome<()> {
    let inbox = bus.new_inbox();
    let answers = bus.subscribe(&inbox)?;
    let mut asked = 0;
    for answered in 0..ASKS {
        while asked < ASKS.min(answered + UNDER_WAY) {
            let body = format!("{{\"what\":\"{}\"}}", WHATS[asked % WHATS.len()]);
            bus.publish_request(VERB, &inbox, body)?;
            asked += 1;
        }
        let answer = answers.next_timeout(PATIENCE)?;
        if answer.headers.is_some() {
            return Err(format!("an ask failed: {}", String::from_utf8_lossy(&answer.data)).into());
        }
    }
    Ok(())
}

/// Says one figure and its bound; whether it is within.
fn within(figure: &str, measured: u64, bound: u64, unit: &str) -> bool {
    let verdict = if measured <= bound { "" } else { "   OVER" };
    println!("{figure:<40}{measured:>9} {unit:<4} of at most{bound:>9} {unit}{verdict}");
    measured <= bound
}

fn measure(program: &str) -> Outcome<bool> {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let size = fs::metadata(Path::new(program))?.len();
    let mut good = within("the program, static and stripped", size, MAX_PROGRAM_BYTES, "B");
    let ready = milliseconds(time_to_ready(program)?);
    let figure = format!("ready after the start, middle of {STARTS}");
    good &= within(&figure, ready, milliseconds(MAX_READY), "ms");
    let (seat, _) = Seat::start(program)?;
    let bus = reader()?;
    wait_until_idle(&bus)?;
    good &= within("resident, idle", seat.status("VmRSS")?, MAX_IDLE_KIB, "KiB");
    good &= within("threads", seat.status("Threads")?, MAX_THREADS, "");
    ask(&bus)?;
    let figure = format!("resident, after {ASKS} asks");
    good &= within(&figure, seat.status("VmRSS")?, MAX_ASKED_KIB, "KiB");
    good &= within("threads", seat.status("Threads")?, MAX_THREADS, "");
    Ok(good)
}

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let (Some(program), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: measure PROGRAM");
        return ExitCode::from(64);
    };
    match measure(&program) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("measure: {why}");
            ExitCode::FAILURE
        }
    }
}
