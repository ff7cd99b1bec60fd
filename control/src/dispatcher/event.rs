//! The inputs of the dispatcher: requests, heartbeats, reports and the passing of time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_link::Role;

use crate::id::{ClientId, DatasetId, IterationId, JobId, RequestNumber, SessionId, TaskId, WorkerId};
use crate::job::JobParameters;
use crate::pace::Measures;
use crate::planner::{DatasetFacts, PlanError, SplitPlan};
use crate::split::{LeaseRange, Seen, SplitPace};
use crate::whereabouts::Whereabouts;

/// An input of the machine.
#[derive(Debug)]
pub enum Event {
    /// Somebody asks for something.
    Asked(Incoming),
    /// A process says that it lives, and which of its clients do.
    Heartbeat {
        /// The session of the process.
        session: SessionId,
        /// Whether the process is a worker.
        worker: bool,
        /// The clients it still owns.
        clients: Vec<ClientId>,
    },
    /// A process says what it has measured, of some of its tasks and clients.
    Measured {
        /// The session of the process.
        session: SessionId,
        /// The figures.
        measures: Measures,
    },
    /// The answer to [`Action::PlanSplits`](super::Action::PlanSplits).
    SplitsPlanned {
        /// For which iteration.
        iteration: IterationId,
        /// The plan.
        result: Result<SplitPlan, PlanError>,
    },
    /// The answer to [`Action::ProbeWorker`](super::Action::ProbeWorker).
    WorkerProbed {
        /// The worker.
        worker: WorkerId,
        /// Whether the worker's host answered that nothing listens there.
        is_closed: bool,
    },
    /// The connection of a process has ended, and the process has no other.
    Disconnected {
        /// The process.
        session: SessionId,
        /// The way in which the connection ended.
        departure: Departure,
    },
    /// Time has passed. Comes after the events that arrived before.
    Woken,
}

/// The way in which a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The process closed it, and its session with it.
    Goodbye,
    /// Another process answers at its address.
    Reset,
    /// Any other way: the process may come back.
    Lost,
}

/// A request as it arrived.
#[derive(Debug)]
pub struct Incoming {
    /// The token that the answer carries.
    pub token: ReplyToken,
    /// The process that asks.
    pub session: SessionId,
    /// The role that the process has proved.
    pub role: Role,
    /// The request's number, for requests that need one.
    pub number: Option<RequestNumber>,
    /// The process has the replies of all requests below this and will not repeat them.
    pub settled_below: RequestNumber,
    /// The request itself.
    pub request: Request,
}

/// The shell's name for a caller that waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyToken(pub u64);

/// A request to the dispatcher.
#[derive(Clone, Debug)]
pub enum Request {
    /// Registers a dataset. The shell has asked the planner for the facts.
    RegisterDataset {
        /// The id it shall have; `None`: any.
        id: Option<DatasetId>,
        /// The definition.
        definition: Vec<u8>,
        /// The planner's facts of the dataset.
        facts: DatasetFacts,
    },
    /// Asks for the facts of a dataset.
    DescribeDataset {
        /// The id of the dataset.
        id: DatasetId,
    },
    /// Asks for the definition of a dataset.
    ReadDefinition {
        /// The id of the dataset.
        id: DatasetId,
    },
    /// Find or create a job.
    CreateJob {
        /// The name; `None`: a job of one's own.
        name: Option<String>,
        /// The parameters of the job, its dataset among them.
        parameters: JobParameters,
    },
    /// Become a client of an iteration, creating it if need be.
    OpenIteration {
        /// The job to read.
        job: JobId,
        /// The number of the pass.
        repetition: u64,
        /// The number of the consumer, in coordinated reads and only there.
        consumer: Option<u32>,
        /// The host and process of the reader.
        whereabouts: Whereabouts,
    },
    /// Asks for a client's snapshot on the push stream.
    Attach {
        /// The client of the reader.
        client: ClientId,
    },
    /// Ends a client.
    Release {
        /// The client to release.
        client: ClientId,
    },
    /// Says what a client has seen of a removed task.
    Acknowledge {
        /// The client that acknowledges.
        client: ClientId,
        /// The removed task.
        task: TaskId,
        /// The splits that the client has seen.
        seen: Seen,
    },
    /// Says that a client has received everything of these splits.
    SplitsDone {
        /// The client that reports.
        client: ClientId,
        /// The task that held them.
        task: TaskId,
        /// Their leases.
        leases: Vec<LeaseRange>,
    },
    /// Says that a client has everything of these splits, and that elements of them wait to be handed over
    /// (C5.8). Names the client, the task that held them, and their leases.
    SplitsWaiting(ClientId, TaskId, Vec<LeaseRange>),
    /// Says that a client has received a task's end and everything before it.
    TaskDrained {
        /// The client that reports.
        client: ClientId,
        /// The task that it has read to the end.
        task: TaskId,
    },
    /// Says that a client has lost its link to a worker, so that the dispatcher looks whether the worker
    /// lives.
    SuspectWorker {
        /// The client.
        client: ClientId,
        /// The worker's address.
        address: String,
    },
    /// Says from which round on a consumer can take a late task in.
    RoundReady {
        /// The client that reports.
        client: ClientId,
        /// The task that has no start yet.
        task: TaskId,
        /// The first round that its user has not begun, and does not begin before the start is known.
        earliest: u64,
    },
    /// Says that a consumer knows how much of a removed task is handed over.
    VerdictHeard {
        /// The client that was told.
        client: ClientId,
        /// The removed task.
        task: TaskId,
    },
    /// Asks for a snapshot of everything, for people.
    Status,
    /// Ends the service.
    Shutdown {
        /// The name of the process that asks.
        by: String,
    },
    /// Registers a worker, or returns as the same incarnation.
    RegisterWorker(WorkerRegistration),
    /// Says goodbye.
    LeaveWorker,
    /// Announces that the worker leaves: it takes no more tasks, and others read on where its tasks stop.
    DrainWorker,
    /// Asks for the facts that a worker needs to run a task.
    DescribeTask {
        /// The task to describe.
        task: TaskId,
    },
    /// Asks for splits.
    LeaseSplits {
        /// The task that asks.
        task: TaskId,
        /// The number of the source.
        source: u32,
        /// The number of the pass over the source.
        repetition: u64,
        /// The most splits that the task wants.
        want: u32,
        /// The pace of the task, if its worker knows it.
        pace: Option<SplitPace>,
    },
    /// Gives back splits that were not started.
    ReturnSplits {
        /// The task that returns splits.
        task: TaskId,
        /// Their leases.
        leases: Vec<LeaseRange>,
    },
    /// Says that these splits have been produced, of a task that has the cross-trainer cache.
    SplitsProduced {
        /// The task that produced the splits.
        task: TaskId,
        /// Their leases.
        leases: Vec<LeaseRange>,
    },
    /// Says of which splits a client that is gone had elements that its user was not done with (C6.7). Names
    /// the task that held them, the client, their leases, and whether the client is served no more, so that
    /// these are all.
    SplitsMissed(TaskId, ClientId, Vec<LeaseRange>, bool),
    /// Says of which splits that ended a client has elements in hand, as other clients have (C5.8).
    /// Names the task that held them, the client, and their leases.
    SplitsShared(TaskId, ClientId, Vec<LeaseRange>),
    /// Says that a task has produced its last element.
    FinishTask {
        /// The task that ended.
        task: TaskId,
        /// Whether every element is known to have reached a client. May follow later in a second request.
        delivered: bool,
        /// Whether the task read its splits to the end; false if its pipeline ended before them.
        exhausted: bool,
        /// Whether the task stopped because its worker drains, so that other tasks read the rest.
        cut_short: bool,
    },
    /// Says that a task cannot continue.
    FailTask {
        /// The task that failed.
        task: TaskId,
        /// The reason, for the user.
        message: String,
    },
}

/// The facts that a worker registers with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerRegistration {
    /// The address of its data plane, for clients.
    pub address: String,
    /// Labels for placement.
    pub tags: Vec<String>,
    /// The key that its tickets are minted with.
    pub ticket_key: millstream_link::TicketKey,
    /// The program's version, for people.
    pub version: String,
    /// The host and process of the worker.
    pub whereabouts: Whereabouts,
    /// The socket by which readers on its host reach the worker without a network, in words that the two
    /// understand; at most [`LOCAL_SOCKET_BYTES_MAX`](super::LOCAL_SOCKET_BYTES_MAX).
    pub local_socket: Option<String>,
}

impl Request {
    /// Returns whether the request needs a number and a remembered reply, because a retry would change
    /// something twice.
    pub fn is_numbered(&self) -> bool {
        match self {
            Request::RegisterDataset { .. }
            | Request::CreateJob { .. }
            | Request::OpenIteration { .. }
            | Request::Release { .. }
            | Request::LeaseSplits { .. } => true,
            Request::DescribeDataset { .. }
            | Request::ReadDefinition { .. }
            | Request::Attach { .. }
            | Request::Acknowledge { .. }
            | Request::SplitsDone { .. }
            | Request::SplitsWaiting(..)
            | Request::TaskDrained { .. }
            | Request::SuspectWorker { .. }
            | Request::RoundReady { .. }
            | Request::VerdictHeard { .. }
            | Request::Status
            | Request::Shutdown { .. }
            | Request::RegisterWorker(_)
            | Request::LeaveWorker
            | Request::DrainWorker
            | Request::DescribeTask { .. }
            | Request::ReturnSplits { .. }
            | Request::SplitsProduced { .. }
            | Request::SplitsMissed(..)
            | Request::SplitsShared(..)
            | Request::FinishTask { .. }
            | Request::FailTask { .. } => false,
        }
    }

    /// Returns whether a peer of this role may send the request (C1.4).
    pub fn permitted_to(&self, role: Role) -> bool {
        match self {
            Request::RegisterDataset { .. } | Request::ReadDefinition { .. } | Request::Shutdown { .. } => {
                role == Role::Submit
            }
            Request::DescribeDataset { .. }
            | Request::CreateJob { .. }
            | Request::OpenIteration { .. }
            | Request::Attach { .. }
            | Request::Release { .. }
            | Request::Acknowledge { .. }
            | Request::SplitsDone { .. }
            | Request::SplitsWaiting(..)
            | Request::TaskDrained { .. }
            | Request::SuspectWorker { .. }
            | Request::RoundReady { .. }
            | Request::VerdictHeard { .. } => matches!(role, Role::Read | Role::Submit),
            Request::Status => true,
            Request::RegisterWorker(_)
            | Request::LeaveWorker
            | Request::DrainWorker
            | Request::DescribeTask { .. }
            | Request::LeaseSplits { .. }
            | Request::ReturnSplits { .. }
            | Request::SplitsProduced { .. }
            | Request::SplitsMissed(..)
            | Request::SplitsShared(..)
            | Request::FinishTask { .. }
            | Request::FailTask { .. } => role == Role::Worker,
        }
    }

    /// The request's name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Request::RegisterDataset { .. } => "register a dataset",
            Request::DescribeDataset { .. } => "describe a dataset",
            Request::ReadDefinition { .. } => "read a dataset's definition",
            Request::CreateJob { .. } => "create a job",
            Request::OpenIteration { .. } => "open an iteration",
            Request::Attach { .. } => "attach a client",
            Request::Release { .. } => "release a client",
            Request::Acknowledge { .. } => "acknowledge a removal",
            Request::SplitsDone { .. } => "report splits",
            Request::SplitsWaiting(..) => "report splits that wait",
            Request::TaskDrained { .. } => "report a task's end",
            Request::SuspectWorker { .. } => "report a lost link to a worker",
            Request::RoundReady { .. } => "take a late task in",
            Request::VerdictHeard { .. } => "take note of a verdict",
            Request::Status => "ask for the status",
            Request::Shutdown { .. } => "shut the service down",
            Request::RegisterWorker(_) => "register a worker",
            Request::LeaveWorker => "leave as a worker",
            Request::DrainWorker => "drain a worker",
            Request::DescribeTask { .. } => "describe a task",
            Request::LeaseSplits { .. } => "lease splits",
            Request::ReturnSplits { .. } => "return splits",
            Request::SplitsProduced { .. } => "report produced splits",
            Request::SplitsMissed(..) => "report what a client took with it",
            Request::SplitsShared(..) => "report what clients share",
            Request::FinishTask { .. } => "finish a task",
            Request::FailTask { .. } => "fail a task",
        }
    }
}
