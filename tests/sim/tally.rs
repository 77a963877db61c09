//! What runs came to.

use std::time::Duration;

/// What a run came to.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) pages: u64,
    pub(crate) errors: u64,
    /// Batches that came to their end.
    pub(crate) batches: u64,
    pub(crate) simulated: Duration,
}

impl Tally {
    pub(crate) fn with(self, other: Self) -> Self {
        Tally {
            steps: self.steps + other.steps,
            pages: self.pages + other.pages,
            errors: self.errors + other.errors,
            batches: self.batches + other.batches,
            simulated: self.simulated + other.simulated,
        }
    }
}
