//! Deadlines for blocking library calls, checked from another thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Tells whether a step has taken longer than it may. One thread takes the steps, any thread may check.
#[derive(Debug)]
pub(super) struct StallDetector {
    start: Instant,
    /// The deadline of the step, in milliseconds after `start`; 0 without a step.
    limit: AtomicU64,
}

impl StallDetector {
    pub(super) fn new() -> Self {
        StallDetector { start: Instant::now(), limit: AtomicU64::new(0) }
    }

    /// Takes a step with a deadline.
    pub(super) fn step<T>(&self, may_take: Duration, step: impl FnOnce() -> T) -> T {
        let limit = self.start.elapsed() + may_take;
        self.limit.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let result = step();
        self.limit.store(0, Ordering::Relaxed);
        result
    }

    /// Whether the current step is past its deadline.
    pub(super) fn is_stuck(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        limit != 0 && self.start.elapsed().as_millis() > u128::from(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_that_outlasts_its_limit_is_stuck() {
        let watch = StallDetector::new();
        assert!(!watch.is_stuck());
        watch.step(Duration::from_secs(60), || assert!(!watch.is_stuck()));
        watch.step(Duration::from_millis(1), || {
            while !watch.is_stuck() {
                std::thread::yield_now();
            }
        });
        assert!(!watch.is_stuck(), "a step that ended is not stuck");
    }
}
