//! Delays between failed attempts.

use std::time::Duration;

/// A delay that doubles with each failure, from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub last: Duration,
}

impl Backoff {
    /// The delay after a failure that followed `failures` others. `jitter`, from 0 to 1, shortens it by up to a
    /// quarter, so that many programs that lost the same server do not return at the same moment.
    pub fn after(self, failures: u32, jitter: f64) -> Duration {
        let wait = self.first.saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX)).min(self.last);
        wait.mul_f64(0.95 - jitter.clamp(0.0, 1.0) / 4.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_and_never_passes_the_last() {
        let backoff = Backoff { first: Duration::from_secs(1), last: Duration::from_secs(60) };
        let waits = |jitter| [0, 1, 5, 6, 60].map(|failures| backoff.after(failures, jitter).as_millis());
        assert_eq!(waits(0.0), [950, 1900, 30_400, 57_000, 57_000]);
        assert_eq!(waits(1.0), [700, 1400, 22_400, 42_000, 42_000]);
    }
}
