//! `--bulk-reads` changes how buckets are read, and no answer.

use serde_json::json;

use crate::support::accounts::{READER, TESTER};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::client::Client;
use crate::support::mesh;
use crate::support::seat::Seat;
use crate::support::server::Server;
use crate::support::setup::Setup;
use crate::support::wire::headers;

/// Writes what is in order and what is not: more keys than one batch asks for, and every fault that a key or its
/// value can have.
fn fill(client: &Client) {
    client.kv_put_all(NEEDS, (0..1_500).map(|at| (format!("n{}.web.port.p{at:04}", at % 3), at.to_string())));
    for at in (0..1_500).step_by(7) {
        client.kv_delete(NEEDS, format!("n{}.web.port.p{at:04}", at % 3));
    }
    let strange: [&[u8]; 6] = [
        b"n1",
        b"n1.web.port",
        b"n1.\xff\xfe.x.y",
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
}

/// What a seat answers to every question: the pages to the byte, but for who gave them.
fn all_answers(server: &Server, args: &[&str]) -> Vec<String> {
    let mut seat = Seat::start(server, args);
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

#[test]
fn bulk_reads_give_the_same_answers_with_and_without_the_right_to_them() {
    const BEFORE: &str = "            # Asks whether somebody else holds the seat too.\n";
    let mut server = Server::start();
    mesh::init(&server);
    fill(&server.client(&TESTER));
    let one_by_one = all_answers(&server, &[]);
    let entries =
        |texts: &[String]| texts.iter().map(|text| text.matches(r#""revision":"#).count()).sum::<usize>();
    assert!(entries(&one_by_one) > 2 * 1_285, "most of what was written is in the answers");
    // Denied, and read one by one after all.
    assert_eq!(all_answers(&server, &["--bulk-reads"]), one_by_one);

    let right = |bucket| format!("            \"$JS.API.DIRECT.GET.KV_{bucket}\"\n");
    let rights = [REGISTRY, NEEDS, APPLIED, COLLECT].map(right).concat();
    server.setup = Setup::shipped().replace(BEFORE, &format!("{BEFORE}{rights}"));
    server.restart();
    assert_eq!(all_answers(&server, &["--bulk-reads"]), one_by_one);
}
