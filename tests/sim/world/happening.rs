//! What happens in a run, and what comes of it.

use super::{Verdict, World};
use mesh_jetstream::message::Outgoing;
use mesh_model::bucket::Bucket;
use mesh_provisioner::seat::Event;
use mesh_provisioner_api::request::Ask;
use std::time::Duration;

/// What is going to happen.
#[derive(Debug, Clone)]
pub(super) enum Happening {
    /// A message of the seat reaches the bus; it belongs to the connection of this number.
    AtBus(u64, Outgoing),
    /// Something reaches the seat over the connection of this number.
    AtSeat(u64, Event),
    /// An attempt to connect ends.
    Attempt,
    /// The connection breaks: the one of this number, or whichever there is.
    Break(Option<u64>),
    /// `JetStream` is off from now on, or on again.
    Off(Option<Off>),
    RegistryWrite,
    NodeWrite,
    /// A bucket is copied.
    Backup,
    /// A bucket becomes what it was when it was copied, or it is empty.
    Restore,
    /// The registry is purged, or made again.
    Purge(bool),
    /// The newest write of a bucket goes.
    NewestExpires,
    Ask,
    /// Whoever got a page over the connection of this number asks for the next one.
    Follow(u64, Ask),
    Strange,
    Tell(Event),
    /// The machine sleeps so long; nobody notices before.
    Sleep(Duration),
    ClockStep,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Off {
    Stream,
    Account,
    Server,
}

impl World<'_> {
    pub(super) fn happens(&mut self, happening: Happening) -> Verdict<()> {
        match happening {
            Happening::AtBus(link, message) => {
                // What was on its way when the connection broke has arrived, or it has not.
                if self.link != Some(link) && self.dice.chance(500) {
                    return Ok(());
                }
                self.at_bus(link, &message)
            }
            Happening::AtSeat(link, event) => {
                if self.link == Some(link) {
                    self.tell(event)
                } else {
                    Ok(())
                }
            }
            Happening::Attempt => self.attempt_ends(),
            Happening::Break(which) => self.breaks(which),
            Happening::Off(off) => {
                self.off = off;
                Ok(())
            }
            Happening::RegistryWrite => {
                self.registry_write();
                Ok(())
            }
            Happening::NodeWrite => {
                self.node_write();
                Ok(())
            }
            Happening::Backup => {
                self.backup();
                Ok(())
            }
            Happening::Restore => {
                self.restore();
                Ok(())
            }
            Happening::Purge(is_made_anew) => {
                let step = self.bus.step;
                // No write of the time after has the time of one before.
                self.bus.clock += 1 + self.dice.roll() % 1_000_000_000;
                self.bus.stream(Bucket::Registry).purge(is_made_anew, step);
                Ok(())
            }
            Happening::NewestExpires => {
                self.newest_expires();
                Ok(())
            }
            Happening::Ask => {
                let ask = self.write_beside();
                self.ask(ask)
            }
            Happening::Follow(link, ask) => {
                if self.link == Some(link) {
                    self.ask(Some(ask))
                } else {
                    Ok(())
                }
            }
            Happening::Strange => self.strange(),
            Happening::Tell(event) => {
                if let Event::MaxPayload(bytes) = event {
                    self.max_payload = bytes;
                }
                if self.link.is_some() || event == Event::Reload { self.tell(event) } else { Ok(()) }
            }
            Happening::Sleep(length) => {
                self.now += length;
                self.woke = self.now;
                // Whatever was to be noticed meanwhile is noticed now, in its order.
                let asleep: Vec<(Duration, u64)> =
                    self.queue.range(..(self.now, 0)).map(|(place, _)| *place).collect();
                for place in asleep {
                    let happening = self.queue.remove(&place).expect("it is there");
                    self.queue.insert((self.now, place.1), happening);
                }
                Ok(())
            }
            Happening::ClockStep => {
                self.bus.clock = self.dice.roll() >> 8;
                Ok(())
            }
        }
    }
}
