//! What the bus answers, and what becomes of it on its way to the seat.

use super::{Happening, Off, Verdict, World};
use crate::batch::DIRECT_GET;
use mesh_jetstream::message::Outgoing;
use mesh_provisioner::seat::Event;
use mesh_testing::jetstream;
use std::time::Duration;

impl World<'_> {
    pub(super) fn delay(&mut self) -> Duration {
        let usual = self.dice.within(3);
        let delays = self.dice.chance(self.faults.delay);
        usual + if delays { self.dice.within(self.faults.longest_delay) } else { Duration::ZERO }
    }

    pub(super) fn at_bus(&mut self, link: u64, message: &Outgoing) -> Verdict<()> {
        if self.dice.chance(self.faults.lose_request) {
            return Ok(());
        }
        let number = message.reply.as_deref().and_then(|reply| reply.rsplit('.').next());
        let call: u64 = number.and_then(|number| number.parse().ok()).ok_or("no number")?;
        if message.subject.starts_with(DIRECT_GET) {
            return self.batch_at_bus(link, call, message);
        }
        let event = |body: Vec<u8>| Event::Reply { call, no_responders: false, body };
        let silent = Event::Reply { call, no_responders: true, body: Vec::new() };
        let answer = if self.dice.chance(self.faults.deny) {
            Event::ServerError(format!("Permissions Violation for Publish to \"{}\"", message.subject))
        } else if self.dice.chance(self.faults.refuse) {
            event(jetstream::error(503, 10008, "system temporarily unavailable"))
        } else {
            match self.off {
                Some(Off::Stream) => event(jetstream::error(404, 10059, "stream not found")),
                Some(Off::Account) => event(jetstream::error(503, 10039, "not enabled for account")),
                Some(Off::Server) => silent,
                None => match self.bus.answer(message)? {
                    Some(body) if self.dice.chance(self.faults.garble) => {
                        let cut = self.dice.below(body.len());
                        event(
                            self.dice
                                .pick(&[body[..cut].to_vec(), b"garbage".to_vec(), b"{}".to_vec()])
                                .clone(),
                        )
                    }
                    Some(body) => event(body),
                    None => silent,
                },
            }
        };
        if self.dice.chance(self.faults.lose_answer) {
            return Ok(());
        }
        if self.dice.chance(self.faults.repeat) {
            let at = self.now + self.delay();
            self.queue(at, Happening::AtSeat(link, answer.clone()));
        }
        let at = self.now + self.delay();
        self.queue(at, Happening::AtSeat(link, answer));
        Ok(())
    }
}
