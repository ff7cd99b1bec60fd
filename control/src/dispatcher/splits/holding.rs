//! What one task holds: leases given to it and not yet known to be delivered, as few runs as possible.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use super::Run;
use crate::split::LeaseRange;

/// The leases of one task. Cuts and lookups take time logarithmic in the number of runs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Holding {
    /// How many splits the next lease may have: doubles with each.
    #[n(0)]
    batch: u32,
    /// By first lease; they do not overlap.
    #[n(1)]
    runs: BTreeMap<u64, Run>,
    /// Splits in `runs`.
    #[n(2)]
    splits: u64,
}

impl Default for Holding {
    fn default() -> Holding {
        Holding {
            batch: 1,
            runs: BTreeMap::new(),
            splits: 0,
        }
    }
}

impl Holding {
    /// How many splits the next lease may have, up to the limit; the one after it twice as many.
    pub(crate) fn next_batch(&mut self, limit: u32) -> u32 {
        let batch = self.batch.min(limit).max(1);
        self.batch = batch.saturating_mul(2).min(limit);
        batch
    }

    /// Takes a run over.
    pub(crate) fn insert(&mut self, run: Run) {
        self.splits += run.count;
        if let Some((_, before)) = self.runs.range_mut(..run.first_lease).next_back() {
            let follows = before.first_lease + before.count == run.first_lease
                && before.first_index + before.count == run.first_index
                && (before.source, before.repetition) == (run.source, run.repetition)
                && (before.attempt, before.seen) == (run.attempt, run.seen);
            if follows {
                before.count += run.count;
                return;
            }
        }
        self.runs.insert(run.first_lease, run);
    }

    /// Removes the leases of the range that it holds, and returns them as runs.
    pub(crate) fn take(&mut self, range: LeaseRange) -> Vec<Run> {
        let mut taken = Vec::new();
        for first in self.touched(range) {
            let Some(run) = self.runs.remove(&first) else {
                continue;
            };
            let (part, rest) = run.cut(range);
            self.splits -= part.map_or(0, |part| part.count);
            taken.extend(part);
            for run in rest.into_iter().flatten() {
                self.runs.insert(run.first_lease, run);
            }
        }
        taken
    }

    /// Removes everything.
    pub(crate) fn take_all(&mut self) -> Vec<Run> {
        self.splits = 0;
        std::mem::take(&mut self.runs).into_values().collect()
    }

    /// Notes that a client may have seen elements of these leases.
    pub(crate) fn mark_seen(&mut self, range: LeaseRange) {
        for run in self.take(range) {
            self.splits += run.count;
            self.runs.insert(run.first_lease, Run { seen: true, ..run });
        }
    }

    /// Notes that a client may have seen elements of any of its leases.
    pub(crate) fn mark_all_seen(&mut self) {
        for run in self.runs.values_mut() {
            run.seen = true;
        }
    }

    /// What it holds, in the order of the leases.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.values()
    }

    /// How many splits it holds.
    pub(crate) fn split_count(&self) -> u64 {
        self.splits
    }

    /// Whether it holds nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn touched(&self, range: LeaseRange) -> Vec<u64> {
        let before = self.runs.range(..range.first).next_back();
        before
            .into_iter()
            .chain(self.runs.range(range.first..=range.last()))
            .filter(|(_, run)| run.leases().last() >= range.first)
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
        }
    }

    fn leases(holding: &Holding) -> BTreeSet<(u64, bool)> {
        let each = |run: &Run| {
            let seen = run.seen;
            (run.first_lease..run.first_lease + run.count).map(move |lease| (lease, seen))
        };
        holding.runs().flat_map(each).collect()
    }

    proptest! {
        /// Oracle: a plain set of leases.
        #[test]
        fn it_holds_exactly_what_was_put_in_and_not_taken(
            ops in prop::collection::vec((0_u8..3, 0_u64..60, 1_u64..12), 1..40)
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
                        // Sometimes adjacent, sometimes with a gap.
                        next += count + first % 2;
                    }
                    1 => {
                        let taken: u64 = holding.take(range).iter().map(|run| run.count).sum();
                        let before = model.len();
                        model.retain(|(lease, _)| !in_range(lease));
                        prop_assert_eq!(taken, (before - model.len()) as u64);
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
    fn batches_begin_with_one_and_double_up_to_the_limit() {
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
