//! A connection for one-shot commands: one request at a time, each with a time-out.

use crate::config::BusConfig;
use crate::message::Incoming;
use crate::nats::{Connected, Link, LinkEvent, Message, Subscribe};
use crossbeam_channel::{Receiver, select};
use mesh_jetstream::message::{Headers, Outgoing};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a command waits for a connection, over all servers.
const CONNECT: Duration = Duration::from_secs(10);

/// How long after a request its denial may arrive.
const CLOSE: Duration = Duration::from_secs(1);

/// Why a request got no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The server denies the publish; its text.
    Denied(String),
    /// Nobody subscribes to the subject.
    NoResponders,
    /// No answer came in time.
    Silent,
    /// The connection broke.
    Lost(String),
}

/// Why there is no connection, as text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// No server accepted the connection.
    Unreachable(String),
    /// The server denies every inbox for responses; its text for the last one.
    NoInbox(String),
}

/// A connection with its own inbox.
#[derive(Debug)]
pub struct Client {
    link: Link,
    server: String,
    inbox: String,
    replies: Receiver<Message>,
    calls: u64,
}

impl Client {
    /// Connects as `name`. Responses arrive in an inbox under the first of `prefixes` that the account may subscribe.
    /// The next one is tried only when the server has denied the one before, since it logs each denial.
    pub fn connect(
        settings: BusConfig,
        name: &str,
        prefixes: &[&str],
        id: &str,
    ) -> Result<Client, ConnectError> {
        let settings = Arc::new(settings);
        let mut denied = String::new();
        for prefix in prefixes {
            match Self::with_inbox(&settings, name, format!("{prefix}.{id}")) {
                Err(ConnectError::NoInbox(words)) => denied = words,
                other => return other,
            }
        }
        Err(ConnectError::NoInbox(denied))
    }

    fn with_inbox(settings: &Arc<BusConfig>, name: &str, inbox: String) -> Result<Client, ConnectError> {
        let subject = format!("{inbox}.*");
        let subscribe = Subscribe { subject: subject.clone(), queue: None, limit: 1024, listens: false };
        let servers = settings.servers.clone();
        let link = Link::open(Arc::clone(settings), servers, name.to_owned(), None, vec![subscribe])
            .map_err(|error| ConnectError::Unreachable(format!("cannot start a thread: {error}")))?;
        let up = await_up(&link).map_err(ConnectError::Unreachable)?;
        // A denial arrives before the reply to the flush that completes the connection.
        if let Some(words) = link.server_errors().try_iter().find(|words| denies(words, &subject)) {
            link.close(CLOSE);
            return Err(ConnectError::NoInbox(words));
        }
        let Some(replies) = up.messages.into_iter().next() else {
            return Err(ConnectError::Unreachable("the subscription ended".to_owned()));
        };
        Ok(Client { link, server: up.server, inbox, replies, calls: 0 })
    }

    /// The server, as text for people.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request and waits for the first response.
    pub fn call(
        &mut self,
        subject: &str,
        headers: Headers,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Incoming, CallError> {
        self.calls += 1;
        let reply = format!("{}.{}", self.inbox, self.calls);
        let request =
            Outgoing { subject: subject.to_owned(), reply: Some(reply.clone()), headers, body: body.into() };
        if !self.link.publish(request) {
            return Err(CallError::Lost("the outgoing queue is full".to_owned()));
        }
        let until = Instant::now() + within;
        loop {
            select! {
                recv(self.replies) -> message => match message.map(Incoming::from) {
                    Ok(answer) if answer.subject != reply => {}
                    Ok(answer) if answer.no_responders => return Err(CallError::NoResponders),
                    Ok(answer) => return Ok(answer),
                    Err(_) => return Err(CallError::Lost("the subscription ended".to_owned())),
                },
                recv(self.link.server_errors()) -> words => if let Ok(words) = words && denies(&words, subject) {
                    return Err(CallError::Denied(words));
                },
                recv(self.link.life()) -> life => if let Ok(LinkEvent::Down(why)) = life {
                    return Err(CallError::Lost(why));
                },
                default(until.saturating_duration_since(Instant::now())) => return Err(CallError::Silent),
            }
        }
    }

    /// Ends the connection.
    pub fn close(self) {
        self.link.close(CLOSE);
    }
}

/// Waits for a link to be up. The error says why it is not.
pub(super) fn await_up(link: &Link) -> Result<Connected, String> {
    let until = Instant::now() + CONNECT;
    loop {
        match link.life().recv_deadline(until) {
            Ok(LinkEvent::Up(up)) => return Ok(up),
            Ok(LinkEvent::Down(why)) => return Err(why),
            Ok(_) => {}
            Err(_) => {
                return Err(format!("no server let us in within {} s: {}", CONNECT.as_secs(), link.doing()));
            }
        }
    }
}

/// Whether the server error denies us `subject`.
pub(super) fn denies(server_error: &str, subject: &str) -> bool {
    server_error.contains("Permissions Violation") && server_error.contains(&format!("\"{subject}\""))
}
