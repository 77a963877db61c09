//! A connection for commands that ask and leave: one request at a time, each with a bound.

use super::nats::{Delivery, Life, Link, Message, Subscribe};
use crate::config::Connection;
use crate::wire::{Headers, Outgoing};
use crossbeam_channel::{Receiver, select};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a command waits for a connection, over all servers.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a denial may come behind the request that it denies.
const CLOSE: Duration = Duration::from_secs(1);

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The bus denies the publish, in its own words.
    Denied(String),
    /// Nobody listens there.
    NoResponders,
    /// No answer came in time.
    Silent,
    /// The connection broke.
    Lost(String),
}

/// A connection with an inbox of its own.
#[derive(Debug)]
pub struct Caller {
    link: Link,
    server: String,
    inbox: String,
    replies: Receiver<Message>,
    protests: VecDeque<String>,
    calls: u64,
}

impl Caller {
    /// Connects, with answers coming under `inbox`. The error is words for people.
    pub fn connect(settings: Connection, inbox: String) -> Result<Caller, String> {
        let servers = settings.servers.clone();
        let replies = Subscribe { subject: format!("{inbox}.*"), queue: None, limit: 1024, listens: false };
        let client = "mesh-provisioner command".to_owned();
        let link = Link::open(Arc::new(settings), servers, client, vec![replies])
            .map_err(|error| format!("no thread can be started: {error}"))?;
        match link.life().recv_timeout(CONNECT) {
            Ok(Life::Up(mut up)) => {
                let replies = up.messages.remove(0);
                Ok(Caller { link, server: up.server, inbox, replies, protests: VecDeque::new(), calls: 0 })
            }
            Ok(Life::Down(why)) => Err(why),
            Ok(_) => Err("the connection ended before it was up".to_owned()),
            Err(_) => Err(format!("no server took the connection within {} s", CONNECT.as_secs())),
        }
    }

    /// The server in words.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request and waits for its first answer.
    pub fn call(
        &mut self,
        subject: &str,
        headers: Headers,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Delivery, CallError> {
        self.calls += 1;
        let reply = format!("{}.{}", self.inbox, self.calls);
        let request = Outgoing { subject: subject.to_owned(), reply: Some(reply.clone()), headers, body };
        if !self.link.publish(request) {
            return Err(CallError::Lost("the connection takes nothing".to_owned()));
        }
        let until = Instant::now() + within;
        loop {
            select! {
                recv(self.replies) -> message => match message.map(Delivery::from) {
                    Ok(answer) if answer.subject != reply => {}
                    Ok(answer) if answer.no_responders => return Err(CallError::NoResponders),
                    Ok(answer) => return Ok(answer),
                    Err(_) => return Err(CallError::Lost("the subscription ended".to_owned())),
                },
                recv(self.link.protests()) -> words => if let Ok(words) = words {
                    if words.contains("Permissions Violation") && words.contains(&format!("{subject:?}")) {
                        return Err(CallError::Denied(words));
                    }
                    self.protests.push_back(words);
                },
                recv(self.link.life()) -> life => if let Ok(Life::Down(why)) = life {
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
