//! When the streams of the buckets are looked at.

use crate::seat::limits::CHECK_ANSWERED;
use std::time::Duration;

/// How soon after a pass that has written.
const SOON: Duration = Duration::from_millis(100);

/// When the streams are looked at.
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

    /// When they are to be looked at next.
    pub(super) const fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Whether the registry was seen as the last pass left it within the last two looks.
    pub(super) fn is_confirmed(&self, now: Duration) -> bool {
        self.confirmed.is_some_and(|confirmed| now <= confirmed + self.counts_for())
    }

    /// For how long what a look has shown counts.
    pub(super) fn counts_for(&self) -> Duration {
        self.every * 2 + CHECK_ANSWERED
    }

    /// A pass has found the registry as it should be, or has put it right: then it is looked at how that left it.
    pub(super) fn pass_ended(&mut self, has_written: bool, now: Duration) {
        self.confirmed = Some(now);
        let due = if has_written { now + SOON } else { now + self.every };
        self.due = Some(self.due.map_or(due, |sooner| sooner.min(due)));
    }

    /// Whether they are to be looked at now; the next time is due later.
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

    /// There is no connection, or the seat is about to end.
    pub(super) const fn interrupt(&mut self) {
        self.due = None;
    }
}
