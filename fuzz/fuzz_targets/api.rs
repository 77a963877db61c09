//! Answers of the bus: whatever they are, they are read or refused, and what is read can be passed on.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_model::bucket::Bucket;
use mesh_provisioner::wire::answer::{Entry, Value};
use mesh_provisioner::wire::jetstream::{WriteAnswer, parse_config, parse_keys, parse_message, parse_write};
use mesh_model::object::Object;
use mesh_provisioner::wire::service::parse_ping;
use mesh_provisioner::wire::stream::parse_look;

fuzz_target!(|body: &[u8]| {
    for bucket in Bucket::ALL {
        let _ = parse_keys(bucket, body);
    }
    let _ = (parse_config(body), parse_ping(body), parse_look(body));
    if let WriteAnswer::Stored(sequence) = parse_write(Bucket::Registry, body) {
        assert_ne!(sequence, 0);
    }
    if let Ok(Some(message)) = parse_message(body) {
        let names = ["secret".to_owned()];
        let value = Value::read(&message.value);
        let (revision, at) = (message.sequence, message.at.as_str());
        let entry = Entry { bucket: Bucket::Registry, key: "secret", names: &names, value, revision, at };
        let json = entry.to_json();
        let object = Object::parse(json.as_bytes()).expect("an entry is a JSON object");
        assert_eq!(object.repeated(), None);
    }
});
