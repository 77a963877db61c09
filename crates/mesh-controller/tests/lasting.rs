//! What lasts and what goes, on a real bus: keys of removed nodes, tokens whose time is over, a list of users that the
//! server does not see, another mesh in the same buckets.

mod support;

use mesh_controller::broker::{gather, load};
use mesh_controller::join::{register, tokens};
use mesh_controller::store::sent::{self, Bucket, Sent};
use mesh_controller::store::{Moment, Store, identity, lease, nodes, now};
use mesh_daemon::exit::Exit;
use mesh_model::declaration::Declaration;
use mesh_model::join::Answer;
use mesh_model::json::Read as _;
use mesh_model::keys::SealingKey;
use mesh_model::signed::{Envelope, PayloadType};
use mesh_testing::client::Client;
use mesh_testing::wait;
use serde_json::Value;
use support::{Machine, Mesh, WAIT, act, joiner, nodes as machines, try_connect};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mesh-controller");

fn node_client(mesh: &Mesh, (node, machine): &(String, Machine)) -> Client {
    try_connect(&mesh.server, &machine.bus, &format!("_INBOX_mesh.node.{node}")).unwrap()
}

fn remove(store: &mut Store, node: &str) {
    let change = store.change_inventory(&act("node remove")).unwrap();
    nodes::remove(&change, node).unwrap();
    change.commit().unwrap();
    let change = store.change_identity(&act("node remove")).unwrap();
    identity::drop_node_keys(&change, node).unwrap();
    change.commit().unwrap();
}

/// The keys of a bucket that have a value.
fn keys(administrator: &Client, bucket: &str) -> Vec<String> {
    let has_value = |key: &String| {
        administrator.kv_get(bucket, key).is_some_and(|stored| stored.header("KV-Operation").is_none())
    };
    administrator.kv_keys(bucket).into_iter().filter(has_value).collect()
}

#[test]
fn what_a_removed_node_wrote_is_deleted_and_the_right_for_it_goes() {
    let all = machines(2);
    let mesh = Mesh::with(&all);
    let serving = mesh.serve();
    serving.wait_ready();
    let own = ["mesh-provisioner_needs", "mesh-provisioner_applied", "mesh-provisioner_collect"];
    for one in &all {
        let client = node_client(&mesh, one);
        for bucket in own {
            for key in ["web.config.a", "web.config.b", "db.config.a"] {
                client.kv_put(bucket, format!("{}.{key}", one.0), "{}");
            }
        }
        client.kv_put("mesh-controller_reports", &one.0, "{}");
    }
    // Connected before: a server that is loading its list again may refuse a client just then.
    let administrator = mesh.role("administrator", "_INBOX");
    remove(&mut mesh.store(), &all[0].0);
    wait::until("the keys of the removed node to be gone", WAIT, || {
        let left: Vec<String> = own
            .into_iter()
            .chain(["mesh-controller_reports"])
            .flat_map(|bucket| keys(&administrator, bucket))
            .collect();
        if left.iter().all(|key| key.starts_with(&all[1].0)) {
            Ok(left.len())
        } else {
            Err(format!("{left:?}"))
        }
    });
    wait::until("the right to go", WAIT, || {
        let leaving = nodes::leaving(mesh.store().inventory()).unwrap();
        let file = std::fs::read_to_string(mesh.server.directory().join("users.conf")).unwrap();
        let has_right = file.contains(&format!("$KV.mesh-provisioner_needs.{}.>", all[0].0));
        if leaving.is_empty() && !has_right { Ok(()) } else { Err(format!("{leaving:?} {has_right}")) }
    });
    let left: usize = own.into_iter().map(|bucket| keys(&administrator, bucket).len()).sum();
    assert_eq!(
        (left, keys(&administrator, "mesh-controller_reports").len()),
        (9, 1),
        "of the other nothing is gone"
    );
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn j09_only_the_old_identity_leaves_where_a_node_comes_back_under_its_name() {
    let mesh = Mesh::start();
    // The node leaves while nobody serves, and comes back before its leave was dealt with.
    let mut store = mesh.store();
    let old = Machine::new();
    support::register(&mut store, &[("attic".to_owned(), old)]);
    remove(&mut store, "attic");
    assert_eq!(nodes::leaving(store.inventory()).unwrap().len(), 1);
    let token = mesh.token("attic");
    let serving = mesh.serve();
    serving.wait_ready();
    let new = Machine::new();
    let client = joiner(&mesh.server, &token);
    let answer = client.request("mesh-controller.join", new.request(&token), WAIT).unwrap();
    assert_eq!(answer.header("Nats-Service-Error-Code"), None, "{}", answer.text());
    assert!(nodes::leaving(store.inventory()).unwrap().is_empty());
    let node = try_connect(&mesh.server, &new.bus, "_INBOX_mesh.node.attic").unwrap();
    node.kv_put("mesh-provisioner_applied", "attic.web", "new");
    serving.wait_ready();
    assert_eq!(keys(&mesh.role("administrator", "_INBOX"), "mesh-provisioner_applied"), ["attic.web"]);
    assert_eq!(identity::keys_of(store.identity(), "attic").unwrap().unwrap().epoch, 2);
    assert_eq!(serving.stop(), Exit::Done);
}

/// The outcome of a request to join at that moment, with no bus in between.
fn join_at(mesh: &Mesh, body: Vec<u8>, at: Moment) -> register::Outcome {
    register::register(&mut mesh.store(), &mesh.signer(), &[body], at).unwrap().remove(0)
}

#[test]
fn j11_no_token_is_the_key_of_anything() {
    let mesh = Mesh::start();
    let (used, unused) = (mesh.token("attic"), mesh.token("cellar"));
    let machine = Machine::new();
    join_at(&mesh, machine.request(&used), now()).unwrap();
    // Every token is taken back and over, and each is issued again.
    let mut store = mesh.store();
    for token in [&used, &unused] {
        tokens::revoke(&mut store, &token.id, &act("token revoke")).unwrap();
    }
    let change = store.change_identity(&act("test")).unwrap();
    change.execute("UPDATE tokens SET until = 1", []).unwrap();
    change.commit().unwrap();
    drop(store);
    let again = mesh.token("attic");
    assert_ne!(again.id, used.id);
    // The store opens, its key signs, the node is let in and welcome.
    let serving = mesh.serve();
    serving.wait_ready();
    let node = try_connect(&mesh.server, &machine.bus, "_INBOX_mesh.node.attic").unwrap();
    node.kv_put("mesh-provisioner_applied", "attic.web", "{}");
    assert!(!join_at(&mesh, machine.request(&used), now()).unwrap().is_new);
    assert_eq!(join_at(&mesh, Machine::new().request(&unused), now()).unwrap_err().code, 403);
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn j12_after_four_hundred_days_a_node_is_let_in_and_believed() {
    let mesh = Mesh::start();
    let token = mesh.token("attic");
    let machine = Machine::new();
    let first = join_at(&mesh, machine.request(&token), now()).unwrap();
    let later = now() + 400 * gather::DAY;
    // The list of users of that day has the same node, with the same key.
    let (store, signer) = (mesh.store(), mesh.signer());
    let accounts = gather::accounts(&store, &signer, later).unwrap();
    assert_eq!(accounts.nodes["attic"].as_str(), machine.bus.public_key());
    assert_eq!(accounts.missing(), [""; 0]);
    let body = accounts.body().unwrap();
    let text = gather::file(&body, &signer).unwrap();
    std::fs::write(mesh.server.directory().join("users.conf"), text).unwrap();
    mesh.server.signal("HUP");
    wait::until("the node to be let in", WAIT, || {
        try_connect(&mesh.server, &machine.bus, "_INBOX_mesh.node.attic").map(drop)
    });
    // What the controller signed then is believed now: nothing in it is over at any time.
    let again = join_at(&mesh, machine.request(&token), later).unwrap();
    assert_eq!((again.is_new, &again.body), (false, &first.body));
    let value: Value = serde_json::from_str(&again.body).unwrap();
    let envelope = Envelope::parse(value["answer"].to_string().as_bytes()).unwrap();
    let key = signer.pair().public_key().parse().unwrap();
    let answer: Answer = envelope.open(PayloadType::JoinAnswer, &key).unwrap();
    assert_eq!(answer.node, "attic");
    // A token of then is over.
    let other = mesh.token("cellar");
    assert_eq!(join_at(&mesh, Machine::new().request(&other), later).unwrap_err().code, 403);
}

#[test]
fn b03_a_server_that_sees_an_older_list_than_ours_is_found_out() {
    let mut mesh = Mesh::start();
    // The server reads a file that was mounted by itself: what is renamed over it stays unseen.
    let ours = mesh.server.directory().join("users.conf");
    let folder = mesh.server.directory().join("mounted");
    std::fs::create_dir(&folder).unwrap();
    let seen = folder.join("users.conf");
    std::fs::hard_link(&ours, &seen).unwrap();
    mesh.server.setup = support::shipped_with(&mesh.server, "./mounted/users.conf");
    mesh.server.reload();
    let serving = mesh.serve();
    serving.wait_ready();
    support::register(&mut mesh.store(), &machines(1));
    wait::until("the older list to be found out", WAIT, || {
        let status = serving.status();
        let why = status["users_failure"].as_str().unwrap_or_default();
        let told = why.contains("is written, and the server lets nobody in by it");
        if told && status["ready"] == false { Ok(()) } else { Err(status.to_string()) }
    });
    let (store, signer) = (mesh.store(), mesh.signer());
    let body = gather::body(&store, &signer, now()).unwrap();
    let connection = mesh.connection();
    assert!(
        load::prove(&connection, &signer.sentinel(&body.digest())).is_err(),
        "broker and doctor say so too"
    );
    // A folder that was mounted shows the new file.
    std::fs::remove_file(&seen).unwrap();
    std::fs::hard_link(&ours, &seen).unwrap();
    serving.wait_ready();
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn b05_a_program_whose_account_is_not_loaded_yet_tries_on() {
    let mesh = Mesh::start();
    let users = mesh.server.directory().join("users.conf");
    let text = std::fs::read_to_string(&users).unwrap();
    // A list without anybody would be no list: a server without users asks for no key.
    let nobody = nkeys::KeyPair::new_user().public_key();
    std::fs::write(&users, format!("users: [ {{ nkey: {nobody} }} ]\n")).unwrap();
    mesh.server.signal("HUP");
    wait::until("the server to let nobody in", WAIT, || {
        match try_connect(&mesh.server, &mesh.seed("controller"), "_INBOX_mesh.controller") {
            Ok(_) => Err("the controller is let in".to_owned()),
            Err(_) => Ok(()),
        }
    });
    let serving = mesh.serve_with_users(mesh.folder.path().join("elsewhere.conf"));
    let refusals = || mesh.server.log().matches("authentication error").count();
    let before = refusals();
    wait::until("several refusals", WAIT, || {
        let more = refusals() - before;
        if more >= 4 { Ok(()) } else { Err(more.to_string()) }
    });
    std::fs::write(&users, text).unwrap();
    mesh.server.signal("HUP");
    wait::until("the controller to be let in", WAIT, || {
        let status = serving.status();
        if status["server"].is_string() { Ok(()) } else { Err(status.to_string()) }
    });
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn r13_bus_controller_and_store_away_change_nothing_that_nodes_read() {
    let mut mesh = Mesh::with(&machines(1));
    let serving = mesh.serve();
    serving.wait_ready();
    let mut store = mesh.store();
    let fence = lease::row(store.inventory()).unwrap().fence;
    let change = store.change_inventory(&act("push")).unwrap();
    for (bucket, key, module) in
        [(Bucket::Assignments, "node-0000.web", "web"), (Bucket::Declarations, "node-0000", "")]
    {
        let row = Sent {
            bucket,
            key: key.into(),
            node: "node-0000".into(),
            module: module.into(),
            value: Some(b"{}".to_vec()),
            sequence: 1,
            fence,
            done: false,
            revision: 0,
            at: 0,
        };
        sent::intend(&change, &row).unwrap();
    }
    change.commit().unwrap();
    drop(store);
    let there = |mesh: &Mesh| {
        let client = mesh.controller();
        let of = |bucket, key| client.kv_get(bucket, key).map(|stored| (stored.sequence, stored.value));
        (of("mesh-controller_assignments", "node-0000.web"), of("mesh-controller_declarations", "node-0000"))
    };
    let before = wait::until("both values on the bus", WAIT, || {
        let there = there(&mesh);
        if there.0.is_some() && there.1.is_some() { Ok(there) } else { Err(format!("{there:?}")) }
    });
    // The bus goes, and comes back; then the controller; then its store, without which it does not begin.
    mesh.server.kill();
    mesh.server.restart();
    serving.wait_ready();
    assert_eq!(there(&mesh), before);
    assert_eq!(serving.stop(), Exit::Done);
    let aside = mesh.folder.path().join("aside.db");
    std::fs::rename(&mesh.paths.inventory, &aside).unwrap();
    assert_eq!(mesh.serve().thread.join().unwrap(), Exit::Configuration);
    assert_eq!(there(&mesh), before);
    std::fs::rename(&aside, &mesh.paths.inventory).unwrap();
    // All is back: nothing is written again.
    let serving = mesh.serve();
    serving.wait_ready();
    assert_eq!(there(&mesh), before);
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn b08_what_another_mesh_has_in_the_same_buckets_is_left_and_told() {
    let mesh = Mesh::start();
    let other = nkeys::KeyPair::new_operator();
    let declaration = Declaration {
        mesh: "other".into(),
        node: "barn".into(),
        sequence: 7,
        fence: 99,
        at: "2026-12-01T00:00:00Z".into(),
        vault: SealingKey::of(&nkeys::XKey::new()),
        modules: Vec::new(),
        adoption: None,
    };
    let envelope = Envelope::sign_json(PayloadType::Declaration, &declaration, &other).unwrap();
    let bytes = envelope.to_bytes();
    let client = mesh.controller();
    client.kv_put("mesh-controller_declarations", "barn", &bytes);
    client.kv_put("mesh-controller_assignments", "barn.web", "{}");
    let serving = mesh.serve();
    serving.wait_ready();
    let status = serving.status();
    let foreign: Vec<&Value> =
        status["mirrors"].as_array().unwrap().iter().map(|mirror| &mirror["foreign"]).collect();
    assert_eq!(foreign, [0, 1, 0, 1], "{status}");
    // Nor does its fence raise ours: it signed with a key that is not the mesh's.
    assert!(status["fence"].as_u64().unwrap() < 99);
    assert_eq!(serving.stop(), Exit::Done);
    let there = mesh.controller().kv_get("mesh-controller_declarations", "barn").unwrap();
    assert_eq!(there.value, bytes);
    assert_eq!(mesh.controller().kv_get("mesh-controller_assignments", "barn.web").unwrap().value, b"{}");
    assert!(
        Declaration::from_json_bytes(Envelope::parse(&there.value).unwrap().payload_unverified()).is_ok()
    );
}

#[test]
fn what_a_machine_reports_of_itself_steers_no_terminal() {
    let mesh = Mesh::with(&machines(1));
    let report = r#"{"v":1,"sequence":1,"fence":1,"changed":false,"gated":false,"totals":{},"modules":{},"outcomes":[],"facts":{"arch":"x\u001b[2J","runtime":"a\nb"}}"#;
    let mut store = mesh.store();
    let change = store.note_inventory().unwrap();
    let heard = nodes::Heard { at: now(), revision: 1, body: report.into() };
    nodes::note_report(&change, "node-0000", &heard).unwrap();
    change.commit().unwrap();
    let (code, shown, said) = mesh.command(PROGRAM, &["node", "show", "node-0000"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(shown.contains(r"machine   x\u{1b}[2J, a\nb"), "{shown:?}");
}

#[test]
fn what_was_not_compared_is_not_called_right() {
    let mesh = Mesh::start();
    let mut store = mesh.store();
    let change = store.change_inventory(&act("push")).unwrap();
    for number in 0..2001 {
        let row = Sent {
            bucket: Bucket::Assignments,
            key: format!("attic.m{number:04}"),
            node: "attic".into(),
            module: format!("m{number:04}"),
            // Only the last one is to be there, and is not.
            value: (number == 2000).then(|| b"{}".to_vec()),
            sequence: 1,
            fence: 0,
            done: false,
            revision: 0,
            at: 0,
        };
        sent::intend(&change, &row).unwrap();
    }
    change.commit().unwrap();
    let (_, shown, said) = mesh.command(PROGRAM, &["doctor"]);
    let line = shown.lines().find(|line| line.contains("mirrors")).unwrap_or(&said);
    assert_eq!(line, "ok  mirrors   2000 of 2001 values were looked at, and are as they were sent");
}

#[test]
fn a_list_of_the_secrets_of_no_node_is_refused() {
    let mesh = Mesh::with(&machines(1));
    let (code, shown, said) = mesh.command(PROGRAM, &["secret", "list", "--node", "node-0001"]);
    assert_eq!((code, shown.as_str()), (Some(1), ""), "{said}");
    assert_eq!(said, "there is no node node-0001; did you mean node-0000?\n");
}
