//! A permutation of `0..count` that takes no memory. Each place is computed from a key and a position.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::random::{Draws, mix};

/// Number of rounds of the network. Four rounds hide the order; eight rounds make all orders of a few
/// positions equally likely.
const ROUNDS: u64 = 8;

/// A generalised Feistel network over a grid of `columns` times `rows` cells. The number of cells is at least
/// `count` and less than `count + columns`. A position that lands in a cell beyond `count` moves again, so
/// that every position gets its own place below `count`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    draws: Draws,
    count: u64,
    columns: u64,
    rows: u64,
}

impl Permutation {
    /// Returns the permutation of `0..count` that `draws` decide.
    pub(crate) fn new(draws: Draws, count: u64) -> Permutation {
        let root = count.isqrt();
        // A grid of one column would only be rotated.
        let columns = (root + u64::from(root * root < count)).max(1);
        Permutation {
            draws,
            count,
            columns,
            rows: count.div_ceil(columns),
        }
    }

    /// Returns the place of `position`. A position of at least `count` is its own place.
    pub(crate) fn place(&self, position: u64) -> u64 {
        if position >= self.count {
            return position;
        }
        let mut place = self.step(position);
        while place >= self.count {
            place = self.step(place);
        }
        place
    }

    /// Moves a cell to another cell. No two cells move to the same cell.
    fn step(&self, cell: u64) -> u64 {
        let (mut column, mut row) = (cell % self.columns, cell / self.columns);
        for round in 0..ROUNDS {
            if round.is_multiple_of(2) {
                column = add(column, self.draw(round, row, self.columns), self.columns);
            } else {
                row = add(row, self.draw(round, column, self.rows), self.rows);
            }
        }
        // The result is below `columns * rows`, which is less than `count + columns`. A source has at most
        // 2^63 positions, so the sum cannot overflow.
        row * self.columns + column
    }

    fn draw(&self, round: u64, value: u64, bound: u64) -> u64 {
        self.draws.below(mix(round, value), bound)
    }
}

/// Returns the sum, modulo `modulus`, of two numbers below `modulus`. All numbers are below 2^33, so the sum
/// cannot overflow.
fn add(a: u64, b: u64, modulus: u64) -> u64 {
    (a + b) % modulus
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::exec::random::Seeds;

    fn permutation(seed: u64, count: u64) -> Permutation {
        let seeds = Seeds {
            seed: Some(seed),
            task_id: 0,
            epoch: 0,
            node: 1,
            fixed: false,
        };
        Permutation::new(seeds.draws(0), count)
    }

    fn places(seed: u64, count: u64) -> Vec<u64> {
        let permutation = permutation(seed, count);
        (0..count).map(|position| permutation.place(position)).collect()
    }

    proptest! {
        #[test]
        fn every_position_has_a_place_of_its_own(seed: u64, count in 0u64..2000) {
            let mut found = places(seed, count);
            found.sort_unstable();
            prop_assert_eq!(found, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn places_of_many_positions_stay_within(seed: u64, count in 1u64..1 << 62, position: u64) {
            let permutation = permutation(seed, count);
            prop_assert!(permutation.place(position % count) < count);
        }
    }

    #[test]
    fn all_orders_of_few_positions_are_equally_likely() {
        const DRAWS: u32 = 24_000;
        for (count, orders) in [(2, 2), (3, 6), (4, 24)] {
            let mut seen: BTreeMap<Vec<u64>, u32> = BTreeMap::new();
            for seed in 0..u64::from(DRAWS) {
                *seen.entry(places(seed, count)).or_default() += 1;
            }
            assert_eq!(seen.len(), orders, "of {count}");
            let expected = f64::from(DRAWS) / orders as f64;
            // The tolerance is seven standard deviations.
            let tolerated = 7.0 * expected.sqrt();
            for (order, times) in seen {
                let off = (f64::from(times) - expected).abs();
                assert!(
                    off < tolerated,
                    "order {order:?}: found {times} times, expected {expected} times"
                );
            }
        }
    }

    #[test]
    fn neighbours_are_torn_apart() {
        const COUNT: u64 = 1000;
        let neighbours = |seed| {
            let places = places(seed, COUNT);
            places
                .windows(2)
                .filter(|pair| pair[0].abs_diff(pair[1]) == 1)
                .count()
        };
        // By chance, two of a thousand pairs are neighbours; the sum over 25 seeds should be near 50.
        let all: usize = (0..25).map(neighbours).sum();
        assert!((10..100).contains(&all), "{all} neighbours");
    }
}
