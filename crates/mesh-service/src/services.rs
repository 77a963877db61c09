//! The responses of the services API (ADR-32, "micro"): how NATS tools find a service and count its work.

use crate::identity::Identity;
use crate::json::json;
use mesh_jetstream::named::Named;
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// A service of one verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub description: &'static str,
    /// The name of its endpoint.
    pub endpoint: &'static str,
    /// The subject of the verb that the endpoint answers.
    pub verb: &'static str,
    /// Its queue group.
    pub queue: &'static str,
    /// The schema id of a request.
    pub request_schema: &'static str,
    /// The schema id of a response.
    pub response_schema: &'static str,
}

/// One verb of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name.
    pub name: &'static str,
    /// Its subject.
    pub subject: &'static str,
    /// Its queue group.
    pub queue: &'static str,
    /// The schema id of a request.
    pub request_schema: &'static str,
    /// The schema id of a response.
    pub response_schema: &'static str,
}

/// The request type of a monitoring subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitor {
    /// Which instances there are.
    Ping,
    /// What it offers.
    Info,
    /// What it has done.
    Stats,
}

impl Monitor {
    const ALL: [(Monitor, &'static str); 3] =
        [(Monitor::Ping, "PING"), (Monitor::Info, "INFO"), (Monitor::Stats, "STATS")];
}

/// The statistics of the verb.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests that came.
    pub requests: u64,
    /// Error responses.
    pub errors: u64,
    /// The last of them, as text.
    pub last_error: String,
    /// The total time from arrival to response.
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

/// Empty: the standard requires an object.
#[derive(Serialize)]
struct Metadata {}

impl Service {
    /// The request type of `subject`, if it is one of the nine monitoring subjects of the instance `id`.
    pub fn monitor(&self, subject: &str, id: &str) -> Option<Monitor> {
        let mut tokens = subject.strip_prefix("$SRV.")?.splitn(3, '.');
        let word = tokens.next()?;
        let ours =
            tokens.next().is_none_or(|name| name == self.name) && tokens.next().is_none_or(|of| of == id);
        Monitor::ALL.into_iter().find(|(_, known)| ours && *known == word).map(|(monitor, _)| monitor)
    }

    /// The nine monitoring subjects of the instance `id`.
    pub fn monitored(&self, id: &str) -> impl Iterator<Item = String> {
        let name = self.name;
        Monitor::ALL.into_iter().flat_map(move |(_, word)| {
            [format!("$SRV.{word}"), format!("$SRV.{word}.{name}"), format!("$SRV.{word}.{name}.{id}")]
        })
    }

    /// The subject of a ping to all instances.
    pub fn ping_subject(&self) -> String {
        format!("$SRV.PING.{}", self.name)
    }

    fn head<'a>(&self, r#type: &'static str, instance: &'a Identity) -> Head<'a> {
        let (id, version) = (instance.id.as_str(), instance.version.as_str());
        Head { r#type, name: self.name, id, version, metadata: Metadata {} }
    }

    /// The response of `instance` to `$SRV.PING`.
    pub fn ping(&self, instance: &Identity) -> String {
        json(&self.head("io.nats.micro.v1.ping_response", instance))
    }

    /// The endpoint of the service's one verb.
    pub const fn own_endpoint(&self) -> Endpoint {
        Endpoint {
            name: self.endpoint,
            subject: self.verb,
            queue: self.queue,
            request_schema: self.request_schema,
            response_schema: self.response_schema,
        }
    }

    /// The response of `instance` to `$SRV.INFO`.
    pub fn info(&self, instance: &Identity) -> String {
        self.info_of(instance, &[self.own_endpoint()])
    }

    /// The same for a service of several verbs.
    pub fn info_of(&self, instance: &Identity, endpoints: &[Endpoint]) -> String {
        #[derive(Serialize)]
        struct Info<'a> {
            #[serde(flatten)]
            head: Head<'a>,
            description: &'static str,
            endpoints: Vec<Described>,
        }
        #[derive(Serialize)]
        struct Described {
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
        let describe = |endpoint: &Endpoint| Described {
            name: endpoint.name,
            subject: endpoint.subject,
            queue_group: endpoint.queue,
            metadata: Schemas {
                request_schema: endpoint.request_schema,
                response_schema: endpoint.response_schema,
            },
        };
        json(&Info {
            head: self.head("io.nats.micro.v1.info_response", instance),
            description: self.description,
            endpoints: endpoints.iter().map(describe).collect(),
        })
    }

    /// The response of `instance` to `$SRV.STATS`. `started` is RFC 3339; `data` is the service's own counters as
    /// JSON.
    pub fn stats(&self, instance: &Identity, started: &str, work: &Work, data: &RawValue) -> String {
        self.stats_of(instance, started, &[(self.own_endpoint(), work)], data)
    }

    /// The same for a service of several verbs, each with its own work.
    pub fn stats_of(
        &self,
        instance: &Identity,
        started: &str,
        endpoints: &[(Endpoint, &Work)],
        data: &RawValue,
    ) -> String {
        #[derive(Serialize)]
        struct Stats<'a> {
            #[serde(flatten)]
            head: Head<'a>,
            started: &'a str,
            endpoints: Vec<Counted<'a>>,
        }
        #[derive(Serialize)]
        struct Counted<'a> {
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
        let mut counted = Vec::new();
        for (endpoint, work) in endpoints {
            let nanoseconds = u64::try_from(work.time.as_nanos()).unwrap_or(u64::MAX);
            counted.push(Counted {
                name: endpoint.name,
                subject: endpoint.subject,
                queue_group: endpoint.queue,
                num_requests: work.requests,
                num_errors: work.errors,
                last_error: &work.last_error,
                processing_time: nanoseconds,
                average_processing_time: nanoseconds.checked_div(work.requests).unwrap_or(0),
                data,
            });
        }
        json(&Stats {
            head: self.head("io.nats.micro.v1.stats_response", instance),
            started,
            endpoints: counted,
        })
    }

    /// Parses a ping response: the instance that sent it. Any client may send one, and its contents appear in
    /// responses and in the log, so only plausible values are accepted.
    pub fn parse_ping(&self, body: &[u8]) -> Option<Identity> {
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
        (pong.name == self.name && plain(&pong.id) && plain(&pong.version))
            .then_some(Identity { id: pong.id, version: pong.version })
    }
}

/// The longest id or version of another instance, in bytes; a nuid has 22.
const MAX_IDENTITY_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const LAB: Service = Service {
        name: "lab",
        description: "Tells the time",
        endpoint: "clock",
        verb: "lab.time",
        queue: "q",
        request_schema: "lab.request",
        response_schema: "lab.response",
    };

    fn seat() -> Identity {
        Identity { id: "ID".to_owned(), version: "0.1.0".to_owned() }
    }

    #[test]
    fn the_nine_subjects_are_known_and_no_others() {
        let subjects: Vec<String> = LAB.monitored("ID").collect();
        assert_eq!(subjects.len(), 9);
        assert!(subjects.contains(&"$SRV.STATS.lab.ID".to_owned()));
        assert!(subjects.iter().all(|subject| LAB.monitor(subject, "ID").is_some()));
        assert_eq!(LAB.monitor("$SRV.INFO", "ID"), Some(Monitor::Info));
        for other in ["$SRV.PING.other", "$SRV.PING.lab.OTHER", "$SRV.NEWS", "$SRV", LAB.verb] {
            assert_eq!(LAB.monitor(other, "ID"), None, "{other}");
        }
    }

    #[test]
    fn answers_are_spelled_as_the_standard_has_them() {
        assert_eq!(
            LAB.ping(&seat()),
            r#"{"type":"io.nats.micro.v1.ping_response","name":"lab","id":"ID","version":"0.1.0","metadata":{}}"#
        );
        assert_eq!(LAB.parse_ping(LAB.ping(&seat()).as_bytes()), Some(seat()));
        assert_eq!(LAB.parse_ping(br#"{"name":"other","id":"x","version":"1.0.0"}"#), None);
        let work =
            Work { requests: 4, errors: 1, last_error: "no".to_owned(), time: Duration::from_nanos(10) };
        let data = RawValue::from_string("{}".to_owned()).unwrap();
        assert_eq!(
            LAB.stats(&seat(), "2026-11-29T13:26:00Z", &work, &data),
            r#"{"type":"io.nats.micro.v1.stats_response","name":"lab","id":"ID","version":"0.1.0","metadata":{},"started":"2026-11-29T13:26:00Z","endpoints":[{"name":"clock","subject":"lab.time","queue_group":"q","num_requests":4,"num_errors":1,"last_error":"no","processing_time":10,"average_processing_time":2,"data":{}}]}"#
        );
        let info: serde_json::Value = serde_json::from_str(&LAB.info(&seat())).unwrap();
        assert_eq!(info["endpoints"][0]["queue_group"], "q");
    }
}
