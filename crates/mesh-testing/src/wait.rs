//! Bounded waits for what can only be looked at, never for time to pass.

use std::thread;
use std::time::{Duration, Instant};

/// Long enough for anything that works, on a machine with two cores and ten tests at once.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// How often a thing without a notification of its own is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// Looks again and again until `look` finds what is `awaited`; its `Err` says what was there instead.
///
/// Panics with both once `within` has passed.
#[track_caller]
pub fn until<T>(awaited: &str, within: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if begun.elapsed() >= within => {
                panic!("waited {within:?} for {awaited}, and saw: {seen}")
            }
            Err(_) => thread::sleep(GLANCE),
        }
    }
}

/// The end of a log: what a person reads first when a test failed.
pub fn tail(log: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Shows the end of a log while a test is failing; silent otherwise. For the `Drop` of whatever keeps a log.
#[allow(clippy::print_stderr, reason = "the test harness shows it beside the failure, and only then")]
pub fn show_if_failing(whose: &str, log: impl FnOnce() -> String) {
    if thread::panicking() {
        eprintln!("--- the end of the {whose}'s log\n{}\n---", tail(&log()));
    }
}
