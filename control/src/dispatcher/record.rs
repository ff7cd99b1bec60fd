//! The records of the dispatcher. They are its state itself, and no log of its history.
//!
//! Fields are numbered and never renumbered, so that a later version reads the records of an earlier one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

use super::failure::{RemovalReason, TaskFailure};
use super::splits::{Holding, Ledger, Run};
use crate::error::Error;
use crate::id::{
    BootId, ClientId, DatasetId, IterationId, JobId, RequestNumber, SessionId, TaskId, WorkerId,
};
use crate::job::JobParameters;
use crate::planner::{DatasetFacts, SplitPlan};
use crate::split::SplitRange;
use crate::whereabouts::Whereabouts;

/// The dispatcher's own record: which ids come next.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct MetaRecord {
    /// This life of the state.
    #[n(0)]
    pub boot: BootId,
    /// Next automatic dataset id.
    #[n(1)]
    pub next_dataset: u64,
    /// Next job.
    #[n(2)]
    pub next_job: JobId,
    /// Next iteration.
    #[n(3)]
    pub next_iteration: IterationId,
    /// Next client.
    #[n(4)]
    pub next_client: ClientId,
    /// Next task.
    #[n(5)]
    pub next_task: TaskId,
    /// Next worker incarnation.
    #[n(6)]
    pub next_worker: WorkerId,
}

/// A registered dataset.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DatasetRecord {
    /// The id.
    #[n(0)]
    pub id: DatasetId,
    /// The definition, opaque here.
    #[n(1)]
    pub definition: ByteVec,
    /// The planner's facts of the dataset.
    #[n(2)]
    pub facts: DatasetFacts,
    /// The process that registered it and has its automatic id; `None`: the id was chosen, for others to know
    /// (C2.5).
    #[n(3)]
    pub owner: Option<SessionId>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobRecord {
    /// The id.
    #[n(0)]
    pub id: JobId,
    /// The name, unique.
    #[n(1)]
    pub name: String,
    /// The parameters of the job, its dataset among them.
    #[n(2)]
    pub parameters: JobParameters,
    /// The process that created it, in whose quota it counts.
    #[n(3)]
    pub owner: Option<QuotaOwner>,
}

/// The progress of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Phase {
    /// The splits are being planned; it has no tasks yet.
    #[n(0)]
    Planning,
    /// The iteration has tasks, or waits for workers.
    #[n(1)]
    Running,
    /// Everything was produced and delivered, or reported lost.
    #[n(2)]
    Finished,
    /// The iteration was forgotten because it had no readers. A reader that opens it again begins a new one.
    #[n(3)]
    Collected,
}

/// One pass of a job.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct IterationRecord {
    /// The id.
    #[n(0)]
    pub id: IterationId,
    /// The job of the iteration.
    #[n(1)]
    pub job: JobId,
    /// The number of the pass.
    #[n(2)]
    pub repetition: u64,
    /// The progress of the iteration.
    #[n(3)]
    pub phase: Phase,
    /// The number of times that new tasks were started for splits that came free after the others had
    /// finished.
    #[n(4)]
    pub round: u32,
    /// Lost splits by name, as many as the limit allows.
    #[n(5)]
    pub lost: Vec<SplitRange>,
    /// Lost splits.
    #[n(6)]
    pub splits_lost: u64,
    /// Splits delivered; filled in when the iteration ends and its ledger goes.
    #[n(7)]
    pub splits_done: u64,
    /// Addresses of workers that were lost while they had tasks of it: the last few.
    #[n(8)]
    pub workers_lost: Vec<String>,
    /// Whether a client was ever released.
    #[n(9)]
    pub was_read: bool,
    /// Tasks that failed: the first few, so that later clients are told.
    #[cbor(n(10), default)]
    pub failures: Vec<TaskFailure>,
    /// The next lease when the current round began.
    #[cbor(n(11), default)]
    pub round_lease: u64,
    /// Into how many shares static sharding divides it, one for each worker of the fixed list; 0: it is not
    /// divided.
    #[cbor(n(12), default)]
    pub shares: u64,
    /// The consumers of a coordinated read that have begun it, still there or not.
    #[cbor(n(13), default)]
    pub consumers: BTreeSet<u32>,
    /// Processes whose readers have gone, and with them what only they could read: the last ones.
    #[cbor(n(14), default)]
    pub left: Vec<u64>,
    /// The process that began it, in whose quota it counts.
    #[n(15)]
    pub owner: Option<QuotaOwner>,
}

/// A process in whose quota a record counts (C15.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct QuotaOwner {
    /// The session.
    #[n(0)]
    pub session: SessionId,
    /// Whether the owner's role is `read`, whose processes together may have half of everything.
    #[n(1)]
    pub is_read: bool,
}

/// A reader's lease on an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ClientRecord {
    /// The id.
    #[n(0)]
    pub id: ClientId,
    /// The process that owns it.
    #[n(1)]
    pub session: SessionId,
    /// The iteration that the client reads.
    #[n(2)]
    pub iteration: IterationId,
    /// The number of the consumer, in coordinated reads.
    #[n(3)]
    pub consumer: Option<u32>,
    /// The host and process of the reader.
    #[cbor(n(4), default)]
    pub whereabouts: Whereabouts,
    /// The first task that the client does not read, once it was told that it has everything.
    #[n(5)]
    pub reads_before: Option<TaskId>,
    /// Splits of which it has everything, but elements of them were not handed over yet (C5.8).
    #[cbor(n(6), default)]
    pub in_hand: Holding,
}

/// The progress of a task.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum TaskPhase {
    /// The task produces, or may.
    #[n(0)]
    Running,
    /// The task has produced its last element, and clients may still be receiving.
    #[n(1)]
    Finished,
    /// The task cannot continue, for the given reason.
    #[n(2)]
    Failed(#[n(0)] String),
    /// The task is finished, and every client has what it wanted of it.
    #[n(3)]
    Settled,
}

/// One worker's share of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TaskRecord {
    /// The id.
    #[n(0)]
    pub id: TaskId,
    /// The iteration of the task.
    #[n(1)]
    pub iteration: IterationId,
    /// On which worker.
    #[n(2)]
    pub worker: WorkerId,
    /// The progress of the task.
    #[n(3)]
    pub phase: TaskPhase,
    /// Clients that have received its end.
    #[n(4)]
    pub drained: BTreeSet<ClientId>,
    /// The pipeline ended before its splits did: it wants none of those that it gave back.
    #[n(5)]
    pub stopped_early: bool,
    /// In which round of its iteration it was started.
    #[n(6)]
    pub round: u32,
    /// From which round of a coordinated read on it takes part; `None`: not settled yet. 0 outside of
    /// coordinated reads.
    #[n(7)]
    pub start_round: Option<u64>,
    /// While that is not settled: the first round in which each consumer can take it in.
    #[cbor(n(8), default)]
    pub ready: BTreeMap<u32, u64>,
    /// The worker was drained before it had read to the end: others go on where it stopped.
    #[cbor(n(9), default)]
    pub cut_short: bool,
    /// Whether the task was started in an ordered iteration, for splits that came free while others read
    /// later ones (C6.9).
    #[cbor(n(10), default)]
    pub catches_up: bool,
    /// Clients that are gone, of which the worker has not said yet what they took with them (C6.7).
    #[cbor(n(11), default)]
    pub releasing: BTreeSet<ClientId>,
    /// The worker has said that all is delivered.
    #[cbor(n(12), default)]
    pub delivered: bool,
    /// The worker, which drains, was told to stop it, since no client read it (C10.4). What it had begun is
    /// gone.
    #[cbor(n(13), default)]
    pub stopped: bool,
}

/// One incarnation of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct WorkerRecord {
    /// The id.
    #[n(0)]
    pub id: WorkerId,
    /// The session.
    #[n(1)]
    pub session: SessionId,
    /// The address of its data plane, for clients.
    #[n(2)]
    pub address: String,
    /// The labels.
    #[n(3)]
    pub tags: Vec<String>,
    /// The key its tickets are minted with.
    #[n(4)]
    pub ticket_key: HiddenKey,
    /// The program's version.
    #[n(5)]
    pub version: String,
    /// Why it is dead, if it is.
    #[n(6)]
    pub dead: Option<RemovalReason>,
    /// The place in the fixed list of workers, else its number in the order of registration. Inherited by a
    /// restarted worker at the same address.
    #[n(7)]
    pub index: u64,
    /// Whether the worker is about to leave and takes no more tasks.
    #[cbor(n(8), default)]
    pub draining: bool,
    /// The host and process of the worker.
    #[cbor(n(9), default)]
    pub whereabouts: Whereabouts,
    /// The socket by which readers on its host reach the worker without a network.
    #[n(10)]
    pub local_socket: Option<String>,
}

/// A ticket key at rest. `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct HiddenKey(#[n(0)] pub ByteArray<32>);

impl std::fmt::Debug for HiddenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HiddenKey")
    }
}

/// A task that was removed, until all clients have said what they have seen of it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RemovalRecord {
    /// The task.
    #[n(0)]
    pub task: TaskId,
    /// The iteration.
    #[n(1)]
    pub iteration: IterationId,
    /// The worker's address.
    #[n(2)]
    pub worker_address: String,
    /// Why.
    #[n(3)]
    pub reason: RemovalReason,
    /// Clients that have not yet answered.
    #[n(4)]
    pub awaiting: BTreeSet<ClientId>,
    /// The leases that the task held.
    #[n(5)]
    pub holding: Holding,
    /// Whether the task had several clients. A split that one of them takes for whole may then miss elements
    /// that another dropped when it heard of the removal.
    #[cbor(n(6), default)]
    pub shared: bool,
    /// In coordinated reads: the most groups that a client which has answered may hand over.
    #[cbor(n(7), default)]
    pub released: u64,
    /// In coordinated reads: clients that were told of the removal and have not said that they know the
    /// verdict on it.
    #[cbor(n(8), default)]
    pub untold: BTreeSet<ClientId>,
    /// The verdict stands: all have answered.
    #[cbor(n(9), default)]
    pub concluded: bool,
    /// In coordinated reads: the first round that the task was in.
    #[cbor(n(10), default)]
    pub start_round: u64,
    /// The clients that read it.
    #[cbor(n(11), default)]
    pub readers: BTreeSet<ClientId>,
}

/// The requests of a process that are remembered.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SessionRecord {
    /// The session of the process.
    #[n(0)]
    pub id: SessionId,
    /// Requests below this are never carried out again.
    #[n(1)]
    pub floor: RequestNumber,
    /// Answers that may be asked for again.
    #[n(2)]
    pub answers: BTreeMap<RequestNumber, Answer>,
    /// Whether the process' role is `read`.
    #[cbor(n(3), default)]
    pub is_read: bool,
}

/// The answer to a numbered request, as remembered.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Answer {
    /// Nothing more to say.
    #[n(0)]
    Done,
    /// A dataset.
    #[n(1)]
    Dataset(#[n(0)] DatasetId),
    /// A job.
    #[n(2)]
    Job(#[n(0)] JobId),
    /// A client.
    #[n(3)]
    Client(#[n(0)] ClientId),
    /// Splits; their payloads are in the plan.
    #[n(4)]
    Splits {
        /// The iteration whose plan has the payloads.
        #[n(0)]
        iteration: IterationId,
        /// The splits, in runs of consecutive ones.
        #[n(1)]
        runs: Vec<Run>,
        /// Whether the pass has no more.
        #[n(2)]
        end: bool,
        /// The pass that was being dealt out.
        #[cbor(n(3), default)]
        current: u64,
        /// Whether the lease was as long as one may be, so that another may follow.
        #[cbor(n(4), default)]
        more: bool,
    },
    /// A refusal.
    #[n(5)]
    Refused(#[n(0)] Error),
}

/// The key of a record in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The only [`MetaRecord`].
    Meta,
    /// A dataset.
    Dataset(DatasetId),
    /// A job.
    Job(JobId),
    /// An iteration.
    Iteration(IterationId),
    /// An iteration's split plan.
    Plan(IterationId),
    /// An iteration's ledger.
    Ledger(IterationId),
    /// A client.
    Client(ClientId),
    /// A task.
    Task(TaskId),
    /// A task's leases.
    Holding(TaskId),
    /// A removal.
    Removal(TaskId),
    /// A worker.
    Worker(WorkerId),
    /// A session.
    Session(SessionId),
}

impl Key {
    /// The key as bytes: a table's number, then the id, so that a table's records lie together in order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (table, id) = match self {
            Key::Meta => (0, None),
            Key::Dataset(id) => return [&[1], id.as_str().as_bytes()].concat(),
            Key::Job(id) => (2, Some(id.0)),
            Key::Iteration(id) => (3, Some(id.0)),
            Key::Plan(id) => (4, Some(id.0)),
            Key::Ledger(id) => (5, Some(id.0)),
            Key::Client(id) => (6, Some(id.0)),
            Key::Task(id) => (7, Some(id.0)),
            Key::Holding(id) => (8, Some(id.0)),
            Key::Removal(id) => (9, Some(id.0)),
            Key::Worker(id) => (10, Some(id.0)),
            Key::Session(id) => (11, Some(id.0)),
        };
        let mut bytes = vec![table];
        bytes.extend(id.map(u64::to_be_bytes).into_iter().flatten());
        bytes
    }
}

/// A record, whichever.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// See [`MetaRecord`].
    #[n(0)]
    Meta(#[n(0)] MetaRecord),
    /// See [`DatasetRecord`].
    #[n(1)]
    Dataset(#[cbor(n(0), with = "crate::shared")] Arc<DatasetRecord>),
    /// See [`JobRecord`].
    #[n(2)]
    Job(#[n(0)] JobRecord),
    /// See [`IterationRecord`].
    #[n(3)]
    Iteration(#[n(0)] IterationRecord),
    /// The plan of an iteration's sources.
    #[n(4)]
    Plan(
        #[n(0)] IterationId,
        #[cbor(n(1), with = "crate::shared")] Arc<SplitPlan>,
    ),
    /// See [`Ledger`].
    #[n(5)]
    Ledger(#[n(0)] IterationId, #[n(1)] Ledger),
    /// See [`ClientRecord`].
    #[n(6)]
    Client(#[n(0)] ClientRecord),
    /// See [`TaskRecord`].
    #[n(7)]
    Task(#[n(0)] TaskRecord),
    /// See [`Holding`].
    #[n(8)]
    Holding(#[n(0)] TaskId, #[n(1)] Holding),
    /// See [`RemovalRecord`].
    #[n(9)]
    Removal(#[n(0)] RemovalRecord),
    /// See [`WorkerRecord`].
    #[n(10)]
    Worker(#[n(0)] WorkerRecord),
    /// See [`SessionRecord`].
    #[n(11)]
    Session(#[n(0)] SessionRecord),
}

impl Record {
    /// Returns the key of the record.
    pub fn key(&self) -> Key {
        match self {
            Record::Meta(_) => Key::Meta,
            Record::Dataset(record) => Key::Dataset(record.id.clone()),
            Record::Job(record) => Key::Job(record.id),
            Record::Iteration(record) => Key::Iteration(record.id),
            Record::Plan(id, _) => Key::Plan(*id),
            Record::Ledger(id, _) => Key::Ledger(*id),
            Record::Client(record) => Key::Client(record.id),
            Record::Task(record) => Key::Task(record.id),
            Record::Holding(id, _) => Key::Holding(*id),
            Record::Removal(record) => Key::Removal(record.task),
            Record::Worker(record) => Key::Worker(record.id),
            Record::Session(record) => Key::Session(record.id),
        }
    }

    /// The record as bytes (CBOR, numbered fields).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        minicbor::encode(self, &mut bytes)
            .expect("a vector takes all bytes, and no record refuses to be encoded");
        bytes
    }

    /// The record in these bytes.
    ///
    /// # Errors
    /// They hold no record that this version knows.
    pub fn from_bytes(bytes: &[u8]) -> Result<Record, RecordError> {
        minicbor::decode(bytes).map_err(|error| RecordError(error.to_string()))
    }
}

/// A stored record cannot be read. The store's fault, or a later version wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored record cannot be read: {0}")]
pub struct RecordError(String);

/// A change to what is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The record is new, or differs.
    Put(Record),
    /// The record is gone.
    Delete(Key),
}

impl Change {
    /// The key of the record.
    pub fn key(&self) -> Key {
        match self {
            Change::Put(record) => record.key(),
            Change::Delete(key) => key.clone(),
        }
    }
}
