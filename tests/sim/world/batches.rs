//! The replies to bulk reads.

use super::{Happening, Verdict, World};
use crate::batch;
use crate::faults::Trouble;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::message::Outgoing;
use mesh_provisioner::seat::Event;

impl World<'_> {
    /// The answer to a batch: its messages, one after the other, as far as trouble leaves them.
    pub(super) fn batch_at_bus(&mut self, link: u64, call: u64, request: &Outgoing) -> Verdict<()> {
        let part = |part| Happening::AtSeat(link, Event::Part { call, part });
        let silent = || Happening::AtSeat(link, Event::Reply { call, no_responders: true, body: Vec::new() });
        let faults = &self.faults;
        let trouble = self.dice.chance(faults.batch_trouble).then(|| *self.dice.pick(&faults.troubles));
        let mut known = self.bus.step;
        if trouble == Some(Trouble::Lagging) {
            known = known.saturating_sub(self.dice.roll() % *self.dice.pick(&[20, known + 1]));
        }
        let arrivals = batch::answer(&self.bus, request, known, self.batch_bytes)?;
        let (at, other) = (self.dice.below(arrivals.len()), self.dice.below(arrivals.len()));
        let mut answer: Vec<Happening> = arrivals.into_iter().map(part).collect();
        match trouble {
            _ if self.off.is_some() => answer = vec![silent()],
            None | Some(Trouble::Lagging) => {}
            Some(Trouble::NobodyThere) => answer = vec![silent()],
            Some(Trouble::Refused) => answer = vec![part(Part::Unusable("408 Empty Request".to_owned()))],
            Some(Trouble::Denied) => {
                let words = format!("Permissions Violation for Publish to \"{}\"", request.subject);
                answer = vec![Happening::AtSeat(link, Event::ServerError(words))];
            }
            Some(Trouble::Silent) => answer.clear(),
            Some(Trouble::Lost) => drop(answer.remove(at)),
            Some(Trouble::Reordered) => answer.swap(at, other),
            Some(Trouble::Repeated) => answer.insert(other, answer[at].clone()),
            Some(Trouble::Breaks) => answer.insert(at, Happening::Break(Some(link))),
        }
        let mut when = self.now + self.delay();
        for happening in answer {
            self.queue(when, happening);
            when += self.dice.within(1);
            if self.dice.chance(self.faults.delay) {
                when += self.dice.within(self.faults.longest_delay);
            }
        }
        Ok(())
    }

    /// Counts what proves that buckets are read in bulk.
    pub(super) fn count(&mut self, event: &Event) {
        if let Event::Part { part: Part::End { up_to, .. }, .. } = event {
            match up_to {
                Some(_) => self.tally.batches += 1,
                None => self.tally.followed += 1,
            }
        }
    }
}
