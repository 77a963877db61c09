//! The log: what happens over and over is said once a minute, with a count.

use crate::play::{Play, down, up};
use mesh_provisioner::seat::Event;
use mesh_testing::jetstream;

/// How often a line that starts with `start` stands among `lines`.
fn count(lines: &[String], start: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(start)).count()
}

#[test]
fn the_bus_is_quoted_once_a_minute() {
    let mut play = Play::serving();
    let protest = || Event::ServerError("Authorization Violation".to_owned());
    play.tell(protest()).is(["warn: the server says \"Authorization Violation\""]);
    for _ in 0..500 {
        play.tell(protest()).nothing();
    }
    play.tell_after(60_000, protest()).is([
        "warn: the server says \"Authorization Violation\" (and 500 more like it since the last such line)",
    ]);
}

#[test]
fn lost_messages_are_counted_and_said_once_a_minute() {
    let mut play = Play::serving();
    play.tell(Event::Overrun(3)).is(["warn: request queue full: dropping requests"]);
    play.tell(Event::Overrun(4)).nothing();
    play.tell(Event::Undelivered(5)).is(["warn: outgoing queue full: dropping responses"]);
    let counters = play.seat.health(play.now).counters;
    assert_eq!((counters.overrun, counters.undelivered), (7, 5));
}

#[test]
fn a_pass_that_fails_over_and_over_is_said_once_a_minute() {
    let mut play = Play::new();
    play.connect();
    let mut lines = Vec::new();
    let mut call = 2;
    while play.now.as_secs() < 600 {
        let refusal = jetstream::error(404, 10059, "stream not found");
        lines.extend(play.answer(call, refusal).lines());
        let asked = loop {
            let asked = play.due().lines();
            if !asked.is_empty() {
                break asked;
            }
        };
        call = asked[0].strip_prefix('#').and_then(|line| line.split(' ').next()).unwrap().parse().unwrap();
    }
    let said = count(&lines, "warn: registry pass failed");
    assert!((6..=10).contains(&said), "{said} lines in ten minutes: {lines:?}");
}

#[test]
fn a_connection_that_keeps_breaking_backs_off_and_is_logged_once_a_minute() {
    let mut play = Play::new();
    play.due().is(["connect"]);
    let mut lines = Vec::new();
    let mut connections = 0;
    while play.now.as_secs() < 60 {
        connections += 1;
        lines.extend(play.tell(up("n1")).lines());
        lines.extend(
            play.tell(down("the server closed the connection: \"Maximum Payload Violation\"")).lines(),
        );
        lines.extend(play.due().lines());
    }
    assert!(connections <= 40, "{connections} connections in a minute");
    // The first time, and once more as the first of those that are counted.
    assert_eq!(count(&lines, "info: connected to n1"), 2, "{lines:?}");
    assert_eq!(count(&lines, "warn: disconnected: "), 1, "{lines:?}");
}

#[test]
fn refused_replies_without_end_hide_no_change_of_the_registry() {
    let mut play = Play::serving();
    for at in 0..200 {
        let words = format!("Permissions Violation for Publish to \"_INBOX.denied.{at}\"");
        play.tell(Event::ServerError(words)).lines();
    }
    play.tell(Event::Reload).lines();
    let stored: Vec<(String, String)> =
        (100..220).map(|at| (format!("stranger{at}"), "1".to_owned())).collect();
    let asked = play.pass_reads(17, &stored).lines();
    let deletions = asked.iter().filter(|line| line.contains("KV-Operation: DEL"));
    let calls: Vec<u64> =
        deletions.map(|line| line[1..].split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(calls.len(), 120, "{asked:?}");
    let ack = || jetstream::stored("KV_mesh-provisioner_registry", 300);
    let lines: Vec<String> = calls.into_iter().flat_map(|call| play.answer(call, ack()).lines()).collect();
    assert_eq!(count(&lines, "warn: registry key stranger"), 120);
}
