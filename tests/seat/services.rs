//! The services API, and other holders of the seat.

use crate::play::{ID, Play, ping, pong};
use mesh_provisioner::seat::Event;
use serde_json::Value;
use std::time::Duration;

fn monitor(subject: &str) -> Event {
    Event::Request { subject: subject.to_owned(), reply: Some("_INBOX.m".to_owned()), body: vec![] }
}

/// Another seat asks who is there.
fn other(id: &str, version: &str) -> Event {
    Event::Request {
        subject: "$SRV.PING.mesh-provisioner".to_owned(),
        reply: Some(format!("_INBOX_mesh.provisioner.{id}.1")),
        body: pong(id, version).into_bytes(),
    }
}

/// The answer to the question of the seat `id`.
fn answer(id: &str) -> String {
    format!("to _INBOX_mesh.provisioner.{id}.1: {}", pong(ID, "0.1.0"))
}

/// Wakes the seat until it asks who else is there; gives the number of the question.
fn ask_again(play: &mut Play) -> u64 {
    for _ in 0..10 {
        let lines = play.due().lines();
        if let Some(line) = lines.iter().find(|line| line.contains(" $SRV.PING")) {
            return line[1..].split(' ').next().unwrap().parse().unwrap();
        }
    }
    panic!("it does not ask again");
}

/// The ids of the other seats that `health` names.
fn others(play: &Play) -> Vec<String> {
    let health = play.seat.health(play.now);
    health.other_seats.into_iter().map(|seat| seat.identity.id).collect()
}

#[test]
fn the_nine_monitoring_subjects_are_answered_at_once() {
    let mut play = Play::serving();
    for (word, answer) in [("PING", "ping"), ("INFO", "info"), ("STATS", "stats")] {
        for subject in [
            format!("$SRV.{word}"),
            format!("$SRV.{word}.mesh-provisioner"),
            format!("$SRV.{word}.mesh-provisioner.{ID}"),
        ] {
            let lines = play.tell(monitor(&subject)).lines();
            let [line] = &lines[..] else { panic!("{subject}: {lines:?}") };
            let body: Value = serde_json::from_str(line.strip_prefix("to _INBOX.m: ").unwrap()).unwrap();
            assert_eq!(body["type"], format!("io.nats.micro.v1.{answer}_response"));
            assert_eq!(body["id"], ID);
        }
    }
    for foreign in ["$SRV.PING.other", "$SRV.PING.mesh-provisioner.OTHER", "$SRV.NEWS"] {
        play.tell(monitor(foreign)).nothing();
    }
}

#[test]
fn statistics_count_what_the_verb_did() {
    let mut play = Play::serving();
    play.ask("a", "nonsense").lines();
    play.ask("b", r#"{"what":"health"}"#).lines();
    let line = play.tell(monitor("$SRV.STATS")).lines().remove(0);
    let body: Value = serde_json::from_str(line.strip_prefix("to _INBOX.m: ").unwrap()).unwrap();
    let endpoint = &body["endpoints"][0];
    assert_eq!((&endpoint["num_requests"], &endpoint["num_errors"]), (&2.into(), &1.into()));
    assert!(endpoint["last_error"].as_str().unwrap().starts_with("400: "), "{endpoint}");
    assert_eq!(endpoint["data"]["answers"], 1);
    assert_eq!(endpoint["data"]["bad_requests"], 1);
}

#[test]
fn two_seats_learn_of_each_other_and_report_it_once() {
    let mut play = Play::serving();
    // One that has just started asks: it is answered, and asked back.
    play.tell(other("SEAT2", "0.1.0")).is([answer("SEAT2"), ping(16)]);
    play.answer(16, pong("SEAT2", "0.1.0").into_bytes())
        .is(["warn: other seats are running: SEAT2, the same version: one is enough"]);
    assert_eq!(others(&play), ["SEAT2"]);
    // Twenty seconds later it is still there: no news.
    let call = ask_again(&mut play);
    play.answer(call, pong("SEAT2", "0.1.0").into_bytes()).nothing();
    assert_eq!(others(&play), ["SEAT2"]);
}

#[test]
fn seats_that_know_each_other_do_not_answer_each_question_with_another() {
    let mut play = Play::serving();
    play.tell(other("SEAT2", "0.1.0")).is([answer("SEAT2"), ping(16)]);
    play.answer(16, pong("SEAT2", "0.1.0").into_bytes()).lines();
    let since = play.now;
    // The other one asks again because it was asked.
    play.tell(other("SEAT2", "0.1.0")).is([answer("SEAT2")]);
    ask_again(&mut play);
    assert_eq!(play.now.saturating_sub(since), Duration::from_secs(20));
}

#[test]
fn seats_of_different_versions_are_told_apart() {
    let mut play = Play::new();
    play.connect();
    play.answer(1, pong("SEAT2", "0.2.0").into_bytes()).is([
        "warn: other seats are running: SEAT2, version 0.2.0 next to 0.1.0: they may write different registries, stop one of them",
    ]);
}

#[test]
fn all_who_answer_count_and_our_own_answer_does_not() {
    let mut play = Play::new();
    play.connect();
    play.answer(1, pong("SEAT2", "0.1.0").into_bytes()).lines();
    play.answer(1, pong(ID, "0.1.0").into_bytes()).nothing();
    play.answer(1, pong("SEAT3", "0.1.0").into_bytes()).nothing();
    play.tell(other(ID, "0.1.0")).nothing();
    assert_eq!(others(&play), ["SEAT2", "SEAT3"]);
}

#[test]
fn a_seat_is_found_however_often_the_registry_is_written() {
    let mut play = Play::with(|settings| settings.every = Duration::from_secs(1));
    play.connect();
    // The questions come every second, and each answer after half a second.
    let call = ask_again(&mut play);
    play.tell_after(
        500,
        Event::Reply { call, no_responders: false, body: pong("SEAT2", "0.1.0").into_bytes() },
    )
    .lines();
    assert_eq!(others(&play), ["SEAT2"]);
}

#[test]
fn a_seat_that_went_away_is_forgotten_within_a_minute() {
    let mut play = Play::serving();
    play.tell(other("SEAT2", "0.1.0")).lines();
    play.answer(16, pong("SEAT2", "0.1.0").into_bytes()).lines();
    let left = play.now;
    while !others(&play).is_empty() {
        play.due().lines();
    }
    assert!(play.now.saturating_sub(left) <= Duration::from_secs(60), "{:?}", play.now);
}

#[test]
fn a_stranger_who_poses_as_seats_is_no_seat_and_causes_few_questions() {
    let mut play = Play::serving();
    let mut lines = Vec::new();
    for stranger in 0..200 {
        // Whoever does not know the inbox of a seat has only its own.
        let mut event = other(&format!("S{stranger}"), "0.1.0");
        if let Event::Request { reply, .. } = &mut event {
            *reply = Some("_INBOX.x".to_owned());
        }
        lines.extend(play.tell_after(50, event).lines());
        if play.seat.next_deadline().is_some_and(|due| due <= play.now + Duration::from_millis(50)) {
            lines.extend(play.due().lines());
        }
    }
    let questions = lines.iter().filter(|line| line.contains(" $SRV.PING.")).count();
    assert!((1..=6).contains(&questions), "{questions} questions in ten seconds");
    assert!(others(&play).is_empty());
    assert!(lines.iter().all(|line| !line.starts_with("warn: ")), "{lines:?}");
}
