//! Reading and writing one key of a bucket.
//!
//! Single keys are read through the JSON API, where headers and data are base64-encoded: no stored bytes can break
//! the connection that reads them.

use crate::api::{ApiError, ErrorBody, MESSAGE_GET};
use crate::bucket::Kv;
use crate::headers::{self, StoredHeaders};
use crate::message::{Headers, Request};
use crate::named::Named;
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

/// Requests the newest message of `key`.
pub fn get(bucket: Kv<'_>, key: &str) -> Request {
    #[derive(Serialize)]
    struct Body {
        last_by_subj: String,
    }
    let last_by_subj = bucket.subject(key);
    Request {
        subject: format!("{MESSAGE_GET}{}", bucket.stream()),
        headers: Headers::new(),
        body: serde_json::to_vec(&Body { last_by_subj }).expect("a key is text"),
    }
}

/// Asks for the first message from the sequence `from` on.
pub fn next(bucket: Kv<'_>, from: u64) -> Request {
    next_of(bucket, ">", from)
}

/// The same among the keys that match `keys`, such as `attic.>`.
pub fn next_of(bucket: Kv<'_>, keys: &str, from: u64) -> Request {
    #[derive(Serialize)]
    struct Body {
        seq: u64,
        next_by_subj: String,
    }
    let body = Body { seq: from, next_by_subj: format!("{}{keys}", bucket.subject_prefix()) };
    Request {
        subject: format!("{MESSAGE_GET}{}", bucket.stream()),
        headers: Headers::new(),
        body: serde_json::to_vec(&body).expect("a subject is text"),
    }
}

/// Writes `value` under `key` if the newest message of the key still has the sequence `expected` (0: there is none).
pub fn put(bucket: Kv<'_>, key: &str, value: &str, expected: u64) -> Request {
    Request {
        subject: bucket.subject(key),
        headers: expecting(bucket, expected),
        body: value.as_bytes().to_vec(),
    }
}

/// Writes `value` under `key`, whatever is there: for a key that nobody else writes, and whose writer may not read it.
pub fn overwrite(bucket: Kv<'_>, key: &str, value: &str) -> Request {
    Request {
        subject: bucket.subject(key),
        headers: vec![("Nats-Expected-Stream", bucket.stream())],
        body: value.as_bytes().to_vec(),
    }
}

/// Marks `key` as deleted under the same condition as [`put`].
pub fn delete(bucket: Kv<'_>, key: &str, expected: u64) -> Request {
    let mut sent = expecting(bucket, expected);
    sent.push((headers::OPERATION, "DEL".to_owned()));
    Request { subject: bucket.subject(key), headers: sent, body: Vec::new() }
}

/// The longest line that every server takes, in bytes: one that takes shorter ones could hardly be used.
const SHORT_LINE_BYTES: usize = 1024;

/// Whether [`put`] and [`delete`] fit into the protocol line that sends them, together with the reply subject. A
/// client that sends without a reply subject can write longer keys.
pub const fn can_be_written(key: &str) -> bool {
    const BESIDE_THE_KEY: usize = 256;
    key.len() + BESIDE_THE_KEY <= SHORT_LINE_BYTES
}

fn expecting(bucket: Kv<'_>, sequence: u64) -> Headers {
    vec![
        ("Nats-Expected-Stream", bucket.stream()),
        ("Nats-Expected-Last-Subject-Sequence", sequence.to_string()),
    ]
}

/// The newest message of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The subject it was written to: the server may have matched another one than requested.
    pub subject: String,
    /// Its sequence: the key's revision.
    pub sequence: u64,
    /// When it was stored, as the server wrote it.
    pub at: String,
    /// Whether it marks the key as deleted.
    pub deleted: bool,
    /// What is wrong with its headers.
    pub header_fault: Option<String>,
    /// The value.
    pub value: Vec<u8>,
}

impl Message {
    /// The sequence and the time of the write.
    pub const fn written(&self) -> (u64, &str) {
        (self.sequence, self.at.as_str())
    }
}

/// Parses the reply to [`get`]: `None` if the key has no message.
pub fn parse_message(body: &[u8]) -> Result<Option<Message>, ApiError> {
    #[derive(Deserialize)]
    struct Body {
        error: Option<Named<ErrorBody>>,
        message: Option<Named<Stored>>,
    }
    #[derive(Deserialize)]
    struct Stored {
        subject: String,
        seq: u64,
        #[serde(default)]
        hdrs: String,
        #[serde(default)]
        data: String,
        time: String,
    }
    let unreadable = |why: String| ApiError::Unreadable(why);
    let Named(body): Named<Body> = serde_json::from_slice(body).map_err(|why| unreadable(why.to_string()))?;
    if let Some(Named(error)) = body.error {
        let error = ApiError::from(error);
        return if error.err_code() == Some(ApiError::NO_MESSAGE) { Ok(None) } else { Err(error) };
    }
    let Named(stored) = body.message.ok_or_else(|| unreadable("the message is missing".to_owned()))?;
    let base64 = |text: &str| BASE64.decode(text.as_bytes()).map_err(|why| unreadable(why.to_string()));
    let headers = StoredHeaders::read(&base64(&stored.hdrs)?);
    Ok(Some(Message {
        subject: stored.subject,
        sequence: stored.seq,
        at: stored.time,
        deleted: headers.say_deleted(),
        header_fault: headers.fault.map(str::to_owned),
        value: base64(&stored.data)?,
    }))
}

/// The outcome of a write, as far as its reply tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteAnswer {
    /// It was stored with this sequence.
    Stored(u64),
    /// Another client has written the key since it was read.
    Conflict,
    /// It was not stored.
    Refused(ApiError),
    /// The reply does not tell.
    Unknown(String),
}

/// Parses the acknowledgement of a [`put`] or [`delete`] in `bucket`. Other clients can direct acknowledgements of
/// their own writes to this inbox, so only one that names this bucket's stream counts.
pub fn parse_write(bucket: Kv<'_>, body: &[u8]) -> WriteAnswer {
    #[derive(Deserialize)]
    struct Body {
        error: Option<Named<ErrorBody>>,
        #[serde(default)]
        stream: String,
        #[serde(default)]
        seq: u64,
    }
    match serde_json::from_slice(body).map(|Named(body)| body) {
        Err(why) => WriteAnswer::Unknown(format!("unreadable reply: {why}")),
        Ok(Body { error: Some(Named(error)), .. }) => {
            let error = ApiError::from(error);
            match error.err_code() {
                Some(code) if ApiError::WRONG_SEQUENCE.contains(&code) => WriteAnswer::Conflict,
                _ => WriteAnswer::Refused(error),
            }
        }
        Ok(Body { seq: 0, .. }) => WriteAnswer::Unknown("the reply has no sequence".to_owned()),
        Ok(Body { stream, .. }) if stream != bucket.stream() => WriteAnswer::Unknown(format!(
            "the acknowledgement names the stream {stream:?} in place of {}",
            bucket.stream()
        )),
        Ok(Body { seq, .. }) => WriteAnswer::Stored(seq),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spelled_as_both_server_lines_take_them() {
        let request = get(Kv::new("orders"), "n1.web");
        assert_eq!(request.subject, "$JS.API.STREAM.MSG.GET.KV_orders");
        assert_eq!(request.body, br#"{"last_by_subj":"$KV.orders.n1.web"}"#);
        let request = delete(Kv::new("orders"), "odd", 7);
        assert_eq!(request.subject, "$KV.orders.odd");
        assert_eq!(
            request.headers,
            [
                ("Nats-Expected-Stream", "KV_orders".to_owned()),
                ("Nats-Expected-Last-Subject-Sequence", "7".to_owned()),
                ("KV-Operation", "DEL".to_owned())
            ]
        );
    }

    #[test]
    fn an_array_is_never_read_as_a_message() {
        assert!(parse_message(br#"{"message":["$KV.b.k",4,"","MQ==","t"]}"#).is_err());
        assert!(parse_message(br#"{"error":[404,10037]}"#).is_err());
    }

    #[test]
    fn a_key_without_a_message_is_no_error() {
        let body = br#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#;
        assert_eq!(parse_message(body), Ok(None));
    }

    fn message(headers: &[u8]) -> Message {
        let body = format!(
            r#"{{"message":{{"subject":"$KV.b.k","seq":4,"hdrs":"{}","data":"eyJhIjoxfQ==","time":"2026-11-29T13:26:00Z"}}}}"#,
            BASE64.encode(headers)
        );
        parse_message(body.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn a_message_is_deleted_by_its_operation_or_marker() {
        for (headers, deleted) in [
            (&b""[..], false),
            (b"NATS/1.0\r\nKV-Operation: PUT\r\n\r\n", false),
            (b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n", true),
            (b"NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n\r\n", true),
            (b"NATS/1.0\r\nKV-Operation: NEW-ONE\r\n\r\n", true),
            (b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n\r\n", true),
            (b"NATS/1.0\r\nX-KV-Operation: DEL\r\n\r\n", false),
        ] {
            let message = message(headers);
            assert_eq!((message.deleted, message.header_fault), (deleted, None));
            assert_eq!(message.value, br#"{"a":1}"#);
        }
    }

    #[test]
    fn unreadable_headers_are_said() {
        for (headers, fault) in [
            (&b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n"[..], "a header line is not UTF-8"),
            (b"NATS/1.0\r\nno colon\r\n\r\n", "a header line has no colon"),
            (b"HTTP/1.0\r\n\r\n", "the header block does not start with NATS/1.0"),
        ] {
            assert_eq!(message(headers).header_fault.as_deref(), Some(fault));
        }
    }

    #[test]
    fn a_write_has_three_outcomes_and_a_conflict() {
        assert_eq!(
            parse_write(Kv::new("orders"), br#"{"stream":"KV_orders","seq":12}"#),
            WriteAnswer::Stored(12)
        );
        for code in [10071, 10164] {
            let body = format!(
                r#"{{"error":{{"code":400,"err_code":{code},"description":"wrong last sequence: 3"}},"stream":"KV_orders","seq":0}}"#
            );
            assert_eq!(parse_write(Kv::new("orders"), body.as_bytes()), WriteAnswer::Conflict);
        }
        let sealed = br#"{"error":{"code":400,"err_code":10109,"description":"invalid operation on sealed stream"},"stream":"KV_orders","seq":0}"#;
        assert!(
            matches!(parse_write(Kv::new("orders"), sealed), WriteAnswer::Refused(error) if error.err_code() == Some(10109))
        );
        assert!(matches!(
            parse_write(Kv::new("orders"), br#"{"stream":"KV_orders","seq":0}"#),
            WriteAnswer::Unknown(_)
        ));
        for body in [&b"+OK"[..], b"[null,5]", b"[{}]", br#"{"error":[400]}"#] {
            assert!(
                matches!(parse_write(Kv::new("orders"), body), WriteAnswer::Unknown(_)),
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }
}
