//! The process: its signals, its exit codes, what it logs, what it tells its supervisor.

mod log;
mod notify;

use crate::support::verb::AsksTheSeat;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::accounts::{READER, SEAT, TESTER};
use crate::support::bucket::{NEEDS, REGISTRY};
use crate::support::mesh::{self, Mesh};
use crate::support::program::Program;
use crate::support::proxy::Proxy;
use crate::support::seat::Seat;
use crate::support::server::Server;
use crate::support::setup::{Right, Setup};
use crate::support::wait::{self, PATIENCE};

/// How long a seat that has nothing under way may take to end.
const IDLE_END: Duration = Duration::from_secs(2);

/// The same whatever the seat does and whatever state its bus is in.
const END: Duration = Duration::from_secs(6);

/// The seat as the first process of a world of its own, as in a container.
fn pid_1(url: &str) -> Program {
    let is_root = std::fs::metadata("/proc/self").expect("a process").uid() == 0;
    // A user namespace makes anybody root of that world.
    let wrapper: &[&str] =
        if is_root { &["unshare", "-pf", "--mount-proc"] } else { &["unshare", "-rpf", "--mount-proc"] };
    Seat::program(url).under(wrapper)
}

#[test]
fn term_ends_an_idle_seat() {
    let server = Server::start();
    mesh::init(&server);
    let mut seat = Seat::spawn(&pid_1(&server.client_url()), &server);
    seat.wait_ready();
    assert_eq!(seat.terminate(IDLE_END).code(), Some(0));
}

#[test]
fn term_ends_a_seat_whose_bus_is_down() {
    let mut server = Server::start();
    mesh::init(&server);
    let mut seat = Seat::spawn(&pid_1(&server.client_url()), &server);
    seat.wait_ready();
    server.kill();
    seat.wait_for_log("cannot connect", PATIENCE);
    assert_eq!(seat.terminate(IDLE_END).code(), Some(0));
}

#[test]
fn term_ends_a_seat_that_connects() {
    // The kernel accepts for it, and nobody ever speaks.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("nats://{}", silent.local_addr().expect("its address"));
    let server = Server::start();
    let mut seat = Seat::spawn(&pid_1(&url), &server);
    silent.accept().expect("a connection of the seat");
    assert_eq!(seat.terminate(IDLE_END).code(), Some(0));
}

#[test]
fn term_ends_a_seat_whose_bus_hangs_in_mid_read() {
    let server = Server::start();
    mesh::init(&server);
    let proxy = Proxy::start(&server);
    let mut seat = Seat::spawn(&pid_1(&proxy.client_url()), &server);
    seat.wait_ready();
    hang_in_mid_read(&server, &proxy);
    assert_eq!(seat.terminate(END).code(), Some(0));
}

/// Has the seat read a bucket over a connection that brings no answer any more.
fn hang_in_mid_read(server: &Server, proxy: &Proxy) {
    let tester = server.client(&TESTER);
    tester.kv_put_all(NEEDS, (0..500).map(|number| (format!("n1.web.port.p{number:03}"), "{}")));
    let sent = proxy.sent().len();
    let reader = server.client(&READER);
    // What is known of the bucket comes through, and its messages are on their way.
    let _asked = reader.ask_later(&json!({"what": "needs"}));
    proxy.wait_sent(sent, "DIRECT.GET.KV_mesh-provisioner_needs", PATIENCE);
    proxy.stall();
}

#[test]
fn a_seat_that_stops_answers_what_is_under_way() {
    let mut mesh = Mesh::start();
    let tester = mesh.tester();
    tester.kv_put_all(NEEDS, (0..2000).map(|number| (format!("n1.web.port.p{number:04}"), "{}")));
    let gets = tester.subscribe("$JS.API.DIRECT.GET.KV_mesh-provisioner_needs", None);
    let reader = mesh.reader();
    let asked = reader.ask_later(&json!({"what": "needs", "limit": 2000}));
    gets.next(PATIENCE).expect("the ask under way");
    assert_eq!(mesh.seat.terminate(END).code(), Some(0));
    let answer = asked.next(PATIENCE).expect("an answer").json();
    assert_eq!(answer["entries"].as_array().map(Vec::len), Some(2000));
}

#[test]
fn a_seat_that_waits_to_stop_does_not_spin() {
    // It gets no response of the bus, so its own response is due only when its patience ends.
    let server = Setup::shipped().deny(&SEAT, Right::Subscribe, "_INBOX_mesh.provisioner.>").start();
    mesh::init(&server);
    let tester = server.client(&TESTER);
    let listings = tester.subscribe("$JS.API.STREAM.INFO.KV_mesh-provisioner_needs", None);
    let mut seat = Seat::start(&server, &[]);
    seat.wait_for_log("connected to", PATIENCE);
    let _asked = tester.ask_later(&json!({"what": "needs"}));
    listings.next(PATIENCE).expect("the ask under way");
    let accounts = format!("/proc/{}/stat", seat.id());
    // The 14th and 15th field: time on a processor in hundredths of a second. The name before them ends with `)`.
    let processor_time = || -> Option<u64> {
        let line = std::fs::read_to_string(&accounts).ok()?;
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    };
    let before = processor_time().expect("a process");
    seat.signal("TERM");
    let mut used = 0;
    let status = wait::until("the seat to end", END, || {
        used = processor_time().unwrap_or(before).saturating_sub(before).max(used);
        seat.status().ok_or_else(|| format!("{used} hundredths of a second used"))
    });
    assert_eq!(status.code(), Some(0));
    // It waits for four seconds, and has nothing to do in them.
    assert!(used < 50, "{used} hundredths of a second used");
}

#[test]
fn a_second_int_ends_the_seat_at_once() {
    let server = Server::start();
    mesh::init(&server);
    let proxy = Proxy::start(&server);
    let mut seat = Seat::start_through(&proxy, &server, &[]);
    seat.wait_ready();
    hang_in_mid_read(&server, &proxy);
    seat.signal("INT");
    seat.wait_for_log("stopping: 1 requests under way", PATIENCE);
    seat.signal("INT");
    assert_eq!(seat.wait_exit(Duration::from_secs(1)).code(), Some(130));
}

#[test]
fn one_int_ends_the_seat_well() {
    let mut mesh = Mesh::start();
    mesh.seat.signal("INT");
    assert_eq!(mesh.seat.wait_exit(IDLE_END).code(), Some(0));
}

#[test]
fn hup_writes_the_registry_now_and_never_ends_the_seat() {
    let mut mesh = Mesh::start();
    let tester = mesh.tester();
    let deleted = tester.kv_delete(REGISTRY, "secret");
    mesh.seat.signal("HUP");
    wait::until("the kind to be back", PATIENCE, || {
        let stored = tester.kv_get(REGISTRY, "secret").expect("a message");
        if stored.sequence > deleted { Ok(()) } else { Err("still deleted".to_owned()) }
    });
    mesh.server.kill();
    mesh.seat.wait_for_log("cannot connect", PATIENCE);
    let mark = mesh.seat.mark();
    mesh.seat.signal("HUP");
    mesh.seat.wait_for_log_since(mark, "registry pass requested", PATIENCE);
    mesh.server.restart();
    mesh.seat.wait_ready();
}

#[test]
fn the_status_file_says_how_the_seat_is() {
    let mut server = Server::start();
    mesh::init(&server);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("status.json");
    let runtime = directory.path().to_str().expect("a path in UTF-8");
    let mut seat =
        Seat::spawn(&Seat::program(&server.client_url()).env("RUNTIME_DIRECTORY", runtime), &server);
    seat.wait_ready();
    let read = || -> Result<Value, String> {
        let text = std::fs::read(&path).map_err(|error| error.to_string())?;
        // Put there by a rename: never a part.
        Ok(serde_json::from_slice(&text).expect("a whole status"))
    };
    let status = wait::until("a status that says ready", Duration::from_secs(25), || {
        let status = read()?;
        if status["ready"] == json!(true) { Ok(status) } else { Err(status.to_string()) }
    });
    assert_eq!(status["pid"], json!(seat.id()));
    assert_eq!(status["live"], json!(true));
    assert_eq!(status["missing"], json!([]));
    assert_eq!(status["seat"]["version"], json!(env!("CARGO_PKG_VERSION")));
    assert!(status["server"].as_str().is_some_and(|name| name.contains(&server.address().to_string())));
    assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o644);
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 1);
    let health = Program::new(&["health"]).env("RUNTIME_DIRECTORY", runtime);
    health.run().expect_code(0);
    server.kill();
    let status = wait::until("a status that says not ready", Duration::from_secs(25), || {
        let status = read()?;
        if status["ready"] == json!(false) { Ok(status) } else { Err(status.to_string()) }
    });
    assert!(status["missing"][0].as_str().is_some_and(|line| line.contains("not connected")), "{status}");
    // Alive all the same: a restart of the seat would not mend the bus.
    health.run().expect_code(0);
    seat.kill();
    std::fs::remove_file(&path).expect("the status file");
    health.run().expect_code(1);
}

#[test]
fn the_status_file_tells_of_a_connection_at_once_also_where_the_seat_is_not_ready() {
    let server = Setup::shipped().append("jetstream: false").start();
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = directory.path().to_str().expect("a path in UTF-8");
    let program = Seat::program(&server.client_url()).env("RUNTIME_DIRECTORY", runtime);
    let seat = Seat::spawn(&program, &server);
    let line = seat.wait_for_log("connected to", PATIENCE);
    let address = line.split_whitespace().find(|word| word.contains("://")).expect("an address");
    // It is written every 15 s in any case.
    wait::until("a status that names the server", Duration::from_secs(5), || {
        let text = std::fs::read_to_string(directory.path().join("status.json")).unwrap_or_default();
        let told = text.contains(address) && !text.contains("not connected");
        if told && text.contains("\"ready\":false") { Ok(()) } else { Err(text) }
    });
}

#[test]
fn bad_configuration_ends_with_78_and_one_line_that_says_what_to_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let empty = directory.path().join("empty.creds");
    std::fs::write(&empty, "").expect("a file");
    let empty = empty.to_str().expect("a path in UTF-8");
    let serve = |args: &[&str]| Program::new(&["serve"]).args(args);
    for (program, words) in [
        (serve(&["--creds", "/nowhere/seat.creds"]), "/nowhere/seat.creds"),
        (serve(&["--creds", empty]), "no user JWT"),
        (serve(&["--server", "http://bus"]), "http"),
        (serve(&["--server", "nats://bus:99999"]), "99999"),
        (serve(&["--tls-cert", "/nowhere/cert.pem"]), "without its key"),
        (serve(&[]).env("NOTIFY_SOCKET", "vsock:2:1234"), "NOTIFY_SOCKET"),
    ] {
        let ended = program.run().expect_code(78);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].contains(words), "{words}: {lines:?}");
    }
    Program::new(&["serve", "--nonsense"]).run().expect_code(64);
}

#[test]
fn a_seat_starts_before_its_bus() {
    let mut server = Setup::shipped().start();
    mesh::init(&server);
    server.kill();
    let mut seat = Seat::start(&server, &[]);
    let line = seat.wait_for_log("cannot connect", PATIENCE);
    assert!(line.contains("refused: nothing listens there"), "{line}");
    server.restart();
    seat.wait_ready();
}

#[test]
fn every_request_that_arrived_before_term_gets_an_answer() {
    const ASKED: usize = 1_500;
    let mut mesh = Mesh::start();
    let reader = mesh.reader();
    let answers = reader.subscribe("_INBOX.term.*", None);
    reader.flush();
    let ask = |at: usize| {
        format!("PUB mesh-provisioner.provisioning _INBOX.term.{at} 17\r\n{{\"what\":\"health\"}}\r\n")
    };
    let half: String = (0..ASKED / 2).map(ask).collect();
    let rest: String = (ASKED / 2..ASKED).map(ask).collect();
    reader.send(half.as_bytes());
    mesh.seat.signal("TERM");
    reader.send(rest.as_bytes());
    assert_eq!(mesh.seat.wait_exit(END).code(), Some(0));
    reader.flush();
    // What the seat no longer gets the server answers itself: no responders.
    let mut unanswered: BTreeSet<usize> = (0..ASKED).collect();
    for answer in answers.take_all() {
        let subject = String::from_utf8(answer.subject).expect("our own subject");
        let at = subject.rsplit('.').next().and_then(|at| at.parse().ok()).expect("a number");
        assert!(unanswered.remove(&at), "{at} got two answers");
    }
    assert!(unanswered.is_empty(), "{} of {ASKED} got no answer: {unanswered:?}", unanswered.len());
}
