//! A followed bucket: the keys that a filter matches, read through a push consumer and kept up to date.
//!
//! A consumer is created for each connection. It brings what is there, and then what is written. When it misses
//! something, or is silent, a new one lists everything again. What a listing does not have is gone; nothing else but a
//! marker says that a key is deleted.
//!
//! The caller sends what [`Step::Send`] holds with a reply subject of its own, tells the call's number with
//! [`Follow::asked`], and hands over answers and deliveries. Its names must be new and hard to guess: only a delivery
//! that names the consumer counts, so nobody else can put words into the bucket's mouth.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_jetstream::api::ApiError;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::consumer::{self, Place, Pushed, Wanted};
use mesh_jetstream::message::Outgoing;

use crate::backoff::Backoff;

/// How often a consumer says that it is there.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long without a word until a consumer counts as lost: three heartbeats.
const SILENCE: Duration = Duration::from_secs(15);

/// How long the answer to a request may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the server keeps a consumer without a subscriber. Shorter than any reconnect, so that the consumer of the
/// earlier connection is gone when the next one subscribes to the same subject.
const INACTIVE: Duration = Duration::from_millis(500);

/// When to ask again after a failure.
const AGAIN: Backoff = Backoff { first: Duration::from_secs(1), last: Duration::from_secs(30) };

/// What follows from an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To send, with a reply subject that the caller adds.
    Send(Outgoing),
    /// The newest message of a key. It may be one that was seen before.
    Entry(Entry),
    /// The list is complete: these keys are there, and no others.
    Complete(BTreeSet<String>),
    /// The bucket does not exist. It is looked for again.
    Missing,
    /// It cannot be read: why. It is tried again.
    Refused(String),
}

/// The newest message of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value; nothing: it is deleted.
    pub value: Option<Vec<u8>>,
    /// Its sequence in the bucket.
    pub revision: u64,
    /// What is wrong with its headers.
    pub header_fault: Option<&'static str>,
}

/// How it stands with a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It was not read yet, or not since the last reconnect.
    Listing,
    /// The list is complete and kept up to date.
    Current,
    /// The bucket does not exist.
    Missing,
    /// It could not be read.
    Refused,
}

/// One bucket that is followed, or a part of its keys.
#[derive(Debug)]
pub struct Follow {
    bucket: String,
    keys: String,
    deliver: String,
    /// What the names of its consumers begin with: hard to guess.
    names: String,
    /// How many consumers were asked for.
    asked: u64,
    /// The call that creates the consumer.
    call: Option<u64>,
    reading: Reading,
    failures: u32,
    jitter: f64,
    at: At,
}

#[derive(Debug)]
enum At {
    /// There is no connection.
    Down,
    /// The consumer is asked for or there.
    Up(Consumer),
    /// Its creation failed.
    Again(Duration),
}

#[derive(Debug)]
struct Consumer {
    name: String,
    /// Whether the server said that it made it.
    created: bool,
    /// When it counts as lost, without a word of it until then.
    lost: Duration,
    /// The number of its last delivery.
    last: u64,
    /// The keys so far, until the list is complete.
    list: Option<BTreeSet<String>>,
    /// How many deliveries were still to come after the last one.
    pending: Option<u64>,
}

impl Follow {
    /// Follows the keys of `bucket` that match `keys`. `names` is what the consumers' names begin with: one token, new in
    /// each process, hard to guess, and another one for each bucket. `jitter`, from 0 to 1, is this program's own place
    /// within its delays.
    pub fn new(bucket: &str, keys: &str, names: &str, jitter: f64) -> Self {
        Follow {
            bucket: bucket.to_owned(),
            keys: keys.to_owned(),
            deliver: String::new(),
            names: names.to_owned(),
            asked: 0,
            call: None,
            reading: Reading::Listing,
            failures: 0,
            jitter,
            at: At::Down,
        }
    }

    /// The bucket's name.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// How it stands.
    pub fn reading(&self) -> Reading {
        self.reading
    }

    /// The connection is up: the bucket is listed. Everything is delivered to `deliver`, a literal subject that the caller
    /// has subscribed. One that is new for each connection leaves no consumer of an earlier one behind.
    pub fn up(&mut self, deliver: &str, now: Duration) -> Vec<Step> {
        deliver.clone_into(&mut self.deliver);
        self.failures = 0;
        self.create(now)
    }

    /// The connection is down. What was read stays as it is until the next list.
    pub fn down(&mut self) {
        self.call = None;
        self.at = At::Down;
        if self.reading != Reading::Missing {
            self.reading = Reading::Listing;
        }
    }

    /// The caller sent the request with that call's number.
    pub fn asked(&mut self, call: u64) {
        self.call = Some(call);
    }

    /// Whether an answer to that call is for [`Follow::answered`].
    pub fn awaits(&self, call: u64) -> bool {
        self.call == Some(call)
    }

    /// The answer to the call; without responders there is no JetStream.
    pub fn answered(&mut self, no_responders: bool, body: &[u8], now: Duration) -> Vec<Step> {
        self.call = None;
        if no_responders {
            return self.fail("JetStream does not answer: is it on, for this account too?".to_owned(), now);
        }
        let created = match consumer::parse_created(body) {
            Ok(created) => created,
            Err(error) if error.err_code() == Some(ApiError::NO_STREAM) => {
                self.again(now);
                self.reading = Reading::Missing;
                return vec![Step::Missing];
            }
            Err(error) => return self.fail(error.to_string(), now),
        };
        let At::Up(consumer) = &mut self.at else { return Vec::new() };
        if created.name != consumer.name {
            return self.fail("the answer names another consumer".to_owned(), now);
        }
        consumer.created = true;
        consumer.lost = now + SILENCE;
        if consumer.last == 0 {
            consumer.pending = Some(created.pending);
        }
        self.failures = 0;
        self.look()
    }

    /// Something came to the deliver subject; `headers` is the raw block.
    pub fn delivered(
        &mut self,
        subject: &str,
        reply: Option<&str>,
        headers: &[u8],
        body: Vec<u8>,
        now: Duration,
    ) -> Vec<Step> {
        match consumer::parse_pushed(Kv::new(&self.bucket), subject, reply, headers) {
            Pushed::Message { key, place, deleted, header_fault } => {
                let entry = Entry {
                    key: key.to_owned(),
                    value: (!deleted).then_some(body),
                    revision: place.sequence,
                    header_fault,
                };
                self.message(place, entry, now)
            }
            Pushed::Heartbeat { last } => self.heartbeat(last, now),
            Pushed::Foreign => Vec::new(),
        }
    }

    /// An error of the server that names what was asked for: a right is missing.
    pub fn server_error(&mut self, words: &str, now: Duration) -> Vec<Step> {
        let At::Up(consumer) = &self.at else { return Vec::new() };
        if consumer.created || !words.contains(&consumer.name) {
            return Vec::new();
        }
        self.call = None;
        self.fail(words.to_owned(), now)
    }

    /// Time has passed.
    pub fn due(&mut self, now: Duration) -> Vec<Step> {
        match &self.at {
            At::Again(at) if *at <= now => self.create(now),
            At::Up(consumer) if consumer.lost <= now && consumer.created => self.create(now),
            At::Up(consumer) if consumer.lost <= now => {
                self.call = None;
                self.fail("no answer to the request for a consumer".to_owned(), now)
            }
            _ => Vec::new(),
        }
    }

    /// When [`Follow::due`] has something to do.
    pub fn next_deadline(&self) -> Option<Duration> {
        match &self.at {
            At::Down => None,
            At::Up(consumer) => Some(consumer.lost),
            At::Again(at) => Some(*at),
        }
    }

    /// Lists everything again, by a new consumer: for a caller that dropped deliveries.
    pub fn relist(&mut self, now: Duration) -> Vec<Step> {
        match self.at {
            At::Up(_) => self.create(now),
            At::Down | At::Again(_) => Vec::new(),
        }
    }

    fn create(&mut self, now: Duration) -> Vec<Step> {
        self.asked += 1;
        let name = format!("{}-{}", self.names, self.asked);
        let wanted = Wanted {
            bucket: Kv::new(&self.bucket),
            name: &name,
            keys: &self.keys,
            deliver: &self.deliver,
            heartbeat: HEARTBEAT,
            inactive: INACTIVE,
        };
        let request = wanted.create();
        if self.reading == Reading::Current {
            self.reading = Reading::Listing;
        }
        self.call = None;
        self.at = At::Up(Consumer {
            name,
            created: false,
            lost: now + PATIENCE,
            last: 0,
            list: Some(BTreeSet::new()),
            pending: None,
        });
        vec![Step::Send(request.into())]
    }

    fn message(&mut self, place: Place<'_>, entry: Entry, now: Duration) -> Vec<Step> {
        let At::Up(consumer) = &mut self.at else { return Vec::new() };
        // A consumer of before may still deliver.
        if place.consumer != consumer.name || place.stream != Kv::new(&self.bucket).stream() {
            return Vec::new();
        }
        if place.delivery <= consumer.last {
            return Vec::new();
        }
        if place.delivery != consumer.last + 1 {
            return self.create(now);
        }
        consumer.last = place.delivery;
        consumer.pending = Some(place.pending);
        if consumer.created {
            consumer.lost = now + SILENCE;
        }
        if let Some(list) = &mut consumer.list {
            if entry.value.is_some() {
                list.insert(entry.key.clone());
            } else {
                list.remove(&entry.key);
            }
        }
        let mut steps = vec![Step::Entry(entry)];
        steps.extend(self.look());
        steps
    }

    /// Whether the list is complete now.
    fn look(&mut self) -> Vec<Step> {
        let At::Up(consumer) = &mut self.at else { return Vec::new() };
        if !consumer.created || consumer.pending != Some(0) {
            return Vec::new();
        }
        let Some(list) = consumer.list.take() else { return Vec::new() };
        self.reading = Reading::Current;
        vec![Step::Complete(list)]
    }

    /// A consumer has no name in its heartbeats, and one of before may still send some. So one that names another delivery
    /// than the last says nothing. If it is ours, no other kind comes from then on, and the silence tells.
    fn heartbeat(&mut self, last: u64, now: Duration) -> Vec<Step> {
        let At::Up(consumer) = &mut self.at else { return Vec::new() };
        if !consumer.created || last != consumer.last {
            return Vec::new();
        }
        consumer.lost = now + SILENCE;
        // It has delivered everything, whatever it counted before.
        consumer.pending = Some(0);
        self.look()
    }

    fn again(&mut self, now: Duration) {
        self.at = At::Again(now + AGAIN.after(self.failures, self.jitter));
        self.failures = self.failures.saturating_add(1);
    }

    fn fail(&mut self, why: String, now: Duration) -> Vec<Step> {
        self.again(now);
        self.reading = Reading::Refused;
        vec![Step::Refused(why)]
    }
}

#[cfg(test)]
mod tests;
