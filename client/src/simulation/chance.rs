//! The random numbers of a run, all drawn from one seed.

use std::ops::Range;
use std::time::Duration;

/// A sequence of pseudo-random numbers that follows from its seed (SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Draws a number from the range. Returns the range's start if the range is empty.
    pub(super) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.draw() % (range.end.saturating_sub(range.start)).max(1)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        self.within(0..len as u64) as usize
    }

    /// Returns true with a probability of `percent`.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    pub(super) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.index(of.len())])
    }

    /// Returns an independent sequence, for a part of the simulation that draws by itself.
    pub(super) fn fork(&mut self) -> Chance {
        Chance(self.draw())
    }
}
