//! What the dispatcher wants done: its outputs, all of which wait until the changes before them are stored.
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
        /// Whose.
        token: ReplyToken,
        /// The answer.
        result: Result<Reply, Error>,
    },
    /// Tell a client something. Dropped if its process is not connected: it asks for a snapshot when it is back.
    PushClient {
        /// The process.
        session: SessionId,
        /// Its client.
        client: ClientId,
        /// What.
        push: ClientPush,
    },
    /// Ask whether anything listens at a worker's address, and say so with
    /// [`Event::WorkerProbed`](super::Event::WorkerProbed). May be left undone.
    ProbeWorker {
        /// The worker.
        worker: WorkerId,
        /// Its address.
        address: String,
    },
    /// Tell a worker something. Dropped if it is not connected: it is sent its assignment when it is back.
    PushWorker {
        /// The worker's session.
        session: SessionId,
        /// What.
        push: WorkerPush,
    },
    /// Ask the planner, off the loop, and answer with [`Event::SplitsPlanned`](super::Event::SplitsPlanned).
    PlanSplits {
        /// For which iteration.
        iteration: IterationId,
        /// Which pass it is.
        repetition: u64,
        /// Of which dataset.
        dataset: Arc<DatasetRecord>,
    },
    /// Close a worker's connection: it was given up for dead.
    Disconnect {
        /// Whose.
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
        /// Which.
        runs: Vec<Run>,
        /// Whether this pass over the source has no more.
        end: bool,
        /// The pass over the source that is being dealt out.
        current: u64,
        /// Whether this lease is as long as one may be, so that another may follow (C5.9).
        more: bool,
        /// Where their payloads are.
        plan: Arc<SplitPlan>,
    },
    /// A task.
    Task(Box<TaskDef>),
    /// A worker's id.
    Worker(WorkerId),
    /// Everything.
    Status(Box<Status>),
}

/// What a worker must know to run a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDef {
    /// The task.
    pub task: TaskId,
    /// Its iteration.
    pub iteration: IterationId,
    /// The iteration's job.
    pub job: JobId,
    /// Which pass of the job.
    pub repetition: u64,
    /// How the dataset is divided.
    pub policy: Policy,
    /// The worker's number from 0: its place in the fixed list of workers, else in the order of registration.
    pub worker_index: u64,
    /// Among how many workers the dataset is divided statically, this one's share being its number's; 0: it is not.
    pub worker_count: u64,
    /// In coordinated reads: how many consumers take its elements in turn.
    pub num_consumers: Option<u32>,
    /// Whether trainers share what it keeps: the cross-trainer cache.
    pub cross_trainer_cache: bool,
    /// The dataset and its definition.
    pub dataset: Arc<DatasetRecord>,
    /// How the sources divide. With the listings, so that every worker reads or divides the same files; under DYNAMIC without
    /// sources, since payloads come with the splits.
    pub plan: Arc<SplitPlan>,
}

/// What a client must know to read a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// The task.
    pub task: TaskId,
    /// Where its worker serves it.
    pub worker_address: String,
    /// The worker's incarnation.
    pub worker: WorkerId,
    /// The worker's labels.
    pub worker_tags: Vec<String>,
    /// The client's permission to read it.
    pub ticket: Vec<u8>,
    /// From which round of a coordinated read on it takes part; `None`: not settled yet, so the consumer says from when on it
    /// can. 0 outside of coordinated reads.
    pub start_round: Option<u64>,
    /// Where the worker is.
    pub whereabouts: Whereabouts,
    /// How the client reaches it without a network, if both are on one host and the worker can be reached so.
    pub local_socket: Option<String>,
}

/// What a client is told unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientPush {
    /// Everything it needs to go on, after it has attached. A task told of before that is missing in it has ended.
    Snapshot(Snapshot),
    /// There is a task to read.
    TaskAdded(TaskInfo),
    /// A task is gone before its end: drop what arrives of it and acknowledge.
    TaskRemoved(TaskRemoved),
    /// A task reported an error.
    TaskFailed {
        /// Which.
        task: TaskId,
        /// Its worker's address.
        worker_address: String,
        /// The worker's words.
        message: String,
    },
    /// Nothing more comes of a task: what it produced was delivered, or its removal was sorted out without this client. Not
    /// told to a client that has reported the task's end itself, except across reconnections. In a coordinated read: a late
    /// task whose worker went before it had a first round.
    TaskEnded {
        /// Which.
        task: TaskId,
    },
    /// These splits will not be produced again, though something of them is missing.
    SplitsLost {
        /// Which.
        splits: Vec<SplitRange>,
        /// The worker that had them.
        worker_address: String,
    },
    /// No task remains to be read.
    IterationFinished {
        /// How many splits were lost, all in all.
        splits_lost: u64,
    },
    /// A late task of a coordinated read takes part from this round on.
    TaskScheduled {
        /// Which.
        task: TaskId,
        /// The first round that it is in.
        start_round: u64,
    },
    /// A removed task of a coordinated read takes part in this many rounds, from its first on, and in none behind. Every
    /// consumer was sent them.
    TaskConcluded(TaskConcluded),
    /// These consumers of a coordinated read did not come, or are gone for too long: no round can be completed.
    ConsumersLost {
        /// Which, in order.
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
        /// Who has asked for it, in words.
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
    /// Removed tasks of a coordinated read whose last round is settled, as far as this client may not know it.
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

/// How much of a removed task the consumers of a coordinated read hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TaskConcluded {
    /// Which.
    #[n(0)]
    pub task: TaskId,
    /// How many of its groups.
    #[n(1)]
    pub groups: u64,
}

/// A task that ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRemoved {
    /// Which.
    pub task: TaskId,
    /// Its worker's address.
    pub worker_address: String,
    /// Why.
    pub reason: RemovalReason,
    /// From which round of a coordinated read on it took part; 0 elsewhere.
    pub start_round: u64,
}

/// What a worker is told unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerPush {
    /// All tasks it should have. It starts those it lacks and stops the others.
    Assigned {
        /// Which.
        tasks: Vec<TaskId>,
    },
    /// Start a task.
    Start {
        /// Which.
        task: TaskId,
    },
    /// Forget a task.
    Stop {
        /// Which.
        task: TaskId,
        /// Why.
        reason: StopReason,
    },
    /// Serve a client of these tasks no more: it is gone. Answered with what it took with it (C6.7).
    Release {
        /// Which.
        client: ClientId,
        /// The worker's tasks that it reads.
        tasks: Vec<TaskId>,
    },
    /// The service ends: forget all tasks, and leave.
    ShutDown {
        /// Who has asked for it, in words.
        by: String,
    },
}

/// Why a worker shall forget a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum StopReason {
    /// It is finished and delivered.
    #[n(0)]
    Settled,
    /// Nobody reads the iteration any more.
    #[n(1)]
    Abandoned,
    /// The dispatcher does not know it, or has given it away.
    #[n(2)]
    Unknown,
    /// Its worker is being drained, and nobody can go on where it stops.
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
