//! Messages that came.

use crate::gate::Taken;
use mesh_jetstream::direct_get::{self, Part};
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

/// A message of the inbox: an answer, or a part of one.
#[derive(Debug)]
pub struct Reply {
    /// The subject it was sent to.
    pub subject: String,
    /// The bus itself answers that nobody listens on a subject.
    pub no_responders: bool,
    /// What it is of the answer to a direct get in batches, if it has the marks of one; the body is in there then.
    pub part: Option<Part>,
    /// The body.
    pub body: Vec<u8>,
    _room: Room,
}

/// How many bytes of replies may wait to be taken, over what the subscription's own limit says of their number.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

/// The bytes of replies that wait to be taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting(Arc<AtomicUsize>);

/// What a reply takes of the room; given back when it is dropped.
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
        let Taken { subject, headers, body, .. } = message;
        let no_responders = body.is_empty() && is_no_responders(headers);
        let (part, body) = if !no_responders && direct_get::is_part(headers) {
            (Some(direct_get::parse(headers, body.to_vec())), Vec::new())
        } else {
            (None, body.to_vec())
        };
        Some(Reply { subject: subject.to_string(), no_responders, part, body, _room: room })
    }
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
        Taken { sid: 1, subject: "_INBOX.a.7".into(), reply: None, headers, body }
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
