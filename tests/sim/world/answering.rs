//! What the bus answers, and what becomes of it on its way to the seat.

use super::{Happening, Off, Verdict, World};
use crate::batch::{self, Arrival, DIRECT_GET};
use crate::faults::Trouble;
use crate::jetstream;
use mesh_provisioner::seat::Event;
use mesh_provisioner::wire::Outgoing;
use mesh_provisioner::wire::direct::Part;
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
        let event = |body: Vec<u8>| Event::Answer { call, no_responders: false, body };
        let silent = Event::Answer { call, no_responders: true, body: Vec::new() };
        let answer = if self.dice.chance(self.faults.deny) {
            Event::Protest(format!("Permissions Violation for Publish to \"{}\"", message.subject))
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

    /// The answer to a batch: its messages, one behind the other, as far as trouble leaves them.
    fn batch_at_bus(&mut self, link: u64, call: u64, request: &Outgoing) -> Verdict<()> {
        let part = |part| Happening::AtSeat(link, Event::Part { call, part });
        let silent =
            || Happening::AtSeat(link, Event::Answer { call, no_responders: true, body: Vec::new() });
        let faults = &self.faults;
        let trouble = self.dice.chance(faults.batch_trouble).then(|| *self.dice.pick(&faults.troubles));
        let mut known = self.bus.step;
        if trouble == Some(Trouble::Lagging) {
            known = self.dice.roll() % (known + 1);
        }
        let arrivals = batch::answer(&self.bus, request, known, self.batch_bytes)?;
        let (at, other) = (self.dice.below(arrivals.len()), self.dice.below(arrivals.len()));
        let mut answer: Vec<Happening> = arrivals
            .into_iter()
            .map(|arrival| match arrival {
                Arrival::Part(arrived) => part(arrived),
                Arrival::Breaks => Happening::Break(Some(link)),
            })
            .collect();
        match trouble {
            _ if self.off.is_some() => answer = vec![silent()],
            None | Some(Trouble::Lagging) => {}
            Some(Trouble::NobodyThere) => answer = vec![silent()],
            Some(Trouble::Refused) => answer = vec![part(Part::Void("408 Empty Request".to_owned()))],
            Some(Trouble::Denied) => {
                let words = format!("Permissions Violation for Publish to \"{}\"", request.subject);
                answer = vec![Happening::AtSeat(link, Event::Protest(words))];
            }
            Some(Trouble::Silent) => answer.clear(),
            Some(Trouble::Lost) => drop(answer.remove(at)),
            Some(Trouble::Reordered) => answer.swap(at, other),
            Some(Trouble::Repeated) => answer.insert(other, answer[at].clone()),
            Some(Trouble::Breaks) => answer.insert(at, Happening::Break(Some(link))),
        }
        let mut when = self.now;
        for happening in answer {
            when += self.delay();
            self.queue(when, happening);
        }
        Ok(())
    }
}
