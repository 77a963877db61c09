//! Who is answered, and where: a request cannot make the vault write elsewhere.

use crate::asking::refusal;
use crate::bench::{Bench, node};
use crate::support::controller::made;
use mesh_testing::wait::{PATIENCE, until};
use serde_json::json;

#[test]
fn a_reply_subject_that_could_do_harm_gets_nothing() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("key", "hex")]));
    let attic = bench.server.client(&node("attic"));
    let own = bench.secret(&attic, "attic", "web", "key");
    assert!(own.json()["sealed"].is_string());
    bench.wait_revision("attic.web.key", 1);
    let written = bench.tester.last_sequence("mesh-vault_revisions");
    let request = json!({"node": "attic", "module": "web", "name": "key"}).to_string();
    for reply in
        ["$KV.mesh-vault_revisions.attic.web.key", "mesh-vault.secret", "$JS.API.INFO", "_INBOX_mesh.vault.x"]
    {
        bench
            .tester
            .send(format!("PUB mesh-vault.secret {reply} {}\r\n{request}\r\n", request.len()).as_bytes());
    }
    bench.tester.flush();
    until("the vault to tell of it", PATIENCE, || {
        let status: serde_json::Value =
            bench.tester.request("$SRV.STATS.mesh-vault", "", PATIENCE).unwrap().json();
        let data = &status["endpoints"][0]["data"];
        if data["refused_replies"] == json!(4) { Ok(()) } else { Err(data.to_string()) }
    });
    assert_eq!(bench.tester.last_sequence("mesh-vault_revisions"), written);
}

#[test]
fn tools_find_the_vault_with_its_five_verbs() {
    let bench = Bench::started();
    let info = bench.tester.request("$SRV.INFO.mesh-vault", "", PATIENCE).unwrap().json();
    let subjects: Vec<&str> = info["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|endpoint| endpoint["subject"].as_str().unwrap())
        .collect();
    assert_eq!(
        subjects,
        [
            "mesh-vault.secret",
            "mesh-vault.consumers",
            "mesh-vault.accept",
            "mesh-vault.rotate",
            "mesh-vault.export"
        ]
    );
    assert!(
        info["endpoints"].as_array().unwrap().iter().all(|endpoint| endpoint["queue_group"] == json!("q"))
    );
}

#[test]
fn what_is_no_request_is_refused_with_its_place() {
    let bench = Bench::started();
    let attic = bench.server.client(&node("attic"));
    for (body, why) in [
        ("", "JSON"),
        ("[]", "object"),
        (r#"{"node":"attic","module":"web"}"#, "has no name"),
        (r#"{"node":"attic","module":"web","name":"a","nam":"b"}"#, "nam: unknown field"),
    ] {
        let message = attic.request("mesh-vault.secret", body, PATIENCE).unwrap();
        assert_eq!(refusal(&message).0, 400, "{body}");
        let said = message.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.contains(why) || why == "JSON", "{body}: {said}");
    }
    let large = format!(r#"{{"node":"{}","module":"web","name":"a"}}"#, "n".repeat(5000));
    assert_eq!(refusal(&attic.request("mesh-vault.secret", large, PATIENCE).unwrap()).1, "bad_request");
}

#[test]
fn a_node_reaches_none_of_the_operators_verbs() {
    let bench = Bench::started();
    let attic = bench.server.client(&node("attic"));
    for verb in ["accept", "rotate", "export"] {
        let denied = attic.request(format!("mesh-vault.{verb}"), "{}", PATIENCE);
        assert!(matches!(denied, Err(mesh_testing::client::Unanswered::Denied(_))), "{verb}: {denied:?}");
    }
}
