//! The ways in which a task ends before its data does, with their names in records and messages.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use minicbor::{Decode, Encode};

use crate::exactly_once::FailedElement;
use crate::id::{TaskId, WorkerId};
use crate::split::SplitRange;

/// A failed task, as its readers are told of the failure.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TaskFailure {
    /// The failed task.
    #[n(0)]
    pub task: TaskId,
    /// The address of the task's worker.
    #[n(1)]
    pub worker_address: String,
    /// The error text of the worker.
    #[n(2)]
    pub message: String,
    /// The incarnation of the worker.
    #[n(3)]
    pub worker: Option<WorkerId>,
    /// The failed element, if another job can leave it out (C16.12).
    #[n(4)]
    pub element: Option<FailedElement>,
}

/// A worker's report that a task cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureReport {
    /// The reason, in words for the user.
    pub message: String,
    /// The failed element, if another job can leave it out (C16.12).
    pub element: Option<FailedElement>,
}

impl FailureReport {
    /// Returns the report of a task that failed at no single element.
    pub fn new(message: impl Into<String>) -> FailureReport {
        FailureReport {
            message: message.into(),
            element: None,
        }
    }
}

/// The splits of one task for which a worker's death counts (C16.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum Blame {
    /// No split: the worker left, or died of the split of another task.
    #[default]
    #[n(0)]
    Nothing,
    /// All splits that the task held, because any of them may have ended the worker.
    #[n(1)]
    AllSplits,
    /// The split of this lease, which the task read alone.
    #[n(2)]
    Lease(#[n(0)] u64),
}

/// The splits that a worker held when it died, for messages.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HeldAtDeath {
    /// The address of the dead worker.
    #[n(0)]
    pub worker_address: String,
    /// The first ranges of the splits for which the death counts.
    #[n(1)]
    pub splits: Vec<SplitRange>,
}

/// The reason for which a worker's tasks were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RemovalReason {
    /// The worker was silent for too long.
    #[n(0)]
    WorkerSilent,
    /// Another process now serves at the worker's address.
    #[n(1)]
    WorkerRestarted,
    /// The worker sent its goodbye message.
    #[n(2)]
    WorkerLeft,
}

impl fmt::Display for RemovalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RemovalReason::WorkerSilent => "the worker stopped answering",
            RemovalReason::WorkerRestarted => "the worker restarted",
            RemovalReason::WorkerLeft => "the worker was stopped",
        })
    }
}
