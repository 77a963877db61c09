//! A node's client asks for secrets.

use crate::bench::{Bench, node};
use crate::schema;
use crate::support::controller::{accepted, made};
use mesh_model::vault_api::SecretAnswer;
use mesh_testing::wire::Message;
use serde_json::json;

/// The answer of a message that is not an error.
#[track_caller]
pub(crate) fn answer(message: &Message) -> SecretAnswer {
    schema::check_answer("secret_response", message);
    serde_json::from_slice(&message.body).unwrap_or_else(|error| panic!("{error}: {}", message.text()))
}

/// The code, the reason and the sequence of an error.
#[track_caller]
pub(crate) fn refusal(message: &Message) -> (u64, String, Option<u64>) {
    schema::check_answer("error_response", message);
    let error = &message.json()["error"];
    let code = error["code"].as_u64().unwrap_or_else(|| panic!("no error: {}", message.text()));
    assert_eq!(message.header("Nats-Service-Error-Code"), Some(code.to_string()));
    (code, error["reason"].as_str().expect("a reason").to_owned(), error["sequence"].as_u64())
}

#[test]
fn a_declared_secret_is_made_once_and_opens_on_its_host_alone() {
    let mut bench = Bench::started();
    bench.join(&["attic", "cellar"]);
    bench.assign("attic", "web", &json!([made("session-key", "hex"), accepted("api-token")]));
    let attic = bench.server.client(&node("attic"));

    let first = answer(&bench.secret(&attic, "attic", "web", "session-key"));
    let again = answer(&bench.secret(&attic, "attic", "web", "session-key"));
    assert_eq!(first, again, "the same copy, byte for byte");
    assert_eq!((first.revision, first.again_after), (1, 300));

    let label = bench.controller.label("attic", "web", "session-key");
    let (revision, value) = bench.controller.open("attic", &first.sealed, &label).unwrap();
    assert_eq!((revision, value.len()), (1, 64));
    assert!(bench.controller.open("cellar", &first.sealed, &label).is_err());

    let told = bench.wait_revision("attic.web.session-key", 1);
    let recovery = bench.controller.recovery.public_key();
    assert_eq!(told, json!({"revision": 1, "origin": "made", "recovery": recovery}));

    let (code, reason, sequence) = refusal(&bench.secret(&attic, "attic", "web", "api-token"));
    assert_eq!((code, reason.as_str(), sequence), (404, "not_accepted", Some(1)));
    let (code, reason, sequence) = refusal(&bench.secret(&attic, "attic", "web", "other"));
    assert_eq!((code, reason.as_str(), sequence), (403, "not_assigned", Some(1)));
    let (code, _, sequence) = refusal(&bench.secret(&attic, "attic", "mail", "session-key"));
    assert_eq!((code, sequence), (403, Some(1)));
    let (code, _, sequence) = refusal(&bench.secret(&attic, "garage", "web", "session-key"));
    assert_eq!((code, sequence), (403, None), "without a declaration nothing was judged");
}
