//! Bulk reads: many messages for one call, over a separate connection that exists only while queries need it.
//!
//! Bulk replies contain the stored headers unencoded, and the client library drops its connection over headers that
//! it cannot parse. One such entry, which any node may write, breaks this connection and no other. The query then
//! reads the bucket key by key, which no entry can break, and so do all queries for a while.

use super::failure::Cause;
use super::in_flight::Sent;
use super::topic::Topic;
use super::{Action, Seat, failure};
use log::Level;
use mesh_model::bucket::Bucket;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a bucket is read key by key after a bulk read failed.
const PAUSE: Duration = Duration::from_secs(15 * 60);

/// How long a query waits for the connection.
const BULK_LINK_WAIT: Duration = Duration::from_millis(500);

/// The wait after the first failed attempt to connect, and the longest.
const FIRST_RECONNECT: Duration = Duration::from_secs(1);
const LAST_RECONNECT: Duration = Duration::from_secs(5 * 60);

/// How long the connection and the caches are kept without a query.
const KEPT: Duration = Duration::from_secs(10 * 60);

/// The connection for bulk reads, and the buckets that cannot be read in bulk at present.
#[derive(Debug)]
pub(super) struct Bulk {
    link: BulkLink,
    /// Failed attempts to connect since the last success.
    failures: u32,
    not_before: BTreeMap<Bucket, Duration>,
    /// Since when there is no query.
    idle_since: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BulkLink {
    /// There is none, and none may be made before this time.
    Down {
        retry: Duration,
    },
    Connecting {
        since: Duration,
    },
    Up,
}

impl Bulk {
    pub(super) const fn new() -> Self {
        Bulk {
            link: BulkLink::Down { retry: Duration::ZERO },
            failures: 0,
            not_before: BTreeMap::new(),
            idle_since: None,
        }
    }

    /// Whether it is up.
    pub(super) const fn is_up(&self) -> bool {
        matches!(self.link, BulkLink::Up)
    }

    /// The buckets that may be read in bulk now, or as soon as there is a connection.
    pub(super) fn buckets(&self, now: Duration) -> impl Iterator<Item = Bucket> {
        let is_there = match self.link {
            BulkLink::Up => true,
            BulkLink::Down { retry } => now >= retry,
            BulkLink::Connecting { since } => now < since + BULK_LINK_WAIT,
        };
        let may =
            move |bucket: &Bucket| is_there && self.not_before.get(bucket).is_none_or(|until| now >= *until);
        Bucket::OF_NODES.into_iter().filter(may)
    }

    /// When a query has waited long enough for the connection, or the connection is idle for too long.
    pub(super) fn due(&self, anybody_waits: bool) -> Option<Duration> {
        let patience = match self.link {
            BulkLink::Connecting { since } if anybody_waits => Some(since + BULK_LINK_WAIT),
            _ => None,
        };
        patience.into_iter().chain(self.idle_since.map(|since| since + KEPT)).min()
    }

    fn pause(&mut self, bucket: Bucket, now: Duration) {
        self.not_before.insert(bucket, now + PAUSE);
    }

    fn down(&mut self, now: Duration) {
        let wait = FIRST_RECONNECT.saturating_mul(1 << self.failures.min(8)).min(LAST_RECONNECT);
        self.failures += 1;
        self.link = BulkLink::Down { retry: now + wait };
    }
}

impl Seat {
    /// Makes the connection for bulk reads while queries need it, bounds their wait for it, and closes it when it is
    /// idle.
    pub(super) fn look_after_bulk(&mut self, now: Duration) {
        for (bucket, why) in self.queries.take_uncacheable() {
            self.not_in_bulk(bucket, why, now);
        }
        if self.queries.wait_for_bulk() {
            match self.bulk.link {
                BulkLink::Down { retry } if now >= retry && self.is_up() => {
                    self.bulk.link = BulkLink::Connecting { since: now };
                    self.actions.push(Action::ConnectBulk);
                }
                BulkLink::Connecting { since } if now >= since + BULK_LINK_WAIT => {
                    self.queries.leave_bulk(None);
                }
                BulkLink::Down { .. } => self.queries.leave_bulk(None),
                _ => {}
            }
        }
        if self.queries.len() > 0 || !self.bulk.is_up() && self.queries.know_nothing() {
            self.bulk.idle_since = None;
        } else if now >= *self.bulk.idle_since.get_or_insert(now) + KEPT {
            self.bulk.idle_since = None;
            self.queries.forget();
            self.close_bulk(now);
        }
    }

    /// Closes the connection for bulk reads, if there is one. The next one may be made at once.
    pub(super) fn close_bulk(&mut self, now: Duration) {
        if self.bulk.is_up() {
            self.bulk.link = BulkLink::Down { retry: now };
            self.actions.push(Action::CloseBulk);
        }
    }

    pub(super) fn bulk_up(&mut self) {
        self.bulk.link = BulkLink::Up;
        self.bulk.failures = 0;
    }

    pub(super) fn bulk_down(&mut self, why: &str, now: Duration) {
        self.bulk.down(now);
        for Sent { owner, tag, cost, .. } in self.in_flight.take_bulk() {
            if let Some(bucket) = cost.in_bulk() {
                self.not_in_bulk(bucket, "the connection broke during a bulk read", now);
            }
            self.deliver(owner, tag, Err(Cause::Silent), now);
        }
        self.queries.leave_bulk(None);
        let text = format!("no connection for bulk reads, reading key by key meanwhile: {why}");
        self.notice(Level::Info, Topic::Bulk, &format!("bulk {why}"), &text, now);
    }

    /// A bulk read failed: the bucket is read key by key for a while.
    pub(super) fn not_in_bulk(&mut self, bucket: Bucket, why: &str, now: Duration) {
        self.bulk.pause(bucket, now);
        self.queries.leave_bulk(Some(bucket));
        let why = failure::shorten(why.to_owned());
        let minutes = PAUSE.as_secs() / 60;
        let text = format!("bulk reads of bucket {bucket} disabled for {minutes} min: {why}");
        self.notice(Level::Info, Topic::Bulk, &format!("bulk {bucket}"), &text, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_pauses_after_a_fault_and_only_that_one() {
        let mut bulk = Bulk::new();
        bulk.link = BulkLink::Up;
        assert_eq!(bulk.buckets(Duration::ZERO).count(), 3, "all but the registry");
        bulk.pause(Bucket::Needs, Duration::ZERO);
        let before = bulk.buckets(PAUSE.saturating_sub(Duration::from_secs(1)));
        assert_eq!(before.collect::<Vec<_>>(), [Bucket::Applied, Bucket::Collect]);
        assert!(bulk.buckets(PAUSE).any(|bucket| bucket == Bucket::Needs));
    }

    #[test]
    fn attempts_become_rare_and_meanwhile_nobody_counts_on_them() {
        let mut bulk = Bulk::new();
        for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
            bulk.down(Duration::ZERO);
            let retry = Duration::from_secs(wait);
            assert_eq!(bulk.link, BulkLink::Down { retry });
            assert_eq!(bulk.buckets(retry.saturating_sub(Duration::from_millis(1))).count(), 0);
            assert_eq!(bulk.buckets(retry).count(), 3);
        }
    }
}
