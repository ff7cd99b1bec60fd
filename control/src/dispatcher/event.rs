//! The inputs of the dispatcher: requests, heartbeats, reports and the passing of time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_link::Role;

use super::failure::FailureReport;
use crate::id::{ClientId, DatasetId, IterationId, JobId, RequestNumber, SessionId, TaskId, WorkerId};
use crate::job::JobParameters;
use crate::pace::Measures;
use crate::planner::{DatasetFacts, PlanError, SplitPlan};
use crate::split::{LeaseRange, Seen, SplitPace};
use crate::whereabouts::Whereabouts;

/// An input of the machine.
#[derive(Debug)]
pub enum Event {
    /// A request of a process.
    Asked(Incoming),
    /// A heartbeat of a process, with the clients that the process still owns.
    Heartbeat {
        /// The session of the process.
        session: SessionId,
        /// True if the process is a worker.
        worker: bool,
        /// The clients that the process still owns.
        clients: Vec<ClientId>,
    },
    /// Measurements that a process reports for some of its tasks and clients.
    Measured {
        /// The session of the process.
        session: SessionId,
        /// The measured figures.
        measures: Measures,
    },
    /// The answer to [`Action::PlanSplits`](super::Action::PlanSplits).
    SplitsPlanned {
        /// The iteration that the plan is for.
        iteration: IterationId,
        /// The plan, or the reason for its failure.
        result: Result<SplitPlan, PlanError>,
    },
    /// The answer to [`Action::ProbeWorker`](super::Action::ProbeWorker).
    WorkerProbed {
        /// The worker that was probed.
        worker: WorkerId,
        /// True if the worker's host answered that no process listens at the address.
        is_closed: bool,
    },
    /// The loss of the last connection of a process.
    Disconnected {
        /// The session of the process.
        session: SessionId,
        /// The way in which the connection ended.
        departure: Departure,
    },
    /// The passing of time. The shell sends this event after all events that arrived earlier.
    Woken,
}

/// The way in which a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The process closed the connection and ended its session, with its readers.
    Goodbye,
    /// Another process answered at the address of the process.
    Reset,
    /// The connection ended in another way, so that the process may come back.
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
    /// The request number below which the process has all replies and repeats no request.
    pub settled_below: RequestNumber,
    /// The request itself.
    pub request: Request,
}

/// The token by which the shell finds the caller that waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyToken(pub u64);

/// A request to the dispatcher.
#[derive(Clone, Debug)]
pub enum Request {
    /// Registers a dataset, after the shell has asked the planner for the facts of the dataset.
    RegisterDataset {
        /// The id that the dataset shall have; `None` lets the dispatcher choose an id.
        id: Option<DatasetId>,
        /// The definition of the dataset.
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
    /// Finds the job with a name, or creates a job.
    CreateJob {
        /// The name of the job; `None` creates a new job without a name.
        name: Option<String>,
        /// The parameters of the job, its dataset among them.
        parameters: JobParameters,
    },
    /// Adds a client to an iteration, and creates the iteration if necessary.
    OpenIteration {
        /// The job to read.
        job: JobId,
        /// The number of the iteration within its job.
        repetition: u64,
        /// The number of the consumer; `None` outside of coordinated reads.
        consumer: Option<u32>,
        /// The host and process of the reader.
        whereabouts: Whereabouts,
    },
    /// Asks for a client's snapshot on the push stream.
    Attach {
        /// The client of the reader.
        client: ClientId,
    },
    /// Releases a client.
    Release {
        /// The client to release.
        client: ClientId,
    },
    /// Reports the splits that a client has seen of a removed task.
    Acknowledge {
        /// The client that acknowledges.
        client: ClientId,
        /// The removed task.
        task: TaskId,
        /// The splits that the client has seen.
        seen: Seen,
    },
    /// Reports that a client has received every element of these splits, and that the client's user is done
    /// with them (C5.6).
    SplitsDone {
        /// The client that reports.
        client: ClientId,
        /// The task that held the splits.
        task: TaskId,
        /// The leases of the splits.
        leases: Vec<LeaseRange>,
    },
    /// Reports splits that a client has received completely, but of which the user has not yet taken all
    /// elements (C5.8). The fields are the client, the task that held the splits, and their leases.
    SplitsWaiting(ClientId, TaskId, Vec<LeaseRange>),
    /// Reports that a client has received a task's end and every element before the end.
    TaskDrained {
        /// The client that reports.
        client: ClientId,
        /// The task that it has read to the end.
        task: TaskId,
    },
    /// Reports that a client has lost its link to a worker, so that the dispatcher checks whether the
    /// worker lives.
    SuspectWorker {
        /// The client that reports.
        client: ClientId,
        /// The address of the worker.
        address: String,
    },
    /// Reports the first round in which a consumer can read a late task.
    RoundReady {
        /// The client that reports.
        client: ClientId,
        /// The late task, whose first round is not known yet.
        task: TaskId,
        /// The first round that the consumer's user has not begun. The user does not begin this round
        /// before the task's first round is known.
        earliest: u64,
    },
    /// Reports that a consumer knows the verdict on a removed task: the number of its groups that are
    /// handed over.
    VerdictHeard {
        /// The client that received the verdict.
        client: ClientId,
        /// The removed task.
        task: TaskId,
    },
    /// Asks for a snapshot of the whole service, for people.
    Status,
    /// Shuts the service down.
    Shutdown {
        /// The name of the process that asks.
        by: String,
    },
    /// Registers a worker. A repeated registration under the same session belongs to the same incarnation.
    RegisterWorker(WorkerRegistration),
    /// Ends the worker's session: the goodbye message of a worker.
    LeaveWorker,
    /// Announces that the worker leaves. The worker takes no more tasks, and other workers continue where
    /// its tasks stop.
    DrainWorker,
    /// Asks for the facts that a worker needs to run a task.
    DescribeTask {
        /// The task to describe.
        task: TaskId,
    },
    /// Asks for a lease of splits.
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
        /// True if the task waits for a split, and has read all its splits to the end (C16.8).
        is_idle: bool,
    },
    /// Returns splits that the task has not started.
    ReturnSplits {
        /// The task that returns splits.
        task: TaskId,
        /// The leases of the splits.
        leases: Vec<LeaseRange>,
    },
    /// Reports splits that a task with the cross-trainer cache has produced.
    SplitsProduced {
        /// The task that produced the splits.
        task: TaskId,
        /// The leases of the splits.
        leases: Vec<LeaseRange>,
    },
    /// Reports splits of which a released client still held elements that its user was not done with
    /// (C6.7). The fields are the task that held the splits, the client, the leases, and whether the report
    /// is complete. A complete report means that the worker has stopped serving the client.
    SplitsMissed(TaskId, ClientId, Vec<LeaseRange>, bool),
    /// Reports splits that are at their end while several clients hold elements of them (C5.8). The worker
    /// reports once for each of these clients. The fields are the task that held the splits, the client,
    /// and the leases.
    SplitsShared(TaskId, ClientId, Vec<LeaseRange>),
    /// Reports that a task has produced its last element.
    FinishTask {
        /// The task that ended.
        task: TaskId,
        /// True if every element is known to have reached a client. The worker may report the delivery
        /// later in a second request.
        delivered: bool,
        /// True if the task read its splits to the end; false if its pipeline ended before them.
        exhausted: bool,
        /// True if the task stopped because its worker drains, so that other tasks read the rest.
        cut_short: bool,
    },
    /// Reports that a task cannot continue.
    FailTask {
        /// The task that failed.
        task: TaskId,
        /// The reason.
        report: FailureReport,
    },
}

/// The facts with which a worker registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerRegistration {
    /// The address of the worker's data plane, for clients.
    pub address: String,
    /// The labels of the worker, for placement.
    pub tags: Vec<String>,
    /// The key with which the dispatcher signs tickets for the worker's tasks.
    pub ticket_key: millstream_link::TicketKey,
    /// The version of the worker's program, for people.
    pub version: String,
    /// The host and process of the worker.
    pub whereabouts: Whereabouts,
    /// The socket by which readers on the worker's host reach the worker without a network. Only readers
    /// and workers interpret the text of the local socket, which has at
    /// most [`LOCAL_SOCKET_BYTES_MAX`](super::LOCAL_SOCKET_BYTES_MAX) bytes.
    pub local_socket: Option<String>,
}

impl Request {
    /// Returns whether the request needs a number and a remembered reply, because repeating the request
    /// would change the state twice.
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

    /// Returns the request's name in messages.
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
