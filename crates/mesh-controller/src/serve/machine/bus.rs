//! What comes over the bus: the connection itself, the followed buckets, the outcomes of writes.

use super::{Action, Actions, Backoff, Call, Controller, Level, Link, RECONNECT, Topic};
use crate::serve::task::{Place, Report};
use crate::store::sent::Bucket;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::kv::{self, WriteAnswer};
use mesh_jetstream::message::Outgoing;
use mesh_model::declaration::Declaration;
use mesh_model::digest::Digest;
use mesh_model::name;
use mesh_model::signed::{Envelope, PayloadType};
use mesh_runtime::Delivery;
use mesh_service::follow::{Entry, Step};
use std::time::Duration;

/// How long a value waits that the bus did not take.
const AGAIN: Duration = Duration::from_secs(5);

/// How long after a conflict the newer value may take to arrive.
const CONFLICT: Duration = Duration::from_secs(2);

/// How long a value waits that the bus refused.
const REFUSED: Duration = Duration::from_secs(30);

impl Controller {
    pub(super) fn up(&mut self, server: String, max_payload: usize, now: Duration) -> Actions {
        self.failures = 0;
        self.inboxes.up();
        self.move_at = None;
        if self.held.fence.is_none() {
            // It was being made when the lease was lost.
            self.link = Link::Off;
            return vec![Action::StopListening];
        }
        let mut actions = vec![Action::Say(Level::Info, format!("connected to {server}"))];
        self.link = Link::Up { server, max_payload };
        self.calls.clear();
        self.mirror.down();
        self.cleaning.down();
        self.accounts.doubt();
        let inbox = self.inboxes.current();
        for place in 0..self.follows.len() {
            let steps = self.follows[place].up(&format!("{inbox}.c.{place}"), now);
            actions.extend(self.steps(place, steps, now));
        }
        actions
    }

    /// The server is about to shut down: what it still brings is taken until another connection is up.
    pub(super) fn lame_duck(&mut self, now: Duration) -> Actions {
        let Link::Up { server, .. } = &self.link else { return Vec::new() };
        self.move_at = Some(now);
        vec![Action::Say(Level::Info, format!("{server} is about to shut down: moving to another server"))]
    }

    pub(super) fn down(&mut self, why: &str, now: Duration) -> Actions {
        let backoff: Backoff = RECONNECT;
        let wait = backoff.after(self.failures, self.settings.jitter);
        self.failures = self.failures.saturating_add(1);
        self.link = if self.held.fence.is_some() { Link::Waiting(now + wait) } else { Link::Off };
        self.move_at = None;
        self.calls.clear();
        self.mirror.down();
        self.cleaning.down();
        for follow in &mut self.follows {
            follow.down();
        }
        let text = format!("not connected: {why}");
        self.say(Level::Warn, Topic::Connection, &text, now).into_iter().collect()
    }

    pub(super) fn server_error(&mut self, words: &str, now: Duration) -> Actions {
        let text = format!("the server: {words}");
        let mut actions: Actions = self.say(Level::Warn, Topic::Connection, &text, now).into_iter().collect();
        for place in 0..self.follows.len() {
            let steps = self.follows[place].server_error(words, now);
            actions.extend(self.steps(place, steps, now));
        }
        actions
    }

    /// The bucket that is followed at that place, if it is one of the controller's own.
    fn bucket(place: usize) -> Option<Bucket> {
        Bucket::ALL.get(place).copied()
    }

    pub(super) fn call(&mut self, call: Call, message: Outgoing) -> (u64, Action<crate::serve::task::Task>) {
        self.next_call += 1;
        let number = self.next_call;
        self.calls.insert(number, call);
        let inbox = self.inboxes.current();
        (number, Action::Send(Outgoing { reply: Some(format!("{inbox}.{number}")), ..message }))
    }

    pub(super) fn steps(&mut self, place: usize, steps: Vec<Step>, now: Duration) -> Actions {
        let mut actions = Vec::new();
        for step in steps {
            match step {
                Step::Send(message) => {
                    if let Some(bucket) = Self::bucket(place) {
                        self.mirror.listing(bucket);
                    }
                    let (number, action) = self.call(Call::Follow, message);
                    self.follows[place].asked(number);
                    actions.push(action);
                }
                Step::Entry(entry) => actions.extend(self.entry(place, entry, now)),
                Step::Complete(_) => {
                    if let Some(bucket) = Self::bucket(place) {
                        let found = self.mirror.complete(bucket);
                        actions.extend(self.found(found, now));
                        actions.extend(self.tell_foreign(bucket, now));
                    }
                }
                Step::Missing => {
                    let bucket = self.follows[place].bucket();
                    let text = format!("there is no bucket {bucket}: make it with mesh-controller init");
                    actions.extend(self.say(Level::Warn, Topic::Bucket, &text, now));
                }
                Step::Refused(why) => {
                    let text = format!("{} cannot be read: {why}", self.follows[place].bucket());
                    actions.extend(self.say(Level::Warn, Topic::Bucket, &text, now));
                }
            }
        }
        actions
    }

    fn tell_foreign(&mut self, bucket: Bucket, now: Duration) -> Actions {
        if !self.has_picture {
            return Vec::new();
        }
        let keys: Vec<&str> = self.mirror.foreign(bucket).take(3).collect();
        if keys.is_empty() {
            return Vec::new();
        }
        let count = self.mirror.standing(bucket).foreign;
        let text = format!("{bucket}: {count} keys are not of this store, and are left: {}", keys.join(", "));
        self.say(Level::Warn, Topic::Foreign, &text, now).into_iter().collect()
    }

    fn entry(&mut self, place: usize, entry: Entry, now: Duration) -> Actions {
        let Some(bucket) = Self::bucket(place) else {
            self.hear(entry);
            return Vec::new();
        };
        let Entry { key, value, revision, .. } = entry;
        let mut actions = Vec::new();
        let mut sequence = 0;
        if bucket == Bucket::Declarations
            && let Some(declaration) = value.as_deref().and_then(|value| self.own_declaration(value))
            && name::encode(&declaration.node) == key
        {
            sequence = declaration.sequence;
            if self.held.fence.is_some_and(|fence| fence < declaration.fence) {
                actions.push(Action::Do(crate::serve::task::Task::Raise(declaration.fence)));
            }
        }
        let place = Place { bucket, key };
        let found = self.mirror.seen(&place, value.as_deref().map(Digest::of), revision, sequence);
        actions.extend(self.found(found, now));
        actions
    }

    /// A declaration that this mesh signed.
    fn own_declaration(&self, value: &[u8]) -> Option<Declaration> {
        let envelope = Envelope::parse(value).ok()?;
        envelope.open(PayloadType::Declaration, &self.settings.mesh).ok()
    }

    /// The report of a node that is known; of others nothing is kept.
    fn hear(&mut self, Entry { key, value, revision, .. }: Entry) {
        let (Some(body), Ok(node)) = (value, name::decode(&key)) else { return };
        if !self.has_picture || self.nodes.contains(&node) {
            self.reports.hear(Report { node, revision, body });
        }
    }

    pub(super) fn delivery(&mut self, delivery: Delivery, now: Duration) -> Actions {
        let Delivery { place, subject, reply, headers, body } = delivery;
        let Some(follow) = self.follows.get_mut(place) else { return Vec::new() };
        let steps = follow.delivered(&subject, reply.as_deref(), &headers, body, now);
        self.steps(place, steps, now)
    }

    pub(super) fn reply(
        &mut self,
        call: u64,
        no_responders: bool,
        error: Option<&(String, String)>,
        body: &[u8],
        now: Duration,
    ) -> Actions {
        match self.calls.remove(&call) {
            Some(Call::Follow) => {
                let Some(place) = self.follows.iter().position(|follow| follow.awaits(call)) else {
                    return Vec::new();
                };
                let steps = self.follows[place].answered(no_responders, body, now);
                self.steps(place, steps, now)
            }
            Some(Call::Clean) if self.cleaning.awaits(call) => {
                match self.cleaning.answered(no_responders, body, now) {
                    Ok(step) => step.map(|step| self.clean(step)).into_iter().collect(),
                    Err(words) => self.say(Level::Warn, Topic::Clean, &words, now).into_iter().collect(),
                }
            }
            Some(Call::Put(place)) => {
                let outcome = match (no_responders, error) {
                    (true, _) => WriteAnswer::Unknown("there is no bucket, or no JetStream".into()),
                    (false, Some((code, words))) => WriteAnswer::Unknown(format!("{words} ({code})")),
                    (false, None) => kv::parse_write(Kv::new(place.bucket.name()), body),
                };
                self.written(&place, outcome, now)
            }
            // Of a connection before, or of a node that came back meanwhile.
            None | Some(Call::Clean) => Vec::new(),
        }
    }

    fn written(&mut self, place: &Place, outcome: WriteAnswer, now: Duration) -> Actions {
        let (until, why) = match outcome {
            WriteAnswer::Stored(revision) => {
                let found = self.mirror.stored(place, revision);
                return self.found(found, now);
            }
            // What another client wrote arrives as an entry, and is judged then.
            WriteAnswer::Conflict => {
                self.mirror.put_off(place, now + CONFLICT);
                return Vec::new();
            }
            WriteAnswer::Refused(error) => (now + REFUSED, error.to_string()),
            WriteAnswer::Unknown(why) => (now + AGAIN, why),
        };
        self.mirror.put_off(place, until);
        let text = format!("{} {} was not written: {why}", place.bucket, place.key);
        self.say(Level::Warn, Topic::Write, &text, now).into_iter().collect()
    }

    /// A value that was fetched: it is written, if that is still wanted, and if the lease is still ours.
    pub(super) fn value(&mut self, place: &Place, value: Option<Vec<u8>>, now: Duration) -> Actions {
        let Link::Up { max_payload, .. } = &self.link else {
            self.mirror.put_off(place, now);
            return Vec::new();
        };
        let max_payload = *max_payload;
        if !self.is_sure(now) {
            self.mirror.put_off(place, now);
            return Vec::new();
        }
        let Some(revision) = self.mirror.write(place, value.as_deref().map(Digest::of), now) else {
            return Vec::new();
        };
        let bucket = Kv::new(place.bucket.name());
        let request = match value.map(String::from_utf8) {
            None => kv::delete(bucket, &place.key, revision),
            Some(Ok(text)) => kv::put(bucket, &place.key, &text, revision),
            Some(Err(_)) => {
                self.mirror.put_off(place, now + REFUSED);
                let text = format!("{} {} is not text, and is not written", place.bucket, place.key);
                return self.say(Level::Error, Topic::Write, &text, now).into_iter().collect();
            }
        };
        let message = Outgoing::from(request);
        if message.payload_bytes() > max_payload {
            self.mirror.put_off(place, now + REFUSED);
            let text = format!(
                "{} {} has {} bytes, more than the server's max_payload of {max_payload}: raise that",
                place.bucket,
                place.key,
                message.payload_bytes()
            );
            return self.say(Level::Error, Topic::Write, &text, now).into_iter().collect();
        }
        let (_, action) = self.call(Call::Put(place.clone()), message);
        vec![action]
    }
}
