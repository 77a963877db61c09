//! The connection for reads in bulk, and what comes over it.

use super::{Happening, Verdict, World};
use crate::batch::{self, DIRECT_GET};
use crate::faults::Trouble;
use mesh_jetstream::direct_get::Part;
use mesh_jetstream::message::Outgoing;
use mesh_provisioner::seat::Event;

/// The connection for reads in bulk.
#[derive(Debug)]
pub(super) struct Line {
    /// The number of the one that there is.
    pub(super) up: Option<u64>,
    pub(super) attempting: bool,
    /// Whether a server ever gives one.
    pub(super) is_ever_given: bool,
}

impl World<'_> {
    pub(super) fn connect_bulk(&mut self) -> Verdict<()> {
        if self.bulk.attempting || self.bulk.up.is_some() || self.link.is_none() {
            return Err("it wants a connection for reads in bulk out of turn".to_owned());
        }
        self.bulk.attempting = true;
        // Mostly within the time that a question waits for it.
        let longest = *self.dice.pick(&[20, 20, 20, 3_000]);
        let at = self.now + self.dice.within(longest);
        self.queue(at, Happening::BulkAttempt);
        Ok(())
    }

    pub(super) fn bulk_attempt_ends(&mut self) -> Verdict<()> {
        self.bulk.attempting = false;
        if !self.bulk.is_ever_given || self.dice.chance(self.faults.no_bulk_connection) {
            return self.tell(Event::BulkDown { why: "refused".to_owned() });
        }
        self.links += 1;
        self.bulk.up = Some(self.links);
        self.tell(Event::BulkUp)
    }

    pub(super) fn bulk_breaks(&mut self, which: Option<u64>) -> Verdict<()> {
        if self.bulk.up.is_none() || which.is_some() && which != self.bulk.up {
            return Ok(());
        }
        self.bulk.up = None;
        self.tally.bulk_breaks += 1;
        self.tell(Event::BulkDown { why: "the connection broke".to_owned() })
    }

    pub(super) fn sent_in_bulk(&mut self, message: Outgoing) -> Verdict<()> {
        if !message.subject.starts_with(DIRECT_GET) {
            return Err(format!("it sends to {:?} over the connection for reads in bulk", message.subject));
        }
        if message.payload_bytes() > self.max_payload {
            return Err(format!("{} bytes to {:?}", message.payload_bytes(), message.subject));
        }
        let reply = message.reply.as_deref().unwrap_or_default();
        if !reply.starts_with("_INBOX_mesh.provisioner.SECRET.") {
            return Err(format!("it wants an answer in bulk at {reply:?}"));
        }
        let Some(bulk) = self.bulk.up else {
            return Err(format!("it reads {:?} without a connection for that", message.subject));
        };
        self.awaited.sent(&message, self.now)?;
        let at = self.now + self.delay();
        self.queue(at, Happening::AtBus(bulk, message));
        Ok(())
    }

    /// The answer to a batch: its messages, one behind the other, as far as trouble leaves them.
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
            Some(Trouble::Breaks) => answer.insert(at, Happening::BulkBreak(Some(link))),
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
