//! The ways in which a task ends before its data does, with their names in records and messages.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use minicbor::{Decode, Encode};

use crate::id::{TaskId, WorkerId};

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
