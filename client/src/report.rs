//! The reports of a reader to the dispatcher. Knows not how they travel.

use std::ops::RangeInclusive;

use millstream_dataplane::TaskId;

/// A report of a reader to the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A removed task is dropped, and this was seen of it.
    Removed {
        /// The task.
        task: TaskId,
        /// The splits it gave elements of.
        seen: SeenSplits,
    },
    /// The user is done with these splits, all of which had arrived.
    Done {
        /// The task they were leased to.
        task: TaskId,
        /// Their leases, ascending, apart from each other.
        leases: Vec<RangeInclusive<u64>>,
    },
    /// Splits were received to their ends, and elements of them wait for the user (C5.8).
    Waiting {
        /// The task they were leased to.
        task: TaskId,
        /// Their leases, ascending, apart from each other.
        leases: Vec<RangeInclusive<u64>>,
    },
    /// The end of a task arrived, and everything before it.
    Drained {
        /// The task.
        task: TaskId,
    },
    /// The link to a worker was lost, which may be the worker's death.
    Suspect {
        /// The worker's address.
        worker: String,
    },
    /// A task that was added without a start can take part from this round on.
    Ready {
        /// The task.
        task: TaskId,
        /// The first round that the user has not begun, and does not begin before the start is known.
        earliest: u64,
    },
}

/// The splits of a removed task that this reader has elements of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenSplits {
    /// Leases of splits that it has elements of, but not all: ascending, apart from each other. More than the
    /// task ever held counts as all of those.
    pub partial: Vec<RangeInclusive<u64>>,
    /// In coordinated reads: how many of the task's groups this reader hands over without knowing the
    /// verdict.
    pub released: u64,
}

impl SeenSplits {
    /// The answer where an element cannot be read, which may then be of any split.
    pub(crate) fn everything() -> Self {
        Self {
            partial: vec![0..=u64::MAX],
            released: 0,
        }
    }
}
