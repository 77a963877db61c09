//! The loop around the seat: waits for the next event, passes it to the seat, and carries out the actions.
//!
//! One thread, one select. Nothing here waits for the server: the link's own thread does.

use crate::seat::{self, Action, Event, Seat};
use ::log::{error, log, warn};
use crossbeam_channel::{Receiver, Select, never};
use mesh_bus::config::BusConfig;
use mesh_bus::config::address::Address;
use mesh_bus::gate::Cluster;
use mesh_bus::message::{Incoming, Reply};
use mesh_bus::nats::{Connected, Inbox, Link, LinkEvent, Message, Subscribe, is_library_stuck};
use mesh_daemon::exit::Exit;
use mesh_daemon::notify::Notify;
use mesh_daemon::signals::Signal;
use mesh_daemon::status::StatusFile;
use mesh_daemon::time::rfc3339;
use mesh_jetstream::message::Outgoing;
use mesh_model::provisioner::{QUEUE, SERVICE};
use mesh_service::identity::Identity;
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The longest time between two turns: to check whether the library is stuck, and to notify the watchdog.
const TICK: Duration = Duration::from_secs(5);

/// How often the status file is written.
const STATUS_EVERY: Duration = Duration::from_secs(15);

/// How long the last messages may take to leave when the process exits.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A turn that takes longer is logged.
const SLOW_TURN: Duration = Duration::from_millis(500);

/// How many requests may wait for the loop: as many as the seat accepts, and as many again, which get the response
/// that it is full. A turn takes microseconds; requests that wait for JetStream wait in the seat.
const MAX_UNTAKEN_REQUESTS: usize = 2048;

/// How many answers of the bus may wait for the loop: what the batches of three buckets may bring, and as many that came
/// late.
const MAX_UNTAKEN_ANSWERS: usize = 48 * 1024;

/// The maximum number of messages in one turn, in addition to the first one.
const MESSAGES_A_TURN: usize = 63;

/// How many monitoring requests may wait for the loop, on each subject.
const MAX_UNTAKEN_MONITORING: usize = 64;

/// How long a replaced connection may still deliver requests. A nats-server in lame duck mode closes its connections
/// within 130 s by default.
const STEPPING_ASIDE: Duration = Duration::from_secs(180);

/// How many responses are kept for the next connection.
const MAX_HELD: usize = 1024;

/// The place of the verb among the subscriptions beside the inbox.
const VERB_PLACE: usize = 0;

/// How many servers of the cluster are remembered, and how many that could not be read.
const MAX_SERVERS: usize = 64;

/// The settings of the loop.
#[derive(Debug)]
pub struct Settings {
    /// How to connect.
    pub connection: BusConfig,
    /// The settings of the seat.
    pub seat: seat::Settings,
    /// The path of the status file.
    pub status_file: Option<PathBuf>,
    /// Signals as messages.
    pub signals: Receiver<Signal>,
    /// The service manager.
    pub notify: Notify,
}

/// The state of the loop.
struct Shell {
    seat: Seat,
    identity: Identity,
    start: Instant,
    connection: Arc<BusConfig>,
    signals: Receiver<Signal>,
    /// The connection that serves.
    link: Option<Serving>,
    /// The one that is being made.
    attempt: Option<Link>,
    /// Requests that replaced connections still deliver. Each ends when its connection is closed.
    leaving: Vec<Receiver<Message>>,
    /// All known servers: those configured, then those that the cluster reported.
    servers: Vec<Address>,
    /// What the cluster told of that is no address.
    odd_servers: Vec<String>,
    attempts: usize,
    /// Responses that were finished without a connection.
    held: VecDeque<Outgoing>,
    status_file: Option<StatusFile>,
    status_due: Instant,
    notify: Notify,
    beat_due: Instant,
    told_ready: bool,
    /// Whether the seat was ready when its status was last reported.
    was_ready: bool,
}

/// A connection that serves, and what it brings.
struct Serving {
    link: Link,
    replies: Receiver<Reply>,
    /// In the order of [`Shell::subscriptions`].
    messages: Vec<Receiver<Message>>,
}

/// What woke the loop.
#[derive(Debug)]
enum Wake {
    Signal(Signal),
    Link(LinkEvent),
    Attempt(LinkEvent),
    Protest(String),
    Reply(Reply),
    Message {
        message: Message,
        /// The position in [`Shell::messages`] that it came from.
        place: usize,
    },
    /// No more messages arrive from this position in [`Shell::messages`].
    NoMore(usize),
    Time,
}

/// Runs the seat until it is stopped.
pub fn serve(settings: Settings) -> Exit {
    let start = Instant::now();
    let Settings { connection, seat, status_file, signals, notify } = settings;
    let servers = connection.servers.clone();
    let mut shell = Shell {
        identity: seat.identity.clone(),
        seat: Seat::new(seat),
        start,
        connection: Arc::new(connection),
        signals,
        link: None,
        attempt: None,
        leaving: Vec::new(),
        servers,
        odd_servers: Vec::new(),
        attempts: 0,
        held: VecDeque::new(),
        status_file: status_file.map(StatusFile::new),
        status_due: start,
        notify,
        beat_due: start,
        told_ready: false,
        was_ready: false,
    };
    let mut wake = Wake::Time;
    loop {
        let turn = Instant::now();
        let name = describe(&wake);
        if let ControlFlow::Break(exit) = shell.turn(wake) {
            shell.leave_status(exit);
            return exit;
        }
        if turn.elapsed() > SLOW_TURN {
            warn!("slow: {name} took {} ms", turn.elapsed().as_millis());
        }
        wake = shell.wait();
    }
}

/// What woke the loop, for the log line about a slow turn.
fn describe(wake: &Wake) -> &'static str {
    match wake {
        Wake::Signal(_) => "a signal",
        Wake::Link(_) | Wake::Attempt(_) | Wake::Protest(_) | Wake::NoMore(_) => "a change of the connection",
        Wake::Reply(_) => "a reply",
        Wake::Message { .. } => "a request",
        Wake::Time => "a deadline",
    }
}

impl Shell {
    /// Waits for the next event.
    fn wait(&self) -> Wake {
        let tick = self.beat_due.min(Instant::now() + TICK);
        let deadline = match self.seat.next_deadline() {
            Some(due) => tick.min(self.start + due),
            None => tick,
        };
        let mut select = Select::new();
        let signals = select.recv(&self.signals);
        let attempt = self.attempt.as_ref().map(|link| (select.recv(link.life()), link.life()));
        let serving = self.link.as_ref().map(|Serving { link, replies, .. }| {
            let places = [select.recv(link.life()), select.recv(link.server_errors()), select.recv(replies)];
            (places, link, replies)
        });
        let messages: Vec<_> = self.messages().map(|messages| (select.recv(messages), messages)).collect();
        let Ok(ready) = select.select_deadline(deadline) else { return Wake::Time };
        let index = ready.index();
        if index == signals {
            return ready.recv(&self.signals).map_or(Wake::Time, Wake::Signal);
        }
        if let Some((_, life)) = attempt.filter(|(at, _)| *at == index) {
            return Wake::Attempt(ready.recv(life).unwrap_or_else(ended));
        }
        if let Some(([at_life, at_server_errors, at_replies], link, replies)) = serving {
            if index == at_life {
                return Wake::Link(ready.recv(link.life()).unwrap_or_else(ended));
            }
            if index == at_server_errors {
                return ready.recv(link.server_errors()).map_or(Wake::Time, Wake::Protest);
            }
            if index == at_replies {
                return ready.recv(replies).map_or_else(|error| Wake::Link(ended(error)), Wake::Reply);
            }
        }
        let Some(place) = messages.iter().position(|(at, _)| *at == index) else { return Wake::Time };
        match ready.recv(messages[place].1) {
            Ok(message) => Wake::Message { message, place },
            Err(_) => Wake::NoMore(place),
        }
    }

    /// What brings messages: the connection that serves, then those that serve no more.
    fn messages(&self) -> impl Iterator<Item = &Receiver<Message>> {
        self.link.iter().flat_map(|serving| &serving.messages).chain(&self.leaving)
    }

    /// A subscription ended. Its receiver would be ready forever, and the loop would do nothing else.
    fn forget(&mut self, place: usize) {
        let serving = self.link.as_mut().map_or(&mut [][..], |serving| &mut serving.messages);
        match place.checked_sub(serving.len()) {
            None => serving[place] = never(),
            Some(place) => drop(self.leaving.remove(place)),
        }
    }

    /// Takes one turn; breaks with the exit code if it was the last.
    fn turn(&mut self, wake: Wake) -> ControlFlow<Exit> {
        match wake {
            Wake::Signal(Signal::StopNow) => return ControlFlow::Break(Exit::Interrupted),
            Wake::Signal(Signal::Stop) => {
                self.notify.stopping();
                self.handle(Event::Stop)?;
            }
            Wake::Signal(Signal::Reload) => self.handle(Event::Reload)?,
            Wake::Protest(words) => self.handle(Event::ServerError(words))?,
            Wake::Attempt(life) => self.attempt_became(life)?,
            Wake::Link(life) => self.link_became(life)?,
            Wake::Reply(reply) => {
                self.reply(reply)?;
                self.more_replies()?;
            }
            Wake::Message { message, place } => {
                self.message(message)?;
                self.more_messages(place)?;
            }
            Wake::NoMore(place) => self.forget(place),
            Wake::Time => self.handle(Event::Due)?,
        }
        self.keep_house()
    }

    fn handle(&mut self, event: Event) -> ControlFlow<Exit> {
        let actions = self.seat.handle(event, self.start.elapsed());
        let mut lost = 0;
        for action in actions {
            match action {
                Action::Connect => self.connect()?,
                Action::Send(message) => lost += u64::from(!self.send(message)),
                Action::StopListening => {
                    if let Some(Serving { link, .. }) = &self.link {
                        link.stop_listening();
                    }
                }
                Action::Say(level, text) => log!(level, "{text}"),
                Action::Exit => {
                    if let Some(Serving { link, .. }) = self.link.take() {
                        link.close(LAST_WORDS);
                    }
                    return ControlFlow::Break(Exit::Done);
                }
            }
        }
        if lost > 0 { self.handle(Event::Undelivered(lost)) } else { ControlFlow::Continue(()) }
    }

    /// Passes a message to the connection; `false` if it is dropped. Without a connection a response is kept for the
    /// next one, because the client may still wait for it; our own calls are sent again anyway.
    fn send(&mut self, message: Outgoing) -> bool {
        match &self.link {
            Some(Serving { link, .. }) => link.publish(message),
            None if message.reply.is_none() && self.held.len() < MAX_HELD => {
                self.held.push_back(message);
                true
            }
            None => false,
        }
    }

    fn connect(&mut self) -> ControlFlow<Exit> {
        if self.attempt.is_some() {
            return ControlFlow::Continue(());
        }
        // Each attempt starts with another server, so that one that always fails late does not block the others.
        self.attempts += 1;
        let client = format!("{SERVICE} {}", self.identity.id);
        let inbox = Inbox { prefix: self.seat.inbox(), limit: MAX_UNTAKEN_ANSWERS, deliveries: 0 };
        let (settings, servers) = (Arc::clone(&self.connection), self.rotated());
        match Link::open(settings, servers, client, Some(inbox), self.subscriptions()) {
            Ok(link) => {
                self.attempt = Some(link);
                ControlFlow::Continue(())
            }
            Err(error) => self.handle(Event::Down { why: format!("cannot start a thread: {error}") }),
        }
    }

    /// All servers, starting with another one for each attempt of the service connection.
    fn rotated(&self) -> Vec<Address> {
        let mut servers = self.servers.clone();
        servers.rotate_left(self.attempts.saturating_sub(1) % self.servers.len());
        servers
    }

    /// All but the inbox: the verb at [`VERB_PLACE`], then monitoring.
    fn subscriptions(&self) -> Vec<Subscribe> {
        let subscribe = |(place, subject): (usize, String)| Subscribe {
            subject,
            queue: (place == VERB_PLACE).then_some(QUEUE),
            limit: if place == VERB_PLACE { MAX_UNTAKEN_REQUESTS } else { MAX_UNTAKEN_MONITORING },
            listens: true,
        };
        self.seat.subscriptions().into_iter().skip(1).enumerate().map(subscribe).collect()
    }

    fn attempt_became(&mut self, life: LinkEvent) -> ControlFlow<Exit> {
        match life {
            LinkEvent::Up(up) => {
                let Some(link) = self.attempt.take() else { return ControlFlow::Continue(()) };
                let Connected { server, max_payload, cluster, replies, messages } = up;
                self.learn(cluster);
                // A server that is about to shut down sends requests over the old connection until it closes it.
                if let Some(old) = self.retire()? {
                    old.step_aside(STEPPING_ASIDE);
                }
                self.link = Some(Serving { link, replies, messages });
                self.handle(Event::Up { server, max_payload })?;
                // The server has reported by now which subscriptions it denies.
                while let Some(words) =
                    self.link.as_ref().and_then(|serving| serving.link.server_errors().try_recv().ok())
                {
                    self.handle(Event::ServerError(words))?;
                }
                let held = std::mem::take(&mut self.held);
                let lost = held.into_iter().filter_map(|message| (!self.send(message)).then_some(1)).sum();
                if lost > 0 { self.handle(Event::Undelivered(lost)) } else { ControlFlow::Continue(()) }
            }
            LinkEvent::Down(why) => {
                self.attempt = None;
                if self.link.is_some() {
                    return ControlFlow::Continue(());
                }
                self.handle(Event::Down { why })
            }
            LinkEvent::MaxPayload(_) | LinkEvent::LameDuck | LinkEvent::Cluster(_) | LinkEvent::Report(_) => {
                ControlFlow::Continue(())
            }
        }
    }

    /// Notes the other servers of the cluster. One that cannot be read is reported once.
    fn learn(&mut self, cluster: Cluster) {
        for address in cluster.servers {
            let is_known = |known: &Address| known.host == address.host && known.port == address.port;
            if !self.servers.iter().any(is_known) && self.servers.len() < MAX_SERVERS {
                self.servers.push(address);
            }
        }
        for odd in cluster.odd {
            if !self.odd_servers.contains(&odd) && self.odd_servers.len() < MAX_SERVERS {
                warn!("the server names another one that cannot be used: {odd}");
                self.odd_servers.push(odd);
            }
        }
    }

    fn link_became(&mut self, life: LinkEvent) -> ControlFlow<Exit> {
        match life {
            LinkEvent::Up(_) => ControlFlow::Continue(()),
            LinkEvent::MaxPayload(bytes) => self.handle(Event::MaxPayload(bytes)),
            LinkEvent::LameDuck => self.handle(Event::LameDuck),
            LinkEvent::Cluster(cluster) => {
                self.learn(cluster);
                ControlFlow::Continue(())
            }
            LinkEvent::Report(words) => {
                warn!("{words}");
                ControlFlow::Continue(())
            }
            LinkEvent::Down(why) => self.link_ended(why),
        }
    }

    fn link_ended(&mut self, why: String) -> ControlFlow<Exit> {
        self.retire()?;
        self.handle(Event::Down { why })
    }

    /// Replaces the connection that serves: takes the messages that have arrived on it, and later the requests that
    /// it still delivers, until it ends.
    fn retire(&mut self) -> ControlFlow<Exit, Option<Link>> {
        let Some(Serving { messages, .. }) = &self.link else { return ControlFlow::Continue(None) };
        let untaken: Vec<Message> = messages.iter().flat_map(Receiver::try_iter).collect();
        for message in untaken {
            self.message(message)?;
        }
        let Some(Serving { link, messages, .. }) = self.link.take() else {
            return ControlFlow::Continue(None);
        };
        self.leaving.extend(messages.into_iter().nth(VERB_PLACE));
        ControlFlow::Continue(Some(link))
    }

    fn message(&mut self, message: Message) -> ControlFlow<Exit> {
        let Incoming { subject, reply, body, .. } = Incoming::from(message);
        self.handle(Event::Request { subject, reply, body })
    }

    fn reply(&mut self, reply: Reply) -> ControlFlow<Exit> {
        let Reply { subject, no_responders, part, body, .. } = reply;
        let Some(call) = subject.rsplit('.').next().and_then(|number| number.parse().ok()) else {
            return ControlFlow::Continue(());
        };
        self.handle(match part {
            Some(part) => Event::Part { call, part },
            None => Event::Reply { call, no_responders, body },
        })
    }

    /// Takes more of the messages that have arrived: there may be thousands, and a select for each costs more than
    /// most of them. It does not take all, so that other events do not wait.
    fn more_messages(&mut self, place: usize) -> ControlFlow<Exit> {
        for _ in 0..MESSAGES_A_TURN {
            let next = self.messages().nth(place).and_then(|messages| messages.try_recv().ok());
            let Some(message) = next else { break };
            self.message(message)?;
        }
        ControlFlow::Continue(())
    }

    /// The same for replies.
    fn more_replies(&mut self) -> ControlFlow<Exit> {
        for _ in 0..MESSAGES_A_TURN {
            let next = self.link.as_ref().and_then(|serving| serving.replies.try_recv().ok());
            let Some(reply) = next else { break };
            self.reply(reply)?;
        }
        ControlFlow::Continue(())
    }

    /// The periodic work.
    fn keep_house(&mut self) -> ControlFlow<Exit> {
        if is_library_stuck() {
            error!("the connection is stuck: exiting, so that the supervisor restarts the seat");
            return ControlFlow::Break(Exit::Stuck);
        }
        if let Some(attempt) = self.attempt.as_ref().filter(|attempt| attempt.is_dead()) {
            let why = format!("no answer in time: gave up {}", attempt.doing());
            self.attempt_became(LinkEvent::Down(why))?;
        }
        if let Some(Serving { link, .. }) = self.link.as_ref().filter(|serving| serving.link.is_dead()) {
            let why = format!("no answer in time: gave up {}, connection considered dead", link.doing());
            self.link_ended(why)?;
        }
        if let Some(Serving { link, .. }) = &self.link {
            let (overrun, unsent) = (link.take_overrun(), link.take_unsent());
            if overrun > 0 {
                self.handle(Event::Overrun(overrun))?;
            }
            if unsent > 0 {
                self.handle(Event::Undelivered(unsent))?;
            }
        }
        let now = Instant::now();
        if !self.told_ready && self.seat.is_serving() {
            self.told_ready = self.notify.ready();
        }
        let is_ready = self.seat.is_ready(self.start.elapsed());
        if now >= self.status_due || is_ready != self.was_ready {
            self.was_ready = is_ready;
            self.status_due = now + STATUS_EVERY;
            self.say_status();
        }
        if now >= self.beat_due {
            let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.handle(Event::Clock(since_1970))?;
            self.beat_due = now + self.notify.watchdog_interval().unwrap_or(TICK);
            self.notify.watchdog();
        }
        ControlFlow::Continue(())
    }

    fn say_status(&mut self) {
        let health = self.seat.health(self.start.elapsed());
        self.notify.status(&match (&health.server, health.missing.first()) {
            (_, Some(missing)) => missing.clone(),
            (server, None) => format!("serving on {}", server.as_deref().unwrap_or("the bus")),
        });
        self.write_status(health);
    }

    /// The last word in the status file: nobody is to take a seat that has ended for one that serves.
    fn leave_status(&mut self, exit: Exit) {
        let mut health = self.seat.health(self.start.elapsed());
        health.live = false;
        health.ready = false;
        health.missing = vec![format!("the seat has ended with exit code {}", exit.code())];
        self.write_status(health);
    }

    fn write_status(&mut self, health: seat::Health) {
        let Some(file) = &mut self.status_file else { return };
        let status =
            Status { at: rfc3339(SystemTime::now()), pid: std::process::id(), seat: &self.identity, health };
        let json = serde_json::to_string(&status).expect("a status is text and numbers");
        if let Some(line) = file.write(&json, Instant::now()) {
            warn!("{line}");
        }
    }
}

/// The contents of the status file.
#[derive(Serialize)]
struct Status<'a> {
    at: String,
    pid: u32,
    seat: &'a Identity,
    #[serde(flatten)]
    health: seat::Health,
}

/// A link whose thread ended without an event.
fn ended<E>(_: E) -> LinkEvent {
    LinkEvent::Down("the connection's thread has ended".to_owned())
}
