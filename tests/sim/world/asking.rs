//! The askers: what they ask, and whether each gets one true answer in time.

use super::{Verdict, Waiting, World};
use crate::judge;
use crate::world::{Happening, SLICE};
use mesh_jetstream::message::Outgoing;
use mesh_model::provisioner::VERB;
use mesh_provisioner::seat::Event;
use mesh_provisioner_api::PROVISIONING;
use mesh_provisioner_api::request::{Ask, What};
use mesh_service::identity::Identity;
use mesh_testing::dice::Dice;
use std::time::Duration;

/// The longest wait of an asker.
const ANSWERED: Duration = Duration::from_secs(4);

/// After so long a sleep buckets that were read one by one for a while are read in bulk again.
const IN_BULK_AGAIN: Duration = Duration::from_secs(16 * 60);

/// How long after that all is settled.
const RESTED: Duration = Duration::from_secs(10);

impl World<'_> {
    pub(super) fn ask(&mut self, ask: Option<Ask>) -> Verdict<()> {
        if self.link.is_none() {
            return Ok(());
        }
        let ask = ask.unwrap_or_else(|| self.any_ask());
        let reply = self.next_reply();
        let event = request(&reply, ask.to_json());
        self.waits(reply, Some(ask), self.bus.step);
        self.tell(event)
    }

    pub(super) fn any_ask(&mut self) -> Ask {
        let mut ask = Ask::new(*self.dice.pick(&of_the_buckets()));
        let name = |dice: &mut Dice, pool: &[&str]| dice.chance(250).then(|| (*dice.pick(pool)).to_owned());
        if ask.what != What::Registry {
            ask.node = name(&mut self.dice, &["n1", "n 2", "*", ">"]);
            ask.module = name(&mut self.dice, &["web", "$x"]);
        }
        if matches!(ask.what, What::Needs | What::Registry) {
            ask.kind = name(&mut self.dice, &["port", "odd kind"]);
        }
        if ask.what == What::Collect {
            ask.collection = name(&mut self.dice, &["http", "x.y"]);
        }
        let most = if self.is_large { 500 } else { 5 };
        ask.limit = self.dice.chance(300).then(|| 1 + self.dice.below(most));
        ask
    }

    /// A request that is invalid, or whose answer nobody may see.
    pub(super) fn strange(&mut self) -> Verdict<()> {
        if self.link.is_none() {
            return Ok(());
        }
        let reply = self.next_reply();
        let long = format!("{{\"{}\":1}}", "\u{7f}".repeat(60_000));
        let event = match self.dice.below(6) {
            0 => request("$KV.mesh-provisioner_registry.port", String::new()),
            1 => Event::Request { subject: VERB.to_owned(), reply: None, body: Vec::new() },
            2 => {
                let other = Identity { id: "SEAT2".to_owned(), version: "0.1.0".to_owned() };
                let (subject, body) = (PROVISIONING.ping_subject(), PROVISIONING.ping(&other).into_bytes());
                let reply = format!("_INBOX_mesh.provisioner.SEAT2.{}", self.asked);
                self.waits(reply.clone(), None, 0);
                Event::Request { subject, reply: Some(reply), body }
            }
            at => {
                let body = [long.as_str(), "nonsense", r#"{"what":"health"}"#][at - 3];
                self.waits(reply.clone(), None, 0);
                request(&reply, body.to_owned())
            }
        };
        self.tell(event)
    }

    pub(super) fn next_reply(&mut self) -> String {
        self.asked += 1;
        format!("_INBOX.{}", self.asked)
    }

    pub(super) fn waits(&mut self, reply: String, ask: Option<Ask>, from: u64) {
        self.in_order.push_back((self.now, reply.clone()));
        self.waiting.insert(reply, Waiting { ask, from });
    }

    pub(super) fn nobody_waits_too_long(&mut self) -> Verdict<()> {
        while let Some((since, reply)) = self.in_order.front() {
            if !self.waiting.contains_key(reply) {
                self.in_order.pop_front();
            } else if self.now > (*since + ANSWERED).max(self.woke) + SLICE {
                return Err(format!("{reply} waits since {since:?}: {:?}", self.waiting[reply].ask));
            } else {
                break;
            }
        }
        Ok(())
    }

    /// An answer of the seat to somebody.
    pub(super) fn answered(&mut self, message: &Outgoing) -> Verdict<()> {
        let Some(waiting) = self.waiting.remove(&message.subject) else {
            return Err(format!("an answer to {:?}, who waits for none", message.subject));
        };
        let is_error = message.headers.iter().any(|(name, _)| *name == "Nats-Service-Error-Code");
        let Some(ask) = waiting.ask else { return Ok(()) };
        if is_error {
            self.tally.errors += 1;
            self.last_error = format!("{ask:?}: {}", String::from_utf8_lossy(message.body.as_ref()));
            return Ok(());
        }
        self.tally.pages += 1;
        let judged = if matches!(ask.what, What::Drift | What::Nodes | What::Collections) {
            self.tally.surveys += 1;
            judge::survey(&mut self.bus, &ask, waiting.from, &message.body)
        } else {
            judge::page(&mut self.bus, &ask, waiting.from, &message.body)
        };
        let next = judged.map_err(|why| format!("{ask:?}, asked at step {}: {why}", waiting.from))?;
        if next.is_some()
            && self.stopping.is_none()
            && let Some(link) = self.link
        {
            self.queue(self.now, Happening::Follow(link, Ask { after: next, ..ask }));
        }
        Ok(())
    }

    /// Asks everything, and once more after some writes; with nothing in the way every answer is good, and nothing
    /// breaks the connection.
    pub(super) fn ask_everything(&mut self) -> Verdict<()> {
        if self.dice.chance(500) {
            self.happens(Happening::Sleep(IN_BULK_AGAIN))?;
            self.until(self.now + RESTED)?;
        }
        for _ in 0..4 {
            let (errors, link) = (self.tally.errors, self.link);
            for what in of_the_buckets() {
                self.ask(Some(Ask::new(what)))?;
            }
            // Nobody waits too long, and pages get on, so this ends.
            while !self.waiting.is_empty() {
                self.until(self.now + Duration::from_secs(1))?;
            }
            if self.link != link || link.is_none() {
                return Err("the connection broke with nothing in the way".to_owned());
            }
            let health = self.seat.health(self.now);
            if !health.ready {
                return Err(format!("it is not ready with nothing in the way: {:?}", health.missing));
            }
            if self.tally.errors > errors {
                return Err(format!("an error answer with nothing in the way: {}", self.last_error));
            }
            if self.dice.chance(300) {
                self.restore();
            }
            if self.dice.chance(300) {
                self.backup();
            }
            for _ in 0..self.dice.below(4) {
                self.node_write();
            }
            if self.dice.chance(400) {
                self.expire_one();
            }
            if self.dice.chance(200) {
                self.newest_expires();
            }
        }
        Ok(())
    }
}

/// What is answered from the buckets.
fn of_the_buckets() -> Vec<What> {
    What::ALL.into_iter().filter(|what| *what != What::Health).collect()
}

fn request(reply: &str, body: String) -> Event {
    Event::Request { subject: VERB.to_owned(), reply: Some(reply.to_owned()), body: body.into_bytes() }
}
