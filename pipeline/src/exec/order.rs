//! The order in which a source is read: its own, or that of the full shuffles above it.

use super::permutation::Permutation;
use super::random::Seeds;

/// Order of a source's positions in each pass: a function of seeds, pass and position, so there is no state
/// to save.
#[derive(Debug)]
pub(crate) struct Order {
    /// The positions that are permuted.
    count: u64,
    /// The draws of each shuffle, the outermost first.
    shuffles: Vec<Seeds>,
    /// The permutations of one pass, in the same order; absent before the first position.
    current: Option<(u64, Vec<Permutation>)>,
}

impl Order {
    /// The source's own order.
    pub(crate) fn plain() -> Order {
        Order::shuffled(0, Vec::new())
    }

    /// The order of `count` positions that `shuffles` make, the outermost first.
    pub(crate) fn shuffled(count: u64, shuffles: Vec<Seeds>) -> Order {
        Order {
            count,
            shuffles,
            current: None,
        }
    }

    /// The place in the source of what pass `pass` reads at `position`.
    pub(crate) fn place(&mut self, pass: u64, position: u64) -> u64 {
        if self.shuffles.is_empty() {
            return position;
        }
        if self.current.as_ref().is_none_or(|(current, _)| *current != pass) {
            let drawn = self.shuffles.iter().map(|seeds| seeds.draws(pass));
            let permutations = drawn.map(|draws| Permutation::new(draws, self.count)).collect();
            self.current = Some((pass, permutations));
        }
        let permutations = self.current.iter().flat_map(|(_, permutations)| permutations);
        permutations.fold(position, |position, permutation| permutation.place(position))
    }
}
