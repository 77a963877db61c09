//! `status`: the whole mesh on one screen, for a person, a program and a collector of metrics.

use crate::support::accounts::READER;
use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::mesh::Mesh;
use crate::support::program::{Finished, Program};
use serde_json::{Value, json};

fn status(mesh: &Mesh, arguments: &[&str]) -> Finished {
    Program::new(&["status"]).args(arguments).server(&mesh.server).account(&READER).run()
}

fn troubled() -> Mesh {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    tester.kv_put(NEEDS, "attic.web.port.http", "1");
    tester.kv_put(APPLIED, "attic.web", "{}");
    tester.kv_put(NEEDS, "attic.backup.secret.key", r#"{"state":"waiting","why":"no responder"}"#);
    tester.kv_put(NEEDS, "cellar.media.licence.codec", "1");
    tester.kv_put(NEEDS, "cellar.media", "1");
    tester.kv_put(COLLECT, "attic.motd.web", "1");
    mesh
}

#[test]
fn a_mesh_that_is_well_is_0() {
    let mesh = Mesh::start();
    let finished = status(&mesh, &[]).expect_code(0);
    assert_eq!(finished.stderr, "");
    for line in ["modules      0\n", "gaps         0\n", "malformed    0\n"] {
        assert!(finished.stdout.contains(line), "{}", finished.stdout);
    }
    let seat = finished.stdout.lines().next().expect("a first line");
    assert!(seat.starts_with("seat         ") && seat.ends_with(", ready"), "{seat}");
    assert!(!finished.stdout.contains("next:"), "{}", finished.stdout);
}

#[test]
fn status_shows_all_that_is_not_well_of_a_real_mesh() {
    let mesh = troubled();
    let finished = status(&mesh, &[]).expect_code(3);
    for part in [
        "modules      3: 1 current, 2 never\n",
        "gaps         1\n",
        "waiting      1, of these 0 for longer than a minute\n",
        "collections  1: 1 unread\n",
        "malformed    1: cellar 1\n",
        "\nnot current\nNODE    MODULE  STATE  NEEDS  NEEDED  APPLIED\nattic   backup  never  1",
        "\ngaps\nNODE    MODULE  KIND     NAME   AGE\ncellar  media   licence  codec  ",
        "\nwaiting\nNODE   MODULE  KIND    NAME  AGE  WHY\nattic  backup  secret  key   ",
        "\nnext: mesh-provisioner why cellar media licence:codec\n",
    ] {
        assert!(finished.stdout.contains(part), "{part:?} is not in\n{}", finished.stdout);
    }
    assert!(finished.stdout.lines().count() <= 30, "{}", finished.stdout);
    let grid = status(&mesh, &["--grid"]).expect_code(3).stdout;
    assert_eq!(
        grid,
        "NODE    backup  media  web\nattic   never   ·      current\ncellar  ·       never  ·\n"
    );
}

#[test]
fn a_program_and_a_collector_of_metrics_get_the_same() {
    let mesh = troubled();
    let json = status(&mesh, &["--json"]).expect_code(3).stdout;
    let whole: Value = serde_json::from_str(&json).expect("one line of JSON");
    assert_eq!(whole["ok"], false);
    assert_eq!(whole["modules"], json!({"current": 1, "never": 2}));
    assert_eq!(whole["malformed"], json!({"cellar": 1}));
    let metrics = status(&mesh, &["--format", "prometheus"]).expect_code(3).stdout;
    for line in [
        "mesh_provisioner_up 1\n",
        "mesh_provisioner_ready 1\n",
        "mesh_provisioner_ok 0\n",
        "mesh_provisioner_modules{state=\"never\"} 2\n",
        "mesh_provisioner_gaps 1\n",
        "mesh_provisioner_waiting 1\n",
        "mesh_provisioner_malformed{node=\"cellar\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    let down =
        Program::new(&["status", "--format=prometheus", "-s", "nats://127.0.0.1:9"]).run().expect_code(69);
    assert!(down.stdout.ends_with("mesh_provisioner_up 0\n"), "{}", down.stdout);
}

#[test]
fn a_node_that_has_not_written_for_long_is_stale_only_if_that_is_asked_for() {
    let mesh = Mesh::start();
    mesh.tester().kv_put(NEEDS, "attic.web.port.http", "1");
    mesh.tester().kv_put(APPLIED, "attic.web", "{}");
    assert!(status(&mesh, &[]).expect_code(0).stdout.contains("nodes        1: the quietest, attic, wrote "));
    let within = status(&mesh, &["--stale-after", "1d"]).expect_code(0).stdout;
    assert!(within.contains("nodes        1: none stale, each wrote within 1d\n"), "{within}");
}
