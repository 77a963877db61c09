//! The four requests of the JetStream API that the seat needs, and their answers.
//!
//! What is read one by one is read through the JSON API, since headers and data come as base64 there: no stored bytes,
//! whoever wrote them, can break the connection that reads them. Requests hold no field that one of the supported server
//! lines does not know, because newer servers refuse unknown ones.

use super::named::Named;
use super::stream::State;
use super::{Headers, MAX_LINE_BYTES};
use data_encoding::BASE64;
use mesh_model::bucket::Bucket;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A request to the bus, or a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where it goes.
    pub subject: String,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
}

/// Asks for the keys of `bucket`, from the `offset`th on; only those under the token `node` if there is one.
pub fn list(bucket: Bucket, node: Option<&str>, offset: usize) -> Request {
    #[derive(Serialize)]
    struct Body {
        subjects_filter: String,
        offset: usize,
    }
    let prefix = bucket.subject_prefix();
    let subjects_filter = node.map_or_else(|| format!("{prefix}>"), |node| format!("{prefix}{node}.>"));
    Request {
        subject: format!("$JS.API.STREAM.INFO.{}", bucket.stream()),
        headers: Headers::new(),
        body: serde_json::to_vec(&Body { subjects_filter, offset }).expect("a filter is text"),
    }
}

/// Asks for the newest message of `key`.
pub fn get(bucket: Bucket, key: &str) -> Request {
    #[derive(Serialize)]
    struct Body {
        last_by_subj: String,
    }
    let last_by_subj = format!("{}{key}", bucket.subject_prefix());
    Request {
        subject: format!("$JS.API.STREAM.MSG.GET.{}", bucket.stream()),
        headers: Headers::new(),
        body: serde_json::to_vec(&Body { last_by_subj }).expect("a key is text"),
    }
}

/// Writes `value` under `key` if the newest message of the key still has the sequence `expected` (0: there is none).
pub fn put(bucket: Bucket, key: &str, value: &str, expected: u64) -> Request {
    Request {
        subject: format!("{}{key}", bucket.subject_prefix()),
        headers: expecting(bucket, expected),
        body: value.as_bytes().to_vec(),
    }
}

/// Marks `key` deleted under the same condition as [`put`].
pub fn delete(bucket: Bucket, key: &str, expected: u64) -> Request {
    let mut headers = expecting(bucket, expected);
    headers.push((OPERATION, "DEL".to_owned()));
    Request { subject: format!("{}{key}", bucket.subject_prefix()), headers, body: Vec::new() }
}

/// Whether [`put`] and [`delete`] fit the line of the protocol in which they are sent, together with the subject of
/// the answer. Whoever sends without one can write longer keys.
pub const fn can_be_written(key: &str) -> bool {
    const BESIDE_THE_KEY: usize = 256;
    key.len() + BESIDE_THE_KEY <= MAX_LINE_BYTES
}

fn expecting(bucket: Bucket, sequence: u64) -> Headers {
    vec![
        ("Nats-Expected-Stream", bucket.stream()),
        ("Nats-Expected-Last-Subject-Sequence", sequence.to_string()),
    ]
}

const OPERATION: &str = "KV-Operation";
const MARKER: &str = "Nats-Marker-Reason";

/// Why the bus did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiError {
    /// It refused, in its own words.
    Refused {
        /// The API's stable number for the error.
        err_code: u32,
        /// The error in words.
        description: String,
    },
    /// It answered something that is no answer of this API.
    Unreadable(String),
}

impl ApiError {
    /// No stream of that name.
    pub const NO_STREAM: u32 = 10059;
    /// No message of that subject.
    pub const NO_MESSAGE: u32 = 10037;
    /// JetStream is off for the account, or for the server.
    pub const JETSTREAM_OFF: [u32; 2] = [10039, 10076];
    /// Someone else has written since: two numbers for the same thing.
    pub const WRONG_SEQUENCE: [u32; 2] = [10071, 10164];

    /// The number of a refusal.
    pub const fn err_code(&self) -> Option<u32> {
        match self {
            ApiError::Refused { err_code, .. } => Some(*err_code),
            ApiError::Unreadable(_) => None,
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiError::Refused { err_code, description } => write!(f, "{description} ({err_code})"),
            ApiError::Unreadable(why) => write!(f, "the bus gave an answer that cannot be read: {why}"),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default)]
    code: u32,
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

impl From<ErrorBody> for ApiError {
    fn from(error: ErrorBody) -> Self {
        let err_code = if error.err_code == 0 { error.code } else { error.err_code };
        ApiError::Refused { err_code, description: error.description }
    }
}

/// One page of a bucket's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPage {
    /// The keys, in the bus's order; a byte that is not UTF-8 has become U+FFFD, so two may look the same.
    pub keys: Vec<String>,
    /// How many keys match in all.
    pub total: usize,
    /// How many bytes a message of the bucket takes on average; 0 if that is not known.
    pub mean_bytes: usize,
    /// The sequence of the bucket's last write.
    pub last_sequence: u64,
    /// The time of the bucket's last write, in the bus's words; `None` if there never was one.
    pub last_at: Option<String>,
    /// What tells whether the bucket has changed; `None` if the bus did not say enough.
    pub state: Option<State>,
}

/// Reads the answer to [`list`].
pub fn parse_keys(bucket: Bucket, body: &[u8]) -> Result<KeyPage, ApiError> {
    #[derive(Deserialize)]
    struct Body<'a> {
        error: Option<Named<ErrorBody>>,
        #[serde(default)]
        total: usize,
        created: Option<String>,
        #[serde(borrow)]
        state: Option<Named<Stored<'a>>>,
    }
    #[derive(Deserialize)]
    struct Stored<'a> {
        messages: Option<u64>,
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
    let prefix = bucket.subject_prefix();
    // A stream that was made by hand may hold other subjects beside the bucket's; they are no keys.
    let keys =
        state.subjects.0.iter().filter_map(|subject| subject.0.strip_prefix(&prefix).map(str::to_owned));
    let mean_bytes = state.messages.and_then(|messages| state.bytes.checked_div(messages)).unwrap_or(0);
    let last_at = state.last_ts.filter(|_| state.last_seq > 0);
    let standing = match (body.created, state.messages, &last_at) {
        (Some(created), Some(messages), Some(last_at)) => {
            Some(State { created, messages, last_sequence: state.last_seq, last_at: last_at.clone() })
        }
        _ => None,
    };
    Ok(KeyPage {
        keys: keys.collect(),
        total: body.total,
        mean_bytes: usize::try_from(mean_bytes).unwrap_or(usize::MAX),
        last_sequence: state.last_seq,
        last_at,
        state: standing,
    })
}

/// Reads the configuration of a stream out of an answer that describes it.
pub fn parse_config(body: &[u8]) -> Result<serde_json::Value, ApiError> {
    #[derive(Deserialize)]
    struct Body {
        error: Option<Named<ErrorBody>>,
        config: Option<serde_json::Value>,
    }
    let Named(body): Named<Body> =
        serde_json::from_slice(body).map_err(|why| ApiError::Unreadable(why.to_string()))?;
    match body {
        Body { error: Some(Named(error)), .. } => Err(error.into()),
        Body { config: Some(config), .. } => Ok(config),
        _ => Err(ApiError::Unreadable("a stream's configuration is missing".to_owned())),
    }
}

/// The names of a JSON object in their order, repeated ones too: bytes that are not UTF-8 look alike here.
#[derive(Default)]
struct Subjects<'a>(Vec<Subject<'a>>);

/// A subject where it stands in the answer: of 100 000 no copy is made but of the keys.
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

/// The newest message of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The subject it was written to: the bus may have matched another one than was asked for.
    pub subject: String,
    /// Its sequence, which is the key's revision.
    pub sequence: u64,
    /// When the bus stored it, in the bus's words.
    pub at: String,
    /// Whether it says that the key is deleted.
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

/// Reads the answer to [`get`]: `None` if the key has no message.
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
    let headers = read_headers(&base64(&stored.hdrs)?);
    Ok(Some(Message {
        subject: stored.subject,
        sequence: stored.seq,
        at: stored.time,
        deleted: headers.deleted,
        header_fault: headers.fault,
        value: base64(&stored.data)?,
    }))
}

struct HeaderReading {
    deleted: bool,
    fault: Option<String>,
}

/// Reads what is readable of a header block, and says what is not.
fn read_headers(block: &[u8]) -> HeaderReading {
    let mut reading = HeaderReading { deleted: false, fault: None };
    let mut lines = block.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let version = lines.next().unwrap_or_default();
    if !block.is_empty() && !version.starts_with(b"NATS/1.0") {
        reading.fault = Some("the header block does not start with NATS/1.0".to_owned());
    }
    for line in lines.filter(|line| !line.is_empty()) {
        match std::str::from_utf8(line).map(|line| line.split_once(':')) {
            Ok(Some((name, value))) => match (name.trim(), value.trim()) {
                (OPERATION, operation) => reading.deleted |= operation != "PUT",
                (MARKER, _) => reading.deleted = true,
                _ => {}
            },
            Ok(None) => reading.fault = Some("a header line has no colon".to_owned()),
            Err(_) => reading.fault = Some("a header line is not UTF-8".to_owned()),
        }
    }
    reading
}

/// How a write ended, as far as its answer tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteAnswer {
    /// It is stored under this sequence.
    Stored(u64),
    /// Someone else has written the key since it was read.
    Conflict,
    /// It is not stored.
    Refused(ApiError),
    /// The answer does not tell.
    Unknown(String),
}

/// Reads the acknowledgement of a [`put`] or [`delete`] in `bucket`. Other programs can make acknowledgements of their
/// own writes come to a foreign inbox, so only one that names this bucket's stream counts.
pub fn parse_write(bucket: Bucket, body: &[u8]) -> WriteAnswer {
    #[derive(Deserialize)]
    struct Body {
        error: Option<Named<ErrorBody>>,
        #[serde(default)]
        stream: String,
        #[serde(default)]
        seq: u64,
    }
    match serde_json::from_slice(body).map(|Named(body)| body) {
        Err(why) => WriteAnswer::Unknown(format!("the bus gave an answer that cannot be read: {why}")),
        Ok(Body { error: Some(Named(error)), .. }) => {
            let error = ApiError::from(error);
            match error.err_code() {
                Some(code) if ApiError::WRONG_SEQUENCE.contains(&code) => WriteAnswer::Conflict,
                _ => WriteAnswer::Refused(error),
            }
        }
        Ok(Body { seq: 0, .. }) => WriteAnswer::Unknown("the bus gave no sequence".to_owned()),
        Ok(Body { stream, .. }) if stream != bucket.stream() => WriteAnswer::Unknown(format!(
            "the acknowledgement is of the stream {stream:?} and not of {}",
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
        let request = list(Bucket::Needs, Some("n1"), 0);
        assert_eq!(request.subject, "$JS.API.STREAM.INFO.KV_mesh-provisioner_needs");
        assert_eq!(request.body, br#"{"subjects_filter":"$KV.mesh-provisioner_needs.n1.>","offset":0}"#);
        let request = get(Bucket::Applied, "n1.web");
        assert_eq!(request.subject, "$JS.API.STREAM.MSG.GET.KV_mesh-provisioner_applied");
        assert_eq!(request.body, br#"{"last_by_subj":"$KV.mesh-provisioner_applied.n1.web"}"#);
        let request = delete(Bucket::Registry, "odd", 7);
        assert_eq!(request.subject, "$KV.mesh-provisioner_registry.odd");
        assert_eq!(
            request.headers,
            [
                ("Nats-Expected-Stream", "KV_mesh-provisioner_registry".to_owned()),
                ("Nats-Expected-Last-Subject-Sequence", "7".to_owned()),
                ("KV-Operation", "DEL".to_owned())
            ]
        );
    }

    #[test]
    fn keys_keep_their_order_and_their_look_alikes() {
        let body = r#"{"type":"x","total":3,"offset":0,"limit":100000,"config":{"name":"KV_mesh-provisioner_needs"},
            "state":{"messages":3,"last_seq":9,"last_ts":"2026-11-29T13:26:00.5Z",
            "subjects":{"$KV.mesh-provisioner_needs.a\ufffd.x":1,"$KV.mesh-provisioner_needs.a\ufffd.x":1,"$KV.mesh-provisioner_needs.b":2}}}"#;
        let page = parse_keys(Bucket::Needs, body.as_bytes()).unwrap();
        assert_eq!(page.keys, ["a\u{fffd}.x", "a\u{fffd}.x", "b"]);
        assert_eq!((page.total, page.last_sequence), (3, 9));
        assert_eq!(page.last_at.as_deref(), Some("2026-11-29T13:26:00.5Z"));
    }

    #[test]
    fn an_empty_bucket_has_no_last_write() {
        let body = br#"{"total":0,"state":{"last_seq":0,"last_ts":"0001-01-01T00:00:00Z"}}"#;
        let page = parse_keys(Bucket::Needs, body).unwrap();
        assert_eq!(
            page,
            KeyPage { keys: vec![], total: 0, mean_bytes: 0, last_sequence: 0, last_at: None, state: None }
        );
    }

    #[test]
    fn a_bucket_that_changed_in_any_way_has_another_state() {
        let state = |created: u32, messages: u32, sequence: u32, second: u32| {
            let body = format!(
                r#"{{"created":"{created}","state":{{"messages":{messages},"last_seq":{sequence},"last_ts":"{second}"}}}}"#
            );
            parse_keys(Bucket::Registry, body.as_bytes()).unwrap().state
        };
        let known = state(1, 13, 20, 7);
        assert!(known.is_some());
        assert_eq!(known, state(1, 13, 20, 7));
        for (changed, how) in [
            (state(2, 13, 20, 7), "made anew"),
            (state(1, 12, 20, 7), "a key expired or was purged"),
            (state(1, 13, 21, 7), "a key was written"),
            (state(1, 13, 20, 8), "restored, and written since"),
        ] {
            assert_ne!(known, changed, "{how}");
        }
    }

    #[test]
    fn an_array_is_never_read_as_an_object() {
        assert!(parse_keys(Bucket::Needs, b"[null,0,[0]]").is_err());
        assert!(parse_keys(Bucket::Needs, br#"{"total":0,"state":[0]}"#).is_err());
        assert!(parse_message(br#"{"message":["$KV.b.k",4,"","MQ==","t"]}"#).is_err());
        assert!(parse_message(br#"{"error":[404,10037]}"#).is_err());
    }

    #[test]
    fn errors_are_known_by_their_number() {
        let body = br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        let error = parse_keys(Bucket::Needs, body).unwrap_err();
        assert_eq!(error.err_code(), Some(ApiError::NO_STREAM));
        assert_eq!(error.to_string(), "stream not found (10059)");
        assert!(matches!(parse_keys(Bucket::Needs, b"{}"), Err(ApiError::Unreadable(_))));
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
            parse_write(Bucket::Registry, br#"{"stream":"KV_mesh-provisioner_registry","seq":12}"#),
            WriteAnswer::Stored(12)
        );
        for code in [10071, 10164] {
            let body = format!(
                r#"{{"error":{{"code":400,"err_code":{code},"description":"wrong last sequence: 3"}},"stream":"KV_mesh-provisioner_registry","seq":0}}"#
            );
            assert_eq!(parse_write(Bucket::Registry, body.as_bytes()), WriteAnswer::Conflict);
        }
        let sealed = br#"{"error":{"code":400,"err_code":10109,"description":"invalid operation on sealed stream"},"stream":"KV_mesh-provisioner_registry","seq":0}"#;
        assert!(
            matches!(parse_write(Bucket::Registry, sealed), WriteAnswer::Refused(error) if error.err_code() == Some(10109))
        );
        assert!(matches!(
            parse_write(Bucket::Registry, br#"{"stream":"KV_mesh-provisioner_registry","seq":0}"#),
            WriteAnswer::Unknown(_)
        ));
        for body in [&b"+OK"[..], b"[null,5]", b"[{}]", br#"{"error":[400]}"#] {
            assert!(
                matches!(parse_write(Bucket::Registry, body), WriteAnswer::Unknown(_)),
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }
}
