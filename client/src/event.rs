//! The events of an iteration that a reader follows. Knows neither the dispatcher's messages nor what a
//! reader does.

use millstream_dataplane::TaskId;

use crate::loss::LostSplits;
use crate::place::WorkerPlace;

/// An event of an iteration, as the dispatcher tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    /// A worker has a task for this reader.
    Added(TaskSource),
    /// A task is no more; nothing further comes of it. Answered with
    /// [`Report::Removed`](crate::Report::Removed).
    Removed {
        /// The task.
        task: TaskId,
        /// The reason, for people.
        reason: String,
        /// Whether its worker left by itself, as when it is stopped.
        has_left: bool,
    },
    /// Nothing more comes of a task: what it produced was delivered. Its worker may not be there to say so.
    Ended {
        /// The task.
        task: TaskId,
    },
    /// Elements of these splits are lost. Those named before may be among them.
    SplitsLost {
        /// The splits.
        splits: Vec<LostSplits>,
        /// The address of the worker that had them; empty if it is not known.
        worker: String,
    },
    /// A worker reported that a task failed. Comes before the end of the iteration, also for who joins late.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// The worker.
        worker: String,
        /// The error text of the worker.
        message: String,
    },
    /// No further task comes.
    IterationFinished,
    /// The reader has been told everything that held when it came.
    CaughtUp,
    /// A task of a coordinated read that was added without a start takes part from this round on.
    Scheduled {
        /// The task.
        task: TaskId,
        /// The first round that it is in.
        start_round: u64,
    },
    /// The dispatcher has settled how many groups of a removed task in a coordinated read are handed over.
    Concluded {
        /// The task.
        task: TaskId,
        /// The number of its groups that every consumer hands over.
        groups: u64,
    },
    /// Consumers of a coordinated read did not come, or are gone.
    ConsumersLost {
        /// Their numbers.
        consumers: Vec<u32>,
    },
    /// No worker is left.
    WorkersLost {
        /// The addresses of those that were lost.
        workers: Vec<String>,
    },
    /// The dispatcher is in reach again, or out of it.
    Contact {
        /// Whether it is in reach.
        is_up: bool,
    },
    /// The service ends: nothing follows.
    ShutDown {
        /// The person who asked for it, in words.
        by: String,
    },
    /// Whether the dispatcher may have ended this reader's lease without its knowledge: meanwhile nothing is
    /// handed over (C4.4).
    LeaseDoubted(bool),
    /// The dispatcher has ended this reader's lease (C4.3).
    Lapsed,
    /// The dispatcher cannot go on.
    Failed(String),
    /// The dispatcher was out of reach for too long.
    Unreachable(String),
}

/// A task that the reader reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSource {
    /// The task.
    pub task: TaskId,
    /// The place of its worker.
    pub worker: WorkerPlace,
    /// The dispatcher's ticket for it.
    pub ticket: Vec<u8>,
    /// The first round of a coordinated read that it takes part in; `None`: that is settled later. Has no
    /// meaning elsewhere.
    pub start_round: Option<u64>,
}
