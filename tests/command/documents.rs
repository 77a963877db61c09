//! The command lines of the documents: each one runs. How to reach the reader's own bus stands there by way of example
//! and is replaced by the test's.

use crate::support::accounts::{ADMINISTRATOR, Account, READER, SEAT};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::mesh::Mesh;
use crate::support::program::Program;
use crate::support::seat::Seat;
use crate::support::verb::AsksTheSeat;
use crate::support::wait::PATIENCE;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The command lines in a document that begin with `program`: the lines of its shell blocks, and what stands in
/// backticks. A word alone is a name, not a command line.
fn command_lines(document: &str, program: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let mut lines = Vec::new();
    let mut shell = false;
    for line in text.lines() {
        if line.starts_with("```") {
            shell = line == "```sh";
        } else if shell {
            lines.push(line.split('#').next().unwrap_or_default().trim().to_owned());
        } else {
            lines.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    lines.retain(|line| line.strip_prefix(program).is_some_and(|rest| rest.starts_with(' ')));
    lines
}

/// The words of a command line, without what says how to connect.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut all = line.split_whitespace().skip(1);
    while let Some(word) = all.next() {
        if ["--server", "--creds"].contains(&word) {
            all.next();
        } else {
            words.push(word.trim_matches('\'').to_owned());
        }
    }
    words
}

/// Who runs a command, and how it may end on a mesh that has a gap and is behind.
fn expected(command: &str) -> (Account, &'static [i32]) {
    match command {
        "init" => (ADMINISTRATOR, &[0]),
        "check" | "plan" => (SEAT, &[0]),
        "ask" | "status" | "why" => (READER, &[0, 3]),
        _ => (READER, &[0]),
    }
}

#[test]
fn every_command_line_of_the_documents_runs() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    tester.kv_put(NEEDS, "attic.web.port.http", r#"{"port":8080}"#);
    tester.kv_put(NEEDS, "attic.web.licence.x", "1");
    tester.kv_put(APPLIED, "attic.web", "{}");
    tester.kv_put(COLLECT, "attic.shell=3Azsh=3Anormal.web", "[]");
    let mut run = 0;
    for document in ["README.md", "docs/mesh-provisioner.md", "PROTOCOL.md", "ARCHITECTURE.md"] {
        for line in command_lines(document, "mesh-provisioner") {
            let words = words(&line);
            let words: Vec<&str> = words.iter().map(String::as_str).take_while(|word| *word != ">").collect();
            run += 1;
            if words[0] == "serve" {
                let program = Program::new(&words).server(&mesh.server).account(&SEAT);
                let mut seat = Seat::spawn(&program, &mesh.server);
                seat.wait_for_log("connected to", PATIENCE);
                assert_eq!(seat.terminate(PATIENCE).code(), Some(0), "{document}: {line}");
                continue;
            }
            let (account, codes) = expected(words[0]);
            let finished = Program::new(&words).server(&mesh.server).account(&account).run();
            assert!(
                codes.contains(&finished.code()),
                "{document}: {line}: {}\n{}",
                finished.code(),
                finished.stderr
            );
        }
    }
    assert!(run >= 15, "{run} command lines were found: are they written in another way?");
}

#[test]
fn every_request_of_the_documents_is_answered() {
    let mesh = Mesh::start();
    let reader = mesh.reader();
    let lines = command_lines("docs/mesh-provisioner.md", "nats");
    assert!(!lines.is_empty());
    for line in lines {
        let (_, body) = line.split_once(" mesh-provisioner.provisioning ").expect("a request to the verb");
        let body: Value = serde_json::from_str(body.trim_matches('\'')).unwrap();
        reader.ask(&body).good();
    }
}

#[test]
fn every_script_of_the_documents_is_there() {
    for document in
        ["README.md", "docs/mesh-provisioner.md", "PROTOCOL.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
    {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for word in text.split(|c: char| c.is_whitespace() || "`()|,;:".contains(c)) {
            if word.starts_with("packaging/") {
                assert!(root().join(Path::new(word.trim_end_matches('.'))).exists(), "{document}: {word}");
            }
        }
    }
}
