//! What the commands say of a vault, beside it and without it.

use crate::asking::refusal;
use crate::bench::{Bench, PROGRAM, command, node, vault};
use crate::support::controller::made;
use mesh_testing::wait::{PATIENCE, until};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

fn check(bench: &Bench) -> (Option<i32>, Value) {
    let account = vault();
    let mut command = Command::new(PROGRAM);
    command.args(["check", "--json", "--server", &bench.server.client_url(), "--store"]).arg(bench.store());
    command.env_clear().env("NATS_USER", &*account.user).env("NATS_PASSWORD", &*account.password);
    let Output { status, stdout, .. } = command.output().expect("the program");
    (status.code(), serde_json::from_slice(&stdout).expect("JSON"))
}

#[test]
fn check_finds_all_well_beside_a_vault_that_runs_and_names_what_is_missing() {
    let mut bench = Bench::started();
    let written = bench.tester.last_sequence("mesh-vault_revisions");
    let (code, report) = check(&bench);
    assert_eq!(code, Some(0), "{report}");
    let last = report["lines"].as_array().unwrap().last().unwrap()["how"].as_str().unwrap();
    assert!(last.contains("serves, version"), "{last}");
    assert_eq!(bench.tester.last_sequence("mesh-vault_revisions"), written, "nothing was written");
    bench.vault = None;
    bench.tester.delete_bucket("mesh-vault_revisions");
    let (code, report) = check(&bench);
    assert_eq!(code, Some(1));
    let wrong: Vec<&str> = report["lines"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["ok"] == json!(false))
        .map(|line| line["what"].as_str().unwrap())
        .collect();
    assert_eq!(wrong, ["bucket mesh-vault_revisions", "writing revisions"]);
}

#[test]
fn a_bucket_that_is_missing_is_named_and_found_once_it_is_made() {
    let mut bench = Bench::new();
    bench.tester.delete_bucket("mesh-controller_nodes");
    bench.controller.join("attic");
    bench.start(&[]);
    let attic = bench.server.client(&node("attic"));
    let message = until("the vault to answer", PATIENCE, || {
        let request = r#"{"node":"attic","module":"web","name":"key"}"#;
        attic.request("mesh-vault.secret", request, PATIENCE).map_err(|why| format!("{why:?}"))
    });
    let (code, reason, _) = refusal(&message);
    assert_eq!((code, reason.as_str()), (503, "not_read"));
    let said = message.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("has not read mesh-controller_nodes yet"), "{said}");
    bench.tester.create_bucket("mesh-controller_nodes", &json!({}));
    bench.wait_ready();
    let record = bench.controller.record("attic");
    bench.tester.kv_put("mesh-controller_nodes", "attic", record);
    bench.assign("attic", "web", &json!([made("key", "hex")]));
    until("the secret", PATIENCE, || {
        let message = bench.secret(&attic, "attic", "web", "key");
        if message.json()["revision"] == json!(1) { Ok(()) } else { Err(message.text()) }
    });
}

#[test]
fn status_and_health_say_how_it_stands_and_the_key_is_shown_by_its_public_half_alone() {
    let mut bench = Bench::started();
    let file = bench.status_file().display().to_string();
    let run = |arguments: &[&str]| {
        let output = Command::new(PROGRAM).args(arguments).env_clear().output().expect("the program");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(run(&["health", "--status-file", &file]), (Some(0), "live, ready\n".to_owned()));
    let (code, text) = run(&["status", "--status-file", &file]);
    assert_eq!(code, Some(0));
    assert!(text.contains("current     mesh-vault_revisions"), "{text}");
    bench.vault.as_mut().unwrap().process.signal("TERM");
    bench.wait_status("the last words", |status| status["live"] == json!(false));
    assert_eq!(run(&["health", "--status-file", &file]).0, Some(1));
    assert_eq!(run(&["status", "--status-file", &file]).0, Some(1));

    let shown = command(&bench.store(), &["key", "show"]);
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), format!("{}\n", bench.controller.vault));
    let made = command(&bench.store(), &["key", "make"]);
    assert_eq!(made.status.code(), Some(1), "one that is there is never replaced");
    assert_eq!(run(&["version"]).0, Some(0));
    assert_eq!(run(&["serv"]).0, Some(64));
    // Others may not read it.
    std::fs::set_permissions(bench.key_file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = command(&bench.store(), &["key", "show"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("may be read by others"));
}
