//! The reports of a reader to the dispatcher. This file does not know how reports are sent.

use std::ops::RangeInclusive;

use millstream_dataplane::TaskId;

/// A report of a reader to the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The reader dropped a removed task, of which it had received elements of these splits.
    Removed {
        /// The number of the task.
        task: TaskId,
        /// The splits whose elements the reader received.
        seen: SeenSplits,
    },
    /// The user is done with these splits, all of whose elements had arrived.
    Done {
        /// The task to which the splits were leased.
        task: TaskId,
        /// The leases of the splits, as ascending ranges that do not touch.
        leases: Vec<RangeInclusive<u64>>,
    },
    /// All elements of these splits have arrived, but some of them wait for the user (C5.8).
    Waiting {
        /// The task to which the splits were leased.
        task: TaskId,
        /// The leases of the splits, as ascending ranges that do not touch.
        leases: Vec<RangeInclusive<u64>>,
    },
    /// The end of a task has arrived, and all its elements before.
    Drained {
        /// The number of the task.
        task: TaskId,
    },
    /// The link to a worker was lost, perhaps because the worker died.
    Suspect {
        /// The worker's address.
        worker: String,
    },
    /// A task that was added without a start can take part from this round on.
    Ready {
        /// The number of the task.
        task: TaskId,
        /// The first round that the user has not begun, and does not begin before the start is known.
        earliest: u64,
    },
}

/// The splits of a removed task whose elements the reader received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenSplits {
    /// Leases of splits of which the reader has some elements but not all, as ascending ranges that do not
    /// touch. A range beyond the task's leases stands for all leases that the task held.
    pub partial: Vec<RangeInclusive<u64>>,
    /// In coordinated reads, the number of the task's groups that this reader hands over without knowing the
    /// dispatcher's verdict.
    pub released: u64,
}

impl SeenSplits {
    /// Returns the answer for an element that cannot be read, which may belong to any split.
    pub(crate) fn everything() -> Self {
        Self {
            partial: vec![0..=u64::MAX],
            released: 0,
        }
    }
}
