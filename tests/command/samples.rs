//! The samples below `packaging/schema/samples`: each keeps to its schema and is what a real seat responds.

use super::schema::keeps_to;
use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::mesh::Mesh;
use crate::support::verb::AsksTheSeat;
use mesh_provisioner_api::request::What;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// Fields whose values differ from run to run: their types are compared, not their values.
const VARYING: [&str; 12] = [
    "at",
    "needed_at",
    "applied_at",
    "last_write_at",
    "age_seconds",
    "uptime_seconds",
    "verified_seconds_ago",
    "last_pass_seconds_ago",
    "id",
    "server",
    "version",
    "counters",
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("packaging/schema/samples")
}

fn sample(name: &str) -> Value {
    let path = folder().join(format!("{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Puts the sample's value instead of each varying one of the same type.
fn align(real: &mut Value, sample: &Value) {
    match (real, sample) {
        (Value::Object(real), Value::Object(sample)) => {
            for (field, value) in real {
                match sample.get(field) {
                    Some(other) if VARYING.contains(&field.as_str()) && same_shape(value, other) => {
                        *value = other.clone();
                    }
                    Some(other) => align(value, other),
                    None => {}
                }
            }
        }
        (Value::Array(real), Value::Array(sample)) => {
            real.iter_mut().zip(sample).for_each(|(real, sample)| align(real, sample));
        }
        _ => {}
    }
}

/// Whether both are strings, or numbers, or objects with the same fields of the same shapes.
fn same_shape(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_)) => true,
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(field, value)| other.get(field).is_some_and(|other| same_shape(value, other)))
        }
        _ => false,
    }
}

/// A mesh with a gap, a module in each state but one, an unread collection and a malformed key.
fn mesh() -> Mesh {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    for (key, value) in [
        ("attic.web.licence.codec", "1"),
        ("attic.web.port.http", r#"{"port":8080,"weight":0.10}"#),
        ("attic.web.shell.zsh=3Anormal", "null"),
        ("attic.web.port", "{}"),
        ("cellar.db.config.size", "123456789012345678901234567890"),
    ] {
        tester.kv_put(NEEDS, key, value);
    }
    tester.kv_put(APPLIED, "attic.web", r#"{"version":"2.4.1"}"#);
    tester.kv_put(APPLIED, "garage.printer", "{}");
    tester.kv_put(COLLECT, "attic.shell=3Azsh=3Anormal.web", r#"["alias ll='ls -l'"]"#);
    tester.kv_put(COLLECT, "cellar.backup=3Apaths.db", r#"["/srv/db"]"#);
    mesh
}

#[test]
fn each_sample_keeps_to_its_schema_and_is_what_a_real_seat_responds() {
    let mesh = mesh();
    let reader = mesh.reader();
    let check = |name: &str, mut real: Value| {
        let sample = sample(name);
        keeps_to(name, &sample);
        keeps_to("response", &sample);
        align(&mut real, &sample);
        assert_eq!(real, sample, "{name}: the seat responded\n{real:#}");
    };
    for what in What::ALL {
        let request = match what {
            What::Registry => json!({"what": "registry", "limit": 2}),
            What::Needs => json!({"what": "needs", "limit": 2}),
            What::Nodes => json!({"what": "nodes", "stale_after": 3600}),
            _ => json!({"what": what.word()}),
        };
        check(&format!("{}_response", what.word()), reader.ask(&request).good().body().clone());
    }
    mesh.admin().delete_bucket(NEEDS);
    check("error_response", reader.ask(&json!({"what": "needs"})).body().clone());
    let samples = fs::read_dir(folder()).expect("the folder of the samples").count();
    assert_eq!(samples, What::ALL.len() + 1, "a sample that no query gives");
}
