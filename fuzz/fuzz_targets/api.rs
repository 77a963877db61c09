//! Answers of the bus: whatever they are, they are read or refused, and what is read can be passed on.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::keys;
use mesh_jetstream::kv::{WriteAnswer, parse_message, parse_write};
use mesh_jetstream::stream_info;
use mesh_model::bucket::Bucket;
use mesh_model::object::Object;
use mesh_provisioner_api::response::{Entry, Value};
use mesh_provisioner_api::PROVISIONING;

fuzz_target!(|body: &[u8]| {
    for bucket in Bucket::ALL {
        let _ = keys::parse(Kv::new(bucket.name()), body);
    }
    let info = stream_info::parse(Kv::new(Bucket::Needs.name()), body);
    let _ = (stream_info::parse_config(body), PROVISIONING.parse_ping(body), info);
    if let WriteAnswer::Stored(sequence) = parse_write(Kv::new(Bucket::Registry.name()), body) {
        assert_ne!(sequence, 0);
    }
    if let Ok(Some(message)) = parse_message(body) {
        let names = ["secret".to_owned()];
        let value = Value::read(&message.value);
        let (revision, at) = (message.sequence, message.at.as_str());
        let entry = Entry { bucket: Bucket::Registry, key: "secret", names: &names, value, gap: None, revision, at };
        let json = entry.to_json();
        let object = Object::parse(json.as_bytes()).expect("an entry is a JSON object");
        assert_eq!(object.repeated(), None);
    }
});
