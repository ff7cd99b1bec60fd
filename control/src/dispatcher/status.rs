//! A snapshot of everything the dispatcher knows, for people and tests.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

use super::record::Phase;
use crate::id::{BootId, ClientId, DatasetId, IterationId, JobId, TaskId, WorkerId};
use crate::job::JobParameters;
use crate::links::LinkCounts;
use crate::split::SplitRange;

/// The dispatcher at one instant. Lists are in the order of ids, cut at 1000 entries each; the counts are
/// complete.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Status {
    /// This life of its state.
    #[n(0)]
    pub boot: BootId,
    /// Workers, dead ones included until they are forgotten.
    #[n(1)]
    pub workers: Vec<WorkerStatus>,
    /// Datasets.
    #[n(2)]
    pub datasets: Vec<DatasetStatus>,
    /// Jobs.
    #[n(3)]
    pub jobs: Vec<JobStatus>,
    /// Iterations: those that run first.
    #[n(4)]
    pub iterations: Vec<IterationStatus>,
    /// The number of workers that would keep all readers busy, within limits; `None` until tasks and clients
    /// have reported their pace.
    #[cbor(n(6), default)]
    pub workers_wanted: Option<u64>,
    /// The numbers of workers, datasets, jobs, iterations, clients and tasks.
    #[n(5)]
    pub counts: Counts,
    /// The numbers of refusals since the dispatcher started.
    #[cbor(n(7), default)]
    pub refusals: Refusals,
}

/// The numbers of connections and requests that a dispatcher has refused since it started, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Refusals {
    /// Handshakes that were turned away because too many were under way, in all or with their address.
    #[n(0)]
    pub handshakes_busy: u64,
    /// Handshakes that failed: a wrong key, role or version, or a peer that went away.
    #[n(1)]
    pub handshakes_failed: u64,
    /// Handshakes that did not end in time.
    #[n(2)]
    pub handshakes_timed_out: u64,
    /// Connections beyond the limits for all, for one process or for the role `read`.
    #[n(3)]
    pub connections_over_quota: u64,
    /// Connections under the session of another process, or with too many sessions.
    #[n(4)]
    pub sessions: u64,
    /// Requests that the process's role does not permit.
    #[n(5)]
    pub requests_denied: u64,
    /// Requests beyond a quota or a limit of the service.
    #[n(6)]
    pub requests_over_quota: u64,
    /// Requests that waited because their process made too many in a second.
    #[n(7)]
    pub requests_delayed: u64,
}

/// The number of records of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Counts {
    /// Living workers.
    #[n(0)]
    pub workers: u64,
    /// Datasets.
    #[n(1)]
    pub datasets: u64,
    /// Jobs.
    #[n(2)]
    pub jobs: u64,
    /// Iterations.
    #[n(3)]
    pub iterations: u64,
    /// Clients.
    #[n(4)]
    pub clients: u64,
    /// Tasks of iterations that are not over.
    #[n(5)]
    pub tasks: u64,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct WorkerStatus {
    /// The incarnation.
    #[n(0)]
    pub id: WorkerId,
    /// The data plane's address.
    #[n(1)]
    pub address: String,
    /// The labels.
    #[n(2)]
    pub tags: Vec<String>,
    /// The program's version.
    #[n(3)]
    pub version: String,
    /// Why it is dead; `None` if it lives.
    #[n(4)]
    pub dead: Option<String>,
    /// Since it last said that it lives, in milliseconds.
    #[n(5)]
    pub silent_ms: u64,
    /// The tasks.
    #[n(6)]
    pub tasks: u64,
    /// Whether the worker is about to leave and takes no more tasks.
    #[cbor(n(7), default)]
    pub draining: bool,
    /// The kinds of links between the worker and its readers, from its last report.
    #[n(8)]
    pub links: Option<LinkCounts>,
}

/// A dataset.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DatasetStatus {
    /// The id.
    #[n(0)]
    pub id: DatasetId,
    /// The number of elements, in words.
    #[n(1)]
    pub cardinality: String,
    /// Bytes of its definition.
    #[n(2)]
    pub definition_bytes: u64,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobStatus {
    /// The id.
    #[n(0)]
    pub id: JobId,
    /// The name.
    #[n(1)]
    pub name: String,
    /// The parameters of the job, its dataset among them.
    #[n(2)]
    pub parameters: JobParameters,
}

/// An iteration.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct IterationStatus {
    /// The id.
    #[n(0)]
    pub id: IterationId,
    /// The job.
    #[n(1)]
    pub job: JobId,
    /// The number of the pass.
    #[n(2)]
    pub repetition: u64,
    /// The progress of the iteration.
    #[n(3)]
    pub phase: Phase,
    /// Whether the iteration runs and no worker is there for it, or for one of its shares.
    #[n(4)]
    pub waiting_for_workers: bool,
    /// The clients.
    #[n(5)]
    pub clients: Vec<ClientStatus>,
    /// The tasks.
    #[n(6)]
    pub tasks: Vec<TaskStatus>,
    /// Removed tasks of which clients have not yet said what they have seen.
    #[n(7)]
    pub removals: u64,
    /// Splits to be dealt out, source by source; empty unless it runs under DYNAMIC.
    #[n(8)]
    pub sources: Vec<SourceStatus>,
    /// Splits held by tasks and removals.
    #[n(9)]
    pub splits_leased: u64,
    /// Splits delivered.
    #[n(10)]
    pub splits_done: u64,
    /// Splits lost.
    #[n(11)]
    pub splits_lost: u64,
    /// The lost ones by name, as far as they are named.
    #[n(12)]
    pub lost: Vec<SplitRange>,
    /// Consumers of a coordinated read that it waits for: they have not come, are gone, or are silent.
    #[cbor(n(13), default)]
    pub missing_consumers: Vec<u32>,
    /// The number of workers that would keep its readers busy, without limits.
    #[cbor(n(14), default)]
    pub workers_wanted: Option<u64>,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ClientStatus {
    /// The id.
    #[n(0)]
    pub id: ClientId,
    /// Since its process last said that it lives, in milliseconds.
    #[n(1)]
    pub silent_ms: u64,
    /// The number in coordinated reads.
    #[n(2)]
    pub consumer: Option<u32>,
    /// Elements that its user was given.
    #[n(3)]
    pub elements: u64,
    /// The elements that the client has taken per second, lately.
    #[n(4)]
    pub elements_per_s: f64,
    /// The time that its user takes for an element without waiting, in nanoseconds, if it is known.
    #[n(5)]
    pub element_ns: Option<u64>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct TaskStatus {
    /// The id.
    #[n(0)]
    pub id: TaskId,
    /// The worker's incarnation.
    #[n(1)]
    pub worker: WorkerId,
    /// The worker's address.
    #[n(2)]
    pub worker_address: String,
    /// The progress of the task, in words.
    #[n(3)]
    pub phase: String,
    /// Splits it holds.
    #[n(4)]
    pub splits_leased: u64,
    /// Elements that it has produced.
    #[cbor(n(5), default)]
    pub elements: u64,
    /// The elements that the task has produced per second, lately.
    #[cbor(n(6), default)]
    pub elements_per_s: f64,
    /// The time that the task takes for an element without waiting for its readers, in nanoseconds, if it is
    /// known.
    #[cbor(n(7), default)]
    pub element_ns: Option<u64>,
    /// The stage of its pipeline that holds it up, or `consumer`: its readers; if that is known.
    #[n(8)]
    pub bottleneck: Option<String>,
}

/// A source of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SourceStatus {
    /// The pass that is dealt out.
    #[n(0)]
    pub repetition: u64,
    /// Splits not yet dealt out, or to be dealt out again.
    #[n(1)]
    pub remaining: u64,
    /// Splits delivered, over all passes.
    #[n(2)]
    pub done: u64,
    /// Splits lost, over all passes.
    #[n(3)]
    pub lost: u64,
}
