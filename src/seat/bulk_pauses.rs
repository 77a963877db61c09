//! The buckets that are not read in bulk for a while, because a bulk read of them failed.

use crate::seat::limits::BULK_PAUSE;
use mesh_model::bucket::Bucket;
use std::collections::BTreeMap;
use std::time::Duration;

/// Until when each bucket is read key by key.
#[derive(Debug, Default)]
pub(super) struct BulkPauses(BTreeMap<Bucket, Duration>);

impl BulkPauses {
    /// The buckets that may be read in bulk now.
    pub(super) fn others(&self, now: Duration) -> impl Iterator<Item = Bucket> {
        let may = move |bucket: &Bucket| self.0.get(bucket).is_none_or(|until| now >= *until);
        Bucket::OF_NODES.into_iter().filter(may)
    }

    /// A bulk read of `bucket` failed.
    pub(super) fn begin(&mut self, bucket: Bucket, now: Duration) {
        self.0.insert(bucket, now + BULK_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_pauses_after_a_failure_and_only_that_one() {
        let mut pauses = BulkPauses::default();
        assert_eq!(pauses.others(Duration::ZERO).count(), 3, "all but the registry");
        pauses.begin(Bucket::Needs, Duration::ZERO);
        let before = pauses.others(BULK_PAUSE.saturating_sub(Duration::from_secs(1)));
        assert_eq!(before.collect::<Vec<_>>(), [Bucket::Applied, Bucket::Collect]);
        assert!(pauses.others(BULK_PAUSE).any(|bucket| bucket == Bucket::Needs));
    }
}
