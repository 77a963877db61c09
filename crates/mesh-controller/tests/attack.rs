//! What an attacker who broke into one node can do on the bus with its account: nothing to any other node.

#![allow(clippy::print_stdout, reason = "figures are for who runs it")]

mod support;

use mesh_controller::store::lease;
use mesh_controller::store::sent::{self, Bucket};
use mesh_daemon::exit::Exit;
use mesh_testing::client::{Client, Unanswered};
use mesh_testing::wait;
use mesh_testing::wire::headers;
use serde_json::{Value, json};
use std::time::Duration;
use support::{BUCKETS, Machine, Mesh, WAIT, act, try_connect};

/// How long a denial may take that must come, and how long is waited for what must not.
const SOON: Duration = Duration::from_secs(5);

fn mesh() -> (Mesh, Client) {
    let nodes = ["attic", "cellar"].map(|node| (node.to_owned(), Machine::new()));
    let mesh = Mesh::with(&nodes);
    let attic = try_connect(&mesh.server, &nodes[0].1.bus, "_INBOX_mesh.node.attic").unwrap();
    (mesh, attic)
}

/// The server must refuse the publish in so many words.
#[track_caller]
fn denied(client: &Client, subject: &str, body: &str) {
    match client.request(subject, body, SOON) {
        Err(Unanswered::Denied(words)) => assert!(words.contains("Permissions Violation"), "{words}"),
        other => panic!("{subject} {body}: {other:?}"),
    }
}

#[test]
fn nobody_writes_another_nodes_keys() {
    let (_mesh, attic) = mesh();
    for bucket in BUCKETS {
        for key in ["cellar", "cellar.web", "cellar.web.port.http", "attic-2.web", "port"] {
            denied(&attic, &format!("$KV.{bucket}.{key}"), "junk");
        }
    }
    for bucket in ["declarations", "assignments", "settings", "nodes"] {
        denied(&attic, &format!("$KV.mesh-controller_{bucket}.attic"), "junk");
        denied(&attic, &format!("$KV.mesh-controller_{bucket}.attic.web"), "junk");
    }
    // An own key is written.
    let stored: Value = attic.request("$KV.mesh-controller_reports.attic", "{}", SOON).unwrap().json();
    assert_eq!(stored["stream"], "KV_mesh-controller_reports");
}

#[test]
fn nobody_reads_another_nodes_keys() {
    let (mesh, attic) = mesh();
    mesh.controller().kv_put("mesh-controller_assignments", "cellar.web", "of the cellar");
    for bucket in BUCKETS {
        for key in ["cellar.web", "attic.web", ">"] {
            denied(&attic, &format!("$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{key}"), "");
            // The registry says which domain answers which kind, and is for everybody.
            if !bucket.ends_with("_registry") {
                let create = format!("$JS.API.CONSUMER.CREATE.KV_{bucket}.c1.$KV.{bucket}.cellar.{key}");
                denied(&attic, &create, "{}");
            }
        }
        for call in ["DIRECT.GET", "STREAM.MSG.GET", "STREAM.INFO", "CONSUMER.NAMES", "CONSUMER.CREATE"] {
            denied(&attic, &format!("$JS.API.{call}.KV_{bucket}"), r#"{"seq":1}"#);
        }
        denied(&attic, &format!("$JS.API.CONSUMER.CREATE.KV_{bucket}.c1"), "{}");
        denied(&attic, &format!("$JS.API.CONSUMER.DURABLE.CREATE.KV_{bucket}.c1"), "{}");
    }
    // The right to its own keys does not read others by another filter in the body.
    let create =
        "$JS.API.CONSUMER.CREATE.KV_mesh-controller_assignments.c1.$KV.mesh-controller_assignments.attic.>";
    let config = |filter: Value| {
        let mut config = json!({"name": "c1", "deliver_subject": "_INBOX_mesh.node.attic.c", "ack_policy": "none",
            "deliver_policy": "last_per_subject"});
        if let (Some(config), Some(filter)) = (config.as_object_mut(), filter.as_object()) {
            config.extend(filter.clone());
        }
        json!({"stream_name": "KV_mesh-controller_assignments", "config": config}).to_string()
    };
    let own = attic.subscribe("_INBOX_mesh.node.attic.c", None);
    for filter in [
        json!({"filter_subject": "$KV.mesh-controller_assignments.cellar.>"}),
        json!({"filter_subject": "$KV.mesh-controller_assignments.>"}),
        json!({"filter_subjects": ["$KV.mesh-controller_assignments.cellar.>"]}),
        json!({"filter_subjects": ["$KV.mesh-controller_assignments.attic.>", "$KV.mesh-controller_assignments.cellar.>"]}),
        json!({}),
    ] {
        let answer: Value = attic.request(create, config(filter.clone()), SOON).unwrap().json();
        attic.flush();
        let heard = own.take_all();
        assert!(
            heard.iter().all(|message| message.body != b"of the cellar"),
            "{filter}: {answer}: the cellar's value was delivered"
        );
    }
    // Another node's inbox is not listened to.
    attic.subscribe("_INBOX_mesh.node.cellar.>", None);
    attic.wait_for_error("_INBOX_mesh.node.cellar.>", SOON);
}

#[test]
fn nobody_calls_a_verb_of_the_controller_or_of_the_vaults_operator() {
    let (mesh, attic) = mesh();
    let controller = mesh.controller();
    let verbs = controller.subscribe("mesh-controller.>", Some("q"));
    for verb in ["mesh-controller.join", "mesh-controller.status", "mesh-controller.plan"] {
        denied(&attic, verb, "{}");
    }
    for verb in ["mesh-vault.accept", "mesh-vault.rotate", "mesh-vault.export", "$SRV.PING"] {
        denied(&attic, verb, "{}");
    }
    // An acknowledgement goes where its writer says, also to a verb: without a reply subject, so nobody answers it.
    for reply in ["mesh-controller.join", "mesh-controller.plan"] {
        attic.publish_with("$KV.mesh-controller_reports.attic", Some(reply.as_bytes()), b"", "{}");
    }
    for _ in 0..2 {
        let acknowledgement = verbs.next(WAIT).unwrap();
        assert_eq!(acknowledgement.reply, None);
    }
}

#[test]
fn nobody_empties_a_bucket() {
    let (mesh, attic) = mesh();
    let controller = mesh.controller();
    controller.kv_put("mesh-controller_assignments", "cellar.web", "kept");
    for bucket in BUCKETS {
        for call in ["STREAM.PURGE", "STREAM.DELETE", "STREAM.UPDATE", "STREAM.MSG.DELETE", "STREAM.CREATE"] {
            denied(&attic, &format!("$JS.API.{call}.KV_{bucket}"), "{}");
        }
        denied(&attic, &format!("$JS.API.CONSUMER.DELETE.KV_{bucket}.c1"), "");
    }
    denied(&attic, "$JS.API.STREAM.CREATE.KV_attic_bound", "{}");
    // With a roll-up one write would replace the whole bucket; the server refuses it on a bucket made without.
    for of in ["all", "sub"] {
        let rollup = headers(&[("Nats-Rollup", of)]);
        let answer =
            attic.request_later("$KV.mesh-controller_reports.attic", &rollup, "x").next(SOON).unwrap();
        let answer: Value = answer.json();
        assert!(answer["error"].is_object(), "{answer}");
    }
}

#[test]
fn nobody_freezes_the_accounts() {
    let (mesh, attic) = mesh();
    let serving = mesh.serve();
    serving.wait_ready();
    // A key that stands twice in the file would make the server refuse the whole file: nobody gets one in there.
    let token = mesh.token("garage");
    let client = support::joiner(&mesh.server, &token);
    let join =
        |machine: &Machine| client.request("mesh-controller.join", machine.request(&token), WAIT).unwrap();
    for role in ["controller", "seat", "reader"] {
        let theirs = Machine { bus: mesh.seed(role), ..Machine::new() };
        let answer = join(&theirs);
        assert_eq!(answer.header("Nats-Service-Error-Code").as_deref(), Some("409"), "{role}");
    }
    // An account of the server's own is not reached.
    for subject in
        ["$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.x.RELOAD", "$SYS.ACCOUNT.MESH.CONNS", "$SYS.REQ.USER.INFO"]
    {
        let answer = attic.request(subject, "", Duration::from_secs(1));
        assert!(answer.is_err(), "{subject}: {answer:?}");
    }
    assert!(join(&Machine::new()).header("Nats-Service-Error-Code").is_none());
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn an_acknowledgement_that_lands_in_a_bucket_is_put_right() {
    let (mesh, attic) = mesh();
    let serving = mesh.serve();
    serving.wait_ready();
    let mut store = mesh.store();
    let fence = lease::row(store.inventory()).unwrap().fence;
    let change = store.change_inventory(&act("push")).unwrap();
    let row = sent::Sent {
        bucket: Bucket::Assignments,
        key: "cellar.web".into(),
        node: "cellar".into(),
        module: "web".into(),
        value: Some(b"{\"good\":1}".to_vec()),
        sequence: 1,
        fence,
        done: false,
        revision: 0,
        at: 0,
    };
    sent::intend(&change, &row).unwrap();
    change.commit().unwrap();
    let controller = mesh.controller();
    let good = |after: u64| {
        wait::until("the good value", WAIT, || {
            match controller.kv_get("mesh-controller_assignments", "cellar.web") {
                Some(stored) if stored.value == b"{\"good\":1}" && stored.sequence > after => {
                    Ok(stored.sequence)
                }
                other => Err(format!("{other:?}")),
            }
        })
    };
    let first = good(0);
    // The one gap that no right closes: the server itself publishes the acknowledgement, wherever its writer says.
    let reply = b"$KV.mesh-controller_assignments.cellar.web";
    attic.publish_with("$KV.mesh-controller_reports.attic", Some(reply), b"", "{}");
    let again = good(first + 1);
    println!("put right: revision {first}, junk, revision {again}");
    assert_eq!(serving.stop(), Exit::Done);
}
