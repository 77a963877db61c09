//! Push consumers: creating one, and what it delivers.
//!
//! A consumer of this kind brings the last message of each key that its filter matches, and then what is written. It
//! needs no acknowledgements, and the server removes it when nobody subscribes to its deliver subject any more. The
//! same fields work on every supported server.

use std::time::Duration;

use crate::api::{ApiError, CONSUMER_CREATE, ErrorBody};
use crate::bucket::Kv;
use crate::headers::{self, StoredHeaders};
use crate::message::{Headers, Request};
use crate::named::Named;
use serde::{Deserialize, Serialize};

/// A consumer that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The bucket that it reads.
    pub bucket: Kv<'a>,
    /// Its name: new for each consumer, since a name stays taken for seconds, and hard to guess, since who knows it can
    /// take it first.
    pub name: &'a str,
    /// Which keys, with wildcards. The server compares this filter in the body with the one in the subject.
    pub keys: &'a str,
    /// Where it delivers: a literal subject. To a server a subscription with a wildcard is not interest in it.
    pub deliver: &'a str,
    /// How often it says that it is there, while it has nothing to deliver.
    pub heartbeat: Duration,
    /// How long the server keeps it while nobody subscribes to its deliver subject.
    pub inactive: Duration,
}

impl Wanted<'_> {
    /// The subject of the request that creates it, which the rights of an account name.
    pub fn subject(&self) -> String {
        format!("{CONSUMER_CREATE}{}.{}.{}", self.bucket.stream(), self.name, self.bucket.subject(self.keys))
    }

    /// The request that creates it.
    ///
    /// ```
    /// use mesh_jetstream::bucket::Kv;
    /// use mesh_jetstream::consumer::Wanted;
    /// use std::time::Duration;
    /// let wanted = Wanted {
    ///     bucket: Kv::new("b"),
    ///     name: "c1",
    ///     keys: "attic.>",
    ///     deliver: "_INBOX.c.0",
    ///     heartbeat: Duration::from_secs(5),
    ///     inactive: Duration::from_secs(1),
    /// };
    /// assert_eq!(wanted.create().subject, "$JS.API.CONSUMER.CREATE.KV_b.c1.$KV.b.attic.>");
    /// ```
    pub fn create(&self) -> Request {
        #[derive(Serialize)]
        struct Body<'a> {
            stream_name: String,
            config: Config<'a>,
        }
        #[derive(Serialize)]
        struct Config<'a> {
            name: &'a str,
            deliver_subject: &'a str,
            deliver_policy: &'static str,
            ack_policy: &'static str,
            replay_policy: &'static str,
            filter_subject: String,
            idle_heartbeat: u128,
            inactive_threshold: u128,
            mem_storage: bool,
        }
        let body = Body {
            stream_name: self.bucket.stream(),
            config: Config {
                name: self.name,
                deliver_subject: self.deliver,
                deliver_policy: "last_per_subject",
                ack_policy: "none",
                replay_policy: "instant",
                filter_subject: self.bucket.subject(self.keys),
                idle_heartbeat: self.heartbeat.as_nanos(),
                inactive_threshold: self.inactive.as_nanos(),
                mem_storage: true,
            },
        };
        Request {
            subject: self.subject(),
            headers: Headers::new(),
            body: serde_json::to_vec(&body).expect("texts and numbers"),
        }
    }
}

/// Asks the server to remove a consumer at once. It does so by itself when nobody subscribes any more.
pub fn delete(bucket: Kv<'_>, name: &str) -> Request {
    Request {
        subject: format!("$JS.API.CONSUMER.DELETE.{}.{name}", bucket.stream()),
        headers: Headers::new(),
        body: Vec::new(),
    }
}

/// Parses the answer to [`delete`].
pub fn parse_deleted(body: &[u8]) -> Result<(), ApiError> {
    #[derive(Deserialize)]
    struct Body {
        error: Option<Named<ErrorBody>>,
        #[serde(default)]
        success: bool,
    }
    match serde_json::from_slice(body).map(|Named(body)| body) {
        Err(why) => Err(ApiError::Unreadable(why.to_string())),
        Ok(Body { error: Some(Named(error)), .. }) => Err(error.into()),
        Ok(Body { success: true, .. }) => Ok(()),
        Ok(_) => Err(ApiError::Unreadable("the answer does not say success".to_owned())),
    }
}

/// What the server says of a consumer that it made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its name, as asked.
    pub name: String,
    /// How many messages it has to deliver before the list is complete.
    pub pending: u64,
}

/// Parses the answer to [`Wanted::create`].
pub fn parse_created(body: &[u8]) -> Result<Created, ApiError> {
    #[derive(Deserialize)]
    struct Body {
        error: Option<Named<ErrorBody>>,
        name: Option<String>,
        num_pending: Option<u64>,
    }
    let Named(body): Named<Body> =
        serde_json::from_slice(body).map_err(|why| ApiError::Unreadable(why.to_string()))?;
    if let Some(Named(error)) = body.error {
        return Err(error.into());
    }
    match (body.name, body.num_pending) {
        (Some(name), Some(pending)) => Ok(Created { name, pending }),
        _ => Err(ApiError::Unreadable("the consumer's name or its pending messages are missing".to_owned())),
    }
}

/// What the reply subject of a delivered message says of it: `$JS.ACK.…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The stream.
    pub stream: &'a str,
    /// The consumer.
    pub consumer: &'a str,
    /// The message's sequence in the stream: the key's revision.
    pub sequence: u64,
    /// Its number among the consumer's deliveries, from 1 on without gaps.
    pub delivery: u64,
    /// When it was stored, in nanoseconds since 1970.
    pub stored: u64,
    /// How many are still to come.
    pub pending: u64,
}

/// Parses the reply subject of a delivered message, in both of its forms:
/// `$JS.ACK.<stream>.<consumer>.<tries>.<sequence>.<delivery>.<stored>.<pending>`, and with a domain and the hash of an
/// account before the stream and possibly a random token at the end.
///
/// ```
/// use mesh_jetstream::consumer::place;
/// let short = place("$JS.ACK.KV_b.c1.1.44.7.1796082841714165364.3").unwrap();
/// assert_eq!((short.sequence, short.delivery, short.pending), (44, 7, 3));
/// let long = place("$JS.ACK.hub.9xQ.KV_b.c1.1.44.7.1796082841714165364.3.Zk").unwrap();
/// assert_eq!(short, long);
/// assert_eq!(place("_INBOX.1"), None);
/// ```
pub fn place(reply: &str) -> Option<Place<'_>> {
    let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let tokens = match tokens.len() {
        7 => &tokens[..],
        9 | 10 => &tokens[2..9],
        _ => return None,
    };
    let number = |place: usize| tokens[place].parse().ok();
    Some(Place {
        stream: tokens[0],
        consumer: tokens[1],
        sequence: number(3)?,
        delivery: number(4)?,
        stored: number(5)?,
        pending: number(6)?,
    })
}

/// What arrives at a deliver subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed<'a> {
    /// A message of the bucket.
    Message {
        /// Its key.
        key: &'a str,
        /// Where it stands.
        place: Place<'a>,
        /// Whether it marks the key as deleted.
        deleted: bool,
        /// What is wrong with its headers.
        header_fault: Option<&'static str>,
    },
    /// The consumer is there and has delivered everything.
    Heartbeat {
        /// The number of its last delivery; 0 before the first.
        last: u64,
    },
    /// Something else, which anyone with the right may have sent.
    Foreign,
}

/// Tells what arrived; `headers` is the raw block, empty if there is none.
pub fn parse_pushed<'a>(
    bucket: Kv<'_>,
    subject: &'a str,
    reply: Option<&'a str>,
    headers: &[u8],
) -> Pushed<'a> {
    let prefix = bucket.subject_prefix();
    if let (Some(key), Some(place)) = (subject.strip_prefix(&prefix), reply.and_then(place)) {
        let headers = StoredHeaders::read(headers);
        return Pushed::Message { key, place, deleted: headers.say_deleted(), header_fault: headers.fault };
    }
    // A heartbeat of a consumer that flow control has stopped has a reply subject in place of the header.
    let is_heartbeat = headers::status(headers).is_some_and(|status| status.starts_with(b"100"));
    let last = headers::fields(headers)
        .find(|(name, _)| *name == b"Nats-Last-Consumer")
        .and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
    match last {
        Some(last) if is_heartbeat => Pushed::Heartbeat { last },
        _ => Pushed::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKET: Kv<'static> = Kv::new("b");

    fn wanted() -> Wanted<'static> {
        Wanted {
            bucket: BUCKET,
            name: "c1",
            keys: "attic.>",
            deliver: "_INBOX_mesh.node.attic.x.c.0",
            heartbeat: Duration::from_secs(5),
            inactive: Duration::from_millis(500),
        }
    }

    #[test]
    fn the_filter_of_the_subject_stands_in_the_body_too() {
        let request = wanted().create();
        assert_eq!(request.subject, "$JS.API.CONSUMER.CREATE.KV_b.c1.$KV.b.attic.>");
        let body = String::from_utf8(request.body).unwrap();
        assert_eq!(
            body,
            r#"{"stream_name":"KV_b","config":{"name":"c1","deliver_subject":"_INBOX_mesh.node.attic.x.c.0","deliver_policy":"last_per_subject","ack_policy":"none","replay_policy":"instant","filter_subject":"$KV.b.attic.>","idle_heartbeat":5000000000,"inactive_threshold":500000000,"mem_storage":true}}"#
        );
        assert_eq!(delete(BUCKET, "c1").subject, "$JS.API.CONSUMER.DELETE.KV_b.c1");
    }

    /// As 2.9.10 and 2.15.1 answered.
    #[test]
    fn answers_are_told_apart() {
        let old = br#"{"type":"io.nats.jetstream.api.v1.consumer_create_response","stream_name":"KV_b","name":"one","created":"2026-11-30T23:53:45.165068002Z","config":{"name":"one","deliver_policy":"last_per_subject","ack_policy":"none","max_deliver":-1,"filter_subject":"$KV.b.n.\u003e","replay_policy":"instant","idle_heartbeat":1000000000,"deliver_subject":"I.c.0","inactive_threshold":2000000000,"num_replicas":1,"mem_storage":true},"delivered":{"consumer_seq":0,"stream_seq":0},"ack_floor":{"consumer_seq":0,"stream_seq":0},"num_ack_pending":0,"num_redelivered":0,"num_waiting":0,"num_pending":2,"push_bound":true}"#;
        assert_eq!(parse_created(old).unwrap(), Created { name: "one".to_owned(), pending: 2 });
        let missing = br#"{"type":"io.nats.jetstream.api.v1.consumer_create_response","error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        assert_eq!(parse_created(missing).unwrap_err().err_code(), Some(ApiError::NO_STREAM));
        for nonsense in [&b"{}"[..], b"", b"[]", br#"{"name":"one"}"#, br#"{"name":"one","num_pending":-1}"#]
        {
            assert!(matches!(parse_created(nonsense), Err(ApiError::Unreadable(_))), "{nonsense:?}");
        }
        assert_eq!(parse_deleted(br#"{"success":true}"#), Ok(()));
        let gone = br#"{"error":{"code":404,"err_code":10014,"description":"consumer not found"}}"#;
        assert_eq!(parse_deleted(gone).unwrap_err().err_code(), Some(10014));
    }

    #[test]
    fn reply_subjects_of_another_form_are_no_place() {
        for reply in [
            "$JS.ACK.KV_b.c1.1.44.7.1796082841714165364",
            "$JS.ACK.KV_b.c1.1.44.7.1796082841714165364.3.4",
            "$JS.ACK.KV_b.c1.1.-44.7.1796082841714165364.3",
            "$JS.ACK.a.b.KV_b.c1.1.44.7.1796082841714165364.3.x.y",
            "$JS.ACK",
            "",
        ] {
            assert_eq!(place(reply), None, "{reply}");
        }
        let nine = place("$JS.ACK._.9xQ.KV_b.c1.1.44.7.1796082841714165364.3").unwrap();
        assert_eq!((nine.stream, nine.consumer, nine.pending), ("KV_b", "c1", 3));
    }

    #[test]
    fn what_arrives_is_a_message_a_heartbeat_or_foreign() {
        let reply = Some("$JS.ACK.KV_b.c1.1.2.2.1796082841714383188.0");
        let pushed = parse_pushed(BUCKET, "$KV.b.attic.web", reply, b"");
        assert!(matches!(pushed, Pushed::Message { key: "attic.web", deleted: false, .. }), "{pushed:?}");
        let marker = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n";
        let pushed = parse_pushed(BUCKET, "$KV.b.attic.web", reply, marker);
        assert!(matches!(pushed, Pushed::Message { deleted: true, .. }), "{pushed:?}");
        let heartbeat =
            b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 3\r\n\r\n";
        assert_eq!(parse_pushed(BUCKET, "I.c.0", None, heartbeat), Pushed::Heartbeat { last: 2 });
        assert_eq!(parse_pushed(BUCKET, "$KV.b.attic.web", None, b""), Pushed::Foreign);
        assert_eq!(parse_pushed(BUCKET, "$KV.other.attic.web", reply, b""), Pushed::Foreign);
        assert_eq!(parse_pushed(BUCKET, "I.c.0", None, b"NATS/1.0 100\r\n\r\n"), Pushed::Foreign);
    }
}
