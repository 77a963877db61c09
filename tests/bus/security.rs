//! Who the seat is on the bus, and how it knows that the bus is the right one.

mod faults;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use nkeys::{KeyPair, KeyPairType};
use serde_json::Value;

use crate::support::accounts::{ADMINISTRATOR, READER, SEAT};
use crate::support::jwt::Operator;
use crate::support::program::Program;
use crate::support::seat::{KINDS, Seat};
use crate::support::server::Server;
use crate::support::setup::Setup;
use crate::support::tls::{Authority, Issued, Term};
use crate::support::wait::PATIENCE;

/// The shipped configuration with TLS.
fn with_tls(certificate: &Issued, more: &str) -> Setup {
    let Issued { certificate, key } = certificate;
    Setup::shipped().append(&format!("tls {{ cert_file: {certificate:?}, key_file: {key:?}\n{more} }}"))
}

/// Makes the buckets, holds the seat and asks it, each as `reach` says; gives the seat.
#[track_caller]
fn assert_served(server: &Server, reach: &dyn Fn(&str) -> Program) -> Seat {
    reach("init").run().expect_code(0);
    let seat = Seat::spawn(&reach("serve"), server);
    seat.wait_for_log("registry in place: 13 put", PATIENCE);
    let asked = reach("ask").args(&["registry", "--json"]).run().expect_code(0);
    let answer: Value = serde_json::from_str(&asked.stdout).expect("an answer in JSON");
    assert_eq!(answer["entries"].as_array().map(Vec::len), Some(KINDS), "{answer}");
    seat
}

/// A command as the shipped account that is made for it.
fn command(name: &str) -> Program {
    let account = match name {
        "init" => ADMINISTRATOR,
        "serve" => SEAT,
        _ => READER,
    };
    Program::new(&[name]).account(&account)
}

/// A seat at `url` speaks TLS.
#[track_caller]
fn assert_served_by_tls(server: &Server, url: &str, ca: &str) {
    let _seat = assert_served(server, &|name| command(name).args(&["--server", url, "--tls-ca", ca]));
    let connections = server.connections_of("seat");
    let by_tls = |one: &Value| one["tls_version"].as_str().is_some_and(|version| !version.is_empty());
    assert!(connections.iter().any(by_tls), "{connections:?}");
}

#[test]
fn the_seat_connects_with_tls_that_the_server_requires() {
    let authority = Authority::new();
    let server = with_tls(&authority.issue("server", "127.0.0.1", Term::Valid), "").start();
    assert_served_by_tls(&server, &server.client_url(), &authority.file());
}

#[test]
fn the_seat_connects_with_tls_that_the_server_offers() {
    let authority = Authority::new();
    let certificate = authority.issue("server", "127.0.0.1", Term::Valid);
    let server = with_tls(&certificate, "").append("allow_non_tls: true").start();
    assert_served_by_tls(&server, &format!("tls://{}", server.address()), &authority.file());
}

#[test]
fn the_seat_connects_with_a_ca_of_the_environment() {
    let authority = Authority::new();
    let server = with_tls(&authority.issue("server", "127.0.0.1", Term::Valid), "").start();
    let url = server.client_url();
    assert_served(&server, &|name| command(name).env("NATS_URL", &url).env("NATS_CA", &authority.file()));
}

#[test]
fn the_seat_connects_with_a_client_certificate() {
    let authority = Authority::new();
    let more = format!("ca_file: {:?}, verify: true", authority.file());
    let server = with_tls(&authority.issue("server", "127.0.0.1", Term::Valid), &more).start();
    let client = authority.issue("client", "seat.mesh", Term::Valid);
    let url = server.client_url();
    let ca = authority.file();
    let files = ["--tls-ca", &ca, "--tls-cert", &client.certificate, "--tls-key", &client.key];
    assert_served(&server, &|name| command(name).args(&["--server", &url]).args(&files));
}

/// Writes a file that only its owner may read.
fn secret_file(directory: &std::path::Path, name: &str, contents: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, contents).expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a mode");
    path.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn the_seat_connects_with_creds() {
    let operator = Operator::new();
    let server = operator.setup().start();
    let directory = tempfile::tempdir().expect("a directory");
    let creds = secret_file(directory.path(), "seat.creds", &operator.user(None).creds());
    let url = server.client_url();
    let reach = |name: &str| Program::new(&[name, "--server", &url, "--creds", &creds]);
    let seat = assert_served(&server, &reach);
    assert!(!seat.log().contains("others than its owner"), "{}", seat.log());
}

#[test]
fn creds_with_blanks_at_line_ends_and_no_last_line_end() {
    let operator = Operator::new();
    let server = operator.setup().start();
    let directory = tempfile::tempdir().expect("a directory");
    let creds = operator.user(None).creds();
    let creds = creds.trim_end().replace('\n', " \n");
    let creds = secret_file(directory.path(), "seat.creds", &creds);
    let url = server.client_url();
    assert_served(&server, &|name: &str| Program::new(&[name, "--server", &url, "--creds", &creds]));
}

#[test]
fn creds_that_others_may_read_are_warned_of() {
    let operator = Operator::new();
    let server = operator.setup().start();
    let directory = tempfile::tempdir().expect("a directory");
    let creds = secret_file(directory.path(), "seat.creds", &operator.user(None).creds());
    fs::set_permissions(&creds, Permissions::from_mode(0o640)).expect("a mode");
    let url = server.client_url();
    let seat =
        assert_served(&server, &|name| Program::new(&[name, "--server", &url]).env("NATS_CREDS", &creds));
    let line = seat.wait_for_log("others than its owner can read it", PATIENCE);
    assert!(line.contains("WARN") && line.contains(&creds) && line.contains("0640"), "{line}");
}

#[test]
fn the_seat_connects_with_an_nkey() {
    let pair = KeyPair::new(KeyPairType::User);
    let public = pair.public_key();
    let setup = format!("jetstream: enabled\nauthorization {{ users: [{{ nkey: {public} }}] }}");
    let server = Setup::custom(&setup).start();
    let directory = tempfile::tempdir().expect("a directory");
    let seed = pair.seed().expect("a seed");
    let file = secret_file(directory.path(), "seat.nk", &format!("{seed}\n"));
    let url = server.client_url();
    let seat = assert_served(&server, &|name| Program::new(&[name, "--server", &url, "--nkey", &file]));
    assert!(!seat.log().contains(&seed));
}

#[test]
fn the_seat_connects_with_a_password() {
    let server = Server::start();
    let url = server.client_url();
    assert_served(&server, &|name| command(name).args(&["--server", &url]));
}

#[test]
fn the_seat_connects_with_a_token() {
    const TOKEN: &str = "s3cr3t-token";
    let setup = format!("jetstream: enabled\nauthorization {{ token: {TOKEN:?} }}");
    let server = Setup::custom(&setup).start();
    let url = server.client_url();
    assert_served(&server, &|name| Program::new(&[name, "--server", &url]).env("NATS_TOKEN", TOKEN));
}
