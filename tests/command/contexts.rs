//! Where the connection's settings come from: flags beat the environment, which beats a context of the nats tool.

use crate::support::accounts::READER;
use crate::support::mesh::Mesh;
use crate::support::program::{Finished, Program};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::{TempDir, tempdir};

/// Nothing listens there.
const NOWHERE: &str = "nats://127.0.0.1:9";

fn home(contexts: &[(&str, Value)]) -> TempDir {
    let home = tempdir().expect("a directory");
    let directory = home.path().join(".config/nats/context");
    fs::create_dir_all(&directory).expect("a directory");
    for (name, context) in contexts {
        fs::write(directory.join(format!("{name}.json")), context.to_string()).expect("a file");
    }
    home
}

fn select(home: &Path, name: &str) {
    fs::write(home.join(".config/nats/context.txt"), name).expect("a file");
}

fn ask(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let program = Program::new(&["ask"]).args(arguments).env("HOME", home.to_str().expect("UTF-8"));
    variables.iter().fold(program, |program, (name, value)| program.env(name, value)).run()
}

#[test]
fn flags_beat_the_environment_which_beats_the_context() {
    let mesh = Mesh::start();
    let url = mesh.server.client_url();
    let good = json!({"url": url, "user": READER.user, "password": READER.password, "description": "good"});
    let bad = json!({"url": NOWHERE, "user": READER.user, "password": READER.password});
    let home = home(&[("good", good), ("bad", bad)]);
    let home = home.path();

    ask(home, &["--context", "good"], &[]).expect_code(0);
    ask(home, &[], &[("NATS_CONTEXT", "good")]).expect_code(0);
    ask(home, &["--context", "bad"], &[]).expect_code(69);
    // A flag beats the variable, the variable beats the context.
    ask(home, &["--context", "good"], &[("NATS_CONTEXT", "bad")]).expect_code(0);
    ask(home, &["--context", "bad"], &[("NATS_URL", &url)]).expect_code(0);
    ask(home, &["--context", "bad", "--server", &url], &[("NATS_URL", NOWHERE)]).expect_code(0);
    ask(home, &["--context", "good", "--server", NOWHERE], &[("NATS_URL", &url)]).expect_code(69);
    // The selected one is taken if nothing else says where.
    select(home, "good\n");
    ask(home, &[], &[]).expect_code(0);
    select(home, "bad");
    ask(home, &[], &[]).expect_code(69);
    let account =
        [("NATS_URL", url.as_str()), ("NATS_USER", "reader"), ("NATS_PASSWORD", "password-of-reader")];
    ask(home, &[], &account).expect_code(0);
}

#[test]
fn the_inbox_of_a_context_is_used() {
    let mesh = Mesh::start();
    let url = mesh.server.client_url();
    let attic = crate::support::accounts::node("attic");
    let context =
        json!({"url": url, "user": attic.user, "password": attic.password, "inbox_prefix": attic.inbox});
    let home = home(&[("attic", context)]);
    // Its account may listen there and nowhere else.
    ask(home.path(), &["--context", "attic"], &[]).expect_code(0);
    let elsewhere =
        ask(home.path(), &["--context", "attic", "--inbox-prefix", "_INBOX"], &[]).expect_code(77);
    assert!(elsewhere.stderr.contains("no response can be received"), "{}", elsewhere.stderr);
}

#[test]
fn the_program_warns_of_a_password_on_its_command_line() {
    let mesh = Mesh::start();
    let url = format!("nats://{}:{}@{}", READER.user, READER.password, mesh.server.address());
    let finished = Program::new(&["ask", "registry", "--server", &url]).run().expect_code(0);
    assert!(
        finished.stderr.starts_with("warning: --server holds a password or token"),
        "{}",
        finished.stderr
    );
    let quiet = Program::new(&["ask", "registry"]).env("NATS_URL", &url).run().expect_code(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_context_that_cannot_be_used_as_it_stands_is_refused_by_name() {
    let home = home(&[
        ("proxied", json!({"url": NOWHERE, "socks_proxy": "socks5://127.0.0.1:1"})),
        ("numbered", json!({"url": 7})),
        ("listed", json!([])),
    ]);
    for (arguments, said) in [
        (["--context", "proxied"], "has the field \"socks_proxy\", which is not supported"),
        (["--context", "numbered"], "url in the context \"numbered\" is not a string"),
        (["--context", "listed"], "is not a JSON object"),
        (["--context", "absent"], "which does not exist"),
        (["--context", "../escape"], "is not the name of a context"),
        (["--creds", "/nowhere/a.creds"], "/nowhere/a.creds"),
        (["--server", "http://127.0.0.1"], "--server"),
        (["--server", ""], "--server is empty"),
        (["--user", "reader"], "NATS_PASSWORD"),
    ] {
        for command in ["ask", "plan", "check", "init", "serve"] {
            let finished = Program::new(&[command])
                .args(&arguments)
                .env("HOME", home.path().to_str().expect("UTF-8"))
                .run()
                .expect_code(78);
            assert!(finished.stderr.contains(said), "{command} {arguments:?} says {}", finished.stderr);
            assert_eq!(
                (finished.stdout.as_str(), finished.stderr.lines().count()),
                ("", if command == "serve" { finished.stderr.lines().count() } else { 1 })
            );
        }
    }
}
