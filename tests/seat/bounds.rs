//! The bounds: how much is taken on, and how much is asked of the bus at a time.

use crate::play::{AT, Asked, Play, asked, keys_of, list, message_of};
use mesh_jetstream::bucket::Kv;
use mesh_model::bucket::Bucket::{self, Applied, Needs, Registry};
use mesh_provisioner::seat::Event;
use mesh_testing::jetstream;

/// The numbers of the requests to the bus among `lines` whose subject starts with `subject`.
fn calls(lines: &[String], subject: &str) -> Vec<u64> {
    let numbered = lines.iter().filter_map(|line| line.strip_prefix('#')?.split_once(' '));
    numbered
        .filter(|(_, rest)| rest.starts_with(subject))
        .map(|(number, _)| number.parse().unwrap())
        .collect()
}

fn listings(asked: Asked) -> Vec<u64> {
    calls(&asked.lines(), "$JS.API.STREAM.INFO")
}

/// `count` keys of `applied`.
fn many(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("n.m{at:05}")).collect()
}

fn list_of(keys: &[String]) -> Vec<u8> {
    keys_of(Applied, &keys.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A question that equals no other: equal ones would share their answer.
fn unlike(at: u64) -> String {
    format!(r#"{{"what":"needs","module":"m{at}"}}"#)
}

#[test]
fn four_listings_at_a_time_and_the_others_in_their_order() {
    let mut play = Play::serving();
    for call in 16..20 {
        assert_eq!(listings(play.ask(&call.to_string(), &unlike(call))), [call]);
    }
    for later in 20..25 {
        play.ask(&later.to_string(), &unlike(later)).nothing();
    }
    for call in 16..21 {
        let lines = play.answer(call, keys_of(Needs, &[])).lines();
        assert!(lines[0].starts_with(&format!("to _INBOX.{call}: {{")), "{lines:?}");
        assert_eq!(lines[1..], [list(call + 4, Needs)]);
    }
}

#[test]
fn the_registry_pass_waits_for_a_listing_like_everybody() {
    let mut play = Play::serving();
    for call in 16..21 {
        play.ask(&call.to_string(), &unlike(call)).lines();
    }
    let lines = play.tell(Event::Reload).lines();
    assert_eq!(calls(&lines, "$JS.API.STREAM.INFO"), [0_u64; 0], "{lines:?}");
    // It comes first when there is room.
    let lines = play.answer(16, keys_of(Needs, &[])).lines();
    assert_eq!(lines[1..], [list(21, Registry)]);
}

#[test]
fn at_most_256_requests_to_the_bus_are_outstanding() {
    let mut play = Play::serving();
    let keys = many(1_000);
    play.ask("a", r#"{"what":"applied"}"#).is([list(16, Applied)]);
    let first = calls(&play.answer(16, list_of(&keys)).lines(), "$JS.API.STREAM.MSG.GET");
    assert_eq!(first.len(), 4, "the first window, before the size of any value is known");
    let lines = play.answer(first[0], message_of(Applied, &keys[0], 1, "1")).lines();
    // One place is kept for the question who else holds the seat.
    assert_eq!(calls(&lines, "$JS.API.STREAM.MSG.GET").len(), 256 - 3 - 1, "all that may be outstanding");
    // Another one has its share as soon as there is room, and none is sent beyond.
    play.ask("b", r#"{"what":"needs"}"#).nothing();
    let lines = play.answer(first[1], message_of(Applied, &keys[1], 2, "1")).lines();
    assert_eq!(calls(&lines, "").len(), 1, "{lines:?}");
    assert_eq!(listings(play.answer(first[2], message_of(Applied, &keys[2], 3, "1"))).len(), 0);
}

#[test]
fn a_large_question_does_not_hold_up_a_small_one() {
    let mut play = Play::serving();
    let keys = many(1_000);
    play.ask("large", r#"{"what":"applied"}"#).lines();
    let mut open = calls(&play.answer(16, list_of(&keys)).lines(), "$JS.API.STREAM.MSG.GET");
    play.ask("small", r#"{"what":"needs"}"#).lines();
    for (sequence, key) in (1..).zip(&keys[..500]) {
        let lines = play.answer(open.remove(0), message_of(Applied, key, sequence, "1")).lines();
        open.extend(calls(&lines, "$JS.API.STREAM.MSG.GET"));
    }
    assert_eq!(open.len(), 128, "half of what may be outstanding");
}

#[test]
fn sixty_four_are_under_way_and_1024_wait_and_the_next_is_refused() {
    let mut play = Play::serving();
    for at in 0..64 + 1_024 {
        let lines = play.ask(&at.to_string(), &unlike(at)).lines();
        assert_eq!(lines.len(), usize::from(at < 4), "{lines:?}");
    }
    let words = "the seat is full: 64 requests are under way and 1024 wait: try again later";
    play.ask("late", r#"{"what":"needs"}"#)
        .is([format!("warn: answered 503: {words}"), format!("to _INBOX.late: 503 full: {words}")]);
    // What needs no bus is answered all the same.
    let lines = play.ask("health", r#"{"what":"health"}"#).lines();
    assert!(lines[0].starts_with("to _INBOX.health: {"), "{lines:?}");
    // One answer makes room for one.
    let lines = play.answer(16, keys_of(Needs, &[])).lines();
    assert!(lines[0].starts_with("to _INBOX.0: {"), "{lines:?}");
    play.ask("next", r#"{"what":"needs"}"#).nothing();
    // All the others are told after 4 s.
    let lines = play.tell_after(4_000, Event::Due).lines();
    let told = lines.iter().filter(|line| line.starts_with("to _INBOX.")).count();
    assert_eq!(told, 64 + 1_024);
    assert!(lines.iter().filter(|line| line.starts_with("to ")).all(|line| line.contains(": 504 timeout: ")));
}

#[test]
fn no_message_is_larger_than_the_bus_carries() {
    let mut play = Play::new();
    play.due().is(["connect"]);
    play.tell(Event::Up { server: "n1".to_owned(), max_payload: 64 * 1024 }).lines();
    // The longest field name that a request can have, of bytes that take the most room in words.
    let field = "\u{7f}".repeat(64 * 1024 - 20);
    let lines = play.tell(asked("_INBOX.a", &format!(r#"{{"{field}":1}}"#))).lines();
    assert!(lines[0].starts_with("to _INBOX.a: 400 bad_request: the field "), "{:.100}", lines[0]);
    assert!(lines[0].len() < 2_000, "{} bytes", lines[0].len());
}

#[test]
fn keys_that_look_alike_do_not_outgrow_a_page() {
    let mut play = Play::serving();
    // 150 keys of 4 000 bytes that are not UTF-8: they all show as the same.
    let key = "\u{fffd}".repeat(4_000);
    let subjects = vec![format!("{}{key}", Kv::new(Bucket::Needs.name()).subject_prefix()); 150];
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    let lines = play.answer(16, jetstream::page(&subjects, 0, 150, (1, AT), (150, AT))).lines();
    assert!(lines[0].starts_with("to _INBOX.a: {"), "{:.200}", lines[0]);
    assert!(lines[0].len() <= 512 * 1024, "{} bytes", lines[0].len());
    assert!(lines[0].contains(r#""malformed_total":150"#));
}

#[test]
fn keys_that_look_alike_are_all_counted_in_one_page() {
    let mut play = Play::serving();
    // More than a page looks at, all shown as the same: the page cannot end among them.
    let subjects = vec![format!("{}\u{fffd}", Kv::new(Bucket::Needs.name()).subject_prefix()); 4_200];
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    let lines = play.answer(16, jetstream::page(&subjects, 0, 4_200, (1, AT), (4_200, AT))).lines();
    assert!(lines[0].contains(r#""malformed_total":4200,"as_of""#), "{:.300}", lines[0]);
}

#[test]
fn the_longest_key_does_not_stop_the_paging() {
    let mut play = Play::serving();
    play.tell(Event::MaxPayload(64 * 1024)).nothing();
    // As long as a subject can be, of bytes that take the most room in JSON, and another key after it.
    let long = format!("n.{}", "\u{1}".repeat(4_000));
    play.ask("a", r#"{"what":"applied"}"#).is([list(16, Applied)]);
    play.answer(16, keys_of(Applied, &[&long, "z.web"])).lines();
    play.answer(17, message_of(Applied, &long, 1, "1")).nothing();
    let large = format!("\"{}\"", "x".repeat(40_000));
    let lines = play.answer(18, message_of(Applied, "z.web", 2, &large)).lines();
    assert!(lines[0].starts_with("to _INBOX.a: {"), "{:.200}", lines[0]);
    assert!(lines[0].contains(r#""next":"n."#), "{:.200}", lines[0]);
}

/// The bus answers a list of `keys` of `applied` and the read of each; gives what the seat did after the last.
fn answer_all(play: &mut Play, listing: u64, keys: &[String]) -> Vec<String> {
    let mut lines = play.answer(listing, list_of(keys)).lines();
    let mut asked = calls(&lines, "$JS.API.STREAM.MSG.GET");
    let mut at = 0;
    while at < asked.len() {
        lines = play.answer(asked[at], message_of(Applied, &keys[at], at as u64 + 1, "1")).lines();
        asked.extend(calls(&lines, "$JS.API.STREAM.MSG.GET"));
        at += 1;
    }
    assert_eq!(at, keys.len());
    lines
}

/// The modules of the answer that went to `from`.
fn modules(lines: &[String], from: &str) -> Vec<String> {
    let start = format!("to _INBOX.{from}: ");
    let answer = lines.iter().find_map(|line| line.strip_prefix(&start)).expect("an answer");
    let answer: serde_json::Value = serde_json::from_str(answer).expect("JSON");
    let entries = answer["entries"].as_array().expect("entries");
    entries.iter().map(|entry| entry["module"].as_str().expect("a module").to_owned()).collect()
}

#[test]
fn a15_surveys_that_differ_in_their_page_alone_share_one_walk() {
    let keys = many(4);
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"drift","limit":1}"#).is([list(16, Needs)]);
    play.ask("b", r#"{"what":"drift","limit":1}"#).nothing();
    play.ask("c", r#"{"what":"drift","limit":2}"#).nothing();
    play.ask("d", r#"{"what":"drift","after":"n.m00001"}"#).nothing();
    play.answer(16, keys_of(Needs, &[])).is([list(17, Applied)]);
    let lines = answer_all(&mut play, 17, &keys);
    assert_eq!(modules(&lines, "a"), ["m00000"]);
    // What came while the first was read is one more walk, not three.
    assert_eq!(lines[1..], [list(22, Needs)]);
    play.answer(22, keys_of(Needs, &[])).is([list(23, Applied)]);
    let lines = answer_all(&mut play, 23, &keys);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(modules(&lines, "b"), ["m00000"]);
    assert_eq!(modules(&lines, "c"), ["m00000", "m00001"]);
    assert_eq!(modules(&lines, "d"), ["m00002", "m00003"]);
}

#[test]
fn a15_between_the_last_response_and_the_answer_of_a_survey_others_are_answered() {
    const ROWS: usize = 2_560;
    let mut play = Play::serving();
    play.has_much = true;
    play.ask("a", r#"{"what":"drift"}"#).is([list(16, Needs)]);
    play.answer(16, keys_of(Needs, &[])).is([list(17, Applied)]);
    let mut lines = answer_all(&mut play, 17, &many(ROWS));
    let mut answered = 0;
    while lines.is_empty() {
        // Each event is followed by one slice.
        lines = play.ask("b", r#"{"what":"health"}"#).lines();
        assert!(lines.remove(0).starts_with("to _INBOX.b: {"));
        answered += 1;
    }
    assert_eq!(modules(&lines, "a").len(), ROWS);
    // One slice came with the last response.
    assert!(answered >= ROWS / 256 - 1, "{answered}");
}
