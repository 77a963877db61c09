//! JSON of responses.

use serde::Serialize;

/// `value` as JSON. Responses consist of strings, numbers and raw JSON, so it cannot fail.
pub fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("a response is text and numbers")
}
