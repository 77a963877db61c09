//! How buckets are read changes no answer.

use crate::support::verb::AsksTheSeat;
use serde_json::json;
use std::time::Duration;

use crate::support::accounts::{READER, SEAT, TESTER};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS};
use crate::support::client::Client;
use crate::support::mesh::{self, Mesh};
use crate::support::seat::Seat;
use crate::support::server::Server;
use crate::support::setup::Setup;
use crate::support::wait;
use crate::support::wire::headers;

/// Writes what is in order and what is not: more keys than one batch asks for, and every fault that a key or its
/// value can have.
fn fill(client: &Client) {
    client.kv_put_all(NEEDS, (0..1_500).map(|at| (format!("n{}.web.port.p{at:04}", at % 3), at.to_string())));
    for at in (0..1_500).step_by(7) {
        client.kv_delete(NEEDS, format!("n{}.web.port.p{at:04}", at % 3));
    }
    let strange: [&[u8]; 7] = [
        b"n1",
        b"n1.web.port",
        b"n1.\xff\xfe.x.y",
        b"n1.\xe2\x82.z.y",
        b"n1.=61.port.http",
        b"n1.*.port.p0004",
        b"n1.web.port.>",
    ];
    client.kv_put_all(NEEDS, strange.map(|key| (key, "1")));
    for (at, value) in ["", "no JSON", "-0.0", "[ 1, 2 ]"].into_iter().enumerate() {
        client.kv_put(COLLECT, format!("n1.hosts.m{at}"), value);
    }
    client.kv_put(COLLECT, "n1.hosts.bytes", b"\xff\xfe");
    client.kv_put_with(COLLECT, "n1.hosts.headers", &headers(&[("Nats-Subject", "forged"), ("X", "y")]), "1");
    client.kv_put_with(COLLECT, "n1.hosts.broken", b"NATS/1.0\r\nno colon\r\n\r\n", "2");
    client.kv_put(APPLIED, "n1.large", json!("x".repeat(600_000)).to_string());
    client.kv_put(APPLIED, "n1.web", "{}");
    client.kv_put_all(COLLECT, (0..50).map(|at| (format!("n2.hosts.m{at:02}"), "{}")));
}

/// What a seat answers to every question: the pages to the byte, but for who gave them.
fn all_answers(server: &Server) -> Vec<String> {
    let mut seat = Seat::start(server, &[]);
    seat.wait_ready();
    let reader = server.client(&READER);
    let questions = [
        json!({"what": "registry"}),
        json!({"what": "needs"}),
        json!({"what": "needs", "limit": 400}),
        json!({"what": "needs", "node": "n1"}),
        json!({"what": "gaps"}),
        json!({"what": "applied"}),
        json!({"what": "collect"}),
        json!({"what": "drift"}),
        json!({"what": "collections"}),
    ];
    let texts = questions.iter().flat_map(|question| {
        reader.ask_all(question).into_iter().map(|page| {
            let text = page.text();
            text[..text.rfind(r#","seat":"#).expect("who gave it")].to_owned()
        })
    });
    texts.collect()
}

/// The same in order, in more messages than one read in bulk brings.
fn fill_well(client: &Client) {
    let nodes = |at: usize| format!("n{:02}", at % 17);
    client
        .kv_put_all(NEEDS, (0..5_000).map(|at| (format!("{}.web.port.p{at:04}", nodes(at)), at.to_string())));
    client.kv_put_all(NEEDS, (0..100).map(|at| (format!("{}.web.port.p{at:04}", nodes(at)), "1".to_owned())));
    for at in (0..500).step_by(7) {
        client.kv_delete(NEEDS, format!("{}.web.port.p{at:04}", nodes(at)));
    }
    client.kv_put_all(APPLIED, (0..17).map(|at| (format!("{}.web", nodes(at)), "{}")));
    client.kv_put(APPLIED, "n01", "1");
    client.kv_put_all(COLLECT, (0..5).map(|at| (format!("{}.hosts.web", nodes(at)), "{}")));
}

#[test]
fn reads_in_bulk_change_no_answer() {
    same_answers(fill_well, 2 * 4_900);
}

#[test]
fn what_cannot_be_read_in_bulk_is_read_one_by_one() {
    same_answers(fill, 2 * 1_285);
}

#[test]
fn no_entry_passes_for_words_of_the_bus() {
    for status in ["204", "404", "503"] {
        same_answers(
            |client| {
                client.kv_put_all(APPLIED, (0..50).map(|at| (format!("n1.m{at:02}"), "{}")));
                let posing = headers(&[("Status", status), ("Nats-UpTo-Sequence", "1000000")]);
                client.kv_put_with(APPLIED, "n2.web", &posing, "{}");
                client.kv_put_all(APPLIED, (0..50).map(|at| (format!("n3.m{at:02}"), "{}")));
            },
            100,
        );
    }
}

#[test]
fn no_entry_costs_a_connection_or_a_read_in_bulk() {
    let mesh = Mesh::start();
    fill(&mesh.tester());
    let serving = || {
        let connections = mesh.server.connections_of(&SEAT.user);
        connections.iter().map(|connection| connection["cid"].clone()).collect::<Vec<_>>()
    };
    let before = serving();
    let reader = mesh.reader();
    for _ in 0..2 {
        for what in ["needs", "collect", "drift", "collections"] {
            reader.ask_all(&json!({"what": what}));
        }
    }
    assert_eq!(serving(), before);
    // A server that cannot read in bulk says so, and breaks nothing.
    let can_bulk = mesh.server.version() >= (2, 11, 0);
    assert_eq!(
        mesh.seat.log().contains("bulk reads of bucket mesh-provisioner_needs disabled"),
        !can_bulk,
        "{}",
        mesh.seat.log()
    );
}

/// Asserts that it makes no difference for the answers, which have more than this many entries, how the buckets are read.
fn same_answers(fill: impl Fn(&Client), more_than: usize) {
    let mut server = Server::start();
    mesh::init(&server);
    fill(&server.client(&TESTER));
    let in_bulk = all_answers(&server);
    let entries =
        |texts: &[String]| texts.iter().map(|text| text.matches(r#""revision":"#).count()).sum::<usize>();
    assert!(entries(&in_bulk) > more_than, "most of what was written is in the answers");
    // Denied, and read one by one.
    server.setup = Setup::one_by_one();
    server.restart();
    assert_eq!(all_answers(&server), in_bulk);
}

/// A server ends the connection of a client that more bytes wait for than that, and gives no reason.
#[test]
fn a_server_that_lets_few_bytes_wait_is_read_in_small_pieces() {
    const KEYS: usize = 8_000;
    let server = Setup::shipped().append("max_payload: 65536\nmax_pending: 262144").start();
    let mesh = Mesh::start_on(server, &[]);
    let name = "x".repeat(60);
    let key = |at: usize| format!("n{:02}.web.port.{name}-{at:05}", at % 17);
    mesh.tester().kv_put_all(NEEDS, (0..KEYS).map(|at| (key(at), at.to_string())));
    let reader = mesh.reader();
    wait::until("a page", Duration::from_secs(60), || {
        let answer = reader.try_ask(r#"{"what":"needs","limit":1}"#).map_err(|error| error.to_string())?;
        if answer.code().is_none() { Ok(()) } else { Err(answer.text()) }
    });
    let connections = || {
        let connections = mesh.server.connections_of(&SEAT.user);
        connections.iter().map(|connection| connection["cid"].to_string()).collect::<Vec<_>>()
    };
    let before = connections();
    for what in ["needs", "gaps", "drift", "nodes", "collections"] {
        let pages = reader.ask_all(&json!({"what": what}));
        let entries: usize = pages.iter().map(|page| page.entries().len()).sum();
        let expected = match what {
            "needs" => KEYS,
            "drift" | "nodes" => 17,
            _ => 0,
        };
        // Each node has one module, and the kind is answered.
        assert_eq!(entries, expected, "{what}");
    }
    assert_eq!(connections(), before, "{}", mesh.seat.log());
    let is_said = mesh.seat.log().contains("raise max_pending in the nats-server configuration");
    assert_eq!(is_said, mesh.server.version() < (2, 11, 0), "{}", mesh.seat.log());
}
