//! Messages that came.

use crate::gate::{FIRST_OWN_SID, Taken};
use mesh_jetstream::direct_get::{self, Part};
use mesh_jetstream::headers;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A message of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The subject it was sent to.
    pub subject: String,
    /// Where an answer is to go.
    pub reply: Option<String>,
    /// The bus itself answers that nobody listens on a subject.
    pub no_responders: bool,
    /// The code and the words of a service's error.
    pub error: Option<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// A message of the inbox: an answer, a part of one, or what a consumer delivers.
#[derive(Debug)]
pub struct Reply {
    /// The subject it was sent to.
    pub subject: String,
    /// The consumer's message, if it came to one of the inbox's subjects for deliveries. Everything else is empty then.
    pub delivery: Option<Delivery>,
    /// The code and the words of a service's error.
    pub error: Option<(String, String)>,
    /// The bus itself answers that nobody listens on a subject.
    pub no_responders: bool,
    /// What it is of the answer to a direct get in batches, if it has the marks of one; the body is in there then.
    pub part: Option<Part>,
    /// The body.
    pub body: Vec<u8>,
    _room: Room,
}

/// What a consumer delivers to `<prefix>.c.<place>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Which of the inbox's subjects for deliveries it came to.
    pub place: usize,
    /// The subject of the stored message; the inbox's own for a heartbeat.
    pub subject: String,
    /// The reply subject, which holds the message's numbers (`$JS.ACK…`).
    pub reply: Option<String>,
    /// The header block as it was sent; empty if there is none.
    pub headers: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// How many bytes of replies may wait to be taken, over what the subscription's own limit says of their number.
pub const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

/// The bytes of replies that wait to be taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting(Arc<AtomicUsize>);

/// The room that a reply takes; freed when it is dropped.
#[derive(Debug)]
struct Room {
    waiting: Waiting,
    bytes: usize,
}

impl Waiting {
    /// `None`: so much waits already that this one is dropped.
    pub(crate) fn take_in(&self, message: &Taken<'_>) -> Option<Reply> {
        let bytes = message.headers.len() + message.body.len();
        let waiting = self.0.fetch_add(bytes, Ordering::Relaxed);
        let room = Room { waiting: self.clone(), bytes };
        if waiting > MAX_WAITING_BYTES {
            return None;
        }
        let Taken { sid, subject, reply, headers, body } = message;
        if let Some(place) = delivery_place(*sid) {
            let delivery = Delivery {
                place,
                subject: subject.to_string(),
                reply: reply.as_ref().map(ToString::to_string),
                headers: headers.to_vec(),
                body: body.to_vec(),
            };
            let subject = String::new();
            return Some(Reply {
                subject,
                delivery: Some(delivery),
                error: None,
                no_responders: false,
                part: None,
                body: Vec::new(),
                _room: room,
            });
        }
        let no_responders = body.is_empty() && is_no_responders(headers);
        let error = if headers.is_empty() { None } else { headers::service_error(headers) };
        let (part, body) = if !no_responders && direct_get::is_part(headers) {
            (Some(direct_get::parse(headers, body.to_vec())), Vec::new())
        } else {
            (None, body.to_vec())
        };
        let subject = subject.to_string();
        Some(Reply { subject, delivery: None, error, no_responders, part, body, _room: room })
    }
}

/// The subscriptions of an inbox, in the order in which the gate makes them: the one for replies, then those for
/// deliveries.
pub(crate) fn inbox_subjects(prefix: &str, deliveries: usize) -> Vec<String> {
    let deliveries = (0..deliveries).map(|place| format!("{prefix}.c.{place}"));
    std::iter::once(format!("{prefix}.*")).chain(deliveries).collect()
}

/// The place of a delivery, from the number of the gate's subscription.
fn delivery_place(sid: u64) -> Option<usize> {
    usize::try_from(sid.checked_sub(FIRST_OWN_SID + 1)?).ok()
}

fn is_no_responders(headers: &[u8]) -> bool {
    headers
        .strip_prefix(b"NATS/1.0 503")
        .is_some_and(|rest| matches!(rest.first(), Some(b'\r' | b'\n' | b' ')))
}

impl Drop for Room {
    fn drop(&mut self) {
        self.waiting.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken<'a>(headers: &'a [u8], body: &'a [u8]) -> Taken<'a> {
        Taken { sid: FIRST_OWN_SID, subject: "_INBOX.a.7".into(), reply: None, headers, body }
    }

    #[test]
    fn a_delivery_keeps_the_subject_and_the_numbers_of_the_stored_message() {
        assert_eq!(inbox_subjects("_INBOX.a", 2), ["_INBOX.a.*", "_INBOX.a.c.0", "_INBOX.a.c.1"]);
        let waiting = Waiting::default();
        let reply = waiting
            .take_in(&Taken {
                sid: FIRST_OWN_SID + 2,
                subject: "$KV.b.attic".into(),
                reply: Some("$JS.ACK.KV_b.c.1.7.1.0.0".into()),
                headers: b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n",
                body: b"x",
            })
            .unwrap();
        let delivery = Delivery {
            place: 1,
            subject: "$KV.b.attic".to_owned(),
            reply: Some("$JS.ACK.KV_b.c.1.7.1.0.0".to_owned()),
            headers: b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n".to_vec(),
            body: b"x".to_vec(),
        };
        assert_eq!((reply.delivery, reply.no_responders, reply.error), (Some(delivery), false, None));
    }

    #[test]
    fn the_error_of_a_service_is_read_from_the_headers() {
        let waiting = Waiting::default();
        let headers = b"NATS/1.0\r\nNats-Service-Error: not assigned\r\nNats-Service-Error-Code: 403\r\n\r\n";
        let reply = waiting.take_in(&taken(headers, b"{}")).unwrap();
        assert_eq!(reply.error, Some(("403".to_owned(), "not assigned".to_owned())));
    }

    #[test]
    fn an_answer_is_told_from_a_part_and_from_nobody() {
        let waiting = Waiting::default();
        let plain = waiting.take_in(&taken(b"", b"{}")).unwrap();
        assert_eq!((plain.no_responders, plain.part, &plain.body[..]), (false, None, &b"{}"[..]));
        let nobody = waiting.take_in(&taken(b"NATS/1.0 503\r\n\r\n", b"")).unwrap();
        assert!(nobody.no_responders && nobody.part.is_none());
        let end = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 6\r\n\r\n";
        let end = waiting.take_in(&taken(end, b"")).unwrap();
        assert_eq!(end.part, Some(Part::End { left_out: 0, after: 6, up_to: None }));
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_taking_it_makes_room() {
        let waiting = Waiting::default();
        let large = vec![0; MAX_WAITING_BYTES + 1];
        let first = waiting.take_in(&taken(b"", &large)).unwrap();
        assert!(waiting.take_in(&taken(b"", b"x")).is_none());
        drop(first);
        assert!(waiting.take_in(&taken(b"", b"x")).is_some());
    }
}
