//! Randomness as a function: of a seed, an epoch and a position. There is no state to save, and two workers
//! with one seed draw the same.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

/// The random numbers of one operation in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Draws {
    key: u64,
}

/// Seeds of an operation's draws, beside the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seeds {
    /// The operation's own seed, else the dataset's.
    pub(crate) seed: Option<u64>,
    /// Mixed in where there is no seed, so that tasks differ.
    pub(crate) task_id: u64,
    /// The pass over the whole dataset.
    pub(crate) epoch: u64,
    /// The operation's index in the graph, so that neighbours differ.
    pub(crate) node: u64,
    /// Whether every pass and epoch draws alike.
    pub(crate) fixed: bool,
}

impl Seeds {
    /// Draws the same in every pass and epoch if `fixed`; with a seed, also in every place of a graph.
    pub(crate) fn fixed_if(self, fixed: bool) -> Seeds {
        Seeds { fixed, ..self }
    }

    /// The draws of pass `pass` of the operation.
    pub(crate) fn draws(&self, pass: u64) -> Draws {
        let base = match self.seed {
            Some(seed) => mix(SEEDED, seed),
            None => mix(UNSEEDED, self.task_id),
        };
        let (epoch, node, pass) = match (self.fixed, self.seed) {
            (false, _) => (self.epoch, self.node, pass),
            (true, None) => (0, self.node, 0),
            // Alike wherever it stands, so that parts of one shuffled dataset go together.
            (true, Some(_)) => (0, 0, 0),
        };
        Draws {
            key: mix(mix(mix(base, epoch), node), pass),
        }
    }
}

impl Draws {
    /// A uniform number below `bound`, which is not 0, for `position`.
    pub(crate) fn below(&self, position: u64, bound: u64) -> u64 {
        let draw = mix(self.key, position);
        // The high half of the product is uniform up to a bias of bound / 2^64.
        ((u128::from(draw) * u128::from(bound)) >> 64) as u64
    }

    /// A number for `position`, for code with a generator of its own.
    pub(crate) fn number(&self, position: u64) -> u64 {
        mix(self.key, position)
    }

    /// Puts `items` into the order of the pass.
    pub(crate) fn shuffle<T>(&self, items: &mut [T]) {
        items.shuffle(&mut self.generator(0));
    }

    /// A generator for `position`, for code that draws several numbers.
    pub(crate) fn generator(&self, position: u64) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(mix(self.key, position))
    }
}

/// Combines two numbers into one that looks unrelated to both: two rounds of the SplitMix64 finaliser.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    finalise(finalise(a.wrapping_add(GOLDEN)) ^ b.wrapping_mul(GOLDEN).rotate_left(32))
}

fn finalise(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// 2^64 divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Keep seeded and unseeded draws apart, so that task 7 does not draw as seed 7 does.
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
        // 1000 expected each, standard deviation 29.
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
