//! The order in which a source is read: the source's own order, or the order of the full shuffles above it.

use super::permutation::Permutation;
use super::random::{Draws, Seeds};

/// The order of a source's positions in each pass. The order is a function of seeds, pass and position, so it
/// has no state to save.
#[derive(Debug)]
pub(crate) struct Order {
    /// The number of permuted positions.
    count: u64,
    /// The shuffles, with the outermost shuffle first.
    shuffles: Vec<Shuffled>,
    /// The number of a pass and the permutations of its shuffles. `None` before the first position.
    current: Option<(u64, Vec<Blocks>)>,
}

/// A shuffle that permutes positions.
#[derive(Debug)]
pub(crate) struct Shuffled {
    pub(crate) seeds: Seeds,
    /// The number of positions of a block, at least 1. Positions stay within their block.
    pub(crate) block: u64,
}

/// The permutations of one shuffle in one pass.
#[derive(Debug)]
struct Blocks {
    draws: Draws,
    block: u64,
    /// The number of the latest block, and its permutation.
    current: (u64, Permutation),
}

impl Order {
    /// Returns the source's own order.
    pub(crate) fn plain() -> Order {
        Order::shuffled(0, Vec::new())
    }

    /// Returns the order of `count` positions under `shuffles`, with the outermost shuffle first.
    pub(crate) fn shuffled(count: u64, shuffles: Vec<Shuffled>) -> Order {
        Order {
            count,
            shuffles,
            current: None,
        }
    }

    /// Returns the place in the source that pass `pass` reads at `position`.
    pub(crate) fn place(&mut self, pass: u64, position: u64) -> u64 {
        if self.shuffles.is_empty() {
            return position;
        }
        let (_, shuffles) = match &mut self.current {
            Some(current) if current.0 == pass => current,
            current => {
                let blocks = self
                    .shuffles
                    .iter()
                    .map(|shuffle| Blocks::new(shuffle, pass, self.count));
                current.insert((pass, blocks.collect()))
            }
        };
        shuffles
            .iter_mut()
            .fold(position, |position, shuffle| shuffle.place(position, self.count))
    }
}

impl Blocks {
    fn new(shuffle: &Shuffled, pass: u64, count: u64) -> Blocks {
        let (draws, block) = (shuffle.seeds.draws(pass), shuffle.block.max(1));
        Blocks {
            draws,
            block,
            current: (0, Permutation::new(draws.block(0), block.min(count))),
        }
    }

    /// Returns the place of one of `count` positions.
    fn place(&mut self, position: u64, count: u64) -> u64 {
        if position >= count {
            return position;
        }
        let number = position / self.block;
        let start = number * self.block;
        if self.current.0 != number {
            let permutation = Permutation::new(self.draws.block(number), self.block.min(count - start));
            self.current = (number, permutation);
        }
        start + self.current.1.place(position - start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(count: u64, blocks: &[u64]) -> Order {
        let shuffled = |(node, block): (u64, &u64)| Shuffled {
            seeds: Seeds {
                seed: Some(7),
                task_id: 0,
                epoch: 0,
                node,
                fixed: false,
            },
            block: *block,
        };
        Order::shuffled(count, (0..).zip(blocks).map(shuffled).collect())
    }

    fn places(count: u64, blocks: &[u64]) -> Vec<u64> {
        let mut order = order(count, blocks);
        (0..count).map(|position| order.place(0, position)).collect()
    }

    proptest! {
        #[test]
        fn positions_stay_in_their_block(count in 1_u64..200, block in 1_u64..250) {
            let found = places(count, &[block]);
            for (at, part) in found.chunks(block as usize).enumerate() {
                let mut part = part.to_vec();
                part.sort_unstable();
                let start = at as u64 * block;
                prop_assert_eq!(part, (start..(start + block).min(count)).collect::<Vec<_>>());
            }
        }

        #[test]
        fn places_depend_on_no_earlier_position(count in 1_u64..100, block in 1_u64..40, at in any::<u64>()) {
            let blocks = [count, block];
            prop_assert_eq!(order(count, &blocks).place(0, at % count), places(count, &blocks)[(at % count) as usize]);
        }
    }

    #[test]
    fn blocks_have_different_permutations() {
        let found = places(400, &[100]);
        let first: Vec<u64> = found[..100].to_vec();
        let second: Vec<u64> = found[100..200].iter().map(|place| place - 100).collect();
        assert_ne!(first, second);
    }
}
