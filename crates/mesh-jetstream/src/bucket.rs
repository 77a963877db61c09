//! A key-value bucket as NATS keeps it: a stream, and subjects below one prefix.

use serde_json::{Value, json};
use std::fmt;

/// Without a number nats-server 2.15 allows a thousand consumers to a stream, and a bucket may have more readers.
const MAX_CONSUMERS: u32 = 100_000;

/// A key-value bucket by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kv<'a>(&'a str);

impl<'a> Kv<'a> {
    /// The bucket called `name`.
    pub const fn new(name: &'a str) -> Self {
        Kv(name)
    }

    /// The stream that keeps the bucket, as the key-value convention of NATS names it.
    pub fn stream(self) -> String {
        format!("KV_{}", self.0)
    }

    /// What every subject of the bucket starts with; the key is the rest.
    pub fn subject_prefix(self) -> String {
        format!("$KV.{}.", self.0)
    }

    /// The subject to which the values of `key` are written.
    pub fn subject(self, key: &str) -> String {
        format!("$KV.{}.{key}", self.0)
    }

    /// The configuration of the stream, for `STREAM.CREATE`: `history` values of each key, on `replicas` servers. Roll-ups
    /// are not allowed: with one write anybody who may write one key could empty the bucket. Markers of deleted keys need
    /// none.
    pub fn configuration(self, history: u8, replicas: u8) -> Value {
        json!({
            "name": self.stream(),
            "subjects": [format!("{}>", self.subject_prefix())],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "num_replicas": replicas,
            "max_msgs_per_subject": history,
            "max_consumers": MAX_CONSUMERS,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msg_size": -1,
            "allow_rollup_hdrs": false,
            "deny_delete": true,
            "deny_purge": false,
            "allow_direct": true,
        })
    }
}

/// How the configuration of a stream that is there differs from the advised one, of [`Kv::configuration`], in words: nothing
/// if it does not.
pub fn differences(there: &Value, advised: &Value) -> Vec<String> {
    advised
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, _)| *field != "name")
        .map(|(field, advised)| {
            (field, there.get(field).cloned().unwrap_or_else(|| zero_of(advised)), advised)
        })
        .filter(|(_, found, advised)| found != *advised)
        .map(|(field, found, advised)| format!("{field} is {found}, advised is {advised}"))
        .collect()
}

/// The meaning of a field that the server omits.
fn zero_of(advised: &Value) -> Value {
    match advised {
        Value::Bool(_) => false.into(),
        Value::Number(_) => 0.into(),
        _ => Value::Null,
    }
}

impl fmt::Display for Kv<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_differs_says_how() {
        let advised = Kv::new("mesh-provisioner_needs").configuration(1, 1);
        assert!(differences(&advised, &advised).is_empty());
        let mut there = advised.clone();
        there["max_age"] = json!(1_000_000_000);
        there["allow_rollup_hdrs"] = json!(true);
        there.as_object_mut().unwrap().remove("deny_delete");
        there["first_seq"] = json!(0);
        assert_eq!(
            differences(&there, &advised),
            [
                "allow_rollup_hdrs is true, advised is false",
                "deny_delete is false, advised is true",
                "max_age is 1000000000, advised is 0"
            ]
        );
    }
}
