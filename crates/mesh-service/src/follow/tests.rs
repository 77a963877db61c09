use super::*;

const START: Duration = Duration::from_secs(100);

fn follow() -> Follow {
    Follow::new("b", "attic.>", "n", 0.5)
}

/// The name in the request, which is the only step.
fn asked(steps: &[Step]) -> String {
    let [Step::Send(outgoing)] = steps else { panic!("{steps:?}") };
    let name = outgoing.subject.strip_prefix("$JS.API.CONSUMER.CREATE.KV_b.").unwrap();
    name.strip_suffix(".$KV.b.attic.>").unwrap().to_owned()
}

fn created(name: &str, pending: u64) -> Vec<u8> {
    format!(r#"{{"stream_name":"KV_b","name":"{name}","num_pending":{pending}}}"#).into_bytes()
}

fn deliver(follow: &mut Follow, name: &str, key: &str, numbers: (u64, u64, u64), now: Duration) -> Vec<Step> {
    let (sequence, delivery, pending) = numbers;
    let reply = format!("$JS.ACK.KV_b.{name}.1.{sequence}.{delivery}.1796082841714165364.{pending}");
    follow.delivered(&format!("$KV.b.{key}"), Some(&reply), b"", b"v".to_vec(), now)
}

fn beat(follow: &mut Follow, last: u64, now: Duration) -> Vec<Step> {
    let headers = format!("NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {last}\r\n\r\n");
    follow.delivered("I.c.0", None, headers.as_bytes(), Vec::new(), now)
}

fn entry(key: &str, revision: u64) -> Step {
    Step::Entry(Entry { key: key.to_owned(), value: Some(b"v".to_vec()), revision, header_fault: None })
}

fn keys(keys: &[&str]) -> Step {
    Step::Complete(keys.iter().map(|key| (*key).to_owned()).collect())
}

/// A follower whose list of `attic.web` is complete, and the consumer's name.
fn current() -> (Follow, String) {
    let mut follow = follow();
    let name = asked(&follow.up("I.c.0", START));
    follow.answered(false, &created(&name, 1), START);
    let steps = deliver(&mut follow, &name, "attic.web", (7, 1, 0), START);
    assert_eq!(steps, [entry("attic.web", 7), keys(&["attic.web"])]);
    (follow, name)
}

#[test]
fn an_empty_list_is_known_by_the_answer() {
    let mut follow = follow();
    let name = asked(&follow.up("I.c.0", START));
    assert_eq!(follow.reading(), Reading::Listing);
    assert_eq!(follow.answered(false, &created(&name, 0), START), [keys(&[])]);
    assert_eq!(follow.reading(), Reading::Current);
}

/// 2.15 delivers before it answers.
#[test]
fn deliveries_before_the_answer_count() {
    let mut follow = follow();
    let name = asked(&follow.up("I.c.0", START));
    assert_eq!(deliver(&mut follow, &name, "attic.a", (3, 1, 1), START), [entry("attic.a", 3)]);
    assert_eq!(deliver(&mut follow, &name, "attic.b", (4, 2, 0), START), [entry("attic.b", 4)]);
    assert_eq!(follow.answered(false, &created(&name, 2), START), [keys(&["attic.a", "attic.b"])]);
    assert_eq!(deliver(&mut follow, &name, "attic.a", (9, 3, 0), START), [entry("attic.a", 9)]);
}

#[test]
fn a_marker_is_a_deletion_and_not_in_the_list() {
    let mut follow = follow();
    let name = asked(&follow.up("I.c.0", START));
    follow.answered(false, &created(&name, 1), START);
    let reply = format!("$JS.ACK.KV_b.{name}.1.5.1.1796082841714165364.0");
    let headers = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n";
    let steps = follow.delivered("$KV.b.attic.web", Some(&reply), headers, Vec::new(), START);
    let deleted = Entry { key: "attic.web".to_owned(), value: None, revision: 5, header_fault: None };
    assert_eq!(steps, [Step::Entry(deleted), keys(&[])]);
}

#[test]
fn a_gap_lists_everything_again_and_the_old_consumer_no_longer_counts() {
    let (mut follow, old) = current();
    let new = asked(&deliver(&mut follow, &old, "attic.web", (9, 3, 0), START));
    assert_ne!(old, new);
    assert_eq!(follow.reading(), Reading::Listing);
    assert_eq!(deliver(&mut follow, &old, "attic.web", (10, 4, 0), START), []);
    assert_eq!(follow.answered(false, &created(&new, 1), START), []);
    let steps = deliver(&mut follow, &new, "attic.db", (11, 1, 0), START);
    assert_eq!(steps, [entry("attic.db", 11), keys(&["attic.db"])], "attic.web is gone");
}

#[test]
fn a_consumer_without_a_word_is_made_anew() {
    let (mut follow, _) = current();
    let beaten = START + HEARTBEAT;
    assert_eq!(beat(&mut follow, 1, beaten), []);
    assert_eq!(follow.next_deadline(), Some(beaten + SILENCE));
    assert_eq!(follow.due(START + SILENCE), []);
    asked(&follow.due(beaten + SILENCE));
}

#[test]
fn heartbeats_of_another_consumer_neither_help_nor_harm() {
    let (mut follow, _) = current();
    for round in 1..10 {
        let now = START + HEARTBEAT * round;
        assert_eq!(beat(&mut follow, 50, now), []);
        assert_eq!(beat(&mut follow, 1, now), []);
    }
    let (mut follow, _) = current();
    assert_eq!(beat(&mut follow, 2, START + HEARTBEAT), [], "one of ours was lost");
    asked(&follow.due(START + SILENCE));
}

#[test]
fn a_heartbeat_ends_a_list_whose_counts_were_wrong() {
    let mut follow = follow();
    let name = asked(&follow.up("I.c.0", START));
    follow.answered(false, &created(&name, 3), START);
    assert_eq!(deliver(&mut follow, &name, "attic.a", (3, 1, 2), START), [entry("attic.a", 3)]);
    assert_eq!(beat(&mut follow, 1, START), [keys(&["attic.a"])]);
}

#[test]
fn a_missing_bucket_is_looked_for_again() {
    let mut follow = follow();
    let mut now = START;
    follow.up("I.c.0", now);
    let missing = br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
    for most in [1, 2, 4, 8, 16, 30, 30] {
        assert_eq!(follow.answered(false, missing, now), [Step::Missing]);
        assert_eq!(follow.reading(), Reading::Missing);
        let at = follow.next_deadline().unwrap();
        assert!(at > now && at <= now + Duration::from_secs(most), "{at:?}");
        assert_eq!(follow.due(now), []);
        asked(&follow.due(at));
        now = at;
    }
}

#[test]
fn failures_are_said_and_tried_again() {
    let refused = |steps: &[Step], words: &str| {
        assert!(matches!(steps, [Step::Refused(why)] if why.contains(words)), "{steps:?}");
    };
    let mut follow = follow();
    follow.up("I.c.0", START);
    refused(&follow.answered(true, b"", START), "JetStream does not answer");
    let at = follow.next_deadline().unwrap();
    let name = asked(&follow.due(at));
    assert_eq!(follow.server_error("Permissions Violation for Publish to \"x\"", at), []);
    let words = format!("Permissions Violation for Publish to \"$JS.API.CONSUMER.CREATE.KV_b.{name}.x\"");
    refused(&follow.server_error(&words, at), "Permissions Violation");
    let at = follow.next_deadline().unwrap();
    asked(&follow.due(at));
    refused(&follow.due(at + PATIENCE), "no answer");
    let at = follow.next_deadline().unwrap();
    asked(&follow.due(at));
    refused(&follow.answered(false, &created("other", 0), at), "another consumer");
    assert_eq!(follow.reading(), Reading::Refused);
}

#[test]
fn only_the_awaited_call_counts() {
    let mut follow = follow();
    follow.up("I.c.0", START);
    follow.asked(4);
    assert!(follow.awaits(4) && !follow.awaits(3));
    follow.down();
    assert!(!follow.awaits(4));
    assert_eq!(follow.next_deadline(), None);
    asked(&follow.up("I.c.0", START));
    assert!(!follow.awaits(4));
}
