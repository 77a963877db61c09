//! The verb: what an asker gets, page by page, and when.

use crate::play::{AT, Play, get, keys_of, list, look, look_of, message_of};
use mesh_jetstream::bucket::Kv;
use mesh_model::bucket::Bucket::{self, Applied, Collect, Needs, Registry};
use mesh_provisioner::seat::Event;
use mesh_testing::jetstream::{self, Stored};
use serde_json::Value;
use std::time::Duration;

/// The body of the one answer to `from` among `lines`, which holds nothing else.
#[track_caller]
pub(crate) fn body(lines: &[String], from: &str) -> Value {
    let [line] = lines else { panic!("not one line: {lines:?}") };
    let body = line.strip_prefix(&format!("to _INBOX.{from}: ")).unwrap_or_else(|| panic!("{line}"));
    serde_json::from_str(body).unwrap_or_else(|why| panic!("{why}: {body}"))
}

pub(crate) fn keys(answer: &Value) -> Vec<&str> {
    answer["entries"].as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap()).collect()
}

#[test]
fn needs_are_answered_as_they_are_stored() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.answer(16, keys_of(Needs, &["n1.web.port.http"])).is([get(17, Needs, "n1.web.port.http")]);
    play.answer(17, message_of(Needs, "n1.web.port.http", 41, r#"{"port":8.080}"#)).is([format!(
        r#"to _INBOX.a: {{"type":"io.mesh.provisioner.v1.needs_response","what":"needs","entries":[{{"key":"n1.web.port.http","node":"n1","module":"web","kind":"port","name":"http","value":{{"port":8.080}},"revision":41,"at":"{AT}"}}],"malformed":[],"malformed_total":0,"as_of":{{"sequence":1,"at":"{AT}"}},"seat":{{"id":"SEAT1","version":"0.1.0"}}}}"#
    )]);
}

#[test]
fn an_empty_request_gets_the_registry() {
    let mut play = Play::serving();
    play.ask("a", "").is([list(16, Registry)]);
    let answer = body(&play.answer(16, keys_of(Registry, &[])).lines(), "a");
    assert_eq!((&answer["what"], &answer["entries"]), (&"registry".into(), &Value::Array(vec![])));
}

#[test]
fn the_registrys_values_are_read_again_only_when_the_bucket_has_changed() {
    let mut play = Play::serving();
    let subjects = ["dir", "port"].map(|kind| format!("$KV.mesh-provisioner_registry.{kind}"));
    let listed = |messages: usize| jetstream::page(&subjects[2 - messages..], 0, messages, (1, AT), (2, AT));
    play.ask("a", "").is([list(16, Registry)]);
    play.answer(16, listed(2)).is([get(17, Registry, "dir"), get(18, Registry, "port")]);
    play.answer(17, message_of(Registry, "dir", 1, "1")).nothing();
    let first = body(&play.answer(18, message_of(Registry, "port", 2, "2")).lines(), "a");
    assert_eq!(first["entries"].as_array().unwrap().len(), 2);
    play.ask("b", "").is([look(19, Registry)]);
    assert_eq!(body(&play.answer(19, look_of(8, 2, 2)).lines(), "b"), first);
    play.ask("c", r#"{"kind":"port"}"#).is([look(20, Registry)]);
    let narrowed = body(&play.answer(20, look_of(8, 2, 2)).lines(), "c");
    assert_eq!(narrowed["entries"], Value::Array(vec![first["entries"][1].clone()]));
    // A key that expires leaves the last sequence as it was.
    play.ask("d", "").is([look(21, Registry)]);
    play.answer(21, look_of(8, 1, 2)).is([list(22, Registry)]);
    play.answer(22, listed(1)).is([get(23, Registry, "port")]);
    let changed = body(&play.answer(23, message_of(Registry, "port", 2, "3")).lines(), "d");
    assert_eq!(changed["entries"].as_array().unwrap().len(), 1);
    assert_eq!(changed["entries"][0]["value"], 3);
}

#[test]
fn what_is_known_of_the_registry_ends_with_the_connection() {
    let mut play = Play::serving();
    let kinds = ["port"];
    play.ask("a", "").is([list(16, Registry)]);
    play.answer(16, keys_of(Registry, &kinds)).is([get(17, Registry, "port")]);
    play.answer(17, message_of(Registry, "port", 1, "1")).lines();
    play.tell(Event::Up { server: "n2".to_owned(), max_payload: 1024 * 1024 }).lines();
    play.ask("b", "").is([list(20, Registry)]);
    play.answer(20, keys_of(Registry, &kinds)).is([get(21, Registry, "port")]);
}

#[test]
fn a_node_is_asked_for_by_its_token_and_no_more_is_read_than_is_asked() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs","node":"n 1","kind":"port"}"#).is([
        r#"#16 $JS.API.STREAM.INFO.KV_mesh-provisioner_needs {"subjects_filter":"$KV.mesh-provisioner_needs.n=201.>","offset":0}"#,
    ]);
    let listed = ["n=201.web.dir.x", "n=201.web.port.http", "n=201.web.port", "n=201.web"];
    play.answer(16, keys_of(Needs, &listed))
        .is([get(17, Needs, "n=201.web.port"), get(18, Needs, "n=201.web.port.http")]);
    play.answer(18, message_of(Needs, "n=201.web.port.http", 2, "1")).nothing();
    let answer = body(&play.answer(17, message_of(Needs, "n=201.web.port", 3, "1")).lines(), "a");
    assert_eq!(keys(&answer), ["n=201.web.port.http"]);
    assert_eq!(answer["malformed"][0]["key"], "n=201.web.port");
    assert_eq!(answer["malformed"][0]["why"], "shape");
}

#[test]
fn a_page_ends_at_its_limit_and_the_next_one_goes_on_behind_it() {
    let mut play = Play::serving();
    let listed = ["n1.a", "n1.b", "n1.c"];
    play.ask("a", r#"{"what":"applied","limit":2}"#).is([list(16, Applied)]);
    let gets = (17..).zip(listed).map(|(call, key)| get(call, Applied, key));
    play.answer(16, keys_of(Applied, &listed)).is(gets);
    play.answer(17, message_of(Applied, "n1.a", 1, "1")).nothing();
    play.answer(18, message_of(Applied, "n1.b", 2, "1")).nothing();
    let answer = body(&play.answer(19, message_of(Applied, "n1.c", 3, "1")).lines(), "a");
    assert_eq!((keys(&answer), &answer["next"]), (vec!["n1.a", "n1.b"], &"n1.b".into()));
    play.ask("a", r#"{"what":"applied","limit":2,"after":"n1.b"}"#).is([list(20, Applied)]);
    play.answer(20, keys_of(Applied, &listed)).is([get(21, Applied, "n1.c")]);
    let answer = body(&play.answer(21, message_of(Applied, "n1.c", 3, "1")).lines(), "a");
    assert_eq!((keys(&answer), &answer["next"]), (vec!["n1.c"], &Value::Null));
}

#[test]
fn a_key_that_vanishes_between_the_list_and_the_read_is_gone() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"collect"}"#).is([list(16, Collect)]);
    play.answer(16, keys_of(Collect, &["n1.c.gone", "n1.c.marked"]))
        .is([get(17, Collect, "n1.c.gone"), get(18, Collect, "n1.c.marked")]);
    play.answer(17, jetstream::no_message()).nothing();
    let marked = Stored {
        subject: "$KV.mesh-provisioner_collect.n1.c.marked",
        sequence: 9,
        headers: b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n\r\n",
        data: b"",
        time: AT,
    };
    let answer = body(&play.answer(18, jetstream::message(&marked)).lines(), "a");
    assert_eq!((keys(&answer), &answer["malformed_total"]), (vec![], &0.into()));
}

#[test]
fn another_keys_value_is_never_given_for_a_key_that_reads_as_a_pattern() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"applied"}"#).is([list(16, Applied)]);
    play.answer(16, keys_of(Applied, &["n1.>", "n1.web"])).is([get(17, Applied, "n1.web")]);
    let answer = body(&play.answer(17, message_of(Applied, "n1.web", 5, "1")).lines(), "a");
    assert_eq!(keys(&answer), ["n1.web"]);
    assert_eq!((&answer["malformed"][0]["key"], &answer["malformed_total"]), (&"n1.>".into(), &1.into()));
}

#[test]
fn gaps_are_the_needs_whose_kind_nobody_answers() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"gaps"}"#).is([list(16, Registry)]);
    play.answer(16, keys_of(Registry, &["port"])).is([get(17, Registry, "port")]);
    play.answer(17, message_of(Registry, "port", 1, "1")).is([list(18, Needs)]);
    play.answer(18, keys_of(Needs, &["n1.web.licence.x", "n1.web.port.http"]))
        .is([get(19, Needs, "n1.web.licence.x"), get(20, Needs, "n1.web.port.http")]);
    play.answer(19, message_of(Needs, "n1.web.licence.x", 2, "1")).nothing();
    let answer = body(&play.answer(20, message_of(Needs, "n1.web.port.http", 3, "1")).lines(), "a");
    assert_eq!((keys(&answer), &answer["ok"]), (vec!["n1.web.licence.x"], &false.into()));
    assert_eq!((&answer["entries"][0]["gap"], answer["entries"][0].get("why")), (&"unanswered".into(), None));
    assert_eq!(answer["entries"][0].get("value"), None);
}

#[test]
fn gaps_list_needs_that_wait_and_are_well_for_a_minute() {
    // The needs were written at 13:26:00.
    for (clock, ok) in [(1_795_958_820, true), (1_795_958_821, false)] {
        let mut play = Play::serving();
        play.tell(Event::Clock(Duration::from_secs(clock))).nothing();
        play.ask("a", r#"{"what":"gaps"}"#).is([list(16, Registry)]);
        play.answer(16, keys_of(Registry, &["port"])).is([get(17, Registry, "port")]);
        play.answer(17, message_of(Registry, "port", 1, "1")).is([list(18, Needs)]);
        play.answer(18, keys_of(Needs, &["n1.web.port.a", "n1.web.port.b"])).lines();
        let value = r#"{"state":"waiting","why":"digest does not fit","plan":"0123456789abcdef"}"#;
        play.answer(19, message_of(Needs, "n1.web.port.a", 2, value)).nothing();
        let filled = r#"{"state":"filled","plan":"0123456789abcdef"}"#;
        let answer = body(&play.answer(20, message_of(Needs, "n1.web.port.b", 3, filled)).lines(), "a");
        let entry = &answer["entries"][0];
        assert_eq!((keys(&answer), &answer["ok"]), (vec!["n1.web.port.a"], &ok.into()), "{clock}");
        assert_eq!((&entry["gap"], &entry["why"]), (&"waiting".into(), &"digest does not fit".into()));
    }
}

#[test]
fn a_module_without_needs_is_an_orphan_only_where_what_is_applied_does_not_say_so() {
    for (value, state) in
        [(r#"{"version":"1","needs":0}"#, "current"), (r#"{"needs":2}"#, "orphan"), ("1", "orphan")]
    {
        let mut play = Play::serving();
        play.ask("a", r#"{"what":"drift"}"#).is([list(16, Needs)]);
        play.answer(16, keys_of(Needs, &[])).is([list(17, Applied)]);
        play.answer(17, keys_of(Applied, &["n1.web"])).is([get(18, Applied, "n1.web")]);
        let answer = body(&play.answer(18, message_of(Applied, "n1.web", 1, value)).lines(), "a");
        assert_eq!(
            (&answer["entries"][0]["state"], &answer["ok"]),
            (&state.into(), &(state == "current").into())
        );
    }
}

#[test]
fn what_the_bus_refuses_is_an_error_that_says_what_to_do() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    let words = "bucket mesh-provisioner_needs does not exist: run mesh-provisioner init";
    play.answer(16, jetstream::error(404, 10059, "stream not found"))
        .is([format!("warn: answered 503: {words}"), format!("to _INBOX.a: 503 bucket_missing: {words}")]);
    play.ask("b", r#"{"what":"applied"}"#).is([list(17, Applied)]);
    let words = "bucket mesh-provisioner_applied cannot be reached: JetStream does not answer: enable it, or wait until it has started";
    play.tell(Event::Reply { call: 17, no_responders: true, body: vec![] }).is([
        format!("warn: answered 503: {words}"),
        format!("to _INBOX.b: 503 jetstream_unavailable: {words}"),
    ]);
}

#[test]
fn a_denied_read_fails_only_those_who_wait_for_it() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs"}"#).is([list(16, Needs)]);
    play.ask("b", r#"{"what":"applied"}"#).is([list(17, Applied)]);
    let words = "Permissions Violation for Publish to \"$JS.API.STREAM.INFO.KV_mesh-provisioner_needs\"";
    let refused = format!(
        "bucket mesh-provisioner_needs cannot be reached: the server says {words:?}: grant the seat the permissions that mesh-provisioner permissions seat prints"
    );
    play.tell(Event::ServerError(words.to_owned())).is([
        format!("warn: the server says {words:?}"),
        format!("warn: answered 503: {refused}"),
        format!("to _INBOX.a: 503 denied: {refused}"),
    ]);
    body(&play.answer(17, keys_of(Applied, &[])).lines(), "b");
}

#[test]
fn one_value_that_cannot_be_read_is_an_error_and_no_short_list() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"applied"}"#).is([list(16, Applied)]);
    play.answer(16, keys_of(Applied, &["n1.a", "n1.b"]))
        .is([get(17, Applied, "n1.a"), get(18, Applied, "n1.b")]);
    play.answer(17, message_of(Applied, "n1.a", 1, "1")).nothing();
    let lines = play.answer(18, jetstream::error(500, 10008, "temporarily unavailable")).lines();
    assert!(
        lines[1].starts_with("to _INBOX.a: 503 jetstream_error: bucket mesh-provisioner_applied"),
        "{lines:?}"
    );
    play.answer(18, message_of(Applied, "n1.b", 1, "1")).nothing();
}

#[test]
fn a_list_that_changes_between_its_pages_begins_again_and_ends() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"applied"}"#).is([list(16, Applied)]);
    let page = |keys: &[&str], offset: usize, total: usize| {
        let subjects: Vec<String> = keys
            .iter()
            .map(|key| format!("{}{key}", Kv::new(Bucket::Applied.name()).subject_prefix()))
            .collect();
        jetstream::page(&subjects, offset, total, (1, AT), (9, AT))
    };
    let at_1 = |call: u64| list(call, Applied).replace("\"offset\":0", "\"offset\":1");
    for call in (16..48).step_by(2) {
        play.answer(call, page(&["n.a", "n.b"], 0, 3)).is([at_1(call + 1)]);
        play.answer(call + 1, page(&["n.c"], 1, 2)).is([list(call + 2, Applied)]);
    }
    play.answer(48, page(&["n.a", "n.b"], 0, 3)).is([at_1(49)]);
    let words = "bucket mesh-provisioner_applied changed faster than its keys could be listed: try again";
    play.answer(49, page(&["n.c"], 1, 2))
        .is([format!("warn: answered 503: {words}"), format!("to _INBOX.a: 503 bucket_changing: {words}")]);
}

#[test]
fn what_is_not_read_within_four_seconds_is_an_error() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"applied"}"#).is([list(16, Applied)]);
    play.answer(16, keys_of(Applied, &["n1.a", "n1.b"])).lines();
    // Of no use without the one before it.
    play.answer(18, message_of(Applied, "n1.b", 1, "1")).nothing();
    let words = "not read within 4 s: 0 of 2 values of bucket mesh-provisioner_applied were read: try again with a narrower query, or check the load of the nats-server";
    play.due_in(4_000..=4_000)
        .is([format!("warn: answered 504: {words}"), format!("to _INBOX.a: 504 timeout: {words}")]);
    // The late answer is nobody's any more.
    play.answer(17, message_of(Applied, "n1.a", 1, "1")).nothing();
}

#[test]
fn what_is_read_in_part_within_four_seconds_is_a_page() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"applied"}"#).is([list(16, Applied)]);
    play.answer(16, keys_of(Applied, &["n1.a", "n1.b"])).lines();
    play.answer(17, message_of(Applied, "n1.a", 1, "1")).nothing();
    let answer = body(&play.due_in(4_000..=4_000).lines(), "a");
    assert_eq!(answer["entries"].as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!((&answer["entries"][0]["key"], &answer["next"]), (&"n1.a".into(), &"n1.a".into()));
    play.answer(18, message_of(Applied, "n1.b", 1, "1")).nothing();
}

#[test]
fn a_page_of_gaps_that_ends_early_is_not_ok_and_goes_on() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"gaps"}"#).is([list(16, Bucket::Registry)]);
    play.answer(16, keys_of(Bucket::Registry, &[])).lines();
    play.answer(17, keys_of(Bucket::Needs, &["n1.a", "n1.web.odd.x"])).lines();
    play.answer(18, message_of(Bucket::Needs, "n1.a", 1, "1")).nothing();
    let answer = body(&play.due_in(4_000..=4_000).lines(), "a");
    assert_eq!((keys(&answer), &answer["ok"], &answer["next"]), (vec![], &false.into(), &"n1.a".into()));
}

#[test]
fn health_is_answered_without_the_bus() {
    let mut play = Play::serving();
    let answer = body(&play.ask("a", r#"{"what":"health"}"#).lines(), "a");
    assert_eq!((&answer["ok"], &answer["health"]["ready"]), (&true.into(), &true.into()));
    assert_eq!(answer["health"]["counters"]["requests"], 1);
}

#[test]
fn a_wrong_request_is_an_error_at_once() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"needs","nodes":"n1"}"#).is([
        "to _INBOX.a: 400 bad_request: the field \"nodes\" is unknown; known are what, node, module, kind, collection, limit, after, stale_after",
    ]);
    let lines = play.ask("b", &" ".repeat(64 * 1024 + 1)).lines();
    assert!(lines[0].starts_with("to _INBOX.b: 413 too_large: "), "{lines:?}");
}

#[test]
fn a_module_of_which_only_malformed_keys_are_there_is_not_ok() {
    let mut play = Play::serving();
    play.ask("a", r#"{"what":"drift","node":"attic","module":"db"}"#).lines();
    play.answer(16, keys_of(Needs, &["attic.db.config", "attic.web.port.http"])).lines();
    play.answer(17, message_of(Needs, "attic.db.config", 3, "1")).lines();
    let lines = play.answer(18, keys_of(Applied, &[])).lines();
    assert!(
        lines[0].contains(r#""what":"drift","ok":false,"entries":[],"malformed":[{"bucket":"needs""#),
        "{lines:?}"
    );
}
