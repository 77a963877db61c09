//! What survives a kill, a new store, new keys, and a server that comes and goes.

use crate::asking::{answer, refusal};
use crate::bench::{Bench, node};
use crate::support::controller::{accepted, made};
use mesh_testing::wait::{PATIENCE, until};
use serde_json::json;

#[test]
fn e08_a_restart_gives_the_same_bytes_and_writes_nothing() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("key", "hex")]));
    let attic = bench.server.client(&node("attic"));
    let before = answer(&bench.secret(&attic, "attic", "web", "key"));
    bench.wait_revision("attic.web.key", 1);
    let written = bench.tester.last_sequence("mesh-vault_revisions");
    // Killed, not stopped: what is committed is there.
    bench.vault.as_mut().unwrap().process.kill();
    bench.start(&[]);
    let after = until("the vault to answer again", PATIENCE, || {
        let request = json!({"node": "attic", "module": "web", "name": "key"}).to_string();
        let message =
            attic.request("mesh-vault.secret", request, PATIENCE).map_err(|why| format!("{why:?}"))?;
        serde_json::from_slice(&message.body).map_err(|_| message.text())
    });
    assert_eq!(before, after);
    assert_eq!(bench.tester.last_sequence("mesh-vault_revisions"), written);
}

#[test]
fn a_revision_that_was_not_told_before_a_crash_is_told_at_the_start() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("key", "hex")]));
    let attic = bench.server.client(&node("attic"));
    answer(&bench.secret(&attic, "attic", "web", "key"));
    bench.wait_revision("attic.web.key", 1);
    bench.vault = None;
    bench.tester.kv_delete("mesh-vault_revisions", "attic.web.key");
    bench.start(&[]);
    bench.wait_revision("attic.web.key", 1);
}

#[test]
fn a_lost_store_makes_nothing_that_was_handed_out_unless_it_is_told_to() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("key", "hex"), made("fresh", "hex"), accepted("token")]));
    let attic = bench.server.client(&node("attic"));
    answer(&bench.secret(&attic, "attic", "web", "key"));
    bench.wait_revision("attic.web.key", 1);
    bench.tester.kv_put(
        "mesh-vault_revisions",
        "attic.web.token",
        r#"{"revision":4,"origin":"accepted","recovery":null}"#,
    );
    bench.vault = None;
    for name in ["vault.db", "vault.db-wal", "vault.db-shm"] {
        let _ = std::fs::remove_file(bench.store().join(name));
    }
    let mesh = bench.controller.key();
    let made_again = crate::bench::command(&bench.store(), &["init", "--mesh", mesh.as_str()]);
    assert!(made_again.status.success());

    bench.start(&[]);
    bench.wait_ready();
    let (code, reason, sequence) = refusal(&bench.secret(&attic, "attic", "web", "key"));
    assert_eq!((code, reason.as_str(), sequence), (503, "store_lost", Some(1)));
    assert_eq!(refusal(&bench.secret(&attic, "attic", "web", "token")).0, 503);
    assert_eq!(answer(&bench.secret(&attic, "attic", "web", "fresh")).revision, 1, "what is new is made");

    bench.start(&["--remake"]);
    bench.wait_ready();
    until("the vault to make it again", PATIENCE, || {
        let message = bench.secret(&attic, "attic", "web", "key");
        let answer: mesh_model::vault_api::SecretAnswer =
            serde_json::from_slice(&message.body).map_err(|_| message.text())?;
        if answer.revision == 2 { Ok(()) } else { Err(answer.revision.to_string()) }
    });
    bench.wait_revision("attic.web.key", 2);
    let (code, reason, _) = refusal(&bench.secret(&attic, "attic", "web", "token"));
    assert_eq!((code, reason.as_str()), (404, "accept_again"), "a person gave it, and has to again");
}

#[test]
fn e09_a_node_with_new_keys_gets_new_secrets_and_what_a_person_gave_is_named() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("key", "hex")]));
    let attic = bench.server.client(&node("attic"));
    let first = answer(&bench.secret(&attic, "attic", "web", "key"));
    let old_record = bench.controller.record("attic");
    bench.join(&["attic"]);
    let second = until("a secret for the new key", PATIENCE, || {
        let answer = answer(&bench.secret(&attic, "attic", "web", "key"));
        if answer.revision == 2 { Ok(answer) } else { Err(answer.revision.to_string()) }
    });
    let label = bench.controller.label("attic", "web", "key");
    assert_eq!(bench.controller.open("attic", &second.sealed, &label).unwrap().0, 2);
    assert!(bench.controller.open("attic", &first.sealed, &label).is_err());

    // A lower epoch is a record from before: it is not believed, not even after a restart.
    bench.tester.kv_put("mesh-controller_nodes", "attic", &old_record);
    assert_eq!(answer(&bench.secret(&attic, "attic", "web", "key")), second);
    bench.start(&[]);
    bench.wait_ready();
    let (code, reason, _) = refusal(&bench.secret(&attic, "attic", "web", "key"));
    assert_eq!((code, reason.as_str()), (503, "no_record"));
    let log = bench.vault.as_ref().unwrap().log();
    assert!(log.contains("its epoch is 1, and 2 was seen before"), "{log}");
}

#[test]
fn e03_a_node_without_a_sealing_key_gets_a_word_and_no_secret() {
    let mut bench = Bench::started();
    bench.controller.join("attic");
    bench.assign("attic", "web", &json!([made("key", "hex")]));
    let attic = bench.server.client(&node("attic"));
    let (code, reason, sequence) = refusal(&bench.secret(&attic, "attic", "web", "key"));
    assert_eq!((code, reason.as_str(), sequence), (503, "no_record", Some(1)));
}

#[test]
fn the_bus_may_go_and_come_back() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("key", "hex")]));
    let before = answer(&bench.secret(&bench.server.client(&node("attic")), "attic", "web", "key"));
    bench.server.restart();
    let after = until("the vault to answer again", PATIENCE, || {
        let attic = mesh_testing::client::Client::try_connect(bench.server.address(), &node("attic"))?;
        let request = json!({"node": "attic", "module": "web", "name": "key"}).to_string();
        let message =
            attic.request("mesh-vault.secret", request, PATIENCE).map_err(|why| format!("{why:?}"))?;
        serde_json::from_slice(&message.body).map_err(|_| message.text())
    });
    assert_eq!(before, after);
}

#[test]
fn a_stopped_vault_says_so_in_its_status_file_and_ends_with_0() {
    let mut bench = Bench::started();
    let running = bench.vault.as_mut().unwrap();
    running.process.signal("TERM");
    let status = running.process.ended(PATIENCE).expect("an end");
    assert_eq!(status.code(), Some(0), "{}", running.log());
    bench.wait_status("the last words", |status| status["live"] == json!(false));
}

#[test]
fn a_second_copy_is_sealed_to_the_key_that_is_set_and_to_none_where_there_is_to_be_none() {
    let mut bench = Bench::new();
    let own = nkeys::XKey::new().public_key();
    let mesh = bench.controller.key();
    let init = crate::bench::command(&bench.store(), &["init", "--mesh", mesh.as_str(), "--recovery", &own]);
    assert!(init.status.success(), "{init:?}");
    bench.start(&[]);
    bench.wait_ready();
    bench.controller.join("attic");
    bench.controller.nodes.get_mut("attic").unwrap().recovery = false;
    bench.tester.kv_put("mesh-controller_nodes", "attic", bench.controller.record("attic"));
    bench.assign("attic", "web", &json!([made("first", "hex"), made("second", "hex")]));
    let attic = bench.server.client(&node("attic"));
    answer(&bench.secret(&attic, "attic", "web", "first"));
    assert_eq!(bench.wait_revision("attic.web.first", 1)["recovery"], json!(own));
    bench.start(&["--no-recovery"]);
    bench.wait_ready();
    answer(&bench.secret(&attic, "attic", "web", "second"));
    assert_eq!(bench.wait_revision("attic.web.second", 1)["recovery"], json!(null));
}
