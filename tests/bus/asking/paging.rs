//! Pages: each key once, whatever the page size and the writes meanwhile.

use crate::support::verb::AsksTheSeat;
use std::collections::VecDeque;

use serde_json::{Value, json};

use super::without_seat;
use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::mesh::Mesh;
use crate::support::seat::KINDS;
use crate::support::setup::Setup;
use crate::support::verb::Answer;
use crate::support::wait::PATIENCE;
use crate::support::wire::headers;

const MANY: usize = 2_500;

/// Many good keys in order, and some malformed ones among them.
fn keys() -> (Vec<String>, Vec<String>) {
    let mut good: Vec<String> =
        (0..MANY).map(|at| format!("n{}.m{}.port.p{at:04}", at % 9, at % 5)).collect();
    let mut malformed: Vec<String> =
        (0..30).map(|at| format!("n{}.m{}.port.=6{}", at % 9, at % 5, at % 4 + 1)).collect();
    malformed.sort_unstable();
    malformed.dedup();
    good.sort_unstable();
    (good, malformed)
}

#[test]
fn every_page_size_gives_each_key_once_and_in_order() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let (good, malformed) = keys();
    tester.kv_put_all(NEEDS, good.iter().chain(&malformed).map(|key| (key, "1")));
    for limit in [40, 999, 1_250, MANY - 1, MANY, 10_000] {
        let pages = reader.ask_all(&json!({"what": "needs", "limit": limit}));
        let given: Vec<String> = pages.iter().flat_map(Answer::keys).collect();
        assert_eq!(given, good, "limit {limit}");
        let said: Vec<&str> = pages.iter().flat_map(Answer::complaints).map(|(key, _)| key).collect();
        assert_eq!(said, malformed, "limit {limit}");
        let (last, full) = pages.split_last().expect("a page");
        for page in full {
            assert_eq!(page.entries().len(), limit, "all pages but the last are full");
            let next = page.next().expect("more");
            assert!(page.keys().iter().all(|key| key.as_str() <= next), "{next}");
        }
        assert_eq!(pages.len(), MANY.div_ceil(limit), "limit {limit}");
        assert_eq!(last.next(), None);
    }
}

#[test]
fn a_page_may_end_at_the_longest_key_that_there_can_be() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    // Each byte that is not UTF-8 is shown as three.
    let longest = [&b"n1."[..], &[0xff; 3_900]].concat();
    tester.kv_put(COLLECT, "n0.hosts.web", "1");
    tester.kv_put(COLLECT, &longest, "2");
    tester.kv_put(COLLECT, "n2.hosts.web", "3");
    let pages = reader.ask_all(&json!({"what": "collect", "limit": 1}));
    assert_eq!(pages[0].next(), Some(format!("n1.{}", "\u{fffd}".repeat(3_900)).as_str()));
    assert_eq!(pages.iter().flat_map(Answer::keys).collect::<Vec<_>>(), ["n0.hosts.web", "n2.hosts.web"]);
}

#[test]
fn writes_between_pages_lose_and_repeat_no_older_key() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let (good, _) = keys();
    tester.kv_put_all(NEEDS, good.iter().map(|key| (key, "1")));
    for limit in [60, 700] {
        // One key in ten comes and goes; the others stay.
        let (passing, staying): (Vec<_>, Vec<_>) =
            good.iter().cloned().enumerate().partition(|(at, _)| at % 10 == 3);
        let staying: Vec<String> = staying.into_iter().map(|(_, key)| key).collect();
        let mut passing = passing.into_iter().map(|(_, key)| key).cycle();
        let mut given = Vec::new();
        let mut after = String::new();
        for round in 0.. {
            let page = reader.ask(&json!({"what": "needs", "limit": limit, "after": after})).good();
            given.extend(page.keys());
            let Some(next) = page.next() else { break };
            after = next.to_owned();
            // Before the place and after it: one goes, one comes back, one is new, one is written over.
            for _ in 0..5 {
                tester.kv_delete(NEEDS, passing.next().expect("a cycle has no end"));
                tester.kv_put(NEEDS, passing.next().expect("a cycle has no end"), "2");
            }
            for node in [0, 4, 8] {
                tester.kv_put(NEEDS, format!("n{node}.new{limit}.port.p{round}"), "1");
            }
            tester.kv_put(NEEDS, &staying[round * 37 % staying.len()], "3");
        }
        assert!(given.is_sorted_by(|one, other| one < other), "each at most once, in order");
        let kept: Vec<String> = given.into_iter().filter(|key| staying.binary_search(key).is_ok()).collect();
        assert_eq!(kept, staying, "limit {limit}");
    }
}

#[test]
fn limit_after_and_next_are_to_the_letter_in_every_question() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    tester.kv_put_all(NEEDS, ["a", "b", "c"].map(|name| (format!("n1.web.odd.{name}"), "1")));
    tester.kv_put_all(APPLIED, ["a", "b", "c"].map(|name| (format!("n1.{name}"), "1")));
    tester.kv_put_all(COLLECT, ["a", "b", "c"].map(|name| (format!("n1.hosts.{name}"), "1")));
    for (what, prefix) in
        [("needs", "n1.web.odd."), ("gaps", "n1.web.odd."), ("applied", "n1."), ("collect", "n1.hosts.")]
    {
        let key = |name: &str| format!("{prefix}{name}");
        let ask = |body: Value| {
            let mut body = body;
            body["what"] = json!(what);
            let answer = reader.ask(&body).good();
            (answer.keys(), answer.next().map(str::to_owned))
        };
        let (a, b, c) = (key("a"), key("b"), key("c"));
        assert_eq!(ask(json!({})), (vec![a.clone(), b.clone(), c.clone()], None));
        assert_eq!(ask(json!({"limit": 3})), (vec![a.clone(), b.clone(), c.clone()], None));
        assert_eq!(ask(json!({"limit": 2})), (vec![a.clone(), b.clone()], Some(b.clone())));
        assert_eq!(ask(json!({"limit": 2, "after": b})), (vec![c.clone()], None));
        assert_eq!(ask(json!({"limit": 1, "after": a})), (vec![b.clone()], Some(b.clone())));
        assert_eq!(ask(json!({"after": c})), (vec![], None));
        // A place need not be a key that is there.
        assert_eq!(ask(json!({"after": format!("{a}!")})), (vec![b.clone(), c.clone()], None));
        assert_eq!(ask(json!({"after": ""})), (vec![a, b, c], None));
    }
    let pages = reader.ask_all(&json!({"what": "registry", "limit": 5}));
    let kinds: Vec<&str> =
        pages.iter().flat_map(Answer::entries).filter_map(|entry| entry["kind"].as_str()).collect();
    assert_eq!((pages.len(), kinds.len()), (3, KINDS));
    assert!(kinds.is_sorted());
}

#[test]
fn as_of_is_the_last_write_of_the_bucket_that_was_read() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    tester.kv_put(NEEDS, "n1.web.port.http", "1");
    tester.kv_put(NEEDS, "n2.web.port.http", "1");
    tester.kv_delete(NEEDS, "n1.web.port.http");
    tester.kv_put(APPLIED, "n1.web", "1");
    tester.kv_put(COLLECT, "n1.hosts.web", "1");
    for (body, bucket) in [
        (json!({}), REGISTRY),
        (json!({"what": "needs"}), NEEDS),
        // The bucket's, not the node's: it says what the answer has seen.
        (json!({"what": "needs", "node": "n2"}), NEEDS),
        (json!({"what": "gaps"}), NEEDS),
        (json!({"what": "applied"}), APPLIED),
        (json!({"what": "collect"}), COLLECT),
    ] {
        let sequence = tester.last_sequence(bucket);
        let at = tester.kv_at(bucket, sequence).expect("the last write").time;
        let answer = reader.ask(&body).good();
        assert_eq!(answer.body()["as_of"], json!({"sequence": sequence, "at": at}), "{body}");
    }
}

#[test]
fn an_answer_says_what_it_is_and_who_gave_it() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let revision = tester.kv_put(APPLIED, "a=2Eb.shell=3Azsh", r#"{"version":1}"#);
    let at = tester.kv_at(APPLIED, revision).expect("what was put").time;
    let answer = reader.ask(&json!({"what": "applied", "node": "a.b", "module": "shell:zsh"})).good();
    let expected = json!({
        "type": "io.mesh.provisioner.v1.applied_response", "what": "applied",
        "entries": [{
            "key": "a=2Eb.shell=3Azsh", "node": "a.b", "module": "shell:zsh", "value": {"version": 1},
            "revision": revision, "at": at,
        }],
        "malformed": [], "malformed_total": 0, "as_of": {"sequence": revision, "at": at},
    });
    assert_eq!(without_seat(&answer), expected);
    let seat = &answer.body()["seat"];
    assert_eq!(seat["version"], env!("CARGO_PKG_VERSION"));
    let id = seat["id"].as_str().expect("an id");
    assert!(mesh.seat.log().contains(&format!("takes the seat as {id}")), "{id}");
}

#[test]
fn a_value_that_no_answer_can_hold_is_left_out_and_said() {
    const MAX_PAYLOAD: usize = 65_536;
    let server = Setup::shipped().append(&format!("max_payload: {MAX_PAYLOAD}")).start();
    let mesh = Mesh::start_on(server, &[]);
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let large = json!("x".repeat(MAX_PAYLOAD - 1_000)).to_string();
    tester.kv_put(APPLIED, "n1.a", "1");
    let revision = tester.kv_put(APPLIED, "n1.b", &large);
    tester.kv_put(APPLIED, "n1.c", "2");
    let at = tester.kv_at(APPLIED, revision).expect("what was put").time;

    let pages = reader.ask_all(&json!({"what": "applied"}));
    let entries: Vec<&Value> = pages.iter().flat_map(Answer::entries).collect();
    let keys: Vec<&str> = entries.iter().filter_map(|entry| entry["key"].as_str()).collect();
    assert_eq!(keys, ["n1.a", "n1.b", "n1.c"]);
    assert_eq!((&entries[0]["value"], &entries[2]["value"]), (&json!(1), &json!(2)));
    let left_out = json!({"key": "n1.b", "node": "n1", "module": "b", "revision": revision, "at": at});
    assert_eq!(*entries[1], left_out);
    let detail = format!("the value has {} bytes, more than a response can hold", large.len());
    let said = json!({"key": "n1.b", "why": "size", "detail": detail, "revision": revision, "at": at});
    assert_eq!(pages.iter().flat_map(Answer::malformed).collect::<Vec<_>>(), [&said]);
}

#[test]
fn malformed_keys_are_paged_like_entries_and_counted_for_each_node() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let mut keys: Vec<String> = (0..250).map(|at| format!("n1.{at:03}.port")).collect();
    tester.kv_put(NEEDS, "n1.web.port.http", "not JSON");
    keys.push("n1.web.port.http".to_owned());
    keys.push("n2.other".to_owned());
    tester.kv_put_all(NEEDS, keys.iter().filter(|key| *key != "n1.web.port.http").map(|key| (key, "1")));

    let pages = reader.ask_all(&json!({"what": "needs"}));
    assert_eq!(pages.iter().flat_map(Answer::keys).collect::<Vec<_>>(), ["n1.web.port.http"]);
    let said: Vec<&str> = pages.iter().flat_map(Answer::complaints).map(|(key, _)| key).collect();
    assert_eq!(said, keys);
    let totals: Vec<_> = pages.iter().map(|page| page.body()["malformed_total"].as_u64()).collect();
    assert_eq!(totals, [Some(100), Some(100), Some(52)]);

    // A key in shape whose value is not JSON is not a malformed key to those that read no values.
    keys.retain(|key| key != "n1.web.port.http");
    for what in ["gaps", "drift", "nodes"] {
        let pages = reader.ask_all(&json!({"what": what}));
        let said: Vec<&str> = pages.iter().flat_map(Answer::complaints).map(|(key, _)| key).collect();
        assert_eq!(said, keys, "{what}");
        assert!(pages.iter().all(|page| page.body()["ok"] == false), "{what}");
    }
    let nodes = reader.ask_all(&json!({"what": "nodes"}));
    let counts: Vec<(Value, Value)> = nodes
        .iter()
        .flat_map(Answer::entries)
        .map(|row| (row["node"].clone(), row["malformed"].clone()))
        .collect();
    assert_eq!(counts, [(json!("n1"), json!(250)), (json!("n2"), json!(1))]);
}

#[test]
fn no_page_ends_between_keys_that_look_alike() {
    // How many keys the seat looks at for one page.
    const KEYS_A_PAGE: usize = 4_096;
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let before = (1..KEYS_A_PAGE).map(|at| format!("a.{at:04}").into_bytes());
    let look_alikes = [b"b.\xfe".to_vec(), b"b.\xff".to_vec()];
    tester.kv_put_all(NEEDS, before.chain(look_alikes).map(|key| (key, "1")));
    tester.kv_put(NEEDS, "n1.web.port.http", "1");
    let pages = reader.ask_all(&json!({"what": "needs"}));
    assert_eq!(pages.iter().flat_map(Answer::keys).collect::<Vec<_>>(), ["n1.web.port.http"]);
    assert!(pages.len() > 1, "the keys are more than one page looks at");
    let said: u64 = pages.iter().filter_map(|page| page.body()["malformed_total"].as_u64()).sum();
    assert_eq!(said, KEYS_A_PAGE as u64 + 1);
}

#[test]
fn no_request_reads_a_bucket_without_end() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    // Deleted keys leave their markers, and no entry in the answer.
    let deleted = headers(&[("KV-Operation", "DEL")]);
    let mut under_way = VecDeque::new();
    for at in 0..9_000 {
        let subject = format!("$KV.{NEEDS}.n1.web.port.p{at:05}");
        under_way.push_back(tester.request_later(subject, &deleted, ""));
        if under_way.len() == 256 {
            under_way.pop_front().expect("256 of them").next(PATIENCE).expect("an acknowledgement");
        }
    }
    tester.kv_put(NEEDS, "n2.web.port.http", "1");
    let pages = reader.ask_all(&json!({"what": "needs"}));
    assert_eq!(pages.iter().flat_map(Answer::keys).collect::<Vec<_>>(), ["n2.web.port.http"]);
    assert_eq!(pages.len(), 2, "more markers than one request looks at");

    // Values that no answer can hold take no room in it.
    let large = json!("x".repeat(900_000)).to_string();
    let keys: Vec<String> = (0..12).map(|at| format!("n1.m{at:02}")).collect();
    for key in &keys {
        tester.kv_put(APPLIED, key, &large);
    }
    let pages = reader.ask_all(&json!({"what": "applied"}));
    assert_eq!(pages.iter().flat_map(Answer::keys).collect::<Vec<_>>(), keys);
    assert_eq!(pages.len(), 2, "more bytes than one request looks at");
}
