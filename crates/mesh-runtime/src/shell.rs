//! The loop: one select over signals, connections and the program's own events, then one turn of the machine.

use crate::event::{Action, Event, Machine};
use crate::links::{Links, Serving};
use crate::start::Started;
use crossbeam_channel::{Receiver, Select, TryRecvError, never};
use log::{error, log, warn};
use mesh_bus::message::{Incoming, Reply};
use mesh_bus::nats::{Aside, Connected, LinkEvent, Message, is_library_stuck};
use mesh_daemon::exit::Exit;
use mesh_daemon::notify::Notify;
use mesh_daemon::signals::Signal;
use mesh_daemon::status::StatusFile;
use mesh_daemon::time::rfc3339;
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// The longest time between two turns: to check whether the library is stuck, and to notify the watchdog.
const TICK: Duration = Duration::from_secs(5);

/// How often the status file is written.
const STATUS_EVERY: Duration = Duration::from_secs(15);

/// How long the last messages may take to leave when the process exits.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long a machine that has stopped listening may take for the requests that had arrived.
const DRAINING: Duration = Duration::from_secs(4);

/// A turn that takes longer is logged.
const SLOW_TURN: Duration = Duration::from_millis(500);

/// The maximum number of messages in one turn, in addition to the first one.
const MESSAGES_A_TURN: usize = 63;

/// The settings of the loop.
#[derive(Debug)]
pub struct Settings {
    /// What the start found.
    pub started: Started,
    /// The client's name on the bus, such as `mesh-vault J9Q…`.
    pub client: String,
    /// The path of the status file.
    pub status_file: Option<PathBuf>,
}

/// Runs the machine until it is stopped. `perform` carries out its tasks, and returns what came of them at once. `own`
/// brings events from elsewhere, such as a thread that waits for a socket.
pub fn serve<M: Machine>(
    machine: M,
    settings: Settings,
    own: Receiver<M::Own>,
    perform: impl FnMut(M::Task) -> Vec<M::Own>,
) -> Exit {
    let Settings { started: Started { connection, signals, notify }, client, status_file } = settings;
    let start = Instant::now();
    let mut shell = Shell {
        machine,
        perform,
        start,
        signals,
        own,
        links: Links::new(connection, client),
        status_file: status_file.map(StatusFile::new),
        status_due: start,
        notify,
        beat_due: start,
        told_ready: false,
        was_ready: false,
        draining: None,
        exit: None,
    };
    let mut wake = Wake::Time;
    loop {
        let turn = Instant::now();
        let name = wake.describe();
        if let ControlFlow::Break(exit) = shell.turn(wake) {
            let last = shell.machine.ended(shell.start.elapsed(), exit);
            shell.write_status(last);
            return exit;
        }
        if turn.elapsed() > SLOW_TURN {
            warn!("slow: {name} took {} ms", turn.elapsed().as_millis());
        }
        wake = shell.wait();
    }
}

/// What woke the loop.
enum Wake<Own> {
    Signal(Signal),
    Own(Own),
    Link(LinkEvent),
    Attempt(LinkEvent),
    ServerError(String),
    Reply(Reply),
    Request(Message, Source),
    /// No more messages arrive from this source.
    NoMore(Source),
    Time,
}

/// Where the loop waits for something to come.
#[derive(Debug, Clone, Copy)]
enum Source {
    Signals,
    Own,
    Attempt,
    Link,
    ServerErrors,
    Replies,
    /// The position of a subscription.
    Requests(usize),
    /// The position in [`Links::leaving`].
    Leaving(usize),
}

impl<Own> Wake<Own> {
    /// For the log line about a slow turn.
    const fn describe(&self) -> &'static str {
        match self {
            Wake::Signal(_) => "a signal",
            Wake::Own(_) => "an event of its own",
            Wake::Link(_) | Wake::Attempt(_) | Wake::ServerError(_) | Wake::NoMore(_) => {
                "a change of the connection"
            }
            Wake::Reply(_) => "a reply",
            Wake::Request(..) => "a request",
            Wake::Time => "a deadline",
        }
    }
}

struct Shell<M: Machine, Perform> {
    machine: M,
    perform: Perform,
    start: Instant,
    signals: Receiver<Signal>,
    own: Receiver<M::Own>,
    links: Links,
    status_file: Option<StatusFile>,
    status_due: Instant,
    notify: Notify,
    beat_due: Instant,
    told_ready: bool,
    /// Whether the machine was ready when its status was last reported.
    was_ready: bool,
    /// Until when requests that arrived before the subscriptions were given up are waited for.
    draining: Option<Instant>,
    /// The exit that the machine asked for, until those have been taken.
    exit: Option<Exit>,
}

impl<M: Machine, Perform: FnMut(M::Task) -> Vec<M::Own>> Shell<M, Perform> {
    /// Waits for the next event.
    fn wait(&mut self) -> Wake<M::Own> {
        let tick = self.beat_due.min(Instant::now() + TICK);
        let tick = self.draining.filter(|_| self.exit.is_some()).map_or(tick, |end| tick.min(end));
        let deadline = match self.machine.next_deadline() {
            Some(due) => tick.min(self.start + due),
            None => tick,
        };
        let mut select = Select::new();
        let mut sources = vec![Source::Signals, Source::Own];
        select.recv(&self.signals);
        select.recv(&self.own);
        if let Some(link) = &self.links.attempt {
            select.recv(link.life());
            sources.push(Source::Attempt);
        }
        if let Some(Serving { link, replies, requests, .. }) = &self.links.serving {
            select.recv(link.life());
            select.recv(link.server_errors());
            select.recv(replies);
            sources.extend([Source::Link, Source::ServerErrors, Source::Replies]);
            for (place, requests) in requests.iter().enumerate() {
                select.recv(requests);
                sources.push(Source::Requests(place));
            }
        }
        for (place, leaving) in self.links.leaving.iter().enumerate() {
            select.recv(&leaving.requests);
            sources.push(Source::Leaving(place));
        }
        match select.ready_deadline(deadline) {
            Ok(index) => self.take(sources[index]),
            Err(_) => Wake::Time,
        }
    }

    /// Takes what came from a source that is ready.
    fn take(&mut self, source: Source) -> Wake<M::Own> {
        let links = &self.links;
        let serving = links.serving.as_ref();
        match source {
            Source::Signals => self.signals.try_recv().map_or(Wake::Time, Wake::Signal),
            Source::Own => match self.own.try_recv() {
                Ok(event) => Wake::Own(event),
                Err(error) => {
                    // A channel without a sender would be ready forever.
                    if error == TryRecvError::Disconnected {
                        self.own = never();
                    }
                    Wake::Time
                }
            },
            Source::Attempt => match links.attempt.as_ref().map(|link| link.life().try_recv()) {
                Some(Ok(event)) => Wake::Attempt(event),
                Some(Err(TryRecvError::Disconnected)) => Wake::Attempt(thread_ended()),
                _ => Wake::Time,
            },
            Source::Link => match serving.map(|serving| serving.link.life().try_recv()) {
                Some(Ok(event)) => Wake::Link(event),
                Some(Err(TryRecvError::Disconnected)) => Wake::Link(thread_ended()),
                _ => Wake::Time,
            },
            Source::ServerErrors => {
                let words = serving.and_then(|serving| serving.link.server_errors().try_recv().ok());
                words.map_or(Wake::Time, Wake::ServerError)
            }
            Source::Replies => match serving.map(|serving| serving.replies.try_recv()) {
                Some(Ok(reply)) => Wake::Reply(reply),
                Some(Err(TryRecvError::Disconnected)) => Wake::Link(thread_ended()),
                _ => Wake::Time,
            },
            Source::Requests(_) | Source::Leaving(_) => match self.requests(source).map(Receiver::try_recv) {
                Some(Ok(message)) => Wake::Request(message, source),
                Some(Err(TryRecvError::Disconnected)) => Wake::NoMore(source),
                _ => Wake::Time,
            },
        }
    }

    /// The receiver of a source that brings requests.
    fn requests(&self, source: Source) -> Option<&Receiver<Message>> {
        match source {
            Source::Requests(place) => self.links.serving.as_ref()?.requests.get(place),
            Source::Leaving(place) => self.links.leaving.get(place).map(|leaving| &leaving.requests),
            _ => None,
        }
    }

    /// Takes one turn; breaks with the exit code if it was the last.
    fn turn(&mut self, wake: Wake<M::Own>) -> ControlFlow<Exit> {
        match wake {
            Wake::Signal(Signal::StopNow) => return ControlFlow::Break(Exit::Interrupted),
            Wake::Signal(Signal::Stop) => {
                self.notify.stopping();
                self.handle(Event::Stop)?;
            }
            Wake::Signal(Signal::Reload) => self.handle(Event::Reload)?,
            Wake::Own(event) => self.handle(Event::Own(event))?,
            Wake::ServerError(words) => self.handle(Event::ServerError(words))?,
            Wake::Attempt(event) => self.attempt_became(event)?,
            Wake::Link(event) => self.link_became(event)?,
            Wake::Reply(reply) => {
                self.reply(reply)?;
                self.more_replies()?;
            }
            Wake::Request(message, source) => {
                let place = self.place(source);
                self.request(place, message)?;
                self.more_requests(source, place)?;
            }
            Wake::NoMore(Source::Leaving(place)) => {
                self.links.leaving.remove(place);
                self.exit_if_drained()?;
            }
            Wake::NoMore(Source::Requests(place)) => {
                self.links.forget(place);
                self.exit_if_drained()?;
            }
            Wake::NoMore(_) => {}
            Wake::Time => self.handle(Event::Due)?,
        }
        self.keep_house()
    }

    /// The subscription that a source belongs to.
    fn place(&self, source: Source) -> usize {
        match source {
            Source::Requests(place) => place,
            Source::Leaving(place) => self.links.leaving.get(place).map_or(0, |leaving| leaving.place),
            _ => 0,
        }
    }

    /// Passes an event to the machine and carries out its actions, and then what came of those.
    fn handle(&mut self, event: Event<M::Own>) -> ControlFlow<Exit> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut lost = 0;
            for action in self.machine.handle(event, self.start.elapsed()) {
                match action {
                    Action::Connect => events.extend(self.connect()),
                    Action::Send(message) => lost += u64::from(!self.links.send(message)),
                    Action::StopListening => {
                        self.links
                            .leaving
                            .iter()
                            .filter_map(|leaving| leaving.aside.as_ref())
                            .for_each(Aside::stop_listening);
                        if let Some(Serving { link, .. }) = &self.links.serving {
                            link.stop_listening();
                            self.draining.get_or_insert(Instant::now() + DRAINING);
                        }
                    }
                    Action::Say(level, text) => log!(target: self.machine.log_target(), level, "{text}"),
                    Action::Exit(exit) => self.exit = Some(exit),
                    Action::Do(task) => events.extend((self.perform)(task).into_iter().map(Event::Own)),
                }
            }
            if lost > 0 {
                events.push_back(Event::Undelivered(lost));
            }
        }
        self.exit_if_drained()
    }

    /// Carries out the exit that the machine asked for, once every request that had arrived was passed to it.
    fn exit_if_drained(&mut self) -> ControlFlow<Exit> {
        let Some(exit) = self.exit else { return ControlFlow::Continue(()) };
        let is_open = self.links.serving.as_ref().is_some_and(|serving| serving.open > 0)
            || self.links.leaving.iter().any(|leaving| leaving.aside.is_some());
        let waits = is_open && self.draining.is_some_and(|end| Instant::now() < end);
        if waits {
            return ControlFlow::Continue(());
        }
        if let Some(Serving { link, .. }) = self.links.serving.take() {
            link.close(LAST_WORDS);
        }
        ControlFlow::Break(exit)
    }

    fn connect(&mut self) -> Option<Event<M::Own>> {
        let machine = &self.machine;
        let attempt = self.links.connect(machine.inbox(), machine.deliveries(), machine.subscriptions());
        attempt.err().map(|error| Event::Down { why: format!("cannot start a thread: {error}") })
    }

    fn attempt_became(&mut self, event: LinkEvent) -> ControlFlow<Exit> {
        match event {
            LinkEvent::Up(Connected { server, max_payload, cluster, replies, messages }) => {
                let early = std::mem::take(&mut self.links.early);
                self.links.learn(cluster);
                early.cluster.into_iter().for_each(|later| self.links.learn(later));
                self.take_untaken()?;
                self.links.attempt_is_up(replies, messages);
                self.handle(Event::Up { server, max_payload })?;
                self.status_due = Instant::now();
                // The server has reported by now which subscriptions it denies.
                while let Some(words) = self
                    .links
                    .serving
                    .as_ref()
                    .and_then(|serving| serving.link.server_errors().try_recv().ok())
                {
                    self.handle(Event::ServerError(words))?;
                }
                let lost = self.links.send_held();
                if lost > 0 {
                    self.handle(Event::Undelivered(lost))?;
                }
                if early.is_lame { self.handle(Event::LameDuck) } else { ControlFlow::Continue(()) }
            }
            LinkEvent::Down(why) => {
                self.links.attempt = None;
                if self.links.serving.is_some() {
                    return ControlFlow::Continue(());
                }
                self.handle(Event::Down { why })
            }
            LinkEvent::LameDuck => {
                self.links.early.is_lame = true;
                ControlFlow::Continue(())
            }
            LinkEvent::Cluster(cluster) => {
                if !cluster.servers.is_empty() {
                    self.links.early.cluster = Some(cluster);
                }
                ControlFlow::Continue(())
            }
            LinkEvent::Report(words) => {
                warn!("{words}");
                ControlFlow::Continue(())
            }
            // The connection has the present one when it is up.
            LinkEvent::MaxPayload(_) => ControlFlow::Continue(()),
        }
    }

    fn link_became(&mut self, event: LinkEvent) -> ControlFlow<Exit> {
        match event {
            LinkEvent::Up(_) => ControlFlow::Continue(()),
            LinkEvent::MaxPayload(bytes) => self.handle(Event::MaxPayload(bytes)),
            LinkEvent::LameDuck => self.handle(Event::LameDuck),
            LinkEvent::Cluster(cluster) => {
                self.links.learn(cluster);
                ControlFlow::Continue(())
            }
            LinkEvent::Report(words) => {
                warn!("{words}");
                ControlFlow::Continue(())
            }
            LinkEvent::Down(why) => {
                self.take_untaken()?;
                self.links.retire();
                self.status_due = Instant::now();
                self.handle(Event::Down { why })
            }
        }
    }

    /// Takes the requests that have arrived on the connection that serves, before it is replaced.
    fn take_untaken(&mut self) -> ControlFlow<Exit> {
        let Some(Serving { requests, .. }) = &self.links.serving else { return ControlFlow::Continue(()) };
        let untaken = requests.iter().enumerate();
        let untaken: Vec<(usize, Message)> = untaken
            .flat_map(|(place, requests)| requests.try_iter().map(move |message| (place, message)))
            .collect();
        for (place, message) in untaken {
            self.request(place, message)?;
        }
        ControlFlow::Continue(())
    }

    fn request(&mut self, place: usize, message: Message) -> ControlFlow<Exit> {
        let Incoming { subject, reply, body, .. } = Incoming::from(message);
        self.handle(Event::Request { place, subject, reply, body })
    }

    fn reply(&mut self, reply: Reply) -> ControlFlow<Exit> {
        let Reply { subject, delivery, error, no_responders, part, body, .. } = reply;
        if let Some(delivery) = delivery {
            return self.handle(Event::Delivery(delivery));
        }
        let Some(call) = subject.rsplit('.').next().and_then(|number| number.parse().ok()) else {
            return ControlFlow::Continue(());
        };
        self.handle(match part {
            Some(part) => Event::Part { call, part },
            None => Event::Reply { call, no_responders, error, body },
        })
    }

    /// Takes more of the requests that have arrived: there may be thousands, and a select for each costs more than
    /// most of them. It does not take all, so that other events do not wait.
    fn more_requests(&mut self, source: Source, place: usize) -> ControlFlow<Exit> {
        for _ in 0..MESSAGES_A_TURN {
            let next = self.requests(source).and_then(|requests| requests.try_recv().ok());
            let Some(message) = next else { break };
            self.request(place, message)?;
        }
        ControlFlow::Continue(())
    }

    /// The same for replies.
    fn more_replies(&mut self) -> ControlFlow<Exit> {
        for _ in 0..MESSAGES_A_TURN {
            let next = self.links.serving.as_ref().and_then(|serving| serving.replies.try_recv().ok());
            let Some(reply) = next else { break };
            self.reply(reply)?;
        }
        ControlFlow::Continue(())
    }

    /// The periodic work.
    fn keep_house(&mut self) -> ControlFlow<Exit> {
        if is_library_stuck() {
            error!("the connection is stuck: exiting, so that the supervisor restarts the program");
            return ControlFlow::Break(Exit::Stuck);
        }
        if let Some(attempt) = self.links.attempt.as_ref().filter(|attempt| attempt.is_dead()) {
            let why = format!("no answer in time: gave up {}", attempt.doing());
            self.attempt_became(LinkEvent::Down(why))?;
        }
        if let Some(Serving { link, .. }) =
            self.links.serving.as_ref().filter(|serving| serving.link.is_dead())
        {
            let why = format!("no answer in time: gave up {}, connection considered dead", link.doing());
            self.link_became(LinkEvent::Down(why))?;
        }
        if let Some(Serving { link, .. }) = &self.links.serving {
            let (overrun, unsent) = (link.take_overrun(), link.take_unsent());
            if overrun > 0 {
                self.handle(Event::Overrun(overrun))?;
            }
            if unsent > 0 {
                self.handle(Event::Undelivered(unsent))?;
            }
        }
        let now = Instant::now();
        if !self.told_ready && self.machine.is_serving() {
            self.told_ready = self.notify.ready();
        }
        let is_ready = self.machine.is_ready(self.start.elapsed());
        if now >= self.status_due || is_ready != self.was_ready {
            self.was_ready = is_ready;
            self.status_due = now + STATUS_EVERY;
            self.notify.status(&self.machine.status_line(self.start.elapsed()));
            let status = self.machine.status(self.start.elapsed());
            self.write_status(status);
        }
        if now >= self.beat_due {
            let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.handle(Event::Clock(since_1970))?;
            self.beat_due = now + self.notify.watchdog_interval().unwrap_or(TICK);
            self.notify.watchdog();
        }
        ControlFlow::Continue(())
    }

    fn write_status(&mut self, status: M::Status) {
        let Some(file) = &mut self.status_file else { return };
        let status = Status { at: rfc3339(SystemTime::now()), pid: std::process::id(), machine: status };
        let json = serde_json::to_string(&status).expect("a status is text and numbers");
        if let Some(line) = file.write(&json, Instant::now()) {
            warn!("{line}");
        }
    }
}

/// The contents of the status file.
#[derive(Serialize)]
struct Status<S> {
    at: String,
    pid: u32,
    #[serde(flatten)]
    machine: S,
}

/// The event of a link whose thread ended without one.
fn thread_ended() -> LinkEvent {
    LinkEvent::Down("the connection's thread has ended".to_owned())
}
