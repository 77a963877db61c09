//! Chance out of a seed, so that a run's faults can be drawn again.

use std::time::Duration;

/// Numbers that look random (splitmix64).
pub(crate) struct Chance(u64);

impl Chance {
    /// The `stream`th of the independent streams of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut chance = Self(seed ^ stream.wrapping_mul(0xD134_2543_DE82_EF95));
        chance.next();
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("less than a usize")
    }

    /// True once in this many times.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of them.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of them, each as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> T {
        let mut at = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, what) in from {
            if at < *weight {
                return *what;
            }
            at -= weight;
        }
        unreachable!("a number below the sum of the weights")
    }

    /// A time between two, in milliseconds.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.next() % (most - least + 1))
    }
}
