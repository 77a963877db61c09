//! The seat under attack: whatever is asked and stored, its memory stays within a bound, and who asks for little beside
//! it is still answered.

#[path = "../support/mod.rs"]
mod support;

mod load;

use crate::support::verb::AsksTheSeat;
use load::{BOUND, BOUND_OF_FULL_BUCKETS, BOUND_OF_LONG_LISTS, KEYS, Siege, bulk, overrun};
use serde_json::json;
use std::time::Duration;
use support::bucket::{APPLIED, COLLECT, NEEDS};
use support::mesh::Mesh;
use support::verb::{ANSWER_BOUND, Answer};

/// One node's keys, for those who ask for little.
fn store_a_little(mesh: &Mesh) {
    mesh.node("attic").kv_put_all(NEEDS, (0..5).map(|at| (format!("attic.web.port.p{at}"), "1")));
}

#[test]
fn ten_thousand_nonsense_requests_a_second_stay_within_the_bounds() {
    let mesh = Mesh::start();
    store_a_little(&mesh);
    let siege = Siege::begin(&mesh);
    siege.flood(Duration::from_secs(5), 10_000);
    siege.end(BOUND);
}

#[test]
fn a_bucket_of_a_hundred_thousand_keys_stays_within_the_bounds() {
    let mesh = Mesh::start();
    store_a_little(&mesh);
    bulk(&mesh, NEEDS, KEYS, |at| format!("cellar.web.port.p{at:06}").into_bytes());
    let siege = Siege::begin(&mesh);
    siege.ask_for_much("needs");
    siege.ask_for_much("drift");
    siege.end(BOUND_OF_LONG_LISTS);
    overrun(&mesh, "needs", BOUND_OF_LONG_LISTS);
    overrun(&mesh, "drift", BOUND_OF_LONG_LISTS);
}

#[test]
fn a_hundred_thousand_malformed_keys_stay_within_the_bounds() {
    let mesh = Mesh::start();
    store_a_little(&mesh);
    bulk(&mesh, NEEDS, KEYS, |at| match at % 4 {
        0 => format!("cellar.{at}").into_bytes(),
        1 => format!("cellar.w=zz.port.p{at}").into_bytes(),
        2 => [b"cellar.\xff\xfe.port.p", at.to_string().as_bytes()].concat(),
        _ => format!("cellar.web.port.p{at}.{}", "more".repeat(5)).into_bytes(),
    });
    let siege = Siege::begin(&mesh);
    siege.ask_for_much("needs");
    siege.ask_for_much("nodes");
    siege.end(BOUND_OF_LONG_LISTS);
    overrun(&mesh, "needs", BOUND_OF_LONG_LISTS);
    overrun(&mesh, "nodes", BOUND_OF_LONG_LISTS);
}

#[test]
fn long_malformed_keys_that_look_alike_stay_within_the_bounds() {
    let mesh = Mesh::start();
    store_a_little(&mesh);
    let long = "x".repeat(3_800);
    // Sixteen bytes that are not UTF-8, all of them shown as the same character.
    let keys = (0..101)
        .flat_map(|place| (0xf0..=0xff).map(move |byte| (place, byte)))
        .map(|(place, byte)| [format!("cellar.{place:03}{long}").as_bytes(), &[byte]].concat());
    mesh.node("cellar").kv_put_all(NEEDS, keys.map(|key| (key, "1")));
    let siege = Siege::begin(&mesh);
    siege.ask_for_much("nodes");
    siege.end(BOUND);
    overrun(&mesh, "nodes", BOUND);
}

#[test]
fn values_of_a_mebibyte_stay_within_the_bounds() {
    let mesh = Mesh::start();
    store_a_little(&mesh);
    // As much as fits a message beside its headers.
    let value = format!("\"{}\"", "x".repeat(1024 * 1024 - 1024));
    mesh.node("cellar").kv_put_all(NEEDS, (0..200).map(|at| (format!("cellar.web.port.p{at:03}"), &value)));
    let siege = Siege::begin(&mesh);
    siege.ask_for_much("needs");
    siege.ask_for_much("drift");
    siege.end(BOUND);
    overrun(&mesh, "needs", BOUND);
    overrun(&mesh, "drift", BOUND);
}

#[test]
fn full_pages_for_a_hundred_clients_stay_within_the_bounds() {
    let mesh = Mesh::start();
    store_a_little(&mesh);
    let value = format!("\"{}\"", "x".repeat(8 * 1024));
    mesh.node("cellar").kv_put_all(NEEDS, (0..200).map(|at| (format!("cellar.web.port.p{at:03}"), &value)));
    let siege = Siege::begin(&mesh);
    let attacker = mesh.reader();
    let inboxes: Vec<_> = (0..100).map(|_| attacker.ask_later(&json!({"what": "needs"}))).collect();
    for inbox in &inboxes {
        let answer = Answer::of(&inbox.next(ANSWER_BOUND).expect("an answer for everybody")).good();
        assert!(answer.next().is_some(), "a page that is full");
    }
    siege.end(BOUND);
    overrun(&mesh, "needs", BOUND);
}

#[test]
fn a8_three_buckets_that_are_as_full_as_a_cache_may_be_stay_within_the_bounds() {
    const FULL: usize = 140_000;
    let mesh = Mesh::start();
    bulk(&mesh, NEEDS, FULL, |at| format!("n{:04}.m{:02}.port.p{at}", at / 100, at / 5 % 20).into_bytes());
    bulk(&mesh, APPLIED, FULL, |at| format!("n{:04}.m{:02}", at / 20, at % 20).into_bytes());
    bulk(&mesh, COLLECT, FULL, |at| format!("n{:04}.c{:02}.m{at}", at / 100, at / 5 % 20).into_bytes());
    store_a_little(&mesh);
    let siege = Siege::begin(&mesh);
    for what in ["nodes", "collections", "drift", "gaps", "needs", "applied"] {
        siege.ask_for_much(what);
    }
    siege.end(BOUND_OF_FULL_BUCKETS);
    for what in ["nodes", "collections", "drift"] {
        overrun(&mesh, what, BOUND_OF_FULL_BUCKETS);
    }
}

#[test]
fn a9_a_bucket_of_three_hundred_thousand_keys_is_paged_and_its_nodes_are_answered() {
    let mesh = Mesh::start();
    bulk(&mesh, NEEDS, 3 * KEYS, |at| format!("n{:05}.web.port.p{at}", at / 100).into_bytes());
    store_a_little(&mesh);
    let siege = Siege::begin(&mesh);
    let reader = mesh.reader();
    let page = reader.ask(&json!({"what": "needs", "limit": 10})).good();
    assert_eq!(page.keys().len(), 10);
    assert_eq!(page.keys()[..5], (0..5).map(|at| format!("attic.web.port.p{at}")).collect::<Vec<_>>());
    let next = reader.ask(&json!({"what": "needs", "limit": 10, "after": page.next().expect("more")})).good();
    assert_eq!(next.keys().len(), 10);
    assert!(page.keys().iter().all(|key| !next.keys().contains(key)));
    // Whether there is a gap takes all of it: a page of gaps ends when its time is over, and says where.
    reader.ask(&json!({"what": "gaps"})).good();
    siege.end(BOUND);
}
