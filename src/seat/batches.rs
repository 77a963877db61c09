//! Which buckets may be read in batches. Off unless the seat is told to, since a batch brings stored headers as they
//! are, and the bus library drops its connection over headers that it cannot read: one such entry, which any node may
//! write, costs one connection. After that the bucket is read one by one for a while, which no entry can break.

use crate::bucket::Bucket;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a bucket is read one by one after a batch was refused or could not be trusted.
const AFTER_REFUSAL: Duration = Duration::from_secs(5 * 60);

/// How long after the connection broke during one.
const AFTER_BREAK: Duration = Duration::from_secs(60 * 60);

/// The buckets that may be read in batches, and until when others may not.
#[derive(Debug)]
pub(super) struct Batches {
    enabled: bool,
    not_before: BTreeMap<Bucket, Duration>,
}

impl Batches {
    pub(super) const fn new(enabled: bool) -> Self {
        Batches { enabled, not_before: BTreeMap::new() }
    }

    /// The buckets that may be read in batches now.
    pub(super) fn allowed(&self, now: Duration) -> BTreeSet<Bucket> {
        let may =
            |bucket: &Bucket| self.enabled && self.not_before.get(bucket).is_none_or(|until| now >= *until);
        Bucket::ALL.into_iter().filter(may).collect()
    }

    /// A batch was refused or could not be trusted.
    pub(super) fn refused(&mut self, bucket: Bucket, now: Duration) {
        self.pause(bucket, now + AFTER_REFUSAL);
    }

    /// The connection broke while a batch was awaited.
    pub(super) fn broke(&mut self, bucket: Bucket, now: Duration) {
        self.pause(bucket, now + AFTER_BREAK);
    }

    fn pause(&mut self, bucket: Bucket, until: Duration) {
        let known = self.not_before.entry(bucket).or_default();
        *known = until.max(*known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_pauses_after_a_fault_and_only_that_one() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut batches = Batches::new(true);
        assert_eq!(batches.allowed(minutes(0)).len(), 4);
        batches.refused(Bucket::Needs, minutes(0));
        assert!(!batches.allowed(minutes(4)).contains(&Bucket::Needs));
        assert!(batches.allowed(minutes(4)).contains(&Bucket::Applied));
        assert!(batches.allowed(minutes(5)).contains(&Bucket::Needs));
        batches.broke(Bucket::Needs, minutes(5));
        batches.refused(Bucket::Needs, minutes(6));
        assert!(!batches.allowed(minutes(64)).contains(&Bucket::Needs));
        assert!(batches.allowed(minutes(65)).contains(&Bucket::Needs));
        assert!(Batches::new(false).allowed(minutes(0)).is_empty());
    }
}
