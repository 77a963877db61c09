//! The gate between the client library and the server: nothing that anybody sends, and nothing that a server says, costs
//! a connection, a password or a request.

use crate::support::accounts::{READER, TESTER};
use crate::support::bucket::NEEDS;
use crate::support::health::SeesHealth;
use crate::support::mesh::{self, Mesh};
use crate::support::proxy::Proxy;
use crate::support::seat::Seat;
use crate::support::server::Server;
use crate::support::setup::Setup;
use crate::support::tls::{Authority, Term};
use crate::support::verb::{AsksTheSeat, VERB};
use crate::support::wait::{self, PATIENCE};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The segments of a real network.
const SEGMENT: usize = 1448;

/// The connections of the seat, by their numbers at the server.
fn connections(server: &Server) -> Vec<String> {
    server.connections_of("seat").iter().map(|connection| connection["cid"].to_string()).collect()
}

#[test]
fn no_reply_subject_ends_the_seat_or_its_connection() {
    let server = Server::start();
    mesh::init(&server);
    let proxy = Proxy::start(&server);
    proxy.split(SEGMENT);
    let mut seat = Seat::start_through(&proxy, &server, &[]);
    seat.wait_ready();
    let before = connections(&server);
    let reader = server.client(&READER);
    let quotes = format!("_INBOX_{}", "\"".repeat(3_990));
    let under_the_right = format!("_INBOX.{}", "\"".repeat(3_990));
    for reply in
        [quotes.as_bytes(), under_the_right.as_bytes(), "_INBOX.a\u{a0}".as_bytes(), b"_INBOX.\xff\xfe"]
    {
        for _ in 0..3 {
            reader.publish_with(VERB, Some(reply), &[], b"{}");
        }
    }
    for headers in
        [&b"NATS/1.0\r\nno colon\r\n\r\n"[..], b"NATS/1.0\r\nA: \xff\r\n\r\n", b"what\r\n\r\n", b"\r\n\r\n"]
    {
        reader.publish_with(VERB, Some(b"_INBOX.x.y"), headers, b"{}");
    }
    reader.flush();
    reader.try_health().expect("an answer after all of it");
    assert_eq!(connections(&server), before, "{}", seat.log());
    assert!(seat.status().is_none());
    assert!(!seat.log().contains("Permissions Violation for Publish"), "{}", seat.log());
}

#[test]
fn a_connection_that_breaks_is_made_again_at_once() {
    let server = Server::start();
    mesh::init(&server);
    let proxy = Proxy::start(&server);
    let mut seat = Seat::start_through(&proxy, &server, &[]);
    seat.wait_ready();
    let reader = server.client(&READER);
    let threads = || std::fs::read_dir(format!("/proc/{}/task", seat.id())).expect("threads").count();
    let before = threads();
    for _ in 0..5 {
        // A connection that ends within a second counts as one that failed.
        thread::sleep(Duration::from_millis(1_200));
        let start = Instant::now();
        proxy.cut();
        wait::until("an answer over the next connection", PATIENCE, || reader.try_health());
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
    wait::until("the threads of the lost links to end", Duration::from_secs(10), || {
        let now = threads();
        if now <= before { Ok(()) } else { Err(format!("{now} threads, {before} before")) }
    });
}

#[test]
fn a_library_that_cannot_start_its_threads_ends_no_process() {
    let server = Server::start();
    mesh::init(&server);
    // No thread can have a stack like that but those that name a size of their own: ours do.
    let program = Seat::program(&server.client_url()).env("RUST_MIN_STACK", "70368744177664");
    let mut seat = Seat::spawn(&program, &server);
    seat.wait_for_log("the client library failed", PATIENCE);
    seat.wait_for_log("cannot connect, trying again", PATIENCE);
    assert!(seat.status().is_none());
    assert_eq!(seat.terminate(PATIENCE).code(), Some(0));
}

#[test]
fn requests_one_at_a_time_are_answered_over_tls() {
    let authority = Authority::new();
    let issued = authority.issue("server", "127.0.0.1", Term::Valid);
    let tls = format!(
        "tls {{ cert_file: {:?}, key_file: {:?} }}\nallow_non_tls: true",
        issued.certificate, issued.key
    );
    let server = Setup::shipped().append(&tls).start();
    mesh::init(&server);
    let program = Seat::plain_program(&server.client_url().replace("nats://", "tls://"))
        .args(&["--tls-ca", &authority.file()]);
    let mut seat = Seat::spawn(&program, &server);
    seat.wait_ready();
    let reader = server.client(&READER);
    for asked in 0..600 {
        let what = if asked % 2 == 0 { "registry" } else { "health" };
        let start = Instant::now();
        reader.request(VERB, json!({"what": what}).to_string(), PATIENCE).expect("an answer");
        assert!(start.elapsed() < Duration::from_secs(1), "request {asked} took {:?}", start.elapsed());
    }
}

/// A server in between that changes what the real one says first, and adds `later` once it has let a client in. Gives
/// its port.
fn in_between(server: &Server, greeting: impl Fn(&str) -> String + Send + 'static, later: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let target = server.address();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(upstream) = TcpStream::connect(target) else { continue };
            let mut said = BufReader::new(upstream.try_clone().expect("a socket"));
            let mut info = String::new();
            said.read_line(&mut info).expect("INFO");
            let mut to_client = client.try_clone().expect("a socket");
            to_client.write_all(greeting(&info).as_bytes()).ok();
            let later = later.clone();
            thread::spawn(move || {
                let mut line = String::new();
                // Up to the PONG that lets the client in all is text, unless it is TLS, whose first byte is this.
                let is_tls = said.fill_buf().is_ok_and(|bytes| bytes.first() == Some(&0x16));
                while !is_tls && !line.starts_with("PONG") {
                    line.clear();
                    if said.read_line(&mut line).is_ok_and(|count| count == 0)
                        || to_client.write_all(line.as_bytes()).is_err()
                    {
                        return;
                    }
                }
                to_client.write_all(later.as_bytes()).ok();
                std::io::copy(&mut said, &mut to_client).ok();
                to_client.shutdown(Shutdown::Both).ok();
            });
            let mut upstream = upstream;
            let mut from_client = client;
            thread::spawn(move || {
                std::io::copy(&mut from_client, &mut upstream).ok();
                upstream.shutdown(Shutdown::Both).ok();
            });
        }
    });
    port
}

/// The INFO with these other servers.
fn with_urls(info: &str, urls: &[String]) -> String {
    let urls = json!(urls).to_string();
    format!("{},\"connect_urls\":{urls}}} \r\n", info.trim_end().trim_end_matches('}'))
}

#[test]
fn a_server_may_name_hundreds_of_others_at_the_start_and_later() {
    let server = Server::start();
    mesh::init(&server);
    let urls: Vec<String> = (0..200).map(|at| format!("server-{at}.bus.example:4222")).collect();
    let later = with_urls(
        r#"INFO {"server_id":"S","version":"2.15.1","max_payload":1048576,"client_id":1,"headers":true}"#,
        &urls,
    );
    assert!(later.len() > 4096);
    let port = in_between(&server, move |info| with_urls(info, &urls), later);
    let mut seat = Seat::spawn(&Seat::plain_program(&format!("nats://127.0.0.1:{port}")), &server);
    seat.wait_ready();
    server.client(&READER).try_health().expect("an answer");
    assert!(!seat.log().contains("disconnected"), "{}", seat.log());
}

#[test]
fn what_a_server_says_as_soon_as_it_lets_the_seat_in_is_heard() {
    let server = Server::start();
    mesh::init(&server);
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let his = other.local_addr().expect("an address").to_string();
    let info = r#"INFO {"server_id":"S","version":"2.15.1","max_payload":1048576,"client_id":1,"headers":true,"ldm":true}"#;
    let later = with_urls(info, &[his]);
    let port = in_between(&server, str::to_owned, later);
    let seat = Seat::spawn(&Seat::plain_program(&format!("nats://127.0.0.1:{port}")), &server);
    seat.wait_for_log("about to shut down", PATIENCE);
    other.accept().expect("the seat moves to the other server");
}

#[test]
fn an_odd_address_of_a_server_is_skipped_and_reported_once() {
    let server = Server::start();
    mesh::init(&server);
    let odd = ["[fe80::1%eth0]:4222", ":4222", "host:99999"];
    let urls = odd.map(str::to_owned).to_vec();
    let port = in_between(&server, move |info| with_urls(info, &urls), String::new());
    let mut seat = Seat::spawn(&Seat::plain_program(&format!("nats://127.0.0.1:{port}")), &server);
    seat.wait_ready();
    for url in odd {
        assert_eq!(seat.log().matches(&format!("\"{url}\"")).count(), 1, "{}", seat.log());
    }
}

#[test]
fn what_a_server_says_before_tls_is_not_believed() {
    // Somebody in the middle, who has no certificate: names a server of his own, and cuts the connection.
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let his = other.local_addr().expect("an address");
    let visits = Arc::new(AtomicUsize::new(0));
    {
        let visits = Arc::clone(&visits);
        thread::spawn(move || {
            for visitor in other.incoming().flatten() {
                visits.fetch_add(1, Ordering::Relaxed);
                drop(visitor);
            }
        });
    }
    let middle = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = middle.local_addr().expect("an address").port();
    let cuts = Arc::new(AtomicUsize::new(0));
    {
        let cuts = Arc::clone(&cuts);
        thread::spawn(move || {
            for mut visitor in middle.incoming().flatten() {
                let info = format!(
                    "INFO {{\"server_id\":\"S\",\"version\":\"2.15.1\",\"max_payload\":1048576,\"client_id\":1,\"headers\":true,\"tls_available\":true,\"connect_urls\":[\"{his}\"]}}\r\n"
                );
                visitor.write_all(info.as_bytes()).ok();
                visitor.read_exact(&mut [0]).ok();
                cuts.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let server = Server::start();
    let mut seat = Seat::spawn(&Seat::plain_program(&format!("tls://127.0.0.1:{port}")), &server);
    wait::until("four attempts", PATIENCE, || match cuts.load(Ordering::Relaxed) {
        4.. => Ok(()),
        fewer => Err(format!("{fewer} attempts")),
    });
    assert_eq!(visits.load(Ordering::Relaxed), 0, "{}", seat.log());
    assert!(seat.status().is_none());
}

#[test]
fn what_is_said_before_tls_is_not_believed_where_anybody_can_have_a_certificate() {
    // Somebody in the middle passes TLS on, and says before it that the cluster has a server of his own.
    let authority = Authority::new();
    let issued = authority.issue("server", "127.0.0.1", Term::Valid);
    let tls = format!(
        "tls {{ cert_file: {:?}, key_file: {:?} }}\nallow_non_tls: true",
        issued.certificate, issued.key
    );
    let server = Setup::shipped().append(&tls).start();
    mesh::init(&server);
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let his = other.local_addr().expect("an address").to_string();
    let visits = Arc::new(AtomicUsize::new(0));
    {
        let visits = Arc::clone(&visits);
        thread::spawn(move || {
            for visitor in other.incoming().flatten() {
                visits.fetch_add(1, Ordering::Relaxed);
                drop(visitor);
            }
        });
    }
    let port = in_between(&server, move |info| with_urls(info, std::slice::from_ref(&his)), String::new());
    let proxy = Proxy::to(([127, 0, 0, 1], port).into());
    let url = proxy.client_url().replace("nats://", "tls://");
    let mut seat = Seat::spawn(&Seat::plain_program(&url).env("SSL_CERT_FILE", &authority.file()), &server);
    seat.wait_ready();
    for _ in 0..3 {
        let before = proxy.accepted();
        proxy.cut();
        proxy.wait_accepted(before, PATIENCE);
        seat.wait_ready();
    }
    assert_eq!(visits.load(Ordering::Relaxed), 0, "{}", seat.log());
}

#[test]
fn a_key_is_never_given_as_another() {
    let mesh = Mesh::start();
    let tester = mesh.server.client(&TESTER);
    let stored = "n1.web.port.http\u{a0}";
    tester.kv_put_all(NEEDS, (0..40).map(|at| (format!("n2.web.port.p{at}"), "1")));
    tester.kv_put(NEEDS, stored, "1");
    let reader = mesh.reader();
    for asked in [json!({"what": "needs"}), json!({"what": "needs", "node": "n1"})] {
        let answer = reader.ask(&asked).text();
        assert!(answer.contains(&format!("\"key\":\"{stored}\"")), "{answer}");
        assert!(!answer.contains("\"key\":\"n1.web.port.http\""), "{answer}");
    }
}

#[test]
fn a_server_with_short_lines_is_served_and_a_long_key_is_left() {
    let server = Setup::shipped().replace("max_control_line: 4096", "max_control_line: 1024").start();
    mesh::init(&server);
    let long = "x".repeat(940);
    server.client(&TESTER).publish(format!("$KV.mesh-provisioner_registry.{long}"), "1");
    let mut seat = Seat::start(&server, &[]);
    seat.wait_ready();
    let line = seat.wait_for_log("cannot be deleted", PATIENCE);
    assert!(line.contains(&long[..50]), "{line}");
    assert!(!seat.log().contains("disconnected"), "{}", seat.log());
}
