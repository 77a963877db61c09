//! The connection: attempts and their waits, its loss, a move to another server.

use crate::play::{Play, asked, down, list, ping, up};
use mesh_model::bucket::Bucket::{Applied, Needs, Registry};
use mesh_provisioner::seat::Event;

#[test]
fn attempts_to_connect_never_run_out_and_wait_longer_each_time() {
    let mut play = Play::new();
    play.due_in(0..=0).is(["connect"]);
    assert_eq!(play.seat.next_deadline(), None, "an attempt ends by itself");
    for (attempt, wait) in (0..).zip([250, 500, 1_000, 2_000, 4_000, 4_000, 4_000]) {
        let asked = play.tell(down("refused"));
        if attempt == 0 {
            asked.is(["warn: cannot connect, trying again: refused"]);
        } else {
            asked.nothing();
        }
        // The first attempt counts as failed: its wait is the second of the row.
        let wait = (wait * 2).min(4_000);
        play.due_in(wait / 2..=wait).is(["connect"]);
    }
    let health = play.seat.health(play.now);
    assert_eq!(health.missing[0], "not connected to the bus: refused");
    play.tell(up("n1")).is(["info: connected to n1", &ping(1), &list(2, Registry)]);
}

#[test]
fn after_a_loss_the_waits_begin_anew() {
    let mut play = Play::serving();
    play.tell(down("the connection broke")).is(["warn: disconnected: the connection broke", "connect"]);
    play.tell(down("refused")).is(["warn: cannot connect, trying again: refused"]);
    play.due_in(250..=500).is(["connect"]);
}

#[test]
fn a_request_under_way_begins_anew_on_the_next_connection() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.tell(down("the connection broke")).is(["warn: disconnected: the connection broke", "connect"]);
    play.tell(up("n2")).is(["info: connected to n2", &ping(17), &list(18, Registry), &list(19, Needs)]);
    // What comes late is another connection's answer.
    play.answer(16, crate::play::keys_of(Needs, &[])).nothing();
    let lines = play.answer(19, crate::play::keys_of(Needs, &[])).lines();
    assert!(
        lines[0].starts_with(r#"to _INBOX.a: {"type":"io.mesh.provisioner.v1.needs_response""#),
        "{lines:?}"
    );
}

#[test]
fn a_request_that_outlives_the_connection_is_told_so_after_four_seconds() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.tell_after(3_500, down("the connection broke"))
        .is(["warn: disconnected: the connection broke", "connect"]);
    let words = "the request waited 4 s for its turn: try again later";
    play.due_in(500..=500)
        .is([format!("warn: answered 504: {words}"), format!("to _INBOX.a: 504 timeout: {words}")]);
}

#[test]
fn a_lame_duck_is_left_only_when_another_server_takes_us() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.tell(Event::LameDuck).is(["info: n1 is about to shut down: moving to another server", "connect"]);
    // It goes on being served meanwhile.
    play.ask("b", r#"{"what":"applied"}"#).is([list(17, Applied)]);
    let lines = play.answer(16, crate::play::keys_of(Needs, &[])).lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    play.due_in(2_000..=2_000).is(["connect"]);
    play.tell(up("n2")).is(["info: connected to n2", &ping(18), &list(19, Registry), &list(20, Applied)]);
    play.due_in(2_000..=2_000).lines();
}

#[test]
fn a_denied_subscription_is_said_until_a_server_grants_it() {
    let mut play = Play::serving();
    let words = r#"Permissions Violation for Subscription to "mesh-provisioner.provisioning""#;
    play.tell(Event::ServerError(words.to_owned())).is([format!("warn: the server says {words:?}")]);
    assert!(!play.seat.is_serving());
    assert!(play.seat.health(play.now).missing[0].contains("\"mesh-provisioner.provisioning\""));
    play.tell(Event::LameDuck).is(["info: n1 is about to shut down: moving to another server", "connect"]);
    play.tell(up("n2")).is(["info: connected to n2", &ping(16), &list(17, Registry)]);
    assert!(play.seat.is_serving(), "another server, other rights");
}

#[test]
fn a_server_that_denies_without_end_fills_neither_the_memory_nor_the_health() {
    let mut play = Play::serving();
    for at in 0..10_000 {
        let words = format!("Permissions Violation for Subscription to \"foreign.{at}\"");
        play.tell(Event::ServerError(words)).lines();
    }
    let missing = play.seat.health(play.now).missing;
    assert!((1..=play.seat.subscriptions().len()).contains(&missing.len()), "{} lines", missing.len());
}

#[test]
fn an_answer_fits_the_bound_that_the_server_has_now() {
    let mut play = Play::serving();
    play.tell(Event::MaxPayload(1_000)).nothing();
    let lines = play.tell(asked("_INBOX.a", r#"{"what":"health"}"#)).lines();
    let body = lines[0].strip_prefix("to _INBOX.a: ").unwrap();
    assert!(body.len() <= 1_000, "{} bytes", body.len());
    play.tell(Event::MaxPayload(100)).nothing();
    let lines = play.tell(asked("_INBOX.a", r#"{"what":"health"}"#)).lines();
    assert!(lines[1].starts_with("to _INBOX.a: 503 response_too_large: the response has"), "{lines:?}");
}

#[test]
fn a_pass_that_ends_connections_is_put_off_longer_each_time() {
    let mut play = Play::new();
    let mut waits = Vec::new();
    let mut lines = play.due().lines();
    for _ in 0..9 {
        while !lines.contains(&"connect".to_owned()) {
            lines = play.due().lines();
        }
        lines = play.tell(up("n1")).lines();
        let since = play.now;
        let begins = |lines: &[String]| lines.iter().any(|line| line.contains("STREAM.INFO"));
        while !begins(&lines) {
            lines = play.due().lines();
        }
        waits.push(play.now.saturating_sub(since).as_secs());
        lines = play.tell(down("server unresponsive")).lines();
    }
    // At once twice, then 1 s doubling to a minute, less at most a quarter.
    assert_eq!(waits[..2], [0, 0]);
    for (wait, most) in waits[2..].iter().zip([1, 2, 4, 8, 16, 32, 60]) {
        assert!((most * 7 / 10..=most).contains(wait), "{waits:?}");
    }
}
