//! The papers of the vault against the program: document, manual, completions, unit and schemas.

use mesh_vault::wire::{Reason, Verb};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

#[track_caller]
fn file(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[track_caller]
fn help(command: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_mesh-vault")).args(command).arg("--help").output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The long options in a text.
fn options(text: &str) -> Vec<String> {
    let mut found: Vec<String> = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

const COMMANDS: [&str; 7] = ["serve", "init", "key", "check", "status", "health", "version"];

#[test]
fn every_command_and_option_is_in_manual_document_and_completions() {
    let manual = file("packaging/mesh-vault/mesh-vault.8").replace("\\-", "-");
    let document = file("docs/mesh-vault.md");
    let scripts = ["mesh-vault.bash", "mesh-vault.fish", "_mesh-vault"];
    for command in COMMANDS {
        let mut text = help(&[command]);
        if command == "key" {
            text += &help(&["key", "show"]);
        }
        assert!(manual.contains(command) && document.contains(command), "{command}");
        for script in scripts {
            let script = file(&format!("packaging/mesh-vault/{script}"));
            assert!(script.contains(command), "{command}");
            for option in options(&text).iter().filter(|option| *option != "--help") {
                assert!(manual.contains(option), "{command} {option} is not in the manual");
                let name = option.trim_start_matches('-');
                assert!(script.contains(name), "{command} {option} is not in a completion");
            }
        }
    }
}

#[test]
fn every_verb_and_reason_is_in_document_and_schema() {
    let document = file("docs/mesh-vault.md");
    let schema: Value = serde_json::from_str(&file("packaging/schema/vault/error_response.json")).unwrap();
    let words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(schema["properties"]["error"]["properties"]["reason"]["enum"], json!(words));
    for reason in Reason::ALL {
        let line = document.lines().find(|line| line.contains(&format!("`{}`", reason.as_str())));
        let line = line.unwrap_or_else(|| panic!("{} is not in the document", reason.as_str()));
        assert!(line.contains(&reason.code().to_string()) || !line.starts_with('|'), "{line}");
    }
    for verb in Verb::ALL {
        assert!(document.contains(&format!("`{}`", verb.subject())));
        let endpoint = verb.endpoint();
        for id in [endpoint.request_schema, endpoint.response_schema] {
            let name = id.strip_prefix("io.mesh.vault.v1.").unwrap();
            let schema: Value =
                serde_json::from_str(&file(&format!("packaging/schema/vault/{name}.json"))).unwrap();
            assert_eq!(schema["$id"], json!(format!("urn:mesh:{id}")));
        }
    }
}

#[test]
fn the_unit_starts_what_there_is_and_stays_away_from_what_a_restart_does_not_help() {
    let unit = file("packaging/mesh-vault/mesh-vault.service");
    for line in [
        "ExecStart=/usr/bin/mesh-vault serve $MESH_VAULT_OPTIONS",
        "Type=notify",
        "RestartPreventExitStatus=64 78",
        "StateDirectory=mesh-vault",
        "StateDirectoryMode=0700",
        "LimitCORE=0",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    assert!(!unit.contains("provisioner"));
}
