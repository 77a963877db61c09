//! The seat over a fake bus, thousands of lives of it, each from a seed.
//!
//! `SIM_SEED=17 cargo test --test sim` plays one life; `SIM_SEEDS=100000` plays so many, from a new first seed.

#![allow(clippy::print_stdout, reason = "the seed is printed before anything can fail")]

mod batch;
mod bus;
mod canary;
mod faults;
mod judge;
mod keys;
mod tally;
mod world;

use canary::{Canary, Plant};
use mesh_provisioner::seat::Seat;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;
use tally::Tally;
use world::{run, settings};

/// How many lives are played by default, and within how many a planted fault must be found.
const SEEDS: u64 = 2_000;
const CANARY_SEEDS: u64 = 20_000;

/// Plays one life. A panic of the seat counts as a broken rule.
fn life(seed: u64) -> Result<Tally, String> {
    panic::catch_unwind(|| run(seed, &mut Seat::new(settings(seed)))).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("the seat panicked: {}", words.or(panic.downcast_ref().copied()).unwrap_or("?")))
    })
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text:?}")))
}

#[test]
fn no_rule_is_broken_in_any_life_and_the_registry_gets_well() {
    if let Some(seed) = variable("SIM_SEED") {
        println!("SIM_SEED={seed}");
        let tally = life(seed).unwrap_or_else(|why| panic!("SIM_SEED={seed}: {why}"));
        println!("{tally:?}");
        return;
    }
    // The default lives are always the same; a longer run begins elsewhere each time.
    let (first, seeds) = match variable("SIM_SEEDS") {
        None => (0, SEEDS),
        Some(seeds) => (u64::from(std::process::id()) << 32, seeds),
    };
    println!("seeds {first} to {}", first + seeds - 1);
    let start = Instant::now();
    let next = AtomicU64::new(first);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let total = thread::scope(|scope| {
        let play = || {
            let mut total = Tally::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + seeds {
                    return total;
                }
                let tally = life(seed).unwrap_or_else(|why| panic!("SIM_SEED={seed}: {why}"));
                total = total.with(tally);
            }
        };
        let players: Vec<_> = (0..threads).map(|_| scope.spawn(play)).collect();
        let tallies: Vec<_> =
            players.into_iter().map(|player| player.join().expect("a life without a broken rule")).collect();
        tallies.into_iter().fold(Tally::default(), Tally::with)
    });
    let Tally { pages, errors, surveys, looks, batches, followed, breaks, slices, .. } = total;
    println!("{seeds} lives in {:?}: {total:?}", start.elapsed());
    // A simulation in which nothing is asked, or everything fails, proves nothing.
    assert!(pages > seeds * 3, "{pages} good pages in {seeds} lives");
    assert!(surveys > seeds, "{surveys} good surveys in {seeds} lives");
    assert!(looks > seeds, "{looks} looks in {seeds} lives");
    assert!(batches > seeds / 2, "{batches} batches of named keys in {seeds} lives");
    assert!(followed > seeds, "buckets were followed {followed} times in {seeds} lives");
    assert!(breaks > seeds / 10, "{breaks} connections broke in {seeds} lives");
    assert!(slices > seeds / 20, "{slices} slices in {seeds} lives");
    assert!(errors > seeds / 10, "{errors} error answers in {seeds} lives");
}

/// The first seed at which the planted fault is found, and in which words.
fn found(plant: Plant) -> String {
    found_as(plant, |_| true)
}

/// The same, in words that fit.
fn found_as(plant: Plant, fits: impl Fn(&str) -> bool) -> String {
    for seed in 0..CANARY_SEEDS {
        if let Err(why) = run(seed, &mut Canary::new(Seat::new(settings(seed)), plant))
            && fits(&why)
        {
            println!("{plant:?} is found in the life {seed}");
            return why;
        }
    }
    panic!("{plant:?} is not found in {CANARY_SEEDS} lives");
}

#[test]
fn a_key_that_is_dropped_from_a_listing_is_found() {
    let why = found(Plant::DropsAKey);
    assert!(is_short(&why), "{why}");
}

#[test]
fn a_second_answer_is_found() {
    let why = found(Plant::AnswersTwice);
    assert!(why.contains("who waits for none"), "{why}");
}

#[test]
fn a_request_that_is_never_answered_is_found() {
    let why = found(Plant::ForgetsAnAnswer);
    assert!(why.contains("waits since") || why.contains("was never answered"), "{why}");
}

#[test]
fn a_deletion_after_an_incomplete_read_is_found() {
    let why = found(Plant::DeletesOnAPartialList);
    assert!(why.contains("DEL of the kind"), "{why}");
}

#[test]
fn a_write_that_changes_nothing_is_found() {
    let why = found(Plant::WritesAgain);
    assert!(why.contains("changes nothing"), "{why}");
}

#[test]
fn a_key_that_is_dropped_from_a_batch_is_found() {
    let why = found(Plant::DropsAPart);
    assert!(is_short(&why), "{why}");
}

#[test]
fn a_batch_of_a_server_that_lags_is_found() {
    let why = found(Plant::TrustsWhoLags);
    assert!(is_outdated(&why) || is_short(&why), "{why}");
}

/// Whether these are the words for an answer that lacks a key.
fn is_short(why: &str) -> bool {
    why.contains("was there all the time and is not in the answer")
        || why.contains("malformed where")
        || is_miscounted(why)
}

/// Whether these are the words for an answer that has what is not there any more.
fn is_outdated(why: &str) -> bool {
    why.contains("was never there") || why.contains("was not there") || is_miscounted(why)
}

/// Whether these are the words for a row that counts what it should not, or not what it should.
fn is_miscounted(why: &str) -> bool {
    why.contains("has less than") || why.contains("has more than") || why.contains("\" is not ")
}

#[test]
fn a_key_that_is_hidden_where_a_bucket_is_followed_is_found() {
    // Where its numbers never fit, the seat may also read a bucket until the time is up.
    found_as(Plant::HidesAKey, is_short);
}

#[test]
fn an_answer_that_speaks_of_a_time_before_its_request_is_found() {
    let why = found(Plant::ShowsTheLookBefore);
    assert!(why.contains("before its request") || is_outdated(&why) || is_short(&why), "{why}");
}

#[test]
fn an_answer_with_a_key_that_expired_is_found() {
    let why = found(Plant::HidesWhatExpired);
    assert!(is_outdated(&why), "{why}");
}

#[test]
fn more_batches_than_may_be_awaited_are_found() {
    let why = found(Plant::KnowsNoBounds);
    assert!(why.contains("batches are awaited"), "{why}");
}

#[test]
fn a_registry_that_never_gets_well_is_found() {
    let why = found(Plant::SkipsAKind);
    assert!(why.contains("the registry is not right"), "{why}");
}
