//! Direct get in batches: many messages for one call, on nats-server 2.11 and newer.
//!
//! The answer is the messages, then one that says how it ended. What the bus says of a message comes as headers after
//! those that were stored with it. Whoever wrote a message can put the same names there, so the last of a name counts,
//! and a message that has a subject, a sequence and a time is a stored one whatever else it says. A gap makes the whole
//! answer unusable: each message names the one sent before it.

use crate::api::DIRECT_GET;
use crate::bucket::Kv;
use crate::headers::{self, StoredHeaders};
use crate::kv::Message;
use crate::message::{Headers, Request};
use serde::Serialize;

/// The approximate size of the messages of one reply, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Requests the newest messages of `keys`.
///
/// ```
/// use mesh_jetstream::{bucket::Kv, direct_get};
///
/// let request = direct_get::get(Kv::new("settings"), &["attic.web", "cellar.db"]);
/// assert_eq!(request.subject, "$JS.API.DIRECT.GET.KV_settings");
/// assert_eq!(
///     String::from_utf8(request.body).unwrap(),
///     r#"{"multi_last":["$KV.settings.attic.web","$KV.settings.cellar.db"],"batch":2,"max_bytes":1048576}"#
/// );
/// ```
pub fn get(bucket: Kv<'_>, keys: &[&str]) -> Request {
    #[derive(Serialize)]
    struct Body {
        multi_last: Vec<String>,
        batch: usize,
        max_bytes: usize,
    }
    let multi_last = keys.iter().map(|key| bucket.subject(key)).collect();
    request(bucket, &Body { multi_last, batch: keys.len(), max_bytes: MAX_BYTES })
}

/// Asks for at most `messages` of `bucket` in the order in which they were written, from the sequence `from` on, until
/// they come to about `max_bytes`.
pub fn after(bucket: Kv<'_>, from: u64, messages: usize, max_bytes: usize) -> Request {
    #[derive(Serialize)]
    struct Body {
        seq: u64,
        batch: usize,
        max_bytes: usize,
    }
    request(bucket, &Body { seq: from, batch: messages, max_bytes })
}

fn request(bucket: Kv<'_>, body: &impl Serialize) -> Request {
    Request {
        subject: format!("{DIRECT_GET}{}", bucket.stream()),
        headers: Headers::new(),
        body: serde_json::to_vec(body).expect("keys and numbers are text"),
    }
}

/// One message of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A message: the newest of a named key, or the next one in the stream.
    Message {
        /// The message.
        message: Message,
        /// The sequence of the message sent before it; 0 if it is the first.
        after: u64,
    },
    /// The end.
    End {
        /// How many messages were omitted because the reply reached its size.
        left_out: u64,
        /// The sequence of the message sent before it.
        after: u64,
        /// The last sequence of the bucket that the replying server knows, if it reports one.
        up_to: Option<u64>,
    },
    /// The reply is unusable: why.
    Unusable(String),
}

/// What the bus says of a message, or of the end, in its header block.
#[derive(Default)]
struct Said<'a> {
    subject: Option<&'a [u8]>,
    sequence: Option<&'a [u8]>,
    at: Option<&'a [u8]>,
    after: Option<&'a [u8]>,
    left_out: Option<&'a [u8]>,
    up_to: Option<&'a [u8]>,
}

impl<'a> Said<'a> {
    /// The server adds its own headers after those that were stored, so the last one of a name counts.
    fn read(block: &'a [u8]) -> Said<'a> {
        let mut said = Said::default();
        for (name, value) in headers::fields(block) {
            let field = match name {
                b"Nats-Subject" => &mut said.subject,
                b"Nats-Sequence" => &mut said.sequence,
                b"Nats-Time-Stamp" => &mut said.at,
                b"Nats-Last-Sequence" => &mut said.after,
                b"Nats-Num-Pending" => &mut said.left_out,
                b"Nats-UpTo-Sequence" => &mut said.up_to,
                _ => continue,
            };
            *field = Some(value);
        }
        said
    }
}

/// Whether a message that came with this header block is part of an answer, rather than an answer of another kind.
pub fn is_part(block: &[u8]) -> bool {
    headers::status(block).is_some()
        || headers::fields(block).any(|(name, _)| matches!(name, b"Nats-Sequence" | b"Nats-Last-Sequence"))
}

/// Reads one message of an answer, whose header block and body these are.
pub fn parse(block: &[u8], body: Vec<u8>) -> Part {
    let said = Said::read(block);
    let part = match (said.subject, said.sequence, said.at) {
        // The server adds these to stored messages only, never to its own status messages: a status here was stored.
        (Some(subject), Some(sequence), Some(at)) => stored(block, &said, (subject, sequence, at), body),
        _ => end(block, &said),
    };
    part.unwrap_or_else(Part::Unusable)
}

fn stored(
    block: &[u8],
    said: &Said<'_>,
    (subject, sequence, at): (&[u8], &[u8], &[u8]),
    value: Vec<u8>,
) -> Result<Part, String> {
    let headers = StoredHeaders::read(block);
    let message = Message {
        subject: text(subject),
        sequence: number("Nats-Sequence", Some(sequence))?,
        at: text(at),
        deleted: headers.say_deleted(),
        header_fault: headers.fault.map(str::to_owned),
        value,
    };
    Ok(Part::Message { message, after: number("Nats-Last-Sequence", said.after)? })
}

fn end(block: &[u8], said: &Said<'_>) -> Result<Part, String> {
    match headers::status(block) {
        Some(status) if status == b"204" || status.starts_with(b"204 ") => Ok(Part::End {
            left_out: number("Nats-Num-Pending", said.left_out)?,
            after: number("Nats-Last-Sequence", said.after)?,
            up_to: said.up_to.map(|up_to| number("Nats-UpTo-Sequence", Some(up_to))).transpose()?,
        }),
        Some(status) => Err(text(status)),
        None => Err("a message without its subject, sequence or time".to_owned()),
    }
}

/// A value as the API shows it in JSON: U+FFFD for each byte that is not UTF-8, also where several of them are one broken
/// character. Both ways of reading a bucket give a key the same spelling.
fn text(value: &[u8]) -> String {
    let mut text = String::new();
    for chunk in value.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

fn number(name: &str, value: Option<&[u8]>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("the header {name} is missing"))?;
    let digits = std::str::from_utf8(value).ok();
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| format!("the header {name} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: &str = "Nats-Subject: $KV.orders.a\r\nNats-Sequence: 6\r\nNats-Time-Stamp: 2026-11-29T13:26:00Z\r\nNats-Last-Sequence: 5\r\n\r\n";

    /// A message with these headers stored, as the server sends it.
    fn read(stored: &str) -> Part {
        parse(format!("{stored}{STORED}").as_bytes(), b"1".to_vec())
    }

    fn message(part: Part) -> Message {
        match part {
            Part::Message { message, after: 5 } => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_batch_is_asked_for_by_its_keys() {
        let request = get(Kv::new("orders"), &["a", "b"]);
        assert_eq!(request.subject, "$JS.API.DIRECT.GET.KV_orders");
        assert_eq!(
            String::from_utf8(request.body).unwrap(),
            r#"{"multi_last":["$KV.orders.a","$KV.orders.b"],"batch":2,"max_bytes":1048576}"#
        );
    }

    #[test]
    fn what_was_written_is_followed_from_a_sequence_on() {
        assert_eq!(
            String::from_utf8(after(Kv::new("orders"), 7, 2, 4096).body).unwrap(),
            r#"{"seq":7,"batch":2,"max_bytes":4096}"#
        );
    }

    #[test]
    fn messages_and_the_end_are_known_by_their_headers() {
        let plain = message(read("NATS/1.0\r\n"));
        assert_eq!((plain.sequence, plain.deleted, plain.value), (6, false, b"1".to_vec()));
        assert_eq!(plain.header_fault, None);
        assert!(message(read("NATS/1.0\r\nKV-Operation: DEL\r\n")).deleted);
        let end = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: 6\r\nNats-UpTo-Sequence: 9\r\n\r\n";
        assert_eq!(parse(end, Vec::new()), Part::End { left_out: 3, after: 6, up_to: Some(9) });
        assert!(is_part(end) && is_part(STORED.as_bytes()) && !is_part(b"NATS/1.0\r\nA: b\r\n\r\n"));
    }

    #[test]
    fn no_stored_header_changes_what_the_bus_says() {
        for forged in [
            "NATS/1.0\r\nNats-Subject: $KV.orders.b\r\nNats-Sequence: 9\r\nNats-Last-Sequence: 8\r\n",
            "NATS/1.0\r\nStatus: 204\r\nNats-Num-Pending: 0\r\nNats-UpTo-Sequence: 99\r\n",
            "NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n",
            "NATS/1.0 404 Not Found\r\n",
        ] {
            let message = message(read(forged));
            assert_eq!((message.subject.as_str(), message.sequence), ("$KV.orders.a", 6), "{forged:?}");
        }
    }

    #[test]
    fn a_key_keeps_its_unicode_white_space() {
        let block = format!("NATS/1.0\r\n{}", STORED.replace("orders.a", "orders.a\u{a0}"));
        assert_eq!(message(parse(block.as_bytes(), Vec::new())).subject, "$KV.orders.a\u{a0}");
    }

    #[test]
    fn stored_headers_that_cannot_be_read_are_a_fault_of_the_message_alone() {
        for (stored, fault) in [
            ("NATS/1.0\r\nno colon\r\n", "a header line has no colon"),
            ("whatever\r\n", "the header block does not start with NATS/1.0"),
            ("NATS/1.0\r\nA: \u{e9}\r\nno colon\r\n", "a header line has no colon"),
        ] {
            assert_eq!(message(read(stored)).header_fault.as_deref(), Some(fault), "{stored:?}");
        }
    }

    #[test]
    fn what_is_not_understood_makes_the_answer_unusable() {
        assert_eq!(
            parse(b"NATS/1.0 408 Empty Request\r\n\r\n", Vec::new()),
            Part::Unusable("408 Empty Request".to_owned())
        );
        let cut = STORED.replace("Nats-Subject", "Nats-Object");
        assert!(matches!(parse(cut.as_bytes(), Vec::new()), Part::Unusable(_)));
    }
}
