//! `why`: the verdict on a placeholder, with what it is based on and what to do next.

use crate::support::accounts::READER;
use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::mesh::Mesh;
use crate::support::program::{Finished, Program};
use serde_json::Value;

fn why(mesh: &Mesh, arguments: &[&str]) -> Finished {
    Program::new(&["why"]).args(arguments).server(&mesh.server).account(&READER).run()
}

#[track_caller]
fn says(finished: &Finished, parts: &[&str]) {
    for part in parts {
        assert!(finished.stdout.contains(part), "{part:?} is not in\n{}", finished.stdout);
    }
}

#[test]
fn a_placeholder_that_is_filled_says_since_when() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    tester.kv_put(NEEDS, "attic.web.port.http", r#"{"port":8080}"#);
    tester.kv_put(APPLIED, "attic.web", "{}");
    for placeholder in ["port:http", "${port:http}"] {
        let finished = why(&mesh, &["attic", "web", placeholder]).expect_code(0);
        says(
            &finished,
            &[
                "attic web port:http is filled: applied ",
                "need      attic.web.port.http, revision ",
                r#"ago: {"port":8080}"#,
                "answered  by placement, module mesh-controller: bucket mesh-controller_assignments, key attic.web\n",
                "applied   ",
            ],
        );
        assert!(!finished.stdout.contains("next:"), "{}", finished.stdout);
    }
    says(
        &why(&mesh, &["attic", "web"]).expect_code(0),
        &["attic web is current: its need was written before"],
    );
}

#[test]
fn what_is_wrong_is_one_sentence_with_the_next_command() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    tester.kv_put(APPLIED, "attic.web", "{}");
    tester.kv_put(NEEDS, "attic.web.port.http", "1");
    tester.kv_put(NEEDS, "attic.web.licence.codec", "1");
    tester.kv_put(NEEDS, "attic.web.secret.key", r#"{"state":"waiting","why":"no responder"}"#);
    tester.kv_put(NEEDS, "attic.web.shell.zsh=3Anormal", "1");
    tester.kv_put(NEEDS, "attic.web.config", "1");
    tester.kv_put(COLLECT, "attic.motd.web", "1");
    for (placeholder, sentence, next) in [
        (
            "port:http",
            "is not applied: the need was written ",
            "journalctl -u mesh-provisioner-client -u mesh-host",
        ),
        ("licence:codec", "nobody answers the kind \"licence\"", "mesh-provisioner ask registry"),
        ("secret:key", "waits for its value: no responder", "systemctl status mesh-vault"),
        (
            "shell:zsh:normal",
            "is empty: nobody on attic contributes to",
            "mesh-provisioner ask collections --node attic",
        ),
        (
            "config:db",
            "its key attic.web.config is malformed: 3 tokens",
            "nats kv del mesh-provisioner_needs attic.web.config --force",
        ),
        ("port:htpt", "did you mean port:http?", "mesh-provisioner ask needs --node attic --module web"),
    ] {
        let finished = why(&mesh, &["attic", "web", placeholder]).expect_code(3);
        says(
            &finished,
            &[&format!("attic web {placeholder} "), sentence, "\nnext: ", &format!("\n  {next}\n")],
        );
        let json = why(&mesh, &["attic", "web", placeholder, "--json"]).expect_code(3).stdout;
        let verdict: Value = serde_json::from_str(&json).expect("one line of JSON");
        assert_eq!((&verdict["ok"], &verdict["next"]["command"]), (&Value::from(false), &Value::from(next)));
    }
    says(
        &why(&mesh, &["attic", "web"]).expect_code(3),
        &["attic web has a malformed key: attic.web.config: 3 tokens"],
    );
}
