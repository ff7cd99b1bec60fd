//! What can happen to the dispatcher: its inputs.
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
        /// Whose.
        session: SessionId,
        /// Whether the process is a worker.
        worker: bool,
        /// The clients it still owns.
        clients: Vec<ClientId>,
    },
    /// A process says what it has measured, of some of its tasks and clients.
    Measured {
        /// Whose.
        session: SessionId,
        /// What.
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
        /// Whether its host answered that nothing listens there.
        is_closed: bool,
    },
    /// The connection of a process has ended, and the process has no other.
    Disconnected {
        /// The process.
        session: SessionId,
        /// How it ended.
        departure: Departure,
    },
    /// Time has passed. Comes after the events that arrived before.
    Woken,
}

/// How a connection ended.
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
    /// Where the reply goes.
    pub token: ReplyToken,
    /// The process that asks.
    pub session: SessionId,
    /// What it has proved to be.
    pub role: Role,
    /// The request's number, for requests that need one.
    pub number: Option<RequestNumber>,
    /// The process has the replies of all requests below this and will not repeat them.
    pub settled_below: RequestNumber,
    /// What it asks for.
    pub request: Request,
}

/// The shell's name for whoever waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyToken(pub u64);

/// What can be asked for.
#[derive(Clone, Debug)]
pub enum Request {
    /// Register a dataset. The shell has asked the planner for the facts.
    RegisterDataset {
        /// The id it shall have; `None`: any.
        id: Option<DatasetId>,
        /// The definition.
        definition: Vec<u8>,
        /// What the planner says of it.
        facts: DatasetFacts,
    },
    /// What is known of a dataset.
    DescribeDataset {
        /// Which.
        id: DatasetId,
    },
    /// What a dataset was registered with.
    ReadDefinition {
        /// Which.
        id: DatasetId,
    },
    /// Find or create a job.
    CreateJob {
        /// Its name; `None`: a job of one's own.
        name: Option<String>,
        /// What it reads and how.
        parameters: JobParameters,
    },
    /// Become a client of an iteration, creating it if need be.
    OpenIteration {
        /// Of which job.
        job: JobId,
        /// Which pass.
        repetition: u64,
        /// As which consumer, in coordinated reads and only there.
        consumer: Option<u32>,
        /// Where the reader is.
        whereabouts: Whereabouts,
    },
    /// Send a client's snapshot on the push stream.
    Attach {
        /// Which client.
        client: ClientId,
    },
    /// End a client.
    Release {
        /// Which client.
        client: ClientId,
    },
    /// Say what a client has seen of a removed task.
    Acknowledge {
        /// Which client.
        client: ClientId,
        /// Which task.
        task: TaskId,
        /// What it has seen.
        seen: Seen,
    },
    /// Say that a client has received everything of these splits.
    SplitsDone {
        /// Which client.
        client: ClientId,
        /// The task that held them.
        task: TaskId,
        /// Their leases.
        leases: Vec<LeaseRange>,
    },
    /// Say that a client has everything of these splits, and that elements of them wait to be handed over (C5.8).
    /// Names the client, the task that held them, and their leases.
    SplitsWaiting(ClientId, TaskId, Vec<LeaseRange>),
    /// Say that a client has received a task's end and everything before it.
    TaskDrained {
        /// Which client.
        client: ClientId,
        /// Which task.
        task: TaskId,
    },
    /// Say that a client has lost its link to a worker, so that the dispatcher looks whether the worker lives.
    SuspectWorker {
        /// The client.
        client: ClientId,
        /// The worker's address.
        address: String,
    },
    /// Say from which round on a consumer can take a late task in.
    RoundReady {
        /// Which client.
        client: ClientId,
        /// The task that has no start yet.
        task: TaskId,
        /// The first round that its user has not begun, and does not begin before the start is known.
        earliest: u64,
    },
    /// Say that a consumer knows how much of a removed task is handed over.
    VerdictHeard {
        /// Which client.
        client: ClientId,
        /// Which task.
        task: TaskId,
    },
    /// A snapshot of everything, for people.
    Status,
    /// End the service.
    Shutdown {
        /// Who asks, in words.
        by: String,
    },
    /// Register a worker, or come back as the same incarnation.
    RegisterWorker(WorkerRegistration),
    /// Say goodbye.
    LeaveWorker,
    /// Announce it: take no more tasks, and let those that can be be read by others from where they stop.
    DrainWorker,
    /// What a task is to do.
    DescribeTask {
        /// Which.
        task: TaskId,
    },
    /// Ask for splits.
    LeaseSplits {
        /// For which task.
        task: TaskId,
        /// Of which source.
        source: u32,
        /// Of which pass over it.
        repetition: u64,
        /// How many at most.
        want: u32,
        /// How fast the task is, if its worker knows.
        pace: Option<SplitPace>,
    },
    /// Give back splits that were not started.
    ReturnSplits {
        /// Whose.
        task: TaskId,
        /// Their leases.
        leases: Vec<LeaseRange>,
    },
    /// Say that these splits have been produced, of a task that has the cross-trainer cache.
    SplitsProduced {
        /// Whose.
        task: TaskId,
        /// Their leases.
        leases: Vec<LeaseRange>,
    },
    /// Say of which splits a client that is gone had elements that its user was not done with (C6.7).
    /// Names the task that held them, the client, their leases, and whether the client is served no more, so that these are all.
    SplitsMissed(TaskId, ClientId, Vec<LeaseRange>, bool),
    /// Say of which splits that ended a client has elements in hand, as other clients have (C5.8).
    /// Names the task that held them, the client, and their leases.
    SplitsShared(TaskId, ClientId, Vec<LeaseRange>),
    /// A task has produced its last element.
    FinishTask {
        /// Which.
        task: TaskId,
        /// Whether every element is known to have reached a client. May follow later in a second request.
        delivered: bool,
        /// Whether the task read its splits to the end; false if its pipeline stopped by itself.
        exhausted: bool,
        /// Whether it stopped because its worker is being drained, so that others go on where it did.
        cut_short: bool,
    },
    /// A task cannot go on.
    FailTask {
        /// Which.
        task: TaskId,
        /// Why, for the user.
        message: String,
    },
}

/// What a worker says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerRegistration {
    /// Where clients find its data plane.
    pub address: String,
    /// Labels for placement.
    pub tags: Vec<String>,
    /// The key that its tickets are minted with.
    pub ticket_key: millstream_link::TicketKey,
    /// Its program's version, for people.
    pub version: String,
    /// Where it is, for readers that choose.
    pub whereabouts: Whereabouts,
    /// How readers on its host reach it without a network, in words that the two understand; at most
    /// [`LOCAL_SOCKET_BYTES_MAX`](super::LOCAL_SOCKET_BYTES_MAX).
    pub local_socket: Option<String>,
}

impl Request {
    /// Whether doing it twice would differ from doing it once, so that it needs a number and a remembered reply.
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

    /// Whether a peer of this role may ask it (C1.4).
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
