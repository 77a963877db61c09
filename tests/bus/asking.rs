//! Asking the seat.

mod bounds;
mod filters;
mod paging;
mod questions;
mod refusals;

use crate::support::verb::AsksTheSeat;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::accounts::SEAT;
use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::client::{Client, Inbox};
use crate::support::mesh::Mesh;
use crate::support::seat::KINDS;
use crate::support::setup::Setup;
use crate::support::verb::{ANSWER_BOUND, Answer, VERB};
use crate::support::wait::{self, PATIENCE};

/// What the seat has counted, as `health` says.
#[track_caller]
fn counted(client: &Client, counter: &str) -> u64 {
    let health = client.ask(&json!({"what": "health"})).good();
    let count = &health.body()["health"]["counters"][counter];
    count.as_u64().unwrap_or_else(|| panic!("no count of {counter} in {}", health.text()))
}

/// Takes the one answer to what was asked before; panics if there are more.
#[track_caller]
fn only_answer(client: &Client, asked: &Inbox) -> Answer {
    let answer = asked.next(ANSWER_BOUND).unwrap_or_else(|error| panic!("{error}"));
    client.flush();
    assert_eq!(asked.take_all(), [], "a second answer");
    Answer::of(&answer)
}

#[test]
fn a_small_payload_makes_pages_and_delays_nobody() {
    const MAX_PAYLOAD: usize = 65_536;
    let server = Setup::shipped().append(&format!("max_payload: {MAX_PAYLOAD}")).start();
    let mesh = Mesh::start_on(server, &[]);
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let keys: Vec<String> = (0..2_000).map(|at| format!("n1.web.port.p{at:04}")).collect();
    let value = json!({"port": 8080, "note": "x".repeat(100)}).to_string();
    tester.kv_put_all(NEEDS, keys.iter().map(|key| (key, &value)));
    let connection = mesh.server.connections_of("seat")[0]["cid"].clone();

    let large = reader.ask_later(&json!({"what": "needs"}));
    let small = reader.ask(&json!({"what": "registry"})).good();
    assert_eq!(small.entries().len(), KINDS);
    let first = only_answer(&reader, &large).good();
    assert_eq!(first.keys(), keys[..first.entries().len()]);

    let pages = reader.ask_all(&json!({"what": "needs"}));
    assert!(pages.len() > 1 && pages.iter().all(|page| page.raw.len() <= MAX_PAYLOAD));
    assert_eq!(pages.iter().flat_map(Answer::keys).collect::<Vec<_>>(), keys);
    let connections = mesh.server.connections_of("seat");
    assert_eq!((connections.len(), &connections[0]["cid"]), (1, &connection), "{connections:?}");
}

#[test]
fn a_response_is_never_published_where_it_could_do_harm() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let targets = [
        "$KV.mesh-provisioner_registry.injected",
        "$JS.API.STREAM.DELETE.KV_mesh-provisioner_registry",
        VERB,
        "_INBOX_mesh.provisioner.x.1",
        "$SRV.PING",
        "elsewhere",
    ];
    let published: Vec<Inbox> = targets[..2].iter().map(|target| tester.subscribe(target, None)).collect();
    let stored = tester.last_sequence(REGISTRY);
    for target in targets {
        for body in ["", r#"{"what":"health"}"#, "not JSON"] {
            reader.publish_with(VERB, Some(target.as_bytes()), &[], body);
        }
    }
    let refused = 3 * targets.len() as u64;
    wait::until("all of them to be refused", PATIENCE, || match counted(&reader, "refused_replies") {
        count if count == refused => Ok(()),
        count => Err(format!("{count} of {refused}")),
    });
    // The answers to these came after whatever else the seat published.
    tester.flush();
    assert!(published.iter().all(|inbox| inbox.take_all().is_empty()));
    assert_eq!(tester.last_sequence(REGISTRY), stored);
    assert_eq!(reader.ask(&json!({"what": "registry"})).good().entries().len(), KINDS);
    assert_eq!(mesh.seat.log().matches("which is not allowed").count(), 1, "at most once a minute");
}

#[test]
fn requests_without_a_reply_subject_are_counted_and_delay_nobody() {
    let mesh = Mesh::start();
    let reader = mesh.reader();
    for _ in 0..1_000 {
        reader.publish(VERB, "");
    }
    assert_eq!(reader.ask(&json!({"what": "registry"})).good().entries().len(), KINDS);
    assert_eq!(counted(&reader, "without_reply"), 1_000);
    assert_eq!(counted(&reader, "overrun"), 0);
    assert_eq!(mesh.seat.log().matches("without a reply subject").count(), 1, "at most once a minute");
}

#[test]
fn a_filter_is_a_name_and_never_a_pattern() {
    // Each name with its one spelling in a key.
    let names = [
        ("*", "=2A"),
        (">", "=3E"),
        ("a.b", "a=2Eb"),
        ("n1", "n1"),
        ("n1.", "n1=2E"),
        ("n*", "n=2A"),
        ("n10", "n10"),
        ("$SRV", "=24SRV"),
        ("é", "=C3=A9"),
    ];
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let questions = [
        ("needs", NEEDS, "node", "@.m.k.n"),
        ("needs", NEEDS, "module", "n.@.k.n"),
        ("needs", NEEDS, "kind", "n.m.@.n"),
        ("applied", APPLIED, "node", "@.m"),
        ("applied", APPLIED, "module", "n.@"),
        ("collect", COLLECT, "node", "@.c.m"),
        ("collect", COLLECT, "collection", "n.@.m"),
        ("collect", COLLECT, "module", "n.c.@"),
    ];
    let ask = |(what, _, field, _): (&str, &str, &str, &str), name: &str| {
        let answer = reader.ask(&json!({"what": what, field: name})).good();
        assert_eq!(answer.complaints(), []);
        answer.keys()
    };
    for question in questions {
        tester.kv_put(question.1, question.3.replace('@', "other"), "1");
        for (name, _) in names {
            assert_eq!(ask(question, name), [""; 0], "{question:?} {name}");
        }
    }
    for (_, bucket, _, key) in questions {
        tester.kv_put_all(bucket, names.map(|(_, token)| (key.replace('@', token), "1")));
    }
    for question in questions {
        for (name, token) in names {
            assert_eq!(ask(question, name), [question.3.replace('@', token)], "{question:?} {name}");
        }
        let (what, _, field, _) = question;
        let empty = reader.ask(&json!({"what": what, field: ""}));
        assert_eq!(empty.expect_error(400), format!("the field {field:?} is empty; it must be a name"));
    }
    let pattern = reader.ask(&json!({"what": "registry", "kind": "*"})).good();
    assert_eq!(pattern.entries(), [json!(null); 0]);
}

#[test]
fn no_filter_can_smuggle_a_protocol_line_to_the_server() {
    let (mesh, proxy) = Mesh::start_behind_a_proxy();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let injected = tester.subscribe("_INBOX.injected", None);
    let line = "PUB _INBOX.injected 2";
    let faults = [
        (format!("a\r\n{line}\r\nhi\r\n"), "U+000D"),
        (format!("a\n{line}\nhi\n"), "U+000A"),
        (format!("a\t{line}"), "U+0009"),
        (format!("a\0{line}"), "U+0000"),
        (format!("a\u{2028}{line}"), "U+2028"),
        (format!("a\u{7f}{line}"), "U+007F"),
    ];
    for (filter, shown) in &faults {
        for field in ["node", "module", "kind"] {
            let answer = reader.ask(&json!({"what": "needs", field: filter}));
            let words =
                format!("the field {field:?} contains the control character {shown}; it must be a name");
            assert_eq!(answer.expect_error(400), words);
        }
        // Where the words of the asker are said again, they are escaped.
        let answer = reader.ask(&json!({"what": filter}));
        assert!(answer.expect_error(400).starts_with("the field \"what\" is \"a\\"), "{}", answer.text());
        let answer = reader.ask(&json!({filter: 1}));
        assert!(answer.expect_error(400).starts_with("the field \"a\\"), "{}", answer.text());
        // No name, but any text may be a place to go on from.
        reader.ask(&json!({"what": "needs", "after": filter})).good();
    }
    let all_sent = String::from_utf8_lossy(&proxy.sent()).into_owned();
    let smuggled = all_sent.lines().find(|sent| sent.trim_start().starts_with(line));
    assert_eq!(smuggled, None);
    tester.flush();
    assert_eq!(injected.take_all(), []);
    assert_eq!(mesh.server.connections_of("seat").len(), 1);
    assert_eq!(counted(&reader, "connections"), 1);
    assert_eq!(mesh.server.connections_of(&SEAT.user)[0]["subscriptions"], 11);
}

#[test]
fn a_repeated_field_is_an_error() {
    let mesh = Mesh::start();
    let reader = mesh.reader();
    for (body, field) in [
        (r#"{"what":"needs","node":"a","node":"b"}"#, "node"),
        (r#"{"what":"needs","node":"a","node":"a"}"#, "node"),
        (r#"{"what":"needs","what":"registry"}"#, "what"),
        (r#"{"what":"needs","limit":1,"limit":1}"#, "limit"),
        (r#"{"what":"needs","no\u0064e":"a","node":"a"}"#, "node"),
    ] {
        assert_eq!(reader.ask_bytes(body).expect_error(400), format!("the field {field:?} occurs twice"));
    }
}

#[test]
fn values_are_given_back_digit_for_digit() {
    let values = [
        "123456789012345678901234567890",
        "1e400",
        "-0",
        "1.0",
        "1E+2",
        r#"{"b":1.50,"a":-0.0,"b":1e1}"#,
        r#""A\/é\u00e9""#,
        "[ 1 , 2 ]",
        " null ",
    ];
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let mut entries = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let key = format!("n1.c{at}.web");
        let revision = tester.kv_put(COLLECT, &key, value);
        let time = tester.kv_at(COLLECT, revision).expect("what was put").time;
        let value = value.trim();
        entries.push(format!(
            r#"{{"key":"{key}","node":"n1","collection":"c{at}","contributor":"web","value":{value},"revision":{revision},"at":"{time}"}}"#
        ));
    }
    let answer = reader.ask(&json!({"what": "collect"}));
    assert_eq!(answer.error, None);
    let expected = format!(
        r#"{{"type":"io.mesh.provisioner.v1.collect_response","what":"collect","entries":[{}],"malformed":[],"malformed_total":0,"as_of":"#,
        entries.join(",")
    );
    assert!(answer.text().starts_with(&expected), "{}\n{expected}", answer.text());
}

#[test]
fn many_clients_at_once_each_get_one_right_response() {
    const MANY: usize = 20_000;
    const ASKS: usize = 200;
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let mut keys: Vec<String> = (0..MANY).map(|at| format!("n{}.m{}.port.p{at}", at % 400, at % 7)).collect();
    tester.kv_put_all(NEEDS, keys.iter().map(|key| (key, r#"{"port":8080}"#)));
    keys.sort_unstable();
    let mut applied: Vec<String> = (0..50).map(|at| format!("n{at}.web")).collect();
    tester.kv_put_all(APPLIED, applied.iter().map(|key| (key, "{}")));
    applied.sort_unstable();
    tester.kv_put(COLLECT, "n1.hosts.web", "1");

    // Each body with what its answer must show.
    let of_node = |node: usize| {
        let prefix = format!("n{node}.");
        keys.iter().filter(|key| key.starts_with(&prefix)).cloned().collect::<Vec<_>>()
    };
    let drift_of_node = |node: usize| {
        let module = |key: &String| key.split('.').nth(1).map(str::to_owned);
        let modules: BTreeSet<String> = of_node(node).iter().filter_map(module).collect();
        let never = modules.iter().map(|module| format!("{module} never"));
        never.chain((node < 50).then(|| "web orphan".to_owned())).collect::<Vec<_>>()
    };
    let kinds: Vec<String> = shown(&reader.ask(&json!({})).good());
    assert_eq!(kinds.len(), KINDS);
    let questions = |at: usize| match at % 7 {
        0 => (json!({"what": "registry"}), kinds.clone()),
        1 => (json!({"what": "needs", "node": format!("n{at}")}), of_node(at)),
        2 => (json!({"what": "applied"}), applied.clone()),
        3 => (json!({"what": "collect", "node": "n1"}), vec!["n1.hosts.web".to_owned()]),
        4 => (json!({"what": "gaps", "node": format!("n{at}")}), Vec::new()),
        5 => (json!({"what": "drift", "node": format!("n{at}")}), drift_of_node(at)),
        _ => (json!({"what": "collections", "node": "n1"}), vec!["hosts unread".to_owned()]),
    };
    let others: Vec<_> = (0..ASKS).map(questions).collect();
    // One asker pages through everything, and at each of its pages all the others ask at once.
    let mut paged = Vec::new();
    let mut after = None::<String>;
    loop {
        let mut body = BTreeMap::from([("what", json!("needs")), ("limit", json!(5_000))]);
        body.extend(after.map(|after| ("after", json!(after))));
        let page = reader.ask_later(&json!(body));
        let asked: Vec<Inbox> = others.iter().map(|(body, _)| reader.ask_later(body)).collect();
        let page = only_answer(&reader, &page).good();
        paged.extend(page.keys());
        for ((body, expected), asked) in others.iter().zip(&asked) {
            let answer = only_answer(&reader, asked);
            assert_eq!(answer.error, None, "{body}");
            assert_eq!(shown(&answer), *expected, "{body}");
            assert_eq!((answer.complaints(), answer.next()), (Vec::new(), None), "{body}");
        }
        // In step with the answers, from memory.
        assert_eq!(reader.ask(&json!({"what": "health"})).good().body()["ok"], true);
        after = page.next().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, keys);
    assert_eq!(counted(&reader, "overrun"), 0);
}

/// The entries of an answer in short: their keys, or what they have instead of one.
fn shown(answer: &Answer) -> Vec<String> {
    let texts = |entry: &Value, fields: &[&str]| {
        fields.iter().filter_map(|field| entry[*field].as_str()).collect::<Vec<_>>().join(" ")
    };
    let short = |entry: &Value| match entry.get("key").and_then(Value::as_str) {
        Some(key) if entry.get("domain").is_none() => key.to_owned(),
        _ if entry.get("state").is_some() => texts(entry, &["module", "collection", "state"]),
        _ => texts(entry, &["kind"]),
    };
    answer.entries().iter().map(short).collect()
}

/// All that an answer gives but who gave it.
fn without_seat(answer: &Answer) -> Value {
    let mut body = answer.body().clone();
    body.as_object_mut().expect("an object").remove("seat");
    body
}
