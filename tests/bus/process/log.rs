//! The log: no secret in it, one line for each event, and no need of a reader.

use crate::support::health::SeesHealth;
use crate::support::verb::AsksTheSeat;
use serde_json::json;

use std::io::Write as _;
use std::process::Stdio;
use std::thread;

use crate::support::accounts::{READER, SEAT, TESTER};
use crate::support::bucket::REGISTRY;
use crate::support::client::Client;
use crate::support::mesh::{self, Mesh};
use crate::support::process::Process;
use crate::support::program::Program;
use crate::support::seat::{KINDS, Seat};
use crate::support::server::Server;
use crate::support::setup::Setup;
use crate::support::verb::VERB;
use crate::support::wait::{self, PATIENCE};

/// Serves at these URLs at the most talkative level.
fn talkative(urls: &str) -> Program {
    Program::new(&["serve", "--server", urls]).env("RUST_LOG", "trace")
}

#[test]
fn a_password_in_the_url_is_never_logged() {
    let mut server = Server::start();
    mesh::init(&server);
    let (user, password) = (&SEAT.user, &SEAT.password);
    // The first host is wrong.
    let urls = format!(
        "nats://{user}:{password}@no-such-host.invalid:4222,nats://{user}:{password}@{}",
        server.address()
    );
    let mut seat = Seat::spawn(&talkative(&urls), &server);
    seat.wait_ready();
    server.kill();
    seat.wait_for_log("no-such-host.invalid", PATIENCE);
    server.restart();
    // A second pass has only details to tell.
    seat.wait_for_log("DEBUG registry in place", PATIENCE);
    let log = seat.log();
    assert!(!log.contains(&**password), "{log}");
    seat.close_log();
    // Each of these has something to say.
    seat.signal("HUP");
    server.restart();
    wait::until("an answer of the seat", PATIENCE, || {
        Client::try_connect(server.address(), &READER)?.try_health()
    });
    let reader = server.client(&READER);
    assert_eq!(reader.ask(&json!({"what": "registry"})).good().entries().len(), KINDS);
    assert!(seat.status().is_none());
}

#[test]
fn a_token_in_the_url_is_never_logged() {
    const TOKEN: &str = "t0ken-that-nobody-may-see";
    let server = Setup::custom(&format!("jetstream: enabled\nauthorization {{ token: {TOKEN:?} }}")).start();
    let seat = Seat::spawn(&talkative(&format!("nats://{TOKEN}@{}", server.address())), &server);
    seat.wait_for_log("connected to", PATIENCE);
    seat.wait_for_log("does not exist: run mesh-provisioner init", PATIENCE);
    let wrong = Seat::spawn(&talkative(&format!("nats://{TOKEN}wrong@{}", server.address())), &server);
    wrong.wait_for_log("refuses the credentials", PATIENCE);
    for log in [seat.log(), wrong.log()] {
        assert!(!log.contains(TOKEN), "{log}");
    }
}

#[test]
fn quoted_text_cannot_forge_a_line_or_steer_a_terminal() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    let forged = "2026-01-01T00:00:00.000Z ERROR forged";
    // In the fields of a request, in its reply subject, in a key and in a value of the bucket that the log quotes.
    for field in ["node", "module", "kind"] {
        let answer = tester.ask(&json!({"what": "needs", field: format!("\n{forged}\u{1b}[31m")}));
        answer.expect_error(400);
    }
    tester.publish_with(VERB, Some("x\u{1b}[31m\u{202e}y".as_bytes()), b"", b"");
    mesh.seat.wait_for_log("which is not allowed", PATIENCE);
    tester.kv_put(REGISTRY, "bad\u{1b}[31mkey", "{}");
    tester.kv_put(REGISTRY, "secret", format!("\r\n{forged}\u{1b}[2J"));
    mesh.seat.signal("HUP");
    let line = mesh.seat.wait_for_log("registry key secret: changed by another client", PATIENCE);
    assert!(line.contains(&format!("\\r\\n{forged}\\u{{1b}}[2J")), "{line}");
    let line = mesh.seat.wait_for_log("no domain answers it", PATIENCE);
    assert!(line.contains("bad\\u{1b}[31mkey"), "{line}");
    let log = mesh.seat.log();
    assert!(!log.contains(|c: char| c.is_control() && c != '\n'), "{log:?}");
    // The time and a level begin every line.
    for line in log.lines() {
        let mut words = line.split(' ');
        let time = words.next().unwrap_or_default();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert!(matches!(words.next(), Some("INFO" | "WARN")), "{line}");
    }
}

#[test]
fn a18_a_stderr_that_nobody_reads_holds_up_neither_work_nor_term() {
    let server = Server::start();
    mesh::init(&server);
    let (unread, mut writer) = std::io::pipe().expect("a pipe");
    let mut command = Seat::program(&server.client_url()).command();
    command.stdout(Stdio::null()).stderr(writer.try_clone().expect("a second end of the pipe"));
    // The pipe is full, and stays so.
    let filling = thread::spawn(move || writer.write_all(&vec![b'x'; 1 << 20]));
    let mut seat = Process::start("seat", &mut command);
    drop(command);
    let reader = server.client(&READER);
    wait::until("the seat to answer", PATIENCE, || {
        let answer = reader.try_ask(r#"{"what":"registry"}"#).map_err(|error| error.to_string())?;
        if answer.entries().len() == KINDS { Ok(()) } else { Err(answer.text().clone()) }
    });
    // What it does is logged, and done.
    let tester = server.client(&TESTER);
    for turn in 0..100 {
        tester.kv_put(REGISTRY, "port", format!("\"{turn}\""));
    }
    seat.signal("HUP");
    wait::until("the seat to correct the key", PATIENCE, || {
        let value = tester.kv_get(REGISTRY, "port").expect("a key").value;
        if value.starts_with(b"{") { Ok(()) } else { Err(format!("{value:?}")) }
    });
    seat.signal("TERM");
    let status = seat.ended(PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(0));
    drop(unread);
    assert!(filling.join().expect("a thread").is_err(), "somebody has read the pipe");
}
