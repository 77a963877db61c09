//! The connection for reads in bulk. It serves nobody, so it may come and go.

use super::Shell;
use crate::seat::Event;
use crate::wire::SERVICE;
use crossbeam_channel::Receiver;
use log::debug;
use mesh_bus::nats::{Link, LinkEvent, Message, Subscribe};
use mesh_daemon::exit::Exit;
use mesh_jetstream::message::Outgoing;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How many messages may wait for the loop: of each bucket what one request may bring, and as many as come late.
const MAX_UNTAKEN_PARTS: usize = 32 * 1024;

/// The connection for reads in bulk, or the attempt to make it.
pub(super) struct Bulk {
    pub(super) link: Link,
    /// The answers, once it is up.
    pub(super) messages: Option<Receiver<Message>>,
}

impl Shell {
    pub(super) fn connect_bulk(&mut self) -> ControlFlow<Exit> {
        let answers = Subscribe {
            subject: format!("{}.*", self.seat.bulk_inbox()),
            queue: None,
            limit: MAX_UNTAKEN_PARTS,
            listens: false,
        };
        let client = format!("{SERVICE} {} in bulk", self.identity.id);
        match Link::open(Arc::clone(&self.connection), self.rotated(), client, vec![answers]) {
            Ok(link) => {
                self.bulk = Some(Bulk { link, messages: None });
                ControlFlow::Continue(())
            }
            Err(error) => self.handle(Event::BulkDown { why: format!("no thread can be started: {error}") }),
        }
    }

    pub(super) fn bulk_became(&mut self, life: LinkEvent) -> ControlFlow<Exit> {
        match life {
            LinkEvent::Up(up) => {
                let Some(bulk) = &mut self.bulk else { return ControlFlow::Continue(()) };
                bulk.messages = up.messages.into_iter().next();
                self.handle(Event::BulkUp)
            }
            LinkEvent::MaxPayload(_) => ControlFlow::Continue(()),
            LinkEvent::LameDuck => self.bulk_ended("the server is about to shut down".to_owned()),
            LinkEvent::Down(why) => self.bulk_ended(why),
        }
    }

    /// Hands a message to it. The seat gives up one that is lost in time, and reads in another way.
    pub(super) fn send_bulk(&self, message: Outgoing) {
        let sent = self.bulk.as_ref().is_some_and(|Bulk { link, .. }| link.publish(message));
        if !sent {
            debug!("a read in bulk could not be sent");
        }
    }

    fn bulk_ended(&mut self, why: String) -> ControlFlow<Exit> {
        self.bulk = None;
        self.handle(Event::BulkDown { why })
    }

    pub(super) fn look_after_bulk(&mut self) -> ControlFlow<Exit> {
        let Some(Bulk { link, .. }) = &self.bulk else { return ControlFlow::Continue(()) };
        if link.is_dead() {
            return self.bulk_ended("the server gave no answer in time".to_owned());
        }
        ControlFlow::Continue(())
    }
}
