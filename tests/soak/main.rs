//! A soak: for a given time asks, writes, restarts, freezes and cuts together, every answer checked against what was
//! written; then the faults end, and everything has to be right again. With `--hostile` a reader floods the seat instead.
//!
//! `cargo test --test soak -- --minutes 20` runs it, on the server that `NATS_SERVER` names. The seed that is printed
//! first draws the same faults again; how they meet is the machine's doing.

#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

#[path = "../support/mod.rs"]
mod support;

mod asker;
mod chance;
mod faults;
mod hostile;
mod judge;
mod model;
mod supervisor;
mod tally;
mod writer;

use argh::FromArgs;
use asker::Asker;
use chance::Chance;
use crossbeam_channel::{Receiver, bounded};
use mesh_model::bucket::Bucket;
use mesh_model::registry::ENTRIES;
use model::Model;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use supervisor::Supervisor;
use support::accounts::NODES;
use support::bucket::REGISTRY;
use support::client::Client;
use support::program::Program;
use support::proxy::Proxy;
use support::server::Server;
use tally::Tally;
use writer::Writer;

/// How many ask at a time.
const ASKERS: u64 = 4;

/// How long everything may take to be right again once the faults are off.
const RECOVERY: Duration = Duration::from_secs(60);

/// How long after that asks go on, each of which has to be answered.
const QUIET: Duration = Duration::from_secs(15);

/// How many threads an idle seat has (ARCHITECTURE.md).
const THREADS: usize = 6;

/// How long a change of the registry by hand may show, faults included.
const TOUCHED: Duration = Duration::from_secs(180);

/// asks, writes and breaks things for a while, and checks every answer
#[derive(FromArgs)]
struct Arguments {
    /// for how long, in minutes [1]
    #[argh(option, default = "1.0")]
    minutes: f64,
    /// draws the faults [a random one]
    #[argh(option, default = "RandomState::new().hash_one(0)")]
    seed: u64,
    /// the program that holds the seat [the one that was built with this]
    #[argh(option)]
    seat: Option<String>,
    /// instead: random requests from a reader, a thousand a second, with good ones beside them
    #[argh(switch)]
    hostile: bool,
}

/// What everybody in the soak shares.
pub(crate) struct Soak {
    pub(crate) address: SocketAddr,
    pub(crate) proxy: Proxy,
    pub(crate) supervisor: Supervisor,
    pub(crate) second_seat: Program,
    pub(crate) model: Model,
    pub(crate) tally: Tally,
    touched: Mutex<BTreeMap<String, Instant>>,
    /// Disconnected when the faults are to end, and when everything is.
    faults_end: Receiver<()>,
    all_ends: Receiver<()>,
}

impl Soak {
    /// Lets time pass; true if the faults and the writes are to end.
    pub(crate) fn pause(&self, during: Duration) -> bool {
        self.faults_end.recv_timeout(during).is_err_and(|error| error.is_disconnected())
    }

    /// Lets time pass; true if everything is to end.
    pub(crate) fn over_after(&self, during: Duration) -> bool {
        self.all_ends.recv_timeout(during).is_err_and(|error| error.is_disconnected())
    }

    /// Notes that a key of the registry is changed by hand.
    pub(crate) fn touch(&self, kind: &str) {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        touched.insert(kind.to_owned(), Instant::now());
    }

    /// The keys of the registry that may still show what somebody wrote there by hand.
    pub(crate) fn touched(&self) -> BTreeSet<String> {
        let touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        touched.iter().filter(|(_, at)| at.elapsed() < TOUCHED).map(|(kind, _)| kind.clone()).collect()
    }
}

fn main() -> ExitCode {
    let arguments: Arguments = argh::from_env();
    println!("seed                    {}", arguments.seed);
    if arguments.hostile {
        return hostile::run(arguments.minutes, arguments.seed);
    }
    let mut server = Server::start();
    support::mesh::init(&server);
    let proxy = Proxy::start(&server);
    proxy.keep_nothing();
    let binary = arguments.seat.as_deref();
    let (faults_on, faults_end) = bounded(0);
    let (all_on, all_ends) = bounded(0);
    let soak = Soak {
        address: server.address(),
        supervisor: Supervisor::start(Supervisor::program(&proxy.client_url(), binary)),
        second_seat: Supervisor::program(&server.client_url(), binary),
        proxy,
        model: Model::default(),
        tally: Tally::new(),
        touched: Mutex::default(),
        faults_end,
        all_ends,
    };
    let chance = |stream| Chance::new(arguments.seed, stream);
    println!("nats-server             {:?}", server.version());
    thread::scope(|scope| {
        let mut writers: Vec<Writer<'_>> =
            (10..).zip(NODES).map(|(stream, node)| Writer::new(&soak, node, chance(stream))).collect();
        for (at, writer) in writers.iter_mut().enumerate() {
            writer.load(at == 0);
        }
        wait_for(&soak, "the seat to answer", || {
            faults::is_answered(&soak).then_some(()).ok_or("no answer".to_owned())
        });
        scope.spawn(|| soak.supervisor.run(&soak));
        let askers: Vec<_> = (0..ASKERS)
            .map(|stream| {
                let asker = Asker::new(&soak, chance(20 + stream));
                scope.spawn(|| asker.run())
            })
            .collect();
        let mut others: Vec<_> = writers.into_iter().map(|writer| scope.spawn(|| writer.run())).collect();
        let server = &mut server;
        let (bus, line, hand) = (chance(1), chance(2), chance(3));
        let on_the_bus = scope.spawn(|| faults::bus(&soak, server, bus));
        others.push(scope.spawn(|| faults::line(&soak, line)));
        others.push(scope.spawn(|| faults::hand(&soak, hand)));

        soak.over_after(Duration::from_secs_f64(arguments.minutes * 60.0));
        drop(faults_on);
        let mut died = on_the_bus.join().is_err();
        for thread in others {
            died |= thread.join().is_err();
        }
        if !died {
            end_well(&soak);
            soak.over_after(QUIET);
        }
        drop(all_on);
        for asker in askers {
            died |= asker.join().is_err();
        }
        if died {
            soak.tally.fail("one of the threads above ended with a panic");
        }
    });
    soak.supervisor.finish(&soak);
    let well = soak.tally.close();
    println!("{}", soak.tally);
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The faults are off: whatever they did has to be put right.
fn end_well(soak: &Soak) {
    wait_for(soak, "the registry to be right", || {
        let client = Client::try_connect(soak.address, &support::accounts::TESTER)?;
        let mut there = BTreeMap::new();
        for key in client.kv_keys(REGISTRY) {
            // What is not UTF-8 cannot be deleted by its name, which the seat says in its log.
            if !key.contains(char::REPLACEMENT_CHARACTER)
                && let Some(stored) = client.kv_get(REGISTRY, &key)
                && stored.header("KV-Operation").is_none()
            {
                there.insert(key, stored.value);
            }
        }
        let right = there.len() == ENTRIES.len()
            && ENTRIES
                .iter()
                .all(|entry| there.get(entry.kind).is_some_and(|value| entry.says_the_same_as(value)));
        right.then_some(()).ok_or_else(|| format!("{:?}", there.keys()))
    });
    wait_for(soak, "the seat to have its threads and no more", || {
        let threads = soak.supervisor.threads();
        if threads.len() == THREADS { Ok(()) } else { Err(format!("{threads:?}")) }
    });
    wait_for(soak, "no consumer to be left", || {
        let client = Client::try_connect(soak.address, &support::accounts::ADMINISTRATOR)?;
        let left: u64 = Bucket::ALL.iter().map(|bucket| client.consumer_count(bucket.name())).sum();
        if left == 0 { Ok(()) } else { Err(format!("{left} consumers")) }
    });
}

/// Waits within [`RECOVERY`]; what does not come fails the run.
fn wait_for(soak: &Soak, awaited: &str, look: impl Fn() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(seen) = look() {
        if begun.elapsed() > RECOVERY {
            let log = soak.supervisor.log();
            return soak
                .tally
                .fail(&format!("waited for {awaited}, and saw: {seen}; the seat's log:\n{log}"));
        }
        soak.over_after(Duration::from_millis(200));
    }
}
