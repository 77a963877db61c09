//! `permissions`: what it prints is loaded into a real server, and suffices.

use crate::support::accounts::{ADMINISTRATOR, Account, READER, SEAT, TESTER};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::client::Unanswered;
use crate::support::mesh::Mesh;
use crate::support::program::Program;
use crate::support::setup::Setup;
use crate::support::verb::AsksTheSeat;
use crate::support::wait::PATIENCE;
use serde_json::{Value, json};
use std::borrow::Cow;

fn permissions(arguments: &[&str]) -> String {
    let finished = Program::new(&["permissions"]).args(arguments).run().expect_code(0);
    assert_eq!(finished.stderr, "");
    finished.stdout
}

/// A node's account, with the inbox of its token.
fn node(name: &str, token: &str) -> Account {
    Account {
        inbox: Cow::Owned(format!("_INBOX_mesh.node.{token}")),
        ..Account::new(name, "password-of-node")
    }
}

/// A server whose users have what the command prints, and nothing else.
fn printed(nodes: &[&Account], seat: &[&str]) -> Setup {
    let user = |account: &Account, permissions: &str| {
        format!("{{ user: \"{}\", password: \"{}\"\n{permissions} }}\n", account.user, account.password)
    };
    let mut users = user(&TESTER, "");
    users += &user(&ADMINISTRATOR, &permissions(&["administrator"]));
    users += &user(&SEAT, &permissions(&[&["seat"], seat].concat()));
    users += &user(&READER, &permissions(&["reader"]));
    for account in nodes {
        users += &user(account, &permissions(&["node", &account.user]));
    }
    Setup::custom(&format!(
        "jetstream: enabled\naccounts {{ MESH {{ jetstream: enabled, users: [\n{users}] }} }}\n"
    ))
}

#[test]
fn what_is_printed_suffices_for_seat_node_and_reader() {
    let attic = node("attic", "attic");
    let mesh = Mesh::start_on(printed(&[&attic], &[]).start(), &[]);
    Program::new(&["check"]).server(&mesh.server).account(&SEAT).run().expect_code(0);
    Program::new(&["plan"]).server(&mesh.server).account(&SEAT).run().expect_code(0);
    let client = mesh.server.client(&attic);
    client.kv_put(NEEDS, "attic.web.port", "{}");
    // The administrator made the buckets, looks at them, asks the seat, and deletes what is malformed.
    for command in [&["init"][..], &["plan"], &["ask", "nodes"]] {
        let code = Program::new(command).server(&mesh.server).account(&ADMINISTRATOR).run().code();
        assert_eq!(code, if command[0] == "ask" { 3 } else { 0 }, "{command:?}");
    }
    mesh.admin().kv_delete(NEEDS, "attic.web.port");
    client.kv_put(NEEDS, "attic.web.port.http", "{}");
    client.kv_put(APPLIED, "attic.web", "{}");
    client.kv_put(COLLECT, "attic.sites.web", "{}");
    for what in ["needs", "applied", "collect"] {
        let answer = mesh.reader().ask(&json!({"what": what})).good();
        assert_eq!(answer.entries().len(), 1, "{}", answer.text());
    }
}

#[test]
fn a_node_called_by_a_wildcard_has_rights_on_its_own_keys_alone() {
    let star = node("*", "=2A");
    let mesh = Mesh::start_on(printed(&[&star], &[]).start(), &[]);
    let client = mesh.server.client(&star);
    client.kv_put(NEEDS, "=2A.web.port.http", "{}");
    for key in ["attic.web.port.http", "*.web.port.http", "=2Ax.web.port.http"] {
        let denied = client.request(format!("$KV.{NEEDS}.{key}"), "{}", PATIENCE);
        assert!(matches!(denied, Err(Unanswered::Denied(_))), "{key}: {denied:?}");
    }
    let answer = mesh.reader().ask(&json!({"what": "needs", "node": "*"})).good();
    assert_eq!(answer.keys(), ["=2A.web.port.http"]);
}

#[test]
fn a_reply_prefix_of_the_seat_lets_it_answer_there() {
    let attic = Account { inbox: Cow::Borrowed("_MY.attic"), ..Account::new("attic", "password-of-node") };
    let prefix = ["--reply-prefix", "_MY.attic"];
    let setup = printed(&[&attic], &prefix).replace("_INBOX_mesh.node.attic.>", "_MY.attic.>");
    let mesh = Mesh::start_on(setup.start(), &prefix);
    assert_eq!(mesh.server.client(&attic).ask(&json!({"what": "registry"})).good().entries().len(), 13);
}

#[test]
fn an_unknown_role_is_usage() {
    for (arguments, said) in [
        (&["administrater"][..], "unknown role \"administrater\": did you mean administrator?"),
        (&["reader", "attic"], "\"attic\" is one word too many"),
        (&["reader", "--format", "yaml"], "nats, nsc or json"),
        (&["node"], "takes the node's name"),
        (&["node", ""], "is empty"),
        (&["vault", "--provider", "postgres"], "is for node and controller alone"),
        (&["reader", "--reply-prefix", "_A"], "is for the seat alone"),
        (&["seat", "--reply-prefix", "$KV"], "cannot be a reply prefix"),
    ] {
        let finished = Program::new(&["permissions"]).args(arguments).run().expect_code(64);
        assert!(finished.stderr.contains(said) && finished.stdout.is_empty(), "{arguments:?}: {finished:?}");
    }
}

#[test]
fn rights_are_printed_for_nsc_and_as_json_too() {
    let nsc = permissions(&["node", "attic", "--format", "nsc"]);
    let mut lines = nsc.lines();
    assert_eq!(lines.next(), Some("nsc add user --name 'attic' \\"));
    for line in [
        "  --allow-pub '$KV.mesh-provisioner_needs.attic.>' \\",
        "  --allow-pub '$KV.mesh-provisioner_collect.attic.>' \\",
        "  --allow-sub '_INBOX_mesh.node.attic.>'",
    ] {
        assert!(nsc.lines().any(|other| other == line), "{line} is not in\n{nsc}");
    }
    let printed = permissions(&["node", "attic"]);
    let subjects = printed.lines().filter(|line| line.trim().starts_with('"')).count();
    assert_eq!(lines.count(), subjects, "one line for each right");
    let rights: Value = serde_json::from_str(&permissions(&["reader", "--format=json"])).expect("JSON");
    assert_eq!(rights["pub"]["allow"][0], "mesh-provisioner.provisioning");
    assert_eq!(rights["sub"]["allow"], json!(["_INBOX.>"]));
}
