//! Whose turn it is to apply: one at a time, and one that waits.

/// What a child is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Apply now.
    Go,
    /// A newer apply takes your place.
    Superseded,
}

impl Turn {
    pub(super) const fn line(self) -> &'static str {
        match self {
            Self::Go => "go\n",
            Self::Superseded => "superseded\n",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Turns {
    running: Option<u64>,
    waiting: Option<u64>,
    stopping: bool,
}

impl Turns {
    /// A child wants to apply.
    pub(super) fn wants(&mut self, id: u64) -> Vec<(u64, Turn)> {
        if self.stopping {
            return vec![(id, Turn::Superseded)];
        }
        if self.running.is_none() {
            self.running = Some(id);
            return vec![(id, Turn::Go)];
        }
        self.waiting.replace(id).map(|older| (older, Turn::Superseded)).into_iter().collect()
    }

    /// A child has ended.
    pub(super) fn ended(&mut self, id: u64) -> Vec<(u64, Turn)> {
        if self.waiting == Some(id) {
            self.waiting = None;
        }
        if self.running != Some(id) {
            return Vec::new();
        }
        self.running = self.waiting.take();
        self.running.map(|next| (next, Turn::Go)).into_iter().collect()
    }

    /// Nothing new begins.
    pub(super) fn stop(&mut self) -> Vec<(u64, Turn)> {
        self.stopping = true;
        self.waiting.take().map(|waiting| (waiting, Turn::Superseded)).into_iter().collect()
    }

    /// Whether it is this child that applies.
    pub(super) fn is_running_now(&self, id: u64) -> bool {
        self.running == Some(id)
    }

    pub(super) const fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{Turn, Turns};

    #[test]
    fn one_runs_one_waits_and_a_newer_one_takes_the_place_of_the_one_that_waits() {
        let mut turns = Turns::default();
        assert_eq!(turns.wants(1), [(1, Turn::Go)]);
        assert_eq!(turns.wants(2), []);
        assert_eq!(turns.wants(3), [(2, Turn::Superseded)]);
        assert_eq!(turns.ended(2), []);
        assert_eq!(turns.ended(1), [(3, Turn::Go)]);
        assert_eq!(turns.wants(4), []);
        // The client of the one that waits went away.
        assert_eq!(turns.ended(4), []);
        assert_eq!(turns.ended(3), []);
        assert!(!turns.is_running());
    }

    #[test]
    fn after_a_stop_nothing_new_begins() {
        let mut turns = Turns::default();
        assert_eq!(turns.wants(1), [(1, Turn::Go)]);
        assert_eq!(turns.wants(2), []);
        assert_eq!(turns.stop(), [(2, Turn::Superseded)]);
        assert_eq!(turns.wants(3), [(3, Turn::Superseded)]);
        assert!(turns.is_running());
        assert_eq!(turns.ended(1), []);
        assert!(!turns.is_running());
    }
}
