//! Who may do what on the shipped bus.

use crate::support::verb::AsksTheSeat;
use serde_json::{Value, json};

use crate::support::accounts::{READER, SEAT};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::client::{Client, Unanswered};
use crate::support::mesh::Mesh;
use crate::support::seat::KINDS;
use crate::support::verb::VERB;
use crate::support::wait::{self, PATIENCE};

/// Every bucket but the registry.
const OF_THE_NODES: [&str; 3] = [NEEDS, APPLIED, COLLECT];

const BUCKETS: [&str; 4] = [REGISTRY, NEEDS, APPLIED, COLLECT];

/// Asserts that the bus denies a publish, in words that name the subject.
#[track_caller]
fn assert_denied(client: &Client, subject: &str) {
    match client.request(subject, "{}", PATIENCE) {
        Err(Unanswered::Denied(words)) => assert!(words.contains(&format!("\"{subject}\"")), "{words}"),
        other => panic!("{subject}: {other:?}"),
    }
}

/// Asserts that the bus denies a subscription.
#[track_caller]
fn assert_deaf(client: &Client, subject: &str) {
    match client.subscribe(subject, None).next(PATIENCE) {
        Err(Unanswered::Denied(words)) => assert!(words.contains(&format!("\"{subject}\"")), "{words}"),
        other => panic!("{subject}: {other:?}"),
    }
}

/// Everything that can be done to a bucket by way of the API but reading it as the seat does.
fn api_calls(bucket: &str) -> Vec<String> {
    let stream = format!("KV_{bucket}");
    let calls = [
        format!("STREAM.CREATE.{stream}"),
        format!("STREAM.UPDATE.{stream}"),
        format!("STREAM.DELETE.{stream}"),
        format!("STREAM.PURGE.{stream}"),
        format!("STREAM.MSG.DELETE.{stream}"),
        format!("STREAM.SNAPSHOT.{stream}"),
        format!("CONSUMER.CREATE.{stream}"),
        format!("CONSUMER.DURABLE.CREATE.{stream}.c"),
    ];
    calls.into_iter().map(|call| format!("$JS.API.{call}")).collect()
}

fn reading_calls(bucket: &str) -> [String; 2] {
    ["INFO", "MSG.GET"].map(|call| format!("$JS.API.STREAM.{call}.KV_{bucket}"))
}

#[test]
fn a_node_writes_its_own_keys_and_nothing_else() {
    let mesh = Mesh::start();
    let (attic, tester) = (mesh.node("attic"), mesh.tester());
    let before: Vec<u64> = BUCKETS.iter().map(|bucket| tester.last_sequence(bucket)).collect();
    for key in ["port", "x", "attic", "attic.x"] {
        assert_denied(&attic, &format!("$KV.{REGISTRY}.{key}"));
    }
    for bucket in OF_THE_NODES {
        for key in ["cellar.web", "cellar.web.port.http", "attic", "atticx.web", "x.attic.web"] {
            assert_denied(&attic, &format!("$KV.{bucket}.{key}"));
        }
    }
    for call in BUCKETS.iter().flat_map(|bucket| [api_calls(bucket), reading_calls(bucket).to_vec()].concat())
    {
        assert_denied(&attic, &call);
    }
    for bucket in BUCKETS {
        assert_denied(&attic, &format!("$JS.API.DIRECT.GET.KV_{bucket}"));
        assert_denied(&attic, &format!("$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.attic.web"));
    }
    let others = ["_INBOX.x", "_INBOX_mesh.provisioner.x", "_INBOX_mesh.node.cellar.x", "$SRV.PING"];
    let verbs =
        ["mesh-controller.join", "mesh-controller.status", "mesh-vault.rotate", "$SYS.REQ.SERVER.PING"];
    for subject in others.into_iter().chain(verbs) {
        assert_denied(&attic, subject);
    }
    let deaf = ["_INBOX.>", "_INBOX_mesh.provisioner.>", "_INBOX_mesh.node.cellar.>", VERB, "$KV.>", ">"];
    for subject in deaf {
        assert_deaf(&attic, subject);
    }
    assert_eq!(BUCKETS.map(|bucket| tester.last_sequence(bucket)).to_vec(), before);

    let stored = attic.kv_put(NEEDS, "attic.web.port.http", r#"{"port":8080}"#);
    attic.kv_put(APPLIED, "attic.web", "{}");
    attic.kv_put(COLLECT, "attic.hosts.web", "{}");
    attic.kv_put(COLLECT, "attic.hosts.api", "{}");
    attic.kv_delete(COLLECT, "attic.hosts.api");
    let reader = mesh.reader();
    let answer = reader.ask(&json!({"what": "needs"})).good();
    assert_eq!(
        (answer.keys(), &answer.entries()[0]["revision"]),
        (vec!["attic.web.port.http".to_owned()], &json!(stored))
    );
    assert_eq!(reader.ask(&json!({"what": "applied"})).good().keys(), ["attic.web"]);
    assert_eq!(reader.ask(&json!({"what": "collect"})).good().keys(), ["attic.hosts.web"]);
}

/// The request for a push consumer on `bucket` that delivers the keys of `filter` to the inbox of attic.
fn consumer(bucket: &str, filter: &str) -> String {
    let config = json!({
        "deliver_policy": "last_per_subject", "ack_policy": "none", "filter_subject": filter,
        "deliver_subject": "_INBOX_mesh.node.attic.keys", "inactive_threshold": 5_000_000_000_u64,
    });
    json!({"stream_name": format!("KV_{bucket}"), "config": config}).to_string()
}

#[test]
fn a_node_reads_its_own_keys_through_a_consumer_and_no_others() {
    let mesh = Mesh::start();
    let (attic, cellar) = (mesh.node("attic"), mesh.node("cellar"));
    attic.kv_put(NEEDS, "attic.web.port.http", r#"{"state":"filled"}"#);
    cellar.kv_put(NEEDS, "cellar.db.port.sql", r#"{"state":"filled"}"#);
    let keys = attic.subscribe("_INBOX_mesh.node.attic.keys", None);
    let create = |filter: &str| format!("$JS.API.CONSUMER.CREATE.KV_{NEEDS}.c1.{filter}");
    let (own, foreign) = (format!("$KV.{NEEDS}.attic.>"), format!("$KV.{NEEDS}.cellar.>"));

    for filter in [foreign.as_str(), &format!("$KV.{NEEDS}.>"), &format!("$KV.{NEEDS}.*.web.port.http"), ">"]
    {
        assert_denied(&attic, &create(filter));
    }
    // The filter of the body is the one that counts, so the server compares the two.
    let refused = attic.request(create(&own), consumer(NEEDS, &foreign), PATIENCE).expect("an answer").json();
    assert_eq!(refused["error"]["code"], 400, "{refused}");
    let made = attic.request(create(&own), consumer(NEEDS, &own), PATIENCE).expect("an answer").json();
    assert_eq!(made["num_pending"], 1, "{made}");
    let first = keys.next(PATIENCE).expect("the key that is there");
    assert_eq!(
        (&first.subject[..], &first.body[..]),
        (format!("$KV.{NEEDS}.attic.web.port.http").as_bytes(), &br#"{"state":"filled"}"#[..])
    );
    cellar.kv_put(NEEDS, "cellar.db.port.sql", r#"{"state":"waiting"}"#);
    attic.kv_put(NEEDS, "attic.web.port.http", r#"{"state":"waiting"}"#);
    let next = keys.next(PATIENCE).expect("the new value");
    assert_eq!(next.body, br#"{"state":"waiting"}"#);
}

#[test]
fn the_seat_writes_the_registry_and_nothing_else() {
    let mesh = Mesh::start();
    let (seat, tester) = (mesh.server.client(&SEAT), mesh.tester());
    let before: Vec<u64> = BUCKETS.iter().map(|bucket| tester.last_sequence(bucket)).collect();
    for bucket in OF_THE_NODES {
        for key in ["attic", "attic.web", "attic.web.port.http"] {
            assert_denied(&seat, &format!("$KV.{bucket}.{key}"));
        }
    }
    for call in BUCKETS.iter().flat_map(|bucket| api_calls(bucket)) {
        assert_denied(&seat, &call);
    }
    for subject in [VERB, "_INBOX_other.x", "$SRV.PING", "$JS.API.STREAM.LIST", "x"] {
        assert_denied(&seat, subject);
    }
    // Outside the queue group a request would have a second answer.
    for subject in [VERB, "_INBOX.>", "_INBOX_mesh.node.attic.>", "$KV.>", ">"] {
        assert_deaf(&seat, subject);
    }
    assert_eq!(BUCKETS.map(|bucket| tester.last_sequence(bucket)).to_vec(), before);
    for bucket in BUCKETS {
        let [listing, _] = reading_calls(bucket);
        assert!(seat.request(&listing, "", PATIENCE).is_ok(), "{listing}");
    }
}

#[test]
fn a_reader_asks_and_does_nothing_else() {
    let mesh = Mesh::start();
    let reader = mesh.server.client(&READER);
    for bucket in BUCKETS {
        assert_denied(&reader, &format!("$KV.{bucket}.x"));
        for call in [api_calls(bucket), reading_calls(bucket).to_vec()].concat() {
            assert_denied(&reader, &call);
        }
    }
    for subject in ["_INBOX_mesh.provisioner.>", "_INBOX_mesh.node.attic.>", VERB, "$KV.>", ">"] {
        assert_deaf(&reader, subject);
    }
    assert_eq!(reader.ask(&json!({})).good().entries().len(), KINDS);
}

#[test]
fn the_administrator_deletes_keys_of_the_buckets_and_asks_the_seat() {
    let mesh = Mesh::start();
    let admin = mesh.admin();
    mesh.node("attic").kv_put(NEEDS, "attic.web.port", "1");
    assert_eq!(admin.ask(&json!({"what": "needs"})).good().complaints(), [("attic.web.port", "shape")]);
    admin.kv_delete(NEEDS, "attic.web.port");
    assert_eq!(admin.ask(&json!({"what": "needs"})).good().complaints(), []);
    for subject in
        ["$KV.elsewhere.attic.web", "mesh-controller.join", "$SRV.PING", "_INBOX_mesh.node.attic.x"]
    {
        assert_denied(&admin, subject);
    }
}

#[test]
fn the_next_pass_removes_an_acknowledgement_from_the_registry() {
    let mesh = Mesh::start();
    let (attic, reader, tester) = (mesh.node("attic"), mesh.reader(), mesh.tester());
    let right = tester.kv_get(REGISTRY, "secret").expect("the registry is in place").value;
    // The bus checks no right on the subject that a writer names for the acknowledgement.
    for kind in ["x", "secret"] {
        let reply = format!("$KV.{REGISTRY}.{kind}");
        let key = format!("$KV.{NEEDS}.attic.web.port.{kind}");
        attic.publish_with(key, Some(reply.as_bytes()), &[], "1");
    }
    let acknowledgement = |kind: &str| {
        wait::until("the acknowledgement in the registry", PATIENCE, || {
            let stored = tester.kv_get(REGISTRY, kind);
            let there = stored.as_ref().is_some_and(|stored| stored.value.starts_with(br#"{"stream""#));
            stored.clone().filter(|_| there).ok_or_else(|| format!("{stored:?}"))
        })
    };
    // What is stored is answered, and who wrote it does not matter.
    for kind in ["x", "secret"] {
        let stored = acknowledgement(kind);
        let value: Value = serde_json::from_slice(&stored.value).expect("JSON of the bus");
        let entry = json!({"kind": kind, "value": value, "revision": stored.sequence, "at": stored.time});
        assert_eq!(reader.ask(&json!({"kind": kind})).good().entries(), [entry]);
    }

    let mark = mesh.seat.mark();
    mesh.seat.signal("HUP");
    mesh.seat.wait_for_log_since(mark, "registry in place: 1 put, 1 deleted, 12 unchanged", PATIENCE);
    let secret = mesh.seat.wait_for_log_since(mark, "registry key secret: ", PATIENCE);
    let ours = String::from_utf8_lossy(&right).into_owned();
    assert!(secret.contains("changed by another client since the last pass: {\"stream\""), "{secret}");
    assert!(secret.contains(&format!("restored to {ours}")), "{secret}");
    let deleted =
        mesh.seat.wait_for_log_since(mark, "registry key x: no domain answers it, {\"stream\"", PATIENCE);
    assert!(deleted.contains("deleted"), "{deleted}");
    assert_eq!(tester.kv_get(REGISTRY, "secret").expect("it was put right").value, right);
    let marker = tester.kv_get(REGISTRY, "x").expect("a marker");
    assert_eq!(marker.header("KV-Operation").as_deref(), Some("DEL"));
    assert_eq!(reader.ask(&json!({})).good().entries().len(), KINDS);
}

#[test]
fn a_key_that_is_too_long_for_the_seat_does_not_break_its_connection() {
    let mesh = Mesh::start();
    let (attic, reader, tester) = (mesh.node("attic"), mesh.reader(), mesh.tester());
    // It fits the line in which a node names it, and no line that has a subject for an answer too.
    let long = "x".repeat(4_020);
    for key in [long.as_str(), "short"] {
        let reply = format!("$KV.{REGISTRY}.{key}");
        attic.publish_with(format!("$KV.{NEEDS}.attic.x"), Some(reply.as_bytes()), &[], "1");
    }
    wait::until("both acknowledgements in the registry", PATIENCE, || {
        let keys = tester.kv_keys(REGISTRY);
        let there = keys.contains(&long) && keys.contains(&"short".to_owned());
        there.then_some(()).ok_or_else(|| format!("{keys:?}"))
    });

    let mark = mesh.seat.mark();
    mesh.seat.signal("HUP");
    mesh.seat.wait_for_log_since(mark, "registry in place: 0 put, 1 deleted, 13 unchanged", PATIENCE);
    let said = mesh.seat.wait_for_log_since(mark, "is not a kind and cannot be deleted by name", PATIENCE);
    assert!(said.contains(&long), "{said}");
    let answer = reader.ask(&json!({})).good();
    assert_eq!((answer.entries().len(), answer.complaints()), (KINDS, vec![(long.as_str(), "token")]));
    let health = reader.ask(&json!({"what": "health"})).good();
    assert_eq!(health.body()["health"]["counters"]["connections"], 1);
    assert_eq!(health.body()["ok"], true, "{}", health.text());

    // As the log says: an administrator can.
    mesh.admin()
        .api(&format!("STREAM.PURGE.KV_{REGISTRY}"), &json!({"filter": format!("$KV.{REGISTRY}.{long}")}));
    let answer = reader.ask(&json!({})).good();
    assert_eq!((answer.entries().len(), answer.complaints()), (KINDS, vec![]));
}

#[test]
fn a12_the_inbox_of_the_seat_cannot_be_guessed_from_its_id() {
    let mesh = Mesh::start();
    let health = mesh.reader().ask(&json!({"what": "health"})).good();
    let id = health.body()["seat"]["id"].as_str().expect("an id").to_owned();
    let connections = mesh.server.connections_of(&SEAT.user);
    let subscriptions = connections[0]["subscriptions_list"].as_array().expect("a list");
    let secrets: Vec<&str> = subscriptions
        .iter()
        .filter_map(|subject| subject.as_str()?.strip_prefix("_INBOX_mesh.provisioner.")?.split('.').next())
        .collect();
    assert!(!secrets.is_empty(), "{subscriptions:?}");
    for secret in secrets {
        let alike = secret.bytes().zip(id.bytes()).take_while(|(one, other)| one == other).count();
        assert!(secret.len() >= 22 && alike < 6, "{secret} beside the id {id}");
    }
}
