//! Direct get in batches: many values for one request, on servers of 2.11 and newer.
//!
//! The answer is a message for each key, then one that says how it ended. What a message is comes as headers beside
//! those that were stored with it, so whoever wrote a message can put the same names there: a header that stands
//! twice makes the whole answer void, and so does a stored message that poses as the end. So does a gap: each message
//! names the one sent before it.

use super::Headers;
use super::jetstream::{Message, Request};
use crate::bucket::Bucket;
use serde::Serialize;

/// How many bytes of values one answer brings, about.
const MAX_BYTES: usize = 1024 * 1024;

/// Asks for the newest messages of `keys`.
pub fn get(bucket: Bucket, keys: &[&str]) -> Request {
    #[derive(Serialize)]
    struct Body {
        multi_last: Vec<String>,
        batch: usize,
        max_bytes: usize,
    }
    let prefix = bucket.subject_prefix();
    let multi_last = keys.iter().map(|key| format!("{prefix}{key}")).collect();
    Request {
        subject: format!("$JS.API.DIRECT.GET.{}", bucket.stream()),
        headers: Headers::new(),
        body: serde_json::to_vec(&Body { multi_last, batch: keys.len(), max_bytes: MAX_BYTES })
            .expect("keys are text"),
    }
}

/// One message of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The newest message of a key.
    Message {
        /// The message.
        message: Message,
        /// The sequence of the message sent before it; 0 if it is the first.
        after: u64,
    },
    /// The end.
    End {
        /// How many messages were left out because the answer had enough bytes.
        left_out: u64,
        /// The sequence of the message sent before it.
        after: u64,
        /// The last sequence of the bucket as the server that answered knows it.
        up_to: u64,
    },
    /// The answer is of no use: why.
    Void(String),
}

/// What the bus puts beside the headers of each message that it has stored.
const OF_A_STORED_MESSAGE: [&str; 3] = ["Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"];

/// Reads one message of an answer. `header` gives all values of a header.
pub fn parse<'a, F>(header: F, body: Vec<u8>) -> Part
where
    F: Fn(&str) -> Vec<&'a str>,
{
    let single = |name: &str| match header(name)[..] {
        [value] => Ok(value),
        [] => Err(format!("the header {name} is missing")),
        _ => Err(format!("the header {name} stands twice")),
    };
    let number = |name: &str| single(name)?.parse().map_err(|_| format!("the header {name} is no number"));
    let part = || match header("Status")[..] {
        [] => Ok(Part::Message {
            message: Message {
                subject: single("Nats-Subject")?.to_owned(),
                sequence: number("Nats-Sequence")?,
                at: single("Nats-Time-Stamp")?.to_owned(),
                deleted: header("KV-Operation").iter().any(|operation| *operation != "PUT")
                    || !header("Nats-Marker-Reason").is_empty(),
                header_fault: None,
                value: body,
            },
            after: number("Nats-Last-Sequence")?,
        }),
        // The bus puts these beside whatever is stored, and never into the end.
        ["204"] if OF_A_STORED_MESSAGE.iter().any(|name| !header(name).is_empty()) => {
            Err("a stored message poses as the end".to_owned())
        }
        ["204"] => Ok(Part::End {
            left_out: number("Nats-Num-Pending")?,
            after: number("Nats-Last-Sequence")?,
            up_to: number("Nats-UpTo-Sequence")?,
        }),
        _ => Err(format!("{} {}", header("Status").join(" "), header("Description").join(" "))),
    };
    part().unwrap_or_else(Part::Void)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: [(&str, &str); 4] = [
        ("Nats-Subject", "$KV.mesh-provisioner_needs.a"),
        ("Nats-Sequence", "6"),
        ("Nats-Time-Stamp", "2026-11-29T13:26:00Z"),
        ("Nats-Last-Sequence", "5"),
    ];

    fn read(headers: &[(&'static str, &'static str)]) -> Part {
        parse(
            |name| headers.iter().filter(|(of, _)| *of == name).map(|(_, value)| *value).collect(),
            b"1".to_vec(),
        )
    }

    #[test]
    fn a_batch_is_asked_for_by_its_keys() {
        let request = get(Bucket::Needs, &["a", "b"]);
        assert_eq!(request.subject, "$JS.API.DIRECT.GET.KV_mesh-provisioner_needs");
        assert_eq!(
            String::from_utf8(request.body).unwrap(),
            r#"{"multi_last":["$KV.mesh-provisioner_needs.a","$KV.mesh-provisioner_needs.b"],"batch":2,"max_bytes":1048576}"#
        );
    }

    #[test]
    fn messages_and_the_end_are_known_by_their_headers() {
        let Part::Message { message, after: 5 } = read(&MESSAGE) else { panic!("no message") };
        assert_eq!((message.sequence, message.deleted, message.value), (6, false, b"1".to_vec()));
        let deleted = [&MESSAGE[..], &[("KV-Operation", "DEL")]].concat();
        assert!(matches!(read(&deleted), Part::Message { message: Message { deleted: true, .. }, .. }));
        assert_eq!(
            read(&[
                ("Status", "204"),
                ("Description", "EOB"),
                ("Nats-Num-Pending", "3"),
                ("Nats-Last-Sequence", "6"),
                ("Nats-UpTo-Sequence", "9")
            ]),
            Part::End { left_out: 3, after: 6, up_to: 9 }
        );
    }

    #[test]
    fn what_cannot_be_trusted_voids_the_answer() {
        let forged = [&MESSAGE[..], &[("Nats-Subject", "$KV.mesh-provisioner_needs.b")]].concat();
        assert_eq!(read(&forged), Part::Void("the header Nats-Subject stands twice".to_owned()));
        assert_eq!(
            read(&[("Status", "408"), ("Description", "Empty Request")]),
            Part::Void("408 Empty Request".to_owned())
        );
        let ends = [("Status", "204"), ("Nats-Num-Pending", "0"), ("Nats-UpTo-Sequence", "99")];
        let forged = [&MESSAGE[..], &ends].concat();
        assert_eq!(read(&forged), Part::Void("a stored message poses as the end".to_owned()));
        assert_eq!(read(&MESSAGE[1..]), Part::Void("the header Nats-Subject is missing".to_owned()));
    }
}
