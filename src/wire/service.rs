//! The answers of the services API (ADR-32, "micro"): how the field's own tools find the seat and count its work.

use super::answer::{Identity, json};
use super::{QUEUE, SERVICE, VERB};
use mesh_jetstream::named::Named;
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// The endpoint's name.
const ENDPOINT: &str = "provisioning";

const DESCRIPTION: &str = "Tells what every module on every node needs, what is applied where, what is in every collection, and which domain answers which kind";

/// What a monitoring subject asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitor {
    /// Who is there.
    Ping,
    /// What it offers.
    Info,
    /// What it has done.
    Stats,
}

impl Monitor {
    const ALL: [(Monitor, &'static str); 3] =
        [(Monitor::Ping, "PING"), (Monitor::Info, "INFO"), (Monitor::Stats, "STATS")];

    /// What `subject` asks, if it is one of the nine subjects of the seat `id`.
    pub fn of(subject: &str, id: &str) -> Option<Self> {
        let mut tokens = subject.strip_prefix("$SRV.")?.splitn(3, '.');
        let word = tokens.next()?;
        let ours =
            tokens.next().is_none_or(|name| name == SERVICE) && tokens.next().is_none_or(|of| of == id);
        Monitor::ALL.into_iter().find(|(_, known)| ours && *known == word).map(|(monitor, _)| monitor)
    }

    /// The nine subjects of the seat `id`.
    pub fn subjects(id: &str) -> impl Iterator<Item = String> {
        Monitor::ALL.into_iter().flat_map(move |(_, word)| {
            [format!("$SRV.{word}"), format!("$SRV.{word}.{SERVICE}"), format!("$SRV.{word}.{SERVICE}.{id}")]
        })
    }
}

/// The subject that asks who holds the seat.
pub fn ping_subject() -> String {
    format!("$SRV.PING.{SERVICE}")
}

/// What the verb has done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests that came.
    pub requests: u64,
    /// Error answers.
    pub errors: u64,
    /// The last of them, in words.
    pub last_error: String,
    /// From a request's arrival to its answer, in all.
    pub time: Duration,
}

#[derive(Serialize)]
struct Head<'a> {
    r#type: &'static str,
    name: &'static str,
    id: &'a str,
    version: &'a str,
    metadata: Metadata,
}

/// Nothing: an object, since the standard wants one.
#[derive(Serialize)]
struct Metadata {}

impl<'a> Head<'a> {
    const fn new(r#type: &'static str, seat: &'a Identity) -> Self {
        Head {
            r#type,
            name: SERVICE,
            id: seat.id.as_str(),
            version: seat.version.as_str(),
            metadata: Metadata {},
        }
    }
}

/// The answer to `$SRV.PING`.
pub fn ping(seat: &Identity) -> String {
    json(&Head::new("io.nats.micro.v1.ping_response", seat))
}

/// The answer to `$SRV.INFO`.
pub fn info(seat: &Identity) -> String {
    #[derive(Serialize)]
    struct Info<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        description: &'static str,
        endpoints: [Endpoint; 1],
    }
    #[derive(Serialize)]
    struct Endpoint {
        name: &'static str,
        subject: &'static str,
        queue_group: &'static str,
        metadata: Schemas,
    }
    #[derive(Serialize)]
    struct Schemas {
        request_schema: &'static str,
        response_schema: &'static str,
    }
    json(&Info {
        head: Head::new("io.nats.micro.v1.info_response", seat),
        description: DESCRIPTION,
        endpoints: [Endpoint {
            name: ENDPOINT,
            subject: VERB,
            queue_group: QUEUE,
            metadata: Schemas {
                request_schema: "io.mesh.provisioner.v1.request",
                response_schema: "io.mesh.provisioner.v1.response",
            },
        }],
    })
}

/// The answer to `$SRV.STATS`. `started` is RFC 3339; `data` is the seat's own counters as JSON.
pub fn stats(seat: &Identity, started: &str, work: &Work, data: &RawValue) -> String {
    #[derive(Serialize)]
    struct Stats<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        started: &'a str,
        endpoints: [Endpoint<'a>; 1],
    }
    #[derive(Serialize)]
    struct Endpoint<'a> {
        name: &'static str,
        subject: &'static str,
        queue_group: &'static str,
        num_requests: u64,
        num_errors: u64,
        last_error: &'a str,
        processing_time: u64,
        average_processing_time: u64,
        data: &'a RawValue,
    }
    let nanoseconds = u64::try_from(work.time.as_nanos()).unwrap_or(u64::MAX);
    json(&Stats {
        head: Head::new("io.nats.micro.v1.stats_response", seat),
        started,
        endpoints: [Endpoint {
            name: ENDPOINT,
            subject: VERB,
            queue_group: QUEUE,
            num_requests: work.requests,
            num_errors: work.errors,
            last_error: &work.last_error,
            processing_time: nanoseconds,
            average_processing_time: nanoseconds.checked_div(work.requests).unwrap_or(0),
            data,
        }],
    })
}

/// The longest id or version of another seat, in bytes. Whoever says more is no seat: a nuid has 22.
const MAX_IDENTITY_BYTES: usize = 64;

/// Reads somebody's answer to `$SRV.PING`: who they are. Anybody may send one, and what it says ends up in answers
/// and in the log, so only what a seat would say is taken.
pub fn parse_ping(body: &[u8]) -> Option<Identity> {
    #[derive(serde::Deserialize)]
    struct Pong {
        name: String,
        id: String,
        version: String,
    }
    let Named(pong): Named<Pong> = serde_json::from_slice(body).ok()?;
    let plain = |text: &str| {
        (1..=MAX_IDENTITY_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    (pong.name == SERVICE && plain(&pong.id) && plain(&pong.version))
        .then_some(Identity { id: pong.id, version: pong.version })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat() -> Identity {
        Identity { id: "ID".to_owned(), version: "0.1.0".to_owned() }
    }

    #[test]
    fn the_nine_subjects_are_known_and_no_others() {
        let subjects: Vec<String> = Monitor::subjects("ID").collect();
        assert_eq!(subjects.len(), 9);
        assert!(subjects.contains(&"$SRV.STATS.mesh-provisioner.ID".to_owned()));
        assert!(subjects.iter().all(|subject| Monitor::of(subject, "ID").is_some()));
        assert_eq!(Monitor::of("$SRV.INFO", "ID"), Some(Monitor::Info));
        for other in ["$SRV.PING.other", "$SRV.PING.mesh-provisioner.OTHER", "$SRV.NEWS", "$SRV", VERB] {
            assert_eq!(Monitor::of(other, "ID"), None, "{other}");
        }
    }

    #[test]
    fn answers_are_spelled_as_the_standard_has_them() {
        assert_eq!(
            ping(&seat()),
            r#"{"type":"io.nats.micro.v1.ping_response","name":"mesh-provisioner","id":"ID","version":"0.1.0","metadata":{}}"#
        );
        assert_eq!(parse_ping(ping(&seat()).as_bytes()), Some(seat()));
        assert_eq!(parse_ping(br#"{"name":"other","id":"x","version":"1.0.0"}"#), None);
        let work =
            Work { requests: 4, errors: 1, last_error: "no".to_owned(), time: Duration::from_nanos(10) };
        let data = RawValue::from_string("{}".to_owned()).unwrap();
        assert_eq!(
            stats(&seat(), "2026-11-29T13:26:00Z", &work, &data),
            r#"{"type":"io.nats.micro.v1.stats_response","name":"mesh-provisioner","id":"ID","version":"0.1.0","metadata":{},"started":"2026-11-29T13:26:00Z","endpoints":[{"name":"provisioning","subject":"mesh-provisioner.provisioning","queue_group":"q","num_requests":4,"num_errors":1,"last_error":"no","processing_time":10,"average_processing_time":2,"data":{}}]}"#
        );
        let info: serde_json::Value = serde_json::from_str(&info(&seat())).unwrap();
        assert_eq!(info["endpoints"][0]["queue_group"], "q");
    }
}
