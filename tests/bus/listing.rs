//! Reading buckets that hold anything at all.

mod broken;
mod bulk;
mod cluster;

use crate::support::verb::AsksTheSeat;
use serde_json::{Value, json};
use std::time::Duration;

use crate::support::bucket::{COLLECT, NEEDS, Stored};
use crate::support::client::Client;
use crate::support::mesh::Mesh;
use crate::support::seat::KINDS;
use crate::support::verb::Answer;
use crate::support::wait::{self, PATIENCE};
use crate::support::wire::headers;

/// The entry that stands for a need whose names are spelled as they are, and whose value is JSON.
fn need(stored: &Stored) -> Value {
    let names: Vec<&str> = stored.key.split('.').collect();
    let value: Value = serde_json::from_slice(&stored.value).expect("a value in JSON");
    json!({
        "key": stored.key, "node": names[0], "module": names[1], "kind": names[2], "name": names[3],
        "value": value, "revision": stored.sequence, "at": stored.time,
    })
}

/// The entry that the seat must give for what is stored under `key`.
#[track_caller]
fn expected(client: &Client, key: &str) -> Value {
    need(&client.kv_get(NEEDS, key).unwrap_or_else(|| panic!("nothing under {key}")))
}

#[track_caller]
fn ask_needs(client: &Client) -> Answer {
    client.ask(&json!({"what": "needs"})).good()
}

/// Asserts that the answer says of `needs` that nothing is there, and no other thing.
#[track_caller]
fn assert_nothing(answer: &Answer, as_of: &Value) {
    let body = answer.body();
    let nothing = json!({
        "type": "io.mesh.provisioner.v1.needs_response", "what": "needs", "entries": [], "malformed": [],
        "malformed_total": 0, "as_of": as_of, "seat": body["seat"],
    });
    assert_eq!(*body, nothing);
}

/// The connections that the seat has: they stay the same as long as none breaks.
#[track_caller]
fn connection_of_the_seat(mesh: &Mesh) -> Value {
    let connections = mesh.server.connections_of("seat");
    assert_eq!(connections.len(), 1, "{connections:?}");
    connections[0]["cid"].clone()
}

#[test]
fn a_bucket_with_markers_alone_gives_no_entries() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    assert_nothing(&ask_needs(&reader), &json!({"sequence": 0}));

    let as_of =
        |sequence| json!({"sequence": sequence, "at": tester.kv_at(NEEDS, sequence).expect("a marker").time});
    tester.kv_put(NEEDS, "n1.web.port.http", "1");
    let marker = tester.kv_delete(NEEDS, "n1.web.port.http");
    assert_nothing(&ask_needs(&reader), &as_of(marker));
    let marker = tester.kv_purge(NEEDS, "n1.web.port.http");
    assert_nothing(&ask_needs(&reader), &as_of(marker));
    assert_nothing(&reader.ask(&json!({"what": "needs", "node": "n1"})).good(), &as_of(marker));
}

#[test]
fn keys_that_age_out_while_they_are_listed_leave_nothing() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let second = 1_000_000_000;
    mesh.admin().update_bucket(NEEDS, &json!({"max_age": second, "duplicate_window": second}));
    let keys: Vec<String> = (0..2_000).map(|at| format!("n1.web.port.p{at:04}")).collect();
    tester.kv_put_all(NEEDS, keys.iter().map(|key| (key, "1")));
    // Asked again and again, so that some of the answers are read while their keys go.
    let last = wait::until("the keys to age out", PATIENCE, || {
        let answer = ask_needs(&reader);
        assert_eq!(answer.complaints(), []);
        let given = answer.keys();
        assert!(given.iter().all(|key| keys.contains(key)), "{given:?}");
        if given.is_empty() { Ok(answer) } else { Err(format!("{} keys", given.len())) }
    });
    // The last write stays known though its message is gone.
    assert_eq!(last.body()["as_of"]["sequence"], tester.last_sequence(NEEDS));
    assert_eq!(last.next(), None);
}

#[test]
fn a_key_that_is_not_utf_8_is_reported_and_hides_no_other() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let connection = connection_of_the_seat(&mesh);
    tester.kv_put(NEEDS, "n1.api.port.http", r#"{"port":1}"#);
    tester.kv_put(NEEDS, b"n1.\xff\xfe.x.y", "1");
    tester.kv_put(NEEDS, "n1.web.port.http", r#"{"port":2}"#);

    let (api, web) = (expected(&tester, "n1.api.port.http"), expected(&tester, "n1.web.port.http"));
    let shown = "n1.\u{fffd}\u{fffd}.x.y";
    for ask in [json!({"what": "needs"}), json!({"what": "needs", "node": "n1"})] {
        let answer = reader.ask(&ask).good();
        assert_eq!(answer.entries(), [api.clone(), web.clone()]);
        let said = json!({
            "key": shown, "why": "bytes", "detail": "contains bytes that are not UTF-8, shown as U+FFFD",
        });
        assert_eq!(answer.malformed(), [said]);
        assert_eq!(answer.body()["malformed_total"], 1);
    }

    // Another key that looks the same is another key.
    tester.kv_put(NEEDS, b"n1.\xfe\xff.x.y", "1");
    assert_eq!(ask_needs(&reader).complaints(), [(shown, "bytes"), (shown, "bytes")]);
    assert_eq!(connection_of_the_seat(&mesh), connection);
}

#[test]
fn a_value_with_unreadable_headers_is_given_and_reported() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let connection = connection_of_the_seat(&mesh);
    tester.kv_put(NEEDS, "n1.a.port.http", "1");
    tester.kv_put_with(NEEDS, "n1.b.port.http", b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n", "2");
    tester.kv_put_with(NEEDS, "n1.c.port.http", b"NATS/1.0\r\nno colon\r\n\r\n", "3");
    tester.kv_put(NEEDS, "n1.d.port.http", "4");

    let stored = |name: &str| tester.kv_get(NEEDS, &format!("n1.{name}.port.http")).expect("a need");
    let answer = ask_needs(&reader);
    assert_eq!(answer.entries(), ["a", "b", "c", "d"].map(|name| need(&stored(name))));
    let said =
        [("b", "a header line is not UTF-8"), ("c", "a header line has no colon")].map(|(name, detail)| {
            let Stored { key, sequence, time, .. } = stored(name);
            json!({"key": key, "why": "header", "detail": detail, "revision": sequence, "at": time})
        });
    assert_eq!(answer.malformed(), said);
    assert_eq!(answer.body()["malformed_total"], 2);
    assert_eq!(connection_of_the_seat(&mesh), connection);
}

#[test]
#[allow(clippy::print_stderr, reason = "says which half of the case this server has")]
fn a_key_that_expired_is_not_listed() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let second = 1_000_000_000_u64;
    if mesh.server.version() < (2, 11, 0) {
        eprintln!(
            "no TTL of one message before nats-server 2.11: the age of the whole bucket is tried instead"
        );
        mesh.admin().update_bucket(NEEDS, &json!({"max_age": second, "duplicate_window": second}));
        tester.kv_put(NEEDS, "n1.web.port.http", "1");
        wait::until("the key to expire", PATIENCE, || match tester.kv_get(NEEDS, "n1.web.port.http") {
            None => Ok(()),
            Some(stored) => Err(format!("{stored:?}")),
        });
        assert_eq!(ask_needs(&reader).keys(), [""; 0]);
        return;
    }
    let markers = json!({"allow_msg_ttl": true, "subject_delete_marker_ttl": 3_600 * second});
    mesh.admin().update_bucket(NEEDS, &markers);
    tester.kv_put(NEEDS, "n1.api.port.http", "1");
    tester.kv_put_with(NEEDS, "n1.web.port.http", &headers(&[("Nats-TTL", "1s")]), "2");
    let marker = wait::until("the server's marker", PATIENCE, || {
        let stored = tester.kv_get(NEEDS, "n1.web.port.http");
        stored.clone().filter(|stored| stored.value.is_empty()).ok_or_else(|| format!("{stored:?}"))
    });
    assert_eq!(marker.header("Nats-Marker-Reason").as_deref(), Some("MaxAge"), "{marker:?}");
    let answer = ask_needs(&reader);
    assert_eq!(answer.entries(), [expected(&tester, "n1.api.port.http")]);
    assert_eq!(answer.complaints(), []);
    assert_eq!(answer.body()["as_of"], json!({"sequence": marker.sequence, "at": marker.time}));
}

#[test]
fn each_live_key_is_there_once_with_its_newest_value() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    mesh.admin().update_bucket(NEEDS, &json!({"max_msgs_per_subject": 5}));
    for value in ["1", "2", "3"] {
        tester.kv_put(NEEDS, "n1.web.port.thrice", value);
    }
    tester.kv_put(NEEDS, "n1.web.port.deleted", "1");
    tester.kv_delete(NEEDS, "n1.web.port.deleted");
    tester.kv_put(NEEDS, "n1.web.port.empty", "1");
    let empty = tester.kv_put(NEEDS, "n1.web.port.empty", "");
    // Deleted and written again is alive.
    tester.kv_put(NEEDS, "n1.web.port.back", "1");
    tester.kv_delete(NEEDS, "n1.web.port.back");
    tester.kv_put(NEEDS, "n1.web.port.back", "2");

    let at = tester.kv_at(NEEDS, empty).expect("the empty value").time;
    let answer = ask_needs(&reader);
    let entries = [
        expected(&tester, "n1.web.port.back"),
        json!({
            "key": "n1.web.port.empty", "node": "n1", "module": "web", "kind": "port", "name": "empty",
            "text": "", "revision": empty, "at": at,
        }),
        expected(&tester, "n1.web.port.thrice"),
    ];
    assert_eq!(answer.entries(), entries);
    assert_eq!(answer.entries()[2]["value"], 3);
    let said = json!({
        "key": "n1.web.port.empty", "why": "json", "detail": "the value is empty", "revision": empty, "at": at,
    });
    assert_eq!(answer.malformed(), [said]);
}

#[test]
fn a_key_with_a_forbidden_byte_is_reported_as_it_is_spelled() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let strange = [
        "$n1.web.port.http",
        "n1.*.port.http",
        "n1.a+b.port.http",
        "n1.a:b.port.http",
        "n1.a~b.port.http",
        "n1.web.port.>",
        "n1.веб.port.http",
        "n1.*",
    ];
    // A good key on either side in time: neither value may stand in a pattern's place.
    tester.kv_put(NEEDS, "n1.web.port.first", "1");
    for key in strange {
        tester.kv_put(NEEDS, key, r#""strange""#);
    }
    tester.kv_put(NEEDS, "n1.web.port.http", "2");

    let good = [expected(&tester, "n1.web.port.first"), expected(&tester, "n1.web.port.http")];
    let mut said = strange.map(|key| (key, if key == "n1.*" { "shape" } else { "token" }));
    said.sort_unstable();
    let answer = ask_needs(&reader);
    assert_eq!(answer.entries(), good);
    assert_eq!(answer.complaints(), said);
    assert_eq!(answer.body()["malformed_total"], said.len());

    let under_n1 = reader.ask(&json!({"what": "needs", "node": "n1"})).good();
    assert_eq!(under_n1.entries(), good);
    assert_eq!(under_n1.complaints(), said[1..], "all but the one whose node is spelled $n1");
}

#[test]
fn a_key_with_a_bad_escape_is_reported() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let good = tester.kv_put(COLLECT, "n1.a.web", r#""good""#);
    let faults = [
        ("=", "has a = that is not followed by two upper-case hex digits"),
        ("=00", "spells a name that contains the control character U+0000"),
        ("=3d", "has a = that is not followed by two upper-case hex digits"),
        ("=61", "spells =61 for 'a', which stands for itself"),
        ("=FF", "spells bytes that are not UTF-8"),
        ("=ZZ", "has a = that is not followed by two upper-case hex digits"),
        ("a=4", "has a = that is not followed by two upper-case hex digits"),
    ];
    let said = faults.map(|(token, fault)| {
        let key = format!("n1.{token}.web");
        let revision = tester.kv_put(COLLECT, &key, r#""bad""#);
        let at = tester.kv_at(COLLECT, revision).expect("what was put").time;
        let detail = format!("the collection token {token:?} {fault}");
        json!({"key": key, "why": "token", "detail": detail, "revision": revision, "at": at})
    });

    let entry = json!({
        "key": "n1.a.web", "node": "n1", "collection": "a", "contributor": "web", "value": "good",
        "revision": good, "at": tester.kv_at(COLLECT, good).expect("what was put").time,
    });
    let answer = reader.ask(&json!({"what": "collect"})).good();
    assert_eq!(answer.entries(), std::slice::from_ref(&entry));
    assert_eq!(answer.malformed(), said);
    let narrowed = reader.ask(&json!({"what": "collect", "collection": "a"})).good();
    assert_eq!(narrowed.entries(), [entry]);
    assert_eq!(narrowed.complaints(), [], "=61 is not another spelling of a");
}

#[test]
fn f13_on_a_slow_line_a_survey_gets_on_with_each_try_and_delays_nobody() {
    const KEYS: usize = 5_000;
    const NODES: usize = 20;
    let (mesh, proxy) = Mesh::start_behind_a_proxy();
    let tester = mesh.tester();
    tester.kv_put_all(NEEDS, (0..KEYS).map(|at| (format!("n{}.web.port.p{at:05}", at % NODES), "1")));
    proxy.pace(100_000);
    let reader = mesh.reader();
    // Servers before 2.11 send no values in bulk, so nothing is kept of a try: a narrower question is answered.
    let (asked, rows) = if mesh.server.version() >= (2, 11, 0) {
        (json!({"what": "drift"}), NODES)
    } else {
        (json!({"what": "drift", "node": "n3"}), 1)
    };
    let answer = wait::until("a survey of all keys", Duration::from_secs(60), || {
        let survey = reader.ask_later(&asked);
        // What needs little is answered meanwhile.
        assert_eq!(reader.ask(&json!({"what": "registry"})).good().entries().len(), KINDS);
        let answer = Answer::of(&survey.next(PATIENCE).map_err(|error| error.to_string())?);
        if answer.code().is_none() { Ok(answer) } else { Err(answer.text().clone()) }
    });
    assert_eq!(answer.entries().len(), rows);
}
