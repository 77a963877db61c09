//! The daemon: a loop that takes connections and starts a child process for each. The parent never reads a request, so
//! that nothing a client sends can harm it; a hang or a crash in an apply stops nothing else.
//!
//! A child that wants to apply asks for its turn. One applies, one waits; a newer one takes the place of the one that
//! waits.

mod child;
mod retry;
mod runs;
mod socket;
mod turns;

pub use child::{answer, reapply};

use crate::site::Site;
use crossbeam_channel::{Receiver, Sender, at, bounded, never, select, tick};
use mesh_daemon::exit::Exit;
use mesh_daemon::notify::Notify;
use mesh_daemon::signals::{self, Signal};
use retry::Retry;
use runs::Scheduler;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use turns::{Turn, Turns};

/// How many connections are answered at a time.
pub const MAX_CONNECTIONS: usize = 8;
/// How long an apply may go on after the daemon was asked to stop.
const STOP_WITHIN: Duration = Duration::from_secs(30);

/// What can happen to the loop.
enum Event {
    /// Somebody who may ask has connected.
    Connection(UnixStream),
    /// A child wants to apply.
    Wants(u64),
    /// In a child's apply something did not answer.
    Silent(u64),
    /// A child has ended.
    Ended(u64),
}

/// A child and the way to it.
struct Running {
    id: u64,
    control: UnixStream,
}

struct Daemon {
    root: Option<PathBuf>,
    program: PathBuf,
    events: Sender<Event>,
    children: Vec<Running>,
    turns: Turns,
    retry: Retry,
    scheduler: Scheduler,
    next: u64,
}

/// Serves until it is asked to stop. `every`: how often the own copy is applied again.
pub fn serve(site: &Site, root: Option<PathBuf>, every: Duration) -> io::Result<Exit> {
    let signals = signals::start()?;
    site.make_folders()?;
    let notify = Notify::from_environment(&|name| std::env::var(name).ok())?;
    let (events, received) = bounded(MAX_CONNECTIONS * 2);
    let (socket, listening) = socket::listen(site, events.clone())?;
    let mut daemon = Daemon {
        root,
        program: std::env::current_exe()?,
        events,
        children: Vec::new(),
        turns: Turns::default(),
        retry: Retry::default(),
        scheduler: Scheduler::new(site),
        next: 0,
    };
    log::info!("listening on {}", socket.display());
    let mut ready = notify.ready();
    // At boot everything is brought to what was accepted last.
    daemon.start(None);
    daemon.scheduler.refresh();
    let result = daemon.turn(&received, &signals, &notify, every, &mut ready);
    notify.stopping();
    listening.stop();
    daemon.finish(&received, &signals);
    result
}

impl Daemon {
    fn turn(
        &mut self,
        events: &Receiver<Event>,
        signals: &Receiver<Signal>,
        notify: &Notify,
        every: Duration,
        ready: &mut bool,
    ) -> io::Result<Exit> {
        let again = tick(every);
        let alive = tick(notify.watchdog_interval().unwrap_or(Duration::from_secs(10)));
        loop {
            let due = self.retry.due().map_or_else(never, at);
            let scheduled = self.scheduler.wake().map_or_else(never, at);
            select! {
                recv(signals) -> signal => match signal {
                    Ok(Signal::Reload) => self.start(None),
                    _ => return Ok(Exit::Done),
                },
                recv(events) -> event => match event {
                    Ok(event) => self.happens(event),
                    Err(error) => return Err(io::Error::other(error)),
                },
                recv(again) -> _ => self.start(None),
                recv(due) -> _ => {
                    self.retry.done();
                    self.start(None);
                }
                recv(scheduled) -> _ => self.run_what_is_due(),
                recv(alive) -> _ => {
                    *ready = *ready || notify.ready();
                    notify.watchdog();
                }
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Connection(stream) if self.children.len() >= MAX_CONNECTIONS => {
                socket::refuse(&stream, 503, "too many connections: try again");
            }
            Event::Connection(stream) => self.start(Some(stream)),
            Event::Wants(id) => {
                let turn = self.turns.wants(id);
                self.tell(turn);
            }
            Event::Silent(id) => {
                if self.turns.is_running_now(id) {
                    self.retry.not_answered();
                }
            }
            Event::Ended(id) if self.scheduler.ended(id) => {}
            Event::Ended(id) => {
                if self.turns.is_running_now(id) {
                    self.retry.ended(Instant::now());
                    self.scheduler.refresh();
                }
                self.children.retain(|child| child.id != id);
                let turn = self.turns.ended(id);
                self.tell(turn);
            }
        }
    }

    /// Starts a child: for a connection, or to apply the own copy again.
    fn start(&mut self, stream: Option<UnixStream>) {
        let id = self.next;
        self.next += 1;
        let word = if stream.is_some() { "answer" } else { "reapply" };
        match self.spawn(id, stream, &[word]) {
            Ok(child) => self.children.push(child),
            Err(error) => log::error!("a child process cannot be started: {error}"),
        }
    }

    /// Starts a child for each scheduled container whose time has come.
    fn run_what_is_due(&mut self) {
        for name in self.scheduler.due() {
            let id = self.next;
            self.next += 1;
            log::info!("the scheduled container {name} is run");
            match self.spawn(id, None, &["run", &name]) {
                // It asks for no turn, so nobody has to speak to it.
                Ok(_) => self.scheduler.started(id, name),
                Err(error) => {
                    log::error!("the run of {name} cannot be started: {error}");
                    self.scheduler.not_started(&name);
                }
            }
        }
    }

    fn spawn(&self, id: u64, stream: Option<UnixStream>, words: &[&str]) -> io::Result<Running> {
        let (control, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&self.program);
        command.args(words);
        if let Some(root) = &self.root {
            command.arg("--root").arg(root);
        }
        command.stdin(stream.map_or_else(Stdio::null, |stream| Stdio::from(OwnedFd::from(stream))));
        command.stdout(Stdio::from(OwnedFd::from(theirs)));
        // The child is not the service.
        command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC").env_remove("WATCHDOG_PID");
        let child = command.spawn()?;
        let (events, listening) = (self.events.clone(), control.try_clone()?);
        std::thread::Builder::new()
            .name("child".to_owned())
            .spawn(move || watch(id, child, listening, &events))?;
        Ok(Running { id, control })
    }

    fn tell(&self, turns: Vec<(u64, Turn)>) {
        for (id, turn) in turns {
            if let Some(child) = self.children.iter().find(|child| child.id == id) {
                // A child that is gone is noticed by its end.
                let _ = (&child.control).write_all(turn.line().as_bytes());
            }
        }
    }

    /// Waits for what is under way, for a time.
    fn finish(&mut self, events: &Receiver<Event>, signals: &Receiver<Signal>) {
        let until = Instant::now() + STOP_WITHIN;
        let waiting = self.turns.stop();
        self.tell(waiting);
        while self.turns.is_running() {
            let left = at(until);
            select! {
                recv(events) -> event => match event {
                    Ok(Event::Ended(id)) => drop(self.turns.ended(id)),
                    Ok(_) => {}
                    Err(_) => return,
                },
                recv(signals) -> signal => if signal != Ok(Signal::Reload) { return },
                recv(left) -> _ => {
                    log::warn!("an apply is still under way; the next one finishes it");
                    return;
                }
            }
        }
    }
}

/// Hears what a child says, and waits for its end.
fn watch(id: u64, mut child: Child, control: UnixStream, events: &Sender<Event>) {
    for line in BufReader::new(control).lines().map_while(Result::ok).take(4) {
        let event = match line.as_str() {
            child::WANTS => Event::Wants(id),
            child::SILENT => Event::Silent(id),
            _ => continue,
        };
        if events.send(event).is_err() {
            break;
        }
    }
    match child.wait() {
        Ok(status) if status.success() => {}
        Ok(status) => log::error!("a child process ended with {status}"),
        Err(error) => log::error!("a child process cannot be waited for: {error}"),
    }
    // Nobody listens any more when the daemon ends.
    let _ = events.send(Event::Ended(id));
}
