//! The services API, and other holders of the seat.

use crate::play::{ID, Play, ping, pong};
use mesh_provisioner::seat::Event;
use serde_json::Value;

fn monitor(subject: &str) -> Event {
    Event::Request { subject: subject.to_owned(), reply: Some("_INBOX.m".to_owned()), body: vec![] }
}

/// Another seat asks who is there.
fn other(id: &str, version: &str) -> Event {
    Event::Request {
        subject: "$SRV.PING.mesh-provisioner".to_owned(),
        reply: Some(format!("_INBOX_mesh-provisioner.{id}.1")),
        body: pong(id, version).into_bytes(),
    }
}

/// Wakes the seat until it asks who else is there, about an hour later.
fn ask_again(play: &mut Play) {
    let asks = |play: &mut Play| play.due().lines().iter().any(|line| line.contains(" $SRV.PING"));
    assert!((0..10).any(|_| asks(play)), "it does not ask again");
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
fn two_seats_learn_of_each_other_and_say_it_once() {
    let mut play = Play::serving();
    // One that has just started asks; ours asks back, so that both know.
    play.tell(other("SEAT2", "0.1.0")).is([ping(16)]);
    play.due_in(2_000..=2_000).is([
        "warn: the seat is also held by SEAT2, the same version: they do each other no harm, but one is enough",
    ]);
    assert_eq!(play.seat.health(play.now).other_seats[0].id, "SEAT2");
    // An hour later it is still there: no news.
    ask_again(&mut play);
    play.tell(other("SEAT2", "0.1.0")).nothing();
    play.tell_after(2_000, Event::Due).lines();
    assert_eq!(play.seat.health(play.now).other_seats.len(), 1);
}

#[test]
fn seats_of_different_versions_are_told_apart() {
    let mut play = Play::serving();
    play.tell(other("SEAT2", "0.2.0")).is([ping(16)]);
    play.due_in(2_000..=2_000).is([
        "warn: the seat is also held by SEAT2, version 0.2.0 beside 0.1.0: they may write different registries, stop one of them",
    ]);
}

#[test]
fn an_answer_to_the_question_counts_too_and_our_own_does_not() {
    let mut play = Play::new();
    play.connect();
    play.answer(1, pong("SEAT2", "0.1.0").into_bytes()).nothing();
    play.answer(1, pong(ID, "0.1.0").into_bytes()).nothing();
    play.answer(1, pong("SEAT3", "0.1.0").into_bytes()).nothing();
    play.tell(other(ID, "0.1.0")).nothing();
    play.due_in(2_000..=2_000).is([
        "warn: the seat is also held by SEAT2, SEAT3, the same version: they do each other no harm, but one is enough",
    ]);
    let known: Vec<String> = play.seat.health(play.now).other_seats.into_iter().map(|seat| seat.id).collect();
    assert_eq!(known, ["SEAT2", "SEAT3"]);
}

#[test]
fn who_only_wants_to_know_who_is_there_hears_it_and_is_no_seat() {
    let mut play = Play::serving();
    play.tell(other("-", "0.1.0")).is([ping(16)]);
    // Within the moment of the last question too: that one was not for this asker.
    play.tell(other("-", "0.1.0")).is([ping(17)]);
    play.due_in(2_000..=2_000).nothing();
    assert!(play.seat.health(play.now).other_seats.is_empty());
}

#[test]
fn a_seat_that_went_away_is_forgotten_within_an_interval() {
    let mut play = Play::serving();
    play.tell(other("SEAT2", "0.1.0")).lines();
    play.due_in(2_000..=2_000).lines();
    ask_again(&mut play);
    play.tell_after(2_000, Event::Due).lines();
    assert!(play.seat.health(play.now).other_seats.is_empty());
}

#[test]
fn nobody_can_fill_the_log_or_an_answer_by_posing_as_seats() {
    let mut play = Play::serving();
    for (id, version) in [("x".repeat(65).as_str(), "0.1.0"), ("", "0.1.0"), ("S", "1\\u001b[31m")] {
        // No seat: it is answered as anybody is.
        let mut event = other(id, version);
        if let Event::Request { reply, .. } = &mut event {
            *reply = Some("_INBOX.x".to_owned());
        }
        play.tell(event).is([format!("to _INBOX.x: {}", pong(ID, "0.1.0"))]);
    }
    let mut lines = Vec::new();
    for stranger in 0..200 {
        lines.extend(play.tell(other(&format!("S{stranger}"), "0.1.0")).lines());
        if stranger % 10 == 9 {
            lines.extend(play.due().lines());
        }
    }
    assert!(play.now.as_secs() < 60, "all within a minute");
    let said: Vec<&String> = lines.iter().filter(|line| line.starts_with("warn: ")).collect();
    assert!(said.len() == 1, "{} lines, such as {:?}", said.len(), said.last());
}
