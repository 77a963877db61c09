//! The file of users on a real server: it is taken, loading it again drops nobody but the removed, and it is proven.

#![allow(clippy::print_stdout, reason = "figures are for who runs it")]

mod support;

use mesh_controller::broker;
use mesh_controller::store::{identity, inventory, nodes as records};
use mesh_daemon::exit::Exit;
use mesh_testing::client::Client;
use mesh_testing::wait;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Machine, Mesh, WAIT, act, nodes, register, try_connect};

/// The server to test: as mesh-testing finds it.
fn program() -> String {
    if let Some(path) = std::env::var("NATS_SERVER").ok().filter(|path| !path.is_empty()) {
        return path;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut find = Command::new("bash");
    find.args(["-c", "source packaging/lib/servers.sh && packaged_server"]).current_dir(folder);
    String::from_utf8(find.output().unwrap().stdout).unwrap().trim_end().to_owned()
}

#[test]
fn the_server_finds_no_fault_with_the_file() {
    let (folder, _paths, mut store) = support::store();
    register(&mut store, &nodes(3));
    let signer = mesh_controller::identity::open(&store).unwrap();
    let made =
        broker::users(&mut store, &signer, Some(&folder.path().join("keys")), false, &act("broker users"))
            .unwrap();
    assert_eq!((made.users, made.seeds.len(), made.missing.len()), (11, 5, 0));
    std::fs::write(folder.path().join("users.conf"), &made.text).unwrap();
    let shipped = include_str!("../../../packaging/bus/mesh.conf");
    std::fs::write(folder.path().join("mesh.conf"), shipped).unwrap();
    let mut check = Command::new(program());
    check.args(["-t", "-c", "mesh.conf"]).current_dir(folder.path());
    let output = check.env("MESH_STORE_DIR", "\"store\"").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // The same accounts, the same bytes; no seed of any of them.
    let again = broker::users(&mut store, &signer, None, false, &act("broker users")).unwrap();
    assert_eq!(again.text, made.text);
    // Another folder would lock every program out.
    let other = folder.path().join("other");
    let refused = broker::users(&mut store, &signer, Some(&other), false, &act("broker users")).unwrap_err();
    assert!(refused.to_string().contains("or say --replace"), "{refused}");
    assert!(!other.exists(), "and nothing is made");
    let replaced = broker::users(&mut store, &signer, Some(&other), true, &act("broker users")).unwrap();
    assert!(replaced.text != made.text && replaced.seeds.len() == 5);
    for seed in &made.seeds {
        let seed = std::fs::read_to_string(seed).unwrap();
        assert!(seed.starts_with("SU") && !made.text.contains(seed.trim()));
    }
}

/// What a reload did: how long until a new user was let in, and how many of the others were dropped.
fn reload(count: usize) -> (Duration, usize, usize) {
    let before = nodes(count);
    let mesh = Mesh::with(&before);
    let serving = mesh.serve();
    serving.wait_ready();
    let connect = |(node, machine): &(String, Machine)| -> Client {
        try_connect(&mesh.server, &machine.bus, &format!("_INBOX_mesh.node.{node}")).unwrap()
    };
    let clients: Vec<Client> = before.iter().map(connect).collect();
    let added: Vec<(String, Machine)> =
        (0..50).map(|number| (format!("new-{number:02}"), Machine::new())).collect();
    let mut store = mesh.store();
    let change = store.change_inventory(&act("node remove")).unwrap();
    mesh_controller::store::nodes::remove(&change, &before[0].0).unwrap();
    change.commit().unwrap();
    let change = store.change_identity(&act("node remove")).unwrap();
    identity::drop_node_keys(&change, &before[0].0).unwrap();
    change.commit().unwrap();
    register(&mut store, &added);
    let from = Instant::now();
    serving.signals.send(mesh_daemon::signals::Signal::Reload).unwrap();
    let last = added.last().unwrap();
    wait::until("the new user to be let in", WAIT, || {
        try_connect(&mesh.server, &last.1.bus, &format!("_INBOX_mesh.node.{}", last.0)).map(drop)
    });
    let took = from.elapsed();
    wait::until("the removed one to be dropped", WAIT, || {
        if clients[0].is_closed() { Ok(()) } else { Err("still there".to_owned()) }
    });
    let dropped = clients[1..].iter().filter(|client| client.try_flush(WAIT).is_err()).count();
    for one in &added {
        connect(one);
    }
    assert_eq!(serving.stop(), Exit::Done);
    (took, clients.len() - 1 - dropped, dropped)
}

#[test]
fn b02_loading_the_file_again_drops_nobody_but_the_removed() {
    let (took, kept, dropped) = reload(100);
    println!("100 users: {} ms, {kept} kept, {dropped} dropped", took.as_millis());
    assert_eq!((kept, dropped), (99, 0));
    let (took, kept, dropped) = reload(1000);
    println!("1000 users: {} ms, {kept} kept, {dropped} dropped", took.as_millis());
    assert_eq!((kept, dropped), (999, 0));
}

#[test]
fn b01_fifty_accounts_in_a_second_take_one_or_two_reloads() {
    let mesh = Mesh::start();
    let serving = mesh.serve();
    serving.wait_ready();
    let reloads = || mesh.server.log().matches("Reloaded server configuration").count();
    let before = reloads();
    let added = nodes(50);
    let mut store = mesh.store();
    let from = Instant::now();
    for one in added.chunks(1) {
        register(&mut store, one);
    }
    // Where the disk is slow, fifty transactions take more than the second: the store is looked at every 250 ms.
    let looks = usize::try_from(from.elapsed().as_millis() / 250).unwrap();
    for (node, machine) in &added {
        wait::until(&format!("{node} to be let in"), Duration::from_secs(5), || {
            try_connect(&mesh.server, &machine.bus, &format!("_INBOX_mesh.node.{node}")).map(drop)
        });
    }
    let took = reloads() - before;
    println!("50 accounts took {took} reloads");
    assert!((1..=2 + looks).contains(&took), "{took} reloads, {looks} looks");
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn b10_everybody_is_let_in_while_the_controller_is_off() {
    let all = nodes(5);
    let mut mesh = Mesh::with(&all);
    let serving = mesh.serve();
    serving.wait_ready();
    assert_eq!(serving.stop(), Exit::Done);
    mesh.server.restart();
    for (node, machine) in &all {
        try_connect(&mesh.server, &machine.bus, &format!("_INBOX_mesh.node.{node}")).unwrap();
    }
}

#[test]
fn a_command_with_the_controllers_key_violates_no_permission() {
    let mesh = support::Mesh::start();
    let mut command = std::process::Command::new(PROGRAM);
    command
        .args(["push", "--server", &mesh.server.client_url()])
        .arg("--nkey")
        .arg(mesh.keys.join("controller.nk"));
    command
        .env("MESH_STORE_INVENTORY", &mesh.paths.inventory)
        .env("MESH_STORE_IDENTITY", &mesh.paths.identity);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = mesh.server.log();
    let violations: Vec<&str> = log.lines().filter(|line| line.contains("Violation")).collect();
    assert!(violations.is_empty(), "{violations:?}");
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_mesh-controller");

const EMITS: &str = r#"{"module":"web","version":"1","emits":["web.events.>"]}"#;

/// A module on a node, with an account of its own.
fn account(mesh: &Mesh, node: &str, key: &nkeys::KeyPair) {
    let mut store = mesh.store();
    let change = store.change_inventory(&act("module add")).unwrap();
    inventory::put_module(&change, "web", "1", EMITS.as_bytes()).unwrap();
    change.commit().unwrap();
    let change = store.change_identity(&act("module issue")).unwrap();
    identity::put_account(&change, node, "web", &key.public_key().parse().unwrap()).unwrap();
    change.commit().unwrap();
}

#[test]
fn no_module_of_a_removed_node_is_let_in() {
    let mesh = Mesh::with(&nodes(2));
    let key = nkeys::KeyPair::new_user();
    account(&mesh, "node-0000", &key);
    let serving = mesh.serve();
    let enter = || try_connect(&mesh.server, &key, "_INBOX_mesh.module.node-0000.web");
    let client = wait::until("the module to be let in", WAIT, enter);
    // The node goes, and the file of its keys comes out of a backup that is older.
    let mut store = mesh.store();
    let change = store.change_inventory(&act("node remove")).unwrap();
    records::remove(&change, "node-0000").unwrap();
    change.commit().unwrap();
    wait::until("the module of the removed node to be dropped", WAIT, || {
        if client.is_closed() { Ok(()) } else { Err("still there".to_owned()) }
    });
    assert!(enter().is_err(), "and it is let in no more");
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn an_account_for_a_module_is_not_given_the_key_of_whoever_joins() {
    let mesh = Mesh::with(&nodes(1));
    let serving = mesh.serve();
    serving.wait_ready();
    account(&mesh, "node-0000", &nkeys::KeyPair::new_user());
    let joiner = mesh.token("attic").joiner.pair().public_key();
    let issue = ["module", "issue", "web", "--node", "node-0000", "--public-key", &joiner];
    let (code, _, said) = mesh.command(PROGRAM, &issue);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is the key of whoever joins: make another one"), "{said}");
    serving.wait_ready();
    assert_eq!(serving.stop(), Exit::Done);
}

#[test]
fn a_node_that_is_removed_while_the_vault_takes_a_seed_leaves_no_account() {
    let mesh = Mesh::with(&nodes(1));
    account(&mesh, "attic", &nkeys::KeyPair::new_user());
    let vault = mesh.role("vault", "_INBOX_mesh.vault");
    let asked = vault.subscribe("mesh-vault.accept", Some("q"));
    vault.flush();
    let issued = std::thread::scope(|scope| {
        let issued =
            scope.spawn(|| mesh.command(PROGRAM, &["module", "issue", "web", "--node", "node-0000"]));
        let request = asked.next(WAIT).unwrap();
        let (code, _, said) = mesh.command(PROGRAM, &["node", "remove", "node-0000"]);
        assert_eq!(code, Some(0), "{said}");
        let answer = r#"{"id":"1","revision":1}"#;
        vault.publish(request.reply.unwrap(), answer);
        issued.join().unwrap()
    });
    assert_eq!((issued.0, issued.2.as_str()), (Some(1), "there is no node node-0000\n"));
    let accounts = identity::accounts(mesh.store().identity()).unwrap();
    assert!(accounts.iter().all(|account| account.node != "node-0000"), "{accounts:?}");
}
