//! `health`: the status file, without a bus.

use crate::support::mesh::Mesh;
use crate::support::program::Program;
use crate::support::seat::Seat;
use crate::support::wait::{PATIENCE, until};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::SystemTime;
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
    let json = health(&path).args(&["--json"]).run().expect_code(0).stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["live"], &json["ready"], &json["status"]),
        (&json!(true), &json!(true), &json!("live, ready"))
    );
    mesh.seat.kill();
    let mut status: Value = serde_json::from_slice(&fs::read(&path).expect("the file")).expect("JSON");
    status["at"] = json!("2020-01-01T00:00:00Z");
    fs::write(&path, status.to_string()).expect("the file");
    let file = fs::File::options().write(true).open(&path).expect("the file");
    file.set_modified(SystemTime::UNIX_EPOCH).expect("its time");
    let old = health(&path).run().expect_code(1);
    assert!(old.stderr.contains("does not run any more: start the seat"), "{}", old.stderr);
    let json = health(&path).args(&["--json"]).run().expect_code(1).stdout;
    assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON")["live"], false);
}

#[test]
fn a_seat_that_was_stopped_says_so_in_its_file() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("status.json");
    let mut mesh = Mesh::start();
    mesh.seat = Seat::start(&mesh.server, &["--status-file", path.to_str().expect("UTF-8")]);
    says(&path, "live, ready");
    assert_eq!(mesh.seat.terminate(PATIENCE).code(), Some(0));
    let ended = health(&path).run().expect_code(1);
    assert!(ended.stderr.contains("the seat has ended with exit code 0, "), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

#[test]
fn a_file_that_cannot_be_written_is_reported_by_the_seat_and_by_health() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("status.json");
    let mut mesh = Mesh::start();
    mesh.seat = Seat::start(&mesh.server, &["--status-file", path.to_str().expect("UTF-8")]);
    says(&path, "live, ready");
    // The next file is made beside the old one: there is no room for it.
    let id = mesh.seat.id();
    fs::create_dir(directory.path().join(format!(".status.json.{id}"))).expect("a folder");
    mesh.seat.wait_for_log("status.json cannot be written: ", PATIENCE * 3);
    let mut status: Value = serde_json::from_slice(&fs::read(&path).expect("the file")).expect("JSON");
    status["at"] = json!("2020-01-01T00:00:00Z");
    fs::write(&path, status.to_string()).expect("the file");
    let line = health(&path).run().expect_code(0).stdout;
    assert!(line.starts_with("live, but its status file cannot be written, "), "{line}");
}

#[test]
fn without_a_name_it_is_the_usual_file() {
    let finished = Program::new(&["health"]).run().expect_code(1);
    assert!(finished.stderr.starts_with("/run/mesh-provisioner/status.json: "), "{}", finished.stderr);
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
