//! The driver: plays events to a seat and compares everything that it asks for, each action as one line.
//!
//! - `connect`, `stop listening`, `exit`
//! - `info: …`, `warn: …`: a line for the log
//! - `#5 subject {body}`: a request of our own with the number 5; headers stand in brackets after the subject
//! - `to _INBOX.a: {body}`: an answer; `to _INBOX.a: 503 full: words`: an error answer
//!
//! Nothing is skipped: an action that a test does not name fails it, and so does time that passes over a deadline.

use mesh_jetstream::bucket::Kv;
use mesh_jetstream::message::Outgoing;
use mesh_model::bucket::Bucket;
use mesh_model::provisioner::VERB;
use mesh_model::registry;
use mesh_provisioner::seat::{Action, Event, Seat, Settings};
use mesh_service::identity::Identity;
use mesh_testing::jetstream::{self, Stored};
use std::time::Duration;

/// The id of the seat that plays.
pub(crate) const ID: &str = "SEAT1";

/// When the fake bus wrote everything.
pub(crate) const AT: &str = "2026-11-29T13:26:00.123456789Z";

/// A seat, and the time that it is told.
pub(crate) struct Play {
    pub(crate) seat: Seat,
    pub(crate) now: Duration,
    /// Whether it may want to go on at once, since it has more to do than one slice.
    pub(crate) has_much: bool,
}

/// What a seat asked for, to be compared.
#[must_use]
pub(crate) struct Asked(Vec<String>);

impl Asked {
    /// Compares all of it with `lines`.
    #[track_caller]
    pub(crate) fn is<L: AsRef<str>>(self, lines: impl IntoIterator<Item = L>) {
        let expected: Vec<String> = lines.into_iter().map(|line| line.as_ref().to_owned()).collect();
        assert!(
            self.0 == expected,
            "the seat asked for\n  {}\ninstead of\n  {}",
            self.0.join("\n  "),
            expected.join("\n  ")
        );
    }

    #[track_caller]
    pub(crate) fn nothing(self) {
        self.is::<&str>([]);
    }

    /// The lines, for a test that counts them or looks inside.
    pub(crate) fn lines(self) -> Vec<String> {
        self.0
    }
}

impl Play {
    /// A seat that has not done anything, with a pass an hour.
    pub(crate) fn new() -> Self {
        Play::with(|_| ())
    }

    /// The same with other settings.
    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            identity: Identity { id: ID.to_owned(), version: "0.1.0".to_owned() },
            started: AT.to_owned(),
            every: Duration::from_secs(3600),
            reply_prefixes: Vec::new(),
            check_every: Duration::from_secs(36_000),
            max_keys_one_by_one: 32,
            inbox: "SECRET".to_owned(),
            jitter_seed: 0,
        };
        change(&mut settings);
        Play { seat: Seat::new(settings), now: Duration::ZERO, has_much: false }
    }

    /// A seat that is connected and has found the registry as it should be. It never reads in bulk.
    pub(crate) fn serving() -> Self {
        Play::serving_with(|settings| settings.max_keys_one_by_one = usize::MAX)
    }

    /// The same, but it reads more than 32 keys in bulk.
    pub(crate) fn serving_in_bulk() -> Self {
        Play::serving_with(|_| ())
    }

    fn serving_with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut play = Play::with(change);
        play.connect();
        play.settle_pass();
        play
    }

    /// Connects a seat that has just begun; its registry pass has asked for the keys (#2).
    pub(crate) fn connect(&mut self) {
        self.due().is(["connect"]);
        self.tell(up("n1")).is(["info: connected to n1", &ping(1), &list(2, Bucket::Registry)]);
    }

    /// Answers the reads of the pass whose listing has the number 2, with the registry as it should be.
    pub(crate) fn settle_pass(&mut self) {
        let entries: Vec<(String, String)> =
            registry::ENTRIES.iter().map(|entry| (entry.kind.to_owned(), entry.to_json())).collect();
        self.pass_reads(2, &entries).is(["debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
        self.tell_after(2_000, Event::Due).nothing();
        self.tell_after(3_000, Event::Due).nothing();
    }

    /// Answers the reads of a pass whose listing has the number `listing`: these keys and values, the revisions
    /// counting from 1 in the order of the keys. Gives what the seat asks for after the last of them.
    pub(crate) fn pass_reads(&mut self, listing: u64, stored: &[(String, String)]) -> Asked {
        let mut stored = stored.to_vec();
        stored.sort();
        let keys: Vec<&str> = stored.iter().map(|(key, _)| key.as_str()).collect();
        let gets: Vec<String> =
            (listing + 1..).zip(&keys).map(|(call, key)| get(call, Bucket::Registry, key)).collect();
        let asked = self.answer(listing, keys_of(Bucket::Registry, &keys));
        if stored.is_empty() {
            return asked;
        }
        asked.is(gets);
        let mut last = Asked(Vec::new());
        for (at, (key, value)) in (1..).zip(&stored) {
            last.nothing();
            last = self.answer(listing + at, message_of(Bucket::Registry, key, at, value));
        }
        last
    }

    /// Tells the seat what happened, now.
    #[track_caller]
    pub(crate) fn tell(&mut self, event: Event) -> Asked {
        let actions = self.seat.handle(event, self.now);
        let ends = actions.contains(&Action::Exit);
        let due = self.seat.next_deadline();
        let is_in_order = |due: Duration| due > self.now || (self.has_much && due.is_zero());
        assert!(ends || due.is_none_or(is_in_order), "it wants to be woken in the past: {due:?}");
        Asked(actions.iter().map(line).collect())
    }

    /// Lets this many milliseconds pass, and then tells the seat what happened.
    #[track_caller]
    pub(crate) fn tell_after(&mut self, milliseconds: u64, event: Event) -> Asked {
        self.now += Duration::from_millis(milliseconds);
        if event != Event::Due {
            let due = self.seat.next_deadline();
            assert!(due.is_none_or(|due| due >= self.now), "the seat wanted to be woken at {due:?}");
        }
        self.tell(event)
    }

    /// Wakes the seat when it wants to be woken.
    #[track_caller]
    pub(crate) fn due(&mut self) -> Asked {
        let due = self.seat.next_deadline().expect("the seat wants to be woken");
        self.now = self.now.max(due);
        self.tell(Event::Due)
    }

    /// The same. What the seat sends to itself comes back: the server reads what it sends.
    #[track_caller]
    pub(crate) fn due_with_echo(&mut self) -> Vec<String> {
        let lines = self.due().lines();
        let echo =
            lines.iter().find_map(|line| line.split_once(" _INBOX_mesh.provisioner.")?.0.strip_prefix('#'));
        if let Some(call) = echo.and_then(|call| call.parse().ok()) {
            self.answer(call, Vec::new()).nothing();
        }
        lines
    }

    /// The same, if that is this many milliseconds from now.
    #[track_caller]
    pub(crate) fn due_in(&mut self, milliseconds: std::ops::RangeInclusive<u64>) -> Asked {
        let due = self.seat.next_deadline().expect("the seat wants to be woken");
        let wait = u64::try_from(due.saturating_sub(self.now).as_millis()).unwrap();
        assert!(milliseconds.contains(&wait), "{wait} ms, not {milliseconds:?}");
        self.due()
    }

    /// The bus answers the request of the number `call`.
    #[track_caller]
    pub(crate) fn answer(&mut self, call: u64, body: Vec<u8>) -> Asked {
        self.tell(Event::Reply { call, no_responders: false, body })
    }

    /// Somebody asks the verb; the answer is to go to `_INBOX.<from>`.
    #[track_caller]
    pub(crate) fn ask(&mut self, from: &str, body: &str) -> Asked {
        self.tell(asked(&format!("_INBOX.{from}"), body))
    }
}

/// A connection to the server `server` is up, with the bus's usual bound.
pub(crate) fn up(server: &str) -> Event {
    Event::Up { server: server.to_owned(), max_payload: 1024 * 1024 }
}

pub(crate) fn down(why: &str) -> Event {
    Event::Down { why: why.to_owned() }
}

/// A request for the verb.
pub(crate) fn asked(reply: &str, body: &str) -> Event {
    Event::Request { subject: VERB.to_owned(), reply: Some(reply.to_owned()), body: body.into() }
}

/// The line of a `STREAM.INFO` for all keys of `bucket`.
pub(crate) fn list(call: u64, bucket: Bucket) -> String {
    format!(r#"#{call} $JS.API.STREAM.INFO.KV_{bucket} {{"subjects_filter":"$KV.{bucket}.>","offset":0}}"#)
}

/// The line of a `STREAM.MSG.GET`.
pub(crate) fn get(call: u64, bucket: Bucket, key: &str) -> String {
    format!(r#"#{call} $JS.API.STREAM.MSG.GET.KV_{bucket} {{"last_by_subj":"$KV.{bucket}.{key}"}}"#)
}

/// The line of a write of the registry's own value for `kind`.
pub(crate) fn put(call: u64, kind: &str, expected: u64) -> String {
    let value = registry::entry(kind).expect("a kind of the registry").to_json();
    write(call, kind, &format!("Nats-Expected-Last-Subject-Sequence: {expected}"), &value)
}

/// The line of a deletion of a key of the registry.
pub(crate) fn delete(call: u64, key: &str, expected: u64) -> String {
    write(call, key, &format!("Nats-Expected-Last-Subject-Sequence: {expected}; KV-Operation: DEL"), "")
}

fn write(call: u64, key: &str, headers: &str, body: &str) -> String {
    let stream = "Nats-Expected-Stream: KV_mesh-provisioner_registry";
    format!("#{call} $KV.mesh-provisioner_registry.{key} [{stream}; {headers}] {body}").trim_end().to_owned()
}

/// The line of the question who else holds the seat.
pub(crate) fn ping(call: u64) -> String {
    format!("#{call} $SRV.PING.mesh-provisioner {}", pong(ID, "0.1.0"))
}

/// What the seat `id` says of itself.
pub(crate) fn pong(id: &str, version: &str) -> String {
    format!(
        r#"{{"type":"io.nats.micro.v1.ping_response","name":"mesh-provisioner","id":"{id}","version":"{version}","metadata":{{}}}}"#
    )
}

/// The answer to a `STREAM.INFO`: the whole list.
pub(crate) fn keys_of(bucket: Bucket, keys: &[&str]) -> Vec<u8> {
    let subjects: Vec<String> =
        keys.iter().map(|key| format!("{}{key}", Kv::new(bucket.name()).subject_prefix())).collect();
    jetstream::page(&subjects, 0, subjects.len(), (1, AT), (subjects.len() as u64, AT))
}

/// The line of a look at the stream of `bucket`.
pub(crate) fn look(call: u64, bucket: Bucket) -> String {
    format!("#{call} $JS.API.STREAM.INFO.KV_{bucket}")
}

/// The answer to a look: a stream that keeps so much of each key, with this many messages, last written at `last`.
pub(crate) fn look_of(history: i64, messages: u64, last: u64) -> Vec<u8> {
    let first = if messages > 0 { 1 } else { last + 1 };
    format!(
        r#"{{"created":"2026-11-01T00:00:00Z","config":{{"max_msgs_per_subject":{history}}},"state":{{"messages":{messages},"bytes":{},"first_seq":{first},"first_ts":"{AT}","last_seq":{last},"last_ts":"{AT}"}}}}"#,
        messages * 100
    )
    .into_bytes()
}

/// The answer to a `STREAM.MSG.GET`.
pub(crate) fn message_of(bucket: Bucket, key: &str, sequence: u64, value: &str) -> Vec<u8> {
    let subject = format!("{}{key}", Kv::new(bucket.name()).subject_prefix());
    jetstream::message(&Stored {
        subject: &subject,
        sequence,
        headers: b"",
        data: value.as_bytes(),
        time: AT,
    })
}

fn line(action: &Action) -> String {
    match action {
        Action::Connect => "connect".to_owned(),
        Action::StopListening => "stop listening".to_owned(),
        Action::Exit => "exit".to_owned(),
        Action::Say(level, text) => format!("{}: {text}", level.as_str().to_ascii_lowercase()),
        Action::Send(message) => sent(message, ""),
    }
}

fn sent(message: &Outgoing, inbox: &str) -> String {
    let body = String::from_utf8_lossy(&message.body);
    let number = message.reply.as_deref().map(|reply| {
        let inbox = format!("_INBOX_mesh.provisioner.SECRET.{inbox}");
        reply.strip_prefix(&inbox).unwrap_or_else(|| panic!("{reply} is not in {inbox}")).to_owned()
    });
    match (number, &message.headers[..]) {
        (None, []) => format!("to {}: {body}", message.subject),
        (None, [(code_name, code), (text_name, text)]) => {
            assert_eq!((*code_name, *text_name), ("Nats-Service-Error-Code", "Nats-Service-Error"));
            let body: serde_json::Value = serde_json::from_str(&body).expect("an error body of JSON");
            let error = &body["error"];
            assert_eq!(error["code"].to_string(), *code, "{body}");
            let reason = error["reason"].as_str().expect("a reason");
            format!("to {}: {code} {reason}: {text}", message.subject)
        }
        (None, headers) => panic!("an answer with the headers {headers:?}"),
        (Some(number), []) => format!("#{number} {} {body}", message.subject).trim_end().to_owned(),
        (Some(number), headers) => {
            let headers: Vec<String> =
                headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            format!("#{number} {} [{}] {body}", message.subject, headers.join("; ")).trim_end().to_owned()
        }
    }
}
