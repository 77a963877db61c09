//! Buckets over the raw client: what a node's provisioner client writes, and what a test looks at afterwards.
//!
//! Reading takes the JSON of `$JS.API`, as the seat does, so nothing here leaves a consumer behind.

use std::collections::VecDeque;

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::client::{Client, Inbox};
use crate::wait::{self, PATIENCE};
use crate::wire::{self, headers};

pub const REGISTRY: &str = "mesh-provisioner_registry";
pub const NEEDS: &str = "mesh-provisioner_needs";
pub const APPLIED: &str = "mesh-provisioner_applied";
pub const COLLECT: &str = "mesh-provisioner_collect";

/// No such message: an `err_code` of `$JS.API`.
const NO_MESSAGE: u64 = 10037;

/// How many writes are on their way at once in [`Client::kv_put_all`].
const WINDOW: usize = 256;

/// A message of a bucket, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The key as JSON can give it: bytes that are not UTF-8 are replaced.
    pub key: String,
    pub sequence: u64,
    /// The bus's own time of the write, RFC 3339.
    pub time: String,
    /// The raw block; empty when there is none.
    pub headers: Vec<u8>,
    pub value: Vec<u8>,
}

impl Stored {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<String> {
        wire::header(&self.headers, name)
    }
}

impl Client {
    /// Puts a value; gives its sequence. Panics unless the bus says that it is stored.
    #[track_caller]
    pub fn kv_put(&self, bucket: &str, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> u64 {
        self.kv_put_with(bucket, key, &[], value)
    }

    /// Puts a value with a raw block of headers.
    #[track_caller]
    pub fn kv_put_with(
        &self,
        bucket: &str,
        key: impl AsRef<[u8]>,
        headers: &[u8],
        value: impl AsRef<[u8]>,
    ) -> u64 {
        let subject = subject(bucket, key.as_ref());
        stored(&self.request_later(&subject, headers, value), &subject)
    }

    /// As [`Client::kv_put_with`], but gives the bus's refusal: an answer with `error`.
    #[track_caller]
    pub fn try_kv_put_with(
        &self,
        bucket: &str,
        key: impl AsRef<[u8]>,
        headers: &[u8],
        value: impl AsRef<[u8]>,
    ) -> Result<u64, Value> {
        let subject = subject(bucket, key.as_ref());
        acknowledged(&self.request_later(&subject, headers, value), &subject)
    }

    /// Puts many values with many on their way at once: 20 000 take seconds, not minutes.
    #[track_caller]
    pub fn kv_put_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        bucket: &str,
        entries: impl IntoIterator<Item = (K, V)>,
    ) {
        let mut under_way = VecDeque::new();
        for (key, value) in entries {
            let subject = subject(bucket, key.as_ref());
            under_way.push_back((self.request_later(&subject, &[], value), subject));
            if under_way.len() >= WINDOW
                && let Some((oldest, subject)) = under_way.pop_front()
            {
                stored(&oldest, &subject);
            }
        }
        for (left, subject) in under_way {
            stored(&left, &subject);
        }
    }

    /// Deletes a key as clients do: with a marker. Gives the marker's sequence.
    #[track_caller]
    pub fn kv_delete(&self, bucket: &str, key: impl AsRef<[u8]>) -> u64 {
        self.kv_put_with(bucket, key, &headers(&[("KV-Operation", "DEL")]), b"")
    }

    /// Deletes a key and its history. Gives the marker's sequence.
    #[track_caller]
    pub fn kv_purge(&self, bucket: &str, key: impl AsRef<[u8]>) -> u64 {
        self.kv_put_with(bucket, key, &headers(&[("KV-Operation", "PURGE")]), b"")
    }

    /// The last message of a key, a marker too. A key that holds `*` or `>` would match others: see
    /// [`Client::kv_at`].
    #[track_caller]
    pub fn kv_get(&self, bucket: &str, key: &str) -> Option<Stored> {
        self.message(bucket, &json!({"last_by_subj": format!("$KV.{bucket}.{key}")}))
    }

    /// The message with this sequence.
    #[track_caller]
    pub fn kv_at(&self, bucket: &str, sequence: u64) -> Option<Stored> {
        self.message(bucket, &json!({"seq": sequence}))
    }

    /// Every subject of a bucket that holds a message, markers too, without `$KV.<bucket>.`; sorted.
    #[track_caller]
    pub fn kv_keys(&self, bucket: &str) -> Vec<String> {
        let prefix = format!("$KV.{bucket}.");
        let asked = json!({"subjects_filter": format!("{prefix}>")});
        let info = self.api(&format!("STREAM.INFO.KV_{bucket}"), &asked);
        let subjects = info["state"]["subjects"].as_object().cloned().unwrap_or_default();
        let mut keys: Vec<String> =
            subjects.keys().map(|subject| subject[prefix.len()..].to_owned()).collect();
        keys.sort_unstable();
        keys
    }

    /// Creates a bucket's stream as the field makes it, with these fields of the configuration put in or
    /// over.
    #[track_caller]
    pub fn create_bucket(&self, bucket: &str, fields: &Value) -> Value {
        let mut config = json!({
            "name": format!("KV_{bucket}"), "subjects": [format!("$KV.{bucket}.>")], "storage": "file",
            "retention": "limits", "discard": "new", "max_msgs_per_subject": 1, "num_replicas": 1,
            "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true,
        });
        merge(&mut config, fields);
        self.api(&format!("STREAM.CREATE.KV_{bucket}"), &config)
    }

    /// Changes fields of a bucket's configuration.
    #[track_caller]
    pub fn update_bucket(&self, bucket: &str, fields: &Value) -> Value {
        let mut config = self.stream_info(bucket)["config"].clone();
        merge(&mut config, fields);
        self.api(&format!("STREAM.UPDATE.KV_{bucket}"), &config)
    }

    /// Deletes a bucket with all that is in it.
    #[track_caller]
    pub fn delete_bucket(&self, bucket: &str) {
        self.api(&format!("STREAM.DELETE.KV_{bucket}"), &Value::Null);
    }

    /// The stream of a bucket: `config` and `state`.
    #[track_caller]
    pub fn stream_info(&self, bucket: &str) -> Value {
        self.api(&format!("STREAM.INFO.KV_{bucket}"), &Value::Null)
    }

    /// The sequence of the last write: it stays as long as nothing is written.
    #[track_caller]
    pub fn last_sequence(&self, bucket: &str) -> u64 {
        number(&self.stream_info(bucket)["state"]["last_seq"])
    }

    /// How many consumers were left on the bucket.
    #[track_caller]
    pub fn consumer_count(&self, bucket: &str) -> u64 {
        number(&self.stream_info(bucket)["state"]["consumer_count"])
    }

    /// Calls `$JS.API.<call>`, such as `STREAM.INFO.KV_x`; panics with the bus's words if it refuses.
    #[track_caller]
    pub fn api(&self, call: &str, body: &Value) -> Value {
        let answer = self.try_api(call, body);
        assert!(answer.get("error").is_none(), "{call} {body}: {}", answer["error"]);
        answer
    }

    /// As [`Client::api`], but a refusal is an answer with `error`. Asks again while nobody answers: a server of 2.9 has no
    /// JetStream for a moment when it loads its users again.
    #[track_caller]
    pub fn try_api(&self, call: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        wait::until(call, PATIENCE, || {
            let answer = self.request(format!("$JS.API.{call}"), body.as_str(), PATIENCE);
            answer.map(|message| message.json()).map_err(|error| error.to_string())
        })
    }

    #[track_caller]
    fn message(&self, bucket: &str, asked: &Value) -> Option<Stored> {
        let call = format!("STREAM.MSG.GET.KV_{bucket}");
        let answer = self.try_api(&call, asked);
        if answer["error"]["err_code"] == NO_MESSAGE {
            return None;
        }
        let message = &answer["message"];
        let text = |field: &str| message[field].as_str().unwrap_or_default();
        let bytes = |field: &str| BASE64.decode(text(field).as_bytes()).expect("base64 of the bus");
        assert!(message.is_object(), "{call} {asked}: {answer}");
        let prefix = format!("$KV.{bucket}.");
        Some(Stored {
            key: text("subject").strip_prefix(&prefix).unwrap_or_default().to_owned(),
            sequence: number(&message["seq"]),
            time: text("time").to_owned(),
            headers: bytes("hdrs"),
            value: bytes("data"),
        })
    }
}

fn subject(bucket: &str, key: &[u8]) -> Vec<u8> {
    [format!("$KV.{bucket}.").as_bytes(), key].concat()
}

#[track_caller]
fn stored(answer: &Inbox, subject: &[u8]) -> u64 {
    acknowledged(answer, subject)
        .unwrap_or_else(|answer| panic!("put {}: {answer}", String::from_utf8_lossy(subject)))
}

/// The sequence that the bus gave to a write, or its whole answer when it gave none.
#[track_caller]
fn acknowledged(answer: &Inbox, subject: &[u8]) -> Result<u64, Value> {
    let answer = match answer.next(PATIENCE) {
        Ok(message) => message.json(),
        Err(error) => panic!("put {}: {error}", String::from_utf8_lossy(subject)),
    };
    // An answer with an error has a sequence too: zero.
    answer["seq"].as_u64().filter(|sequence| *sequence > 0 && answer.get("error").is_none()).ok_or(answer)
}

fn merge(config: &mut Value, fields: &Value) {
    if let (Some(config), Some(fields)) = (config.as_object_mut(), fields.as_object()) {
        config.extend(fields.clone());
    }
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number where the bus says {value}"))
}
