//! Waits between tries that fail.

use std::time::Duration;

/// A wait that doubles from `first` with each failure and ends at `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub last: Duration,
}

impl Backoff {
    /// The wait after a failure that `failures` others preceded. `jitter`, from 0 to 1, takes up to a quarter off it, so
    /// that many programs that lost the same server do not come back as one.
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
