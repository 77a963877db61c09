//! A node's provisioner client: writes the keys of its node, well-formed ones and others, and notes what the bus said.

use super::Soak;
use super::chance::Chance;
use super::model::Content;
use super::support::accounts;
use super::support::client::Client;
use super::support::wire::headers;
use mesh_jetstream::bucket::Kv;
use mesh_model::bucket::Bucket;
use mesh_model::name;
use serde_json::json;
use std::time::Duration;

/// The modules of every node.
pub(crate) const MODULES: [&str; 3] = ["web", "db", "a.b"];

/// The kinds that are needed; nobody answers the last one.
pub(crate) const KINDS: [&str; 5] = ["port", "secret", "collected", "shell", UNANSWERED_KIND];
pub(crate) const UNANSWERED_KIND: &str = "mystery";

/// The names that are needed.
const NAMES: [&str; 3] = ["motd", "zsh:normal", "é"];

/// The collections of every node.
const COLLECTIONS: [&str; 2] = ["motd", "shell:zsh:normal"];

/// How many keys one node has beside, so that some answers have several pages. They are written once.
const BULK: usize = 1500;

/// How long the outcome of a write is awaited.
const OUTCOME: Duration = Duration::from_secs(5);

/// What no client library would send: headers that cannot be read.
const POISON: [&[u8]; 2] = [b"NATS/1.0\r\nX-Bad: \xff\xfe\r\n\r\n", b"NATS/1.0\r\nno colon\r\n\r\n"];

pub(crate) struct Writer<'a> {
    soak: &'a Soak,
    node: &'static str,
    chance: Chance,
    client: Option<Client>,
    last_number: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(soak: &'a Soak, node: &'static str, chance: Chance) -> Self {
        Self { soak, node, chance, client: None, last_number: 0 }
    }

    /// Writes every key once.
    pub(crate) fn load(&mut self, bulk: bool) {
        for (bucket, key) in self.keys() {
            let content = self.content();
            self.write(bucket, &key, &[], Some(content));
        }
        for at in 0..if bulk { BULK } else { 0 } {
            let content = self.content();
            self.write(Bucket::Needs, &format!("{}.bulk.port.{at:04}", self.node), &[], Some(content));
        }
    }

    /// Writes in bursts until the end.
    pub(crate) fn run(mut self) {
        let keys = self.keys();
        loop {
            for _ in 0..self.chance.below(20) {
                let (bucket, key) = self.chance.pick(&keys).clone();
                match self.chance.below(30) {
                    0 => {
                        let block = *self.chance.pick(&POISON);
                        let content = self.content();
                        self.write(bucket, &key, block, Some(content));
                    }
                    1..4 => self.write(bucket, &key, &headers(&[("KV-Operation", "DEL")]), None),
                    4 => {
                        let purge = headers(&[("KV-Operation", "PURGE")]);
                        self.write(bucket, &key, &purge, None);
                    }
                    _ => {
                        let content = self.content();
                        self.write(bucket, &key, &[], Some(content));
                    }
                }
            }
            let pause = self.chance.between(0, 400);
            if self.soak.pause(pause) {
                return;
            }
        }
    }

    fn keys(&self) -> Vec<(Bucket, String)> {
        let key = |names: &[&str]| names.iter().map(|part| name::encode(part)).collect::<Vec<_>>().join(".");
        let node = self.node;
        let mut keys = Vec::new();
        for module in MODULES {
            for kind in KINDS {
                keys.extend(NAMES.map(|name| (Bucket::Needs, key(&[node, module, kind, name]))));
            }
            keys.push((Bucket::Applied, key(&[node, module])));
            keys.extend(COLLECTIONS.map(|name| (Bucket::Collect, key(&[node, name, module]))));
        }
        // Out of shape, each in another way.
        keys.push((Bucket::Needs, format!("{node}.web.port")));
        keys.push((Bucket::Needs, format!("{node}.w=ZZ.port.motd")));
        keys.push((Bucket::Applied, format!("{node}.web.more")));
        keys.push((Bucket::Collect, format!("{node}.motd.=77eb")));
        keys
    }

    /// What was never written before.
    fn content(&mut self) -> Content {
        let mark = format!("{}-{}", self.node, self.last_number + 1);
        if self.chance.one_in(20) {
            return Content::Text(format!("no JSON, {mark}"));
        }
        Content::Json(json!({"mark": mark, "pad": "x".repeat(self.chance.below(600))}))
    }

    fn write(&mut self, bucket: Bucket, key: &str, headers: &[u8], content: Option<Content>) {
        let Some(client) = self.connected() else { return };
        let body = match &content {
            None => String::new(),
            Some(Content::Json(value)) => value.to_string(),
            Some(Content::Text(text)) => text.clone(),
        };
        self.last_number += 1;
        self.soak.model.sent(bucket, key, self.last_number, content);
        let subject = format!("{}{key}", Kv::new(bucket.name()).subject_prefix());
        let answer = client.request_later(&subject, headers, body).next(OUTCOME);
        let revision = answer.ok().and_then(|answer| {
            let answer = answer.json();
            answer["seq"].as_u64().filter(|sequence| *sequence > 0 && answer.get("error").is_none())
        });
        match revision {
            Some(revision) => {
                self.soak.model.stored(bucket, key, self.last_number, revision);
                self.client = Some(client);
            }
            // The connection is given up with what may still be on it.
            None => drop(client),
        }
        self.soak.tally.write(revision.is_some());
    }

    fn connected(&mut self) -> Option<Client> {
        let kept = self.client.take().filter(|client| !client.is_closed());
        kept.or_else(|| Client::try_connect(self.soak.address, &accounts::node(self.node)).ok())
    }
}
