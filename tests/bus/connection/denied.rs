//! Each right of the seat taken away in its turn: what needs it says so, and what does not goes on.

use crate::support::health::SeesHealth;
use crate::support::verb::AsksTheSeat;
use serde_json::{Value, json};

use crate::support::accounts::{Account, READER, SEAT, TESTER};
use crate::support::bucket::{APPLIED, COLLECT, NEEDS, REGISTRY};
use crate::support::client::{Client, Inbox, Unanswered};
use crate::support::mesh;
use crate::support::seat::{KINDS, Seat};
use crate::support::server::Server;
use crate::support::setup::{Right, Setup};
use crate::support::wait::PATIENCE;

/// A bus whose seat lacks one right.
fn without(right: Right, subject: &str) -> (Server, Seat) {
    with(Setup::shipped().deny(&SEAT, right, subject))
}

/// A bus with one key in each bucket that the nodes write, and a seat.
fn with(setup: Setup) -> (Server, Seat) {
    let server = setup.start();
    mesh::init(&server);
    let tester = server.client(&TESTER);
    tester.kv_put(NEEDS, "n1.web.port.http", "1");
    tester.kv_put(APPLIED, "n1.web", "1");
    tester.kv_put(COLLECT, "n1.backup.web", "1");
    let seat = Seat::start(&server, &[]);
    seat.wait_for_log("connected to", PATIENCE);
    (server, seat)
}

/// What the bus said last, as `health` has it.
fn wait_for_protest(reader: &Client, subject: &str) {
    reader.wait_for_health(&format!("the last bus error to name {subject}"), PATIENCE, |health| {
        health["last_bus_error"].as_str().is_some_and(|words| words.contains(subject))
    });
}

/// The word by which a bucket is asked.
const BUCKETS: [(&str, &str); 4] =
    [("registry", REGISTRY), ("needs", NEEDS), ("applied", APPLIED), ("collect", COLLECT)];

/// All buckets can be read, but for those that lack the right to `denied`.
fn assert_reads(reader: &Client, but: &str, denied: &str) {
    for (what, _) in BUCKETS {
        let answer = reader.ask(&json!({"what": what}));
        if what == but {
            let words = answer.expect_error(503);
            assert!(words.contains(denied) && words.contains("Permissions Violation"), "{words}");
        } else {
            answer.good();
        }
    }
}

#[test]
fn a_denied_key_listing_fails_only_what_needs_it() {
    for (what, bucket) in BUCKETS {
        let denied = format!("$JS.API.STREAM.INFO.KV_{bucket}");
        let (server, seat) = without(Right::Publish, &denied);
        let reader = server.client(&READER);
        if what == "registry" {
            reader.wait_for_missing(&denied, PATIENCE);
        }
        assert_reads(&reader, what, &denied);
        seat.wait_for_log(&denied, PATIENCE);
        wait_for_protest(&reader, &denied);
    }
}

#[test]
fn a_denied_value_read_fails_only_what_needs_it() {
    for (what, bucket) in BUCKETS {
        let denied = format!("$JS.API.STREAM.MSG.GET.KV_{bucket}");
        let (server, seat) = without(Right::Publish, &denied);
        let reader = server.client(&READER);
        if what == "registry" {
            // An empty bucket has no value to read: the first pass fills it, the next one cannot look at it.
            seat.wait_for_log("registry in place: 13 put", PATIENCE);
            seat.signal("HUP");
            seat.wait_for_log("registry pass failed", PATIENCE);
            reader.wait_for_health("the pass to fail", PATIENCE, |health| {
                health["registry"]["last_pass"]["error"].as_str().is_some_and(|words| words.contains(&denied))
            });
        }
        assert_reads(&reader, what, &denied);
        seat.wait_for_log(&denied, PATIENCE);
    }
}

#[test]
fn a_denied_registry_write_fails_only_the_pass() {
    let (server, seat) = without(Right::Publish, "$KV.mesh-provisioner_registry.>");
    let reader = server.client(&READER);
    reader.wait_for_missing("$KV.mesh-provisioner_registry.", PATIENCE);
    seat.wait_for_log("$KV.mesh-provisioner_registry.machine", PATIENCE);
    assert_reads(&reader, "", "");
}

#[test]
fn a_denied_ping_for_other_seats_fails_nothing_else() {
    let (server, mut seat) = without(Right::Publish, "$SRV.PING.mesh-provisioner");
    seat.wait_for_log("$SRV.PING.mesh-provisioner", PATIENCE);
    seat.wait_ready();
    assert_reads(&server.client(&READER), "", "");
}

/// Asks from another account, which imports the verb: the server puts `_R_` before the inbox.
fn ask_from_elsewhere(server: &Server) -> (Client, Inbox) {
    let visitor = server.client(&Account::new("visitor", "password-of-visitor"));
    let asked = visitor.ask_later(&json!({"what": "applied"}));
    (visitor, asked)
}

/// A bus on which another account may ask the verb.
fn visited() -> Setup {
    const EXPORT: &str = "exports: [{ service: \"mesh-provisioner.provisioning\" }]";
    const VISITORS: &str = "VISITORS {
    imports: [{ service: { account: MESH, subject: \"mesh-provisioner.provisioning\" } }]
    users: [{ user: visitor, password: password-of-visitor }]
  }";
    Setup::shipped()
        .replace("    jetstream: enabled\n", &format!("    jetstream: enabled\n    {EXPORT}\n"))
        .replace("accounts {\n", &format!("accounts {{\n  {VISITORS}\n"))
}

#[test]
fn a_denied_inbox_prefix_loses_only_its_own_responses() {
    let (server, seat) = with(visited().deny(&SEAT, Right::Publish, "_INBOX.>"));
    let reader = server.client(&READER);
    let refused = reader.ask_later(&json!({"what": "applied"}));
    seat.wait_for_log(r#"Permissions Violation for Publish to \"_INBOX."#, PATIENCE);
    let (_visitor, asked) = ask_from_elsewhere(&server);
    let answer = asked.next(PATIENCE).expect("an answer").json();
    assert_eq!(answer["entries"].as_array().map(Vec::len), Some(1), "{answer}");
    reader.flush();
    assert!(refused.take_all().is_empty());
}

#[test]
fn a_denied_mapped_reply_loses_only_its_own_responses() {
    let (server, seat) = with(visited().deny(&SEAT, Right::Publish, "_R_.>"));
    let (visitor, refused) = ask_from_elsewhere(&server);
    seat.wait_for_log(r#"Permissions Violation for Publish to \"_R_."#, PATIENCE);
    assert_reads(&server.client(&READER), "", "");
    visitor.flush();
    assert!(refused.take_all().is_empty());
}

#[test]
fn a_seat_without_its_inbox_is_not_ready() {
    let (server, seat) = without(Right::Subscribe, "_INBOX_mesh.provisioner.>");
    seat.wait_for_log("_INBOX_mesh.provisioner.", PATIENCE);
    let reader = server.client(&READER);
    let health = reader.wait_for_missing("_INBOX_mesh.provisioner.", PATIENCE);
    assert_eq!(health["ok"], json!(false));
    let answer = reader.ask(&json!({"what": "needs"}));
    assert!(matches!(answer.code(), Some(503 | 504)), "{}", answer.text());
}

#[test]
fn a_seat_without_the_verb_keeps_the_registry() {
    let (server, seat) = without(Right::Subscribe, "mesh-provisioner.provisioning q");
    seat.wait_for_log("mesh-provisioner.provisioning", PATIENCE);
    // It cannot be asked, and goes on with the registry, and says in its statistics that it is there.
    seat.wait_for_log("registry in place: 13 put", PATIENCE);
    let reader = server.client(&READER);
    assert_eq!(reader.try_ask("").err(), Some(Unanswered::NoResponders));
    let stats = reader.request("$SRV.STATS.mesh-provisioner", "", PATIENCE).expect("statistics").json();
    assert_eq!(stats["name"], "mesh-provisioner");
}

#[test]
fn a_denied_monitoring_subject_fails_nothing_else() {
    for word in ["PING", "INFO", "STATS"] {
        for rest in ["", ".mesh-provisioner", ".mesh-provisioner.*"] {
            let denied = format!("$SRV.{word}{rest}");
            let (server, mut seat) = without(Right::Subscribe, &denied);
            seat.wait_ready();
            let named = denied.trim_end_matches('*');
            let reader = server.client(&READER);
            let health = reader.wait_for_missing(named, PATIENCE);
            assert_eq!(health["registry"]["last_pass"]["put"], Value::from(KINDS), "{health}");
            seat.wait_for_log(named, PATIENCE);
            assert_reads(&reader, "", "");
        }
    }
}

#[test]
fn a_seat_without_all_subscriptions_is_not_ready() {
    let (server, seat) = with(Setup::shipped().append("max_subscriptions: 5"));
    seat.wait_for_log("maximum subscriptions exceeded", PATIENCE);
    let reader = server.client(&READER);
    let health = reader.wait_for_missing("raise max_subs", PATIENCE);
    assert_eq!(health["ready"], json!(false));
    // The inbox, the verb and the three subjects of PING are there; the first of INFO is not.
    assert_eq!(
        health["missing"][0],
        "the server made 5 of 11 subscriptions, and not that of \"$SRV.INFO\": raise max_subs of the seat's account"
    );
    assert_reads(&reader, "", "");
}
