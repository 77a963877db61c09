//! The file of users on a real server: it is taken, loading it again drops nobody but the removed, and it is proven.

#![allow(clippy::print_stdout, reason = "figures are for who runs it")]

mod support;

use mesh_controller::broker;
use mesh_controller::store::identity;
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
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mesh-controller"));
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
