//! The controller's buckets on a real bus: finished after a crash, repaired from what was sent, never behind a lost lease.

mod support;

use mesh_controller::store::{lease, nodes, sent};
use mesh_daemon::exit::Exit;
use mesh_testing::client::Client;
use mesh_testing::wait;
use support::{Mesh, Serving, WAIT, act};

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
    assert!(sent::undone(mesh.store().inventory()).unwrap().is_empty());

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
