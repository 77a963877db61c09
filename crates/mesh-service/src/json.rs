//! JSON of what a service says.

use serde::Serialize;

/// `value` as JSON. Everything that a service says is made of strings, numbers and raw JSON, so it cannot fail.
pub fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("what a service says is text and numbers")
}
