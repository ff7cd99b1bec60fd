//! The number of elements that were handed over within the last second. A reader that shares its job limits
//! its prefetch by this number.
//!
//! Pure: the caller supplies hand-overs and the time. This file does not know credits and elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::time::Duration;

/// The time for which a hand-over counts. A consumer that pauses for less time finds its usual number of
/// elements waiting. A consumer that has stopped leaves the elements to other readers.
const RECENT: Duration = Duration::from_secs(1);

/// Maximum number of intervals that are stored. A second usually has about ten intervals; shorter intervals
/// are forgotten earlier.
const INTERVALS_MAX: usize = 64;

/// Counts hand-overs within the last second, or within the last interval if that interval is longer than a
/// second.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The length and the number of hand-overs of each interval, oldest first.
    intervals: VecDeque<(Duration, u64)>,
    /// The sum of the hand-overs of all stored intervals.
    passed: u64,
    /// The number of hand-overs since the last stored interval.
    fresh: u64,
}

impl Recent {
    /// Counts elements that are handed over now.
    pub(super) fn note(&mut self, elements: u64) {
        self.fresh = self.fresh.saturating_add(elements);
    }

    /// Ends the current interval, whose length is `elapsed`.
    pub(super) fn pass(&mut self, elapsed: Duration) {
        let fresh = std::mem::take(&mut self.fresh);
        self.intervals.push_back((elapsed, fresh));
        self.passed = self.passed.saturating_add(fresh);
        let mut age: Duration = self.intervals.iter().map(|(length, _)| *length).sum();
        while let Some((length, elements)) = self.intervals.front().copied()
            && self.intervals.len() > 1
            && (age > RECENT || self.intervals.len() > INTERVALS_MAX)
        {
            self.intervals.pop_front();
            self.passed = self.passed.saturating_sub(elements);
            age = age.saturating_sub(length);
        }
    }

    /// Returns the number of elements handed over within the last second.
    pub(super) fn elements(&self) -> u64 {
        self.passed.saturating_add(self.fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_handed_over_counts_for_a_second() {
        let mut recent = Recent::default();
        recent.note(7);
        assert_eq!(recent.elements(), 7);
        for tenths in 1..=10 {
            recent.pass(RECENT / 10);
            assert_eq!(recent.elements(), 7, "{tenths}");
        }
        recent.pass(RECENT / 10);
        assert_eq!(recent.elements(), 0);
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_the_intervals(steps in prop::collection::vec((0u64..1000, 1u64..400), 0..300)) {
            let (mut recent, mut model) = (Recent::default(), Vec::new());
            for (elements, millis) in steps {
                recent.note(elements);
                model.push((elements, millis));
                prop_assert!(recent.elements() >= elements);
                recent.pass(Duration::from_millis(millis));
                let (mut age, mut sum, mut count) = (0, 0, 0);
                for (elements, millis) in model.iter().rev() {
                    (age, count) = (age + millis, count + 1);
                    if count > 1 && (age > 1000 || count > INTERVALS_MAX) {
                        break;
                    }
                    sum += elements;
                }
                prop_assert_eq!(recent.elements(), sum);
            }
        }
    }
}
