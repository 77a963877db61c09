//! What is wrong between the seat and the bus is said in words that say what to do.

use super::{command, secret_file, with_tls};
use crate::support::jwt::Operator;
use crate::support::mesh;
use crate::support::program::Program;
use crate::support::seat::Seat;
use crate::support::server::Server;
use crate::support::setup::Setup;
use crate::support::tls::{Authority, Issued, Term};
use crate::support::wait::PATIENCE;
use std::fs;

/// The line in which a seat that is started so says why it cannot connect; it goes on trying.
#[track_caller]
fn failure(server: &Server, program: &Program) -> String {
    let mut seat = Seat::spawn(program, server);
    let line = seat.wait_for_log("cannot connect, trying again", PATIENCE);
    assert!(seat.status().is_none());
    line
}

#[track_caller]
fn assert_says(line: &str, words: &str) {
    assert!(line.contains(words), "expected {words:?} in {line}");
}

#[test]
fn a_certificate_of_an_unknown_ca_is_reported_with_the_next_step() {
    let authority = Authority::new();
    let server = with_tls(&authority.issue("server", "127.0.0.1", Term::Valid), "").start();
    let seat = command("serve").args(&["--server", &server.client_url()]);
    let other = Authority::new();
    for program in [seat.clone(), seat.args(&["--tls-ca", &other.file()])] {
        assert_says(&failure(&server, &program), "is not signed by a known CA: name its CA with --tls-ca");
    }
}

#[test]
fn an_expired_certificate_is_reported_with_the_next_step() {
    let authority = Authority::new();
    let server = with_tls(&authority.issue("server", "127.0.0.1", Term::Expired), "").start();
    let seat = command("serve").args(&["--server", &server.client_url(), "--tls-ca", &authority.file()]);
    assert_says(&failure(&server, &seat), "the server's certificate has expired: renew it");
}

#[test]
fn a_certificate_for_another_name_is_reported_with_the_next_step() {
    let authority = Authority::new();
    let server = with_tls(&authority.issue("server", "bus.example", Term::Valid), "").start();
    let seat = command("serve").args(&["--server", &server.client_url(), "--tls-ca", &authority.file()]);
    assert_says(&failure(&server, &seat), "certificate does not cover the name in --server");
}

#[test]
fn a_missing_or_unknown_client_certificate_is_reported_with_the_next_step() {
    let authority = Authority::new();
    let more = format!("ca_file: {:?}, verify: true", authority.file());
    let server = with_tls(&authority.issue("server", "127.0.0.1", Term::Valid), &more).start();
    let seat = command("serve").args(&["--server", &server.client_url(), "--tls-ca", &authority.file()]);
    let stranger = Authority::new().issue("client", "seat.mesh", Term::Valid);
    let words = "give --tls-cert and --tls-key";
    assert_says(&failure(&server, &seat), words);
    // Its files are gone with their authority.
    let stranger_files = ["--tls-cert", &stranger.certificate, "--tls-key", &stranger.key];
    seat.clone().args(&stranger_files).run().expect_code(78);
    let other = Authority::new();
    let unknown = other.issue("client", "seat.mesh", Term::Valid);
    let seat = seat.args(&["--tls-cert", &unknown.certificate, "--tls-key", &unknown.key]);
    let words = format!("the server does not accept the client certificate {}", unknown.certificate);
    assert_says(&failure(&server, &seat), &words);
}

#[test]
fn a_server_that_speaks_tls_first_is_reported_with_the_next_step() {
    let authority = Authority::new();
    let certificate = authority.issue("server", "127.0.0.1", Term::Valid);
    let mut server = with_tls(&certificate, "").start();
    // The 2.9 line has no such setting. A server that says nothing (c1) is all that the seat could see there.
    if server.version() < (2, 10, 0) {
        return;
    }
    server.setup = with_tls(&certificate, "handshake_first: true");
    server.reload();
    let seat = command("serve").args(&["--server", &server.client_url(), "--tls-ca", &authority.file()]);
    assert_says(&failure(&server, &seat), "speaks TLS first (handshake_first), which is not supported");
}

#[test]
fn a_server_without_the_wanted_tls_is_reported_with_the_next_step() {
    let server = Setup::shipped().without_tls().start();
    let authority = Authority::new();
    let words = "the server does not speak TLS";
    let by_scheme = command("serve").args(&["--server", &format!("tls://{}", server.address())]);
    assert_says(&failure(&server, &by_scheme), words);
    let by_ca = command("serve").args(&["--server", &server.client_url(), "--tls-ca", &authority.file()]);
    assert_says(&failure(&server, &by_ca), words);
}

#[test]
fn a_missing_trust_store_is_reported_with_the_next_step() {
    let authority = Authority::new();
    let server = with_tls(&authority.issue("server", "127.0.0.1", Term::Valid), "").start();
    let seat = command("serve").args(&["--server", &server.client_url()]);
    let seat = seat.env("SSL_CERT_FILE", "/nowhere/certificates.pem").env("SSL_CERT_DIR", "/nowhere");
    assert_says(&failure(&server, &seat), "SSL_CERT_FILE or SSL_CERT_DIR may name a file that is not there");
    // Without TLS nobody needs it.
    let plain = Server::start();
    mesh::init(&plain);
    let seat = Seat::program(&plain.client_url()).env("SSL_CERT_FILE", "/nowhere/certificates.pem");
    Seat::spawn(&seat, &plain).wait_ready();
}

#[test]
fn rejected_credentials_are_reported_with_the_next_step() {
    let server = Server::start();
    let seat = command("serve").args(&["--server", &server.client_url()]).env("NATS_PASSWORD", "wrong");
    assert_says(&failure(&server, &seat), "the server refuses the credentials");
}

#[test]
fn credentials_that_disappeared_are_reported_with_the_next_step() {
    let operator = Operator::new();
    let mut server = operator.setup().start();
    let directory = tempfile::tempdir().expect("a directory");
    let creds = secret_file(directory.path(), "seat.creds", &operator.user(None).creds());
    let program = Program::new(&["serve", "--server", &server.client_url(), "--creds", &creds]);
    let seat = Seat::spawn(&program, &server);
    seat.wait_for_log("connected to", PATIENCE);
    std::fs::remove_file(&creds).expect("the creds file");
    server.restart();
    let line = seat.wait_for_log(&creds, PATIENCE);
    assert_says(&line, "cannot connect");
    let mark = seat.mark();
    secret_file(directory.path(), "seat.creds", &operator.user(None).creds());
    seat.wait_for_log_since(mark, "connected to", PATIENCE);
}

#[test]
fn a_ca_that_is_shown_as_the_servers_own_certificate() {
    let authority = Authority::new();
    let server = with_tls(&authority.own(), "").start();
    let seat = command("serve").args(&["--server", &server.client_url(), "--tls-ca", &authority.file()]);
    assert_says(&failure(&server, &seat), "the server shows a CA's certificate as its own");
}

#[test]
fn certificates_out_of_their_term_are_named() {
    let authority = Authority::new();
    let server = with_tls(&authority.issue("server", "127.0.0.1", Term::NotYet), "").start();
    let seat = command("serve").args(&["--server", &server.client_url(), "--tls-ca", &authority.file()]);
    assert_says(&failure(&server, &seat), "the server's certificate is not valid yet");
    let more = format!("ca_file: {:?}, verify: true", authority.file());
    let server = with_tls(&authority.issue("good", "127.0.0.1", Term::Valid), &more).start();
    let ours = authority.issue("client", "seat.mesh", Term::Expired);
    let seat = command("serve").args(&["--server", &server.client_url(), "--tls-ca", &authority.file()]);
    let seat = seat.args(&["--tls-cert", &ours.certificate, "--tls-key", &ours.key]);
    let words = format!("the client certificate {} has expired", ours.certificate);
    assert_says(&failure(&server, &seat), &words);
}

#[test]
fn a_key_that_cannot_be_used_is_a_fault_of_the_configuration() {
    let authority = Authority::new();
    let ours = authority.issue("client", "seat.mesh", Term::Valid);
    let other = authority.issue("other", "seat.mesh", Term::Valid);
    let key = fs::read_to_string(&ours.key).expect("a key");
    let directory = tempfile::tempdir().expect("a directory");
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let encrypted = secret_file(directory.path(), "encrypted.pem", &encrypted);
    let half = secret_file(directory.path(), "half.pem", &key[..key.len() / 2]);
    for (path, words) in [
        (other.key.as_str(), "is not the key of the certificate"),
        (encrypted.as_str(), "is encrypted: decrypt it"),
        (half.as_str(), "is cut off or damaged"),
    ] {
        for name in ["serve", "ask"] {
            let tried = command(name).args(&["--tls-cert", &ours.certificate, "--tls-key", path]).run();
            assert_says(&tried.expect_code(78).stderr, words);
        }
    }
}

#[test]
fn a_name_that_is_not_found_does_not_hide_the_server_behind_it() {
    let server = Server::start();
    mesh::init(&server);
    let url = format!("nats://no.such.host.invalid:4222,{}", server.client_url());
    let mut seat = Seat::spawn(&command("serve").args(&["--server", &url]), &server);
    seat.wait_ready();
    command("ask").args(&["--server", &url, "registry"]).run().expect_code(0);
    let alone = command("ask").args(&["--server", "nats://no.such.host.invalid:4222", "registry"]).run();
    assert_says(&alone.expect_code(69).stderr, "no.such.host.invalid");
}

#[test]
fn g13_a_key_of_a_kind_that_is_not_supported_is_named_on_either_side() {
    // ECDSA with P-521: the key and its certificate for 127.0.0.1.
    let directory = tempfile::tempdir().expect("a directory");
    let both = secret_file(directory.path(), "p-521.pem", include_str!("p-521.pem"));
    let ours = command("serve").args(&["--tls-cert", &both, "--tls-key", &both]).run();
    let words = format!("the key {both} is of a kind that is not supported");
    assert_says(&ours.expect_code(78).stderr, &words);
    let server = with_tls(&Issued { certificate: both.clone(), key: both.clone() }, "").start();
    let seat = command("serve").args(&["--server", &server.client_url(), "--tls-ca", &both]);
    let words = "whose key is RSA, ECDSA with P-256 or P-384, or Ed25519";
    assert_says(&failure(&server, &seat), words);
}
