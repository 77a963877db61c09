//! Stream info (`$JS.API.STREAM.INFO`) without subjects: a bucket in numbers. It is the cheapest call, and tells
//! whether anything has changed.

use crate::api::{ApiError, ErrorBody, STREAM_INFO};
use crate::bucket::Kv;
use crate::config::Config;
use crate::message::{Headers, Request};
use crate::named::Named;
use serde::Deserialize;

/// The state of a bucket: while it is unchanged, so is everything in the bucket. Each write raises the last sequence.
/// Expiry and purges keep it, but lower the number of messages. A bucket that was recreated or restored has another
/// creation time or another last write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// When it was created.
    pub created: String,
    /// The number of its messages.
    pub messages: u64,
    /// The sequence and the time of the oldest message that it holds.
    pub first_sequence: u64,
    /// See there; in the bus's words.
    pub first_at: String,
    /// The sequence of its last write.
    pub last_sequence: u64,
    /// The time of its last write, as the server wrote it.
    pub last_at: String,
}

/// A stream in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// Its state.
    pub state: State,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many messages it keeps of each subject; less than 1 without a bound, or if not reported.
    pub history: i64,
    /// The settings by which it loses data.
    pub losses: Vec<String>,
}

/// Requests the numbers of the stream of `bucket`.
pub fn get(bucket: Kv<'_>) -> Request {
    Request {
        subject: format!("{STREAM_INFO}{}", bucket.stream()),
        headers: Headers::new(),
        body: Vec::new(),
    }
}

/// Parses the reply to [`get`] for `bucket`: `None` if the reply has too little.
pub fn parse(bucket: Kv<'_>, body: &[u8]) -> Result<Option<StreamInfo>, ApiError> {
    #[derive(Deserialize)]
    struct Body {
        error: Option<Named<ErrorBody>>,
        created: Option<String>,
        config: Option<Named<Config>>,
        state: Option<Named<Stored>>,
    }
    #[derive(Deserialize)]
    struct Stored {
        messages: Option<u64>,
        bytes: Option<u64>,
        first_seq: Option<u64>,
        first_ts: Option<String>,
        last_seq: Option<u64>,
        last_ts: Option<String>,
    }
    let Named(body): Named<Body> =
        serde_json::from_slice(body).map_err(|why| ApiError::Unreadable(why.to_string()))?;
    if let Some(Named(error)) = body.error {
        return Err(error.into());
    }
    if let Some(fault) = body.config.as_ref().and_then(|Named(config)| config.fault(bucket)) {
        return Err(ApiError::NotABucket(fault));
    }
    let info = || {
        let Named(Stored { messages, bytes, first_seq, first_ts, last_seq, last_ts }) = body.state?;
        let Named(config) = body.config?;
        let state = State {
            created: body.created?,
            messages: messages?,
            first_sequence: first_seq?,
            first_at: first_ts?,
            last_sequence: last_seq?,
            last_at: last_ts?,
        };
        let (history, losses) = (config.max_msgs_per_subject, config.losses());
        Some(StreamInfo { state, bytes: bytes?, history, losses })
    };
    Ok(info())
}

/// Why a stream with this configuration is not a bucket that is written key by key; `None` if it is.
pub fn bucket_fault(bucket: Kv<'_>, config: &serde_json::Value) -> Option<String> {
    Config::deserialize(config).ok()?.fault(bucket)
}

/// Parses the configuration of a stream from a reply that describes it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_info_is_the_stream_in_numbers() {
        let request = get(Kv::new("orders"));
        assert_eq!(request.subject, "$JS.API.STREAM.INFO.KV_orders");
        assert!(request.body.is_empty());
        let body = br#"{"type":"x","config":{"subjects":["$KV.orders.>"],"max_msgs_per_subject":1},"created":"2026-11-01T00:00:00Z",
            "state":{"messages":3,"bytes":300,"first_seq":2,"first_ts":"2026-11-02T00:00:00Z","last_seq":9,"last_ts":"2026-11-29T13:26:00.5Z"}}"#;
        let state = State {
            created: "2026-11-01T00:00:00Z".to_owned(),
            messages: 3,
            first_sequence: 2,
            first_at: "2026-11-02T00:00:00Z".to_owned(),
            last_sequence: 9,
            last_at: "2026-11-29T13:26:00.5Z".to_owned(),
        };
        assert_eq!(
            parse(Kv::new("orders"), body),
            Ok(Some(StreamInfo { state, bytes: 300, history: 1, losses: vec![] }))
        );
    }

    #[test]
    fn an_answer_that_says_too_little_is_none() {
        let body = br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        assert_eq!(parse(Kv::new("orders"), body).unwrap_err().err_code(), Some(ApiError::NO_STREAM));
        for body in
            [&b"{}"[..], br#"{"created":"x","config":{"subjects":["$KV.orders.>"]},"state":{"messages":3}}"#]
        {
            assert_eq!(parse(Kv::new("orders"), body), Ok(None));
        }
        assert!(matches!(parse(Kv::new("orders"), br#"{"config":[1]}"#), Err(ApiError::Unreadable(_))));
    }
}
