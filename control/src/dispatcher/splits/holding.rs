//! The leases of one task that are not yet known to be delivered.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use super::Run;
use super::piece::{PIECE_SPLITS_MAX, Piece};
use crate::split::LeaseRange;

/// The leases of one task. Lookups take time logarithmic in the number of leased batches.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Holding {
    /// The maximum number of splits of the next lease, which doubles with each lease.
    #[n(0)]
    batch: u32,
    /// The pieces of the held leases, by their first lease. Pieces do not overlap, and no piece is empty.
    #[n(1)]
    pieces: BTreeMap<u64, Piece>,
    /// The number of held splits.
    #[n(2)]
    splits: u64,
    /// The repetition and index of the latest split that the task was ever given.
    #[n(3)]
    latest: Option<(u64, u64)>,
}

impl Default for Holding {
    fn default() -> Holding {
        Holding {
            batch: 1,
            pieces: BTreeMap::new(),
            splits: 0,
            latest: None,
        }
    }
}

impl Holding {
    /// Returns the maximum number of splits of the next lease, up to the limit, and doubles the maximum for
    /// the lease after that.
    pub(crate) fn next_batch(&mut self, limit: u32) -> u32 {
        let batch = self.batch.min(limit).max(1);
        self.batch = batch.saturating_mul(2).min(limit);
        batch
    }

    /// Adds a run of leased splits.
    pub(crate) fn insert(&mut self, run: Run) {
        self.splits += run.count;
        let last = run.first_index + run.count.saturating_sub(1);
        self.latest = self.latest.max(Some((run.repetition, last)));
        let mut rest = Some(run);
        while let Some(run) = rest {
            let first = LeaseRange {
                first: run.first_lease,
                count: PIECE_SPLITS_MAX,
            };
            let (piece, [_, behind]) = run.cut(first);
            rest = behind;
            self.pieces
                .extend(piece.map(|run| (run.first_lease, Piece::whole(run))));
        }
    }

    /// Removes the held leases of the range, and returns them as runs.
    pub(crate) fn take(&mut self, range: LeaseRange) -> Vec<Run> {
        let mut taken = Vec::new();
        for first in self.touched(range) {
            if let Some(piece) = self.pieces.get_mut(&first) {
                taken.extend(piece.take(range));
                if piece.is_empty() {
                    self.pieces.remove(&first);
                }
            }
        }
        self.splits -= taken.iter().map(|run| run.count).sum::<u64>();
        taken
    }

    /// Adds a run, and replaces the held splits of the same leases.
    pub(crate) fn put(&mut self, run: Run) {
        self.take(run.leases());
        let mut runs = vec![run];
        // A piece may have gaps, but no other piece begins within a gap.
        for first in self.touched(run.leases()) {
            runs.extend(self.pieces.remove(&first).iter().flat_map(Piece::runs));
        }
        self.splits -= runs.iter().skip(1).map(|run| run.count).sum::<u64>();
        runs.into_iter().for_each(|run| self.insert(run));
    }

    /// Returns the held leases of the range, as runs.
    pub(crate) fn within(&self, range: LeaseRange) -> Vec<Run> {
        self.runs()
            .into_iter()
            .filter_map(|run| run.cut(range).0)
            .collect()
    }

    /// Removes all leases, and returns them as runs.
    pub(crate) fn take_all(&mut self) -> Vec<Run> {
        let all = self.runs();
        self.splits = 0;
        self.pieces.clear();
        all
    }

    /// Notes that a client may have seen elements of these leases.
    pub(crate) fn mark_seen(&mut self, range: LeaseRange) {
        for first in self.touched(range) {
            if let Some(piece) = self.pieces.get_mut(&first) {
                piece.mark_seen(range);
            }
        }
    }

    /// Notes that a client may have seen elements of all leases.
    pub(crate) fn mark_all_seen(&mut self) {
        self.pieces.values_mut().for_each(Piece::mark_all_seen);
    }

    /// Returns the held leases as runs, in order.
    pub(crate) fn runs(&self) -> Vec<Run> {
        self.pieces.values().flat_map(Piece::runs).collect()
    }

    /// Returns the repetition and index of the latest split that the task was ever given.
    pub(crate) fn latest(&self) -> Option<(u64, u64)> {
        self.latest
    }

    /// Returns the number of held splits.
    pub(crate) fn split_count(&self) -> u64 {
        self.splits
    }

    /// Returns whether no lease is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the keys of the pieces that have leases of the range.
    fn touched(&self, range: LeaseRange) -> Vec<u64> {
        let before = self.pieces.range(..range.first).next_back();
        before
            .into_iter()
            .chain(self.pieces.range(range.first..=range.last()))
            .filter(|(_, piece)| piece.leases().last() >= range.first)
            .map(|(first, _)| *first)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn run(first_lease: u64, count: u64) -> Run {
        Run {
            source: 0,
            repetition: 0,
            first_index: first_lease + 100,
            count,
            first_lease,
            attempt: 0,
            seen: false,
            deaths: 0,
            skipped: false,
        }
    }

    fn leases(holding: &Holding) -> BTreeSet<(u64, bool)> {
        let each = |run: Run| {
            let seen = run.seen;
            (run.first_lease..run.first_lease + run.count).map(move |lease| (lease, seen))
        };
        holding.runs().into_iter().flat_map(each).collect()
    }

    proptest! {
        /// Compares the holding with a plain set of leases after random operations.
        #[test]
        fn it_holds_what_was_inserted_and_not_removed(
            ops in prop::collection::vec((0_u8..4, 0_u64..3000, 1_u64..1500), 1..40)
        ) {
            let mut holding = Holding::default();
            let mut model = BTreeSet::new();
            let mut next = 0;
            for (op, first, count) in ops {
                let range = LeaseRange { first, count };
                let in_range = |lease: &u64| (first..first + count).contains(lease);
                match op {
                    0 => {
                        holding.insert(run(next, count));
                        model.extend((next..next + count).map(|lease| (lease, false)));
                        // Successive runs are sometimes adjacent, and sometimes have a gap.
                        next += count + first % 2;
                    }
                    1 => {
                        let taken: u64 = holding.take(range).iter().map(|run| run.count).sum();
                        let before = model.len();
                        model.retain(|(lease, _)| !in_range(lease));
                        prop_assert_eq!(taken, (before - model.len()) as u64);
                    }
                    2 if first < next => {
                        let count = count.min(next - first);
                        holding.put(run(first, count));
                        model.retain(|(lease, _)| !(first..first + count).contains(lease));
                        model.extend((first..first + count).map(|lease| (lease, false)));
                        prop_assert_eq!(holding.within(LeaseRange { first, count }).iter().map(|run| run.count).sum::<u64>(), count);
                    }
                    _ => {
                        holding.mark_seen(range);
                        model = model.into_iter().map(|(lease, seen)| (lease, seen || in_range(&lease))).collect();
                    }
                }
                prop_assert_eq!(leases(&holding), model.clone());
                prop_assert_eq!(holding.split_count(), model.len() as u64);
                for run in holding.runs() {
                    prop_assert_eq!(run.first_index, run.first_lease + 100);
                }
            }
        }
    }

    #[test]
    fn scattered_splits_take_a_fraction_of_a_byte() {
        const SPLITS: u64 = 1 << 20;
        let mut holding = Holding::default();
        holding.insert(run(0, SPLITS));
        // Every second split is delivered, as after a shuffle.
        for lease in (0..SPLITS).step_by(2) {
            assert_eq!(holding.take(LeaseRange::one(lease)).len(), 1);
        }
        assert_eq!(holding.split_count(), SPLITS / 2);
        let bytes = minicbor::to_vec(&holding).unwrap();
        assert!((bytes.len() as u64) < SPLITS / 3, "{} bytes", bytes.len());
        assert_eq!(minicbor::decode::<Holding>(&bytes).unwrap(), holding);
    }

    #[test]
    fn batches_double_from_one_to_the_limit() {
        let mut holding = Holding::default();
        let batches: Vec<u32> = (0..6).map(|_| holding.next_batch(10)).collect();
        assert_eq!(batches, [1, 2, 4, 8, 10, 10]);
        assert_eq!(holding.next_batch(0), 1);
    }

    #[test]
    fn absurd_ranges_neither_overflow_nor_take_time() {
        let mut holding = Holding::default();
        holding.insert(run(7, 3));
        holding.mark_seen(LeaseRange {
            first: u64::MAX,
            count: u64::MAX,
        });
        let everything = LeaseRange {
            first: 0,
            count: u64::MAX,
        };
        assert_eq!(holding.take(everything), [run(7, 3)]);
        assert!(holding.is_empty());
    }
}
