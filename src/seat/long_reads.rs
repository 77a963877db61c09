//! Which long replies the connection does not bring: they are requested in smaller pieces for a while.
//!
//! A server ends the connection of a client that more bytes wait for than its `max_pending`, without a reason. On a slow
//! line a list of all keys arrives after those who wait for it have given up.

use crate::seat::call::Cost;
use crate::seat::limits::{BULK_PAUSE, FAILS_AGAIN, FIRST_PART_BYTES, MAX_PART_BYTES, MIN_PART_BYTES};
use mesh_model::bucket::Bucket;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is read in smaller pieces, and until when.
#[derive(Debug, Default)]
pub(super) struct LongReads {
    /// The largest part of a bulk read.
    parts: Option<(usize, Duration)>,
    /// Lists that are not requested: of a whole bucket, or of one node of it.
    lists: BTreeMap<(Bucket, bool), Duration>,
    /// When a list failed last.
    failures: BTreeMap<(Bucket, bool), Duration>,
}

impl LongReads {
    /// The connection ended before the replies to these calls were complete, or they were given up. Returns the buckets
    /// whose keys are not listed from now on.
    pub(super) fn failed(
        &mut self,
        calls: impl IntoIterator<Item = Cost>,
        now: Duration,
    ) -> BTreeSet<Bucket> {
        let until = now + BULK_PAUSE;
        let mut parts = None;
        let (mut lists, mut unlisted) = (BTreeSet::new(), BTreeSet::new());
        for cost in calls {
            match cost {
                Cost::Listing { bucket, of_node } => {
                    lists.insert((bucket, of_node));
                }
                Cost::Batch(bucket) => parts = Some(bucket),
                Cost::Single | Cost::Value { .. } => {}
            }
        }
        for list in lists {
            let before = self.failures.insert(list, now);
            if before.is_some_and(|before| now <= before + FAILS_AGAIN) {
                self.lists.insert(list, until);
                unlisted.insert(list.0);
            }
        }
        let Some(bucket) = parts else { return unlisted };
        match self.part_bytes(now) {
            MAX_PART_BYTES => self.parts = Some((FIRST_PART_BYTES, until)),
            bytes if bytes > MIN_PART_BYTES => self.parts = Some((MIN_PART_BYTES, until)),
            _ => {
                self.lists.extend([((bucket, false), until), ((bucket, true), until)]);
                unlisted.insert(bucket);
            }
        }
        unlisted
    }

    /// The largest part of a bulk read, in bytes.
    pub(super) fn part_bytes(&self, now: Duration) -> usize {
        self.parts.filter(|(_, until)| now < *until).map_or(MAX_PART_BYTES, |(bytes, _)| bytes)
    }

    /// The lists that are not requested: of these buckets, as a whole or of one node.
    pub(super) fn unlisted(&self, now: Duration) -> BTreeSet<(Bucket, bool)> {
        self.lists.iter().filter(|(_, until)| now < **until).map(|(list, _)| *list).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Cost = Cost::Listing { bucket: Bucket::Needs, of_node: false };

    #[test]
    fn a_list_that_failed_is_not_requested_for_a_while_and_others_are() {
        let mut reads = LongReads::default();
        assert!(reads.failed([Cost::Single, WHOLE, WHOLE], Duration::ZERO).is_empty());
        assert!(reads.unlisted(Duration::ZERO).is_empty(), "the server may have been stopped");
        assert_eq!(reads.failed([WHOLE], Duration::ZERO), BTreeSet::from([Bucket::Needs]));
        assert_eq!(reads.unlisted(Duration::ZERO), BTreeSet::from([(Bucket::Needs, false)]));
        assert_eq!(reads.part_bytes(Duration::ZERO), MAX_PART_BYTES);
        assert!(reads.unlisted(BULK_PAUSE).is_empty());
    }

    #[test]
    fn parts_shrink_each_time_and_then_nothing_is_read_in_bulk() {
        let mut reads = LongReads::default();
        let mut bytes = Vec::new();
        for _ in 0..3 {
            reads.failed([Cost::Batch(Bucket::Needs), Cost::Batch(Bucket::Needs)], Duration::ZERO);
            bytes.push((reads.part_bytes(Duration::ZERO), reads.unlisted(Duration::ZERO).len()));
        }
        assert_eq!(bytes, [(FIRST_PART_BYTES, 0), (MIN_PART_BYTES, 0), (MIN_PART_BYTES, 2)]);
        assert_eq!(reads.part_bytes(BULK_PAUSE), MAX_PART_BYTES);
    }
}
