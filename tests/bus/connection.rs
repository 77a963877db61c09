//! The connection: how it is made, lost, noticed to be dead, and made again.

mod denied;
mod moving;

use crate::support::health::SeesHealth;
use crate::support::verb::AsksTheSeat;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::accounts::{ADMINISTRATOR, READER};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::client::{Client, Unanswered};
use crate::support::jwt::Operator;
use crate::support::mesh::{self, Mesh};
use crate::support::program::Program;
use crate::support::proxy::Proxy;
use crate::support::seat::{KINDS, Seat};
use crate::support::server::Server;
use crate::support::setup::Setup;
use crate::support::verb::{Answer, VERB};
use crate::support::wait::{self, PATIENCE};

/// How long a seat that is told to end may take, whatever state its bus is in.
pub(super) const END: Duration = Duration::from_secs(6);

/// How long a link that is dead without a close may stay unnoticed.
const NOTICED: Duration = Duration::from_secs(60);

/// A server that accepts and says nothing. Gives its address, and for each connection how long the other side
/// kept it.
fn silent_server() -> (String, mpsc::Receiver<Duration>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = format!("nats://{}", listener.local_addr().expect("its address"));
    let (kept, receiver) = mpsc::channel();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let begun = Instant::now();
            let kept = kept.clone();
            thread::spawn(move || {
                // Until the other side closes; what it says is of no interest.
                while stream.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
                let _ = kept.send(begun.elapsed());
            });
        }
    });
    (address, receiver)
}

/// Asks until the seat answers, over connections that may break.
fn wait_for_answer(server: &Server, within: Duration) -> Value {
    wait::until("an answer of the seat", within, || {
        Client::try_connect(server.address(), &READER)?.try_health()
    })
}

#[test]
fn a_server_that_says_nothing_is_given_up_for_the_next() {
    let (silent, kept) = silent_server();
    let server = Server::start();
    mesh::init(&server);
    let url = format!("{silent},{}", server.client_url());
    let mut seat = Seat::spawn(&Seat::program(&url), &server);
    let kept = kept.recv_timeout(PATIENCE).expect("the silent server is tried");
    // Three seconds, and what a busy machine adds.
    assert!(kept < Duration::from_secs(6), "{kept:?}");
    seat.wait_ready();
}

#[test]
fn a_seat_that_tries_a_silent_server_can_be_stopped() {
    let (silent, _kept) = silent_server();
    let server = Server::start();
    let mut seat = Seat::spawn(&Seat::program(&silent), &server);
    let line = seat.wait_for_log("cannot connect", PATIENCE);
    assert!(line.contains("sent nothing in 3 s"), "{line}");
    assert_eq!(seat.terminate(END).code(), Some(0));
}

#[test]
fn a_server_that_freezes_is_left_for_another() {
    let frozen = Server::start();
    let other = Server::start();
    mesh::init(&frozen);
    mesh::init(&other);
    let url = format!("{},{}", frozen.client_url(), other.client_url());
    let mut seat = Seat::spawn(&Seat::program(&url), &frozen);
    seat.wait_ready();
    frozen.freeze();
    wait_for_answer(&other, NOTICED + PATIENCE);
    assert!(seat.log().contains("no answer"), "{}", seat.log());
    assert_eq!(seat.terminate(END).code(), Some(0));
    frozen.thaw();
}

#[test]
fn a_seat_whose_only_server_freezes_can_be_stopped() {
    let mut mesh = Mesh::start();
    mesh.server.freeze();
    assert_eq!(mesh.seat.terminate(END).code(), Some(0));
    mesh.server.thaw();
}

#[test]
fn many_failed_attempts_do_not_use_up_the_seats_patience() {
    let mut server = Server::start();
    mesh::init(&server);
    let proxy = Proxy::start(&server);
    let mut seat = Seat::start_through(&proxy, &server, &[]);
    seat.wait_ready();
    let before = proxy.accepted();
    server.kill();
    // More than the client library makes by itself before it gives up for good.
    proxy.wait_accepted(before + 12, Duration::from_secs(90));
    server.restart();
    wait_for_answer(&server, Duration::from_secs(10));
    assert!(seat.status().is_none());
}

#[test]
fn a_password_with_reserved_characters_in_the_url_connects() {
    let server = Setup::shipped().env("MESH_PASSWORD_SEAT", "\"p@ss/w\"").start();
    mesh::init(&server);
    let url = format!("nats://seat:p%40ss%2Fw@{}", server.address());
    let program = Program::new(&["serve", "--server", &url]);
    let mut seat = Seat::spawn(&program, &server);
    seat.wait_ready();
    let log = seat.log();
    assert!(!log.contains("p@ss/w") && !log.contains("p%40ss"), "{log}");
}

/// Every packet between seat and server is dropped from now on.
fn drop_packets(is_busy: bool) {
    let server = Server::start();
    mesh::init(&server);
    let proxy = Proxy::start(&server);
    let mut seat = Seat::start_through(&proxy, &server, &[]);
    seat.wait_ready();
    let reader = server.client(&READER);
    proxy.stall();
    let mut asks = Vec::new();
    let noticed = wait::until("the dead link to be noticed", NOTICED, || {
        if is_busy && asks.len() < 5000 {
            asks.push(reader.ask_later(&json!({"what": "needs"})));
        }
        let log = seat.log();
        assert!(seat.status().is_none(), "the seat ended:\n{log}");
        log.lines()
            .find(|line| line.contains("disconnected:"))
            .map(str::to_owned)
            .ok_or_else(|| wait::tail(&log))
    });
    assert!(noticed.contains("no answer"), "{noticed}");
    drop(asks);
    proxy.resume();
    wait_for_answer(&server, PATIENCE);
    seat.wait_ready();
    // The old link came back to life with the network, and takes no requests any more.
    let reader = server.client(&READER);
    for _ in 0..50 {
        assert_eq!(reader.ask(&json!({"what": "registry"})).good().entries().len(), KINDS);
    }
}

#[test]
fn an_idle_link_that_is_dead_is_noticed() {
    drop_packets(false);
}

#[test]
fn a_busy_link_that_is_dead_is_noticed() {
    drop_packets(true);
}

#[test]
fn expired_credentials_are_read_again_after_their_replacement() {
    let operator = Operator::new();
    let server = operator.setup().start();
    let administrator = operator.user(None);
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a creds file");
        path.to_str().expect("a path in UTF-8").to_owned()
    };
    let url = server.client_url();
    let init = ["init", "--server", &url, "--creds", &file("admin.creds", &administrator.creds())];
    Program::new(&init).run().expect_code(0);
    let creds = file("seat.creds", &operator.user(Some(4)).creds());
    let program = Program::new(&["serve", "--server", &url, "--creds", &creds]);
    let mut seat = Seat::spawn(&program, &server);
    seat.wait_for_log("connected to", PATIENCE);
    let line = seat.wait_for_log("disconnected:", PATIENCE);
    assert!(line.to_lowercase().contains("expired"), "{line}");
    let line = seat.wait_for_log("the server refuses the credentials", PATIENCE);
    assert!(line.contains("cannot connect"), "{line}");
    file("seat.creds", &operator.user(None).creds());
    let client = administrator.client(&server);
    client.wait_for_health("the seat to be ready", PATIENCE, |health| health["ok"] == json!(true));
    assert!(seat.status().is_none());
}

#[test]
fn restarts_during_requests_leave_no_consumer_and_no_wrong_response() {
    const ASKS: usize = 500;
    const RESTARTS: usize = 5;
    let mut mesh = Mesh::start();
    let node = mesh.node("attic");
    let keys: Vec<String> = (0..20).map(|number| format!("attic.web.port.p{number:02}")).collect();
    node.kv_put_all(NEEDS, keys.iter().map(|key| (key, "{}")));
    let address = mesh.server.address();
    let (progress, done) = mpsc::channel();
    let asker = thread::spawn(move || {
        let mut reader: Option<Client> = None;
        let mut good = 0;
        let mut asks = 0;
        while asks < ASKS {
            let client = match reader.take_if(|client| !client.is_closed()) {
                Some(client) => client,
                None => wait::until("the server to take a client", PATIENCE, || {
                    Client::try_connect(address, &READER)
                }),
            };
            let what = if asks % 2 == 0 { "needs" } else { "registry" };
            let answer = client.request(VERB, json!({"what": what}).to_string(), Duration::from_secs(6));
            match answer.map(|message| Answer::of(&message)) {
                Ok(answer) if answer.code().is_some() => {
                    assert!(matches!(answer.code(), Some(503 | 504)), "{}", answer.text());
                }
                Ok(answer) if what == "needs" => {
                    assert_eq!(answer.keys(), keys);
                    good += 1;
                }
                Ok(answer) => {
                    assert_eq!(answer.entries().len(), KINDS);
                    good += 1;
                }
                // No client received this one: it does not count.
                Err(Unanswered::NoResponders) => {
                    reader = Some(client);
                    continue;
                }
                Err(Unanswered::Closed { .. } | Unanswered::Late { .. }) => {}
                Err(other @ Unanswered::Denied(_)) => panic!("{other}"),
            }
            reader = Some(client);
            asks += 1;
            let _ = progress.send(());
        }
        good
    });
    for _ in 0..RESTARTS {
        for _ in 0..ASKS / (RESTARTS + 1) {
            done.recv_timeout(Duration::from_secs(30)).expect("another ask");
        }
        mesh.server.restart();
    }
    let good = asker.join().expect("asks without a wrong answer");
    // Each restart comes between two asks of the one client, or breaks the one under way.
    assert!(good >= ASKS - 2 * RESTARTS, "{good} good answers");
    let admin = mesh.server.client(&ADMINISTRATOR);
    for bucket in [REGISTRY, NEEDS, APPLIED, COLLECT] {
        assert_eq!(admin.consumer_count(bucket), 0, "{bucket}");
    }
}
