//! The connections of a program: the one that serves, the one that is being made, and what replaced ones still deliver.

use crate::event::Subscription;
use crossbeam_channel::{Receiver, never};
use log::warn;
use mesh_bus::config::BusConfig;
use mesh_bus::config::address::Address;
use mesh_bus::gate::Cluster;
use mesh_bus::message::Reply;
use mesh_bus::nats::{Aside, Inbox, Link, Message, Subscribe};
use mesh_jetstream::message::Outgoing;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How many replies may wait for the loop. Their bytes are bounded by the link.
pub const MAX_UNTAKEN_REPLIES: usize = 48 * 1024;

/// How long a replaced connection may still deliver requests. A nats-server in lame duck mode closes its connections
/// within 130 s by default.
const STEPPING_ASIDE: Duration = Duration::from_secs(180);

/// How many responses are kept for the next connection.
const MAX_HELD: usize = 1024;

/// How many servers of the cluster are remembered, and how many that could not be read.
const MAX_SERVERS: usize = 64;

/// A connection that serves, and what it brings.
pub(crate) struct Serving {
    pub(crate) link: Link,
    pub(crate) replies: Receiver<Reply>,
    /// In the order of the subscriptions.
    pub(crate) requests: Vec<Receiver<Message>>,
    /// How many of those may still bring something.
    pub(crate) open: usize,
}

/// What a replaced connection still delivers, until it is closed.
pub(crate) struct Leaving {
    /// The position of the subscription.
    pub(crate) place: usize,
    pub(crate) requests: Receiver<Message>,
    /// The connection, if it was replaced by another one and not lost.
    pub(crate) aside: Option<Aside>,
}

/// What a server says while its connection is not up yet.
#[derive(Default)]
pub(crate) struct Early {
    pub(crate) cluster: Option<Cluster>,
    /// It is about to shut down.
    pub(crate) is_lame: bool,
}

/// All connections.
pub(crate) struct Links {
    settings: Arc<BusConfig>,
    client: String,
    pub(crate) serving: Option<Serving>,
    pub(crate) attempt: Option<Link>,
    /// What the server of the attempt said before that was up.
    pub(crate) early: Early,
    pub(crate) leaving: Vec<Leaving>,
    subscriptions: Vec<Subscription>,
    /// All known servers: those configured, then those that the cluster reported.
    servers: Vec<Address>,
    /// Servers that the cluster reported and that are not addresses.
    odd_servers: Vec<String>,
    attempts: usize,
    /// Responses that were finished without a connection.
    held: VecDeque<Outgoing>,
}

impl Links {
    pub(crate) fn new(settings: BusConfig, client: String) -> Self {
        Links {
            servers: settings.servers.clone(),
            settings: Arc::new(settings),
            client,
            serving: None,
            attempt: None,
            early: Early::default(),
            leaving: Vec::new(),
            subscriptions: Vec::new(),
            odd_servers: Vec::new(),
            attempts: 0,
            held: VecDeque::new(),
        }
    }

    /// Starts an attempt, unless one is under way.
    pub(crate) fn connect(
        &mut self,
        inbox: String,
        deliveries: usize,
        subscriptions: Vec<Subscription>,
    ) -> io::Result<()> {
        if self.attempt.is_some() {
            return Ok(());
        }
        // Each attempt starts with another server, so that one that always fails late does not block the others.
        let mut servers = self.servers.clone();
        servers.rotate_left(self.attempts % self.servers.len());
        self.attempts += 1;
        let inbox = Inbox { prefix: inbox, limit: MAX_UNTAKEN_REPLIES, deliveries };
        self.subscriptions.clone_from(&subscriptions);
        let subscribe =
            |Subscription { subject, queue, limit }| Subscribe { subject, queue, limit, listens: true };
        let subscribe = subscriptions.into_iter().map(subscribe).collect();
        let settings = Arc::clone(&self.settings);
        self.early = Early::default();
        self.attempt = Some(Link::open(settings, servers, self.client.clone(), Some(inbox), subscribe)?);
        Ok(())
    }

    /// Makes the attempt the connection that serves. The one before steps aside.
    pub(crate) fn attempt_is_up(&mut self, replies: Receiver<Reply>, requests: Vec<Receiver<Message>>) {
        let Some(link) = self.attempt.take() else { return };
        // A server that is about to shut down sends requests over the old connection until it closes it.
        let before = self.leaving.len();
        if let Some(old) = self.retire() {
            let aside = old.step_aside(STEPPING_ASIDE);
            self.leaving[before..].iter_mut().for_each(|leaving| leaving.aside = Some(aside.clone()));
        }
        let open = requests.len();
        self.serving = Some(Serving { link, replies, requests, open });
    }

    /// Takes the connection that serves out of service; its queue groups still deliver.
    pub(crate) fn retire(&mut self) -> Option<Link> {
        let Serving { link, requests, .. } = self.serving.take()?;
        for (place, requests) in requests.into_iter().enumerate() {
            if self.subscriptions.get(place).is_some_and(|made| made.queue.is_some()) {
                self.leaving.push(Leaving { place, requests, aside: None });
            }
        }
        Some(link)
    }

    /// Passes a message to the connection; `false` if it is dropped. Without a connection a response is kept for the
    /// next one, because the client may still wait for it; a machine sends its own calls again anyway.
    pub(crate) fn send(&mut self, message: Outgoing) -> bool {
        match &self.serving {
            Some(Serving { link, .. }) => link.publish(message),
            None if message.reply.is_none() && self.held.len() < MAX_HELD => {
                self.held.push_back(message);
                true
            }
            None => false,
        }
    }

    /// Sends what was kept for a connection; how many messages were dropped.
    pub(crate) fn send_held(&mut self) -> u64 {
        let held = std::mem::take(&mut self.held);
        held.into_iter().map(|message| u64::from(!self.send(message))).sum()
    }

    /// A subscription of the connection that serves ended. Its receiver would be ready forever.
    pub(crate) fn forget(&mut self, place: usize) {
        let Some(serving) = &mut self.serving else { return };
        if let Some(requests) = serving.requests.get_mut(place) {
            *requests = never();
            serving.open = serving.open.saturating_sub(1);
        }
    }

    /// Notes the other servers of the cluster in place of those that were noted before, which may have left it: each attempt
    /// tries all servers. A server may name none although there are some. One that cannot be read is reported once.
    pub(crate) fn learn(&mut self, cluster: Cluster) {
        if !cluster.servers.is_empty() {
            self.servers.truncate(self.settings.servers.len());
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_bus::config::{self, Flags};

    #[test]
    fn servers_that_left_the_cluster_are_not_tried_for_ever() {
        let flags = Flags { server: Some("a,b".to_owned()), ..Flags::default() };
        let mut links = Links::new(config::load(&flags, &|_| None).unwrap(), "client".to_owned());
        let named = |hosts: &[&str]| Cluster {
            servers: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            odd: Vec::new(),
        };
        let known = |links: &Links| -> Vec<String> {
            links.servers.iter().map(|server| server.host.clone()).collect()
        };
        links.learn(named(&["a", "c", "d"]));
        assert_eq!(known(&links), ["a", "b", "c", "d"]);
        links.learn(named(&["d", "e"]));
        assert_eq!(known(&links), ["a", "b", "d", "e"]);
        links.learn(named(&[]));
        assert_eq!(known(&links), ["a", "b", "d", "e"], "a server may name none at all");
    }
}
