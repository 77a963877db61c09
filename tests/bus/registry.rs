//! The registry: what the seat writes into its bucket, and what it leaves alone.

use crate::support::health::SeesHealth;
use crate::support::verb::AsksTheSeat;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::accounts::{ADMINISTRATOR, READER, SEAT, TESTER};
use crate::support::bucket::REGISTRY;
use crate::support::client::{Client, Inbox};
use crate::support::health::is_missing;
use crate::support::mesh::{self, Mesh};
use crate::support::seat::{KINDS, Seat};
use crate::support::setup::{Right, Setup};
use crate::support::wait::{self, PATIENCE};

/// How long the registry may take once the bus is ready, and a margin for the machine.
const IN_PLACE: Duration = Duration::from_secs(65);

/// Every pass begins with one request here.
const LISTING: &str = "$JS.API.STREAM.INFO.KV_mesh-provisioner_registry";

/// Asks for a pass and waits until it has begun. It ends before the next one begins.
fn begin_pass(seat: &Seat, listings: &Inbox) {
    seat.signal("HUP");
    listings.next(PATIENCE).expect("a pass that begins");
}

/// Waits until every one of the 13 kinds is there.
fn wait_for_registry(client: &Client, within: Duration) {
    wait::until("13 kinds in the registry", within, || {
        let keys = client.kv_keys(REGISTRY);
        if keys.len() == KINDS { Ok(()) } else { Err(format!("{keys:?}")) }
    });
}

#[test]
fn a_denied_write_is_reported_and_tried_again() {
    const DENIED: &str = "$KV.mesh-provisioner_registry.config";
    let denied = Setup::shipped().deny(&SEAT, Right::Publish, "$KV.mesh-provisioner_registry.>");
    let mut server = denied.start();
    mesh::init(&server);
    let mut seat = Seat::start(&server, &[]);
    let line = seat.wait_for_log("registry pass failed", PATIENCE);
    assert!(line.contains(DENIED) && line.contains("Permissions Violation"), "{line}");
    let reader = server.client(&READER);
    let health = reader.wait_for_missing(DENIED, PATIENCE);
    assert_eq!(health["ok"], json!(false));
    assert!(
        health["last_bus_error"]
            .as_str()
            .is_some_and(|words| words.contains("$KV.mesh-provisioner_registry.")),
        "{health}"
    );
    assert!(reader.ask(&json!({"what": "registry"})).good().entries().is_empty());
    assert!(reader.ask(&json!({"what": "needs"})).good().entries().is_empty());
    let tester = server.client(&TESTER);
    tester.subscribe(LISTING, None).next(PATIENCE).expect("another pass");
    // The server closes the connections of a user whose rights it changes.
    drop((reader, tester));
    server.setup = Setup::shipped();
    server.reload();
    wait_for_registry(&server.client(&TESTER), IN_PLACE);
    seat.wait_ready();
    let ready = |health: &Value| health["ok"] == json!(true);
    server.client(&READER).wait_for_health("the seat to be ready", PATIENCE, ready);
}

#[test]
fn a_bucket_that_acknowledges_nothing_is_waited_for_within_a_bound() {
    let server = Setup::shipped().start();
    let admin = server.client(&ADMINISTRATOR);
    admin.create_bucket(REGISTRY, &json!({"no_ack": true}));
    mesh::init(&server);
    let seat = Seat::start(&server, &[]);
    let reader = server.client(&READER);
    // The first write is out, and its answer will never come.
    wait::until("the first write", PATIENCE, || {
        let last = admin.last_sequence(REGISTRY);
        if last > 0 { Ok(()) } else { Err("nothing is stored".to_owned()) }
    });
    assert!(reader.ask(&json!({"what": "needs"})).good().entries().is_empty());
    let line = seat.wait_for_log("registry pass failed", PATIENCE);
    assert!(line.contains("write status unknown"), "{line}");
    // Read again before anything is written again: all of it had been stored.
    let verified = |health: &Value| health["registry"]["last_pass"]["unchanged"] == json!(KINDS);
    let health = reader.wait_for_health("a pass that finds all in place", PATIENCE, verified);
    assert_eq!(health["ok"], json!(true));
    assert_eq!(admin.last_sequence(REGISTRY), 13);
}

#[test]
fn equal_values_in_another_spelling_are_left_alone() {
    let mut mesh = Mesh::start();
    mesh.seat.kill();
    let tester = mesh.tester();
    for key in tester.kv_keys(REGISTRY) {
        let stored = tester.kv_get(REGISTRY, &key).expect("a kind").value;
        let value: serde_json::Map<String, Value> = serde_json::from_slice(&stored).expect("an object");
        let mut lines: Vec<String> =
            value.iter().map(|(name, value)| format!("  {} : {value}", json!(name))).collect();
        lines.reverse();
        let spelt = format!("{{\n{}\n}}\n", lines.join(",\n"));
        assert_ne!(spelt.as_bytes(), stored);
        tester.kv_put(REGISTRY, &key, spelt);
    }
    let before = tester.last_sequence(REGISTRY);
    assert_eq!(before, 26);
    let listings = tester.subscribe(LISTING, None);
    let mut seat = Seat::start(&mesh.server, &[]);
    seat.wait_ready();
    listings.next(PATIENCE).expect("the first pass");
    begin_pass(&seat, &listings);
    begin_pass(&seat, &listings);
    assert_eq!(tester.last_sequence(REGISTRY), before);
}

#[test]
fn a_full_bucket_refuses_some_keys_and_not_the_others() {
    const FULL: &str = "maximum messages exceeded";
    let server = Setup::shipped().start();
    mesh::init(&server);
    let admin = server.client(&ADMINISTRATOR);
    admin.update_bucket(REGISTRY, &json!({"max_msgs": 5}));
    let seat = Seat::start(&server, &[]);
    let line = seat.wait_for_log("registry pass failed", PATIENCE);
    assert!(line.contains(FULL) && line.contains("8 keys in all"), "{line}");
    let reader = server.client(&READER);
    reader.wait_for_missing(FULL, PATIENCE);
    assert_eq!(reader.ask(&json!({"what": "registry"})).good().entries().len(), 5);
    admin.update_bucket(REGISTRY, &json!({"max_msgs": -1}));
    wait_for_registry(&admin, IN_PLACE);
    assert_eq!(admin.last_sequence(REGISTRY), 13);
}

#[test]
fn a_foreign_change_is_restored_and_reported() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    let right = tester.kv_get(REGISTRY, "secret").expect("a kind").value;
    let foreign =
        r#"{"kind":"secret","domain":"secrets","module":"mesh-imposter","verb":"mesh-imposter.secret"}"#;
    let changed = tester.kv_put(REGISTRY, "secret", foreign);
    mesh.seat.signal("HUP");
    let line = mesh.seat.wait_for_log("changed by another client since the last pass", PATIENCE);
    let right_text = String::from_utf8_lossy(&right);
    assert!(
        line.contains("registry key secret") && line.contains(&format!("{foreign} restored to {right_text}")),
        "{line}"
    );
    let now = tester.kv_get(REGISTRY, "secret").expect("a kind");
    assert_eq!((now.value, now.sequence), (right, changed + 1));
    assert_eq!(tester.last_sequence(REGISTRY), changed + 1);
}

#[test]
fn the_registry_is_in_place_within_a_minute_of_the_bus_being_ready() {
    let without = Setup::shipped().replace("    jetstream: enabled\n", "").append("jetstream: disabled");
    let mut server = without.start();
    let _seat = Seat::start(&server, &[]);
    let reader = server.client(&READER);
    let health = reader.wait_for_missing("enable", PATIENCE);
    assert!(is_missing(&health, "JetStream"), "{health}");
    assert!(health["server"].is_string(), "{health}");
    wait_until_patient(&reader);
    server.setup = Setup::shipped();
    server.restart();
    let reader = server.client(&READER);
    reader.wait_for_missing(&format!("{REGISTRY} does not exist: run mesh-provisioner init"), IN_PLACE);
    wait_until_patient(&reader);
    mesh::init(&server);
    wait_for_registry(&server.client(&ADMINISTRATOR), IN_PLACE);
    reader.wait_for_health("the seat to be ready", PATIENCE, |health| health["ok"] == json!(true));
}

/// Waits until passes have failed so often that the seat waits for many seconds before the next one.
fn wait_until_patient(reader: &Client) {
    reader.wait_for_health("a long wait between two passes", IN_PLACE, |health| {
        health["registry"]["last_pass_seconds_ago"].as_u64().is_some_and(|seconds| seconds >= 8)
    });
}

#[test]
fn a_key_that_is_not_a_kind_is_deleted_or_reported() {
    let mut mesh = Mesh::start();
    mesh.seat.kill();
    let admin = mesh.admin();
    // The server grants roll-ups only together with purges.
    admin.update_bucket(REGISTRY, &json!({"deny_purge": true, "allow_rollup_hdrs": false}));
    let tester = mesh.tester();
    for key in ["unknown", "secret.extra", "=ZZ", "a*"] {
        tester.kv_put(REGISTRY, key, "{}");
    }
    // JSON cannot name a key that is not UTF-8, so no request can.
    let unnameable = tester.kv_put(REGISTRY, [0xff], "{}");
    let listings = tester.subscribe(LISTING, None);
    let mut seat = Seat::start(&mesh.server, &[]);
    seat.wait_ready();
    listings.next(PATIENCE).expect("the first pass");
    begin_pass(&seat, &listings);
    for key in ["unknown", "secret.extra", "=ZZ", "a*"] {
        let marker = tester.kv_get(REGISTRY, key).expect("a marker");
        assert_eq!(marker.header("KV-Operation").as_deref(), Some("DEL"), "{key}");
        let said = format!("registry key {key}: no domain answers it, {{}} deleted");
        assert!(seat.log().contains(&said), "{said:?} in\n{}", seat.log());
    }
    // One more write for each marker, and the key that cannot be named stays as it is.
    assert_eq!(tester.last_sequence(REGISTRY), unnameable + 4);
    assert_eq!(tester.kv_at(REGISTRY, unnameable).expect("the key").value, b"{}");
    let said = seat.log().matches("the key \"\u{fffd}\" is not a kind").count();
    assert_eq!(said, 1, "{}", seat.log());
}

#[test]
fn the_first_pass_restores_manual_changes_and_writes_nothing_else() {
    let mut mesh = Mesh::start();
    mesh.seat.kill();
    let tester = mesh.tester();
    let right = tester.kv_get(REGISTRY, "port").expect("a kind").value;
    tester.kv_put(REGISTRY, "port", r#"{"kind":"port"}"#);
    tester.kv_put(REGISTRY, "stranger", r#"{"kind":"stranger"}"#);
    let last = tester.kv_delete(REGISTRY, "seat");
    let listings = tester.subscribe(LISTING, None);
    let mut seat = Seat::start(&mesh.server, &[]);
    seat.wait_ready();
    listings.next(PATIENCE).expect("the first pass");
    begin_pass(&seat, &listings);
    let changed: Vec<String> = (last + 1..=tester.last_sequence(REGISTRY))
        .map(|sequence| tester.kv_at(REGISTRY, sequence).expect("a write").key)
        .collect();
    let mut sorted = changed;
    sorted.sort_unstable();
    assert_eq!(sorted, ["port", "seat", "stranger"]);
    assert_eq!(tester.kv_get(REGISTRY, "port").expect("a kind").value, right);
    assert!(tester.kv_get(REGISTRY, "seat").expect("a kind").value.starts_with(br#"{"kind":"seat","#));
    let marker = tester.kv_get(REGISTRY, "stranger").expect("a marker");
    assert_eq!(marker.header("KV-Operation").as_deref(), Some("DEL"));
}

#[test]
fn two_seats_give_one_answer_and_name_each_other() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    let before = tester.last_sequence(REGISTRY);
    let second = Seat::start(&mesh.server, &[]);
    for seat in [&mesh.seat, &second] {
        let line = seat.wait_for_log("other seats are running:", PATIENCE);
        assert!(line.contains("the same version"), "{line}");
    }
    let reader = mesh.reader();
    let asks: Vec<Inbox> = (0..50).map(|_| reader.ask_later(&json!({"what": "health"}))).collect();
    let mut ids = std::collections::BTreeSet::new();
    for ask in &asks {
        let body = ask.next(PATIENCE).expect("an answer").json();
        let id = body["seat"]["id"].as_str().expect("an id").to_owned();
        let others = body["health"]["other_seats"].as_array().expect("a list").clone();
        assert_eq!(others.len(), 1, "{body}");
        assert_ne!(others[0]["id"], json!(id));
        ids.insert(id);
    }
    assert_eq!(ids.len(), 2, "both seats answer some");
    // Answered in the same turn, a second answer would have come with the first.
    reader.flush();
    assert!(asks.iter().all(|ask| ask.take_all().is_empty()));
    assert_eq!(tester.last_sequence(REGISTRY), before);
}

#[test]
fn another_version_of_the_seat_is_said() {
    let server = Setup::shipped().start();
    mesh::init(&server);
    let tester = server.client(&TESTER);
    let pings = tester.subscribe("$SRV.PING.mesh-provisioner", None);
    let seat = Seat::start(&server, &[]);
    let ping = pings.next(PATIENCE).expect("the seat asks who else is there");
    let body = json!({
        "type": "io.nats.micro.v1.ping_response", "name": "mesh-provisioner", "id": "OTHER",
        "version": "9.9.9", "metadata": {},
    });
    tester.publish(ping.reply.expect("a reply subject"), body.to_string());
    let line = seat.wait_for_log("other seats are running: OTHER", PATIENCE);
    assert!(line.contains("version 9.9.9 next to") && line.contains("stop one of them"), "{line}");
    let health = server.client(&READER).try_health().expect("an answer");
    let other = &health["other_seats"][0];
    assert_eq!((&other["id"], &other["version"]), (&json!("OTHER"), &json!("9.9.9")));
    assert!(other["seen_seconds_ago"].as_u64().is_some_and(|seconds| seconds < 60), "{other}");
}

#[test]
fn g15_a_seat_that_hangs_beside_another_costs_nothing_once_the_server_dropped_it() {
    let server = Setup::shipped().append("ping_interval: \"1s\"\nping_max: 1").start();
    mesh::init(&server);
    let mut seat = Seat::start(&server, &[]);
    seat.wait_ready();
    let hung = Seat::start(&server, &[]);
    hung.wait_for_log("other seats are running:", PATIENCE);
    hung.freeze();
    wait::until("the server to drop the seat that hangs", PATIENCE, || {
        let connected = server.connections_of(&SEAT.user).len();
        if connected == 1 { Ok(()) } else { Err(format!("{connected} connections")) }
    });
    let reader = server.client(&READER);
    for _ in 0..50 {
        assert_eq!(reader.try_health().expect("an answer")["ready"], json!(true));
    }
    // Let go, it connects again, and is a seat like any other.
    let mark = hung.mark();
    hung.thaw();
    hung.wait_for_log_since(mark, "connected to", PATIENCE);
}
