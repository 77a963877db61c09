//! When to look again after something did not answer: after 5 s, then later each time, up to 60 s.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(5);
const LAST: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Retry {
    /// What was waited last.
    waited: Option<Duration>,
    due: Option<Instant>,
    /// Whether the apply under way met something that did not answer.
    silent: bool,
}

impl Retry {
    /// Something did not answer in the apply under way.
    pub(super) const fn not_answered(&mut self) {
        self.silent = true;
    }

    /// An apply has ended.
    pub(super) fn ended(&mut self, now: Instant) {
        if std::mem::take(&mut self.silent) {
            let wait = self.waited.map_or(FIRST, |waited| (waited * 2).min(LAST));
            self.waited = Some(wait);
            self.due = Some(now + wait);
        } else {
            *self = Self::default();
        }
    }

    /// When to apply the own copy again.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// It is being done.
    pub(super) const fn done(&mut self) {
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::Retry;
    use std::time::{Duration, Instant};

    #[test]
    fn it_waits_longer_each_time_up_to_a_minute_and_begins_again_after_an_answer() {
        let now = Instant::now();
        let mut retry = Retry::default();
        retry.ended(now);
        assert_eq!(retry.due(), None);
        for seconds in [5, 10, 20, 40, 60, 60] {
            retry.not_answered();
            retry.ended(now);
            assert_eq!(retry.due(), Some(now + Duration::from_secs(seconds)));
            retry.done();
            assert_eq!(retry.due(), None);
        }
        retry.ended(now);
        assert_eq!(retry.due(), None);
        retry.not_answered();
        retry.ended(now);
        assert_eq!(retry.due(), Some(now + Duration::from_secs(5)));
    }
}
