//! The only file that knows the `nats` crate.
//!
//! A [`Link`] is one connection for its whole life: it is made, it serves, it ends, and then another one is made. The
//! crate is connected to a [`gate`] on the loopback and never to a server.
//!
//! A thread of its own holds the connection, since the crate blocks: `publish` when the socket is full, `flush`
//! until the server answers. It flushes after every batch, for the crate itself would wait 5 ms. What it blocks in
//! is watched ([`Link::is_dead`]): its owner then drops it and makes another. The gate releases the thread,
//! by answering in the server's place. If many linger all the same ([`is_library_stuck`]), the answer is the process's
//! end (exit code 75).

#![expect(
    deprecated,
    reason = "upstream deprecates the whole synchronous client; it is the one this design needs"
)]

use crate::config::BusConfig;
use crate::config::address::Address;
use crate::gate::{self, Cluster, Event, Events, Gate};
use crate::large::Large;
use crate::library;
use crate::message::{Incoming, Reply, Waiting, inbox_subjects};
use crate::stall::StallDetector;
pub use crate::subscribe::{Inbox, Subscribe};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select, unbounded};
use mesh_jetstream::message::{Body, MAX_LINE_BYTES, Outgoing};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A message as the crate delivers it, for [`Incoming::from`].
pub type Message = ::nats::Message;

/// How long the crate may take to connect to the gate.
const CONNECTING: Duration = Duration::from_secs(10);

/// How long a write and its flush may take before the link counts as dead without a close.
const FLUSHING: Duration = Duration::from_secs(30);

/// A connection on which nothing is sent is tried this often.
const IDLE: Duration = Duration::from_secs(15);

/// How many messages are published before a flush.
const BATCH: usize = 256;

/// How many messages, and how many bytes, may wait for the connection to take them.
pub const MAX_QUEUED: usize = 8192;
/// The same in bytes.
pub const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// How many connections may be about to end. More than that means that the library does not let go of them.
const MAX_LINGERING: usize = 16;

/// The stack of the link's thread, in bytes.
const STACK_BYTES: usize = 512 * 1024;

/// How many events of a link may wait for its owner; some of that room is kept for its end.
const MAX_EVENTS: usize = 64;
const KEPT_FOR_THE_END: usize = 8;

/// No certificate: the crate does no TLS, and would read all of the system's at each connect without one to read.
const NO_CERTIFICATE: &str = "/dev/null";

/// Threads of links that have not ended yet.
static LINGERING: AtomicUsize = AtomicUsize::new(0);

/// Whether the library does not let go of connections that ended: only the process's end helps.
pub fn is_library_stuck() -> bool {
    LINGERING.load(Ordering::Relaxed) > MAX_LINGERING
}

/// What happens to a connection.
#[derive(Debug)]
pub enum LinkEvent {
    /// It is up and its subscriptions are in place.
    Up(Connected),
    /// From now on the server takes messages of at most this many bytes.
    MaxPayload(usize),
    /// The server is about to shut down.
    LameDuck,
    /// Other servers of the cluster, as the server says.
    Cluster(Cluster),
    /// Something that came was changed or left out: what, in words for people. Not more than a few a minute.
    Report(String),
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
    pub cluster: Cluster,
    /// The messages of the inbox; never any without an inbox.
    pub replies: Receiver<Reply>,
    /// The messages of each subscription, in the order in which they were asked for.
    pub messages: Vec<Receiver<Message>>,
}

impl From<Message> for Incoming {
    fn from(message: Message) -> Self {
        let no_responders = message.is_no_responders();
        let ::nats::Message { subject, reply, data: body, headers, .. } = message;
        let first = |name: &str| {
            let header = headers.as_ref().and_then(|headers| headers.get_key_value(name));
            header.and_then(|(_, values)| values.iter().next().cloned())
        };
        let error = first("Nats-Service-Error-Code")
            .map(|code| (code, first("Nats-Service-Error").unwrap_or_default()));
        Incoming { subject, reply, no_responders, error, body }
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
    /// What the link's thread waits for, in words.
    doing: Mutex<String>,
    gate: Mutex<Option<Arc<Gate>>>,
    /// How often the library had panicked when the link was made.
    panics: usize,
    max_payload: AtomicUsize,
    queued_bytes: AtomicUsize,
    overrun: AtomicU64,
    unsent: AtomicU64,
    ended: AtomicBool,
    /// The link goes on without its owner.
    is_on_its_own: AtomicBool,
    /// Wakes the link's thread when the connection ended.
    over: Sender<()>,
    subscriptions: Mutex<Vec<(Subscribe, ::nats::Subscription)>>,
}

impl Link {
    /// Begins to connect to the first of `servers` that takes us, as `client`, with this inbox and these
    /// subscriptions.
    pub fn open(
        settings: Arc<BusConfig>,
        servers: Vec<Address>,
        client: String,
        inbox: Option<Inbox>,
        subscribe: Vec<Subscribe>,
    ) -> io::Result<Link> {
        let (life_sender, life) = bounded(MAX_EVENTS);
        let (server_error_sender, server_errors) = bounded(64);
        let (orders, order_receiver) = bounded(MAX_QUEUED);
        let (over_sender, over) = bounded(1);
        let shared = Arc::new(Shared {
            watch: StallDetector::new(),
            doing: Mutex::new("starting".to_owned()),
            gate: Mutex::new(None),
            panics: library::panics(),
            max_payload: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            overrun: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            is_on_its_own: AtomicBool::new(false),
            over: over_sender,
            subscriptions: Mutex::new(Vec::new()),
        });
        let thread = LinkThread {
            settings,
            servers,
            client,
            inbox,
            subscribe,
            life: life_sender,
            server_errors: server_error_sender,
            orders: order_receiver,
            over,
            shared: Arc::clone(&shared),
        };
        thread::Builder::new().name("bus".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            LINGERING.fetch_add(1, Ordering::Relaxed);
            if let Err(words) = library::contain(|| thread.run()) {
                thread.ended(format!("the client library failed: {words}"));
            }
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

    /// Gives up the subscriptions that bring requests. What the server has sent them by then can still be taken; then
    /// their receivers end.
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
    pub fn step_aside(self, at_most: Duration) -> Aside {
        self.shared.is_on_its_own.store(true, Ordering::Relaxed);
        self.orders.try_send(Order::StepAside(at_most)).ok();
        Aside { orders: self.orders.clone() }
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

    /// Whether the library is in a step that it should have returned from long ago, or one of its threads is gone: the
    /// server does not answer, and nobody has closed the connection.
    pub fn is_dead(&self) -> bool {
        self.shared.watch.is_stuck() || library::panics() > self.shared.panics
    }

    /// What the link's thread waits for, in words such as `waiting for nats://bus:4222 to greet`.
    pub fn doing(&self) -> String {
        lock(&self.shared.doing).clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The link's thread may be in a step that only the gate can end.
        if !self.shared.is_on_its_own.load(Ordering::Relaxed)
            && let Some(gate) = &*lock(&self.shared.gate)
        {
            gate.abandon();
        }
    }
}

/// A link that stepped aside.
#[derive(Debug, Clone)]
pub struct Aside {
    orders: Sender<Order>,
}

impl Aside {
    /// Ends it soon. What the server has sent by then can still be taken; then the receivers end.
    pub fn stop_listening(&self) {
        self.orders.try_send(Order::StopListening).ok();
    }
}

struct LinkThread {
    settings: Arc<BusConfig>,
    servers: Vec<Address>,
    client: String,
    inbox: Option<Inbox>,
    subscribe: Vec<Subscribe>,
    life: Sender<LinkEvent>,
    server_errors: Sender<String>,
    orders: Receiver<Order>,
    over: Receiver<()>,
    shared: Arc<Shared>,
}

impl LinkThread {
    fn run(&self) {
        let mut failures = Vec::new();
        for server in &self.servers {
            match self.connect(server) {
                Ok((gate, connection, up)) => {
                    if self.life.try_send(LinkEvent::Up(up)).is_ok() {
                        self.serve(&gate, &connection);
                    }
                    self.let_go(&gate, connection);
                    return;
                }
                Err(why) => failures.push(format!("{server}: {why}")),
            }
        }
        self.ended(failures.join("; "));
    }

    /// Says that the connection ended, once.
    fn ended(&self, why: String) {
        end(&self.shared, &self.life, why);
    }

    fn doing(&self, what: String) {
        *lock(&self.shared.doing) = what;
    }

    fn connect(&self, server: &Address) -> Result<(Arc<Gate>, ::nats::Connection, Connected), String> {
        let subjects = |inbox: &Inbox| inbox_subjects(&inbox.prefix, inbox.deliveries);
        let own: Vec<String> = self.inbox.as_ref().map(subjects).unwrap_or_default();
        let mut entered = gate::enter(server, &self.settings, &self.client, &own, &|what| self.doing(what))?;
        for words in entered.take_protests() {
            self.server_errors.try_send(words).ok();
        }
        let (info, cluster) = (entered.info().clone(), entered.cluster());
        self.shared.max_payload.store(info.max_payload, Ordering::Relaxed);
        // A bounded channel would take the room of all its places at once. The gate looks at its length instead.
        let (reply_sender, replies) = unbounded();
        let gate = Arc::new(entered.start(self.events(reply_sender))?);
        *lock(&self.shared.gate) = Some(Arc::clone(&gate));
        self.doing("waiting for the client library".to_owned());
        let options = self.options(&gate);
        let connection =
            self.shared.watch.step(CONNECTING, || options.connect(gate.url())).map_err(|error| {
                gate.cut();
                format!("the client library cannot be used: {error}")
            })?;
        self.doing(format!("waiting for an answer of {server}"));
        match self.subscribe(&connection) {
            Ok(messages) => {
                let server = format!("{server} ({}, nats-server {})", info.name, info.version);
                let max_payload = self.shared.max_payload.load(Ordering::Relaxed);
                Ok((gate, connection, Connected { server, max_payload, cluster, replies, messages }))
            }
            Err(error) => {
                self.let_go(&gate, connection);
                Err(format!("the connection broke at once: {error}"))
            }
        }
    }

    fn subscribe(&self, connection: &::nats::Connection) -> io::Result<Vec<Receiver<Message>>> {
        let mut messages = Vec::new();
        for wanted in &self.subscribe {
            let subscription = match wanted.queue {
                Some(queue) => connection.queue_subscribe(&wanted.subject, queue),
                None => connection.subscribe(&wanted.subject),
            }?;
            subscription.set_message_limits(wanted.limit);
            messages.push(subscription.receiver().clone());
            lock(&self.shared.subscriptions).push((wanted.clone(), subscription));
        }
        self.flush(connection)?;
        if self.shared.ended.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(messages)
    }

    /// The crate's only server is the gate, which it finds once and never again.
    fn options(&self, gate: &Gate) -> ::nats::Options {
        let shared = Arc::clone(&self.shared);
        ::nats::Options::with_token(gate.secret())
            .with_name(&self.client)
            .max_reconnects(1)
            // Nothing that was meant for a connection goes out on another one.
            .reconnect_buffer_size(0)
            // The door of the gate is open already: without this the crate waits for up to a second before it connects.
            .reconnect_delay_callback(|_| Duration::ZERO)
            .add_root_certificate(NO_CERTIFICATE)
            // It runs on the crate's thread with its locks held, and only counts. Everything else the gate says itself.
            .error_callback(move |_| {
                shared.overrun.fetch_add(1, Ordering::Relaxed);
            })
    }

    /// What the gate tells, on its own thread: it only leaves word.
    fn events(&self, replies: Sender<Reply>) -> Events {
        let (shared, life) = (Arc::clone(&self.shared), self.life.clone());
        let server_errors = self.server_errors.clone();
        let waiting = Waiting::default();
        let limit = self.inbox.as_ref().map_or(0, |inbox| inbox.limit);
        let say = move |event| {
            if life.len() < MAX_EVENTS - KEPT_FOR_THE_END {
                life.try_send(event).ok();
            }
        };
        let ends = self.life.clone();
        let large = Mutex::new(Large::default());
        Arc::new(move |event: Event<'_>| match event {
            Event::Large { bytes, drop } => {
                let waiting = || match shared.subscriptions.try_lock() {
                    Ok(made) => made.iter().map(|(_, subscription)| subscription.receiver().len()).sum(),
                    // They are being given up: what is still to come is let through.
                    Err(_) => 0,
                };
                if !lock(&large).has_room(bytes, waiting) {
                    drop.set(true);
                    shared.overrun.fetch_add(1, Ordering::Relaxed);
                }
            }
            Event::Message(message) => {
                let reply = waiting.take_in(&message);
                // An owner that is gone takes nothing; it has not been too slow.
                let is_lost = reply.is_none_or(|reply| {
                    replies.len() >= limit || {
                        replies.send(reply).ok();
                        false
                    }
                });
                shared.overrun.fetch_add(u64::from(is_lost), Ordering::Relaxed);
            }
            Event::Protest(words) => {
                server_errors.try_send(words).ok();
            }
            Event::Report(words) => say(LinkEvent::Report(words)),
            Event::MaxPayload(bytes) => {
                shared.max_payload.store(bytes, Ordering::Relaxed);
                say(LinkEvent::MaxPayload(bytes));
            }
            Event::LameDuck => say(LinkEvent::LameDuck),
            Event::Cluster(cluster) => say(LinkEvent::Cluster(cluster)),
            Event::Ended(why) => end(&shared, &ends, why),
        })
    }

    /// Publishes what comes until the link's owner lets go of it or the connection ends.
    fn serve(&self, gate: &Gate, connection: &::nats::Connection) {
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
                        if let Err(error) = self.stop_listening(gate, connection) {
                            return self.ended(format!("the connection broke: {error}"));
                        }
                    }
                    Order::StepAside(at_most) => {
                        gate.give_up_own();
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
                return self.ended(format!("the connection broke: {error}"));
            }
            if self.shared.ended.load(Ordering::Relaxed) {
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
                return self.stand_aside(gate, connection, at_most);
            }
        }
    }

    /// Waits until the connection ends, the time is over, or its owner wants no more of it.
    fn stand_aside(&self, gate: &Gate, connection: &::nats::Connection, at_most: Duration) {
        select! {
            recv(self.over) -> _ => {}
            recv(self.orders) -> order => if let Ok(Order::StopListening) = order {
                self.stop_listening(gate, connection).ok();
            },
            default(at_most) => {}
        }
    }

    /// Gives up the subscriptions that bring requests, so that none that the server has sent is lost: the crate throws
    /// away what is on its way to a subscription that it no longer has. So the gate gives them up at the server first.
    /// After the reply to a later ping everything is here, and the receivers may end.
    fn stop_listening(&self, gate: &Gate, connection: &::nats::Connection) -> io::Result<()> {
        gate.give_up_librarys();
        // The gate may pass on the first ping before it takes that order, and never the second.
        self.flush(connection)?;
        self.flush(connection)?;
        lock(&self.shared.subscriptions).retain(|(made, _)| !made.listens);
        Ok(())
    }

    fn publish(&self, connection: &::nats::Connection, message: &Outgoing) {
        // The server closes the connection of a client that sends a larger message, and the crate does not look.
        let max_payload = self.shared.max_payload.load(Ordering::Relaxed);
        let fits = message.payload_bytes() <= max_payload && message.line_bytes() <= MAX_LINE_BYTES;
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

    /// Ends the crate's threads, all of them and now. It waits for them, which is short since the gate answers in the
    /// server's place. What was brought can still be taken; then the receivers end.
    fn let_go(&self, gate: &Gate, connection: ::nats::Connection) {
        gate.abandon();
        connection.close();
        lock(&self.shared.subscriptions).clear();
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
