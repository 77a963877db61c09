//! The end of the seat.

use crate::play::{Play, asked, down, get, keys_of, list, look, message_of, up};
use mesh_model::bucket::Bucket::{Needs, Registry};
use mesh_model::registry;
use mesh_provisioner::seat::Event;

const STOPPING: &str = "the seat is stopping: try again in a moment";

#[test]
fn an_idle_seat_ends_at_once_whatever_state_the_bus_is_in() {
    Play::serving().tell(Event::Stop).is(["info: stopping: 0 requests under way", "stop listening", "exit"]);
    let mut play = Play::new();
    play.due().is(["connect"]);
    play.tell(Event::Stop).is(["info: stopping: 0 requests under way", "stop listening", "exit"]);
    let mut play = Play::serving();
    play.tell(down("the connection broke")).is(["warn: disconnected: the connection broke", "connect"]);
    play.tell(Event::Stop).is(["info: stopping: 0 requests under way", "stop listening", "exit"]);
}

#[test]
fn what_is_under_way_is_answered_first() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.tell(Event::Stop).is(["info: stopping: 1 requests under way", "stop listening"]);
    play.tell(Event::Stop).nothing();
    play.ask("b", r#"{"what":"needs"}"#)
        .is([format!("warn: answered 503: {STOPPING}"), format!("to _INBOX.b: 503 stopping: {STOPPING}")]);
    play.answer(16, keys_of(Needs, &["n1.web.port.http"])).is([get(17, Needs, "n1.web.port.http")]);
    let lines = play.answer(17, message_of(Needs, "n1.web.port.http", 1, "1")).lines();
    assert!(lines[0].starts_with("to _INBOX.a: {"), "{lines:?}");
    assert_eq!(lines[1..], ["exit"]);
}

#[test]
fn what_cannot_be_answered_is_told_so_after_its_four_seconds() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.tell_after(1_000, Event::Stop).is(["info: stopping: 1 requests under way", "stop listening"]);
    let words = "not read within 4 s: the keys of bucket mesh-provisioner_needs were not listed: try again with a narrower query, or check the load of the nats-server";
    play.due_in(3_000..=3_000).is([
        format!("warn: answered 504: {words}"),
        format!("to _INBOX.a: 504 timeout: {words}"),
        "exit".to_owned(),
    ]);
}

#[test]
fn a_seat_that_ends_without_its_connection_tells_those_who_wait() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.tell(Event::Stop).is(["info: stopping: 1 requests under way", "stop listening"]);
    play.tell(down("the connection broke")).is([
        "warn: disconnected: the connection broke".to_owned(),
        "connect".to_owned(),
        format!("warn: answered 503: {STOPPING}"),
        format!("to _INBOX.a: 503 stopping: {STOPPING}"),
        "exit".to_owned(),
    ]);
}

#[test]
fn no_write_begins_after_the_word_to_stop() {
    let mut play = Play::new();
    play.connect();
    play.ask("a", r#"{"what":"needs"}"#).is([look(3, Needs)]);
    play.tell(Event::Stop).is(["info: stopping: 1 requests under way", "stop listening"]);
    play.answer(2, keys_of(Registry, &[])).nothing();
    // Nor does it ask who else is there, however it is told to.
    play.tell(Event::Reload).is(["info: registry pass requested"]);
    play.tell(Event::Request {
        subject: "$SRV.PING.mesh-provisioner".to_owned(),
        reply: Some("_INBOX_mesh.provisioner.SEAT2.1".to_owned()),
        body: crate::play::pong("SEAT2", "0.1.0").into_bytes(),
    })
    .is([format!("to _INBOX_mesh.provisioner.SEAT2.1: {}", crate::play::pong("SEAT1", "0.1.0"))]);
    // What is under way has its time.
    play.due_in(4_000..=4_000).lines();
}

#[test]
fn a_pass_in_the_middle_of_its_writes_is_left_where_it_is() {
    let mut play = Play::new();
    play.connect();
    let stored: Vec<(String, String)> =
        registry::ENTRIES[1..].iter().map(|entry| (entry.kind.to_owned(), entry.to_json())).collect();
    play.pass_reads(2, &stored).is([crate::play::put(15, "config", 0)]);
    play.tell(Event::Stop).is(["info: stopping: 0 requests under way", "stop listening", "exit"]);
}

#[test]
fn a_connection_that_comes_up_while_it_ends_takes_no_new_requests() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.tell(Event::LameDuck).is(["info: n1 is about to shut down: moving to another server", "connect"]);
    play.tell(Event::Stop).is(["info: stopping: 1 requests under way", "stop listening"]);
    play.tell(up("n2")).is(["info: connected to n2", "stop listening", &list(17, Needs)]);
    let lines = play.answer(17, keys_of(Needs, &[])).lines();
    assert!(lines[0].starts_with("to _INBOX.a: {"), "{lines:?}");
    assert_eq!(lines[1..], ["exit"]);
}

#[test]
fn a_seat_that_ends_is_not_ready_and_still_says_how_it_is() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.tell(Event::Stop).lines();
    let lines = play.tell(asked("_INBOX.h", r#"{"what":"health"}"#)).lines();
    assert!(lines[0].contains(r#""ok":false"#), "{lines:?}");
    assert!(lines[0].contains(r#""missing":["the seat is stopping"]"#), "{lines:?}");
    assert!(!play.seat.is_serving());
}
