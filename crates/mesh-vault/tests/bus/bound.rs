//! Bound credentials: the provider has each first.

use crate::asking::{answer, refusal};
use crate::bench::{Bench, node};
use crate::schema;
use crate::support::controller::{bound, consumers};
use mesh_model::assignment::Consumer;
use mesh_model::secret::{Credential, Secret};
use mesh_model::vault_api::ConsumersAnswer;
use mesh_testing::client::Client;
use mesh_testing::wait::{PATIENCE, until};
use serde_json::json;

#[track_caller]
fn list(bench: &Bench, client: &Client) -> ConsumersAnswer {
    let request = json!({"node": "cellar", "module": "db", "provision": "postgres"});
    schema::check("consumers_request", &request);
    let message = client.request("mesh-vault.consumers", request.to_string(), PATIENCE).expect("an answer");
    schema::check_answer("consumers_response", &message);
    let answer: ConsumersAnswer = serde_json::from_slice(&message.body).unwrap_or_else(|error| {
        panic!("{error}: {}\n{}", message.text(), bench.vault.as_ref().unwrap().log())
    });
    answer
}

fn consumer(node: &str) -> Consumer {
    Consumer { node: node.to_owned(), module: "web".to_owned(), name: "database".to_owned() }
}

#[test]
fn the_provider_has_a_credential_before_its_consumer() {
    let mut bench = Bench::started();
    bench.join(&["attic", "cellar"]);
    bench.assign("attic", "web", &json!([bound("database", "postgres", "cellar", "db")]));
    let of = [("attic", "web", "database"), ("garage", "web", "database")];
    bench.assign("cellar", "db", &json!([consumers("postgres", &of)]));
    bench.wait_revision("cellar.db.consumers=3Apostgres", 1);
    let (attic, cellar) = (bench.server.client(&node("attic")), bench.server.client(&node("cellar")));

    let (code, reason, sequence) = refusal(&bench.secret(&attic, "attic", "web", "database"));
    assert_eq!((code, reason.as_str(), sequence), (404, "not_applied", Some(1)));
    assert!(bench.tester.kv_get("mesh-vault_revisions", "attic.web.database").is_none(), "not told before");

    let given = list(&bench, &cellar);
    assert_eq!((given.revision, given.sealed.len()), (1, 1));
    assert_eq!(given.left_out, [consumer("garage")], "whose node has no key is named");
    assert_eq!(given.sealed[0].of, consumer("attic"));
    let label = bench.controller.consumer_label("cellar", "db", "postgres", &consumer("attic"));
    let (revision, value) = bench.controller.open("cellar", &given.sealed[0].sealed, &label).unwrap();
    let at_provider = Credential::read(&Secret::copy(&value)).expect("a credential");
    assert_eq!((revision, at_provider.user.expose()), (1, &b"web_database_attic"[..]));
    assert_eq!(at_provider.password.expose().len(), 43);

    bench.apply("cellar", "db", &json!({"consumers:postgres": 1}));
    bench.wait_revision("attic.web.database", 1);
    let own = answer(&bench.secret(&attic, "attic", "web", "database"));
    let (_, same) = bench
        .controller
        .open("attic", &own.sealed, &bench.controller.label("attic", "web", "database"))
        .unwrap();
    assert_eq!(same, value, "both have the same credential");

    // Whoever was left out comes in as soon as it has a key, in a new revision of the list.
    bench.join(&["garage"]);
    bench.wait_revision("cellar.db.consumers=3Apostgres", 2);
    let given = list(&bench, &cellar);
    assert_eq!((given.revision, given.sealed.len(), given.left_out.len()), (2, 2, 0));
    assert_eq!(answer(&bench.secret(&attic, "attic", "web", "database")), own, "the others keep theirs");
}

#[test]
fn while_a_provider_moves_a_credential_belongs_to_the_list_that_its_consumer_names() {
    let mut bench = Bench::started();
    bench.join(&["attic", "cellar", "garage"]);
    let of = [("attic", "web", "database")];
    bench.assign("attic", "web", &json!([bound("database", "postgres", "cellar", "db")]));
    bench.assign("cellar", "db", &json!([consumers("postgres", &of)]));
    bench.wait_revision("cellar.db.consumers=3Apostgres", 1);
    // Both providers have the consumer in their lists, as between two pushes.
    bench.assign("garage", "db", &json!([consumers("postgres", &of)]));
    bench.wait_revision("garage.db.consumers=3Apostgres", 1);
    let cellar = bench.server.client(&node("cellar"));
    let given = list(&bench, &cellar);
    assert_eq!((given.revision, given.sealed.len(), given.left_out.len()), (1, 1, 0));
    bench.assign("attic", "web", &json!([bound("database", "postgres", "garage", "db")]));
    bench.wait_revision("garage.db.consumers=3Apostgres", 2);
    bench.wait_revision("cellar.db.consumers=3Apostgres", 2);
    let given = list(&bench, &cellar);
    assert_eq!((given.revision, given.sealed.len()), (2, 0));
    assert_eq!(given.left_out, [consumer("attic")], "and says so");
}

/// The bucket of records is made anew, and filled again node by node: whoever has a credential keeps it.
#[test]
fn a_record_that_is_gone_takes_no_consumer_out_of_a_list() {
    let mut bench = Bench::started();
    bench.join(&["attic", "cellar"]);
    let of = [("attic", "web", "database"), ("garage", "web", "database")];
    bench.assign("cellar", "db", &json!([consumers("postgres", &of)]));
    bench.wait_revision("cellar.db.consumers=3Apostgres", 1);
    let cellar = bench.server.client(&node("cellar"));
    let before = list(&bench, &cellar);
    assert_eq!((before.revision, before.sealed.len(), before.left_out.len()), (1, 1, 1));
    bench.tester.kv_delete("mesh-controller_nodes", "attic");
    // What is written behind it is read behind it: the list has been looked at by then.
    bench.join(&["garage"]);
    bench.wait_revision("cellar.db.consumers=3Apostgres", 2);
    let given = list(&bench, &cellar);
    assert_eq!((given.sealed.len(), given.left_out.len()), (2, 0));
    assert_eq!(given.sealed[0].of, consumer("attic"));
    assert_eq!(given.sealed[0].sealed, before.sealed[0].sealed);
}

#[test]
fn nobody_consumes_is_a_value() {
    let mut bench = Bench::started();
    bench.join(&["cellar"]);
    bench.assign("cellar", "db", &json!([consumers("postgres", &[])]));
    let given = list(&bench, &bench.server.client(&node("cellar")));
    assert_eq!((given.revision, given.sealed.len(), given.left_out.len()), (1, 0, 0));
}

#[test]
fn a_provider_with_new_keys_gets_new_credentials_and_the_consumer_keeps_the_old_until_then() {
    let mut bench = Bench::started();
    bench.join(&["attic", "cellar"]);
    bench.assign("attic", "web", &json!([bound("database", "postgres", "cellar", "db")]));
    bench.assign("cellar", "db", &json!([consumers("postgres", &[("attic", "web", "database")])]));
    bench.wait_revision("cellar.db.consumers=3Apostgres", 1);
    bench.apply("cellar", "db", &json!({"consumers:postgres": 1}));
    bench.wait_revision("attic.web.database", 1);
    bench.join(&["cellar"]);
    bench.wait_revision("cellar.db.consumers=3Apostgres", 2);
    let attic = bench.server.client(&node("attic"));
    assert_eq!(answer(&bench.secret(&attic, "attic", "web", "database")).revision, 1);
    bench.apply("cellar", "db", &json!({"consumers:postgres": 2}));
    bench.wait_revision("attic.web.database", 2);
    until("the new credential", PATIENCE, || {
        let answer = answer(&bench.secret(&attic, "attic", "web", "database"));
        if answer.revision == 2 { Ok(()) } else { Err(answer.revision.to_string()) }
    });
}
