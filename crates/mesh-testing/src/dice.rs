//! Chance from a seed: the same seed, the same run (splitmix64).

use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Dice(seed)
    }

    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end.max(1) as u64).unwrap()
    }

    /// True in this many of a thousand cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.roll() % 1000 < u64::from(per_mille)
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A duration below this many milliseconds, in microseconds.
    pub fn within(&mut self, milliseconds: u64) -> Duration {
        Duration::from_micros(self.roll() % (milliseconds * 1000).max(1))
    }
}
