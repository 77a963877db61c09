//! The only file that knows the `nats` crate.
//!
//! A [`Link`] is one connection for its whole life: it is made, it serves, it ends, and then another one is made.
//! The crate's own way of coming back is not used, because it tells nobody why it fails, keeps the credentials and
//! certificates of the first time, and waits without limit for a server that says nothing.
//!
//! A thread of its own holds the connection, since the crate blocks: `publish` when the socket is full, `flush`
//! until the server answers. It flushes after every batch, for the crate itself would wait 5 ms. What it blocks in
//! is watched ([`Link::is_dead`]): whoever owns the link drops it then and makes another, and the thread ends when
//! the crate lets go of it, at the latest some minutes later by its own pings. Only when it does not let go of many
//! ([`is_library_stuck`]) the answer is the process's end (exit code 75).

#![expect(
    deprecated,
    reason = "upstream deprecates the whole synchronous client; it is the one this design needs"
)]

use crate::config::address::Address;
use crate::config::{Auth, BusConfig, nkey_seed};
use crate::connect_error::{explain, look_at};
use crate::probe::probe;
use crate::stall::StallDetector;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use mesh_jetstream::direct_get::{self, Header, Part};
use mesh_jetstream::message::{Body, MAX_LINE_BYTES, Outgoing};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A message as the crate delivers it, for [`Incoming::from`].
pub type Message = ::nats::Message;

/// How long a server may take to say who it is.
const GREETING: Duration = Duration::from_secs(3);

/// How long a server that has greeted us may take to let us in before the attempt counts as dead.
const CONNECTING: Duration = Duration::from_secs(20);

/// How long a write and its flush may take before the link counts as dead without a close.
const FLUSHING: Duration = Duration::from_secs(30);

/// A connection on which nothing is sent is tried this often.
const IDLE: Duration = Duration::from_secs(15);

/// How many messages are published before a flush.
const BATCH: usize = 256;

/// How many messages, and how many bytes, may wait for the connection to take them.
const MAX_QUEUED: usize = 8192;
const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// How many tries the crate makes to come back by itself. They are of no use to us but one: a thread that waits in
/// `flush` for an answer from a connection that broke is released by a reconnect, and by hardly anything else.
const LIBRARY_RECONNECTS: usize = 8;

/// How many connections may be about to end. More than that means that the library does not let go of them.
const MAX_LINGERING: usize = 16;

/// How long ago an error of the bus counts as the reason why the connection ended.
const REASON_AGE: Duration = Duration::from_secs(2);

/// Threads of links that have not ended yet.
static LINGERING: AtomicUsize = AtomicUsize::new(0);

/// Whether the library does not let go of connections that ended: only the process's end helps.
pub fn is_library_stuck() -> bool {
    LINGERING.load(Ordering::Relaxed) > MAX_LINGERING
}

/// A subscription that a link makes.
#[derive(Debug, Clone)]
pub struct Subscribe {
    /// Its subject.
    pub subject: String,
    /// Its queue group.
    pub queue: Option<&'static str>,
    /// How many messages may wait to be taken; what comes beyond is dropped and counted.
    pub limit: usize,
    /// Whether it brings requests, so that [`Link::stop_listening`] gives it up.
    pub listens: bool,
}

/// What happens to a connection.
#[derive(Debug)]
pub enum LinkEvent {
    /// It is up and its subscriptions are in place.
    Up(Connected),
    /// From now on the server takes messages of at most so many bytes.
    MaxPayload(usize),
    /// The server is about to shut down.
    LameDuck,
    /// It ended, or could not be made: why. Nothing comes after this.
    Down(String),
}

/// A connection that is up.
#[derive(Debug)]
pub struct Connected {
    /// The server in words: its address, name and version.
    pub server: String,
    /// The largest message it takes, in bytes.
    pub max_payload: usize,
    /// Other servers of the cluster, as this one says.
    pub cluster: Vec<Address>,
    /// The messages of each subscription, in the order in which they were asked for.
    pub messages: Vec<Receiver<Message>>,
}

/// A message that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The subject it was sent to.
    pub subject: String,
    /// Where an answer is to go.
    pub reply: Option<String>,
    /// The bus itself answers that nobody listens on a subject.
    pub no_responders: bool,
    /// What it is of a batch, if it has the marks of one; the body is in there then.
    pub part: Option<Part>,
    /// The code and the words of a service's error.
    pub error: Option<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl From<Message> for Incoming {
    fn from(message: Message) -> Self {
        let no_responders = message.is_no_responders();
        let ::nats::Message { subject, reply, data: body, headers, .. } = message;
        let values = |name: &str| {
            let header = headers.as_ref().and_then(|headers| headers.get_key_value(name));
            header.into_iter().flat_map(|(_, values)| values.iter().map(String::as_str))
        };
        let header = |name: &str| values(name).collect::<Header<'_>>();
        let is_part = ["Nats-Sequence", "Status"].iter().any(|name| header(name) != Header::Missing);
        if is_part && !no_responders {
            let part = Some(direct_get::parse(header, body));
            return Incoming { subject, reply, no_responders, part, error: None, body: Vec::new() };
        }
        let first = |name: &str| values(name).next().map(str::to_owned);
        let error = first("Nats-Service-Error-Code")
            .map(|code| (code, first("Nats-Service-Error").unwrap_or_default()));
        Incoming { subject, reply, no_responders, part: None, error, body }
    }
}

enum Order {
    Publish {
        message: Outgoing,
        /// What it takes of the room in the queue.
        bytes: usize,
    },
    StopListening,
    Settle(Sender<()>),
    StepAside(Duration),
    Close(Sender<()>),
}

/// One connection, from the attempt to make it to its end. Dropping it ends it.
#[derive(Debug)]
pub struct Link {
    life: Receiver<LinkEvent>,
    server_errors: Receiver<String>,
    orders: Sender<Order>,
    /// The body of the message that was published last.
    last_body: Mutex<Option<Body>>,
    shared: Arc<Shared>,
}

/// What the link's thread, the crate's callbacks and the owner of the link look at together.
#[derive(Debug)]
struct Shared {
    watch: StallDetector,
    queued_bytes: AtomicUsize,
    overrun: AtomicU64,
    unsent: AtomicU64,
    ended: AtomicBool,
    /// Wakes the link's thread when the connection ended.
    over: Sender<()>,
    last_server_error: Mutex<Option<(Instant, String)>>,
    subscriptions: Mutex<Vec<(Subscribe, ::nats::Subscription)>>,
}

impl Link {
    /// Begins to connect to the first of `servers` that takes us, as `client`, with these subscriptions.
    pub fn open(
        settings: Arc<BusConfig>,
        servers: Vec<Address>,
        client: String,
        subscribe: Vec<Subscribe>,
    ) -> io::Result<Link> {
        let (life_sender, life) = bounded(16);
        let (server_error_sender, server_errors) = bounded(64);
        let (orders, order_receiver) = bounded(MAX_QUEUED);
        let (over_sender, over) = bounded(1);
        let shared = Arc::new(Shared {
            watch: StallDetector::new(),
            queued_bytes: AtomicUsize::new(0),
            overrun: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            over: over_sender,
            last_server_error: Mutex::new(None),
            subscriptions: Mutex::new(Vec::new()),
        });
        let thread = LinkThread {
            settings,
            servers,
            client,
            subscribe,
            life: life_sender,
            server_errors: server_error_sender,
            orders: order_receiver,
            over,
            shared: Arc::clone(&shared),
        };
        thread::Builder::new().name("bus".to_owned()).spawn(move || {
            LINGERING.fetch_add(1, Ordering::Relaxed);
            thread.run();
            LINGERING.fetch_sub(1, Ordering::Relaxed);
        })?;
        Ok(Link { life, server_errors, orders, last_body: Mutex::new(None), shared })
    }

    /// What happens to the connection.
    pub const fn life(&self) -> &Receiver<LinkEvent> {
        &self.life
    }

    /// Errors that the server sent (`-ERR`), in its own words.
    pub const fn server_errors(&self) -> &Receiver<String> {
        &self.server_errors
    }

    /// Publishes a message at once, without waiting. `false`: so much waits already that this one is dropped.
    #[must_use]
    pub fn publish(&self, message: Outgoing) -> bool {
        // The copies of one answer follow each other and share its bytes: only the first one takes room.
        let mut last = lock(&self.last_body);
        let is_copy =
            last.replace(message.body.clone()).is_some_and(|last| Arc::ptr_eq(&last, &message.body));
        let bytes = if is_copy { 0 } else { message.body.len() };
        let queued = &self.shared.queued_bytes;
        if queued.fetch_add(bytes, Ordering::Relaxed) <= MAX_QUEUED_BYTES
            && self.orders.try_send(Order::Publish { message, bytes }).is_ok()
        {
            return true;
        }
        queued.fetch_sub(bytes, Ordering::Relaxed);
        *last = None;
        false
    }

    /// Gives up the subscriptions that bring requests.
    pub fn stop_listening(&self) {
        self.orders.try_send(Order::StopListening).ok();
    }

    /// Waits until the server has taken all that came before and has protested against what it denies of it, at most
    /// so long; whether it has.
    pub fn settle(&self, at_most: Duration) -> bool {
        let (settled, wait) = bounded(1);
        self.orders.try_send(Order::Settle(settled)).is_ok() && wait.recv_timeout(at_most).is_ok()
    }

    /// Lets another link serve, and ends once the server closes the connection, or after so long.
    ///
    /// Until then it keeps the subscriptions in a queue group: the server sends each of their messages over one link
    /// only, and the crate throws away what is on its way to a subscription that is given up. Of the others the new
    /// link has its own copy.
    pub fn step_aside(self, at_most: Duration) {
        self.orders.try_send(Order::StepAside(at_most)).ok();
    }

    /// Ends the connection once everything has left, and waits for that at most so long.
    pub fn close(self, at_most: Duration) {
        let (closed, wait) = bounded(1);
        if self.orders.try_send(Order::Close(closed)).is_ok() {
            wait.recv_timeout(at_most).ok();
        }
    }

    /// How many messages were dropped since the last call because nobody took them in time.
    pub fn take_overrun(&self) -> u64 {
        self.shared.overrun.swap(0, Ordering::Relaxed)
    }

    /// How many messages could not be published since the last call.
    pub fn take_unsent(&self) -> u64 {
        self.shared.unsent.swap(0, Ordering::Relaxed)
    }

    /// Whether the library is in a step that it should have returned from long ago: the server does not answer, and
    /// nobody has closed the connection.
    pub fn is_dead(&self) -> bool {
        self.shared.watch.is_stuck()
    }
}

struct LinkThread {
    settings: Arc<BusConfig>,
    servers: Vec<Address>,
    client: String,
    subscribe: Vec<Subscribe>,
    life: Sender<LinkEvent>,
    server_errors: Sender<String>,
    orders: Receiver<Order>,
    over: Receiver<()>,
    shared: Arc<Shared>,
}

impl LinkThread {
    fn run(self) {
        let mut failures = Vec::new();
        for server in &self.servers {
            match self.connect(server) {
                Ok((connection, up)) => {
                    let max_payload = up.max_payload;
                    if self.life.try_send(LinkEvent::Up(up)).is_ok() {
                        self.serve(&connection, max_payload);
                    }
                    lock(&self.shared.subscriptions).clear();
                    return;
                }
                Err(why) => failures.push(format!("{server}: {why}")),
            }
        }
        end(&self.shared, &self.life, failures.join("; "));
    }

    fn connect(&self, server: &Address) -> Result<(::nats::Connection, Connected), String> {
        let (socket, greeting) = self.shared.watch.step(CONNECTING, || probe(server, GREETING))?;
        if greeting.lame_duck {
            return Err("the server is about to shut down".to_owned());
        }
        let tls = &self.settings.tls;
        let wants_tls = server.tls || tls.ca.is_some() || tls.cert.is_some();
        if wants_tls && !greeting.speaks_tls {
            return Err("the server does not speak TLS: set it up there, or name the server with nats:// and without a CA or a client certificate".to_owned());
        }
        let url = url(server, socket, wants_tls || greeting.tls_required);
        let options = self.options(wants_tls)?;
        let connection = self
            .shared
            .watch
            .step(CONNECTING, || options.connect(url.as_str()))
            .map_err(|error| explain(&error.to_string(), &greeting))?;
        let mut messages = Vec::new();
        for wanted in &self.subscribe {
            let subscription = match wanted.queue {
                Some(queue) => connection.queue_subscribe(&wanted.subject, queue),
                None => connection.subscribe(&wanted.subject),
            };
            let subscription = subscription.map_err(|error| format!("cannot subscribe: {error}"))?;
            subscription.set_message_limits(wanted.limit);
            messages.push(subscription.receiver().clone());
            lock(&self.shared.subscriptions).push((wanted.clone(), subscription));
        }
        self.flush(&connection).map_err(|error| format!("the connection broke at once: {error}"))?;
        let up = Connected {
            server: format!("{server} ({}, nats-server {})", greeting.name, greeting.version),
            max_payload: connection.max_payload(),
            cluster: greeting.connect_urls,
            messages,
        };
        Ok((connection, up))
    }

    fn options(&self, wants_tls: bool) -> Result<::nats::Options, String> {
        let options = match &self.settings.auth {
            Auth::None => ::nats::Options::new(),
            Auth::UserPassword { user, password } => ::nats::Options::with_user_pass(user, password.expose()),
            Auth::Token(token) => ::nats::Options::with_token(token.expose()),
            Auth::Creds(path) => {
                look_at("creds file", path)?;
                ::nats::Options::with_credentials(path)
            }
            Auth::Nkey(path) => {
                look_at("nkey file", path)?;
                let text = fs::read_to_string(path).unwrap_or_default();
                let pair = nkey_seed(&text).and_then(|seed| nkeys::KeyPair::from_seed(seed).ok());
                let pair =
                    pair.ok_or_else(|| format!("the nkey file {} holds no user seed", path.display()))?;
                let public = pair.public_key();
                ::nats::Options::with_nkey(&public, move |nonce| pair.sign(nonce).unwrap_or_default())
            }
        };
        let mut options = options
            .with_name(&self.client)
            .tls_required(wants_tls)
            .max_reconnects(LIBRARY_RECONNECTS)
            // Nothing that was meant for a connection goes out on another one.
            .reconnect_buffer_size(0)
            .reconnect_delay_callback(|tries| match tries {
                0 => Duration::ZERO,
                tries => Duration::from_millis(250 << tries.min(LIBRARY_RECONNECTS)),
            });
        let tls = &self.settings.tls;
        if let Some(ca) = &tls.ca {
            look_at("CA file", ca)?;
            options = options.add_root_certificate(ca);
        }
        if let (Some(cert), Some(key)) = (&tls.cert, &tls.key) {
            look_at("certificate file", cert)?;
            look_at("key file", key)?;
            options = options.client_cert(cert, key);
        }
        Ok(self.callbacks(options))
    }

    /// The callbacks run on the crate's threads, some with its locks held: they only leave word.
    fn callbacks(&self, options: ::nats::Options) -> ::nats::Options {
        let server_error = {
            let (shared, server_errors) = (Arc::clone(&self.shared), self.server_errors.clone());
            move |error: io::Error| {
                let words = error.to_string();
                if words.starts_with("slow consumer") {
                    shared.overrun.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                *lock(&shared.last_server_error) = Some((Instant::now(), words.clone()));
                server_errors.try_send(words).ok();
            }
        };
        let disconnect = {
            let (shared, life) = (Arc::clone(&self.shared), self.life.clone());
            move || {
                let reason =
                    lock(&shared.last_server_error).take().filter(|(at, _)| at.elapsed() < REASON_AGE);
                let why = match reason {
                    Some((_, words)) => format!("the server closed the connection: {words:?}"),
                    None => "the connection broke".to_owned(),
                };
                end(&shared, &life, why);
                // Without them the crate's own reconnect brings no messages that nobody would take.
                lock(&shared.subscriptions).clear();
            }
        };
        let lame_duck = {
            let life = self.life.clone();
            move || {
                life.try_send(LinkEvent::LameDuck).ok();
            }
        };
        options.error_callback(server_error).disconnect_callback(disconnect).lame_duck_callback(lame_duck)
    }

    /// Publishes what comes until the link's owner lets go of it or the connection ends.
    fn serve(&self, connection: &::nats::Connection, mut max_payload: usize) {
        loop {
            let mut next = match self.orders.recv_timeout(IDLE) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let (mut closing, mut settled) = (None, Vec::new());
            let mut leaving = None;
            let mut published = 0;
            while let Some(order) = next.take() {
                match order {
                    Order::Publish { message, bytes } => {
                        self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
                        self.publish(connection, &message);
                    }
                    Order::StopListening => {
                        lock(&self.shared.subscriptions).retain(|(made, _)| !made.listens);
                    }
                    Order::StepAside(at_most) => {
                        lock(&self.shared.subscriptions).retain(|(made, _)| made.queue.is_some());
                        leaving = Some(at_most);
                    }
                    Order::Settle(done) => settled.push(done),
                    Order::Close(closed) => closing = Some(closed),
                }
                published += 1;
                if published < BATCH && closing.is_none() && leaving.is_none() {
                    next = self.orders.try_recv().ok();
                }
            }
            if let Err(error) = self.flush(connection) {
                end(&self.shared, &self.life, format!("the connection broke: {error}"));
                return;
            }
            for done in settled {
                done.try_send(()).ok();
            }
            if let Some(closed) = closing {
                closed.try_send(()).ok();
                return;
            }
            if let Some(at_most) = leaving {
                self.over.recv_timeout(at_most).ok();
                return;
            }
            if connection.max_payload() != max_payload {
                max_payload = connection.max_payload();
                self.life.try_send(LinkEvent::MaxPayload(max_payload)).ok();
            }
        }
    }

    fn publish(&self, connection: &::nats::Connection, message: &Outgoing) {
        // The server closes the connection of whoever sends a larger message, and the crate does not look.
        let fits =
            message.payload_bytes() <= connection.max_payload() && message.line_bytes() <= MAX_LINE_BYTES;
        let headers = message.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let headers: Option<::nats::HeaderMap> = (!message.headers.is_empty()).then(|| headers.collect());
        let sent = fits
            && self.shared.watch.step(FLUSHING, || {
                let reply = message.reply.as_deref();
                connection
                    .publish_with_reply_or_headers(&message.subject, reply, headers.as_ref(), &message.body)
                    .is_ok()
            });
        if !sent {
            self.shared.unsent.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self, connection: &::nats::Connection) -> io::Result<()> {
        self.shared.watch.step(FLUSHING, || connection.flush_timeout(FLUSHING))
    }
}

/// Says that the connection ended, once.
fn end(shared: &Shared, life: &Sender<LinkEvent>, why: String) {
    if !shared.ended.swap(true, Ordering::Relaxed) {
        life.try_send(LinkEvent::Down(why)).ok();
        shared.over.try_send(()).ok();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one address that the crate is to dial: the very socket that was probed, but for TLS the name that the
/// certificate must be for.
fn url(server: &Address, socket: SocketAddr, tls: bool) -> String {
    let scheme = if tls { "tls" } else { "nats" };
    if !tls {
        return format!("{scheme}://{socket}");
    }
    Address { tls, ..server.clone() }.to_string()
}
