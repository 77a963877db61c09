//! A client of the bus that sends what client libraries refuse to send.
//!
//! It never connects again by itself: a connection that the server closed is something to notice. It knows
//! nothing of buckets and of the verb; `bucket.rs` and `verb.rs` put those on top.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use serde_json::{Value, json};

use crate::accounts::Account;
use crate::wait::{self, PATIENCE};
use crate::wire::{self, Line, Message};

/// One connection. May be used from several threads.
pub struct Client {
    shared: Arc<Shared>,
    info: Value,
    inbox: String,
    /// For subscription ids and reply subjects.
    counter: AtomicU64,
}

/// What arrives for one subscription or one request, in order. Dropping it ends the subscription.
pub struct Inbox {
    deliveries: Receiver<Delivery>,
    shared: Arc<Shared>,
    /// The subject, for messages.
    about: String,
    place: Place,
}

/// What an inbox is filled by.
enum Place {
    Subscription(u64),
    /// With its reply subject.
    Request(Vec<u8>),
}

/// Why there is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Nobody subscribes to what was asked: the server said so at once.
    NoResponders,
    /// The server's words about the missing right.
    Denied(String),
    /// Nothing came in time; with everything the server complained about so far.
    Late { about: String, within: Duration, complaints: Vec<String> },
    /// The connection is gone; with everything the server complained about so far.
    Closed { complaints: Vec<String> },
}

enum Delivery {
    Message(Message),
    Denied(String),
}

struct Shared {
    writer: Mutex<TcpStream>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    complaints: Vec<String>,
    /// One sender for each PING under way, in order.
    pings: VecDeque<Sender<()>>,
    subscriptions: HashMap<u64, Route>,
    /// By reply subject.
    requests: HashMap<Vec<u8>, Route>,
}

/// Where deliveries go, and the subject that a denial would name.
struct Route {
    subject: String,
    to: Sender<Delivery>,
}

/// The subscription that all replies come in on.
const REPLIES: u64 = 0;

impl Client {
    /// Connects; panics with the server's words if it is not let in.
    #[track_caller]
    pub fn connect(address: SocketAddr, account: &Account) -> Self {
        Self::try_connect(address, account)
            .unwrap_or_else(|error| panic!("{} cannot connect to {address}: {error}", account.user))
    }

    /// Connects, or says why not.
    pub fn try_connect(address: SocketAddr, account: &Account) -> Result<Self, String> {
        let credentials = json!({"user": account.user, "pass": account.password});
        Self::try_connect_by(address, &account.inbox, |_info| credentials)
    }

    /// Connects with the authentication fields of CONNECT that `credentials` makes from the server's INFO,
    /// and with replies under the prefix `inbox`.
    pub fn try_connect_by(
        address: SocketAddr,
        inbox: &str,
        credentials: impl FnOnce(&Value) -> Value,
    ) -> Result<Self, String> {
        let words = |error: io::Error| error.to_string();
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(words)?;
        stream.set_nodelay(true).map_err(words)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(words)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(words)?;
        let mut reader = BufReader::new(stream.try_clone().map_err(words)?);
        let Line::Info(info) = wire::read(&mut reader).map_err(words)? else {
            return Err("the first line is not INFO".to_owned());
        };
        let mut connect = json!({
            "verbose": false, "pedantic": false, "protocol": 1, "echo": true, "headers": true,
            "no_responders": true, "name": "test", "lang": "raw", "version": "0",
        });
        if let (Some(connect), Value::Object(credentials)) = (connect.as_object_mut(), credentials(&info)) {
            connect.extend(credentials);
        }
        stream.set_read_timeout(None).map_err(words)?;
        let client = Self {
            shared: Arc::new(Shared { writer: Mutex::new(stream), state: Mutex::default() }),
            info,
            inbox: format!("{inbox}.{:016x}", RandomState::new().hash_one(0)),
            counter: AtomicU64::new(REPLIES + 1),
        };
        {
            let shared = Arc::clone(&client.shared);
            thread::spawn(move || shared.read_all(reader));
        }
        client.send(format!("CONNECT {connect}\r\nSUB {}.* {REPLIES}\r\n", client.inbox).as_bytes());
        client.try_flush(PATIENCE).map_err(|error| error.to_string())?;
        Ok(client)
    }

    /// What the server said about itself when this client connected.
    pub fn info(&self) -> &Value {
        &self.info
    }

    /// Sends bytes as they are. What cannot be sent closes the connection, which the next wait will say.
    pub fn send(&self, bytes: &[u8]) {
        let mut writer = self.shared.writer();
        if writer.write_all(bytes).is_err() {
            let _ = writer.shutdown(Shutdown::Both);
        }
    }

    /// Publishes a body.
    pub fn publish(&self, subject: impl AsRef<[u8]>, body: impl AsRef<[u8]>) {
        self.publish_with(subject, None, &[], body);
    }

    /// Publishes with a reply subject and a raw block of headers ([`wire::headers`] makes a good one); an
    /// empty block is none.
    pub fn publish_with(
        &self,
        subject: impl AsRef<[u8]>,
        reply: Option<&[u8]>,
        headers: &[u8],
        body: impl AsRef<[u8]>,
    ) {
        let body = body.as_ref();
        let mut bytes = if headers.is_empty() { b"PUB ".to_vec() } else { b"HPUB ".to_vec() };
        bytes.extend_from_slice(subject.as_ref());
        if let Some(reply) = reply {
            bytes.push(b' ');
            bytes.extend_from_slice(reply);
        }
        if !headers.is_empty() {
            bytes.extend_from_slice(format!(" {}", headers.len()).as_bytes());
        }
        bytes.extend_from_slice(format!(" {}\r\n", headers.len() + body.len()).as_bytes());
        bytes.extend_from_slice(headers);
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(b"\r\n");
        self.send(&bytes);
    }

    /// Subscribes, and returns once the server has taken or refused it.
    #[track_caller]
    pub fn subscribe(&self, subject: &str, queue: Option<&str>) -> Inbox {
        let sid = self.counter.fetch_add(1, Ordering::Relaxed);
        let inbox = self.inbox(subject, Place::Subscription(sid));
        self.send(format!("SUB {subject} {} {sid}\r\n", queue.unwrap_or_default()).as_bytes());
        self.flush();
        inbox
    }

    /// Asks and waits for the first answer.
    pub fn request(
        &self,
        subject: impl AsRef<[u8]>,
        body: impl AsRef<[u8]>,
        within: Duration,
    ) -> Result<Message, Unanswered> {
        self.request_later(subject, &[], body).next(within)
    }

    /// Asks; the answers, however many, can be taken from the inbox when they are wanted.
    pub fn request_later(&self, subject: impl AsRef<[u8]>, headers: &[u8], body: impl AsRef<[u8]>) -> Inbox {
        let reply = format!("{}.{}", self.inbox, self.counter.fetch_add(1, Ordering::Relaxed)).into_bytes();
        let asked = String::from_utf8_lossy(subject.as_ref()).into_owned();
        let inbox = self.inbox(&asked, Place::Request(reply.clone()));
        self.publish_with(subject, Some(&reply), headers, body);
        inbox
    }

    /// Returns once the server has taken all that was sent, and all it sent before that is here.
    #[track_caller]
    pub fn flush(&self) {
        if let Err(error) = self.try_flush(PATIENCE) {
            panic!("flush: {error}");
        }
    }

    /// As [`Client::flush`], for a server that may be gone.
    pub fn try_flush(&self, within: Duration) -> Result<(), Unanswered> {
        let (pong, ponged) = unbounded();
        {
            // The lock on the writer keeps two PINGs and their places in the queue in one order.
            let mut writer = self.shared.writer();
            {
                let mut state = self.shared.state();
                if state.closed {
                    return Err(state.closed());
                }
                state.pings.push_back(pong);
            }
            if writer.write_all(b"PING\r\n").is_err() {
                let _ = writer.shutdown(Shutdown::Both);
            }
        }
        ponged.recv_timeout(within).map_err(|error| self.shared.state().unanswered("a PONG", within, error))
    }

    /// Everything that the server complained about (`-ERR`) so far.
    pub fn errors(&self) -> Vec<String> {
        self.shared.state().complaints.clone()
    }

    /// Waits for a complaint of the server that holds these words.
    #[track_caller]
    pub fn wait_for_error(&self, needle: &str, within: Duration) -> String {
        wait::until(&format!("-ERR with {needle:?}"), within, || {
            let complaints = self.errors();
            let found = complaints.iter().find(|words| words.contains(needle)).cloned();
            found.ok_or_else(|| format!("{complaints:?}"))
        })
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.state().closed
    }

    fn inbox(&self, subject: &str, place: Place) -> Inbox {
        let (to, deliveries) = unbounded();
        let route = Route { subject: subject.to_owned(), to };
        let mut state = self.shared.state();
        // On a closed connection the sender is dropped here, and the inbox says so.
        if !state.closed {
            match &place {
                Place::Subscription(sid) => state.subscriptions.insert(*sid, route),
                Place::Request(reply) => state.requests.insert(reply.clone(), route),
            };
        }
        drop(state);
        Inbox { deliveries, shared: Arc::clone(&self.shared), about: subject.to_owned(), place }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("inbox", &self.inbox).finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Ends the reading thread too.
        let _ = self.shared.writer().shutdown(Shutdown::Both);
    }
}

impl Inbox {
    /// The next message.
    pub fn next(&self, within: Duration) -> Result<Message, Unanswered> {
        match self.deliveries.recv_timeout(within) {
            Ok(Delivery::Message(message)) if message.status() == Some(503) && message.body.is_empty() => {
                Err(Unanswered::NoResponders)
            }
            Ok(Delivery::Message(message)) => Ok(message),
            Ok(Delivery::Denied(words)) => Err(Unanswered::Denied(words)),
            Err(error) => Err(self.shared.state().unanswered(&self.about, within, error)),
        }
    }

    /// All that is here and was not taken yet. [`Client::flush`] before it makes sure of what the server has
    /// sent.
    pub fn take_all(&self) -> Vec<Message> {
        let message = |delivery| match delivery {
            Delivery::Message(message) => Some(message),
            Delivery::Denied(_) => None,
        };
        self.deliveries.try_iter().filter_map(message).collect()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        match &self.place {
            Place::Request(reply) => {
                self.shared.state().requests.remove(reply);
            }
            Place::Subscription(sid) => {
                self.shared.state().subscriptions.remove(sid);
                let _ = self.shared.writer().write_all(format!("UNSUB {sid}\r\n").as_bytes());
            }
        }
    }
}

impl Shared {
    fn writer(&self) -> MutexGuard<'_, TcpStream> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_all(&self, mut reader: BufReader<TcpStream>) {
        while let Ok(line) = wire::read(&mut reader) {
            if matches!(line, Line::Ping) {
                let _ = self.writer().write_all(b"PONG\r\n");
            } else {
                self.state().take(line);
            }
        }
        let mut state = self.state();
        state.closed = true;
        // Dropping the senders wakes everybody who waits.
        state.pings.clear();
        state.subscriptions.clear();
        state.requests.clear();
    }
}

impl State {
    fn take(&mut self, line: Line) {
        match line {
            Line::Message { sid, message } => {
                let route = match sid {
                    REPLIES => self.requests.get(&message.subject),
                    sid => self.subscriptions.get(&sid),
                };
                if let Some(route) = route {
                    let _ = route.to.send(Delivery::Message(message));
                }
            }
            Line::Pong => {
                if let Some(pong) = self.pings.pop_front() {
                    let _ = pong.send(());
                }
            }
            Line::Error(words) => {
                self.deny(&words);
                self.complaints.push(words);
            }
            Line::Info(_) | Line::Ok | Line::Ping => {}
        }
    }

    /// Tells those whose subject the complaint names; the words are the same in all servers since 2.0.
    fn deny(&self, words: &str) {
        let denied = |route: &&Route| words.contains(&format!("\"{}\"", route.subject));
        let routes: Vec<&Route> = if words.starts_with("Permissions Violation for Publish") {
            self.requests.values().filter(denied).collect()
        } else if words.starts_with("Permissions Violation for Subscription") {
            self.subscriptions.values().filter(denied).collect()
        } else {
            Vec::new()
        };
        for route in routes {
            let _ = route.to.send(Delivery::Denied(words.to_owned()));
        }
    }

    fn closed(&self) -> Unanswered {
        Unanswered::Closed { complaints: self.complaints.clone() }
    }

    fn unanswered(&self, about: &str, within: Duration, error: RecvTimeoutError) -> Unanswered {
        match error {
            RecvTimeoutError::Timeout => {
                Unanswered::Late { about: about.to_owned(), within, complaints: self.complaints.clone() }
            }
            RecvTimeoutError::Disconnected => self.closed(),
        }
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoResponders => f.write_str("nobody answers that subject"),
            Self::Denied(words) => write!(f, "denied: {words}"),
            Self::Late { about, within, complaints } => {
                write!(
                    f,
                    "waited {within:?} for {about}; nothing came; the server complained: {complaints:?}"
                )
            }
            Self::Closed { complaints } => {
                write!(f, "the server closed the connection; it complained: {complaints:?}")
            }
        }
    }
}
