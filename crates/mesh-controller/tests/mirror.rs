//! The controller's buckets on a real bus: finished after a crash, repaired from what was sent, never behind a lost lease.

mod support;

use mesh_controller::store::{identity, lease, nodes, now, sent};
use mesh_daemon::exit::Exit;
use mesh_daemon::signals::Signal;
use mesh_model::declaration::Declaration;
use mesh_model::signed::PayloadType;
use mesh_testing::client::{Client, Unanswered};
use mesh_testing::wait;
use serde_json::Value;
use support::{Mesh, Serving, WAIT, act, try_connect};

const ASSIGNMENTS: &str = "mesh-controller_assignments";
const SETTINGS: &str = "mesh-controller_settings";
const DECLARATIONS: &str = "mesh-controller_declarations";

/// Writes down values as a push does, under the lease that is in the store.
fn intend(mesh: &Mesh, values: &[(sent::Bucket, &str, Option<&str>)]) {
    let mut store = mesh.store();
    let fence = lease::row(store.inventory()).unwrap().fence;
    let change = store.change_inventory(&act("push")).unwrap();
    if nodes::get(&change, "attic").unwrap().is_none() {
        nodes::add(&change, "attic", false, None, None).unwrap();
    }
    for (bucket, key, value) in values {
        let module = key.split_once('.').map_or("", |(_, module)| module);
        let row = sent::Sent {
            bucket: *bucket,
            key: (*key).to_owned(),
            node: "attic".into(),
            module: module.into(),
            value: value.map(|value| value.as_bytes().to_vec()),
            sequence: 1,
            fence,
            done: false,
            revision: 0,
            at: 0,
        };
        sent::intend(&change, &row).unwrap();
    }
    change.commit().unwrap();
}

#[track_caller]
fn holds(client: &Client, bucket: &str, key: &str, value: Option<&str>) {
    wait::until(&format!("{bucket} {key} to be {value:?}"), WAIT, || {
        let found = client.kv_get(bucket, key).filter(|stored| stored.header("KV-Operation").is_none());
        let found = found.map(|stored| String::from_utf8_lossy(&stored.value).into_owned());
        if found.as_deref() == value { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

fn ready(mesh: &Mesh) -> Serving {
    let serving = mesh.serve();
    serving.wait_ready();
    serving
}

#[test]
fn what_was_intended_is_finished_and_what_somebody_else_changes_is_put_back() {
    let mesh = Mesh::start();
    intend(
        &mesh,
        &[
            (sent::Bucket::Declarations, "attic", Some(r#"{"d":1}"#)),
            (sent::Bucket::Assignments, "attic.web", Some(r#"{"a":1}"#)),
            (sent::Bucket::Settings, "attic.web", Some("{}")),
        ],
    );
    let serving = ready(&mesh);
    let client = mesh.controller();
    holds(&client, ASSIGNMENTS, "attic.web", Some(r#"{"a":1}"#));
    holds(&client, SETTINGS, "attic.web", Some("{}"));
    holds(&client, DECLARATIONS, "attic", Some(r#"{"d":1}"#));
    wait::until("everything to be done in the store", WAIT, || {
        let undone = sent::undone(mesh.store().inventory()).unwrap();
        if undone.is_empty() { Ok(()) } else { Err(format!("{undone:?}")) }
    });

    // Foreign changes: of a value, a deletion, and a key that the store never knew.
    client.kv_put(ASSIGNMENTS, "attic.web", "junk");
    holds(&client, ASSIGNMENTS, "attic.web", Some(r#"{"a":1}"#));
    client.kv_delete(DECLARATIONS, "attic");
    holds(&client, DECLARATIONS, "attic", Some(r#"{"d":1}"#));
    client.kv_put(ASSIGNMENTS, "attic.other", "b8");
    wait::until("the foreign key to be told", WAIT, || {
        let status = serving.status();
        if status["mirrors"][1]["foreign"] == 1 { Ok(()) } else { Err(status.to_string()) }
    });
    holds(&client, ASSIGNMENTS, "attic.other", Some("b8"));

    // A value that is taken back is deleted, without a restart.
    intend(
        &mesh,
        &[(sent::Bucket::Assignments, "attic.web", None), (sent::Bucket::Settings, "attic.web", None)],
    );
    holds(&client, ASSIGNMENTS, "attic.web", None);
    holds(&client, SETTINGS, "attic.web", None);
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn c04_a_controller_that_was_paused_finds_its_lease_taken_and_writes_nothing() {
    let mesh = Mesh::start();
    let serving = ready(&mesh);
    // Another program has taken the lease, as it may once this one was paused for longer than the lease lives.
    let mut store = mesh.store();
    let fence = lease::row(store.inventory()).unwrap().fence;
    let change = store.note_inventory().unwrap();
    change
        .execute(
            "UPDATE lease SET holder = 'another', pid = 0, fence = ?1, renewed = ?2",
            [i64::try_from(fence).unwrap() + 1, now() + 60_000],
        )
        .unwrap();
    change.commit().unwrap();
    intend(&mesh, &[(sent::Bucket::Assignments, "attic.web", Some("of the other"))]);
    // Awake again, it looks, and the store refuses it by number.
    serving.signals.send(Signal::Reload).unwrap();
    wait::until("the controller to stand by", WAIT, || {
        let status = serving.status();
        if status["standing_by_for"].is_string() { Ok(()) } else { Err(status.to_string()) }
    });
    let client = mesh.controller();
    holds(&client, ASSIGNMENTS, "attic.web", None);
    assert!(matches!(client.request("mesh-controller.status", "", WAIT), Err(Unanswered::Denied(_))));
    assert_eq!(sent::undone(mesh.store().inventory()).unwrap().len(), 1);

    // The other one ends; what it wrote down is finished, under a higher fence.
    let change = store.note_inventory().unwrap();
    change.execute("UPDATE lease SET holder = NULL", []).unwrap();
    change.commit().unwrap();
    holds(&client, ASSIGNMENTS, "attic.web", Some("of the other"));
    assert_eq!(lease::row(mesh.store().inventory()).unwrap().fence, fence + 2);
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn b06_a_controller_that_starts_long_before_the_bus_works_once_it_is_there() {
    let mut mesh = Mesh::start();
    mesh.server.kill();
    let serving = mesh.serve();
    intend_later(&mesh);
    wait::until("the controller to say that it is not connected", WAIT, || {
        let status = serving.status();
        if status["fence"].is_u64() && status["server"].is_null() { Ok(()) } else { Err(status.to_string()) }
    });
    mesh.server.restart();
    serving.wait_ready();
    let client = mesh.controller();
    holds(&client, ASSIGNMENTS, "attic.web", Some("later"));
    // And again after the bus was killed.
    mesh.server.kill();
    mesh.server.restart();
    let client = mesh.controller();
    client.kv_put(ASSIGNMENTS, "attic.web", "junk");
    holds(&client, ASSIGNMENTS, "attic.web", Some("later"));
    assert_eq!(serving.stop(), Exit::Done);
}

/// Writes down a value once the controller holds the lease.
fn intend_later(mesh: &Mesh) {
    wait::until("the lease to be held", WAIT, || {
        let row = lease::row(mesh.store().inventory()).unwrap();
        if row.holder.is_some() { Ok(()) } else { Err(format!("{row:?}")) }
    });
    intend(mesh, &[(sent::Bucket::Assignments, "attic.web", Some("later"))]);
}

#[test]
fn m05_reports_are_kept_as_they_come_and_the_verbs_that_read_tell_of_them() {
    let nodes = support::nodes(2);
    let mesh = Mesh::with(&nodes);
    let serving = ready(&mesh);
    let node = try_connect(&mesh.server, &nodes[0].1.bus, "_INBOX_mesh.node.node-0000").unwrap();
    let stored: Value = node.request("$KV.mesh-controller_reports.node-0000", "{}", WAIT).unwrap().json();
    let revision = stored["seq"].as_u64().unwrap();
    wait::until("the report in the store", WAIT, || {
        let reports = nodes::reports(mesh.store().inventory()).unwrap();
        let kept = reports.get("node-0000").map(|heard| (heard.revision, heard.body.clone()));
        if kept == Some((revision, b"{}".to_vec())) { Ok(()) } else { Err(format!("{kept:?}")) }
    });
    let reader = mesh.role("reader", "_INBOX");
    let status: Value = reader.request("mesh-controller.status", "", WAIT).unwrap().json();
    assert_eq!(status["nodes"][0]["node"], "node-0000", "{status}");
    let plan: Value = reader.request("mesh-controller.plan", r#"{"node":"node-0001"}"#, WAIT).unwrap().json();
    assert_eq!(plan["type"], "io.mesh.controller.v1.plan_response", "{plan}");
    let refused = reader.request("mesh-controller.plan", r#"{"nod":1}"#, WAIT).unwrap();
    assert!(
        refused.header("Nats-Service-Error").is_some_and(|words| words.contains("NAME")),
        "{}",
        refused.text()
    );
    let found: Value = reader.request("$SRV.INFO.mesh-controller", "", WAIT).unwrap().json();
    let names: Vec<&str> = found["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|endpoint| endpoint["name"].as_str())
        .collect();
    assert_eq!(names, ["join", "status", "plan"]);
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn a_declaration_of_another_node_is_no_later_one_of_this() {
    let mesh = Mesh::start();
    intend(&mesh, &[(sent::Bucket::Declarations, "attic", Some(r#"{"d":1}"#))]);
    let serving = ready(&mesh);
    let client = mesh.controller();
    holds(&client, DECLARATIONS, "attic", Some(r#"{"d":1}"#));
    // It is of this mesh, validly signed, and has a higher number.
    let store = mesh.store();
    let of_cellar = Declaration {
        mesh: identity::expect_mesh(store.identity()).unwrap().id,
        node: "cellar".into(),
        sequence: 9,
        fence: 1,
        at: String::new(),
        vault: nkeys::XKey::new().public_key().parse().unwrap(),
        modules: Vec::new(),
        adoption: None,
    };
    let envelope = mesh.signer().sign(PayloadType::Declaration, &of_cellar).unwrap();
    client.kv_put(DECLARATIONS, "attic", envelope.to_bytes());
    holds(&client, DECLARATIONS, "attic", Some(r#"{"d":1}"#));
    assert_eq!(serving.stop(), Exit::Done);
}
