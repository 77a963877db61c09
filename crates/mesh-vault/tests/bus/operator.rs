//! The operator's verbs: signed, each id good once.

use crate::asking::{answer, refusal};
use crate::bench::{Bench, controller, node};
use crate::schema;
use crate::support::controller::{accepted, bound, made};
use mesh_daemon::time::rfc3339;
use mesh_model::vault_api::{ExportAnswer, RevisionAnswer};
use mesh_testing::client::Client;
use mesh_testing::wait::{PATIENCE, until};
use mesh_testing::wire::Message;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

fn now() -> String {
    rfc3339(SystemTime::now())
}

#[track_caller]
fn ask(client: &Client, verb: &str, body: &[u8]) -> Message {
    let message = client.request(format!("mesh-vault.{verb}"), body, PATIENCE).expect("an answer");
    let schema = if verb == "export" { "export_response" } else { "revision_response" };
    schema::check_answer(schema, &message);
    message
}

fn place(name: &str) -> Value {
    json!({"node": "attic", "module": "web", "name": name})
}

fn accept(bench: &Bench, id: &str, name: &str, value: &[u8]) -> Vec<u8> {
    let mut fields = place(name);
    fields["value"] = json!(bench.controller.value("attic", "web", name, value));
    let mut payload = fields.clone();
    for (name, value) in [("mesh", "m"), ("verb", "accept"), ("id", id), ("at", &now())] {
        payload[name] = json!(value);
    }
    schema::check("signed_request", &payload);
    bench.controller.request("accept", id, &now(), &fields)
}

#[track_caller]
fn revision(message: &Message) -> RevisionAnswer {
    serde_json::from_slice(&message.body).unwrap_or_else(|error| panic!("{error}: {}", message.text()))
}

#[test]
fn an_accepted_value_reaches_its_host_and_no_id_is_good_twice() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([accepted("api-token")]));
    bench.wait_status("the declaration to be read", |status| status["ready"] == json!(true));
    let (attic, operator) = (bench.server.client(&node("attic")), bench.server.client(&controller()));
    assert_eq!(refusal(&bench.secret(&attic, "attic", "web", "api-token")).0, 404);

    let request = accept(&bench, "one", "api-token", b"given by a person\n\0");
    assert_eq!(
        revision(&ask(&operator, "accept", &request)),
        RevisionAnswer { id: "one".into(), revision: 1 }
    );
    let told = bench.wait_revision("attic.web.api-token", 1);
    assert_eq!(told["origin"], json!("accepted"));
    let own = answer(&bench.secret(&attic, "attic", "web", "api-token"));
    let label = bench.controller.label("attic", "web", "api-token");
    assert_eq!(
        bench.controller.open("attic", &own.sealed, &label).unwrap(),
        (1, b"given by a person\n\0".to_vec())
    );

    let (code, reason, _) = refusal(&ask(&operator, "accept", &request));
    assert_eq!((code, reason.as_str()), (409, "used_id"));
    assert_eq!(answer(&bench.secret(&attic, "attic", "web", "api-token")), own, "and nothing changed");
    assert_eq!(
        revision(&ask(&operator, "accept", &accept(&bench, "two", "api-token", b"newer"))).revision,
        2
    );
}

#[test]
fn a_request_counts_by_its_signature_time_verb_and_place_alone() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign(
        "attic",
        "web",
        &json!([made("key", "hex"), accepted("api-token"), bound("database", "postgres", "cellar", "db")]),
    );
    let attic = bench.server.client(&node("attic"));
    answer(&bench.secret(&attic, "attic", "web", "key"));
    let operator = bench.server.client(&controller());
    let refused = |verb: &str, body: &[u8]| {
        let (code, reason, _) = refusal(&ask(&operator, verb, body));
        format!("{code} {reason}")
    };
    let request =
        |id: &str, at: &str, verb: &str, name: &str| bench.controller.request(verb, id, at, &place(name));

    assert_eq!(refused("rotate", b"{}"), "400 bad_request");
    let stranger = crate::support::controller::Controller::new(bench.controller.vault.clone());
    assert_eq!(refused("rotate", &stranger.request("rotate", "a", &now(), &place("key"))), "403 not_signed");
    assert_eq!(refused("export", &request("b", &now(), "rotate", "key")), "400 bad_request");
    let old = rfc3339(SystemTime::now() - Duration::from_secs(3600));
    assert_eq!(refused("rotate", &request("c", &old, "rotate", "key")), "403 not_signed");
    assert_eq!(refused("rotate", &request("d", &now(), "rotate", "nothing")), "404 absent");
    assert_eq!(refused("rotate", &request("e", &now(), "rotate", "api-token")), "409 not_possible");
    assert_eq!(refused("rotate", &request("f", &now(), "rotate", "database")), "409 not_possible");
    let mut elsewhere = place("api-token");
    elsewhere["value"] = json!(bench.controller.value("attic", "mail", "api-token", b"x"));
    assert_eq!(
        refused("accept", &bench.controller.request("accept", "g", &now(), &elsewhere)),
        "400 bad_request"
    );
    let large = vec![b'x'; 256 * 1024 + 1];
    assert_eq!(refused("accept", &accept(&bench, "h", "api-token", &large)), "400 bad_request");
    let other_mesh = crate::support::controller::Controller { id: "other".into(), ..stranger };
    assert_eq!(refused("export", &other_mesh.request("export", "i", &now(), &json!({}))), "403 not_signed");
    // A refused request has used no id.
    assert_eq!(revision(&ask(&operator, "rotate", &request("d", &now(), "rotate", "key"))).revision, 2);
}

#[test]
fn e01_after_a_new_recovery_key_the_export_says_what_each_opens() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("old", "hex"), made("turned", "hex")]));
    let (attic, operator) = (bench.server.client(&node("attic")), bench.server.client(&controller()));
    for name in ["old", "turned"] {
        answer(&bench.secret(&attic, "attic", "web", name));
    }
    let before = std::mem::replace(&mut bench.controller.recovery, nkeys::XKey::new());
    bench.tester.kv_put("mesh-controller_nodes", "attic", bench.controller.record("attic"));
    let new = bench.controller.recovery.public_key();
    until("the new recovery key to be used", PATIENCE, || {
        let id = nuid::next().to_string();
        let request = bench.controller.request("rotate", &id, &now(), &place("turned"));
        let revision = revision(&ask(&operator, "rotate", &request)).revision;
        let told = bench.wait_revision("attic.web.turned", revision);
        if told["recovery"] == json!(new) { Ok(()) } else { Err(told.to_string()) }
    });
    let request = bench.controller.request("export", "page", &now(), &json!({}));
    let page: ExportAnswer = serde_json::from_slice(&ask(&operator, "export", &request).body).unwrap();
    assert_eq!(page.next, None);
    let of_old: Vec<_> = page.copies.iter().filter(|copy| copy.name == "old").collect();
    assert_eq!(of_old.len(), 1);
    assert_eq!(of_old[0].sealed.recipient().to_string(), before.public_key(), "sealed once, and never again");
    let newest =
        page.copies.iter().filter(|copy| copy.name == "turned").max_by_key(|copy| copy.revision).unwrap();
    let label = bench.controller.label("attic", "web", "turned");
    assert_eq!(bench.controller.recover(&newest.sealed, &label).unwrap().1.len(), 64);
}

#[test]
fn an_export_of_many_large_copies_comes_in_pages() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    let names: Vec<String> = (0..5).map(|number| format!("token-{number}")).collect();
    let needs: Vec<Value> = names.iter().map(|name| accepted(name)).collect();
    bench.assign("attic", "web", &json!(needs));
    let operator = bench.server.client(&controller());
    let value = vec![b'v'; 200_000];
    for name in &names {
        until("the node to be known", PATIENCE, || {
            let message = ask(&operator, "accept", &accept(&bench, &nuid::next(), name, &value));
            serde_json::from_slice::<RevisionAnswer>(&message.body).map(drop).map_err(|_| message.text())
        });
    }
    let (mut found, mut next, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let fields = next.map_or(json!({}), |name| json!({"name": name}));
        let request = bench.controller.request("export", &nuid::next(), &now(), &fields);
        let message = ask(&operator, "export", &request);
        let page: ExportAnswer =
            serde_json::from_slice(&message.body).unwrap_or_else(|_| panic!("{}", message.text()));
        pages += 1;
        for copy in &page.copies {
            let label = bench.controller.label(&copy.node, &copy.module, &copy.name);
            assert_eq!(bench.controller.recover(&copy.sealed, &label).unwrap().1, value);
            found.push(copy.name.clone());
        }
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(found, names);
    assert_eq!(pages, 5, "two copies of 267 KB each do not fit into one page");
}

#[test]
fn e04_a_rotated_secret_is_told_at_once_and_the_one_before_stays_until_the_new_one_is_applied() {
    let mut bench = Bench::started();
    bench.join(&["attic"]);
    bench.assign("attic", "web", &json!([made("key", "base64url")]));
    let (attic, operator) = (bench.server.client(&node("attic")), bench.server.client(&controller()));
    let first = answer(&bench.secret(&attic, "attic", "web", "key"));
    bench.apply("attic", "web", &json!({"key": 1}));
    let request = bench.controller.request("rotate", "turn", &now(), &place("key"));
    assert_eq!(revision(&ask(&operator, "rotate", &request)).revision, 2);
    bench.wait_revision("attic.web.key", 2);
    let second = answer(&bench.secret(&attic, "attic", "web", "key"));
    assert_eq!(second.revision, 2);
    let label = bench.controller.label("attic", "web", "key");
    let open = |sealed| bench.controller.open("attic", sealed, &label).unwrap().1;
    assert_ne!(open(&first.sealed), open(&second.sealed));

    let copies = || {
        let request = bench.controller.request("export", &nuid::next(), &now(), &json!({}));
        let page: ExportAnswer = serde_json::from_slice(&ask(&operator, "export", &request).body).unwrap();
        page.copies.iter().map(|copy| copy.revision).collect::<Vec<u64>>()
    };
    assert_eq!(copies(), [1, 2], "both are kept");
    bench.apply("attic", "web", &json!({"key": 2}));
    until("the older revision to be forgotten", PATIENCE, || match copies().as_slice() {
        [2] => Ok(()),
        other => Err(format!("{other:?}")),
    });
}
