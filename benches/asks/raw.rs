//! The fastest client there is: one thread, one buffer for what comes, no copy that is not needed. Floors are measured
//! with it, and so is the seat.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::accounts::Account;

/// How long anything may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The subscription that all replies come in on.
const REPLIES: u64 = 0;

/// A connection for one thread.
pub(crate) struct Raw {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    inbox: String,
    line: Vec<u8>,
    payload: Vec<u8>,
    to_send: Vec<u8>,
}

/// A message, until the next one comes.
pub(crate) struct Message<'a> {
    pub(crate) subject: &'a str,
    pub(crate) reply: Option<&'a str>,
    pub(crate) headers: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Message<'_> {
    /// The error in words, if the seat answered with one or the bus for it: on one line, for a table.
    pub(crate) fn error(&self) -> Option<String> {
        let headers = text(self.headers);
        let words = headers.lines().find_map(|line| line.strip_prefix("Nats-Service-Error:"));
        (!headers.is_empty()).then(|| words.unwrap_or_else(|| headers.trim()).trim().to_owned())
    }
}

impl Raw {
    /// Connects, with replies under the account's inbox.
    pub(crate) fn connect(address: SocketAddr, account: &Account, name: &str) -> Self {
        let writer = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection to the bus");
        writer.set_nodelay(true).expect("a socket option");
        writer.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        let reader =
            BufReader::with_capacity(1 << 18, writer.try_clone().expect("a second end of the socket"));
        let inbox = format!("{}.{name}", account.inbox);
        let mut raw =
            Raw { reader, writer, inbox, line: Vec::new(), payload: Vec::new(), to_send: Vec::new() };
        let connect = json!({
            "verbose": false, "pedantic": false, "protocol": 1, "headers": true, "no_responders": true,
            "name": name, "lang": "raw", "version": "0", "user": account.user, "pass": account.password,
        });
        raw.line("INFO");
        raw.write(format!("CONNECT {connect}\r\nSUB {}.* {REPLIES}\r\nPING\r\n", raw.inbox).as_bytes());
        raw.line("PONG");
        raw
    }

    /// Waits for whatever comes next without a bound from now on.
    pub(crate) fn be_patient(&self) {
        self.writer.set_read_timeout(None).expect("a socket option");
    }

    /// Subscribes; what comes is among the messages of [`Raw::next`].
    pub(crate) fn subscribe(&mut self, subject: &str) {
        self.write(format!("SUB {subject} 1\r\nPING\r\n").as_bytes());
        self.line("PONG");
    }

    /// The reply subject called `name`, for [`Raw::publish`].
    pub(crate) fn reply_subject(&self, name: usize) -> String {
        format!("{}.{name}", self.inbox)
    }

    /// Publishes; it leaves with the next [`Raw::flush`].
    pub(crate) fn publish(&mut self, subject: &str, reply: &str, body: &[u8]) {
        write!(self.to_send, "PUB {subject} {reply} {}\r\n", body.len()).expect("memory takes it");
        self.to_send.extend_from_slice(body);
        self.to_send.extend_from_slice(b"\r\n");
    }

    /// Sends what was published.
    pub(crate) fn flush(&mut self) {
        let bytes = std::mem::take(&mut self.to_send);
        self.write(&bytes);
        self.to_send = bytes;
        self.to_send.clear();
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask(&mut self, subject: &str, body: &[u8]) -> Message<'_> {
        let reply = self.reply_subject(0);
        self.publish(subject, &reply, body);
        self.flush();
        self.next()
    }

    /// Asks the JetStream API; panics with its words if it refuses.
    pub(crate) fn api(&mut self, call: &str, body: &Value) -> Value {
        let answer = self.ask(&format!("$JS.API.{call}"), body.to_string().as_bytes()).body;
        let answer: Value = serde_json::from_slice(answer).expect("JSON of the bus");
        assert!(answer.get("error").is_none(), "{call}: {}", answer["error"]);
        answer
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Message<'_> {
        self.next_until_closed().expect("the bus closed the connection")
    }

    /// The next message; `None` once the connection is closed.
    pub(crate) fn next_until_closed(&mut self) -> Option<Message<'_>> {
        loop {
            self.read_line();
            if self.line.is_empty() {
                return None;
            }
            if self.line.starts_with(b"MSG ") || self.line.starts_with(b"HMSG ") {
                break;
            }
            assert!(
                self.line == b"PONG" || self.line.starts_with(b"INFO"),
                "the bus says {:?}",
                text(&self.line)
            );
        }
        let line = std::str::from_utf8(&self.line).expect("subjects of the benchmark are UTF-8");
        let mut words = line.split(' ');
        let with_headers = words.next() == Some("HMSG");
        let subject = words.next().expect("a subject");
        words.next();
        let rest: Vec<&str> = words.collect();
        let numbers = if with_headers { 2 } else { 1 };
        let (reply, sizes) = rest.split_at(rest.len() - numbers);
        let size = |at: usize| sizes[at].parse::<usize>().expect("a size");
        let (head, whole) = (if with_headers { size(0) } else { 0 }, size(numbers - 1));
        self.payload.resize(whole + 2, 0);
        self.reader.read_exact(&mut self.payload).ok()?;
        Some(Message {
            subject,
            reply: reply.first().copied(),
            headers: &self.payload[..head],
            body: &self.payload[head..whole],
        })
    }

    fn line(&mut self, awaited: &str) {
        loop {
            self.read_line();
            if self.line.starts_with(awaited.as_bytes()) {
                return;
            }
            // The server may say more about itself at any time.
            assert!(self.line.starts_with(b"INFO"), "the bus says {:?}", text(&self.line));
        }
    }

    /// Reads a line, empty at the end of the connection; a PING is answered and not given.
    fn read_line(&mut self) {
        loop {
            self.line.clear();
            self.reader.read_until(b'\n', &mut self.line).expect("the bus gave no answer in time");
            let end = self.line.strip_suffix(b"\r\n").map_or(0, <[u8]>::len);
            self.line.truncate(end);
            if self.line != b"PING" {
                return;
            }
            self.write(b"PONG\r\n");
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).expect("the bus closed the connection");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
