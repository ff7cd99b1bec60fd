//! A set of mostly consecutive numbers, stored as the smallest possible number of ranges.
//!
//! Pure. The memory depends on the number of gaps, not on the number of members.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A set of numbers. The ranges of the set neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    /// The last number of each range, by its first number.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds all numbers of a range. Numbers that the set already contains have no effect.
    pub(super) fn insert(&mut self, range: RangeInclusive<u64>) {
        let (mut first, mut last) = range.into_inner();
        if first > last {
            return;
        }
        // Fast path: most ranges directly follow the greatest number of the set.
        if let Some(mut greatest) = self.ranges.last_entry()
            && greatest.get().checked_add(1) == Some(first)
        {
            greatest.insert(last);
            return;
        }
        // Merges every range that overlaps or touches the new range, from the back.
        while let Some((&near, &end)) = self.ranges.range(..=last.saturating_add(1)).next_back() {
            if end.saturating_add(1) < first {
                break;
            }
            self.ranges.remove(&near);
            (first, last) = (first.min(near), last.max(end));
        }
        self.ranges.insert(first, last);
    }

    /// Returns the parts of a range that the set does not contain, in ascending order.
    pub(super) fn missing(&self, range: RangeInclusive<u64>) -> Vec<RangeInclusive<u64>> {
        let (first, last) = range.into_inner();
        // Only the last range that begins before `first` can reach into the requested range.
        let before = self.ranges.range(..first).next_back();
        let within = self.ranges.range(first..).take_while(|(near, _)| **near <= last);
        let (mut next, mut missing) = (Some(first), Vec::new());
        for (&near, &end) in before.into_iter().chain(within) {
            let Some(from) = next.filter(|from| end >= *from) else {
                continue;
            };
            if near > from {
                missing.push(from..=near - 1);
            }
            next = end.checked_add(1);
        }
        missing.extend(next.filter(|from| *from <= last).map(|from| from..=last));
        missing
    }

    /// Returns the ranges in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = RangeInclusive<u64>> + '_ {
        self.ranges.iter().map(|(first, last)| *first..=*last)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_of_all_numbers_can_be_held() {
        let mut ranges = Ranges::default();
        for range in [u64::MAX..=u64::MAX, 0..=0, 1..=u64::MAX - 1] {
            ranges.insert(range);
        }
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [0..=u64::MAX]);
    }

    #[test]
    fn nothing_is_missing_behind_the_last_number() {
        let mut ranges = Ranges::default();
        ranges.insert(5..=u64::MAX);
        assert_eq!(ranges.missing(3..=u64::MAX), [3..=4]);
        assert!(ranges.missing(u64::MAX..=u64::MAX).is_empty());
    }

    proptest! {
        #[test]
        fn missing_parts_are_those_not_held(
            inserted in prop::collection::vec((0u64..60, 0u64..9), 0..20),
            first in 0u64..70,
            more in 0u64..70,
        ) {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for (first, more) in inserted {
                ranges.insert(first..=first + more);
                model.extend(first..=first + more);
            }
            let missing: Vec<u64> = ranges.missing(first..=first + more).into_iter().flatten().collect();
            let expected: Vec<u64> = (first..=first + more).filter(|number| !model.contains(number)).collect();
            prop_assert_eq!(missing, expected);
        }

        #[test]
        fn ranges_hold_each_number_once_and_are_fewest(inserted in prop::collection::vec((0u64..60, 0u64..9), 0..30)) {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for (first, more) in inserted {
                ranges.insert(first..=first + more);
                model.extend(first..=first + more);
            }
            let held: Vec<u64> = ranges.iter().flatten().collect();
            prop_assert_eq!(held, model.iter().copied().collect::<Vec<_>>());
            let gaps = model.iter().filter(|number| !model.contains(&(*number + 1))).count();
            prop_assert_eq!(ranges.iter().count(), gaps);
        }
    }
}
