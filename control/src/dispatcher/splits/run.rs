//! A run: consecutive splits leased together, and the cutting of runs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use crate::split::{LeaseRange, SplitRange};

/// Consecutive splits under consecutive leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Run {
    /// The number of the source.
    #[n(0)]
    pub source: u32,
    /// The number of the pass over the source.
    #[n(1)]
    pub repetition: u64,
    /// The index of the first split.
    #[n(2)]
    pub first_index: u64,
    /// The number of splits, at least 1.
    #[n(3)]
    pub count: u64,
    /// The lease of the first split.
    #[n(4)]
    pub first_lease: u64,
    /// The number of earlier leases of these splits whose worker was lost.
    #[n(5)]
    pub attempt: u32,
    /// True if a client may have seen some, but not all, elements of these splits.
    #[cbor(n(6), default)]
    pub seen: bool,
    /// The number of workers that died and may have died of one of these splits (C16.7).
    #[cbor(n(7), default)]
    pub deaths: u32,
    /// True if the splits were given up, so that a task only reports them as skipped (C16.9).
    #[cbor(n(8), default)]
    pub skipped: bool,
}

impl Run {
    /// Returns the leases of the run.
    pub fn leases(&self) -> LeaseRange {
        LeaseRange {
            first: self.first_lease,
            count: self.count,
        }
    }

    /// Returns the splits of the run.
    pub fn splits(&self) -> SplitRange {
        SplitRange {
            source: self.source,
            repetition: self.repetition,
            first: self.first_index,
            count: self.count,
        }
    }

    /// Returns the part of the run whose leases are in the range, and the remaining parts before and after
    /// the range.
    pub(super) fn cut(self, range: LeaseRange) -> (Option<Run>, [Option<Run>; 2]) {
        let last = self.leases().last();
        if range.last() < self.first_lease || range.first > last {
            return (None, [Some(self), None]);
        }
        let from = range.first.max(self.first_lease) - self.first_lease;
        let upto = range.last().min(last) - self.first_lease + 1;
        (
            self.part(from, upto),
            [self.part(0, from), self.part(upto, self.count)],
        )
    }

    fn part(self, from: u64, upto: u64) -> Option<Run> {
        (from < upto).then(|| Run {
            first_index: self.first_index + from,
            first_lease: self.first_lease + from,
            count: upto - from,
            ..self
        })
    }
}
