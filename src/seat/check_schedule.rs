//! When the streams of the buckets are looked at.

use crate::seat::limits::CHECK_ANSWERED;
use std::time::Duration;

/// How soon after a pass that wrote.
const SOON: Duration = Duration::from_millis(100);

/// When stream info is requested.
#[derive(Debug)]
pub(super) struct StreamChecks {
    every: Duration,
    due: Option<Duration>,
    /// When the registry was last seen as the last pass left it.
    confirmed: Option<Duration>,
}

impl StreamChecks {
    pub(super) const fn new(every: Duration) -> Self {
        StreamChecks { every, due: None, confirmed: None }
    }

    /// When it is requested next.
    pub(super) const fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Whether one of the last two requests showed the registry as the last pass left it.
    pub(super) fn is_confirmed(&self, now: Duration) -> bool {
        self.confirmed.is_some_and(|confirmed| now <= confirmed + self.counts_for())
    }

    /// How long stream info counts.
    pub(super) fn counts_for(&self) -> Duration {
        self.every * 2 + CHECK_ANSWERED
    }

    /// A pass verified the registry. If it wrote, stream info soon shows the state in which it left the registry.
    pub(super) fn pass_ended(&mut self, has_written: bool, now: Duration) {
        self.confirmed = Some(now);
        let due = if has_written { now + SOON } else { now + self.every };
        self.due = Some(self.due.map_or(due, |sooner| sooner.min(due)));
    }

    /// Whether to request stream info now; the next request is due one interval later.
    pub(super) fn begin(&mut self, now: Duration) -> bool {
        let is_due = self.due.is_some_and(|due| now >= due);
        if is_due {
            self.due = Some(now + self.every);
        }
        is_due
    }

    /// The registry was seen as the last pass left it.
    pub(super) const fn confirm(&mut self, now: Duration) {
        self.confirmed = Some(now);
    }

    /// The connection is lost, or the seat is about to exit.
    pub(super) const fn interrupt(&mut self) {
        self.due = None;
    }
}
