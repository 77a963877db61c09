//! A bus in memory: buckets, push consumers, and what it answers.

use mesh_jetstream::message::Outgoing;
use mesh_runtime::Delivery;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A bucket: its keys with sequence and value; a deleted key has none.
#[derive(Default)]
struct Stored {
    sequence: u64,
    keys: BTreeMap<String, (u64, Option<Vec<u8>>)>,
}

struct Consumer {
    bucket: String,
    name: String,
    deliver: String,
    delivered: u64,
}

/// The bus.
#[derive(Default)]
pub(crate) struct Bus {
    buckets: BTreeMap<String, Stored>,
    consumers: Vec<Consumer>,
    /// Every revision that was ever written at a key.
    pub(crate) revisions: BTreeMap<String, Vec<u64>>,
}

/// What the bus sends to the vault.
pub(crate) enum Sent {
    Reply { call: u64, no_responders: bool, body: Vec<u8> },
    Delivery(Delivery),
}

impl Bus {
    pub(crate) fn sequence(&self, bucket: &str) -> u64 {
        self.buckets.get(bucket).map_or(0, |stored| stored.sequence)
    }

    pub(crate) fn get(&self, bucket: &str, key: &str) -> Option<&[u8]> {
        self.buckets.get(bucket)?.keys.get(key)?.1.as_deref()
    }

    pub(crate) fn keys(&self, bucket: &str) -> Vec<String> {
        let stored = self.buckets.get(bucket);
        stored.into_iter().flat_map(|stored| stored.keys.keys().cloned()).collect()
    }

    /// The connection is gone, and with it the subscriptions that its consumers deliver to.
    pub(crate) fn cut(&mut self) {
        self.consumers.clear();
    }

    /// Writes a value; the deliveries that follow.
    pub(crate) fn put(&mut self, bucket: &str, key: &str, value: &[u8]) -> (u64, Vec<Sent>) {
        let stored = self.buckets.entry(bucket.to_owned()).or_default();
        stored.sequence += 1;
        let sequence = stored.sequence;
        if bucket == "mesh-vault_revisions"
            && let Ok(value) = serde_json::from_slice::<Value>(value)
        {
            self.revisions.entry(key.to_owned()).or_default().push(value["revision"].as_u64().unwrap());
        }
        stored.keys.insert(key.to_owned(), (sequence, Some(value.to_vec())));
        let mut sent = Vec::new();
        for consumer in self.consumers.iter_mut().filter(|consumer| consumer.bucket == bucket) {
            sent.push(consumer.deliver(key, sequence, 0, value.to_vec()));
        }
        (sequence, sent)
    }

    /// What comes of a message of the vault; nothing for one that goes to a client.
    pub(crate) fn take(&mut self, message: &Outgoing) -> Vec<Sent> {
        let Some(reply) = &message.reply else { return Vec::new() };
        let call = reply.rsplit('.').next().unwrap().parse().unwrap();
        let answer =
            |body: Value| Sent::Reply { call, no_responders: false, body: body.to_string().into_bytes() };
        if message.subject.starts_with("$SRV.PING.") {
            return vec![Sent::Reply { call, no_responders: true, body: Vec::new() }];
        }
        if message.subject.starts_with("$JS.API.CONSUMER.CREATE.") {
            let body: Value = serde_json::from_slice(&message.body).unwrap();
            let bucket = body["stream_name"].as_str().unwrap().strip_prefix("KV_").unwrap().to_owned();
            let text = |name: &str| body["config"][name].as_str().unwrap().to_owned();
            let mut consumer = Consumer {
                bucket: bucket.clone(),
                name: text("name"),
                deliver: text("deliver_subject"),
                delivered: 0,
            };
            let stored = self.buckets.entry(bucket).or_default();
            let mut list: Vec<_> = stored
                .keys
                .iter()
                .filter_map(|(key, (sequence, value))| Some((*sequence, key, value.clone()?)))
                .collect();
            list.sort_unstable();
            let total = list.len() as u64;
            let mut sent = vec![answer(json!({"name": consumer.name, "num_pending": total}))];
            for (place, (sequence, key, value)) in (1..).zip(list) {
                sent.push(consumer.deliver(key, sequence, total - place, value));
            }
            // The server has one consumer for each deliver subject of ours: those before find no listener.
            self.consumers.retain(|other| other.deliver != consumer.deliver);
            self.consumers.push(consumer);
            return sent;
        }
        let rest = message.subject.strip_prefix("$KV.").expect("a subject that the vault may write");
        let (bucket, key) = rest.split_once('.').unwrap();
        assert_eq!(bucket, "mesh-vault_revisions", "the vault writes nothing else");
        let header =
            |name: &str| message.headers.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone());
        let expected: u64 = header("Nats-Expected-Last-Subject-Sequence").unwrap().parse().unwrap();
        let newest = self
            .buckets
            .get(bucket)
            .and_then(|stored| stored.keys.get(key))
            .map_or(0, |(sequence, _)| *sequence);
        if expected != newest {
            let error = json!({"code": 400, "err_code": 10071, "description": "wrong last sequence"});
            return vec![answer(json!({ "error": error }))];
        }
        let (sequence, mut sent) = self.put(bucket, key, &message.body);
        sent.push(answer(json!({"stream": format!("KV_{bucket}"), "seq": sequence})));
        sent
    }

    /// Heartbeats of all consumers.
    pub(crate) fn heartbeats(&self) -> Vec<Sent> {
        let beat = |consumer: &Consumer| {
            let headers =
                format!("NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {}\r\n\r\n", consumer.delivered);
            Sent::Delivery(Delivery {
                place: place(&consumer.deliver),
                subject: consumer.deliver.clone(),
                reply: None,
                headers: headers.into_bytes(),
                body: Vec::new(),
            })
        };
        self.consumers.iter().map(beat).collect()
    }
}

fn place(deliver: &str) -> usize {
    deliver.rsplit('.').next().unwrap().parse().unwrap()
}

impl Consumer {
    fn deliver(&mut self, key: &str, sequence: u64, pending: u64, body: Vec<u8>) -> Sent {
        self.delivered += 1;
        let reply =
            format!("$JS.ACK.KV_{}.{}.1.{sequence}.{}.1.{pending}", self.bucket, self.name, self.delivered);
        Sent::Delivery(Delivery {
            place: place(&self.deliver),
            subject: format!("$KV.{}.{key}", self.bucket),
            reply: Some(reply),
            headers: Vec::new(),
            body,
        })
    }
}
