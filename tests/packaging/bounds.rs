//! PROTOCOL's table of bounds has the numbers of the code, and no others.

use super::documents::rows;
use mesh_bus::{gate, large, message, nats};
use mesh_provisioner::seat::limits::*;
use std::time::Duration;

/// A size, in the largest unit that gives a whole number.
fn bytes(bytes: usize) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// A number, its digits in groups if there are more than four.
fn number(number: usize) -> String {
    if number < 10_000 { number.to_string() } else { format!("{} {:03}", number / 1000, number % 1000) }
}

fn seconds(duration: Duration) -> String {
    let tenths = duration.as_millis() / 100;
    if tenths.is_multiple_of(10) {
        format!("{} s", tenths / 10)
    } else {
        format!("{}.{} s", tenths / 10, tenths % 10)
    }
}

fn minutes(duration: Duration) -> String {
    format!("{} min", duration.as_secs() / 60)
}

/// What each row says, in order.
fn bounds() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("queries under way", vec![number(MAX_UNDER_WAY), format!("up to {MAX_SHARING} of")]),
        ("requests that wait for a query to start", vec![number(MAX_WAITING), "503".to_owned()]),
        ("a request, from its arrival to the response", vec![seconds(QUERY_DEADLINE), "504".to_owned()]),
        (
            "calls of the seat to JetStream that wait for a reply",
            vec![
                number(MAX_IN_FLIGHT),
                format!("{MAX_LISTINGS} that list keys"),
                number(MAX_LISTED_KEYS),
                format!("{MAX_BATCHES} in bulk"),
                bytes(LARGE_BYTES),
                bytes(MAX_LARGE_BYTES),
            ],
        ),
        ("a reply of JetStream", vec![seconds(CALL_TIMEOUT), seconds(BATCH_GAP_TIMEOUT)]),
        (
            "a part of a bulk read",
            vec![
                bytes(FIRST_PART_BYTES),
                bytes(MAX_PART_BYTES),
                seconds(QUICK_PART),
                bytes(MIN_PART_BYTES),
                seconds(SLOW_PART),
                bytes(FIRST_PART_BYTES),
                minutes(BULK_PAUSE),
                bytes(MIN_PART_BYTES),
            ],
        ),
        ("a list of keys", vec![seconds(SLOW_LIST), seconds(FAILS_AGAIN), minutes(BULK_PAUSE)]),
        (
            "the cache of each bucket",
            vec![
                format!("{} keys", number(MAX_CACHED_KEYS)),
                bytes(MAX_CACHED_VALUE_BYTES),
                bytes(MAX_CACHE_BYTES),
                bytes(MAX_CACHE_BYTES_WITH_VALUES),
                minutes(CACHES_KEPT),
            ],
        ),
        ("the rows of `drift`, `nodes` or `collections`", vec![bytes(MAX_ROWS_BYTES), "503".to_owned()]),
        ("a change of the registry", vec![seconds(CHECK_EVERY), seconds(CHECK_EVERY * 2 + CHECK_ANSWERED)]),
        (
            "messages that the loop has not taken yet",
            vec![
                format!("{MAX_UNTAKEN_REQUESTS} requests"),
                bytes(gate::from_server::LARGE_BYTES),
                bytes(large::MAX_LARGE_BYTES),
                number(mesh_runtime::MAX_UNTAKEN_REPLIES),
                bytes(message::MAX_WAITING_BYTES),
                format!("{MAX_UNTAKEN_MONITORING} on each"),
            ],
        ),
        (
            "messages that the connection has not taken yet",
            vec![number(nats::MAX_QUEUED), bytes(nats::MAX_QUEUED_BYTES)],
        ),
    ]
}

#[test]
fn protocol_lists_the_bounds_that_the_code_has_and_no_others() {
    let listed = rows("PROTOCOL.md", "### Bounds");
    let bounds = bounds();
    let names: Vec<&str> = listed.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, bounds.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (row, (name, values)) in listed.iter().zip(&bounds) {
        let mut rest = row[1].as_str();
        for value in values {
            let (before, after) = rest
                .split_once(value.as_str())
                .unwrap_or_else(|| panic!("{name:?} has no {value:?} in {rest:?}"));
            assert!(
                !before.contains(|c: char| c.is_ascii_digit()),
                "{name:?}: a number of nothing in {before:?}"
            );
            rest = after;
        }
        assert!(!rest.contains(|c: char| c.is_ascii_digit()), "{name:?}: a number of nothing in {rest:?}");
    }
}
