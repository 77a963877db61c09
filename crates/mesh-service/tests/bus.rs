//! A followed bucket on a real server, under the rights of a node.

use std::time::{Duration, Instant};

use mesh_service::follow::{Entry, Follow, HEARTBEAT, Reading, Step};
use mesh_testing::accounts::{self, TESTER};
use mesh_testing::client::{Client, Inbox};
use mesh_testing::server::Server;
use mesh_testing::setup::Setup;
use mesh_testing::wait::{self, PATIENCE};
use serde_json::json;

const BUCKET: &str = "mesh-controller_assignments";
const DELIVER: &str = "_INBOX_mesh.node.attic.test.c.0";

struct Bench {
    client: Client,
    deliveries: Inbox,
    follow: Follow,
    started: Instant,
    steps: Vec<Step>,
}

impl Bench {
    fn new(server: &Server, bucket: &str, keys: &str, names: &str) -> Self {
        let client = server.client(&accounts::node("attic"));
        let deliveries = client.subscribe(DELIVER, None);
        let follow = Follow::new(bucket, keys, names, 0.0);
        let mut bench = Bench { client, deliveries, follow, started: Instant::now(), steps: Vec::new() };
        let steps = bench.follow.up(DELIVER, bench.now());
        bench.take(steps);
        bench
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn take(&mut self, steps: Vec<Step>) {
        for step in steps {
            let Step::Send(outgoing) = step else {
                self.steps.push(step);
                continue;
            };
            let answer = self.client.request(&outgoing.subject, &outgoing.body, PATIENCE);
            let more = match answer {
                Ok(answer) => self.follow.answered(false, &answer.body, self.now()),
                Err(mesh_testing::client::Unanswered::Denied(words)) => {
                    self.follow.server_error(&words, self.now())
                }
                Err(other) => panic!("{other}"),
            };
            self.take(more);
        }
    }

    /// Goes on until a step of that kind came, and returns all until then.
    fn until(&mut self, is_last: impl Fn(&Step) -> bool) -> Vec<Step> {
        let end = Instant::now() + PATIENCE;
        while !self.steps.iter().any(&is_last) {
            assert!(Instant::now() < end, "only {:?}", self.steps);
            if let Ok(message) = self.deliveries.next(Duration::from_millis(100)) {
                let subject = String::from_utf8(message.subject).unwrap();
                let reply = message.reply.map(|reply| String::from_utf8(reply).unwrap());
                let now = self.now();
                let steps =
                    self.follow.delivered(&subject, reply.as_deref(), &message.headers, message.body, now);
                self.take(steps);
            }
            let now = self.now();
            let steps = self.follow.due(now);
            self.take(steps);
        }
        std::mem::take(&mut self.steps)
    }
}

fn server() -> (Server, Client) {
    let server = Setup::shipped().start();
    let tester = server.client(&TESTER);
    tester.create_bucket(BUCKET, &json!({}));
    (server, tester)
}

fn entry(key: &str, value: Option<&str>, revision: u64) -> Step {
    let value = value.map(|value| value.as_bytes().to_vec());
    Step::Entry(Entry { key: key.to_owned(), value, revision, header_fault: None })
}

fn complete(keys: &[&str]) -> Step {
    Step::Complete(keys.iter().map(|key| (*key).to_owned()).collect())
}

fn is_entry(step: &Step) -> bool {
    matches!(step, Step::Entry(_))
}

fn is_complete(step: &Step) -> bool {
    matches!(step, Step::Complete(_))
}

#[test]
fn a_list_ends_and_what_is_written_follows() {
    let (server, tester) = server();
    tester.kv_put(BUCKET, "attic.web", "1");
    tester.kv_put(BUCKET, "cellar.web", "not ours");
    tester.kv_put(BUCKET, "attic.db", "2");
    tester.kv_delete(BUCKET, "attic.db");
    tester.kv_put(BUCKET, "attic.web", "3");
    let mut bench = Bench::new(&server, BUCKET, "attic.>", "one");
    let steps = bench.until(is_complete);
    assert_eq!(
        steps,
        [entry("attic.db", None, 4), entry("attic.web", Some("3"), 5), complete(&["attic.web"])]
    );
    assert_eq!(bench.follow.reading(), Reading::Current);
    tester.kv_put(BUCKET, "attic.shell", "4");
    assert_eq!(bench.until(is_entry), [entry("attic.shell", Some("4"), 6)]);
    tester.kv_purge(BUCKET, "attic.shell");
    assert_eq!(bench.until(is_entry), [entry("attic.shell", None, 7)]);
}

#[test]
fn an_empty_list_a_missing_bucket_and_a_missing_right_are_three_answers() {
    let (server, tester) = server();
    let mut bench = Bench::new(&server, BUCKET, "attic.>", "two");
    assert_eq!(bench.until(is_complete), [complete(&[])]);
    tester.delete_bucket(BUCKET);
    let mut bench = Bench::new(&server, BUCKET, "attic.>", "three");
    assert_eq!(bench.until(|step| *step == Step::Missing)[0], Step::Missing);
    tester.create_bucket(BUCKET, &json!({}));
    tester.kv_put(BUCKET, "attic.web", "1");
    assert_eq!(bench.until(is_complete), [entry("attic.web", Some("1"), 1), complete(&["attic.web"])]);
    let mut bench = Bench::new(&server, BUCKET, "cellar.>", "four");
    let steps = bench.until(|step| matches!(step, Step::Refused(_)));
    assert!(matches!(&steps[0], Step::Refused(why) if why.contains("Permissions Violation")), "{steps:?}");
}

#[test]
fn a_consumer_is_gone_soon_after_its_connection() {
    let (server, tester) = server();
    let mut bench = Bench::new(&server, BUCKET, "attic.>", "five");
    bench.until(is_complete);
    assert_eq!(tester.consumer_count(BUCKET), 1);
    drop(bench);
    wait::until("no consumer", Duration::from_secs(3), || match tester.consumer_count(BUCKET) {
        0 => Ok(()),
        count => Err(format!("{count} consumers")),
    });
}

/// A stale consumer with the same deliver subject: its deliveries and heartbeats change nothing.
#[test]
fn two_consumers_at_one_subject_are_told_apart() {
    let (server, tester) = server();
    tester.kv_put(BUCKET, "attic.web", "1");
    tester.kv_put(BUCKET, "attic.db", "1");
    let mut bench = Bench::new(&server, BUCKET, "attic.>", "six");
    bench.until(is_complete);
    tester.kv_put(BUCKET, "attic.web", "2");
    bench.until(is_entry);
    let now = bench.now();
    let steps = bench.follow.relist(now);
    bench.take(steps);
    let list = [
        entry("attic.db", Some("1"), 2),
        entry("attic.web", Some("2"), 3),
        complete(&["attic.db", "attic.web"]),
    ];
    assert_eq!(bench.until(is_complete), list);
    assert_eq!(tester.consumer_count(BUCKET), 2);
    // Several heartbeats of both.
    let end = Instant::now() + HEARTBEAT * 2 + Duration::from_secs(1);
    while Instant::now() < end {
        if let Ok(message) = bench.deliveries.next(Duration::from_millis(100)) {
            let now = bench.now();
            let subject = String::from_utf8(message.subject).unwrap();
            let steps = bench.follow.delivered(&subject, None, &message.headers, message.body, now);
            assert_eq!(steps, []);
        }
    }
    tester.kv_put(BUCKET, "attic.web", "3");
    assert_eq!(bench.until(is_entry), [entry("attic.web", Some("3"), 4)]);
}
