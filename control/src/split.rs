//! Splits of sources, as workers receive them, and compact descriptions of many splits.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};

/// A unit of source data leased to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The number of the source in the dataset.
    pub source: u32,
    /// The number of the pass over the source, at most the requested pass.
    pub repetition: u64,
    /// The index of the split in the source.
    pub index: u64,
    /// The number of the lease, which is unique in the iteration.
    pub lease: u64,
    /// The attempt number: 0 for the first lease, increased by one each time the split is leased again
    /// after its worker was lost.
    pub attempt: u32,
    /// True if the dispatcher gave the split up, so that the task only reports it as skipped (C16.9).
    pub skipped: bool,
    /// The data that the source needs in addition to the index, such as a file's name. Empty for counted
    /// sources.
    pub payload: Vec<u8>,
    /// The version of the payload's file when the iteration was planned; `None` if the plan has no versions.
    pub version: Option<PayloadVersion>,
}

/// The version of the file that a payload names, as the planner encodes it. Zeros mean that the version is
/// unknown.
pub type PayloadVersion = ByteArray<16>;

/// A range of consecutive leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct LeaseRange {
    /// The first lease.
    #[n(0)]
    pub first: u64,
    /// The number of splits, at least 1.
    #[n(1)]
    pub count: u64,
}

impl LeaseRange {
    /// Returns the range of a single lease.
    pub fn one(lease: u64) -> LeaseRange {
        LeaseRange {
            first: lease,
            count: 1,
        }
    }

    /// Returns the last lease, saturating.
    pub fn last(&self) -> u64 {
        self.first.saturating_add(self.count.saturating_sub(1))
    }

    /// Returns the fewest ranges that contain exactly these leases. Sorts the leases, joins neighbours and
    /// drops duplicates.
    pub fn collect(leases: impl IntoIterator<Item = u64>) -> Vec<LeaseRange> {
        let mut leases: Vec<u64> = leases.into_iter().collect();
        leases.sort_unstable();
        leases.dedup();
        let mut ranges: Vec<LeaseRange> = Vec::new();
        for lease in leases {
            match ranges.last_mut() {
                Some(range) if range.last().checked_add(1) == Some(lease) => range.count += 1,
                Some(_) | None => ranges.push(LeaseRange::one(lease)),
            }
        }
        ranges
    }

    /// Returns the fewest ranges that contain exactly the leases of these ranges, in order.
    pub(crate) fn joined(mut ranges: Vec<LeaseRange>) -> Vec<LeaseRange> {
        ranges.sort_unstable();
        let mut joined: Vec<LeaseRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(before) if range.first <= before.last().saturating_add(1) => {
                    let last = range.last().max(before.last());
                    // A range of all 2^64 leases saturates the count, which is harmless because the last
                    // lease is never assigned.
                    before.count = (last - before.first).saturating_add(1);
                }
                Some(_) | None => joined.push(range),
            }
        }
        joined
    }
}

/// A range of consecutive splits of one source and repetition, with which messages name splits to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct SplitRange {
    /// The number of the source.
    #[n(0)]
    pub source: u32,
    /// The number of the pass over the source.
    #[n(1)]
    pub repetition: u64,
    /// The index of the first split.
    #[n(2)]
    pub first: u64,
    /// The number of splits.
    #[n(3)]
    pub count: u64,
}

/// The splits of a removed task that a client has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Seen {
    /// The leases of which the client received every element.
    #[n(0)]
    pub complete: Vec<LeaseRange>,
    /// The leases of which the client received some elements, but not all.
    #[n(1)]
    pub partial: Vec<LeaseRange>,
    /// The number of the task's groups that every consumer has received, as far as this consumer knows;
    /// coordinated reads only. The consumer hands over no further group before the verdict.
    #[cbor(n(2), default)]
    pub released: u64,
}

/// The minimum number of unstarted splits of a task that waits for splits. A task with fewer would soon be
/// idle, so it repeats its request at once, and gets a split.
pub(crate) const WAITS_WITH_MIN: u64 = 2;

/// The time for which the unstarted splits of a task should last. A dispatcher that is away for 10 s then
/// delays no reader, even if the outage begins just before the next request (C5.1).
pub(crate) const SPLITS_LAST: Duration = Duration::from_secs(15);

/// The rate at which a task starts splits, as its worker measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SplitPace {
    /// The number of splits that the task starts in 1000 s.
    #[n(0)]
    pub per_1000_s: u64,
    /// The number of splits that the task holds and has not started.
    #[n(1)]
    pub unstarted: u64,
    /// True if the task repeats a request that gets no splits with its present numbers. So it can wait while
    /// it holds its part (C5.1), or for its turn (C5.9). Workers of earlier versions repeat the first
    /// numbers.
    #[cbor(n(2), default)]
    pub can_wait: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares joined ranges with a plain set of leases.
        #[test]
        fn joined_ranges_hold_what_they_were_made_of(
            parts in prop::collection::vec((0_u64..40, 1_u64..10), 0..12)
        ) {
            let ranges: Vec<LeaseRange> = parts.iter().map(|(first, count)| LeaseRange { first: *first, count: *count }).collect();
            let leases = ranges.iter().flat_map(|range| range.first..=range.last());
            prop_assert_eq!(LeaseRange::joined(ranges.clone()), LeaseRange::collect(leases));
        }
    }

    #[test]
    fn absurd_ranges_are_joined_without_overflow() {
        let ranges = [(1, u64::MAX), (u64::MAX, u64::MAX), (0, 1), (0, u64::MAX)];
        let ranges = ranges.map(|(first, count)| LeaseRange { first, count });
        let everything = LeaseRange {
            first: 0,
            count: u64::MAX,
        };
        assert_eq!(LeaseRange::joined(ranges.to_vec()), [everything]);
    }

    #[test]
    fn ranges_hold_each_lease_once_whatever_the_order() {
        let ranges = LeaseRange::collect([5, 3, 4, 9, 4, u64::MAX]);
        let expected = [(3, 3), (9, 1), (u64::MAX, 1)].map(|(first, count)| LeaseRange { first, count });
        assert_eq!(ranges, expected);
        assert_eq!(LeaseRange::collect([]), []);
    }
}
