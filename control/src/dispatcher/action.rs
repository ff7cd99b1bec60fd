//! The outputs of the dispatcher: the shell carries out an action after the changes before it are stored.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::sync::Arc;

use minicbor::{Decode, Encode};

use super::event::ReplyToken;
use super::failure::{RemovalReason, TaskFailure};
use super::record::DatasetRecord;
use super::splits::Run;
use super::status::Status;
use crate::error::Error;
use crate::exactly_once::{ExactlyOnce, FailedElement};
use crate::id::{ClientId, DatasetId, IterationId, JobId, SessionId, TaskId, WorkerId};
use crate::job::Policy;
use crate::planner::SplitPlan;
use crate::split::SplitRange;
use crate::whereabouts::Whereabouts;

/// An output of the state machine, which the shell carries out.
#[derive(Debug)]
pub enum Action {
    /// Answers a request.
    Reply {
        /// The token of the request that is answered.
        token: ReplyToken,
        /// The answer.
        result: Result<Reply, Error>,
    },
    /// Sends a message to a client. The shell drops the message if the client's process is not connected:
    /// the client asks for a snapshot when it reconnects.
    PushClient {
        /// The session of the client's process.
        session: SessionId,
        /// The client that receives the message.
        client: ClientId,
        /// The message.
        push: ClientPush,
    },
    /// Asks whether a process listens at a worker's address. The shell answers
    /// with [`Event::WorkerProbed`](super::Event::WorkerProbed), or may leave the probe undone.
    ProbeWorker {
        /// The worker to probe.
        worker: WorkerId,
        /// The address of the worker.
        address: String,
    },
    /// Sends a message to a worker. The shell drops the message if the worker is not connected: the worker
    /// receives its assignment when it reconnects.
    PushWorker {
        /// The worker's session.
        session: SessionId,
        /// The message.
        push: WorkerPush,
    },
    /// Asks the planner for a split plan, outside the event loop. The shell answers
    /// with [`Event::SplitsPlanned`](super::Event::SplitsPlanned).
    PlanSplits {
        /// The iteration that needs the plan.
        iteration: IterationId,
        /// The number of the iteration within its job.
        repetition: u64,
        /// The dataset whose sources are listed.
        dataset: Arc<DatasetRecord>,
    },
    /// Closes the connection of a worker that the dispatcher has given up for dead.
    Disconnect {
        /// The session of the process.
        session: SessionId,
        /// The reason, for people.
        reason: String,
    },
}

/// The answer to a request that was granted.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Success without a further result.
    Done,
    /// The id of a dataset.
    Dataset(DatasetId),
    /// The facts of a dataset.
    DatasetInfo(Arc<DatasetRecord>),
    /// The dataset whose definition was requested.
    Definition(Arc<DatasetRecord>),
    /// The id of a job.
    Job(JobId),
    /// The id of a client, and the digest of the files that its iteration reads (C16.11).
    Client(ClientId, Option<u64>),
    /// A lease of splits from the plan.
    Splits {
        /// The leased splits, in runs of consecutive splits.
        runs: Vec<Run>,
        /// True if this pass over the source has no more splits for the task.
        end: bool,
        /// The number of the current pass over the source, from which the dispatcher leases splits.
        current: u64,
        /// True if this lease has the maximum length, so that the task may ask for another lease (C5.9).
        more: bool,
        /// The plan that has the splits' payloads.
        plan: Arc<SplitPlan>,
    },
    /// The definition of a task.
    Task(Box<TaskDef>),
    /// The id of a worker.
    Worker(WorkerId),
    /// The status of the whole service.
    Status(Box<Status>),
}

/// The facts that a worker needs to run a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDef {
    /// The id of the task.
    pub task: TaskId,
    /// The iteration of the task.
    pub iteration: IterationId,
    /// The job of the iteration.
    pub job: JobId,
    /// The number of the iteration within its job.
    pub repetition: u64,
    /// The sharding policy of the job.
    pub policy: Policy,
    /// The worker's number from 0: its place in the fixed list of workers, or else its place in the order
    /// of registration.
    pub worker_index: u64,
    /// The number of workers among which static sharding divides the dataset. The worker reads the share of
    /// its own number. 0 without static sharding.
    pub worker_count: u64,
    /// The number of consumers of a coordinated read, which take the task's elements in turn.
    pub num_consumers: Option<u32>,
    /// True if the task has the cross-trainer cache, so that trainers share the elements that the task
    /// keeps.
    pub cross_trainer_cache: bool,
    /// The settings of an exactly-once job, whose pipeline runs once for each split (C16.1). Leases count the
    /// selected splits only (C16.3).
    pub exactly_once: Option<ExactlyOnce>,
    /// The dataset and its definition.
    pub dataset: Arc<DatasetRecord>,
    /// The plan of the sources, whose listings make every worker read or divide the same files. Under
    /// DYNAMIC the plan has no sources, because the payloads arrive with the splits.
    pub plan: Arc<SplitPlan>,
}

/// The facts that a client needs to read a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// The task.
    pub task: TaskId,
    /// The address at which the worker serves the task.
    pub worker_address: String,
    /// The incarnation of the worker.
    pub worker: WorkerId,
    /// The labels of the worker.
    pub worker_tags: Vec<String>,
    /// The ticket: the signed permission by which the client subscribes to the task.
    pub ticket: Vec<u8>,
    /// The first round of a coordinated read in which the task takes part. `None` until the round is known:
    /// each consumer then reports its first possible round. 0 outside of coordinated reads.
    pub start_round: Option<u64>,
    /// The host and process of the worker.
    pub whereabouts: Whereabouts,
    /// The worker's local socket, if the client and the worker share a host and the worker has a local
    /// socket.
    pub local_socket: Option<String>,
}

/// A message that the dispatcher sends to a client without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientPush {
    /// The state of the iteration, after the client has attached. A task that the client knows and the
    /// snapshot lacks has ended.
    Snapshot(Snapshot),
    /// A new task for the client to read.
    TaskAdded(TaskInfo),
    /// A removed task: the client drops its further elements and acknowledges the removal.
    TaskRemoved(TaskRemoved),
    /// A task that reported an error.
    TaskFailed {
        /// The task that failed.
        task: TaskId,
        /// The address of the task's worker.
        worker_address: String,
        /// The error message of the worker.
        message: String,
        /// The failed element, if another job can leave it out (C16.12).
        element: Option<FailedElement>,
    },
    /// The end of a task: its elements were delivered, or its removal was completed without this client.
    /// The dispatcher does not send the message to a client that has reported the task's end itself, except
    /// after a reconnection. In a coordinated read, the message ends a late task whose worker was lost
    /// before the task's first round was known.
    TaskEnded {
        /// The task that ended.
        task: TaskId,
    },
    /// Lost splits: no worker produces them again, and some of their elements are missing.
    SplitsLost {
        /// The lost splits, in ranges.
        splits: Vec<SplitRange>,
        /// The address of the worker that held the splits.
        worker_address: String,
    },
    /// The end of the iteration: no task remains to be read.
    IterationFinished {
        /// The number of splits that were lost in the iteration.
        splits_lost: u64,
    },
    /// The first round of a late task of a coordinated read.
    TaskScheduled {
        /// The late task.
        task: TaskId,
        /// The first round in which the task takes part.
        start_round: u64,
    },
    /// The verdict on a removed task of a coordinated read: the number of rounds in which it takes part,
    /// from its first round on. Every consumer receives the same number.
    TaskConcluded(TaskConcluded),
    /// Missing consumers of a coordinated read, without which no round can be completed. The missing
    /// consumers never joined, or have been gone for too long.
    ConsumersLost {
        /// The numbers of the missing consumers, in ascending order.
        consumers: Vec<u32>,
    },
    /// Lost workers: every worker of the iteration is gone, and no new worker has registered.
    WorkersLost {
        /// The addresses of the lost workers.
        workers: Vec<String>,
    },
    /// The end of the client: the dispatcher no longer knows the client.
    Lapsed,
    /// The shutdown of the service, after which no message follows.
    ShutDown {
        /// The name of the process that asked for the shutdown.
        by: String,
    },
}

/// The state of an iteration as a client sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The tasks that still have elements for the client to read.
    pub tasks: Vec<TaskInfo>,
    /// The removed tasks whose removal this client has not acknowledged.
    pub removed: Vec<TaskRemoved>,
    /// The verdicts on removed tasks of a coordinated read that this client has not confirmed.
    pub concluded: Vec<TaskConcluded>,
    /// True if the iteration is finished.
    pub finished: bool,
    /// The ranges of splits lost so far, up to the limit of named ranges.
    pub lost: Vec<SplitRange>,
    /// The number of splits lost so far.
    pub splits_lost: u64,
    /// The first tasks of the iteration that failed, up to a limit.
    pub failed: Vec<TaskFailure>,
}

/// The number of groups that the consumers of a coordinated read hand over from a removed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TaskConcluded {
    /// The removed task.
    #[n(0)]
    pub task: TaskId,
    /// The number of the task's groups that are handed over.
    #[n(1)]
    pub groups: u64,
}

/// A task that was removed before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRemoved {
    /// The removed task.
    pub task: TaskId,
    /// The address of the task's worker.
    pub worker_address: String,
    /// The reason for the removal.
    pub reason: RemovalReason,
    /// The first round of a coordinated read in which the task took part; 0 in other jobs.
    pub start_round: u64,
}

/// A message that the dispatcher sends to a worker without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerPush {
    /// The complete assignment of the worker, which starts missing tasks and stops all other tasks.
    Assigned {
        /// All tasks of the worker.
        tasks: Vec<TaskId>,
    },
    /// The order to start a task.
    Start {
        /// The task to start.
        task: TaskId,
    },
    /// The order to forget a task.
    Stop {
        /// The task to stop.
        task: TaskId,
        /// The reason for the order.
        reason: StopReason,
    },
    /// The order to stop serving a client that is gone. The worker answers with the splits of which the
    /// client still held elements (C6.7).
    Release {
        /// The client that is gone.
        client: ClientId,
        /// The worker's tasks that the client reads.
        tasks: Vec<TaskId>,
    },
    /// The shutdown of the service: the worker forgets all its tasks and leaves.
    ShutDown {
        /// The name of the process that asked for the shutdown.
        by: String,
    },
}

/// The reason for which a worker shall forget a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum StopReason {
    /// The task is finished, and its clients have its elements.
    #[n(0)]
    Settled,
    /// The iteration has no more readers.
    #[n(1)]
    Abandoned,
    /// The dispatcher does not know the task, or has given the task to another worker.
    #[n(2)]
    Unknown,
    /// The worker is being drained, and no other worker can continue the task at its position.
    #[n(3)]
    Draining,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopReason::Settled => "it is finished and delivered",
            StopReason::Abandoned => "nobody reads its iteration any more",
            StopReason::Unknown => "the dispatcher does not have it",
            StopReason::Draining => "the worker is being drained",
        })
    }
}
