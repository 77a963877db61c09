//! The looks at the streams of the buckets: a changed registry is noticed, and settings that lose what was written.

use crate::play::{Asked, Play, get, keys_of, list, look, look_of, message_of};
use mesh_model::bucket::Bucket::{self, Needs, Registry};
use mesh_model::registry;
use mesh_testing::jetstream;
use std::time::Duration;

/// A seat that has found the registry as it should be, and looks at the streams every 50 s; it looks for the first time.
fn looking() -> Play {
    let mut play = Play::with(|settings| settings.check_every = Duration::from_secs(50));
    play.connect();
    play.settle_pass();
    assert_eq!(play.now, Duration::from_secs(5));
    play.due_in(45_000..=45_000).is(looks(16));
    play
}

fn looks(first: u64) -> Vec<String> {
    (first..).zip(Bucket::ALL).map(|(call, bucket)| look(call, bucket)).collect()
}

/// Answers the looks: that at the registry so, the others with a bucket that is empty.
fn answered(play: &mut Play, first: u64, registry: Vec<u8>) -> Asked {
    for call in first + 1..first + 4 {
        play.answer(call, look_of(1, 0, 0)).nothing();
    }
    play.answer(first, registry)
}

#[test]
fn a_registry_that_is_as_it_was_is_looked_at_again_and_again_and_stays_verified() {
    let mut play = looking();
    for first in [16, 20, 24, 28] {
        answered(&mut play, first, look_of(8, 13, 13)).nothing();
        assert!(play.seat.health(play.now).ready);
        play.due_in(50_000..=50_000).is(looks(first + 4));
    }
}

#[test]
fn a_registry_that_was_emptied_is_not_ready_at_once_and_is_read_again_a_second_later() {
    for changed in [look_of(8, 0, 13), look_of(8, 0, 0), look_of(8, 13, 14)] {
        let mut play = looking();
        answered(&mut play, 16, changed).nothing();
        let health = play.seat.health(play.now);
        assert!(!health.ready);
        assert_eq!(health.missing, ["the registry was changed since the last pass, the next one is due"]);
        play.due_in(1_000..=1_000).is([list(20, Registry)]);
    }
}

#[test]
fn a_registry_that_was_emptied_is_noticed_when_it_is_read() {
    let mut play = Play::serving_in_bulk();
    play.ask("a", "").is([list(16, Registry)]);
    play.answer(16, keys_of(Registry, &["port"])).is([get(17, Registry, "port")]);
    play.answer(17, jetstream::no_message()).lines();
    assert!(!play.seat.health(play.now).ready);
    play.due_in(1_000..=1_000).is([list(18, Registry)]);
}

#[test]
fn what_was_read_of_the_registry_before_the_last_pass_is_no_reason_to_doubt_it() {
    let mut play = looking();
    answered(&mut play, 16, look_of(8, 13, 13)).nothing();
    let mut entries: Vec<(String, String)> =
        registry::ENTRIES.iter().map(|entry| (entry.kind.to_owned(), entry.to_json())).collect();
    entries.sort();
    play.ask("a", "").is([list(20, Registry)]);
    let lines = play.pass_reads(20, &entries).lines();
    assert!(lines[0].starts_with("to _INBOX.a: "), "{lines:?}");
    // Another client writes a key, and the next pass finds it right again.
    play.due_in(50_000..=50_000).is(looks(34));
    answered(&mut play, 34, look_of(8, 13, 14)).nothing();
    play.due_in(1_000..=1_000).is([list(38, Registry)]);
    let kinds: Vec<&str> = entries.iter().map(|(kind, _)| kind.as_str()).collect();
    let listed = String::from_utf8(keys_of(Registry, &kinds)).unwrap();
    let listed = listed.replace("\"last_seq\":13", "\"last_seq\":14").into_bytes();
    let asked = play.answer(38, listed).lines();
    assert_eq!(asked.len(), 13, "{asked:?}");
    let mut last = Vec::new();
    for (call, (kind, value)) in (39..).zip(&entries) {
        last = play.answer(call, message_of(Registry, kind, call - 38, value)).lines();
    }
    assert_eq!(last, ["debug: registry in place: 0 put, 0 deleted, 13 unchanged"]);
    assert!(play.seat.health(play.now).ready);
    // A query that does not read the registry says nothing of it.
    play.ask("b", r#"{"what":"needs"}"#).is([look(52, Needs)]);
    let lines = play.answer(52, look_of(1, 0, 0)).lines();
    assert!(lines[0].starts_with("to _INBOX.b: "), "{lines:?}");
    assert!(play.seat.health(play.now).ready, "{:?}", play.seat.health(play.now).missing);
}

#[test]
fn a_registry_that_cannot_be_looked_at_is_not_believed_in_for_long() {
    let mut play = looking();
    while play.seat.health(play.now).ready {
        play.due_with_echo();
    }
    assert_eq!(play.now, Duration::from_secs(150), "the first look after 110 s");
    let health = play.seat.health(play.now);
    assert_eq!(
        health.missing,
        ["the registry could not be looked at for 110 s: look at the JetStream of the nats-server"]
    );
}

#[test]
fn settings_that_lose_what_was_written_and_streams_that_are_no_buckets_are_told() {
    let mut play = looking();
    let config = |settings: &str| {
        let look = String::from_utf8(look_of(1, 0, 0)).unwrap();
        look.replace("\"config\":{", &format!("\"config\":{{{settings},")).into_bytes()
    };
    play.answer(17, config(r#""max_age":4000000000"#)).is([
        "warn: bucket mesh-provisioner_needs loses data: max_age is 4 s: unset that, or see mesh-provisioner check",
    ]);
    let lines = play.answer(18, config(r#""mirror":{"name":"KV_other"}"#)).lines();
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with(
            "warn: the stream of bucket mesh-provisioner_applied is not a bucket: it is a mirror"
        ),
        "{lines:?}"
    );
}
