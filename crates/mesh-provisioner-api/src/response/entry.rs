//! What a page lists: entries with their values, and malformed keys.

use crate::strict;
use data_encoding::BASE64;
use mesh_model::bucket::{Bucket, Fault, Malformed};
use mesh_model::object::Object;
use mesh_model::registry;
use mesh_service::json::json;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

/// A stored value, in the form that a response can hold.
#[derive(Debug)]
pub enum Value<'a> {
    /// JSON, digit for digit.
    Json(&'a RawValue),
    /// UTF-8 that is not JSON, or JSON that strict parsers reject: why.
    Text(&'a str, String),
    /// Bytes that are not UTF-8.
    Bytes(&'a [u8]),
    /// Omitted.
    None,
}

impl<'a> Value<'a> {
    /// Reads a stored value.
    pub fn read(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Err(_) => Value::Bytes(bytes),
            Ok(text) => match serde_json::from_str::<&RawValue>(text) {
                Ok(json) => match strict::fault(text) {
                    None => Value::Json(json),
                    Some(why) => Value::Text(text, format!("many JSON parsers reject the value: {why}")),
                },
                Err(why) => Value::Text(text, format!("the value is not JSON: {why}")),
            },
        }
    }

    /// Its fault, if there is one.
    pub fn fault(&self) -> Option<Malformed> {
        match self {
            Value::Json(_) | Value::None => None,
            Value::Text("", _) => Some(Malformed::new(Fault::Json, "the value is empty")),
            Value::Text(_, why) => Some(Malformed::new(Fault::Json, why.as_str())),
            Value::Bytes(_) => Some(Malformed::new(Fault::Json, "the value is not JSON: it is not UTF-8")),
        }
    }

    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Value::Json(json) => map.serialize_entry("value", json),
            Value::Text(text, _) => map.serialize_entry("text", text),
            Value::Bytes(bytes) => map.serialize_entry("base64", &BASE64.encode(bytes)),
            Value::None => Ok(()),
        }
    }
}

/// One entry of `needs`, `applied`, `collect` or `registry`.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The bucket that it is in.
    pub bucket: Bucket,
    /// Its key as it is stored.
    pub key: &'a str,
    /// The names in the key.
    pub names: &'a [String],
    /// Its value.
    pub value: Value<'a>,
    /// For `gaps`: which gap it is, and why it waits, in the words of its node.
    pub gap: Option<(&'static str, Option<&'a str>)>,
    /// The sequence of its last write.
    pub revision: u64,
    /// The time of its last write, as the server wrote it.
    pub at: &'a str,
}

impl Entry<'_> {
    /// The entry as JSON.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let stored = match (self.bucket, &self.value) {
            (Bucket::Registry, Value::Json(json)) => Object::parse(json.get().as_bytes()).ok(),
            _ => None,
        };
        if let Some(stored) = stored.filter(|stored| registry::is_entry_of(&self.names[0], stored)) {
            for (field, value) in &stored.0 {
                map.serialize_entry(field, value)?;
            }
        } else {
            if self.bucket != Bucket::Registry {
                map.serialize_entry("key", self.key)?;
            }
            for (field, name) in self.bucket.token_names().iter().zip(self.names) {
                map.serialize_entry(field, name)?;
            }
            self.value.put(&mut map)?;
        }
        if let Some((gap, why)) = self.gap {
            map.serialize_entry("gap", gap)?;
            if let Some(why) = why {
                map.serialize_entry("why", why)?;
            }
        }
        map.serialize_entry("revision", &self.revision)?;
        map.serialize_entry("at", self.at)?;
        map.end()
    }
}

/// A malformed key or value.
#[derive(Debug, Serialize)]
pub struct MalformedEntry<'a> {
    /// The bucket, if the response covers several.
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<&'static str>,
    /// The key as it is stored.
    key: &'a str,
    /// The kind of fault.
    why: Fault,
    /// The fault as text.
    detail: &'a str,
    /// The sequence of its last write, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// The time of its last write, as the server wrote it, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a str>,
}

impl<'a> MalformedEntry<'a> {
    /// Reports that `key` is malformed; `written` is the sequence and the time of its last write, if they could be
    /// read. Several keys that are not UTF-8 may look the same, so their times are omitted.
    pub fn new(key: &'a str, malformed: &'a Malformed, written: Option<(u64, &'a str)>) -> Self {
        let written = written.filter(|_| malformed.why != Fault::Bytes);
        MalformedEntry {
            bucket: None,
            key,
            why: malformed.why,
            detail: &malformed.detail,
            revision: written.map(|(sequence, _)| sequence),
            at: written.map(|(_, at)| at),
        }
    }

    /// The same, with the bucket.
    #[must_use]
    pub const fn of(self, bucket: Bucket) -> Self {
        MalformedEntry { bucket: Some(bucket.suffix()), ..self }
    }

    /// The entry as JSON.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(bucket: Bucket, key: &'a str, names: &'a [String], value: &'a [u8]) -> Entry<'a> {
        Entry {
            bucket,
            key,
            names,
            value: Value::read(value),
            gap: None,
            revision: 41,
            at: "2026-11-29T13:26:00.5Z",
        }
    }

    #[test]
    fn a_value_is_passed_on_digit_for_digit() {
        let names = Bucket::Needs.parse("n1.web.port.http").unwrap();
        for value in [
            "123456789012345678901234567890",
            "1e400",
            "-0",
            "1.0",
            r#"{"b":1,"a":2.50,"b":3}"#,
            r#"["\u0041"]"#,
        ] {
            assert_eq!(
                entry(Bucket::Needs, "n1.web.port.http", &names, value.as_bytes()).to_json(),
                format!(
                    r#"{{"key":"n1.web.port.http","node":"n1","module":"web","kind":"port","name":"http","value":{value},"revision":41,"at":"2026-11-29T13:26:00.5Z"}}"#
                )
            );
        }
    }

    #[test]
    fn a_value_that_is_not_json_is_given_as_text_or_base64_and_said() {
        let names = Bucket::Applied.parse("n1.web").unwrap();
        let given = |value: &[u8]| {
            let entry = entry(Bucket::Applied, "n1.web", &names, value);
            (entry.to_json(), entry.value.fault().map(|fault| (fault.why, fault.detail)))
        };
        let (json, fault) = given(b"plain");
        assert!(json.contains(r#""module":"web","text":"plain","revision""#), "{json}");
        assert_eq!(
            fault,
            Some((Fault::Json, "the value is not JSON: expected value at line 1 column 1".to_owned()))
        );
        let (json, fault) = given(br#"{"node":"\ud800"}"#);
        assert!(json.contains(r#""text":"{\"node\":\"\\ud800\"}","revision""#), "{json}");
        let detail = "many JSON parsers reject the value: it contains an unpaired surrogate";
        assert_eq!(fault, Some((Fault::Json, detail.to_owned())));
        let (json, fault) = given("[".repeat(5_000).as_bytes());
        assert!(json.contains(r#""text":"[[["#) && fault.is_some(), "{json}");
        let (json, fault) = given(format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)).as_bytes());
        assert!(json.contains(r#""text":"[[["#) && fault.is_some(), "{json}");
        let (json, fault) = given(b"\xff\xfe");
        assert!(json.contains(r#""module":"web","base64":"//4=","revision""#), "{json}");
        assert_eq!(fault, Some((Fault::Json, "the value is not JSON: it is not UTF-8".to_owned())));
        let (json, fault) = given(b"");
        assert!(json.contains(r#""text":"""#), "{json}");
        assert_eq!(fault, Some((Fault::Json, "the value is empty".to_owned())));
    }

    #[test]
    fn a_registry_entry_gives_its_stored_fields_and_a_stranger_its_value() {
        let names = vec!["secret".to_owned()];
        let ours =
            br#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.secret"}"#;
        assert_eq!(
            entry(Bucket::Registry, "secret", &names, ours).to_json(),
            r#"{"kind":"secret","domain":"secrets","module":"mesh-vault","verb":"mesh-vault.secret","revision":41,"at":"2026-11-29T13:26:00.5Z"}"#
        );
        assert_eq!(
            entry(Bucket::Registry, "secret", &names, b"[1]").to_json(),
            r#"{"kind":"secret","value":[1],"revision":41,"at":"2026-11-29T13:26:00.5Z"}"#
        );
    }
}
