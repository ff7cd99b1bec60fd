//! A snapshot of the whole dispatcher, for people and tests.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use super::record::Phase;
use crate::id::{BootId, ClientId, DatasetId, IterationId, JobId, TaskId, WorkerId};
use crate::job::JobParameters;
use crate::links::{ClientLinks, LinkCounts};
use crate::load::WorkerLoad;
use crate::split::SplitRange;

/// The state of the dispatcher at one instant. Lists are ordered by id and cut at 1000 entries each; the
/// counts are complete.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Status {
    /// The boot id: the name of this life of the dispatcher's state.
    #[n(0)]
    pub boot: BootId,
    /// The workers, including dead workers until they are forgotten.
    #[n(1)]
    pub workers: Vec<WorkerStatus>,
    /// The registered datasets.
    #[n(2)]
    pub datasets: Vec<DatasetStatus>,
    /// The existing jobs.
    #[n(3)]
    pub jobs: Vec<JobStatus>,
    /// The iterations, with the running iterations first.
    #[n(4)]
    pub iterations: Vec<IterationStatus>,
    /// The number of workers that the scaling policy wants. `None` until the number of
    /// living workers has been steady for a while.
    #[cbor(n(6), default)]
    pub workers_wanted: Option<u64>,
    /// The reason for the number of wanted workers, in words.
    #[cbor(n(8), default)]
    pub workers_wanted_reason: String,
    /// The estimated number of workers that would keep all readers busy, within limits. `None` until tasks
    /// and clients have reported their pace.
    #[cbor(n(9), default)]
    pub workers_estimated: Option<u64>,
    /// The numbers of workers, datasets, jobs, iterations, clients and tasks.
    #[n(5)]
    pub counts: Counts,
    /// The numbers of refusals since the dispatcher started.
    #[cbor(n(7), default)]
    pub refusals: Refusals,
    /// The program that answered.
    #[cbor(n(10), default)]
    pub program: ProgramStatus,
}

/// The program of the dispatcher that answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ProgramStatus {
    /// The version of the program. Empty if the program is too old to tell its version.
    #[n(0)]
    pub version: String,
    /// The time of the machine's clock at the answer, in milliseconds since 1970 (UTC).
    #[n(1)]
    pub unix_ms: u64,
}

/// The numbers of connections and requests that a dispatcher has refused since it started, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Refusals {
    /// The number of handshakes refused because too many were in progress, in total or from one address.
    #[n(0)]
    pub handshakes_busy: u64,
    /// The number of failed handshakes: a wrong key, role or version, or a peer that disconnected.
    #[n(1)]
    pub handshakes_failed: u64,
    /// The number of handshakes that did not end in time.
    #[n(2)]
    pub handshakes_timed_out: u64,
    /// The number of connections beyond the limits for all processes, for one process, or for the role
    /// `read`.
    #[n(3)]
    pub connections_over_quota: u64,
    /// The number of connections refused because their session belongs to another process, or their
    /// certificate has too many sessions.
    #[n(4)]
    pub sessions: u64,
    /// The number of requests that the process's role does not permit.
    #[n(5)]
    pub requests_denied: u64,
    /// The number of requests beyond a quota or a limit of the service.
    #[n(6)]
    pub requests_over_quota: u64,
    /// The number of requests that were delayed because their process made too many requests in a second.
    #[n(7)]
    pub requests_delayed: u64,
}

/// The number of records of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Counts {
    /// The number of living workers.
    #[n(0)]
    pub workers: u64,
    /// The number of datasets.
    #[n(1)]
    pub datasets: u64,
    /// The number of jobs.
    #[n(2)]
    pub jobs: u64,
    /// The number of iterations.
    #[n(3)]
    pub iterations: u64,
    /// The number of clients.
    #[n(4)]
    pub clients: u64,
    /// The number of tasks of iterations that are not over.
    #[n(5)]
    pub tasks: u64,
    /// The number of living workers that are draining.
    #[cbor(n(6), default)]
    pub draining: u64,
}

/// The status of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct WorkerStatus {
    /// The id of the worker's incarnation.
    #[n(0)]
    pub id: WorkerId,
    /// The address of the worker's data plane.
    #[n(1)]
    pub address: String,
    /// The labels of the worker.
    #[n(2)]
    pub tags: Vec<String>,
    /// The version of the worker's program.
    #[n(3)]
    pub version: String,
    /// The reason of the worker's death; `None` while the worker lives.
    #[n(4)]
    pub dead: Option<String>,
    /// The time since the worker's last heartbeat, in milliseconds.
    #[n(5)]
    pub silent_ms: u64,
    /// The number of the worker's tasks.
    #[n(6)]
    pub tasks: u64,
    /// True if the worker is about to leave and takes no more tasks.
    #[cbor(n(7), default)]
    pub draining: bool,
    /// The kinds of links between the worker and its readers, from its last report.
    #[n(8)]
    pub links: Option<LinkCounts>,
    /// The memory and the processes of the worker, from its last report.
    #[n(9)]
    pub load: Option<WorkerLoad>,
}

/// The status of one dataset.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DatasetStatus {
    /// The id of the dataset.
    #[n(0)]
    pub id: DatasetId,
    /// The number of elements, in words.
    #[n(1)]
    pub cardinality: String,
    /// The bytes of the dataset's definition.
    #[n(2)]
    pub definition_bytes: u64,
}

/// The status of one job.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobStatus {
    /// The id of the job.
    #[n(0)]
    pub id: JobId,
    /// The name of the job.
    #[n(1)]
    pub name: String,
    /// The parameters of the job, its dataset among them.
    #[n(2)]
    pub parameters: JobParameters,
}

/// The status of one iteration.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct IterationStatus {
    /// The id of the iteration.
    #[n(0)]
    pub id: IterationId,
    /// The job of the iteration.
    #[n(1)]
    pub job: JobId,
    /// The number of the iteration within its job.
    #[n(2)]
    pub repetition: u64,
    /// The progress of the iteration.
    #[n(3)]
    pub phase: Phase,
    /// True if the iteration is running, but lacks workers for its clients or for one of its shares.
    #[n(4)]
    pub waiting_for_workers: bool,
    /// The clients of the iteration.
    #[n(5)]
    pub clients: Vec<ClientStatus>,
    /// The tasks of the iteration.
    #[n(6)]
    pub tasks: Vec<TaskStatus>,
    /// The number of removed tasks that some clients have not yet acknowledged.
    #[n(7)]
    pub removals: u64,
    /// The splits that are still to be leased, source by source; empty unless the iteration runs under
    /// DYNAMIC.
    #[n(8)]
    pub sources: Vec<SourceStatus>,
    /// The number of splits held by tasks and removals.
    #[n(9)]
    pub splits_leased: u64,
    /// The number of delivered splits.
    #[n(10)]
    pub splits_done: u64,
    /// The number of lost splits.
    #[n(11)]
    pub splits_lost: u64,
    /// The lost splits by name, up to the limit of named ranges.
    #[n(12)]
    pub lost: Vec<SplitRange>,
    /// The missing consumers of a coordinated read, which have not joined, are gone, or are silent.
    #[cbor(n(13), default)]
    pub missing_consumers: Vec<u32>,
    /// The number of workers that would keep the iteration's readers busy, without limits.
    #[cbor(n(14), default)]
    pub workers_wanted: Option<u64>,
    /// The splits of an exactly-once job that were given up, up to the limit of named ranges.
    #[cbor(n(15), default)]
    pub skipped: Vec<SplitRange>,
}

/// The status of one client.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ClientStatus {
    /// The id of the client.
    #[n(0)]
    pub id: ClientId,
    /// The time since the last heartbeat that named the client, in milliseconds.
    #[n(1)]
    pub silent_ms: u64,
    /// The number of the consumer; `None` outside of coordinated reads.
    #[n(2)]
    pub consumer: Option<u32>,
    /// The number of elements that the client has handed to its user.
    #[n(3)]
    pub elements: u64,
    /// The recent rate at which the client takes elements, per second.
    #[n(4)]
    pub elements_per_s: f64,
    /// The time that the client's user takes for an element without waiting, in nanoseconds, if known.
    #[n(5)]
    pub element_ns: Option<u64>,
    /// The share of the recent time in which the client's user waited for elements, from 0 to 1, if known.
    #[n(6)]
    pub waiting: Option<f64>,
    /// The time for which the client's user has waited for elements since the start, in milliseconds.
    #[cbor(n(7), default)]
    pub waited_ms: u64,
    /// The links of the client with its workers, from its last report.
    #[n(8)]
    pub links: Option<ClientLinks>,
}

/// The phase of a task that produces elements.
pub(super) const RUNNING: &str = "running";
/// The start of the phase of a failed task.
pub(super) const FAILED: &str = "failed: ";

/// The status of one task.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct TaskStatus {
    /// The id of the task.
    #[n(0)]
    pub id: TaskId,
    /// The incarnation of the task's worker.
    #[n(1)]
    pub worker: WorkerId,
    /// The address of the task's worker.
    #[n(2)]
    pub worker_address: String,
    /// The progress of the task, in words.
    #[n(3)]
    pub phase: String,
    /// The number of splits that the task holds.
    #[n(4)]
    pub splits_leased: u64,
    /// The number of elements that the task has produced.
    #[cbor(n(5), default)]
    pub elements: u64,
    /// The recent rate at which the task produces elements, per second.
    #[cbor(n(6), default)]
    pub elements_per_s: f64,
    /// The time that the task takes for an element without waiting for its readers, in nanoseconds, if
    /// known.
    #[cbor(n(7), default)]
    pub element_ns: Option<u64>,
    /// The stage of the task's pipeline that holds the task up, if known. `consumer` means that the readers
    /// hold it up.
    #[n(8)]
    pub bottleneck: Option<String>,
    /// The share of the recent time in which the task computed, from 0 to 1, if known. An element in progress
    /// counts.
    #[n(9)]
    pub busy: Option<f64>,
}

impl Phase {
    /// Returns the name of the phase, for people and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Planning => "planning",
            Phase::Running => "running",
            Phase::Finished => "finished",
            Phase::Collected => "given up",
        }
    }
}

impl TaskStatus {
    /// Returns whether the task still produces elements.
    pub fn is_running(&self) -> bool {
        self.phase == RUNNING
    }

    /// Returns whether the task has failed. The phase then names the reason.
    pub fn has_failed(&self) -> bool {
        self.phase.starts_with(FAILED)
    }
}

/// The status of one source of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SourceStatus {
    /// The number of the current pass over the source.
    #[n(0)]
    pub repetition: u64,
    /// The number of splits that are not yet leased in this pass, or are free again.
    #[n(1)]
    pub remaining: u64,
    /// The number of splits delivered, over all passes.
    #[n(2)]
    pub done: u64,
    /// The number of splits lost, over all passes.
    #[n(3)]
    pub lost: u64,
}
