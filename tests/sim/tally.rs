//! What runs came to.

use std::time::Duration;

/// What a run came to.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) pages: u64,
    pub(crate) errors: u64,
    /// Answers to `drift`, `nodes` and `collections`.
    pub(crate) surveys: u64,
    /// Looks at a bucket in numbers.
    pub(crate) looks: u64,
    /// Reads of keys that were named, and of all that was written, that came to their end.
    pub(crate) batches: u64,
    pub(crate) followed: u64,
    /// How often the connection for such reads broke.
    pub(crate) breaks: u64,
    /// How often the seat wanted to be woken at once, to go on with something long.
    pub(crate) slices: u64,
    /// How often a bucket became what it was when it was copied.
    pub(crate) restores: u64,
    pub(crate) simulated: Duration,
}

impl Tally {
    pub(crate) fn with(self, other: Self) -> Self {
        Tally {
            steps: self.steps + other.steps,
            pages: self.pages + other.pages,
            errors: self.errors + other.errors,
            surveys: self.surveys + other.surveys,
            looks: self.looks + other.looks,
            batches: self.batches + other.batches,
            followed: self.followed + other.followed,
            breaks: self.breaks + other.breaks,
            slices: self.slices + other.slices,
            restores: self.restores + other.restores,
            simulated: self.simulated + other.simulated,
        }
    }
}
