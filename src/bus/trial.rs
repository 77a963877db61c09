//! Trying what an account may do on the bus: subscriptions that are given up at once, and publishes that wait for the
//! bus's protest instead of an answer.

use super::caller::{await_up, denies};
use super::nats::{Delivery, Link, Message, Subscribe};
use crate::config::Connection;
use crate::wire::Outgoing;
use crossbeam_channel::Receiver;
use std::sync::Arc;
use std::time::Duration;

/// How long the bus may take to say what it denies.
const SETTLE: Duration = Duration::from_secs(5);

/// How long the last messages may take to leave.
const CLOSE: Duration = Duration::from_secs(1);

/// How many messages a tried subscription may catch; the bus keeps the rest for others or drops them.
const CAUGHT: usize = 256;

/// A connection that tries rights.
#[derive(Debug)]
pub struct Trial {
    link: Link,
    server: String,
    protests: Vec<String>,
    messages: Vec<Receiver<Message>>,
}

impl Trial {
    /// Connects, and subscribes to each of `subjects` (with its queue group) for a moment. The error is words for
    /// people.
    pub fn open(
        settings: Connection,
        subjects: impl IntoIterator<Item = (String, Option<&'static str>)>,
    ) -> Result<Trial, String> {
        let servers = settings.servers.clone();
        let subscribe = subjects.into_iter().map(|(subject, queue)| Subscribe {
            subject,
            queue,
            limit: CAUGHT,
            listens: true,
        });
        let client = "mesh-provisioner check".to_owned();
        let link = Link::open(Arc::new(settings), servers, client, subscribe.collect())
            .map_err(|error| format!("no thread can be started: {error}"))?;
        let up = await_up(&link)?;
        link.stop_listening();
        if !link.settle(SETTLE) {
            return Err("the server gave no answer in time".to_owned());
        }
        let protests = link.protests().try_iter().collect();
        Ok(Trial { link, server: up.server, protests, messages: up.messages })
    }

    /// The server in words.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The bus's words if it denied the subscription of `subject`.
    pub fn denied_subscription(&self, subject: &str) -> Option<&str> {
        self.protests.iter().map(String::as_str).find(|words| denies(words, subject))
    }

    /// What came while the subscriptions were there.
    pub fn caught(&self) -> impl Iterator<Item = Delivery> {
        self.messages.iter().flat_map(Receiver::try_iter).map(Delivery::from)
    }

    /// Publishes a message. The error is the bus's words if it denies that, or says that the connection is gone.
    pub fn publish(&self, message: Outgoing) -> Result<(), String> {
        let subject = message.subject.clone();
        if !self.link.publish(message) || !self.link.settle(SETTLE) {
            return Err("the connection broke".to_owned());
        }
        self.link.protests().try_iter().find(|words| denies(words, &subject)).map_or(Ok(()), Err)
    }

    /// Ends the connection.
    pub fn close(self) {
        self.link.close(CLOSE);
    }
}
