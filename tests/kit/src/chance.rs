//! The random numbers of a simulated run, all drawn from one seed.
//!
//! Does not know what the numbers decide.

use std::ops::Range;
use std::time::Duration;

/// A sequence of pseudo-random numbers that follows from its seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// Returns the sequence of a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// Draws a number among all numbers of 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Draws a number from the range. Returns the range's start if the range is empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.draw() % (range.end.saturating_sub(range.start)).max(1)
    }

    /// Draws an index of a list of `len` items.
    pub fn index(&mut self, len: usize) -> usize {
        self.within(0..len as u64) as usize
    }

    /// Returns true with a probability of `percent`.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    /// Draws a number of milliseconds from the range.
    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// Draws one of the items; `None` if the list is empty.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.index(of.len())])
    }

    /// Returns an independent sequence, for a part of the simulation that draws by itself.
    pub fn fork(&mut self) -> Chance {
        Chance(self.draw())
    }
}
