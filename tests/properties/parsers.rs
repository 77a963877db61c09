//! What comes from outside, byte for byte: answers of the bus, greetings, settings. No bytes upset the reading.

use mesh_bus::config::address;
use mesh_bus::config::{self, Flags};
use mesh_bus::gate::Info;
use mesh_jetstream::bucket::Kv;
use mesh_jetstream::keys;
use mesh_jetstream::kv::{WriteAnswer, parse_message, parse_write};
use mesh_jetstream::stream_info;
use mesh_model::bucket::Bucket;
use mesh_model::object::Object;
use mesh_provisioner_api::PROVISIONING;
use mesh_provisioner_api::response::{Entry, Value};
use mesh_testing::jetstream::{self, Stored};
use proptest::prelude::*;
use std::fs;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..300)
}

/// Any JSON, as text.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?",
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6)
                .prop_map(|items| format!("[{}]", items.join(" , "))),
            proptest::collection::vec(("[a-c]", inner), 0..6).prop_map(|fields| {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// The file of a context, in a folder that goes away.
fn read_context(text: &[u8]) -> Result<config::BusConfig, config::ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.json");
    fs::write(&path, text).unwrap();
    let flags = Flags { context: Some(path.to_str().unwrap().to_owned()), ..Flags::default() };
    config::load(&flags, &|_| None)
}

proptest! {
    #[test]
    fn any_bytes_as_a_reply_upset_no_parser(body in bytes()) {
        for bucket in Bucket::ALL {
            prop_assert!(keys::parse(Kv::new(bucket.name()), &body).is_err());
        }
        prop_assert!(parse_message(&body).is_err());
        prop_assert!(stream_info::parse_config(&body).is_err());
        prop_assert!(stream_info::parse(Kv::new(Bucket::Needs.name()), &body).is_err());
        prop_assert!(matches!(parse_write(Kv::new(Bucket::Registry.name()), &body), WriteAnswer::Unknown(_)));
        prop_assert_eq!(PROVISIONING.parse_ping(&body), None);
        prop_assert!(Object::parse(&body).is_err());
    }

    #[test]
    fn any_json_as_a_reply_upsets_no_parser(text in json()) {
        let body = text.as_bytes();
        prop_assert!(keys::parse(Kv::new(Bucket::Needs.name()), body).is_err());
        prop_assert!(parse_message(body).is_err());
        prop_assert!(matches!(parse_write(Kv::new(Bucket::Registry.name()), body), WriteAnswer::Unknown(_)));
        prop_assert_eq!(PROVISIONING.parse_ping(body), None);
    }

    #[test]
    fn a_message_comes_as_it_was_stored(
        key in "[^.]{1,20}", data in bytes(), headers in bytes(), sequence in 1..u64::MAX,
    ) {
        let subject = format!("$KV.mesh-provisioner_needs.{key}");
        let time = "2026-11-29T13:26:00.5Z";
        let stored = Stored { subject: &subject, sequence, headers: &headers, data: &data, time };
        let message = parse_message(&jetstream::message(&stored)).unwrap().unwrap();
        prop_assert_eq!(message.subject, subject);
        prop_assert_eq!((message.sequence, message.at.as_str()), (sequence, time));
        prop_assert_eq!(message.value, data);
    }

    #[test]
    fn a_page_of_keys_comes_whole(keys in proptest::collection::vec("[^.]{1,20}", 0..20), total in 0..100_usize) {
        let subjects: Vec<String> = keys.iter().map(|key| format!("$KV.mesh-provisioner_needs.{key}")).collect();
        let page = keys::parse(Kv::new(Bucket::Needs.name()), &jetstream::page(&subjects, 0, total, (1, "t"), (7, "t"))).unwrap();
        prop_assert_eq!((page.keys, page.total, page.last_sequence), (keys, total, 7));
    }

    #[test]
    fn a_damaged_reply_upsets_no_parser(at in any::<usize>(), byte in any::<u8>()) {
        let stored = Stored { subject: "$KV.b.k", sequence: 5, headers: b"NATS/1.0\r\nA: b\r\n\r\n", data: b"1", time: "t" };
        for mut body in [
            jetstream::message(&stored),
            jetstream::page(&["$KV.b.k".to_owned()], 0, 1, (1, "t"), (5, "t")),
            jetstream::stored("KV_b", 5),
            jetstream::conflict(5),
        ] {
            let at = at % body.len();
            body[at] = byte;
            let _ = (keys::parse(Kv::new(Bucket::Needs.name()), &body), parse_message(&body), parse_write(Kv::new(Bucket::Registry.name()), &body));
            body.truncate(at);
            prop_assert!(keys::parse(Kv::new(Bucket::Needs.name()), &body).is_err() && parse_message(&body).is_err());
            prop_assert!(matches!(parse_write(Kv::new(Bucket::Registry.name()), &body), WriteAnswer::Unknown(_)));
        }
    }

    #[test]
    fn a_stored_value_is_passed_on_digit_for_digit(value in json()) {
        let names = ["n1", "web"].map(str::to_owned);
        let entry = Entry {
            bucket: Bucket::Applied, key: "n1.web", names: &names,
            value: Value::read(value.as_bytes()), gap: None,
            revision: 1, at: "t",
        };
        let expected = format!(
            r#"{{"key":"n1.web","node":"n1","module":"web","value":{value},"revision":1,"at":"t"}}"#
        );
        prop_assert_eq!(entry.to_json(), expected);
        prop_assert!(entry.value.fault().is_none());
    }

    #[test]
    fn a_stored_value_of_any_bytes_makes_an_entry(value in bytes()) {
        let names = ["secret".to_owned()];
        let entry = Entry {
            bucket: Bucket::Registry, key: "secret", names: &names,
            value: Value::read(&value), gap: None,
            revision: 1, at: "t",
        };
        let json = entry.to_json();
        prop_assert!(Object::parse(json.as_bytes()).unwrap().repeated().is_none(), "{}", json);
    }

    #[test]
    fn any_greeting_upsets_no_parser(line in bytes(), text in "INFO \\{(\"[a-z_]{1,12}\":(1|\"x\"|\\[\\]),?){0,8}\\}?") {
        prop_assert!(Info::greeting(&line).is_err());
        let _ = Info::greeting(text.as_bytes());
    }

    #[test]
    fn any_list_of_servers_upsets_no_parser(list in "((nats|tls|ws|x)://)?\\PC{0,20}(@|:|,|\\[|\\]|/|%)?\\PC{0,20}") {
        if let Ok((addresses, _)) = address::parse_list(&list) {
            for address in addresses {
                let again = address::parse_list(&address.to_string()).unwrap().0;
                prop_assert_eq!(again, vec![address]);
            }
        }
    }

    #[test]
    fn no_error_of_a_list_of_servers_shows_a_password(
        password in "[a-z0-9@:/?#%,\\[\\] ]{6,20}", rest in "(host|ho st|\\[::1|host:99999|host:0|)",
    ) {
        if let Err(why) = address::parse_list(&format!("nats://user:{password}@{rest}")) {
            prop_assert!(!why.contains(&password), "{}", why);
            // Nor a piece of it that a separator cut off.
            for piece in password.split(['@', ',', '/', '?', '#', ':']).filter(|piece| piece.len() >= 6) {
                prop_assert!(!why.contains(piece), "{} shows {:?}", why, piece);
            }
        }
    }

    #[test]
    fn any_context_file_upsets_no_parser(text in bytes(), value in json()) {
        let _ = read_context(&text);
        let _ = read_context(value.as_bytes());
        let file = format!(r#"{{"url":{value},"user":"u","password":"opensesame"}}"#);
        if let Err(why) = read_context(file.as_bytes()) {
            prop_assert!(!why.to_string().contains("opensesame"), "{}", why);
        }
    }
}
