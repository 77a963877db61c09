//! Listing the keys of a bucket, page by page.
//!
//! Calls have only fields that all supported servers know, because newer servers reject unknown ones.

use crate::api::{ApiError, ErrorBody, STREAM_INFO};
use crate::bucket::Kv;
use crate::config::Config;
use crate::message::{Headers, Request};
use crate::named::Named;
use crate::stream_info::State;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Requests the keys of `bucket`, from the `offset`th on; with `node` only those under that token.
pub fn list(bucket: Kv<'_>, node: Option<&str>, offset: usize) -> Request {
    #[derive(Serialize)]
    struct Body {
        subjects_filter: String,
        offset: usize,
    }
    let prefix = bucket.subject_prefix();
    let subjects_filter = node.map_or_else(|| format!("{prefix}>"), |node| format!("{prefix}{node}.>"));
    Request {
        subject: format!("{STREAM_INFO}{}", bucket.stream()),
        headers: Headers::new(),
        body: serde_json::to_vec(&Body { subjects_filter, offset }).expect("a filter is text"),
    }
}

/// One page of a bucket's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPage {
    /// The keys, in the server's order. Bytes that are not UTF-8 have become U+FFFD, so two keys may look the same.
    pub keys: Vec<String>,
    /// How many keys match in all.
    pub total: usize,
    /// How many subjects the stream holds, keys or not, if the reply has it.
    pub subjects: Option<usize>,
    /// The mean size of a message of the bucket, in bytes; 0 if unknown.
    pub mean_bytes: usize,
    /// The sequence of the bucket's last write.
    pub last_sequence: u64,
    /// The time of the bucket's last write, as the server wrote it; `None` without a write.
    pub last_at: Option<String>,
    /// The state to compare with later; `None` if the reply has too little for it.
    pub state: Option<State>,
}

/// Parses the reply to [`list`].
pub fn parse(bucket: Kv<'_>, body: &[u8]) -> Result<KeyPage, ApiError> {
    #[derive(Deserialize)]
    struct Body<'a> {
        error: Option<Named<ErrorBody>>,
        #[serde(default)]
        total: usize,
        created: Option<String>,
        config: Option<Named<Config>>,
        #[serde(borrow)]
        state: Option<Named<Stored<'a>>>,
    }
    #[derive(Deserialize)]
    struct Stored<'a> {
        messages: Option<u64>,
        num_subjects: Option<usize>,
        first_seq: Option<u64>,
        first_ts: Option<String>,
        last_seq: u64,
        #[serde(default)]
        bytes: u64,
        #[serde(default)]
        last_ts: Option<String>,
        #[serde(default)]
        #[serde(borrow)]
        subjects: Subjects<'a>,
    }
    let Named(body): Named<Body<'_>> =
        serde_json::from_slice(body).map_err(|why| ApiError::Unreadable(why.to_string()))?;
    if let Some(Named(error)) = body.error {
        return Err(error.into());
    }
    let Named(state) =
        body.state.ok_or_else(|| ApiError::Unreadable("a stream's state is missing".to_owned()))?;
    if let Some(fault) = body.config.and_then(|Named(config)| config.fault(bucket)) {
        return Err(ApiError::NotABucket(fault));
    }
    let prefix = bucket.subject_prefix();
    let keys =
        state.subjects.0.iter().filter_map(|subject| subject.0.strip_prefix(&prefix).map(str::to_owned));
    let mean_bytes = state.messages.and_then(|messages| state.bytes.checked_div(messages)).unwrap_or(0);
    let last_at = state.last_ts.clone().filter(|_| state.last_seq > 0);
    let standing = || {
        Some(State {
            created: body.created?,
            messages: state.messages?,
            first_sequence: state.first_seq?,
            first_at: state.first_ts?,
            last_sequence: state.last_seq,
            last_at: state.last_ts?,
        })
    };
    let standing = standing();
    Ok(KeyPage {
        keys: keys.collect(),
        total: body.total,
        mean_bytes: usize::try_from(mean_bytes).unwrap_or(usize::MAX),
        last_sequence: state.last_seq,
        last_at,
        subjects: state.num_subjects,
        state: standing,
    })
}

/// The field names of a JSON object in order, with repetitions: names with bytes that are not UTF-8 may look alike.
#[derive(Default)]
struct Subjects<'a>(Vec<Subject<'a>>);

/// A subject, borrowed from the reply: of 100 000 subjects only the keys are copied.
#[derive(Deserialize)]
struct Subject<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Subjects<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Names<'a> {
            type Value = Subjects<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("subjects with their counts")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Subjects::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry()? {
                    names.push(name);
                }
                Ok(Subjects(names))
            }
        }
        deserializer.deserialize_any(Names(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_asked_for_as_both_server_lines_take_it() {
        let request = list(Kv::new("orders"), Some("n1"), 0);
        assert_eq!(request.subject, "$JS.API.STREAM.INFO.KV_orders");
        assert_eq!(request.body, br#"{"subjects_filter":"$KV.orders.n1.>","offset":0}"#);
    }

    #[test]
    fn keys_keep_their_order_and_their_look_alikes() {
        let body = r#"{"type":"x","total":3,"offset":0,"limit":100000,"config":{"name":"KV_orders","subjects":["$KV.orders.>"]},
            "state":{"messages":3,"last_seq":9,"last_ts":"2026-11-29T13:26:00.5Z",
            "subjects":{"$KV.orders.a\ufffd.x":1,"$KV.orders.a\ufffd.x":1,"$KV.orders.b":2}}}"#;
        let page = parse(Kv::new("orders"), body.as_bytes()).unwrap();
        assert_eq!(page.keys, ["a\u{fffd}.x", "a\u{fffd}.x", "b"]);
        assert_eq!((page.total, page.last_sequence), (3, 9));
        assert_eq!(page.last_at.as_deref(), Some("2026-11-29T13:26:00.5Z"));
    }

    #[test]
    fn an_empty_bucket_has_no_last_write() {
        let body = br#"{"total":0,"state":{"last_seq":0,"last_ts":"0001-01-01T00:00:00Z"}}"#;
        let page = parse(Kv::new("orders"), body).unwrap();
        assert_eq!(
            page,
            KeyPage {
                keys: vec![],
                total: 0,
                subjects: None,
                mean_bytes: 0,
                last_sequence: 0,
                last_at: None,
                state: None
            }
        );
    }

    #[test]
    fn a_bucket_that_changed_in_any_way_has_another_state() {
        let state = |created: u32, messages: u32, sequence: u32, second: u32| {
            let body = format!(
                r#"{{"created":"{created}","state":{{"messages":{messages},"first_seq":1,"first_ts":"t","last_seq":{sequence},"last_ts":"{second}"}}}}"#
            );
            parse(Kv::new("orders"), body.as_bytes()).unwrap().state
        };
        let known = state(1, 13, 20, 7);
        assert!(known.is_some());
        assert_eq!(known, state(1, 13, 20, 7));
        for (changed, how) in [
            (state(2, 13, 20, 7), "made again"),
            (state(1, 12, 20, 7), "a key expired or was purged"),
            (state(1, 13, 21, 7), "a key was written"),
            (state(1, 13, 20, 8), "restored, and written since"),
        ] {
            assert_ne!(known, changed, "{how}");
        }
    }

    #[test]
    fn an_array_is_never_read_as_a_list_of_keys() {
        assert!(parse(Kv::new("orders"), b"[null,0,[0]]").is_err());
        assert!(parse(Kv::new("orders"), br#"{"total":0,"state":[0]}"#).is_err());
    }

    #[test]
    fn errors_are_known_by_their_number() {
        let body = br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        let error = parse(Kv::new("orders"), body).unwrap_err();
        assert_eq!(error.err_code(), Some(ApiError::NO_STREAM));
        assert_eq!(error.to_string(), "stream not found (10059)");
        assert!(matches!(parse(Kv::new("orders"), b"{}"), Err(ApiError::Unreadable(_))));
    }
}
