//! Record of every element that was delivered, and the promises that it must keep.

use std::collections::{BTreeMap, BTreeSet};

/// Elements of each split.
pub(super) const ELEMENTS: u32 = 2;

/// One split of one repetition.
pub(super) type SplitName = (u64, u64);

/// Every delivery of an iteration.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    delivered: BTreeMap<SplitName, BTreeSet<u32>>,
    /// Splits that may be given up though nobody saw them: somebody was gone, silent or not asked any more
    /// when they were held, so that nobody can say what that one has seen.
    pub(super) excused: BTreeSet<SplitName>,
}

impl Oracle {
    /// A client was handed an element: never the same twice.
    pub(super) fn deliver(&mut self, split: SplitName, element: u32) {
        let new = self.delivered.entry(split).or_default().insert(element);
        assert!(new, "element {element} of split {split:?} was delivered twice");
    }

    /// At the end: whole, or reported lost; and lost only if something of it was seen.
    pub(super) fn check(&self, splits: u64, repetitions: u64, lost: &BTreeSet<SplitName>) {
        for name in (0..repetitions).flat_map(|repetition| (0..splits).map(move |index| (repetition, index)))
        {
            let arrived = self.delivered.get(&name).map_or(0, |elements| elements.len());
            let whole = arrived == ELEMENTS as usize;
            if lost.contains(&name) {
                assert!(
                    arrived > 0 || self.excused.contains(&name),
                    "split {name:?} was given up though nobody saw it"
                );
            } else {
                assert!(
                    whole,
                    "split {name:?} is missing and nobody says so: {arrived} elements arrived"
                );
            }
        }
    }
}
