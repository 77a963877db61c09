//! What 0.1.0 wrote and answered is still read, and means the same.
//!
//! `recorded-0.1.0.json` has what that version wrote of the sample mesh, bucket, key and value, in its order, and what
//! its seat answered to each request, as text. It was recorded on nats-server 2.15.1.

use crate::support::bucket::REGISTRY;
use crate::support::mesh::Mesh;
use crate::support::verb::AsksTheSeat;
use crate::support::wait::{self, PATIENCE};
use serde_json::{Value, json};

const RECORDED: &str = include_str!("recorded-0.1.0.json");

/// What this version says otherwise on purpose: where in the response of which query.
fn is_changed(what: &str, path: &str) -> bool {
    match what {
        // A malformed key is never ok.
        "gaps" | "nodes" | "drift" | "collections" if path == "/ok" => true,
        // Words for people, and how the seat itself is.
        _ if path == "/error/message" || path.ends_with("/detail") => true,
        // This seat wrote its own before the recorded one.
        "registry" if path.ends_with("/revision") || path.ends_with("/sequence") => true,
        "health" => {
            path != "/ok" && path != "/health/live" && path != "/health/ready" && path != "/health/missing"
        }
        _ => false,
    }
}

/// Compares all that the recorded response has; further fields are what a client ignores.
fn compare(what: &str, path: &str, then: &Value, now: &Value) {
    // They differ from one run to the next.
    let passing = ["at", "needed_at", "applied_at", "last_write_at", "age_seconds", "seat"];
    if passing.iter().any(|field| path.ends_with(&format!("/{field}"))) || is_changed(what, path) {
        assert!(!now.is_null(), "{what}: {path} is gone");
        return;
    }
    match (then, now) {
        (Value::Object(then), Value::Object(fields)) => {
            for (name, value) in then {
                compare(what, &format!("{path}/{name}"), value, fields.get(name).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(then), Value::Array(elements)) => {
            assert_eq!(then.len(), elements.len(), "{what}: {path}: {elements:?}");
            for (place, (then, now)) in then.iter().zip(elements).enumerate() {
                compare(what, &format!("{path}/{place}"), then, now);
            }
        }
        _ => assert_eq!(then, now, "{what}: {path}"),
    }
}

#[test]
fn requests_and_values_of_0_1_0_mean_the_same() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let mesh = Mesh::start();
    let tester = mesh.tester();
    // A seat of 0.1.0 wrote the registry. This one has nothing to correct.
    for write in recorded["writes"].as_array().unwrap() {
        let [bucket, key, value] = [0, 1, 2].map(|at| write[at].as_str().unwrap());
        tester.kv_put(bucket, key, value);
    }
    let last = tester.last_sequence(REGISTRY);
    mesh.seat.signal("HUP");
    let reader = mesh.reader();
    wait::until("the seat to look at its registry", PATIENCE, || {
        let health = reader.ask(&json!({"what": "health"}));
        let verified = &health.body()["health"]["registry"];
        if verified["last_pass"]["put"] == 0 { Ok(()) } else { Err(verified.to_string()) }
    });
    assert_eq!(tester.last_sequence(REGISTRY), last, "{}", mesh.seat.log());

    for exchange in recorded["exchanges"].as_array().unwrap() {
        let request = exchange["request"].as_str().unwrap();
        let then: Value = serde_json::from_str(exchange["response"].as_str().unwrap()).unwrap();
        let what = serde_json::from_str::<Value>(request).unwrap_or_default()["what"].clone();
        let now = reader.ask_bytes(request);
        compare(what.as_str().unwrap_or("registry"), "", &then, now.body());
    }
}
