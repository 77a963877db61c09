//! Tests what an account may do: subscriptions, and publishes that wait for an error of the server instead of a
//! response.

use crate::client::{await_up, denies};
use crate::config::BusConfig;
use crate::message::Incoming;
use crate::nats::{Link, Message, Subscribe};
use crossbeam_channel::{Receiver, Select};
use mesh_jetstream::message::Outgoing;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the server may take to report a denial.
const SETTLE: Duration = Duration::from_secs(5);

/// How long the last messages may take to leave.
const CLOSE: Duration = Duration::from_secs(1);

/// How many messages may wait on each subscription.
const LIMIT: usize = 256;

/// A connection that tests permissions.
#[derive(Debug)]
pub struct RightsProbe {
    link: Link,
    server: String,
    server_errors: Vec<String>,
    messages: Vec<Receiver<Message>>,
}

impl RightsProbe {
    /// Connects as `name`, and subscribes to each of `subjects` (with its queue group). The error is text for people.
    pub fn open(
        settings: BusConfig,
        name: &str,
        subjects: impl IntoIterator<Item = (String, Option<&'static str>)>,
    ) -> Result<RightsProbe, String> {
        let servers = settings.servers.clone();
        let subscribe = subjects.into_iter().map(|(subject, queue)| Subscribe {
            subject,
            queue,
            limit: LIMIT,
            listens: false,
        });
        let link = Link::open(Arc::new(settings), servers, name.to_owned(), None, subscribe.collect())
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let up = await_up(&link)?;
        // A denial arrives before the reply to the flush that completes the connection.
        let server_errors = link.server_errors().try_iter().collect();
        Ok(RightsProbe { link, server: up.server, server_errors, messages: up.messages })
    }

    /// The server, as text for people.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The server's text if it denied the subscription of `subject`.
    pub fn denied_subscription(&self, subject: &str) -> Option<&str> {
        self.server_errors.iter().map(String::as_str).find(|words| denies(words, subject))
    }

    /// Waits at most `within` for a message that `wanted` accepts, on any subscription.
    pub fn hear<T>(&self, within: Duration, mut wanted: impl FnMut(Incoming) -> Option<T>) -> Option<T> {
        let until = Instant::now() + within;
        let mut select = Select::new();
        for messages in &self.messages {
            select.recv(messages);
        }
        loop {
            let ready = select.select_deadline(until).ok()?;
            let messages = &self.messages[ready.index()];
            let heard = ready.recv(messages).ok()?;
            if let Some(found) = wanted(Incoming::from(heard)) {
                return Some(found);
            }
        }
    }

    /// Publishes a message. The error is the server's text if it denies the publish, or reports that the connection
    /// is lost.
    pub fn publish(&self, message: Outgoing) -> Result<(), String> {
        let subject = message.subject.clone();
        if !self.link.publish(message) || !self.link.settle(SETTLE) {
            return Err("the connection broke".to_owned());
        }
        self.link.server_errors().try_iter().find(|words| denies(words, &subject)).map_or(Ok(()), Err)
    }

    /// Ends the connection.
    pub fn close(self) {
        self.link.close(CLOSE);
    }
}
