//! The response body of the verb. Entries are rendered one by one, so that a page ends before it exceeds a message.

use super::reason::Reason;
use super::request::What;
use super::strict;
use data_encoding::BASE64;
use mesh_model::bucket::{Bucket, Fault, Malformed};
use mesh_model::object::Object;
use mesh_model::registry;
use mesh_service::errors;
use mesh_service::identity::Identity;
use mesh_service::json::json;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How many malformed keys a page lists. It ends before it would list more, as it does for entries.
pub const MAX_MALFORMED_LISTED: usize = 100;

/// The size of everything in a response except its entries: field names, numbers, the seat's id. A generous upper
/// bound.
const ENVELOPE_BYTES: usize = 2 * 1024;

/// The state of a bucket that a response shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AsOf {
    /// The sequence of the bucket's last write; 0 if there was none.
    pub sequence: u64,
    /// The time of that write, as the server wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

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
    /// read. Of keys that are not UTF-8 several may look the same, so nothing is said of when one was written.
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

/// A page of a response while it is filled, in the order of the keys.
#[derive(Debug)]
pub struct Page {
    budget: usize,
    limit: usize,
    used: usize,
    entries: Vec<String>,
    malformed: Vec<String>,
    malformed_total: usize,
    last_place: Option<String>,
    more: bool,
}

impl Page {
    /// An empty page of at most `limit` entries and `budget` bytes in all.
    pub fn new(limit: usize, budget: usize) -> Self {
        Page {
            budget,
            limit,
            used: ENVELOPE_BYTES,
            entries: Vec::new(),
            malformed: Vec::new(),
            malformed_total: 0,
            last_place: None,
            more: false,
        }
    }

    /// Whether an item of these rendered sizes fits an empty page.
    pub fn could_hold(&self, place: &str, bytes: usize) -> bool {
        ENVELOPE_BYTES + bytes + json_size(place) <= self.budget
    }

    /// Adds what is at `place`: an entry, malformed keys, or both. `false` means that the page is full and the item
    /// belongs to the next one. An item always fits an empty page.
    #[must_use]
    pub fn add(&mut self, place: &str, entry: Option<String>, complaints: Vec<String>) -> bool {
        let listed = complaints.len().min(MAX_MALFORMED_LISTED - self.malformed.len());
        let cost: usize = entry.iter().chain(&complaints[..listed]).map(|text| text.len() + 1).sum();
        let full = self.used + cost + json_size(place) > self.budget
            || (entry.is_some() && self.entries.len() >= self.limit)
            || listed < complaints.len();
        if full && !self.is_empty() && self.end_before(place) {
            return false;
        }
        // Endless keys that look alike would exceed the page: those that do not fit are only counted.
        let (listed, cost) = if full && self.ends_with(place) { (0, 0) } else { (listed, cost) };
        self.used += cost;
        self.entries.extend(entry);
        self.malformed_total += complaints.len();
        self.malformed.extend(complaints.into_iter().take(listed));
        self.pass(place);
        true
    }

    /// Counts malformed keys at the last place that are not listed because they look alike.
    pub const fn count_unlisted(&mut self, malformed: usize) {
        self.malformed_total += malformed;
    }

    /// Records that everything up to `place` was read.
    pub fn pass(&mut self, place: &str) {
        self.last_place = Some(place.to_owned());
    }

    /// Ends the page behind `place`: there may be more.
    pub fn go_on_behind(&mut self, place: &str) {
        self.pass(place);
        self.more = true;
    }

    /// Ends the page before `place`; `false` if it cannot end there, because it has no place yet or its last place
    /// looks the same.
    #[must_use]
    pub fn end_before(&mut self, place: &str) -> bool {
        let may_end = self.last_place.is_some() && !self.ends_with(place);
        self.more |= may_end;
        may_end
    }

    /// Whether `place` looks like the last one. Two keys can look alike if their bytes are shown as U+FFFD. A page
    /// never ends between them, because the next one starts after both.
    fn ends_with(&self, place: &str) -> bool {
        self.last_place.as_deref() == Some(place)
    }

    /// Whether it has no entry and no malformed key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.malformed.is_empty()
    }

    /// Whether it has a malformed key or value.
    pub const fn has_malformed(&self) -> bool {
        self.malformed_total > 0
    }

    /// Whether there is more after the last place.
    pub const fn leaves_rest(&self) -> bool {
        self.more
    }

    /// Whether it has no entry.
    pub fn has_no_entries(&self) -> bool {
        self.entries.is_empty()
    }

    /// The response. `as_of` is JSON, because some queries cover several buckets.
    pub fn to_json(&self, what: What, ok: Option<bool>, as_of: &str, seat: &Identity) -> String {
        let word = what.word();
        let ok = ok.map_or_else(String::new, |ok| format!(r#","ok":{ok}"#));
        let next = match &self.last_place {
            Some(place) if self.more => format!(r#","next":{}"#, json(place)),
            _ => String::new(),
        };
        [
            &format!(r#"{{"type":"{}","what":"{word}"{ok},"entries":["#, response_type(word)),
            self.entries.join(",").as_str(),
            r#"],"malformed":["#,
            self.malformed.join(",").as_str(),
            &format!(
                r#"],"malformed_total":{}{next},"as_of":{as_of},"seat":{}}}"#,
                self.malformed_total,
                json(seat)
            ),
        ]
        .concat()
    }
}

/// A response as a client reads it.
#[derive(Debug, Deserialize)]
pub struct Received<'a> {
    /// Whether all is well, for the queries that report it.
    #[serde(default)]
    pub ok: Option<bool>,
    /// The entries, with their values as written.
    #[serde(borrow, default)]
    pub entries: Vec<Object<'a>>,
    /// The malformed keys and values.
    #[serde(borrow, default)]
    pub malformed: Vec<Object<'a>>,
    /// Their number.
    #[serde(default)]
    pub malformed_total: usize,
    /// The place where the next page continues.
    #[serde(default)]
    pub next: Option<String>,
    /// The state of the seat, for `health`.
    #[serde(borrow, default)]
    pub health: Option<Object<'a>>,
}

/// The type of a response.
pub fn response_type(word: &str) -> String {
    format!("io.mesh.provisioner.v1.{word}_response")
}

/// The body of an error response.
pub fn error_json(reason: Reason, message: &str) -> String {
    errors::body(&response_type("error"), reason.code(), reason.word(), message)
}

/// The response to `health`, with its report as JSON.
pub fn health_json(ok: bool, report: &str, seat: &Identity) -> String {
    let r#type = response_type(What::Health.word());
    format!(r#"{{"type":"{type}","what":"health","ok":{ok},"health":{report},"seat":{}}}"#, json(seat))
}

/// The size of `text` as a JSON string, in bytes.
fn json_size(text: &str) -> usize {
    json(text).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(bucket: Bucket, key: &'a str, names: &'a [String], value: &'a [u8]) -> Entry<'a> {
        Entry { bucket, key, names, value: Value::read(value), revision: 41, at: "2026-11-29T13:26:00.5Z" }
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

    #[test]
    fn a_page_ends_at_its_limit_and_says_where_to_go_on() {
        let seat = Identity { id: "i".to_owned(), version: "0.1.0".to_owned() };
        let mut page = Page::new(2, 64 * 1024);
        assert!(page.add("a", Some("1".to_owned()), vec![]));
        assert!(page.add("b", None, vec!["{}".to_owned()]));
        assert!(page.add("c", Some("2".to_owned()), vec![]));
        assert!(!page.add("d", Some("3".to_owned()), vec![]));
        let as_of = json(&AsOf { sequence: 7, at: None });
        assert_eq!(
            page.to_json(What::Needs, None, &as_of, &seat),
            r#"{"type":"io.mesh.provisioner.v1.needs_response","what":"needs","entries":[1,2],"malformed":[{}],"malformed_total":1,"next":"c","as_of":{"sequence":7},"seat":{"id":"i","version":"0.1.0"}}"#
        );
    }

    #[test]
    fn a_page_ends_before_it_outgrows_its_budget_but_always_gets_on() {
        let mut page = Page::new(100, ENVELOPE_BYTES + 100);
        assert!(page.add("a", Some("x".repeat(200)), vec![]), "an item always fits an empty page");
        assert!(!page.add("b", Some("y".to_owned()), vec![]));
        let mut page = Page::new(100, ENVELOPE_BYTES + 100);
        assert!(page.add("a", Some("x".repeat(50)), vec![]));
        assert!(page.add("b", Some("x".repeat(40)), vec![]));
        assert!(!page.add("c", Some("x".repeat(10)), vec![]));
    }

    #[test]
    fn a_page_ends_before_it_would_list_more_complaints_than_it_may() {
        let seat = Identity { id: "i".to_owned(), version: "0.1.0".to_owned() };
        let mut page = Page::new(1, 64 * 1024);
        for at in 0..99 {
            assert!(page.add(&format!("{at:03}"), None, vec!["0".to_owned()]));
        }
        assert!(page.add("x", Some("1".to_owned()), vec!["0".to_owned()]));
        assert!(!page.add("y", None, vec!["2".to_owned()]), "there is no room to list it");
        assert!(page.add("x", Some("3".to_owned()), vec!["4".to_owned()]), "the same place again");
        page.count_unlisted(2);
        let body = page.to_json(What::Needs, Some(false), "{}", &seat);
        assert!(body.contains(r#""ok":false,"entries":[1,3]"#), "{body}");
        assert!(body.contains(r#""malformed_total":103,"next":"x""#), "{body}");
        assert_eq!(body.matches("0,").count(), 99, "100 listed: {body}");
    }
}
