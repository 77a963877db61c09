//! What the `JetStream` API answers, spelled as nats-server spells it. For tests without a server: included by path,
//! not through `support`.

use data_encoding::BASE64;
use serde_json::{Value, json};

/// When each stream was made.
pub const CREATED: &str = "2026-11-01T00:00:00Z";

/// A message as a stream keeps it, for [`message`].
#[derive(Clone, Debug)]
pub struct Stored<'a> {
    pub subject: &'a str,
    pub sequence: u64,
    pub headers: &'a [u8],
    pub data: &'a [u8],
    pub time: &'a str,
}

/// The answer to `STREAM.INFO`: one page of subjects, each with its count. `subjects` are as a JSON encoder shows
/// them, so some may look alike: the object is put together by hand.
pub fn page(
    subjects: &[String],
    offset: usize,
    total: usize,
    first: (u64, &str),
    last: (u64, &str),
) -> Vec<u8> {
    let names: Vec<String> =
        subjects.iter().map(|subject| format!("{}:1", Value::from(subject.as_str()))).collect();
    let ((first_seq, first_ts), (last_seq, last_ts)) = (first, last);
    format!(
        r#"{{"type":"io.nats.jetstream.api.v1.stream_info_response","created":"{CREATED}","total":{total},"offset":{offset},"limit":{},"state":{{"messages":{total},"first_seq":{first_seq},"first_ts":"{first_ts}","last_seq":{last_seq},"last_ts":"{last_ts}","subjects":{{{}}}}}}}"#,
        subjects.len(),
        names.join(",")
    )
    .into_bytes()
}

/// The answer to `STREAM.MSG.GET`.
pub fn message(stored: &Stored<'_>) -> Vec<u8> {
    let mut fields = json!({
        "subject": stored.subject,
        "seq": stored.sequence,
        "data": BASE64.encode(stored.data),
        "time": stored.time,
    });
    if !stored.headers.is_empty() {
        fields["hdrs"] = BASE64.encode(stored.headers).into();
    }
    json!({"type": "io.nats.jetstream.api.v1.stream_msg_get_response", "message": fields})
        .to_string()
        .into_bytes()
}

/// The same when the subject has no message.
pub fn no_message() -> Vec<u8> {
    error(404, 10037, "no message found")
}

/// The answer to a write that is stored.
pub fn stored(stream: &str, sequence: u64) -> Vec<u8> {
    json!({"stream": stream, "seq": sequence}).to_string().into_bytes()
}

/// The answer to a write that expected another sequence.
pub fn conflict(newest: u64) -> Vec<u8> {
    error(400, 10071, &format!("wrong last sequence: {newest}"))
}

/// A refusal.
pub fn error(code: u32, err_code: u32, description: &str) -> Vec<u8> {
    json!({"error": {"code": code, "err_code": err_code, "description": description}})
        .to_string()
        .into_bytes()
}
