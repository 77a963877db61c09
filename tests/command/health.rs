//! `health`: the status file, without a bus.

use crate::support::mesh::Mesh;
use crate::support::program::Program;
use crate::support::seat::Seat;
use crate::support::wait::{PATIENCE, until};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::tempdir;

fn health(path: &Path) -> Program {
    Program::new(&["health", "--status-file", path.to_str().expect("UTF-8")])
}

fn says(path: &Path, line: &str) {
    until(&format!("health to say {line:?}"), PATIENCE * 2, || {
        let finished = health(path).run();
        (finished.stdout == format!("{line}\n") && finished.code() == 0)
            .then_some(())
            .ok_or(format!("{finished:?}"))
    });
}

#[test]
fn a_seat_that_runs_is_live_and_one_that_is_gone_is_not() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("status.json");
    let absent = health(&path).run().expect_code(1);
    assert!(absent.stderr.contains("is the seat running"), "{}", absent.stderr);
    assert_eq!(absent.stdout, "");

    let mut mesh = Mesh::start();
    let server = &mesh.server;
    mesh.seat = Seat::start(server, &["--status-file", path.to_str().expect("UTF-8")]);
    says(&path, "live, ready");
    // The runtime directory that systemd makes has it too.
    let runtime = directory.path().to_str().expect("UTF-8");
    Program::new(&["health"]).env("RUNTIME_DIRECTORY", runtime).run().expect_code(0);

    // The file of a seat that died is there, and grows old.
    mesh.seat.kill();
    let mut status: Value = serde_json::from_slice(&fs::read(&path).expect("the file")).expect("JSON");
    status["at"] = json!("2020-01-01T00:00:00Z");
    fs::write(&path, status.to_string()).expect("the file");
    let old = health(&path).run().expect_code(1);
    assert!(old.stderr.contains("the seat hangs or is gone"), "{}", old.stderr);
}

#[test]
fn a_seat_without_a_bus_is_live_and_says_what_is_missing() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("status.json");
    let mut mesh = Mesh::start();
    mesh.server.kill();
    mesh.seat = Seat::start(&mesh.server, &["--status-file", path.to_str().expect("UTF-8")]);
    let line = until("health to say what is missing", PATIENCE * 2, || {
        let finished = health(&path).run();
        let line = finished.stdout.trim_end().to_owned();
        (finished.code() == 0 && line.contains("refused")).then_some(line).ok_or(format!("{finished:?}"))
    });
    assert!(line.starts_with("live, not ready: not connected to the bus: "), "{line}");
}

#[test]
fn a_file_that_is_no_status_is_said() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("status.json");
    for text in ["", "{}", "[1]", r#"{"at":"yesterday","ready":true,"missing":[]}"#] {
        fs::write(&path, text).expect("the file");
        let finished = health(&path).run().expect_code(1);
        assert!(finished.stderr.starts_with(&format!("{}: ", path.display())), "{}", finished.stderr);
        assert_eq!(finished.stdout, "");
    }
}
