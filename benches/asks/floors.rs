//! What an ask is measured against: the least that the bus itself costs, and a first attempt with the plain library.

#![expect(deprecated, reason = "upstream deprecates the whole synchronous client")]

use mesh_jetstream::bucket::Kv;
use std::thread;

use mesh_model::bucket::Bucket;
use serde_json::json;

use crate::mesh::Mesh;
use crate::raw::Raw;
use crate::support::accounts::TESTER;

/// Answered at once, with nothing.
pub(crate) const ECHO: &str = "bench.echo";

/// Answers [`ECHO`] until the bus is gone.
pub(crate) fn start_echo(mesh: &Mesh) {
    let mut raw = mesh.raw("echo");
    raw.subscribe(ECHO);
    raw.be_patient();
    thread::spawn(move || {
        while let Some(message) = raw.next_until_closed() {
            let reply = message.reply.expect("somebody who asks").to_owned();
            raw.publish(&reply, "", b"");
            raw.flush();
        }
    });
}

/// Reads the newest message of each key under `filter` with a pull consumer, `count` at most; gives how many came.
pub(crate) fn bare_read(raw: &mut Raw, bucket: Bucket, filter: &str, count: usize) -> usize {
    let stream = Kv::new(bucket.name()).stream();
    let config = json!({"stream_name": stream, "config": {
        "filter_subject": format!("{}{filter}", Kv::new(bucket.name()).subject_prefix()), "deliver_policy": "last_per_subject",
        "ack_policy": "none", "mem_storage": true, "inactive_threshold": 30_000_000_000_u64,
    }});
    let consumer = raw.api(&format!("CONSUMER.CREATE.{stream}"), &config);
    let name = consumer["name"].as_str().expect("a consumer's name");
    let pending = consumer["num_pending"].as_u64().and_then(|pending| usize::try_from(pending).ok());
    let count = count.min(pending.expect("how many messages there are"));
    let reply = raw.reply_subject(0);
    let pull = json!({"batch": count, "no_wait": true}).to_string();
    raw.publish(&format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"), &reply, pull.as_bytes());
    raw.flush();
    let mut bytes = 0;
    for _ in 0..count {
        let message = raw.next();
        assert!(message.subject.starts_with("$KV."), "{} in the place of a key", message.subject);
        bytes += message.body.len();
    }
    assert!(bytes > count, "values are not empty");
    raw.api(&format!("CONSUMER.DELETE.{stream}.{name}"), &json!({}));
    count
}

/// A responder as a first attempt writes it with the library's own `keys()` and `get()`.
pub(crate) struct PlainLibrary {
    connection: ::nats::Connection,
}

/// Where [`PlainLibrary`] answers; the body is a node's name.
pub(crate) const PLAIN: &str = "bench.plain";

impl PlainLibrary {
    /// Answers [`PLAIN`] until it is dropped.
    pub(crate) fn start(mesh: &Mesh) -> Self {
        let connection = ::nats::Options::with_user_pass(&TESTER.user, &TESTER.password)
            .connect(mesh.server.client_url())
            .expect("a connection of the library");
        let store = ::nats::jetstream::new(connection.clone())
            .key_value(Bucket::Needs.name())
            .expect("the bucket of needs");
        let asks = connection.subscribe(PLAIN).expect("a subscription of the library");
        connection.flush().expect("a subscription in place");
        thread::spawn(move || {
            for ask in asks.messages() {
                let prefix = format!("{}.", String::from_utf8_lossy(&ask.data));
                let mut values = Vec::new();
                for key in store.keys().expect("the bucket's keys").filter(|key| key.starts_with(&prefix)) {
                    let value = store.get(&key).expect("a key's value").unwrap_or_default();
                    let value: serde_json::Value = serde_json::from_slice(&value).unwrap_or_default();
                    values.push(json!({"key": key, "value": value}));
                }
                ask.respond(json!({"entries": values}).to_string()).expect("to answer");
            }
        });
        PlainLibrary { connection }
    }
}

impl Drop for PlainLibrary {
    fn drop(&mut self) {
        // Ends the subscription, and with it the thread.
        self.connection.clone().close();
    }
}
