//! Openings in a real firewall, in a network of its own: `packaging/mesh-host/firewall` gives one.

mod guard;
#[path = "../program/mesh.rs"]
#[expect(dead_code, reason = "another test uses the rest")]
mod mesh;
#[path = "../program/tree.rs"]
#[expect(dead_code, reason = "another test uses the rest")]
mod tree;
mod undo;

use mesh_host::session::{self, How, Input, Trouble};
use mesh_host::site::Site;
use mesh_model::bundle::Bundle;
use mesh_model::json::Read as _;
use mesh_model::report::{Outcome, Word};
use std::process::Command;
use tempfile::TempDir;

/// The firewall that the script set up. These tests change rules, so they never run in the network of the machine.
fn firewall() -> String {
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let machines = std::env::var_os("MESH_HOST_NETWORK").unwrap_or_default();
    let found = std::env::var("MESH_HOST_FIREWALL").unwrap_or_default();
    assert!(
        !machines.is_empty()
            && own.as_os_str() != machines
            && ["nftables", "ufw", "firewalld"].contains(&found.as_str()),
        "these tests need a network and a firewall of their own: run packaging/mesh-host/firewall"
    );
    found
}

fn say(words: &[&str]) -> String {
    let ran = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let text = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    assert!(ran.status.success(), "{words:?}: {text}");
    text
}

struct Lab(TempDir);

impl Lab {
    /// A state of its own, and with nftables no rule of anybody.
    fn new() -> Self {
        if firewall() == "nftables" {
            say(&["nft", "flush", "ruleset"]);
        }
        Self(tempfile::tempdir().unwrap())
    }

    fn apply(&self, resources: &[&str]) -> Vec<Outcome> {
        let text = format!(r#"{{"bundle":"b","resources":[{}]}}"#, resources.join(","));
        let bundle = Bundle::from_json_bytes(text.as_bytes()).unwrap();
        loop {
            let input = Input::Bundle(Box::new(bundle.clone()));
            match session::apply(&Site::beside(self.0.path()), input, How::Apply, &mut |_, _| {}) {
                Err(Trouble::Locked) => std::thread::yield_now(),
                other => return other.unwrap().outcomes,
            }
        }
    }

    #[track_caller]
    fn ends(&self, resources: &[&str], words: &[(Word, &str)]) -> Vec<Outcome> {
        let outcomes = self.apply(resources);
        let found: Vec<_> = outcomes.iter().map(|outcome| (outcome.word, outcome.cause.as_str())).collect();
        assert_eq!(found, words, "{outcomes:?}");
        outcomes
    }
}

/// All rules that the found firewall has.
fn rules() -> String {
    match firewall().as_str() {
        "nftables" => say(&["nft", "list", "ruleset"]),
        "ufw" => say(&["ufw", "show", "added"]),
        _ => say(&["firewall-cmd", "--list-all"]) + &say(&["firewall-cmd", "--permanent", "--list-all"]),
    }
}

const WEB: &str = r#"{"id":"web","type":"opening","port":8080}"#;
const DB: &str = r#"{"id":"db","type":"opening","port":5432,"from":["10.0.0.0/8","fd00::/8"]}"#;
const DB_LESS: &str = r#"{"id":"db","type":"opening","port":5432,"from":["10.0.0.0/8"]}"#;

fn is(word: Word) -> (Word, &'static str) {
    (word, "")
}

#[test]
fn a_port_is_opened_left_alone_put_back_and_closed() {
    let lab = Lab::new();
    lab.ends(&[WEB, DB], &[is(Word::Created), is(Word::Created)]);
    lab.ends(&[WEB, DB], &[is(Word::Unchanged), is(Word::Unchanged)]);
    lab.ends(&[WEB, DB_LESS], &[is(Word::Unchanged), is(Word::Updated)]);
    let found = rules();
    assert!(found.contains("8080") && found.contains("5432") && !found.contains("fd00"), "{found}");
    match firewall().as_str() {
        "nftables" => {
            say(&["nft", "delete", "table", "inet", "mesh_host"]);
        }
        "ufw" => {
            assert!(found.contains("8080/tcp comment 'mesh-host'"), "{found}");
            say(&["ufw", "--force", "delete", "allow", "8080/tcp"]);
            let rule = "allow proto tcp from 10.0.0.0/8 to any port 5432";
            say(&[&["ufw", "--force", "delete"][..], &rule.split(' ').collect::<Vec<_>>()].concat());
        }
        _ => {
            let rule = "--remove-rich-rule=rule family=\"ipv4\" source address=\"10.0.0.0/8\" port port=\"5432\" \
                        protocol=\"tcp\" accept";
            say(&["firewall-cmd", "--remove-port=8080/tcp"]);
            say(&["firewall-cmd", rule]);
        }
    }
    lab.ends(&[WEB, DB_LESS], &[(Word::Corrected, "gone"), (Word::Corrected, "gone")]);
    lab.ends(&[WEB], &[is(Word::Removed), is(Word::Unchanged)]);
    lab.ends(&[], &[is(Word::Removed)]);
    let left = rules();
    assert!(!left.contains("8080") && !left.contains("5432"), "{left}");
}

#[test]
fn h92_the_tables_of_others_stay_byte_for_byte() {
    assert_eq!(firewall(), "nftables");
    let lab = Lab::new();
    // As docker and a person make them.
    for rule in [
        "add table ip nat",
        "add chain ip nat DOCKER",
        "add chain ip nat PREROUTING { type nat hook prerouting priority -100; }",
        "add rule ip nat PREROUTING fib daddr type local jump DOCKER",
        "add rule ip nat DOCKER tcp dport 9000 dnat to 172.17.0.2:80",
        "add table inet person",
        "add chain inet person forward { type filter hook forward priority 0; policy drop; }",
    ] {
        say(&["nft", rule]);
    }
    let others =
        || [say(&["nft", "list", "table", "ip", "nat"]), say(&["nft", "list", "table", "inet", "person"])];
    let before = others();
    for resources in [&[WEB][..], &[WEB, DB], &[DB], &[]] {
        lab.apply(resources);
        assert_eq!(others(), before);
    }
    assert!(!say(&["nft", "list", "tables"]).contains("mesh_host"));
}

#[test]
fn what_a_chain_of_somebody_else_drops_fails_with_the_rule_to_add() {
    assert_eq!(firewall(), "nftables");
    let lab = Lab::new();
    say(&["nft", "add table inet filter"]);
    say(&["nft", "add chain inet filter input { type filter hook input priority 0; policy drop; }"]);
    let outcomes = lab.apply(&[WEB]);
    let rule = "nft add rule inet filter input tcp dport 8080 accept";
    assert!(outcomes[0].word == Word::Failed && outcomes[0].cause.contains(rule), "{outcomes:?}");
    say(&rule.split(' ').collect::<Vec<_>>());
    let outcomes = lab.apply(&[WEB]);
    assert!(
        outcomes[0].word.as_str() == "unchanged" || outcomes[0].word.as_str() == "created",
        "{outcomes:?}"
    );
}

#[test]
fn with_ufw_a_persons_rule_for_the_port_is_named_and_stays() {
    assert_eq!(firewall(), "ufw");
    let lab = Lab::new();
    say(&["ufw", "allow", "2222/tcp"]);
    let narrower = r#"{"id":"ssh","type":"opening","port":2222,"from":["10.0.0.0/8"]}"#;
    let outcomes = lab.apply(&[narrower]);
    assert!(
        outcomes[0].word == Word::Failed
            && outcomes[0].cause.contains("by a rule that this host did not make"),
        "{outcomes:?}"
    );
    assert!(say(&["ufw", "show", "added"]).contains("allow 2222/tcp"));
    lab.apply(&[]);
    assert!(say(&["ufw", "show", "added"]).contains("allow 2222/tcp"));
    say(&["ufw", "--force", "delete", "allow", "2222/tcp"]);
}
