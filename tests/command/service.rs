//! The seat as a service of the bus (ADR-32): looked at by the official client of another language, and held to the
//! published rules field by field.

use crate::support::accounts::READER;
use crate::support::client::Unanswered;
use crate::support::mesh::Mesh;
use crate::support::verb::AsksTheSeat;
use crate::support::wait::PATIENCE;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const TREE: &str = env!("CARGO_MANIFEST_DIR");
const NAME: &str = "mesh-provisioner";

/// What the official JavaScript client sees. It is fetched into `target/` the first time.
fn look(mesh: &Mesh) -> Value {
    let fetch = Command::new("bash")
        .args(["-c", "source packaging/lib/servers.sh && service_client"])
        .current_dir(TREE)
        .output()
        .expect("bash");
    assert!(fetch.status.success(), "{}", String::from_utf8_lossy(&fetch.stderr));
    let directory = String::from_utf8(fetch.stdout).expect("a path in UTF-8");
    let look = Command::new("node")
        .arg(Path::new(TREE).join("tests/command/micro/look.cjs"))
        .args([&mesh.server.client_url(), READER.user.as_ref(), NAME])
        .env("NODE_PATH", Path::new(directory.trim()).join("node_modules"))
        .env("PASSWORD", READER.password.as_ref())
        .output()
        .expect("node");
    assert!(look.status.success(), "{}", String::from_utf8_lossy(&look.stderr));
    serde_json::from_slice(&look.stdout).expect("JSON")
}

#[test]
fn the_official_client_finds_it_counts_its_work_and_knows_its_errors() {
    let mesh = Mesh::start();
    let seat = mesh.reader().ask(&json!({"what": "health"})).good().body()["seat"].clone();
    let seen = look(&mesh);

    assert_eq!((&seen["good"]["isError"], &seen["good"]["error"]), (&json!(false), &Value::Null));
    assert_eq!(seen["good"]["body"]["entries"].as_array().map(Vec::len), Some(13));
    assert_eq!((&seen["bad"]["isError"], &seen["bad"]["code"]), (&json!(true), &json!("400")));
    assert_eq!(seen["bad"]["error"]["code"], 400);

    for way in ["everyone", "named", "identified"] {
        for verb in ["ping", "info", "stats"] {
            let answers = seen[way][verb].as_array().expect("answers");
            let ours: Vec<&Value> = answers.iter().filter(|answer| answer["name"] == NAME).collect();
            assert_eq!(ours.len(), 1, "{way} {verb}: {answers:?}");
            assert_eq!((&ours[0]["id"], &ours[0]["version"]), (&seat["id"], &seat["version"]));
            keeps_the_rules(verb, ours[0]);
        }
        let endpoint = &seen[way]["stats"][0]["endpoints"][0];
        // The readiness of the mesh was asked for too; the two asks of the client are among them.
        assert!(endpoint["num_requests"].as_u64() >= Some(3), "{endpoint}");
        assert_eq!(endpoint["num_errors"], 1);
        assert!(
            endpoint["last_error"].as_str().is_some_and(|error| error.contains("everything")),
            "{endpoint}"
        );
    }
}

#[test]
fn each_of_the_nine_subjects_answers_by_the_published_rules() {
    let mesh = Mesh::start();
    let reader = mesh.reader();
    let id = reader.ask(&json!({"what": "health"})).good().body()["seat"]["id"].clone();
    let id = id.as_str().expect("an id");
    for verb in ["ping", "info", "stats"] {
        let asked = format!("$SRV.{}", verb.to_uppercase());
        for subject in [asked.clone(), format!("{asked}.{NAME}"), format!("{asked}.{NAME}.{id}")] {
            let answer = reader.request(&subject, "", PATIENCE).expect("an answer");
            assert_eq!(answer.headers, b"", "{subject}");
            let answer = answer.json();
            assert_eq!(answer["id"], id, "{subject}");
            keeps_the_rules(verb, &answer);
        }
    }
    let another = reader.request(format!("$SRV.PING.{NAME}.ANOTHER"), "", PATIENCE);
    assert_eq!(another, Err(Unanswered::NoResponders), "another id is not us");
}

#[track_caller]
fn keeps_the_rules(verb: &str, answer: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text in {answer:#}")).to_owned();
    assert_eq!(answer["type"], format!("io.nats.micro.v1.{verb}_response"));
    assert!(is_name(&text(&answer["name"])), "{answer:#}");
    assert!(!text(&answer["id"]).is_empty() && is_name(&text(&answer["id"])), "{answer:#}");
    assert!(is_semver(&text(&answer["version"])), "{answer:#}");
    assert!(is_texts(&answer["metadata"]), "{answer:#}");
    if verb == "ping" {
        return;
    }
    let endpoints = answer["endpoints"].as_array().expect("endpoints");
    assert_eq!(endpoints.len(), 1, "{answer:#}");
    let endpoint = &endpoints[0];
    assert_eq!(endpoint["name"], "provisioning");
    assert!(is_name(&text(&endpoint["name"])));
    assert_eq!(endpoint["subject"], "mesh-provisioner.provisioning");
    assert_eq!(endpoint["queue_group"], "q");
    if verb == "info" {
        assert!(!text(&answer["description"]).is_empty());
        assert!(is_texts(&endpoint["metadata"]), "{answer:#}");
        assert_eq!(
            endpoint["metadata"],
            json!({"request_schema": "io.mesh.provisioner.v1.request", "response_schema": "io.mesh.provisioner.v1.response"})
        );
        return;
    }
    assert!(is_time(&text(&answer["started"])), "{answer:#}");
    let number = |field: &str| endpoint[field].as_u64().unwrap_or_else(|| panic!("{field} in {endpoint:#}"));
    assert!(endpoint["last_error"].is_string() && endpoint["data"].is_object(), "{endpoint:#}");
    assert!(number("num_errors") <= number("num_requests"), "{endpoint:#}");
    if number("num_requests") > 0 {
        assert_eq!(number("average_processing_time"), number("processing_time") / number("num_requests"));
    }
    // Nanoseconds: an ask takes a few of their thousands, and never the seconds that a wrong unit would make of it.
    assert!(number("processing_time") < 60_000_000_000, "{endpoint:#}");
}

/// `^[a-zA-Z0-9_-]+$`, the standard's rule for the names of services and endpoints.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Three numbers without leading zeros, as semver 2 has them; this program has no pre-releases.
fn is_semver(text: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    text.split('.').count() == 3 && text.split('.').all(number)
}

/// RFC 3339 in UTC.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    shape.starts_with("9999-99-99T99:99:99") && shape.ends_with('Z')
}

fn is_texts(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.values().all(Value::is_string))
}
