//! `plan`: what the next registry write would change.

use crate::support::accounts::{ADMINISTRATOR, Account, READER, SEAT, TESTER};
use crate::support::bucket::REGISTRY;
use crate::support::mesh::{Mesh, init};
use crate::support::program::{Finished, Program};
use crate::support::seat::KINDS;
use crate::support::server::Server;
use crate::support::setup::{Right, Setup};
use crate::support::verb::AsksTheSeat;
use mesh_model::registry::{ENTRIES, entry};
use serde_json::json;
use std::process::Command;

fn plan(server: &Server, account: &Account) -> Finished {
    Program::new(&["plan"]).server(server).account(account).run()
}

#[test]
fn a_registry_in_place_has_nothing_to_change() {
    let mesh = Mesh::start();
    for account in [SEAT, ADMINISTRATOR] {
        let finished = plan(&mesh.server, &account).expect_code(0);
        assert_eq!(
            finished.stdout,
            "nothing to change: the registry says all 13 kinds as this version does\n"
        );
        assert_eq!(finished.stderr, "");
    }
}

#[test]
fn an_empty_registry_wants_every_kind_and_plan_writes_none() {
    let server = Server::start();
    init(&server);
    let finished = plan(&server, &SEAT).expect_code(2);
    let added: Vec<&str> = finished.stdout.lines().filter_map(|line| line.strip_prefix("+ ")).collect();
    assert_eq!(added, ENTRIES.map(|entry| entry.kind));
    assert!(
        finished.stdout.ends_with("13 to add, 0 to change, 0 to delete, 0 unchanged\n"),
        "{}",
        finished.stdout
    );
    assert_eq!(server.client(&TESTER).last_sequence(REGISTRY), 0);
}

#[test]
fn a_plan_says_old_and_new_and_the_next_pass_does_just_that() {
    let mut mesh = Mesh::start();
    mesh.seat.kill();
    let tester = mesh.tester();
    tester.kv_put(REGISTRY, "port", r#"{"kind":"port","domain":"elsewhere"}"#);
    tester.kv_put(REGISTRY, "licence", "[1]\n\u{1b}[1m");
    tester.kv_delete(REGISTRY, "secret");
    // The same with other spacing is not a change.
    let config = entry("config").unwrap().to_json().replace(',', " ,\n");
    tester.kv_put(REGISTRY, "config", config);
    let before = tester.last_sequence(REGISTRY);
    let finished = plan(&mesh.server, &SEAT).expect_code(2);
    let [port, secret] = ["port", "secret"].map(|kind| entry(kind).unwrap().to_json());
    assert_eq!(
        finished.stdout,
        format!(
            "- licence\n    old [1]\\n\\u{{1b}}[1m\n~ port\n    old {{\"kind\":\"port\",\"domain\":\"elsewhere\"}}\n    new {port}\n+ secret\n    new {secret}\n1 to add, 1 to change, 1 to delete, 11 unchanged\n"
        )
    );
    assert_eq!(tester.last_sequence(REGISTRY), before, "a plan writes nothing");
    mesh.seat = crate::support::seat::Seat::start(&mesh.server, &[]);
    mesh.seat.wait_ready();
    let log = mesh.seat.wait_for_log("registry in place", crate::support::wait::PATIENCE);
    assert!(log.ends_with("2 put, 1 deleted, 11 unchanged"), "{log}");
    assert_eq!(plan(&mesh.server, &SEAT).code(), 0);
}

#[test]
fn a_key_that_cannot_be_named_is_said_and_is_no_change() {
    let mesh = Mesh::start();
    mesh.tester().kv_put(REGISTRY, b"\xff", "1");
    let finished = plan(&mesh.server, &SEAT).expect_code(0);
    assert!(finished.stderr.contains("purge it as an administrator"), "{}", finished.stderr);
}

#[test]
fn what_cannot_be_read_whole_is_no_plan() {
    let server = Server::start();
    let missing = plan(&server, &SEAT).expect_code(1);
    assert_eq!(
        (missing.stdout.as_str(), missing.stderr.as_str()),
        ("", "bucket mesh-provisioner_registry does not exist: run mesh-provisioner init\n")
    );
    drop(server);

    let right = "$JS.API.STREAM.MSG.GET.KV_mesh-provisioner_registry";
    let mesh = Mesh::start();
    let mut server = mesh.server;
    drop(mesh.seat);
    server.setup = Setup::shipped().deny(&SEAT, Right::Publish, right);
    server.reload();
    let denied = plan(&server, &SEAT).expect_code(77);
    assert_eq!(denied.stdout, "");
    assert!(denied.stderr.contains(right) && denied.stderr.contains("permissions"), "{}", denied.stderr);

    let reader = plan(&server, &READER).expect_code(77);
    assert_eq!(reader.stdout, "");
    assert!(reader.stderr.contains("$JS.API.STREAM.INFO.KV_mesh-provisioner_registry"), "{}", reader.stderr);
    assert!(reader.stderr.contains("mesh-provisioner permissions seat prints"), "{}", reader.stderr);
}

#[test]
fn jetstream_that_is_off_is_unavailable() {
    let server = Setup::shipped().append("jetstream: disabled").start();
    let finished = plan(&server, &SEAT).expect_code(69);
    assert_eq!(finished.stdout, "");
    assert!(
        finished.stderr.starts_with("bucket mesh-provisioner_registry cannot be reached: "),
        "{}",
        finished.stderr
    );
}

#[test]
fn the_inbox_is_the_one_that_was_named() {
    let mesh = Mesh::start();
    let named = |prefix: &str| {
        Program::new(&["plan", "--inbox-prefix", prefix]).server(&mesh.server).account(&SEAT).run()
    };
    assert_eq!(named("_INBOX_mesh.provisioner").code(), 0);
    let denied = named("_INBOX").expect_code(77);
    assert!(denied.stderr.contains("--inbox-prefix"), "{}", denied.stderr);
    assert_eq!(named("$KV.a").code(), 64);
    assert_eq!(mesh.tester().kv_keys(REGISTRY).len(), KINDS);
    assert!(mesh.tester().ask(&json!({"what": "registry"})).good().malformed().is_empty());
}

#[test]
fn colour_is_for_a_terminal_and_never_what_says_it() {
    let server = Server::start();
    init(&server);
    let plain = plan(&server, &SEAT).expect_code(2).stdout;
    assert!(!plain.contains('\u{1b}'), "{plain}");
    // `script` runs its command on a terminal of its own.
    let on_a_terminal = |no_color: &str| {
        let mut command = Command::new("script");
        command.args(["-qec", concat!(env!("CARGO_BIN_EXE_mesh-provisioner"), " plan"), "/dev/null"]);
        command.env("NATS_URL", server.client_url()).env("NO_COLOR", no_color);
        command.env("NATS_USER", SEAT.user.as_ref()).env("NATS_PASSWORD", SEAT.password.as_ref());
        String::from_utf8(command.output().expect("script").stdout).expect("UTF-8").replace("\r\n", "\n")
    };
    let coloured = on_a_terminal("");
    assert!(coloured.contains("\u{1b}[32m+ config\u{1b}[0m\n"), "{coloured}");
    let shown = ["\u{1b}[32m", "\u{1b}[0m"].iter().fold(coloured, |text, style| text.replace(style, ""));
    assert_eq!(shown, plain);
    assert_eq!(on_a_terminal("1"), plain);
}
