//! The finished splits after the first unfinished one, with one bit for each split of a window. Does not know
//! elements.
//!
//! Splits are counted in the splits of one trainer: the first unfinished split has the distance 0.

/// A set of distances below the size of the window.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Finished {
    /// The bits, the lowest distance first. Bits from `window` on are 0.
    words: Vec<u64>,
    /// The number of distances that the set can have.
    window: u64,
}

impl Finished {
    /// Returns an empty set for a window of this number of splits.
    pub(crate) fn new(window: u64) -> Finished {
        Finished {
            words: vec![0; window.div_ceil(64) as usize],
            window,
        }
    }

    /// Returns the number of splits in the window.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Adds a distance. Returns whether the window has it.
    pub(crate) fn insert(&mut self, distance: u64) -> bool {
        let is_within = distance < self.window;
        if is_within {
            self.words[(distance / 64) as usize] |= 1 << (distance % 64);
        }
        is_within
    }

    pub(crate) fn contains(&self, distance: u64) -> bool {
        distance < self.window && self.words[(distance / 64) as usize] >> (distance % 64) & 1 == 1
    }

    /// Moves the window to the next split, and so reduces all distances by one.
    pub(crate) fn advance(&mut self) {
        let mut carried = 0;
        for word in self.words.iter_mut().rev() {
            let next = *word << 63;
            *word = *word >> 1 | carried;
            carried = next;
        }
    }

    /// Returns the distances in ascending order.
    pub(crate) fn distances(&self) -> impl Iterator<Item = u64> {
        (0..self.window).filter(|distance| self.contains(*distance))
    }

    /// Returns the bits, without the last words that are 0.
    pub(crate) fn words(&self) -> &[u64] {
        let used = self.words.iter().rposition(|word| *word != 0);
        &self.words[..used.map_or(0, |last| last + 1)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_a_set_of_distances(
            window in 1_u64..200,
            steps in prop::collection::vec(prop::option::of(0_u64..220), 0..60),
        ) {
            let (mut finished, mut naive) = (Finished::new(window), BTreeSet::new());
            for step in steps {
                match step {
                    Some(distance) => {
                        prop_assert_eq!(finished.insert(distance), distance < window);
                        naive.extend((distance < window).then_some(distance));
                    }
                    None => {
                        finished.advance();
                        naive = naive.into_iter().filter_map(|distance| distance.checked_sub(1)).collect();
                    }
                }
                prop_assert!(finished.distances().eq(naive.iter().copied()));
                prop_assert_eq!(finished.words().len() as u64, naive.last().map_or(0, |last| last / 64 + 1));
            }
        }
    }
}
