//! The events of an iteration that a reader follows. This file knows neither the dispatcher's messages nor
//! the reader's reactions.

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::Failure;

use crate::loss::LostSplits;
use crate::place::WorkerPlace;

/// An event of an iteration, as reported by the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    /// A worker has a task for this reader.
    Added(TaskSource),
    /// The dispatcher removed a task, which will deliver no further elements. The reader answers with
    /// [`Report::Removed`](crate::Report::Removed).
    Removed {
        /// The number of the task.
        task: TaskId,
        /// The reason, as text for people.
        reason: String,
        /// True if the worker left by a graceful shutdown.
        has_left: bool,
    },
    /// A task has ended, and everything that it produced was delivered. The worker may already be gone and
    /// unable to report the end.
    Ended {
        /// The number of the task.
        task: TaskId,
    },
    /// Elements of these splits are lost. The list may repeat splits of earlier events.
    SplitsLost {
        /// The splits.
        splits: Vec<LostSplits>,
        /// The address of the worker that held the splits; empty if unknown.
        worker: String,
    },
    /// A worker reported that a task failed. The event precedes the end of the iteration, and also reaches
    /// readers that join after the failure.
    TaskFailed {
        /// The number of the task.
        task: TaskId,
        /// The address of the worker.
        worker: String,
        /// The failure. It has the code `task`, and the worker's error text as its message.
        failure: Failure,
    },
    /// The iteration will have no further tasks.
    IterationFinished,
    /// The reader has received every event that preceded its start.
    CaughtUp,
    /// The dispatcher fixed the first round of a task in a coordinated read. The task had been added without
    /// a first round.
    Scheduled {
        /// The number of the task.
        task: TaskId,
        /// The first round that the task takes part in.
        start_round: u64,
    },
    /// The dispatcher fixed the number of groups to hand over from a removed task in a coordinated read.
    Concluded {
        /// The number of the task.
        task: TaskId,
        /// The number of the task's groups that every consumer hands over.
        groups: u64,
    },
    /// Consumers of a coordinated read did not start, or have ended.
    ConsumersLost {
        /// The numbers of the missing consumers.
        consumers: Vec<u32>,
    },
    /// The iteration has no worker left.
    WorkersLost {
        /// The addresses of the lost workers.
        workers: Vec<String>,
    },
    /// The connection to the dispatcher was lost or restored.
    Contact {
        /// True if the dispatcher is in reach.
        is_up: bool,
    },
    /// The service is shutting down. No event follows.
    ShutDown {
        /// The name of the process or person that requested the shutdown, as text.
        by: String,
    },
    /// True if the reader's lease may have ended without the reader's knowledge. While true, the reader hands
    /// over no elements (C4.4).
    LeaseDoubted(bool),
    /// The dispatcher has ended this reader's lease (C4.3).
    Lapsed,
    /// The dispatcher cannot continue. The text is the reason.
    Failed(String),
    /// The dispatcher was out of reach for longer than the timeout. The text is the reason.
    Unreachable(String),
}

/// A task that the reader reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSource {
    /// The number of the task.
    pub task: TaskId,
    /// The place of the task's worker.
    pub worker: WorkerPlace,
    /// The dispatcher's ticket for the task.
    pub ticket: Vec<u8>,
    /// The first round of a coordinated read that the task takes part in. `None` if the dispatcher fixes the
    /// round later, and in reads that are not coordinated.
    pub start_round: Option<u64>,
}
