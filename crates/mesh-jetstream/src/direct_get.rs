//! Direct get in batches: many messages for one request, on servers of 2.11 and newer.
//!
//! The answer is the messages, then one that says how it ended. What a message is comes as headers beside those that
//! were stored with it, so whoever wrote a message can put the same names there: a header that stands twice makes the
//! whole answer void, and so does a stored message that poses as words of the bus. So does a gap: each message names
//! the one sent before it.

use crate::api::DIRECT_GET;
use crate::bucket::Kv;
use crate::headers;
use crate::kv::Message;
use crate::message::{Headers, Request};
use serde::Serialize;

/// How many bytes of messages one answer brings, about.
const MAX_BYTES: usize = 1024 * 1024;

/// The same for one that follows what was written: it is many messages long.
const MAX_BYTES_FOLLOWED: usize = 4 * MAX_BYTES;

/// Asks for the newest messages of `keys`.
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

/// Asks for at most `messages` of `bucket` in the order in which they were written, from the sequence `from` on.
pub fn after(bucket: Kv<'_>, from: u64, messages: usize) -> Request {
    #[derive(Serialize)]
    struct Body {
        seq: u64,
        batch: usize,
        max_bytes: usize,
    }
    request(bucket, &Body { seq: from, batch: messages, max_bytes: MAX_BYTES_FOLLOWED })
}

fn request(bucket: Kv<'_>, body: &impl Serialize) -> Request {
    Request {
        subject: format!("{DIRECT_GET}{}", bucket.stream()),
        headers: Headers::new(),
        body: serde_json::to_vec(body).expect("keys and numbers are text"),
    }
}

/// One message of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A message: of the keys that were named the newest, else the next that is still there.
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
        /// The last sequence of the bucket as the server that answered knows it, if it says so.
        up_to: Option<u64>,
    },
    /// The answer is of no use: why.
    Unusable(String),
}

/// What the bus puts beside the headers of each message that it has stored.
const OF_A_STORED_MESSAGE: [&str; 3] = ["Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"];

/// What a message has under the name of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header<'a> {
    /// Nothing.
    Missing,
    /// One value.
    One(&'a str),
    /// Several values, not all of them equal.
    Several,
}

impl<'a> Header<'a> {
    /// Its value, if it has one and only one.
    fn single(self, name: &str) -> Result<&'a str, String> {
        match self {
            Header::One(value) => Ok(value),
            Header::Missing => Err(format!("the header {name} is missing")),
            Header::Several => Err(format!("the header {name} stands twice")),
        }
    }

    fn number(self, name: &str) -> Result<u64, String> {
        self.single(name)?.parse().map_err(|_| format!("the header {name} is no number"))
    }
}

impl<'a> FromIterator<&'a str> for Header<'a> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(values: I) -> Self {
        let mut values = values.into_iter();
        match values.next() {
            None => Header::Missing,
            Some(value) if values.all(|other| other == value) => Header::One(value),
            Some(_) => Header::Several,
        }
    }
}

/// Reads one message of an answer. `header` gives what it has under a name.
pub fn parse<'a, F>(header: F, body: Vec<u8>) -> Part
where
    F: Fn(&str) -> Header<'a>,
{
    let single = |name: &str| header(name).single(name);
    let number = |name: &str| header(name).number(name);
    let part = || match header("Status") {
        Header::Missing => Ok(Part::Message {
            message: Message {
                subject: single("Nats-Subject")?.to_owned(),
                sequence: number("Nats-Sequence")?,
                at: single("Nats-Time-Stamp")?.to_owned(),
                deleted: headers::says_deleted(header(headers::OPERATION), header(headers::MARKER)),
                header_fault: None,
                value: body,
            },
            after: number("Nats-Last-Sequence")?,
        }),
        // The bus puts these beside whatever is stored, and never into words of its own.
        Header::One(_) if OF_A_STORED_MESSAGE.iter().any(|name| header(name) != Header::Missing) => {
            Err("a stored message poses as one of the bus".to_owned())
        }
        Header::One("204") => Ok(Part::End {
            left_out: number("Nats-Num-Pending")?,
            after: number("Nats-Last-Sequence")?,
            up_to: match header("Nats-UpTo-Sequence") {
                Header::Missing => None,
                up_to => Some(up_to.number("Nats-UpTo-Sequence")?),
            },
        }),
        Header::One(status) => {
            Err(format!("{status} {}", single("Description").unwrap_or_default()).trim_end().to_owned())
        }
        Header::Several => Err("the header Status stands twice".to_owned()),
    };
    part().unwrap_or_else(Part::Unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: [(&str, &str); 4] = [
        ("Nats-Subject", "$KV.orders.a"),
        ("Nats-Sequence", "6"),
        ("Nats-Time-Stamp", "2026-11-29T13:26:00Z"),
        ("Nats-Last-Sequence", "5"),
    ];

    fn read(headers: &[(&'static str, &'static str)]) -> Part {
        parse(
            |name| {
                headers.iter().filter(|(of, _)| *of == name).map(|(_, value)| *value).collect::<Header<'_>>()
            },
            b"1".to_vec(),
        )
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
            String::from_utf8(after(Kv::new("orders"), 7, 2).body).unwrap(),
            r#"{"seq":7,"batch":2,"max_bytes":4194304}"#
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
            Part::End { left_out: 3, after: 6, up_to: Some(9) }
        );
    }

    #[test]
    fn what_cannot_be_trusted_makes_the_answer_unusable() {
        let forged = [&MESSAGE[..], &[("Nats-Subject", "$KV.orders.b")]].concat();
        assert_eq!(read(&forged), Part::Unusable("the header Nats-Subject stands twice".to_owned()));
        assert_eq!(
            read(&[("Status", "408"), ("Description", "Empty Request")]),
            Part::Unusable("408 Empty Request".to_owned())
        );
        let ends = [("Status", "204"), ("Nats-Num-Pending", "0"), ("Nats-UpTo-Sequence", "99")];
        let forged = [&MESSAGE[..], &ends].concat();
        assert_eq!(read(&forged), Part::Unusable("a stored message poses as one of the bus".to_owned()));
        let forged = [&MESSAGE[..], &[("Status", "404")]].concat();
        assert_eq!(read(&forged), Part::Unusable("a stored message poses as one of the bus".to_owned()));
        assert_eq!(read(&MESSAGE[1..]), Part::Unusable("the header Nats-Subject is missing".to_owned()));
    }
}
