//! Whatever crosses the bus keeps to the schemas that are shipped.

use mesh_testing::wire::Message;
use serde_json::Value;
use std::fs;

/// Checks a value against the schema of that name.
#[track_caller]
pub(crate) fn check(name: &str, value: &Value) {
    let path = format!("{}/../../packaging/schema/vault/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let schema: Value = serde_json::from_str(&text).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<String> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{name}: {faults:?}: {value}");
}

/// Checks an answer: an error, or what that schema says.
#[track_caller]
pub(crate) fn check_answer(name: &str, message: &Message) {
    let value = message.json();
    check(if value["error"].is_object() { "error_response" } else { name }, &value);
}
