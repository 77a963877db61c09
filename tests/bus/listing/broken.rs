//! Reading over a connection that breaks in the middle.

use crate::support::verb::AsksTheSeat;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::accounts::{READER, SEAT, TESTER};
use crate::support::bucket::{NEEDS, REGISTRY};
use crate::support::client::{Client, Inbox};
use crate::support::mesh::{self, Mesh};
use crate::support::program::Program;
use crate::support::seat::{KINDS, Seat};
use crate::support::setup::{Right, Setup};
use crate::support::verb::{Answer, VERB};
use crate::support::wait::{self, PATIENCE};
use crate::support::wire::Message;

const MANY: usize = 20_000;

/// What the seat sends to list the keys of the needs, and to read them in bulk.
const LISTING: &str = "STREAM.INFO.KV_mesh-provisioner_needs";
const IN_BULK: &str = "DIRECT.GET.KV_mesh-provisioner_needs";

/// How long a request may take from its sending to its answer.
const STATED_BOUND: Duration = Duration::from_secs(5);

/// Puts many needs; gives their keys in order.
fn put_many(client: &Client) -> Vec<String> {
    let mut keys: Vec<String> = (0..MANY).map(|at| format!("n{}.web.port.p{at:05}", at % 20)).collect();
    client.kv_put_all(NEEDS, keys.iter().map(|key| (key, r#"{"port":8080}"#)));
    keys.sort_unstable();
    keys
}

/// The question for the needs after so many that are known already.
fn rest(keys: &[String], known: usize) -> Value {
    match known.checked_sub(1) {
        None => json!({"what": "needs"}),
        Some(last) => json!({"what": "needs", "after": keys[last]}),
    }
}

/// Asserts that a good answer gives the keys that come next, all in their place, and says whether there are
/// more; gives how many are known then.
#[track_caller]
fn take_page(answer: &Answer, keys: &[String], known: usize) -> usize {
    let page = answer.keys();
    let reached = known + page.len();
    assert_eq!(page, keys[known..reached]);
    assert_eq!(answer.next().is_some(), reached < keys.len(), "{reached} of {} and no end", keys.len());
    assert_eq!(answer.complaints(), []);
    reached
}

/// Pages through the rest; an error is taken for what it is, and the page is asked for again.
#[track_caller]
fn page_through(client: &Client, keys: &[String], mut known: usize) {
    while known < keys.len() {
        let asked = rest(keys, known).to_string();
        known = wait::until("a page", PATIENCE, || {
            let message = client.request(VERB, &asked, STATED_BOUND).map_err(|error| error.to_string())?;
            let answer = Answer::of(&message);
            match &answer.error {
                None => Ok(take_page(&answer, keys, known)),
                Some(error) => Err(format!("{error:?}")),
            }
        });
    }
}

#[test]
fn a_server_that_is_killed_under_a_page_never_makes_it_short() {
    let (mut mesh, proxy) = Mesh::start_on_behind_a_proxy(Setup::one_by_one().start());
    let keys = put_many(&mesh.tester());
    let reader = mesh.reader();
    let known = take_page(&reader.ask(&rest(&keys, 0)).good(), &keys, 0);
    assert!(known < keys.len(), "the first page is not all");

    // Requested with a reply subject to which a client that comes back can subscribe again. The seat loses the server within the
    // page, and does not find it again before that client has subscribed.
    let reply = "_INBOX.l2.page";
    let cuts = proxy.cuts();
    proxy.cut_after_sent(LISTING, 1_000_000);
    proxy.refuse(true);
    reader.publish_with(VERB, Some(reply.as_bytes()), &[], rest(&keys, known).to_string());
    proxy.wait_cut(cuts, PATIENCE);
    mesh.server.restart();
    let reader = mesh.reader();
    let page = reader.subscribe(reply, None);
    proxy.refuse(false);
    let answer = Answer::of(&page.next(PATIENCE).expect("one answer, however late the bus came back"));
    let known = match answer.code() {
        None => take_page(&answer, &keys, known),
        Some(code) => {
            assert_eq!(code, 504, "{}", answer.text());
            known
        }
    };
    page_through(&reader, &keys, known);
    page_through(&reader, &keys, 0);
    reader.flush();
    assert_eq!(page.take_all(), [], "one answer only");
}

#[test]
fn a_connection_that_is_cut_under_a_page_never_makes_it_short() {
    // Within the list of keys, at its end, and within the values. Each time a new seat: after two cuts it does not list.
    for bytes in [1, 200_000, 700_000, 1_000_000, 1_300_000] {
        let (mesh, proxy) = Mesh::start_on_behind_a_proxy(Setup::one_by_one().start());
        let keys = put_many(&mesh.tester());
        let reader = mesh.reader();
        let cuts = proxy.cuts();
        proxy.cut_after_sent(LISTING, bytes);
        page_through(&reader, &keys, 0);
        proxy.wait_cut(cuts, PATIENCE);
    }
}

#[test]
fn a_read_in_bulk_that_is_cut_never_makes_a_page_short() {
    for bytes in [1, 200_000, 2_000_000] {
        let (mesh, proxy) = Mesh::start_behind_a_proxy();
        let keys = put_many(&mesh.tester());
        let reader = mesh.reader();
        let cuts = proxy.cuts();
        proxy.cut_after_sent(IN_BULK, bytes);
        page_through(&reader, &keys, 0);
        proxy.wait_cut(cuts, PATIENCE);
        page_through(&reader, &keys, 0);
    }
}

/// Asserts that nobody has deleted or purged a key of the registry since the subscription was made.
#[track_caller]
fn assert_nothing_deleted(client: &Client, writes: &Inbox) -> Vec<Message> {
    client.flush();
    let seen = writes.take_all();
    let deleting = |message: &&Message| message.header("KV-Operation").is_some();
    assert_eq!(seen.iter().find(deleting), None);
    seen
}

fn kinds(client: &Client) -> Vec<String> {
    let answer = client.ask(&json!({"what": "registry"})).good();
    let kind = |entry: &Value| entry["kind"].as_str().expect("a kind").to_owned();
    answer.entries().iter().map(kind).collect()
}

#[test]
fn a_registry_pass_that_was_cut_deletes_nothing() {
    let (mut mesh, proxy) = Mesh::start_behind_a_proxy();
    let (reader, tester) = (mesh.reader(), mesh.tester());
    let all = kinds(&reader);
    assert_eq!(all.len(), KINDS);
    let writes = tester.subscribe(&format!("$KV.{REGISTRY}.>"), None);
    let before = tester.last_sequence(REGISTRY);
    for needle in ["STREAM.INFO.KV_mesh-provisioner_registry", "STREAM.MSG.GET.KV_mesh-provisioner_registry"]
    {
        for bytes in [1, 80, 400, 1_000, 1_700] {
            let cuts = proxy.cuts();
            proxy.cut_after_sent(needle, bytes);
            mesh.seat.signal("HUP");
            proxy.wait_cut(cuts, PATIENCE);
            mesh.seat.wait_ready();
        }
    }
    assert_eq!(assert_nothing_deleted(&tester, &writes), []);
    assert_eq!(tester.last_sequence(REGISTRY), before);

    // A pass over a whole connection still puts right what is wrong.
    let mark = mesh.seat.mark();
    tester.kv_put(REGISTRY, "port", "{}");
    mesh.seat.signal("HUP");
    mesh.seat.wait_for_log_since(mark, "registry in place: 1 put, 0 deleted, 12 unchanged", PATIENCE);
    assert_eq!(assert_nothing_deleted(&tester, &writes).len(), 2, "the test's write and the seat's");
    assert_eq!(kinds(&reader), all);
    assert_eq!(tester.kv_keys(REGISTRY), all);
}

#[test]
fn a_registry_that_may_not_be_listed_is_left_alone() {
    let listing = format!("$JS.API.STREAM.INFO.KV_{REGISTRY}");
    let mut server = Setup::shipped().deny(&SEAT, Right::Publish, &listing).start();
    mesh::init(&server);
    let tester = server.client(&TESTER);
    tester.kv_put(REGISTRY, "port", "{}");
    tester.kv_put(REGISTRY, "no-kind-at-all", "{}");
    let writes = tester.subscribe(&format!("$KV.{REGISTRY}.>"), None);

    let mut seat = Seat::start(&server, &[]);
    let line = seat.wait_for_log("registry pass failed", PATIENCE);
    assert!(line.contains(&listing), "{line}");
    let health = tester.ask(&json!({"what": "health"})).good();
    assert_eq!(health.body()["ok"], false);
    let missing = health.body()["health"]["missing"].to_string();
    assert!(missing.contains(&listing), "{missing}");
    let refused = tester.ask(&json!({"what": "registry"}));
    assert!(refused.expect_error(503).contains(&listing), "{}", refused.text());
    assert_eq!(assert_nothing_deleted(&tester, &writes), []);

    server.setup = Setup::shipped();
    server.reload();
    seat.wait_ready();
    // The reload may have ended the test's own connections.
    let reader = server.client(&READER);
    let all = kinds(&reader);
    assert_eq!(all.len(), KINDS);
    assert!(!all.contains(&"no-kind-at-all".to_owned()), "{all:?}");
    seat.wait_for_log("registry in place: 13 put, 1 deleted, 0 unchanged", PATIENCE);
}

#[test]
fn g2_a_stream_that_is_no_bucket_is_an_error_and_never_an_empty_list() {
    let mesh = Mesh::start();
    let tester = mesh.tester();
    let origin = json!({"name": "KV_origin", "subjects": ["origin.>"], "storage": "file"});
    tester.api("STREAM.CREATE.KV_origin", &origin);
    for at in 0..3 {
        tester.request(format!("origin.{at}"), "1", PATIENCE).expect("it is stored");
    }
    let fields = [
        (json!({"subjects": null, "mirror": {"name": "KV_origin"}}), "it is a mirror of another stream"),
        (json!({"sources": [{"name": "KV_origin"}]}), "it takes messages from other streams (sources)"),
        (json!({"subjects": ["other.>"]}), "subjects"),
    ];
    for (fields, words) in fields {
        tester.delete_bucket(NEEDS);
        let made = tester.create_bucket(NEEDS, &fields);
        assert!(made["error"].is_null(), "{made}");
        for what in ["needs", "gaps", "drift"] {
            let answer = mesh.reader().ask(&json!({"what": what}));
            let said = answer.expect_error(503);
            assert!(said.contains(NEEDS) && said.contains(words), "{what}: {said}");
        }
        let checked = Program::new(&["check"]).server(&mesh.server).account(&SEAT).run_within(PATIENCE * 2);
        let printed = checked.expect_code(1).stdout;
        assert!(printed.contains(words), "{printed}");
    }
}
