//! The registry pass.

use crate::play::{
    AT, Asked, Play, delete, down, get, keys_of, list, look, look_of, message_of, ping, put, up,
};
use mesh_jetstream::direct_get::Part;
use mesh_model::bucket::Bucket::{self, Registry};
use mesh_model::registry;
use mesh_provisioner::seat::Event;
use mesh_testing::jetstream::{self, Stored};
use std::time::Duration;

const STREAM: &str = "KV_mesh-provisioner_registry";

/// The registry as it should be, key by key.
fn right() -> Vec<(String, String)> {
    registry::ENTRIES.iter().map(|entry| (entry.kind.to_owned(), entry.to_json())).collect()
}

/// The same with another value under `kind`.
fn with(kind: &str, value: &str) -> Vec<(String, String)> {
    let mut stored = right();
    stored.retain(|(key, _)| key != kind);
    stored.push((kind.to_owned(), value.to_owned()));
    stored
}

fn stored(sequence: u64) -> Vec<u8> {
    jetstream::stored(STREAM, sequence)
}

/// The outcome of a pass that failed, without the wait, which has jitter.
#[track_caller]
fn failed(asked: Asked, why: &str) {
    let lines = asked.lines();
    let last = lines.last().expect("a line");
    assert!(last.starts_with("warn: registry pass failed"), "{last}");
    assert!(last.ends_with(why), "{last}");
}

#[test]
fn an_empty_bucket_gets_thirteen_entries_in_the_first_minute() {
    let mut play = Play::new();
    play.connect();
    let kinds: Vec<&str> = registry::ENTRIES.iter().map(|entry| entry.kind).collect();
    let puts = (3..).zip(&kinds).map(|(call, kind)| put(call, kind, 0));
    play.answer(2, keys_of(Registry, &[])).is(puts);
    for (at, kind) in (1..).zip(&kinds[..12]) {
        play.answer(2 + at, stored(at)).is([format!("info: registry key {kind}: put (revision {at})")]);
    }
    play.answer(15, stored(13)).is([
        "info: registry key machine: put (revision 13)",
        "info: registry in place: 13 put, 0 deleted, 0 unchanged",
    ]);
    assert!(play.seat.health(play.now).ready);
    // How that left the streams.
    play.due_in(100..=100).is((16..).zip(Bucket::ALL).map(|(call, bucket)| look(call, bucket)));
    for call in 16..20 {
        play.answer(call, look_of(1, 13, 13)).nothing();
    }
    play.due_in(1_900..=1_900).nothing();
    play.due_in(3_598_000..=3_598_000).is([ping(20), list(21, Registry)]);
}

#[test]
fn a_pass_that_finds_all_as_it_should_be_writes_nothing() {
    let mut play = Play::new();
    play.connect();
    let reordered = "{ \"verb\": \"mesh-vault.secret\",\n \"module\": \"mesh-vault\", \"domain\": \"secrets\", \"kind\": \"secret\" }\n";
    play.pass_reads(2, &with("secret", reordered))
        .is(["debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
}

#[test]
fn only_what_differs_is_written_and_the_foreign_change_is_said() {
    let mut play = Play::serving();
    play.tell(Event::Reload).is(["info: registry pass requested", &ping(16), &list(17, Registry)]);
    play.pass_reads(17, &with("secret", "1")).is([put(31, "secret", 12)]);
    let entry = registry::entry("secret").unwrap().to_json();
    play.answer(31, stored(14)).is([
        format!(
            "warn: registry key secret: changed by another client since the last pass: 1 restored to {entry} (revision 14)"
        ),
        "info: registry in place: 1 put, 0 deleted, 12 unchanged".to_owned(),
    ]);
}

#[test]
fn a_deleted_kind_is_written_behind_its_marker() {
    let mut play = Play::new();
    play.connect();
    play.answer(2, keys_of(Registry, &["secret"])).is([get(3, Registry, "secret")]);
    let marker = Stored {
        subject: "$KV.mesh-provisioner_registry.secret",
        sequence: 40,
        headers: b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n",
        data: b"",
        time: AT,
    };
    let puts = play.answer(3, jetstream::message(&marker)).lines();
    assert_eq!(puts[0], put(4, "secret", 40));
    assert_eq!(puts[1], put(5, "config", 0));
    assert_eq!(puts.len(), 13);
}

#[test]
fn what_no_domain_answers_is_deleted() {
    let mut play = Play::new();
    play.connect();
    let mut found = right();
    found.push(("weather".to_owned(), "{}".to_owned()));
    found.push(("a=61.b".to_owned(), "x".to_owned()));
    // "a=61.b" sorts first, "weather" last.
    play.pass_reads(2, &found).is([delete(18, "a=61.b", 1), delete(19, "weather", 15)]);
    play.answer(18, stored(16))
        .is(["warn: registry key a=61.b: no domain answers it, x deleted (revision 16)"]);
    play.answer(19, stored(17)).is([
        "warn: registry key weather: no domain answers it, {} deleted (revision 17)",
        "info: registry in place: 0 put, 2 deleted, 13 unchanged",
    ]);
}

#[test]
fn a_key_that_cannot_be_named_is_said_and_left() {
    let mut play = Play::new();
    play.connect();
    let mut keys: Vec<&str> = registry::ENTRIES.iter().map(|entry| entry.kind).collect();
    keys.push("\u{fffd}");
    keys.sort_unstable();
    let gets = play.answer(2, keys_of(Registry, &keys)).lines();
    assert_eq!(gets.len(), 13, "{gets:?}");
    for (at, kind) in (1..13).zip(&keys) {
        let value = registry::entry(kind).unwrap().to_json();
        play.answer(2 + at, message_of(Registry, kind, at, &value)).nothing();
    }
    let shell = registry::entry("shell").unwrap().to_json();
    play.answer(15, message_of(Registry, "shell", 13, &shell)).is([
        "warn: registry: the key \"\u{fffd}\" is not a kind and cannot be deleted by name: purge it as an administrator",
        "debug: registry in place: 0 put, 0 deleted, 13 unchanged",
    ]);
}

#[test]
fn a_conflict_is_read_again_once_and_said() {
    let mut play = Play::new();
    play.connect();
    play.pass_reads(2, &with("secret", "1")).is([put(16, "secret", 12)]);
    play.answer(16, jetstream::conflict(50)).is([get(17, Registry, "secret")]);
    play.answer(17, message_of(Registry, "secret", 50, "2")).is([
        put(18, "secret", 50),
        "warn: registry key secret: changed by another client, 1 to 2 (revision 50)".to_owned(),
    ]);
    failed(play.answer(18, jetstream::conflict(51)), "registry key secret: another client keeps writing it");
}

#[test]
fn a_conflict_with_somebody_who_wrote_the_same_needs_no_write() {
    let mut play = Play::new();
    play.connect();
    play.pass_reads(2, &with("secret", "1")).is([put(16, "secret", 12)]);
    play.answer(16, jetstream::conflict(50)).is([get(17, Registry, "secret")]);
    let entry = registry::entry("secret").unwrap().to_json();
    play.answer(17, message_of(Registry, "secret", 50, &entry)).is([
        format!("warn: registry key secret: changed by another client, 1 to {entry} (revision 50)"),
        "debug: registry in place: 0 put, 0 deleted, 13 unchanged".to_owned(),
    ]);
}

#[test]
fn one_refused_key_does_not_stop_the_others() {
    let mut play = Play::new();
    play.connect();
    let mut found = right();
    found.retain(|(key, _)| key != "port" && key != "seat");
    play.pass_reads(2, &found).is([put(14, "port", 0), put(15, "seat", 0)]);
    play.answer(14, jetstream::error(503, 10077, "maximum messages exceeded"))
        .is(["warn: registry key port: JetStream refuses the write: maximum messages exceeded (10077)"]);
    let asked = play.answer(15, stored(14));
    failed(asked, "registry key port: JetStream refuses the write: maximum messages exceeded (10077)");
    play.due_in(700..=950).is([list(16, Registry)]);
}

#[test]
fn a_write_of_unknown_outcome_is_read_again_before_it_is_tried_again() {
    let mut play = Play::new();
    play.connect();
    play.pass_reads(2, &with("secret", "1")).is([put(16, "secret", 12)]);
    play.due_in(2_000..=2_000).nothing();
    let unknown = "registry key secret: write status unknown: JetStream timed out";
    failed(play.due_in(3_000..=3_000), unknown);
    play.due_in(700..=950).is([list(18, Registry)]);
    // It was stored, and the answer was lost.
    play.pass_reads(18, &right()).is(["debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
    // The late answer changes nothing any more.
    play.answer(16, stored(13)).nothing();
}

#[test]
fn an_answer_that_cannot_be_read_is_an_unknown_outcome() {
    let mut play = Play::new();
    play.connect();
    play.pass_reads(2, &with("secret", "1")).is([put(16, "secret", 12)]);
    let words = "registry key secret: write status unknown: the reply has no sequence";
    failed(play.answer(16, b"{}".to_vec()), words);
}

#[test]
fn a_failed_pass_is_tried_again_after_a_second_doubling_to_a_minute() {
    let mut play = Play::new();
    play.connect();
    let gone = || jetstream::error(404, 10059, "stream not found");
    let why = "bucket mesh-provisioner_registry does not exist: run mesh-provisioner init";
    play.due_in(2_000..=2_000).nothing();
    failed(play.answer(2, gone()), why);
    play.due_in(700..=950).is([list(3, Registry)]);
    let waits = [1_400..=1_900, 2_800..=3_800, 5_600..=7_600, 11_200..=15_200, 22_400..=30_400];
    for (call, wait) in (3..).zip(waits) {
        play.answer(call, gone()).lines();
        play.due_in(wait).is([list(call + 1, Registry)]);
    }
    for call in 8..12 {
        play.answer(call, gone()).lines();
        play.due_in(42_000..=57_000).is([list(call + 1, Registry)]);
    }
    let health = play.seat.health(play.now);
    assert_eq!((health.ready, health.missing), (false, vec![why.to_owned()]));
    play.pass_reads(12, &right()).is(["debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
    assert!(play.seat.health(play.now).ready);
    // The doubling begins again after a success.
    play.tell(Event::Reload).is(["info: registry pass requested", &ping(26), &list(27, Registry)]);
    play.answer(27, gone()).lines();
    play.due_in(700..=950).is([list(28, Registry)]);
}

#[test]
fn nothing_is_written_on_the_strength_of_an_incomplete_list() {
    let mut play = Play::new();
    play.connect();
    // The first page of two holds what would be deleted, and lacks what would be put.
    let subjects = ["a", "b"].map(|key| format!("$KV.mesh-provisioner_registry.{key}"));
    play.answer(2, jetstream::page(&subjects, 0, 3, (1, AT), (3, AT))).is([
        r#"#3 $JS.API.STREAM.INFO.KV_mesh-provisioner_registry {"subjects_filter":"$KV.mesh-provisioner_registry.>","offset":1}"#,
    ]);
    failed(
        play.answer(3, jetstream::error(503, 10008, "system temporarily unavailable")),
        "bucket mesh-provisioner_registry cannot be reached: system temporarily unavailable (10008)",
    );
}

#[test]
fn nothing_is_written_when_one_value_cannot_be_read() {
    let mut play = Play::new();
    play.connect();
    play.answer(2, keys_of(Registry, &["odd", "secret"]))
        .is([get(3, Registry, "odd"), get(4, Registry, "secret")]);
    play.answer(3, message_of(Registry, "odd", 1, "1")).nothing();
    failed(play.answer(4, b"garbage".to_vec()), "unreadable reply: expected value at line 1 column 1");
}

#[test]
fn a_pass_asked_for_while_one_is_under_way_follows_it() {
    let mut play = Play::new();
    play.connect();
    play.tell(Event::Reload).is(["info: registry pass requested", &ping(3)]);
    let mut stored = right();
    stored.sort();
    let keys: Vec<&str> = stored.iter().map(|(key, _)| key.as_str()).collect();
    play.answer(2, keys_of(Registry, &keys)).is((4..).zip(&keys).map(|(call, key)| get(call, Registry, key)));
    for (at, (key, value)) in (1..13).zip(&stored) {
        play.answer(3 + at, message_of(Registry, key, at, value)).nothing();
    }
    play.answer(16, message_of(Registry, "shell", 13, &stored[12].1))
        .is([&list(17, Registry), "debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
}

#[test]
fn without_a_connection_a_pass_waits_for_the_next_one() {
    let mut play = Play::serving();
    play.tell(down("the connection broke")).is(["warn: disconnected: the connection broke", "connect"]);
    play.tell(Event::Reload).is(["info: registry pass requested"]);
    play.tell(up("n1")).is(["info: connected to n1", &ping(16), &list(17, Registry)]);
}

#[test]
fn a_pass_that_lost_its_connection_reads_again_what_it_wrote() {
    let mut play = Play::new();
    play.connect();
    play.pass_reads(2, &with("secret", "1")).is([put(16, "secret", 12)]);
    play.tell(down("the connection broke")).is(["warn: disconnected: the connection broke"]);
    play.due_in(250..=500).is(["connect"]);
    play.tell(up("n2")).is(["info: connected to n2", &ping(17), &list(18, Registry)]);
    play.answer(16, stored(13)).nothing();
    play.pass_reads(18, &right()).is(["debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
}

#[test]
fn a_denied_write_is_known_at_once_and_by_its_subject() {
    let mut play = Play::new();
    play.connect();
    let mut found = right();
    found.retain(|(key, _)| key != "port" && key != "seat");
    play.pass_reads(2, &found).is([put(14, "port", 0), put(15, "seat", 0)]);
    let words =
        |key: &str| format!("Permissions Violation for Publish to \"$KV.mesh-provisioner_registry.{key}\"");
    play.tell(Event::ServerError(words("other"))).is([format!("warn: the server says {:?}", words("other"))]);
    play.tell(Event::ServerError(words("seat"))).is([
        format!("warn: the server says {:?}", words("seat")),
        format!(
            "warn: registry key seat: the server says {:?}: grant the seat the permissions that mesh-provisioner permissions seat prints",
            words("seat")
        ),
    ]);
    failed(
        play.answer(14, stored(14)),
        "grant the seat the permissions that mesh-provisioner permissions seat prints",
    );
    assert_eq!(play.seat.health(play.now).last_bus_error, Some(words("seat")));
}

#[test]
fn a_denied_listing_is_not_waited_for() {
    let mut play = Play::new();
    play.connect();
    let words = "Permissions Violation for Publish to \"$JS.API.STREAM.INFO.KV_mesh-provisioner_registry\""
        .to_owned();
    failed(
        play.tell(Event::ServerError(words)),
        "grant the seat the permissions that mesh-provisioner permissions seat prints",
    );
    let bucket: Bucket = Registry;
    assert!(play.seat.health(play.now).missing[0].starts_with(&format!("bucket {bucket} cannot be reached")));
}

#[test]
fn a_contested_registry_is_reported_and_restored_less_often() {
    let mut play = Play::with(|settings| settings.every = std::time::Duration::from_secs(1));
    play.connect();
    play.pass_reads(2, &right()).is(["debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
    let mut waits = Vec::new();
    for _ in 0..12 {
        let began = play.now;
        let listing = loop {
            let lines = play.due().lines();
            if let Some(line) = lines.iter().find(|line| line.contains("subjects_filter")) {
                break line[1..].split(' ').next().unwrap().parse().unwrap();
            }
        };
        waits.push(play.now.saturating_sub(began).as_secs());
        let write = play.pass_reads(listing, &with("secret", "1")).lines();
        let call = write[0][1..].split(' ').next().unwrap().parse().unwrap();
        play.answer(call, stored(100)).lines();
    }
    assert_eq!(waits, [1, 1, 1, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
    let health = play.seat.health(play.now);
    assert!(!health.ready);
    assert_eq!(
        health.missing,
        [
            "another client keeps changing the registry, 12 passes in a row had to restore it: find the other account that may publish to $KV.mesh-provisioner_registry.>"
        ]
    );
    // Nobody changes it any more.
    let listing = loop {
        let lines = play.due().lines();
        if let Some(line) = lines.iter().find(|line| line.contains("subjects_filter")) {
            break line[1..].split(' ').next().unwrap().parse().unwrap();
        }
    };
    play.pass_reads(listing, &right()).is(["debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
    assert!(play.seat.health(play.now).ready);
}

#[test]
fn a_status_message_to_a_call_of_the_pass_answers_nothing() {
    let mut play = Play::new();
    play.connect();
    let status = Event::Part { call: 2, part: Part::Unusable("408 Bad Request".to_owned()) };
    play.tell(status).nothing();
    play.pass_reads(2, &right()).is(["debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
}

#[test]
fn an_acknowledgement_of_another_stream_stores_nothing() {
    let mut play = Play::new();
    play.connect();
    play.pass_reads(2, &with("secret", "1")).is([put(16, "secret", 12)]);
    failed(
        play.answer(16, jetstream::stored("KV_other", 5)),
        "the acknowledgement names the stream \"KV_other\" in place of KV_mesh-provisioner_registry",
    );
    assert!(!play.seat.health(play.now).ready);
}

#[test]
fn a_server_that_hangs_on_the_registry_gets_no_pass_at_once_on_the_third_connection() {
    let mut play = Play::new();
    let mut begun = Vec::new();
    play.due().is(["connect"]);
    for _ in 0..3 {
        let asked = play.tell(up("n1")).lines();
        begun.push(asked.iter().any(|line| line.contains("STREAM.INFO")));
        // The call has no reply, and long after that the connection counts as dead.
        while play.now < Duration::from_secs(40 * begun.len() as u64) {
            play.due().lines();
        }
        let asked = play.tell(down("no answer in time")).lines();
        assert!(asked.contains(&"connect".to_owned()), "{asked:?}");
    }
    assert_eq!(begun, [true, true, false]);
}

/// Lets time pass until the seat does something with `words` in it; gives that, and what it did beside it.
fn until(play: &mut Play, mut lines: Vec<String>, words: &str) -> Vec<String> {
    while !lines.iter().any(|line| line.contains(words)) {
        lines = play.due().lines();
    }
    lines
}

/// The number of the request to the bus with `words` in it.
fn number(lines: &[String], words: &str) -> u64 {
    let line = lines.iter().find(|line| line.contains(words)).expect("a request");
    line[1..].split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

const LISTING: &str = "$JS.API.STREAM.INFO.KV_mesh-provisioner_registry";
const ECHO: &str = " _INBOX_mesh.provisioner.";

#[test]
fn g8_what_needs_no_bucket_is_answered_while_jetstream_and_its_connections_hang() {
    let mut play = Play::new();
    play.due().is(["connect"]);
    let mut waits = Vec::new();
    for connection in 1..=6 {
        let came = play.now;
        let lines = play.tell(up("n1")).lines();
        until(&mut play, lines, LISTING);
        let asked = play.now;
        waits.push(asked.saturating_sub(came).as_secs());
        // Neither the call nor what the seat sends to itself comes back: it moves.
        until(&mut play, vec![], ECHO);
        until(&mut play, vec![], "connect");
        assert_eq!(play.now.saturating_sub(asked), Duration::from_secs(10), "{connection}");
        let health = play.ask("h", r#"{"what":"health"}"#).lines();
        assert!(health[0].starts_with("to _INBOX.h: {"), "{health:?}");
        // What needs a bucket is refused at once. Its calls would hold up the new connection too.
        let refused = play.ask("n", r#"{"what":"needs"}"#).lines();
        let words = "to _INBOX.n: 503 jetstream_unavailable: JetStream does not answer, and is asked again within a minute: check the load, the disk and the log of the nats-server";
        assert_eq!(refused.last().map(String::as_str), Some(words));
    }
    assert!(waits[..2] == [0, 0] && waits[5] > waits[3] && waits[5] <= 60, "{waits:?}");
    // JetStream answers again.
    let lines = play.tell(up("n1")).lines();
    let call = number(&until(&mut play, lines, LISTING), LISTING);
    play.answer(call, keys_of(Registry, &[])).lines();
    let lines = play.ask("n", r#"{"what":"needs"}"#).lines();
    assert!(lines[0].contains("$JS.API.STREAM.INFO.KV_mesh-provisioner_needs"), "{lines:?}");
}

#[test]
fn one_stream_that_is_silent_costs_the_others_nothing() {
    let mut play = Play::new();
    play.due().is(["connect"]);
    let lines = play.tell(up("n1")).lines();
    until(&mut play, lines, LISTING);
    while !play.due_with_echo().iter().any(|line| line.contains(ECHO)) {}
    let lines = play.ask("n", r#"{"what":"needs"}"#).lines();
    assert!(lines[0].contains("$JS.API.STREAM.INFO.KV_mesh-provisioner_needs"), "{lines:?}");
    for _ in 0..20 {
        assert!(!play.due_with_echo().contains(&"connect".to_owned()), "{:?}", play.now);
    }
}
