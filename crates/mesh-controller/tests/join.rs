//! Joining on a real bus: a token is issued, a request is answered once the server has the account.

#![allow(clippy::print_stdout, reason = "figures are for who runs it")]

mod support;

use mesh_controller::store::{identity, nodes, sent};
use mesh_daemon::exit::Exit;
use mesh_model::join::Answer;
use mesh_model::node_record::{NodeRecord, Recovery};
use mesh_model::signed::{Envelope, PayloadType};
use mesh_testing::wait;
use serde_json::Value;
use support::{Machine, Mesh, WAIT, joiner, try_connect};

fn answer(mesh: &Mesh, body: &[u8]) -> Answer {
    let value: Value = serde_json::from_slice(body).unwrap();
    let envelope = Envelope::parse(value["answer"].to_string().as_bytes())
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(body)));
    let key = mesh.signer().pair().public_key().parse().unwrap();
    envelope.open(PayloadType::JoinAnswer, &key).unwrap()
}

#[test]
fn j14_a_node_joins_right_after_its_token_was_issued_and_is_let_in() {
    let mesh = Mesh::start();
    let serving = mesh.serve();
    serving.wait_ready();
    let token = mesh.token("attic");
    let machine = Machine::new();
    let client = joiner(&mesh.server, &token);
    let first = client.request("mesh-controller.join", machine.request(&token), WAIT).unwrap();
    let answered = answer(&mesh, &first.body);
    assert_eq!((answered.node.as_str(), answered.bus.as_str()), ("attic", &*machine.bus.public_key()));
    assert_eq!(answered.token, token.id);
    // The answer says that the server has the account.
    try_connect(&mesh.server, &machine.bus, "_INBOX_mesh.node.attic").unwrap();

    // J5: the same keys again, the same answer; other keys are refused.
    let again = client.request("mesh-controller.join", machine.request(&token), WAIT).unwrap();
    assert_eq!(again.body, first.body);
    let other = client.request("mesh-controller.join", Machine::new().request(&token), WAIT).unwrap();
    assert_eq!(other.header("Nats-Service-Error-Code").as_deref(), Some("409"));

    // With a new token other keys are taken, under the next epoch, and the ones of before are dropped.
    let token = mesh.token("attic");
    let machine = Machine::new();
    let client = joiner(&mesh.server, &token);
    answer(&mesh, &client.request("mesh-controller.join", machine.request(&token), WAIT).unwrap().body);
    let keys = identity::keys_of(mesh.store().identity(), "attic").unwrap().unwrap();
    assert_eq!((keys.epoch, keys.arch.as_deref()), (2, Some("x86_64")));
    assert!(nodes::get(mesh.store().inventory(), "attic").unwrap().is_some());

    // Its record is on the bus, signed, once the operator has decided who can open second copies.
    assert!(sent::get(mesh.store().inventory(), sent::Bucket::Nodes, "attic").unwrap().is_none());
    let mut store = mesh.store();
    let change = store.change_identity(&support::act("operator key set none")).unwrap();
    identity::set_recovery(&change, &Recovery::None).unwrap();
    change.commit().unwrap();
    let record: NodeRecord = wait::until("the record of epoch 2", WAIT, || {
        let store = mesh.store();
        let sent =
            sent::get(store.inventory(), sent::Bucket::Nodes, "attic").unwrap().filter(|sent| sent.done);
        let value = sent.and_then(|sent| sent.value).ok_or("not written yet")?;
        let key = mesh.signer().pair().public_key().parse().unwrap();
        let record: NodeRecord = Envelope::parse(&value).unwrap().open(PayloadType::Node, &key).unwrap();
        if record.epoch == 2 { Ok(record) } else { Err("of an earlier epoch".to_owned()) }
    });
    assert_eq!(
        (record.bus.as_str(), record.address.as_deref()),
        (&*machine.bus.public_key(), Some("10.0.0.7"))
    );
    serving.wait_ready();
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn the_key_of_whoever_joins_is_no_key_of_a_machine() {
    let mesh = Mesh::start();
    let serving = mesh.serve();
    serving.wait_ready();
    let token = mesh.token("attic");
    let client = joiner(&mesh.server, &token);
    let machine = Machine { bus: token.joiner.pair(), ..Machine::new() };
    let refused = client.request("mesh-controller.join", machine.request(&token), WAIT).unwrap();
    assert_eq!(refused.header("Nats-Service-Error-Code").as_deref(), Some("409"));
    // The token is not spent, and the file of users still takes who is next.
    let machine = Machine::new();
    answer(&mesh, &client.request("mesh-controller.join", machine.request(&token), WAIT).unwrap().body);
    try_connect(&mesh.server, &machine.bus, "_INBOX_mesh.node.attic").unwrap();
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn two_hundred_nodes_join_at_once() {
    const NODES: usize = 200;
    let mesh = Mesh::start();
    let serving = mesh.serve();
    serving.wait_ready();
    let machines: Vec<_> =
        (0..NODES).map(|number| (mesh.token(&format!("node-{number:03}")), Machine::new())).collect();
    let requests: Vec<_> = machines.iter().map(|(token, machine)| machine.request(token)).collect();
    let client = joiner(&mesh.server, &machines[0].0);
    let from = std::time::Instant::now();
    let inboxes: Vec<_> =
        requests.iter().map(|body| client.request_later("mesh-controller.join", b"", body)).collect();
    for (inbox, (token, _)) in inboxes.iter().zip(&machines) {
        let body = inbox.next(WAIT).unwrap().body;
        assert_eq!(answer(&mesh, &body).node, token.node);
    }
    let took = from.elapsed();
    println!("{NODES} joins took {} ms", took.as_millis());
    assert!(took.as_secs() < 10, "{took:?}");
    for (token, machine) in &machines {
        try_connect(&mesh.server, &machine.bus, &format!("_INBOX_mesh.node.{}", token.node)).unwrap();
    }
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn a_token_that_was_not_used_ends_with_its_node() {
    let mesh = Mesh::with(&support::nodes(1));
    let serving = mesh.serve();
    serving.wait_ready();
    let token = mesh.token("node-0000");
    let mut store = mesh.store();
    let change = store.change_identity(&support::act("node remove")).unwrap();
    identity::drop_node_keys(&change, "node-0000").unwrap();
    change.commit().unwrap();
    let change = store.change_inventory(&support::act("node remove")).unwrap();
    nodes::remove(&change, "node-0000").unwrap();
    change.commit().unwrap();
    let client = joiner(&mesh.server, &token);
    let refused = client.request("mesh-controller.join", Machine::new().request(&token), WAIT).unwrap();
    let said = String::from_utf8_lossy(&refused.body).into_owned();
    assert_eq!(refused.header("Nats-Service-Error-Code").as_deref(), Some("403"), "{said}");
    assert!(said.contains("the token was taken back at"), "{said}");
    assert!(nodes::get(mesh.store().inventory(), "node-0000").unwrap().is_none());
    // A new one lets it in, as before.
    let token = mesh.token("node-0000");
    let client = joiner(&mesh.server, &token);
    answer(
        &mesh,
        &client.request("mesh-controller.join", Machine::new().request(&token), WAIT).unwrap().body,
    );
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn what_a_machine_says_of_itself_is_no_more_than_an_address_and_a_word() {
    let mesh = Mesh::start();
    let serving = mesh.serve();
    serving.wait_ready();
    let facts = [
        (r#"{"address":"$(reboot)","arch":"x86_64"}"#, (None, Some("x86_64"))),
        (r#"{"address":"10.0.0.7\nroot","arch":"x\u001b[2J"}"#, (None, None)),
        (r#"{"address":"fe80::1%eth0","arch":"a b"}"#, (Some("fe80::1%eth0"), None)),
        (r#"{"address":"attic.example_1.org"}"#, (Some("attic.example_1.org"), None)),
    ];
    for (number, (facts, (address, arch))) in facts.into_iter().enumerate() {
        let token = mesh.token(&format!("node-{number}"));
        let machine = Machine::new();
        let client = joiner(&mesh.server, &token);
        let body = machine.request_with(&token, facts);
        answer(&mesh, &client.request("mesh-controller.join", body, WAIT).unwrap().body);
        let keys = identity::keys_of(mesh.store().identity(), &token.node).unwrap().unwrap();
        assert_eq!((keys.address.as_deref(), keys.arch.as_deref()), (address, arch), "{facts}");
    }
    assert_eq!(serving.stop(), Exit::Done);
}
