//! `--hostile`: random requests from a reader's account, a thousand a second, and good ones beside them. Each good one has
//! to be answered right, and the seat has to be the same at the end.

use crate::chance::Chance;
use crate::support::bucket::{NEEDS, REGISTRY};
use crate::support::mesh::Mesh;
use crate::support::seat::KINDS;
use crate::support::verb::{ANSWER_BOUND, AsksTheSeat, VERB};
use serde_json::{Value, json};
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many hostile requests leave in a second.
const A_SECOND: u32 = 1000;

/// How often somebody asks a good question.
const EVERY: Duration = Duration::from_millis(50);

/// What the seat's resident memory may come to, in KiB.
const MEMORY: u64 = 64 * 1024;

/// How many keys the node has whose needs are asked for.
const KEYS: usize = 5;

/// Runs for so long.
pub(crate) fn run(minutes: f64, seed: u64) -> ExitCode {
    let mesh = Mesh::start();
    println!("nats-server             {:?}", mesh.server.version());
    mesh.node("attic").kv_put_all(NEEDS, (0..KEYS).map(|at| (format!("attic.web.port.p{at}"), "1")));
    let revisions = mesh.tester().stream_info(REGISTRY)["state"]["last_seq"].clone();
    let over = AtomicBool::new(false);
    let (good, sent) = thread::scope(|scope| {
        let good = scope.spawn(|| ask(&mesh, &over));
        let sent = attack(&mesh, Duration::from_secs_f64(minutes * 60.0), &mut Chance::new(seed, 1));
        over.store(true, Ordering::Relaxed);
        (good.join().expect("whoever asks well"), sent)
    });
    let Good { mut took, wrong } = good;
    took.sort_unstable();
    let at =
        |part: usize| took.get((took.len() * part / 1000).min(took.len() - 1)).copied().unwrap_or_default();
    let memory = status_of(mesh.seat.id(), "VmHWM:");
    let same = mesh.tester().stream_info(REGISTRY)["state"]["last_seq"] == revisions;
    let health = mesh.reader().ask(&json!({"what": "health"}));
    println!("hostile requests        {sent}");
    println!(
        "good requests           {}, of these {} without the right answer",
        took.len() + wrong.len(),
        wrong.len()
    );
    println!("their median, 99th      {:?}, {:?}; longest {:?}", at(500), at(990), at(1000));
    println!("memory                  {memory} KiB at most");
    println!("threads                 {}", status_of(mesh.seat.id(), "Threads:"));
    println!("counters                {}", health.body()["health"]["counters"]);
    for why in wrong.iter().take(10) {
        println!("wrong                   {why}");
    }
    println!("registry untouched      {same}");
    let well = wrong.is_empty() && same && memory <= MEMORY && health.body()["ok"] == true;
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Good {
    took: Vec<Duration>,
    wrong: Vec<String>,
}

/// Asks good questions, one after another.
fn ask(mesh: &Mesh, over: &AtomicBool) -> Good {
    let reader = mesh.reader();
    let mut good = Good { took: Vec::new(), wrong: Vec::new() };
    while !over.load(Ordering::Relaxed) {
        for (asked, entries) in [
            (json!({"what": "registry"}), Some(KINDS)),
            (json!({"what": "needs", "node": "attic"}), Some(KEYS)),
            (json!({"what": "health"}), None),
        ] {
            let begun = Instant::now();
            let why = match reader.ask_later(&asked).next(ANSWER_BOUND) {
                Err(error) => Some(error.to_string()),
                Ok(message) => {
                    let body: Value = serde_json::from_slice(&message.body).unwrap_or_default();
                    let found = body["entries"].as_array().map(Vec::len);
                    (found != entries || !body["error"].is_null()).then(|| body.to_string())
                }
            };
            match why {
                Some(why) => good.wrong.push(format!("{asked}: {why}")),
                None => good.took.push(begun.elapsed()),
            }
        }
        thread::sleep(EVERY);
    }
    good
}

/// Sends hostile requests; how many.
fn attack(mesh: &Mesh, during: Duration, chance: &mut Chance) -> u32 {
    let attackers = [mesh.reader(), mesh.reader()];
    let begun = Instant::now();
    let mut sent = 0;
    while begun.elapsed() < during {
        let attacker = chance.pick(&attackers);
        let reply = reply(chance);
        let headers = headers(chance);
        let subject = if chance.one_in(20) { "$SRV.PING" } else { VERB };
        attacker.publish_with(subject, reply.as_deref(), &headers, body(chance));
        sent += 1;
        let due = begun + Duration::from_secs(1) * sent / A_SECOND;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    for attacker in attackers {
        attacker.flush();
    }
    sent
}

fn reply(chance: &mut Chance) -> Option<Vec<u8>> {
    let number = chance.below(1_000_000);
    Some(match chance.below(12) {
        0 => return None,
        1 => format!("$KV.{REGISTRY}.secret").into_bytes(),
        2 => b"$JS.API.STREAM.PURGE.KV_mesh-provisioner_needs".to_vec(),
        3 => VERB.as_bytes().to_vec(),
        4 => format!("_INBOX.{}", "x".repeat(200 + number % 3000)).into_bytes(),
        5 => format!("_INBOX.a\u{85}{number}").into_bytes(),
        6 => [b"_INBOX.\xff\xfe", number.to_string().as_bytes()].concat(),
        7 => format!("_INBOX_mesh.provisioner.x.{number}").into_bytes(),
        8 => format!("_R_.{number}").into_bytes(),
        _ => format!("_INBOX.attacker.{number}").into_bytes(),
    })
}

fn headers(chance: &mut Chance) -> Vec<u8> {
    let fields: &[u8] = match chance.below(10) {
        0 => b"Status: 503\r\n",
        1 => b"Nats-Service-Error-Code: 500\r\n",
        2 => b"\xff\xfe: \xff\r\n",
        3 => b"no colon\r\n",
        4 => b": \r\n: \r\n",
        _ => return Vec::new(),
    };
    [b"NATS/1.0\r\n", fields, b"\r\n"].concat()
}

fn body(chance: &mut Chance) -> Vec<u8> {
    const WHAT: [&str; 10] = [
        "registry",
        "needs",
        "applied",
        "collect",
        "gaps",
        "drift",
        "nodes",
        "collections",
        "health",
        "nothing",
    ];
    const FIELDS: [&str; 9] =
        ["node", "module", "kind", "collection", "stale_after", "limit", "after", "what", "unknown"];
    match chance.below(10) {
        0 => (0..chance.below(200)).map(|_| u8::try_from(chance.below(256)).expect("a byte")).collect(),
        1 => vec![b'['; chance.below(30_000)],
        2 => vec![b' '; chance.below(100_000)],
        3 => {
            let mut cut = json!({"what": chance.pick(&WHAT), "node": "attic"}).to_string().into_bytes();
            cut.truncate(chance.below(cut.len()));
            cut
        }
        _ => {
            let mut asked = json!({"what": chance.pick(&WHAT)});
            for _ in 0..chance.below(4) {
                let value = match chance.below(7) {
                    0 => json!("attic"),
                    1 => json!("\u{0}\u{1b}[31m\u{202e}"),
                    2 => json!(chance.below(10_000)),
                    3 => json!("x".repeat(chance.below(2000))),
                    4 => Value::Null,
                    5 => json!(["*", ">"]),
                    _ => json!("*"),
                };
                asked[*chance.pick(&FIELDS)] = value;
            }
            asked.to_string().into_bytes()
        }
    }
}

/// A number of `/proc/<id>/status`.
fn status_of(id: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("the status of a process that runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("that field");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
