//! The attackers, and those who ask for little beside them.

use super::support::accounts::TESTER;
use super::support::client::{Client, Unanswered};
use super::support::mesh::Mesh;
use super::support::seat::KINDS;
use super::support::verb::{ANSWER_BOUND, Answer, VERB};
use super::support::wait::PATIENCE;
use crate::support::verb::AsksTheSeat;
use crossbeam_channel::{Sender, bounded};
use serde_json::{Value, json};
use std::fs;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What the seat's resident memory may come to, in MiB.
#[derive(Clone, Copy)]
pub(crate) struct Mib(u64);

/// Whatever is asked, and however large values are.
pub(crate) const BOUND: Mib = Mib(64);

/// With a bucket of 100 000 keys, all of it asked for by 80 at once: what is known of it is kept, or lists of it are on
/// their way, and what was freed does not all go back to the system.
pub(crate) const BOUND_OF_LONG_LISTS: Mib = Mib(96);

/// The largest limit that an ask may have.
const LIMIT: usize = 10_000;

/// How many ask for everything at once while others are still to have their turn, and how many when nobody is.
const A_FEW: usize = 4;
const MANY: usize = 80;

/// How many keys a large bucket has.
pub(crate) const KEYS: usize = 100_000;

/// With three buckets just below the size from which they are not cached: their caches share 48 MiB, and the rows of a
/// query have 32 MiB.
pub(crate) const BOUND_OF_FULL_BUCKETS: Mib = Mib(128);

/// How many writes leave before their arrival is awaited.
const BURST: usize = 1000;

/// How often somebody asks for little.
const LITTLE: Duration = Duration::from_millis(200);

/// An attack on a mesh, while somebody asks for little beside it.
pub(crate) struct Siege<'a> {
    mesh: &'a Mesh,
    over: Sender<()>,
    beside: JoinHandle<Beside>,
}

/// How those fare who ask for little.
#[derive(Debug, Default)]
struct Beside {
    right: usize,
    /// Told that it took too long, as may happen where the machine has other things to do.
    late: usize,
    /// Never answered: the flood filled the queue while the machine did not let the seat run.
    lost: u64,
}

impl Beside {
    fn ask(&mut self, reader: &Client, asked: &Value, is_right: impl Fn(&Answer) -> bool) {
        let answer = match reader.ask_later(asked).next(ANSWER_BOUND + PATIENCE) {
            Ok(message) => Answer::of(&message),
            Err(Unanswered::Late { .. }) => {
                self.lost += 1;
                return;
            }
            Err(error) => panic!("{asked}: {error}"),
        };
        if answer.code() == Some(504) {
            self.late += 1;
        } else {
            assert!(answer.code().is_none() && is_right(&answer), "{asked}: {}", answer.text());
            self.right += 1;
        }
    }
}

impl<'a> Siege<'a> {
    pub(crate) fn begin(mesh: &'a Mesh) -> Self {
        let (over, is_over) = bounded(0);
        let reader = mesh.reader();
        let beside = thread::spawn(move || {
            let mut beside = Beside::default();
            loop {
                beside.ask(&reader, &json!({"what": "registry"}), |answer| answer.entries().len() == KINDS);
                beside.ask(&reader, &json!({"what": "needs", "node": "attic"}), |answer| {
                    answer.keys().len() == 5
                });
                beside.ask(&reader, &json!({"what": "health"}), |answer| {
                    answer.body()["health"]["live"] == true
                });
                if is_over.recv_timeout(LITTLE).is_err_and(|error| error.is_disconnected()) {
                    return beside;
                }
            }
        });
        Self { mesh, over, beside }
    }

    /// Sends this many asks a second that cannot be answered well, of every sort, and more than one can wait for.
    pub(crate) fn flood(&self, during: Duration, a_second: u32) {
        let attacker = self.mesh.reader();
        let bodies = ["", "[]", "{\"what\":", "{\"what\":\"nothing\"}", "{\"a\":1}", "\u{0}\u{1b}[31m\r\n"];
        let large = format!("{{\"what\":\"{}\"}}", "x".repeat(8 * 1024));
        let begun = Instant::now();
        let mut sent = 0;
        while begun.elapsed() < during {
            let body = match sent % 100 {
                0 => large.as_str(),
                at => bodies[1 + at as usize % (bodies.len() - 1)],
            };
            let reply = match sent % 10 {
                0 => None,
                1 => Some(b"$KV.mesh-provisioner_registry.injected".as_slice()),
                _ => Some(b"_INBOX.attacker".as_slice()),
            };
            attacker.publish_with(VERB, reply, &[], body);
            sent += 1;
            let due = begun + Duration::from_secs(1) / a_second * sent;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        attacker.flush();
        let least = a_second * u32::try_from(during.as_secs()).expect("seconds") / 2;
        assert!(sent >= least, "the machine lets only {sent} asks through in {during:?}");
    }

    /// Asks for everything, several times at once.
    pub(crate) fn ask_for_much(&self, what: &str) {
        ask_at_once(self.mesh, what, A_FEW);
    }

    /// Ends the attack: who asked for little had the right answer, and memory stayed within its bound.
    pub(crate) fn end(self, bound: Mib) {
        drop(self.over);
        let beside = self.beside.join().expect("whoever asks for little is answered");
        assert!(beside.right > beside.late, "{beside:?}");
        let health = self.mesh.reader().ask(&json!({"what": "health"}));
        let overrun = health.body()["health"]["counters"]["overrun"].as_u64().expect("a counter");
        assert!(beside.lost <= overrun, "{beside:?}, and the seat counts {overrun} that it could not take");
        stays_within(self.mesh, bound);
    }
}

/// Asks for everything as often at once as the seat works on, and oftener, so that nobody else has a turn; memory
/// stays within its bound all the same.
pub(crate) fn overrun(mesh: &Mesh, what: &str, bound: Mib) {
    ask_at_once(mesh, what, MANY);
    stays_within(mesh, bound);
}

/// Sends asks all at once, no two of them equal, and waits until each has its one answer, good or not.
fn ask_at_once(mesh: &Mesh, what: &str, count: usize) {
    let attacker = mesh.reader();
    let inboxes: Vec<_> =
        (0..count).map(|at| attacker.ask_later(&json!({"what": what, "limit": LIMIT - at}))).collect();
    for inbox in &inboxes {
        let answer = match inbox.next(ANSWER_BOUND + PATIENCE) {
            Ok(message) => Answer::of(&message),
            Err(error) => panic!("an ask for {what} of {count} had no answer: {error}"),
        };
        if let Some(code) = answer.code() {
            assert!(matches!(code, 503 | 504), "{}", answer.text());
        }
    }
}

fn stays_within(mesh: &Mesh, Mib(bound): Mib) {
    let kib = high_water_kib(mesh.seat.id());
    assert!(kib <= bound * 1024, "the seat's memory came to {kib} KiB, more than {bound} MiB");
}

/// Fills a bucket with this many keys, without awaiting each write: that would take minutes.
pub(crate) fn bulk(mesh: &Mesh, bucket: &str, keys: usize, key: impl Fn(usize) -> Vec<u8>) {
    let writer = mesh.server.client(&TESTER);
    for at in 0..keys {
        writer.publish([format!("$KV.{bucket}.").as_bytes(), &key(at)].concat(), "{\"port\":8080}");
        if at % BURST == 0 {
            stored_at_least(&writer, bucket, at.saturating_sub(5 * BURST));
        }
    }
    stored_at_least(&writer, bucket, keys);
}

fn stored_at_least(writer: &Client, bucket: &str, count: usize) {
    super::support::wait::until("the bus to have stored the keys", Duration::from_secs(60), || {
        let stored = writer.stream_info(bucket)["state"]["messages"].as_u64().unwrap_or_default();
        if stored >= count as u64 { Ok(()) } else { Err(format!("{stored} of {count}")) }
    });
}

fn high_water_kib(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("the status of a process that runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its high-water mark");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}
