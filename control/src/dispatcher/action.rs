//! The outputs of the dispatcher. Each waits until the changes before it are stored.
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
use crate::id::{ClientId, DatasetId, IterationId, JobId, SessionId, TaskId, WorkerId};
use crate::job::Policy;
use crate::planner::SplitPlan;
use crate::split::SplitRange;
use crate::whereabouts::Whereabouts;

/// An output of the machine.
#[derive(Debug)]
pub enum Action {
    /// Answer a request.
    Reply {
        /// The token of the request that is answered.
        token: ReplyToken,
        /// The answer.
        result: Result<Reply, Error>,
    },
    /// Tell a client something. Dropped if its process is not connected: it asks for a snapshot when it is
    /// back.
    PushClient {
        /// The process.
        session: SessionId,
        /// The client.
        client: ClientId,
        /// The message.
        push: ClientPush,
    },
    /// Ask whether anything listens at a worker's address, and say so with
    /// [`Event::WorkerProbed`](super::Event::WorkerProbed). May be left undone.
    ProbeWorker {
        /// The worker.
        worker: WorkerId,
        /// The address.
        address: String,
    },
    /// Tell a worker something. Dropped if it is not connected: it is sent its assignment when it is back.
    PushWorker {
        /// The worker's session.
        session: SessionId,
        /// The message.
        push: WorkerPush,
    },
    /// Ask the planner, off the loop, and answer with [`Event::SplitsPlanned`](super::Event::SplitsPlanned).
    PlanSplits {
        /// For which iteration.
        iteration: IterationId,
        /// The number of the pass.
        repetition: u64,
        /// The dataset whose sources are listed.
        dataset: Arc<DatasetRecord>,
    },
    /// Close a worker's connection: it was given up for dead.
    Disconnect {
        /// The session of the process.
        session: SessionId,
        /// Why.
        reason: String,
    },
}

/// The answer to a request that was granted.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Nothing more to say.
    Done,
    /// A dataset's id.
    Dataset(DatasetId),
    /// A dataset.
    DatasetInfo(Arc<DatasetRecord>),
    /// A dataset, of which the definition is asked for.
    Definition(Arc<DatasetRecord>),
    /// A job's id.
    Job(JobId),
    /// A client's id.
    Client(ClientId),
    /// Splits, from the plan.
    Splits {
        /// The splits, in runs of consecutive ones.
        runs: Vec<Run>,
        /// Whether this pass over the source has no more.
        end: bool,
        /// The pass over the source that is being dealt out.
        current: u64,
        /// Whether this lease is as long as one may be, so that another may follow (C5.9).
        more: bool,
        /// The plan that has the splits' payloads.
        plan: Arc<SplitPlan>,
    },
    /// A task.
    Task(Box<TaskDef>),
    /// A worker's id.
    Worker(WorkerId),
    /// Everything.
    Status(Box<Status>),
}

/// The facts that a worker needs to run a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDef {
    /// The task.
    pub task: TaskId,
    /// The iteration.
    pub iteration: IterationId,
    /// The iteration's job.
    pub job: JobId,
    /// The number of the pass.
    pub repetition: u64,
    /// The sharding policy of the job.
    pub policy: Policy,
    /// The worker's number from 0: its place in the fixed list of workers, else in the order of registration.
    pub worker_index: u64,
    /// Among how many workers the dataset is divided statically, this one's share being its number's; 0: it
    /// is not.
    pub worker_count: u64,
    /// In coordinated reads: how many consumers take its elements in turn.
    pub num_consumers: Option<u32>,
    /// Whether trainers share the elements that the task keeps, in the cross-trainer cache.
    pub cross_trainer_cache: bool,
    /// The dataset and its definition.
    pub dataset: Arc<DatasetRecord>,
    /// The plan of the sources. With its listings every worker reads or divides the same files. Under DYNAMIC
    /// it has no sources, because payloads come with the splits.
    pub plan: Arc<SplitPlan>,
}

/// The facts that a client needs to read a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// The task.
    pub task: TaskId,
    /// The address at which the worker serves the task.
    pub worker_address: String,
    /// The worker's incarnation.
    pub worker: WorkerId,
    /// The worker's labels.
    pub worker_tags: Vec<String>,
    /// The client's permission to read it.
    pub ticket: Vec<u8>,
    /// From which round of a coordinated read on it takes part; `None`: not settled yet, so the consumer says
    /// from when on it can. 0 outside of coordinated reads.
    pub start_round: Option<u64>,
    /// The host and process of the worker.
    pub whereabouts: Whereabouts,
    /// The worker's local socket, if both are on one host and the worker has one.
    pub local_socket: Option<String>,
}

/// A message to a client that it did not ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientPush {
    /// Everything it needs to go on, after it has attached. A task told of before that is missing in it has
    /// ended.
    Snapshot(Snapshot),
    /// There is a task to read.
    TaskAdded(TaskInfo),
    /// A task is gone before its end: drop what arrives of it and acknowledge.
    TaskRemoved(TaskRemoved),
    /// A task reported an error.
    TaskFailed {
        /// The task that ended.
        task: TaskId,
        /// The worker's address.
        worker_address: String,
        /// The worker's words.
        message: String,
    },
    /// Nothing more comes of a task: what it produced was delivered, or its removal was sorted out without
    /// this client. Not told to a client that has reported the task's end itself, except across
    /// reconnections. In a coordinated read: a late task whose worker went before it had a first round.
    TaskEnded {
        /// The task that failed.
        task: TaskId,
    },
    /// Splits are lost: they are not produced again, and some of their elements are missing.
    SplitsLost {
        /// The splits, in ranges.
        splits: Vec<SplitRange>,
        /// The worker that had them.
        worker_address: String,
    },
    /// No task remains to be read.
    IterationFinished {
        /// The number of splits that were lost.
        splits_lost: u64,
    },
    /// A late task of a coordinated read takes part from this round on.
    TaskScheduled {
        /// The task.
        task: TaskId,
        /// The first round that it is in.
        start_round: u64,
    },
    /// A removed task of a coordinated read takes part in this many rounds, from its first on, and in none
    /// behind. Every consumer was sent them.
    TaskConcluded(TaskConcluded),
    /// Consumers of a coordinated read did not come, or are gone for too long, so that no round can be
    /// completed.
    ConsumersLost {
        /// The missing consumers, in order.
        consumers: Vec<u32>,
    },
    /// Every worker of the iteration is gone and none has come.
    WorkersLost {
        /// Their addresses.
        workers: Vec<String>,
    },
    /// The dispatcher no longer knows this client.
    Lapsed,
    /// The service ends: nothing follows.
    ShutDown {
        /// The name of the process that asked for the end.
        by: String,
    },
}

/// The state of an iteration as a client sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The tasks that have something to read.
    pub tasks: Vec<TaskInfo>,
    /// Removed tasks that this client has not acknowledged.
    pub removed: Vec<TaskRemoved>,
    /// Removed tasks of a coordinated read whose last round is settled, as far as this client may not know
    /// it.
    pub concluded: Vec<TaskConcluded>,
    /// Whether the iteration is over.
    pub finished: bool,
    /// Splits lost so far, named as far as the dispatcher names them.
    pub lost: Vec<SplitRange>,
    /// Splits lost so far.
    pub splits_lost: u64,
    /// Tasks that failed, the first ones of the iteration.
    pub failed: Vec<TaskFailure>,
}

/// The part of a removed task that the consumers of a coordinated read hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TaskConcluded {
    /// The removed task.
    #[n(0)]
    pub task: TaskId,
    /// The number of its groups that are handed over.
    #[n(1)]
    pub groups: u64,
}

/// A task that ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRemoved {
    /// The removed task.
    pub task: TaskId,
    /// The worker's address.
    pub worker_address: String,
    /// Why.
    pub reason: RemovalReason,
    /// From which round of a coordinated read on it took part; 0 elsewhere.
    pub start_round: u64,
}

/// A message to a worker that it did not ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerPush {
    /// All tasks it should have. It starts those it lacks and stops the others.
    Assigned {
        /// All tasks of the worker.
        tasks: Vec<TaskId>,
    },
    /// Start a task.
    Start {
        /// The task to start.
        task: TaskId,
    },
    /// Forget a task.
    Stop {
        /// The task to stop.
        task: TaskId,
        /// Why.
        reason: StopReason,
    },
    /// Serve a client of these tasks no more: it is gone. Answered with what it took with it (C6.7).
    Release {
        /// The client that is gone.
        client: ClientId,
        /// The worker's tasks that it reads.
        tasks: Vec<TaskId>,
    },
    /// The service ends: forget all tasks, and leave.
    ShutDown {
        /// The name of the process that asked for the end.
        by: String,
    },
}

/// Why a worker shall forget a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum StopReason {
    /// The task is finished, and its clients have its elements.
    #[n(0)]
    Settled,
    /// The iteration has no readers any more.
    #[n(1)]
    Abandoned,
    /// The dispatcher does not know it, or has given it away.
    #[n(2)]
    Unknown,
    /// The worker is being drained, and nobody can go on where it stops.
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
