//! The order in which a source is read: the source's own order, or the order of the full shuffles above it.

use super::permutation::Permutation;
use super::random::Seeds;

/// The order of a source's positions in each pass. The order is a function of seeds, pass and position, so it
/// has no state to save.
#[derive(Debug)]
pub(crate) struct Order {
    /// The number of permuted positions.
    count: u64,
    /// The seeds of each shuffle, with the outermost shuffle first.
    shuffles: Vec<Seeds>,
    /// The number of a pass and its permutations, outermost first. `None` before the first position.
    current: Option<(u64, Vec<Permutation>)>,
}

impl Order {
    /// Returns the source's own order.
    pub(crate) fn plain() -> Order {
        Order::shuffled(0, Vec::new())
    }

    /// Returns the order of `count` positions under `shuffles`, with the outermost shuffle first.
    pub(crate) fn shuffled(count: u64, shuffles: Vec<Seeds>) -> Order {
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
        if self.current.as_ref().is_none_or(|(current, _)| *current != pass) {
            let drawn = self.shuffles.iter().map(|seeds| seeds.draws(pass));
            let permutations = drawn.map(|draws| Permutation::new(draws, self.count)).collect();
            self.current = Some((pass, permutations));
        }
        let permutations = self.current.iter().flat_map(|(_, permutations)| permutations);
        permutations.fold(position, |position, permutation| permutation.place(position))
    }
}
