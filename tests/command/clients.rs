//! The example clients below `examples/`, run on a real server: they follow pages, and report what the seat and the
//! server report.

use crate::support::accounts::READER;
use crate::support::bucket::NEEDS;
use crate::support::mesh::Mesh;
use crate::support::program::{Finished, Program};
use crate::support::server::Server;
use crate::support::wait::PATIENCE;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The path of the Rust example, built on first use beside the binary under test.
fn rust_example() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_BIN_EXE_mesh-provisioner"));
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--locked", "--example", "ask"]);
        build.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        if folder.ends_with("release/mesh-provisioner") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "the example is not built");
        folder.with_file_name("examples").join("ask").to_str().expect("a path in UTF-8").to_owned()
    })
}

/// Runs both clients for the node `attic`, with their names.
fn run_both(server: &Server) -> [(&'static str, Finished); 2] {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/ask.py");
    let python = Program::new(&[script, "attic"]).binary("python3");
    let rust = Program::new(&["attic"]).binary(rust_example());
    [("Python", python), ("Rust", rust)]
        .map(|(name, program)| (name, program.server(server).account(&READER).run_within(PATIENCE)))
}

#[test]
fn the_example_clients_follow_pages_to_the_end() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    // More than two pages of a hundred, a malformed key, and another node.
    let keys: Vec<String> = (0..250).map(|number| format!("attic.web.port.p{number:03}")).collect();
    for key in &keys {
        tester.kv_put(NEEDS, key.as_str(), "123456789012345678901234567890.10");
    }
    tester.kv_put(NEEDS, "attic.web.port", "1");
    tester.kv_put(NEEDS, "cellar.web.port.http", "1");
    let [(_, python), (_, rust)] = run_both(&mesh.server);
    let (python, rust) = (python.expect_code(0), rust.expect_code(0));
    assert_eq!(python.stdout.lines().collect::<Vec<_>>(), keys);
    assert_eq!(python.stderr, "malformed: attic.web.port: 3 tokens where a need has 4\n");
    let lines: Vec<&str> = rust.stdout.lines().collect();
    assert_eq!(lines.len(), keys.len());
    for (line, key) in lines.iter().zip(&keys) {
        assert!(line.starts_with(&format!("{{\"key\":\"{key}\",\"node\":\"attic\"")), "{line}");
        assert!(line.contains("\"value\":123456789012345678901234567890.10,"), "{line}");
    }
    assert!(rust.stderr.contains("\"key\":\"attic.web.port\""), "{}", rust.stderr);
}

#[test]
fn the_example_clients_fail_with_the_error_of_the_seat() {
    let mesh = Mesh::start();
    mesh.admin().delete_bucket(NEEDS);
    for (name, finished) in run_both(&mesh.server) {
        let finished = finished.expect_code(1);
        let error = "error 503: bucket mesh-provisioner_needs does not exist";
        assert!(finished.stderr.contains(error), "{name}: {}", finished.stderr);
    }
}

#[test]
fn the_example_clients_fail_at_once_without_a_seat() {
    let server = Server::start();
    let [(_, python), (_, rust)] = run_both(&server);
    assert_eq!(python.expect_code(1).stderr, "no seat is connected\n");
    let words = rust.expect_code(1).stderr;
    assert!(words.contains("no responders"), "{words}");
}
