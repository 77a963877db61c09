//! Two vaults do harm.

use crate::asking::answer;
use crate::bench::{Bench, command, node};
use crate::support::controller::made;
use mesh_testing::wait::{PATIENCE, until};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_second_vault_with_the_same_store_does_not_start() {
    let bench = Bench::started();
    let store = bench.store();
    let mut second = bench.another(&store, &[]);
    let status = second.process.ended(PATIENCE).expect("an end");
    assert_eq!(status.code(), Some(78), "{}", second.log());
    assert!(second.log().contains("another mesh-vault has the store"), "{}", second.log());
}

#[test]
fn a_second_vault_with_a_store_of_its_own_stands_by_until_the_first_is_gone() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("key", "hex")]));
    let attic = bench.server.client(&node("attic"));
    let first = answer(&bench.secret(&attic, "attic", "web", "key"));
    let other = bench.folder.path().join("other");
    assert!(command(&other, &["init", "--mesh", bench.controller.key().as_str()]).status.success());
    let second = bench.another(&other, &[]);
    until("the second vault to stand by", PATIENCE, || {
        let log = second.log();
        if log.contains("standing by") { Ok(()) } else { Err(log) }
    });
    for _ in 0..20 {
        assert_eq!(answer(&bench.secret(&attic, "attic", "web", "key")), first);
    }
    bench.vault.as_mut().unwrap().process.kill();
    until("the second vault to answer", PATIENCE, || {
        // The server may have given one to the vault that was killed, so each waits for less than the whole.
        let asked = r#"{"node":"attic","module":"web","name":"key"}"#;
        let message = attic.request("mesh-vault.secret", asked, Duration::from_secs(1));
        let message = message.map_err(|why| format!("{why:?}"))?;
        // It has another key, which the mesh does not name: it hands out nothing.
        let reason = message.json()["error"]["reason"].clone();
        if reason == json!("other_vault") { Ok(()) } else { Err(message.text()) }
    });
}
