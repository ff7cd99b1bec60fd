//! Random numbers that are functions of a seed, an epoch and a position. The functions have no state to save,
//! and two workers with one seed draw the same numbers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

/// A function that returns the random numbers of one operation in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Draws {
    key: u64,
}

/// The seeds from which the draws of an operation are derived, together with the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seeds {
    /// The operation's own seed, or else the seed of the dataset.
    pub(crate) seed: Option<u64>,
    /// The number of the task, which replaces a missing seed so that tasks draw differently.
    pub(crate) task_id: u64,
    /// The number of the pass over the whole dataset.
    pub(crate) epoch: u64,
    /// The operation's index in the graph, so that different operations draw differently.
    pub(crate) node: u64,
    /// Whether every pass and epoch makes the same draws.
    pub(crate) fixed: bool,
}

impl Seeds {
    /// Returns seeds that make the same draws in every pass and epoch if `fixed`. With a seed, the draws are
    /// also independent of the operation's place in the graph.
    pub(crate) fn fixed_if(self, fixed: bool) -> Seeds {
        Seeds { fixed, ..self }
    }

    /// Returns the draws of the operation's pass `pass`.
    pub(crate) fn draws(&self, pass: u64) -> Draws {
        let base = match self.seed {
            Some(seed) => mix(SEEDED, seed),
            None => mix(UNSEEDED, self.task_id),
        };
        let (epoch, node, pass) = match (self.fixed, self.seed) {
            (false, _) => (self.epoch, self.node, pass),
            (true, None) => (0, self.node, 0),
            // The draws do not depend on the operation's place, so that shuffled parts of one dataset stay
            // paired.
            (true, Some(_)) => (0, 0, 0),
        };
        Draws {
            key: mix(mix(mix(base, epoch), node), pass),
        }
    }
}

impl Draws {
    /// Returns a uniform number below `bound` for `position`. `bound` must not be 0.
    pub(crate) fn below(&self, position: u64, bound: u64) -> u64 {
        let draw = mix(self.key, position);
        // The high half of the product is uniform up to a bias of bound / 2^64.
        ((u128::from(draw) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number for `position`, for code that has a generator of its own.
    pub(crate) fn number(&self, position: u64) -> u64 {
        mix(self.key, position)
    }

    /// Returns the draws of one block of positions. Block 0 has the draws of the operation.
    pub(crate) fn block(&self, number: u64) -> Draws {
        match number {
            0 => *self,
            _ => Draws {
                key: mix(self.key, number),
            },
        }
    }

    /// Shuffles `items` into the order of the pass.
    pub(crate) fn shuffle<T>(&self, items: &mut [T]) {
        items.shuffle(&mut self.generator(0));
    }

    /// Returns a generator for `position`, for code that draws several numbers.
    pub(crate) fn generator(&self, position: u64) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(mix(self.key, position))
    }
}

/// Combines two numbers into a number that looks unrelated to both, by two rounds of the SplitMix64
/// finaliser.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    finalise(finalise(a.wrapping_add(GOLDEN)) ^ b.wrapping_mul(GOLDEN).rotate_left(32))
}

/// Returns a digest that distinguishes contents. The digest is not cryptographic: two contents with one
/// digest can be constructed.
pub(crate) fn digest_of(bytes: &[u8]) -> u64 {
    let mut digest = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        digest = mix(digest, u64::from_le_bytes(word));
    }
    digest
}

fn finalise(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The odd integer closest to 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// The key of seeded draws. The key differs from [`UNSEEDED`], so that task 7 and seed 7 draw different
/// numbers.
const SEEDED: u64 = 1;
const UNSEEDED: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(seed: Option<u64>, task_id: u64, epoch: u64) -> Seeds {
        Seeds {
            seed,
            task_id,
            epoch,
            node: 3,
            fixed: false,
        }
    }

    #[test]
    fn a_seed_draws_the_same_on_every_worker() {
        assert_eq!(seeds(Some(7), 1, 0).draws(0), seeds(Some(7), 2, 0).draws(0));
        assert_ne!(seeds(None, 1, 0).draws(0), seeds(None, 2, 0).draws(0));
        assert_ne!(seeds(Some(7), 7, 0).draws(0), seeds(None, 7, 0).draws(0));
    }

    #[test]
    fn epochs_and_passes_draw_differently() {
        assert_ne!(seeds(Some(7), 1, 0).draws(0), seeds(Some(7), 1, 1).draws(0));
        assert_ne!(seeds(Some(7), 1, 0).draws(0), seeds(Some(7), 1, 0).draws(1));
    }

    #[test]
    fn fixed_draws_repeat_in_every_pass() {
        let fixed = |seed, task, epoch| seeds(seed, task, epoch).fixed_if(true);
        assert_eq!(fixed(Some(7), 1, 0).draws(0), fixed(Some(7), 1, 2).draws(3));
        assert_ne!(fixed(Some(7), 1, 0).draws(0), fixed(Some(8), 1, 0).draws(0));
        assert_ne!(fixed(None, 1, 0).draws(0), fixed(None, 2, 0).draws(0));
    }

    #[test]
    fn draws_reach_every_value_below_their_bound() {
        let draws = seeds(Some(1), 0, 0).draws(0);
        let mut seen = [0u32; 7];
        for position in 0..7_000 {
            seen[draws.below(position, 7) as usize] += 1;
        }
        // The expected count is 1000, with a standard deviation of 29.
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
