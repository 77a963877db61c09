//! Every filter of every question, and what a narrowed question says of malformed keys.

use crate::support::verb::AsksTheSeat;
use serde_json::{Map, Value, json};

use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::mesh::Mesh;

const NODES: [&str; 3] = ["n1", "n10", "n2"];
const MODULES: [&str; 2] = ["we", "web"];
const KINDS: [&str; 3] = ["mystery", "port", "secret"];
const COLLECTIONS: [&str; 2] = ["host", "hosts"];

/// The keys that these tokens make, all with all.
fn product(places: &[&[&str]]) -> Vec<String> {
    places.iter().fold(vec![String::new()], |begun, tokens| {
        let extended = |begun: &String| {
            let dot = if begun.is_empty() { "" } else { "." };
            tokens.iter().map(|token| format!("{begun}{dot}{token}")).collect::<Vec<_>>()
        };
        begun.iter().flat_map(extended).collect()
    })
}

/// One question, the fields of its keys in order, and the values that each of its filters is tried with.
struct Case {
    what: &'static str,
    bucket: &'static str,
    fields: &'static [&'static str],
    filters: &'static [(&'static str, &'static [&'static str])],
}

const CASES: [Case; 4] = [
    Case {
        what: "needs",
        bucket: NEEDS,
        fields: &["node", "module", "kind", "name"],
        filters: &[("node", &NODES), ("module", &MODULES), ("kind", &KINDS)],
    },
    Case {
        what: "gaps",
        bucket: NEEDS,
        fields: &["node", "module", "kind", "name"],
        filters: &[("node", &NODES), ("module", &MODULES)],
    },
    Case {
        what: "applied",
        bucket: APPLIED,
        fields: &["node", "module"],
        filters: &[("node", &NODES), ("module", &MODULES)],
    },
    Case {
        what: "collect",
        bucket: COLLECT,
        fields: &["node", "collection", "module"],
        filters: &[("node", &NODES), ("collection", &COLLECTIONS), ("module", &MODULES)],
    },
];

/// Every choice of filters: each left out, or with one of its values, or with one that nobody has.
fn narrowings(filters: &[(&'static str, &[&'static str])]) -> Vec<Vec<(&'static str, &'static str)>> {
    filters.iter().fold(vec![Vec::new()], |begun, (field, values)| {
        let with = |value: Option<&'static str>| {
            begun
                .iter()
                .map(move |chosen| chosen.iter().copied().chain(value.map(|value| (*field, value))).collect())
        };
        let values = values.iter().copied().map(Some).chain([Some("n"), None]);
        values.flat_map(with).collect()
    })
}

#[test]
fn each_filter_of_each_question_narrows_it_to_exactly_its_name() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let stored = |bucket| match bucket {
        NEEDS => product(&[&NODES, &MODULES, &KINDS, &["a", "b"]]),
        APPLIED => product(&[&NODES, &MODULES]),
        _ => product(&[&NODES, &COLLECTIONS, &MODULES]),
    };
    for bucket in [NEEDS, APPLIED, COLLECT] {
        tester.kv_put_all(bucket, stored(bucket).iter().map(|key| (key, "1")));
    }
    for Case { what, bucket, fields, filters } in CASES {
        for narrowing in narrowings(filters) {
            let mut body: Map<String, Value> =
                narrowing.iter().map(|(field, name)| ((*field).to_owned(), json!(name))).collect();
            body.insert("what".to_owned(), json!(what));
            let wanted = |key: &String| {
                let mut places = fields.iter().zip(key.split('.'));
                let chosen =
                    |field| narrowing.iter().find(|(other, _)| *other == field).map(|(_, name)| *name);
                places.all(|(field, token)| chosen(*field).is_none_or(|name| name == token))
                    && (what != "gaps" || key.contains(".mystery."))
            };
            let mut expected: Vec<String> = stored(bucket).into_iter().filter(wanted).collect();
            expected.sort_unstable();
            let answer = reader.ask(&json!(body)).good();
            assert_eq!(answer.keys(), expected, "{body:?}");
            assert_eq!(answer.complaints(), [], "{body:?}");
            if what == "gaps" {
                assert_eq!(answer.body()["ok"], expected.is_empty(), "{body:?}");
                assert!(answer.entries().iter().all(|entry| entry.get("value").is_none()));
            }
        }
    }
}

#[test]
fn the_registry_narrowed_to_a_kind_gives_its_entry_as_it_is_stored() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let stored = tester.kv_get(REGISTRY, "secret").expect("the registry is in place");
    assert_eq!(
        String::from_utf8_lossy(&stored.value),
        r#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.secret"}"#
    );
    let answer = reader.ask(&json!({"kind": "secret"})).good();
    let entry = json!({
        "kind": "secret", "domain": "secrets", "module": "mesh-vault", "verb": "mesh-vault.secret",
        "revision": stored.sequence, "at": stored.time,
    });
    assert_eq!(answer.entries(), [entry]);
    assert_eq!(reader.ask(&json!({"kind": "secrets"})).good().entries(), [Value::Null; 0]);
}

#[test]
fn a_narrowed_question_says_the_malformed_keys_within_its_reach() {
    let mesh = Mesh::start();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let malformed = [
        ("n1", "shape"),
        ("n1.web", "shape"),
        ("n1.web.port", "shape"),
        ("n1.web.port.http.more", "shape"),
        ("n1.web.secret.=3d", "token"),
        ("n10", "shape"),
        ("n10.web.port.=61", "token"),
        ("n=31.web.port.http", "token"),
    ];
    tester.kv_put_all(NEEDS, malformed.map(|(key, _)| (key, "1")));
    tester.kv_put_all(NEEDS, ["n1.web.port.http", "n10.web.port.http"].map(|key| (key, "1")));
    // Deleted, it is malformed no longer.
    tester.kv_put(NEEDS, "n1.gone", "1");
    tester.kv_delete(NEEDS, "n1.gone");

    let reached = |body: Value| {
        let answer = reader.ask(&body).good();
        assert_eq!(answer.body()["malformed_total"], answer.malformed().len());
        let keys =
            answer.complaints().iter().map(|(key, why)| (*key).to_owned() + " " + why).collect::<Vec<_>>();
        (answer.keys(), keys)
    };
    let said =
        |range: &[(&str, &str)]| range.iter().map(|(key, why)| format!("{key} {why}")).collect::<Vec<_>>();
    let (n1, n10) = ("n1.web.port.http".to_owned(), "n10.web.port.http".to_owned());
    assert_eq!(reached(json!({"what": "needs"})), (vec![n1.clone(), n10.clone()], said(&malformed)));
    assert_eq!(reached(json!({"what": "needs", "node": "n1"})), (vec![n1.clone()], said(&malformed[..5])));
    assert_eq!(reached(json!({"what": "needs", "node": "n10"})), (vec![n10], said(&malformed[5..7])));
    let body = json!({"what": "needs", "node": "n1", "module": "web"});
    assert_eq!(reached(body), (vec![n1.clone()], said(&malformed[1..5])));
    let body = json!({"what": "needs", "node": "n1", "kind": "port"});
    assert_eq!(reached(body), (vec![n1], said(&malformed[2..4])));
    assert_eq!(reached(json!({"what": "needs", "node": "n2"})), (Vec::new(), Vec::new()));
}
