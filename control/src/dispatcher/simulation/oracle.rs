//! The record of every delivered element, and the promises that the record must keep.

use std::collections::{BTreeMap, BTreeSet};

/// The number of elements of each split.
pub(super) const ELEMENTS: u32 = 2;

/// The name of a split: its repetition and its index.
pub(super) type SplitName = (u64, u64);

/// The record of all deliveries of an iteration.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    delivered: BTreeMap<SplitName, BTreeSet<u32>>,
    /// The splits that may be lost although no client saw them. A client was gone, silent or already
    /// drained while the splits were held, so that nobody knows what this client has seen.
    pub(super) excused: BTreeSet<SplitName>,
    /// True in an exactly-once job, whose reader drops elements that it already has. The oracle then knows
    /// no excuse for a lost split.
    pub(super) may_repeat: bool,
}

impl Oracle {
    pub(super) fn new(may_repeat: bool) -> Oracle {
        Oracle {
            may_repeat,
            ..Oracle::default()
        }
    }

    /// Records the delivery of an element, which must not have been delivered before, unless the reader drops
    /// repeated elements.
    pub(super) fn deliver(&mut self, split: SplitName, element: u32) {
        let new = self.delivered.entry(split).or_default().insert(element);
        assert!(
            new || self.may_repeat,
            "element {element} of split {split:?} was delivered twice"
        );
    }

    /// Checks at the end that each split was delivered completely or is reported lost. A split may be lost
    /// only if one of its elements was seen or it is excused.
    pub(super) fn check(&self, splits: u64, repetitions: u64, lost: &BTreeSet<SplitName>) {
        for name in (0..repetitions).flat_map(|repetition| (0..splits).map(move |index| (repetition, index)))
        {
            let arrived = self.delivered.get(&name).map_or(0, |elements| elements.len());
            assert!(
                !self.may_repeat || !lost.contains(&name),
                "split {name:?} was lost"
            );
            let whole = arrived == ELEMENTS as usize;
            if lost.contains(&name) {
                assert!(
                    arrived > 0 || self.excused.contains(&name),
                    "split {name:?} was lost although no client saw it"
                );
            } else {
                assert!(
                    whole,
                    "split {name:?} is incomplete and not reported lost: {arrived} elements arrived"
                );
            }
        }
    }
}
