//! The request body of the verb, parsed strictly: an unknown, repeated, mistyped or misplaced field is an error that
//! names it, because a response that ignores a filter is a response to another request.

use super::reason::Reason;
use mesh_jetstream::message::MAX_LINE_BYTES;
use mesh_model::name;
use mesh_model::object::{FieldError, Object};
use serde_json::value::RawValue;
use std::fmt;

/// The largest request body, in bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// The largest `limit`.
pub const MAX_LIMIT: usize = 10_000;

/// The longest `after`, in bytes: no subject is longer than a line, and a byte that is not UTF-8 is shown as three.
const MAX_AFTER_BYTES: usize = 3 * MAX_LINE_BYTES;

/// The largest `stale_after`, in seconds: a hundred years.
pub const MAX_STALE_AFTER: u64 = 100 * 366 * 24 * 3600;

/// The fields of a request.
const FIELDS: [&str; 8] = ["what", "node", "module", "kind", "collection", "limit", "after", "stale_after"];

/// The query type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// The stored registry.
    Registry,
    /// What each module needs.
    Needs,
    /// What each node has applied.
    Applied,
    /// What is in every collection.
    Collect,
    /// The needs whose kind has no registry entry.
    Gaps,
    /// What is applied, compared with what is needed.
    Drift,
    /// How many keys each node has, and when it last wrote.
    Nodes,
    /// Who contributes to each collection, and who reads it.
    Collections,
    /// The state of the seat.
    Health,
}

impl What {
    /// All of them, in the order in which PROTOCOL.md lists them.
    pub const ALL: [What; 9] = [
        What::Registry,
        What::Needs,
        What::Applied,
        What::Collect,
        What::Gaps,
        What::Drift,
        What::Nodes,
        What::Collections,
        What::Health,
    ];

    /// Its word in requests and responses.
    pub const fn word(self) -> &'static str {
        match self {
            What::Registry => "registry",
            What::Needs => "needs",
            What::Applied => "applied",
            What::Collect => "collect",
            What::Gaps => "gaps",
            What::Drift => "drift",
            What::Nodes => "nodes",
            What::Collections => "collections",
            What::Health => "health",
        }
    }

    /// The query type of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        What::ALL.into_iter().find(|what| what.word() == word)
    }

    /// The fields that filter or page it.
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            What::Registry => &["kind", "limit", "after"],
            What::Needs => &["node", "module", "kind", "limit", "after"],
            What::Collect => &["node", "module", "collection", "limit", "after"],
            What::Applied | What::Gaps | What::Drift | What::Collections => {
                &["node", "module", "limit", "after"]
            }
            What::Nodes => &["node", "module", "stale_after", "limit", "after"],
            What::Health => &[],
        }
    }
}

/// A parsed request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The query type.
    pub what: What,
    /// Only this node.
    pub node: Option<String>,
    /// Only this module; for collections, the contributor.
    pub module: Option<String>,
    /// Only this kind.
    pub kind: Option<String>,
    /// Only this collection.
    pub collection: Option<String>,
    /// Continue after this place.
    pub after: Option<String>,
    /// The maximum number of entries.
    pub limit: Option<usize>,
    /// Seconds without a write after which a node counts as stale.
    pub stale_after: Option<u64>,
}

impl Ask {
    /// The query `what` without filters.
    pub const fn new(what: What) -> Self {
        Ask {
            what,
            node: None,
            module: None,
            kind: None,
            collection: None,
            after: None,
            limit: None,
            stale_after: None,
        }
    }

    /// What has to be read and counted for it. Surveys that differ only in which rows they show are the same work.
    #[must_use]
    pub fn work(&self) -> Self {
        match self.what {
            What::Drift | What::Nodes | What::Collections => Ask { limit: None, after: None, ..self.clone() },
            _ => self.clone(),
        }
    }

    /// Whether it reads several whole buckets.
    pub const fn is_of_the_whole_mesh(&self) -> bool {
        matches!(self.what, What::Drift | What::Nodes | What::Collections) && self.node.is_none()
    }

    /// Parses a request body. The error is one sentence for the client.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        if body.len() > MAX_BODY_BYTES {
            return Err(BadRequest {
                reason: Reason::TooLarge,
                message: format!("the request has {} bytes, the maximum is {MAX_BODY_BYTES}", body.len()),
            });
        }
        if body.is_empty() {
            return Ok(Ask::new(What::Registry));
        }
        let object = Object::parse_known(body, &FIELDS).map_err(|error| match error {
            FieldError::Json(why) => {
                bad(format!("the request is not one JSON object, and it is not empty: {why}"))
            }
            FieldError::Unknown(field) => {
                bad(format!("the field {field:?} is unknown; known are {}", FIELDS.join(", ")))
            }
            FieldError::Repeated(field) => bad(format!("the field {field:?} occurs twice")),
        })?;
        let what = match object.0.iter().find(|(field, _)| field == "what") {
            None => What::Registry,
            Some((_, value)) => {
                let word = string("what", value)?;
                What::from_word(&word).ok_or_else(|| {
                    let known = What::ALL.map(What::word).join(", ");
                    bad(format!("the field \"what\" is {word:?}; it can be one of {known}"))
                })?
            }
        };
        let mut ask = Ask::new(what);
        for (field, value) in &object.0 {
            ask.set(field, value)?;
        }
        Ok(ask)
    }

    fn set(&mut self, field: &str, value: &RawValue) -> Result<(), BadRequest> {
        if field == "what" {
            return Ok(());
        }
        if !self.what.fields().contains(&field) {
            let takes = match self.what.fields() {
                [] => "no other field".to_owned(),
                fields => fields.join(", "),
            };
            return Err(bad(format!(
                "{:?} does not take the field {field:?}; it takes {takes}",
                self.what.word()
            )));
        }
        match field {
            "node" => self.node = Some(filter(field, value)?),
            "module" => self.module = Some(filter(field, value)?),
            "kind" => self.kind = Some(filter(field, value)?),
            "collection" => self.collection = Some(filter(field, value)?),
            "limit" => {
                let limit = whole_number(field, value, 1, MAX_LIMIT as u64)?;
                self.limit = Some(usize::try_from(limit).unwrap_or(MAX_LIMIT));
            }
            "stale_after" => self.stale_after = Some(whole_number(field, value, 0, MAX_STALE_AFTER)?),
            _ => {
                let after = string(field, value)?;
                if after.len() > MAX_AFTER_BYTES {
                    return Err(bad(
                        "the field \"after\" is longer than any place; give the \"next\" of the previous response",
                    ));
                }
                self.after = Some(after);
            }
        }
        Ok(())
    }

    /// The request body.
    pub fn to_json(&self) -> String {
        let mut object = serde_json::Map::new();
        object.insert("what".to_owned(), self.what.word().into());
        let texts = [
            ("node", &self.node),
            ("module", &self.module),
            ("kind", &self.kind),
            ("collection", &self.collection),
            ("after", &self.after),
        ];
        for (field, value) in texts {
            if let Some(value) = value {
                object.insert(field.to_owned(), value.as_str().into());
            }
        }
        if let Some(limit) = self.limit {
            object.insert("limit".to_owned(), limit.into());
        }
        if let Some(seconds) = self.stale_after {
            object.insert("stale_after".to_owned(), seconds.into());
        }
        serde_json::Value::Object(object).to_string()
    }
}

/// Why a request is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRequest {
    /// `BadRequest`, or `TooLarge` for the body.
    pub reason: Reason,
    /// What is wrong, naming the field.
    pub message: String,
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

fn bad(message: impl Into<String>) -> BadRequest {
    BadRequest { reason: Reason::BadRequest, message: message.into() }
}

fn string(field: &str, value: &RawValue) -> Result<String, BadRequest> {
    serde_json::from_str(value.get()).map_err(|_| bad(format!("the field {field:?} must be a string")))
}

fn filter(field: &str, value: &RawValue) -> Result<String, BadRequest> {
    let text = string(field, value)?;
    name::check(&text).map_err(|why| bad(format!("the field {field:?} {why}; it must be a name")))?;
    Ok(text)
}

fn whole_number(field: &str, value: &RawValue, least: u64, most: u64) -> Result<u64, BadRequest> {
    let number: Option<u64> = serde_json::from_str(value.get()).ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| bad(format!("the field {field:?} must be a whole number from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> String {
        let refused = Ask::parse(body.as_bytes()).unwrap_err();
        assert_eq!(refused.reason, Reason::BadRequest, "{body}");
        refused.message
    }

    #[test]
    fn an_empty_body_asks_for_the_registry() {
        assert_eq!(Ask::parse(b""), Ok(Ask::new(What::Registry)));
        assert_eq!(Ask::parse(b" {} "), Ok(Ask::new(What::Registry)));
    }

    #[test]
    fn filters_are_names_not_patterns() {
        for name in ["*", ">", "a.b", "n1.", "n*", "${x}"] {
            let ask = Ask::parse(format!(r#"{{"what":"needs","node":{name:?}}}"#).as_bytes()).unwrap();
            assert_eq!(ask.node.as_deref(), Some(name));
        }
        assert_eq!(
            refused(r#"{"what":"needs","node":""}"#),
            "the field \"node\" is empty; it must be a name"
        );
        for escape in [r"a\r\nPUB x 0\r\n", r"a\tb", r"\u0000", r"a\u2028b"] {
            assert!(
                refused(&format!(r#"{{"what":"needs","module":"{escape}"}}"#))
                    .contains("\"module\" contains the control character")
            );
        }
    }

    #[test]
    fn every_fault_names_its_field() {
        for (body, message) in [
            (r#"{"what":"needs","node":"a","node":"a"}"#, "the field \"node\" occurs twice"),
            (
                r#"{"what":"needs","nodes":"a"}"#,
                "the field \"nodes\" is unknown; known are what, node, module, kind, collection, limit, after, stale_after",
            ),
            (
                r#"{"what":"registry","node":"a"}"#,
                "\"registry\" does not take the field \"node\"; it takes kind, limit, after",
            ),
            (r#"{"node":"a"}"#, "\"registry\" does not take the field \"node\"; it takes kind, limit, after"),
            (
                r#"{"what":"health","limit":1}"#,
                "\"health\" does not take the field \"limit\"; it takes no other field",
            ),
            (r#"{"what":"needs","node":1}"#, "the field \"node\" must be a string"),
            (r#"{"what":"needs","node":null}"#, "the field \"node\" must be a string"),
            (r#"{"what":null}"#, "the field \"what\" must be a string"),
            (
                r#"{"what":"need"}"#,
                "the field \"what\" is \"need\"; it can be one of registry, needs, applied, collect, gaps, drift, nodes, collections, health",
            ),
        ] {
            assert_eq!(refused(body), message);
        }
        for limit in ["0", "10001", "1.5", "\"5\"", "-1", "1e2"] {
            assert_eq!(
                refused(&format!(r#"{{"limit":{limit}}}"#)),
                "the field \"limit\" must be a whole number from 1 to 10000"
            );
        }
        for body in ["[]", "1", "null", "{", "{}{}", " ", "\u{0}"] {
            assert!(refused(body).starts_with("the request is not one JSON object"), "{body}");
        }
    }

    #[test]
    fn a_body_over_the_bound_is_too_large() {
        let body = vec![b' '; MAX_BODY_BYTES + 1];
        assert_eq!(Ask::parse(&body).unwrap_err().reason, Reason::TooLarge);
    }

    #[test]
    fn a_request_reads_back_as_it_was_written() {
        let ask = Ask {
            node: Some("a.b".to_owned()),
            kind: Some("\"".to_owned()),
            limit: Some(3),
            after: Some("x.y".to_owned()),
            ..Ask::new(What::Needs)
        };
        assert_eq!(Ask::parse(ask.to_json().as_bytes()), Ok(ask));
    }
}
