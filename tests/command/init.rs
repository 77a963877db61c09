//! `init`: makes what is missing, changes nothing that is there.

use crate::support::accounts::{ADMINISTRATOR, READER, TESTER};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::mesh::{Mesh, init};
use crate::support::program::Program;
use crate::support::server::Server;
use crate::support::setup::Setup;
use serde_json::json;

const BUCKETS: [&str; 4] = [REGISTRY, NEEDS, APPLIED, COLLECT];

#[test]
fn it_makes_the_four_buckets_as_the_field_makes_them_and_leaves_them_alone() {
    let server = Server::start();
    let first = init(&server);
    assert_eq!(first.stdout, BUCKETS.map(|bucket| format!("bucket {bucket}: created\n")).concat());
    let tester = server.client(&TESTER);
    for bucket in BUCKETS {
        let config = &tester.stream_info(bucket)["config"];
        let history = if bucket == REGISTRY { 8 } else { 1 };
        for (field, value) in [
            ("subjects", json!([format!("$KV.{bucket}.>")])),
            ("max_msgs_per_subject", json!(history)),
            ("discard", json!("new")),
            ("storage", json!("file")),
            ("allow_rollup_hdrs", json!(false)),
            ("max_consumers", json!(100_000)),
            ("deny_delete", json!(true)),
            ("allow_direct", json!(true)),
            ("num_replicas", json!(1)),
        ] {
            assert_eq!(config[field], value, "{field} of {bucket}");
        }
    }
    tester.kv_put(NEEDS, "attic.web.port.http", "1");
    let again = init(&server);
    assert_eq!(again.stdout, BUCKETS.map(|bucket| format!("bucket {bucket}: there, as advised\n")).concat());
    assert_eq!((again.stderr.as_str(), tester.last_sequence(NEEDS)), ("", 1));
}

#[test]
fn a_bucket_that_differs_is_left_as_it_is_and_the_difference_said() {
    let server = Server::start();
    let tester = server.client(&TESTER);
    tester.create_bucket(NEEDS, &json!({"max_msgs_per_subject": 5, "max_bytes": 1_000_000}));
    let before = tester.stream_info(NEEDS)["config"].clone();
    let finished = init(&server);
    let line = finished.stdout.lines().find(|line| line.contains(NEEDS)).expect("a line of the bucket");
    assert_eq!(
        line,
        format!(
            "bucket {NEEDS}: there, left as it is: allow_rollup_hdrs is true, advised is false; max_bytes is 1000000, advised is -1; max_consumers is -1, advised is 100000; max_msgs_per_subject is 5, advised is 1"
        )
    );
    assert_eq!(tester.stream_info(NEEDS)["config"], before);
}

#[test]
fn one_bucket_that_is_refused_does_not_stop_the_others() {
    let server = Server::start();
    let tester = server.client(&TESTER);
    tester
        .api("STREAM.CREATE.other", &json!({"name": "other", "subjects": ["$KV.mesh-provisioner_needs.>"]}));
    let finished = Program::new(&["init"]).server(&server).account(&ADMINISTRATOR).run().expect_code(1);
    assert_eq!(finished.stdout.matches(": created\n").count(), 3, "{}", finished.stdout);
    assert!(
        finished.stderr.starts_with(&format!("bucket {NEEDS}: the bus refuses: "))
            && finished.stderr.contains("(100"),
        "{}",
        finished.stderr
    );
}

#[test]
fn without_the_right_it_is_77_and_without_jetstream_69() {
    let mesh = Mesh::start();
    let denied = Program::new(&["init"]).server(&mesh.server).account(&READER).run().expect_code(77);
    assert!(denied.stderr.contains("$JS.API.STREAM.INFO.KV_mesh-provisioner_registry"), "{}", denied.stderr);
    drop(mesh);

    let users = "{ user: administrator, password: password-of-administrator }";
    let server = Setup::custom(&format!("accounts {{ MESH {{ users: [{users}] }} }}")).start();
    let off = Program::new(&["init"]).server(&server).account(&ADMINISTRATOR).run().expect_code(69);
    assert_eq!(off.stdout, "");
    assert!(off.stderr.contains("enable it"), "{}", off.stderr);
}
