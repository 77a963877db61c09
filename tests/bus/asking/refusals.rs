//! Error answers: their codes and their words.

use crate::support::verb::AsksTheSeat;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::counted;
use crate::support::accounts::{READER, SEAT, TESTER};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::client::{Client, Inbox};
use crate::support::mesh::{self, Mesh};
use crate::support::seat::{KINDS, Seat};
use crate::support::server::Server;
use crate::support::setup::{Right, Setup};
use crate::support::verb::{Answer, VERB};
use crate::support::wait::{self, PATIENCE};

/// How long a request may take from its sending to its answer.
const STATED_BOUND: Duration = Duration::from_secs(5);

/// The largest request.
const MAX_BODY: usize = 64 * 1024;

#[test]
fn a_wrong_request_is_answered_400_with_what_is_wrong() {
    let mesh = Mesh::start();
    let reader = mesh.reader();
    let known = "known are what, node, module, kind, collection, limit, after, stale_after";
    let whole = "must be a whole number from 1 to 10000";
    let refused = [
        (r#"{"what":"needs","nodes":"a"}"#, format!("the field \"nodes\" is unknown; {known}")),
        (r#"{"":1}"#, format!("the field \"\" is unknown; {known}")),
        (
            r#"{"what":"need"}"#,
            "the field \"what\" is \"need\"; it can be one of registry, needs, applied, collect, gaps, drift, nodes, collections, health".to_owned(),
        ),
        (r#"{"what":1}"#, "the field \"what\" must be a string".to_owned()),
        (r#"{"what":"needs","node":["a"]}"#, "the field \"node\" must be a string".to_owned()),
        (r#"{"what":"needs","limit":0}"#, format!("the field \"limit\" {whole}")),
        (r#"{"what":"needs","limit":10001}"#, format!("the field \"limit\" {whole}")),
        (r#"{"what":"needs","limit":"1"}"#, format!("the field \"limit\" {whole}")),
        (r#"{"what":"needs","after":1}"#, "the field \"after\" must be a string".to_owned()),
        (
            r#"{"node":"a"}"#,
            "\"registry\" does not take the field \"node\"; it takes kind, limit, after".to_owned(),
        ),
        (
            r#"{"what":"applied","kind":"a"}"#,
            "\"applied\" does not take the field \"kind\"; it takes node, module, limit, after".to_owned(),
        ),
        (
            r#"{"what":"collect","kind":"a"}"#,
            "\"collect\" does not take the field \"kind\"; it takes node, module, collection, limit, after"
                .to_owned(),
        ),
        (
            r#"{"what":"needs","collection":"a"}"#,
            "\"needs\" does not take the field \"collection\"; it takes node, module, kind, limit, after"
                .to_owned(),
        ),
        (
            r#"{"what":"health","node":"a"}"#,
            "\"health\" does not take the field \"node\"; it takes no other field".to_owned(),
        ),
    ];
    for (body, words) in &refused {
        assert_eq!(reader.ask_bytes(body).expect_error(400), words, "{body}");
    }
    let no_object: [&[u8]; 7] = [b"[]", b"null", b"{", b"{}{}", b" ", b"\xff", b"{\"what\":\"\xff\"}"];
    for body in no_object {
        let answer = reader.ask_bytes(body);
        let words = answer.expect_error(400);
        assert!(words.starts_with("the request is not one JSON object, and it is not empty: "), "{words}");
    }
    let answer = reader.ask_bytes("[]");
    assert_eq!(answer.body()["type"], "io.mesh.provisioner.v1.error_response");
    assert_eq!(counted(&reader, "bad_requests"), (refused.len() + no_object.len() + 1) as u64);
}

#[test]
fn a_request_over_its_bound_is_answered_413() {
    let mesh = Mesh::start();
    let reader = mesh.reader();
    let padded = |bytes: usize| r#"{"what":"registry"}"#.to_owned() + &" ".repeat(bytes - 19);
    assert_eq!(reader.ask_bytes(padded(MAX_BODY)).good().entries().len(), KINDS);
    let answer = reader.ask_bytes(padded(MAX_BODY + 1));
    assert_eq!(answer.expect_error(413), "the request has 65537 bytes, the maximum is 65536");
}

#[test]
fn a_bucket_that_is_missing_is_answered_503_with_what_makes_it() {
    let mesh = Mesh::start();
    let (reader, admin) = (mesh.reader(), mesh.admin());
    for (bucket, whats) in [
        (NEEDS, ["needs", "gaps"].as_slice()),
        (APPLIED, &["applied"]),
        (COLLECT, &["collect"]),
        (REGISTRY, &["registry", "gaps"]),
    ] {
        admin.delete_bucket(bucket);
        for what in whats {
            let answer = reader.ask(&json!({"what": what}));
            let words = format!("bucket {bucket} does not exist: run mesh-provisioner init");
            assert_eq!(answer.expect_error(503), words, "{what}");
        }
        mesh::init(&mesh.server);
        let what = whats[0];
        wait::until("the next ask to be right", PATIENCE, || {
            let answer = reader.ask(&json!({"what": what})).good();
            // The registry comes back with a pass of its own.
            let there = if bucket == REGISTRY { KINDS } else { 0 };
            if bucket == REGISTRY && answer.entries().len() != there {
                mesh.seat.signal("HUP");
            }
            (answer.entries().len() == there).then_some(()).ok_or_else(|| answer.text())
        });
    }
}

#[test]
fn a_right_that_is_missing_is_answered_503_with_the_denied_subject() {
    let listing = format!("$JS.API.STREAM.INFO.KV_{NEEDS}");
    let reading = format!("$JS.API.STREAM.MSG.GET.KV_{APPLIED}");
    let server =
        Setup::shipped().deny(&SEAT, Right::Publish, &listing).deny(&SEAT, Right::Publish, &reading).start();
    let mesh = Mesh::start_on(server, &[]);
    let (reader, tester) = (mesh.reader(), mesh.tester());
    tester.kv_put(APPLIED, "n1.web", "1");
    for (what, bucket, subject) in [("needs", NEEDS, &listing), ("applied", APPLIED, &reading)] {
        let answer = reader.ask(&json!({"what": what}));
        let words = answer.expect_error(503);
        assert!(
            words.starts_with(&format!("bucket {bucket} cannot be reached: the server says ")),
            "{words}"
        );
        assert!(words.contains(subject.as_str()), "{words}");
        assert!(
            words.ends_with("grant the seat the permissions that mesh-provisioner permissions seat prints"),
            "{words}"
        );
    }
    assert_eq!(reader.ask(&json!({"what": "registry"})).good().entries().len(), KINDS);
    assert_eq!(reader.ask(&json!({"what": "collect"})).good().keys(), [""; 0]);
}

/// Asks a seat on this bus for the needs.
#[track_caller]
fn ask_needs_on(setup: Setup) -> Answer {
    let server = setup.start();
    let _seat = Seat::start(&server, &[]);
    let reader = server.client(&READER);
    wait::until("the seat to answer", PATIENCE, || {
        reader.try_ask(r#"{"what":"needs"}"#).map_err(|error| error.to_string())
    })
}

#[test]
fn a_bus_without_jetstream_is_answered_503_with_what_is_to_be_done() {
    const ENABLED: &str = "    jetstream: enabled\n";
    let answer = ask_needs_on(Setup::shipped().replace(ENABLED, "").append("jetstream: false"));
    let words = "bucket mesh-provisioner_needs cannot be reached: JetStream does not answer: enable it, or wait until it has started";
    assert_eq!(answer.expect_error(503), words);

    let answer = ask_needs_on(Setup::shipped().replace(ENABLED, ""));
    let words = "bucket mesh-provisioner_needs cannot be reached: JetStream not enabled for account (10039): enable JetStream for the seat's account";
    assert_eq!(answer.expect_error(503), words);
}

#[test]
fn a_bus_whose_jetstream_is_off_is_said_or_given_up() {
    // The account says that it has streams, the server that there are none. Older servers say nothing at all then.
    let server = Setup::shipped().append("jetstream: false");
    let answer = ask_needs_on(server);
    assert!(matches!(answer.code(), Some(503 | 504)), "{}", answer.text());
    assert!(answer.text().contains("mesh-provisioner_needs"), "{}", answer.text());
}

/// A bus on which the test itself is JetStream, and says what it likes.
struct OwnJetStream {
    tester: Client,
    requests: Inbox,
    reader: Client,
    _seat: Seat,
    _server: Server,
}

impl OwnJetStream {
    fn start() -> Self {
        let server = Setup::shipped().append("jetstream: false").start();
        let tester = server.client(&TESTER);
        let requests = tester.subscribe("$JS.API.>", None);
        let seat = Seat::start(&server, &[]);
        let reader = server.client(&READER);
        // The registry pass is the first to meet the silence.
        requests.next(PATIENCE).expect("the seat reads the registry");
        Self { tester, requests, reader, _seat: seat, _server: server }
    }

    /// Answers the next request of this kind for this bucket, and of its others the first that hold `needle`.
    #[track_caller]
    fn answer(&self, call: &str, bucket: &str, needle: &str, answer: &Value) {
        let subject = format!("$JS.API.STREAM.{call}.KV_{bucket}");
        let request = wait::until(&subject, PATIENCE, || {
            let message = self.requests.next(PATIENCE).map_err(|error| error.to_string())?;
            let asked = (String::from_utf8_lossy(&message.subject).into_owned(), message.text());
            if asked.0 == subject && asked.1.contains(needle) {
                Ok(message)
            } else {
                Err(format!("{asked:?}"))
            }
        });
        self.tester.publish(request.reply.expect("a request"), answer.to_string());
    }

    /// Gives no response to a look at the bucket, and then these keys.
    #[track_caller]
    fn list(&self, bucket: &str, keys: &[&str]) {
        let subjects: Map<String, Value> =
            keys.iter().map(|key| (format!("$KV.{bucket}.{key}"), json!(1))).collect();
        let state = json!({"last_seq": 9, "last_ts": "2026-11-29T13:26:00Z", "subjects": subjects});
        let answer = json!({"total": keys.len(), "offset": 0, "limit": 100_000, "state": state});
        self.answer("INFO", bucket, "", &json!({"state": {}}));
        self.answer("INFO", bucket, "subjects_filter", &answer);
    }
}

#[test]
fn a_jetstream_that_says_nothing_is_answered_504_within_five_seconds() {
    let bus = OwnJetStream::start();
    let asked = bus.reader.request(VERB, r#"{"what":"needs"}"#, STATED_BOUND).expect("an answer in time");
    let words = "not read within 4 s: bucket mesh-provisioner_needs was read up to its write 0 of 0: try again with a narrower query, or check the load of the nats-server";
    assert_eq!(Answer::of(&asked).expect_error(504), words);

    // The list of keys comes, and then nothing more.
    let asked = bus.reader.ask_later(&json!({"what": "applied"}));
    bus.list(APPLIED, &["n1.a", "n1.b"]);
    let words = "not read within 4 s: 0 of 2 values of bucket mesh-provisioner_applied were read: try again with a narrower query, or check the load of the nats-server";
    let answer = asked.next(STATED_BOUND).expect("an answer in time");
    assert_eq!(Answer::of(&answer).expect_error(504), words);
    // What needs no bucket is answered all the while.
    assert_eq!(counted(&bus.reader, "too_late"), 2);
}

#[test]
fn a_jetstream_that_is_slow_is_answered_with_what_came_within_four_seconds() {
    let bus = OwnJetStream::start();
    let asked = bus.reader.ask_later(&json!({"what": "applied"}));
    bus.list(APPLIED, &["n1.a", "n1.b", "n1.c"]);
    let message = |key: &str, sequence: u64| {
        let subject = format!("$KV.{APPLIED}.{key}");
        json!({"message": {"subject": subject, "seq": sequence, "data": "e30=", "time": "2026-11-29T13:26:00Z"}})
    };
    bus.answer("MSG.GET", APPLIED, "n1.a", &message("n1.a", 1));
    bus.answer("MSG.GET", APPLIED, "n1.c", &message("n1.c", 3));
    let answer = Answer::of(&asked.next(STATED_BOUND).expect("an answer in time")).good();
    assert_eq!(answer.keys(), ["n1.a"], "what stands behind the first key that is missing is not given");
    assert_eq!(answer.next(), Some("n1.a"));

    // The next page goes on there.
    let asked = bus.reader.ask_later(&json!({"what": "applied", "after": "n1.a"}));
    bus.list(APPLIED, &["n1.a", "n1.b", "n1.c"]);
    bus.answer("MSG.GET", APPLIED, "n1.b", &message("n1.b", 2));
    bus.answer("MSG.GET", APPLIED, "n1.c", &message("n1.c", 3));
    let answer = Answer::of(&asked.next(STATED_BOUND).expect("an answer in time")).good();
    assert_eq!((answer.keys(), answer.next()), (vec!["n1.b".to_owned(), "n1.c".to_owned()], None));
}
