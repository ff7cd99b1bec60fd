//! The records of the dispatcher: its whole current state, without a history of changes.
//!
//! Fields are numbered and never renumbered, so that a later version reads the records of an earlier one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

use super::failure::{Blame, HeldAtDeath, RemovalReason, TaskFailure};
use super::splits::{Holding, Ledger, Run};
use crate::error::Error;
use crate::id::{
    BootId, ClientId, DatasetId, IterationId, JobId, RequestNumber, SessionId, TaskId, WorkerId,
};
use crate::job::JobParameters;
use crate::planner::{DatasetFacts, SplitPlan};
use crate::split::SplitRange;
use crate::whereabouts::Whereabouts;

/// The dispatcher's own record, which holds the next id of each kind.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct MetaRecord {
    /// The boot id: the name of this life of the dispatcher's state (C1.8).
    #[n(0)]
    pub boot: BootId,
    /// The next automatic id of a dataset.
    #[n(1)]
    pub next_dataset: u64,
    /// The next id of a job.
    #[n(2)]
    pub next_job: JobId,
    /// The next id of an iteration.
    #[n(3)]
    pub next_iteration: IterationId,
    /// The next id of a client.
    #[n(4)]
    pub next_client: ClientId,
    /// The next id of a task.
    #[n(5)]
    pub next_task: TaskId,
    /// The next id of a worker's incarnation.
    #[n(6)]
    pub next_worker: WorkerId,
}

/// A registered dataset.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct DatasetRecord {
    /// The id of the dataset.
    #[n(0)]
    pub id: DatasetId,
    /// The definition, as bytes that the dispatcher cannot read.
    #[n(1)]
    pub definition: ByteVec,
    /// The planner's facts of the dataset.
    #[n(2)]
    pub facts: DatasetFacts,
    /// The session that registered the dataset under an automatic id. `None` if the process chose the id,
    /// so that other processes can know it (C2.5).
    #[n(3)]
    pub owner: Option<SessionId>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JobRecord {
    /// The id of the job.
    #[n(0)]
    pub id: JobId,
    /// The unique name of the job.
    #[n(1)]
    pub name: String,
    /// The parameters of the job, its dataset among them.
    #[n(2)]
    pub parameters: JobParameters,
    /// The process that created the job, in whose quota the job counts.
    #[n(3)]
    pub owner: Option<QuotaOwner>,
}

/// The progress of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Phase {
    /// The splits of the iteration are being planned, and no task exists yet.
    #[n(0)]
    Planning,
    /// The iteration has tasks, or waits for workers.
    #[n(1)]
    Running,
    /// Every split was produced and delivered, or reported lost.
    #[n(2)]
    Finished,
    /// The iteration was forgotten because it had no readers. A reader that opens it again begins a new one.
    #[n(3)]
    Collected,
}

/// One iteration: one pass of a job.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct IterationRecord {
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
    /// The number of times that new tasks were started for free splits after all earlier tasks had
    /// finished.
    #[n(4)]
    pub round: u32,
    /// The lost splits by name, up to the limit of named ranges.
    #[n(5)]
    pub lost: Vec<SplitRange>,
    /// The number of lost splits.
    #[n(6)]
    pub splits_lost: u64,
    /// The number of delivered splits, filled in when the iteration ends and its ledger is deleted.
    #[n(7)]
    pub splits_done: u64,
    /// The addresses of the last few workers that were lost while they had tasks of the iteration.
    #[n(8)]
    pub workers_lost: Vec<String>,
    /// True if a client of the iteration was ever released.
    #[n(9)]
    pub was_read: bool,
    /// The first few failed tasks, so that later clients are told of the failures.
    #[cbor(n(10), default)]
    pub failures: Vec<TaskFailure>,
    /// The number of the next lease at the time when the current round began.
    #[cbor(n(11), default)]
    pub round_lease: u64,
    /// The number of shares into which static sharding divides the iteration, one for each worker of the
    /// fixed list. 0 without static sharding.
    #[cbor(n(12), default)]
    pub shares: u64,
    /// The consumers that have ever joined the coordinated read, including consumers that are gone.
    #[cbor(n(13), default)]
    pub consumers: BTreeSet<u32>,
    /// The last processes whose readers have all gone, so that the tasks which only they could read were
    /// deleted (C14.5).
    #[cbor(n(14), default)]
    pub left: Vec<u64>,
    /// The process that began the iteration, in whose quota the iteration counts.
    #[n(15)]
    pub owner: Option<QuotaOwner>,
    /// The client that joined the iteration of an exactly-once job, which may be gone (C16.5).
    #[n(16)]
    pub reader: Option<ClientId>,
    /// The last few workers that died in an exactly-once job, with the splits that they held (C16.7).
    #[cbor(n(17), default)]
    pub deaths: Vec<HeldAtDeath>,
    /// The splits that were given up in an exactly-once job, one by one (C16.9).
    #[cbor(n(18), default)]
    pub skipped: Vec<SplitRange>,
}

/// A process in whose quota a record counts (C15.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct QuotaOwner {
    /// The session of the process.
    #[n(0)]
    pub session: SessionId,
    /// True if the owner's role is `read`. All processes of role `read` together may use half of each
    /// limit.
    #[n(1)]
    pub is_read: bool,
}

/// A reader's lease on an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ClientRecord {
    /// The id of the client.
    #[n(0)]
    pub id: ClientId,
    /// The session of the process that owns the client.
    #[n(1)]
    pub session: SessionId,
    /// The iteration that the client reads.
    #[n(2)]
    pub iteration: IterationId,
    /// The number of the consumer; `None` outside of coordinated reads.
    #[n(3)]
    pub consumer: Option<u32>,
    /// The host and process of the reader.
    #[cbor(n(4), default)]
    pub whereabouts: Whereabouts,
    /// The first task that the client does not read, set when the client was told that its part of the
    /// iteration is finished.
    #[n(5)]
    pub reads_before: Option<TaskId>,
    /// The splits that the client has received completely, but whose elements it has not all handed over
    /// (C5.8).
    #[cbor(n(6), default)]
    pub in_hand: Holding,
}

/// The progress of a task.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum TaskPhase {
    /// The task produces elements, or may still do so.
    #[n(0)]
    Running,
    /// The task has produced its last element, and clients may still receive elements.
    #[n(1)]
    Finished,
    /// The task cannot continue, for the given reason.
    #[n(2)]
    Failed(#[n(0)] String),
    /// The task is finished, and every client has received the elements that it wanted.
    #[n(3)]
    Settled,
}

/// A task: one worker's share of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TaskRecord {
    /// The id of the task.
    #[n(0)]
    pub id: TaskId,
    /// The iteration of the task.
    #[n(1)]
    pub iteration: IterationId,
    /// The worker that runs the task.
    #[n(2)]
    pub worker: WorkerId,
    /// The progress of the task.
    #[n(3)]
    pub phase: TaskPhase,
    /// The clients that have received the task's end.
    #[n(4)]
    pub drained: BTreeSet<ClientId>,
    /// True if the pipeline ended before its splits did, so that the task does not want its returned splits
    /// back.
    #[n(5)]
    pub stopped_early: bool,
    /// The round of the iteration in which the task was started.
    #[n(6)]
    pub round: u32,
    /// The first round of a coordinated read in which the task takes part. `None` until the round is known.
    /// 0 outside of coordinated reads.
    #[n(7)]
    pub start_round: Option<u64>,
    /// The first round in which each consumer can read the task, while the task's first round is not known.
    #[cbor(n(8), default)]
    pub ready: BTreeMap<u32, u64>,
    /// True if the task stopped before the end of its splits because its worker was drained. Other tasks
    /// continue at its position.
    #[cbor(n(9), default)]
    pub cut_short: bool,
    /// True if the task was started in an ordered iteration to read splits that became free while other
    /// tasks had passed them (C6.9).
    #[cbor(n(10), default)]
    pub catches_up: bool,
    /// The clients that are gone while the worker has not yet reported the splits that each of them held
    /// (C6.7).
    #[cbor(n(11), default)]
    pub releasing: BTreeSet<ClientId>,
    /// True if the worker has reported that all elements are delivered.
    #[cbor(n(12), default)]
    pub delivered: bool,
    /// True if the draining worker was ordered to stop the task because no client read it (C10.4). The
    /// elements of the splits that the task had begun are gone.
    #[cbor(n(13), default)]
    pub stopped: bool,
    /// The lease of the suspect that the task reads alone and has not read to its end (C16.8).
    #[n(14)]
    pub alone: Option<u64>,
}

/// One incarnation of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct WorkerRecord {
    /// The id of the incarnation.
    #[n(0)]
    pub id: WorkerId,
    /// The session of the worker.
    #[n(1)]
    pub session: SessionId,
    /// The address of the worker's data plane, for clients.
    #[n(2)]
    pub address: String,
    /// The labels of the worker.
    #[n(3)]
    pub tags: Vec<String>,
    /// The key with which the dispatcher signs tickets for the worker's tasks.
    #[n(4)]
    pub ticket_key: HiddenKey,
    /// The version of the worker's program.
    #[n(5)]
    pub version: String,
    /// The reason of the worker's death; `None` while the worker lives.
    #[n(6)]
    pub dead: Option<RemovalReason>,
    /// The worker's place in the fixed list of workers, or else its number in the order of registration. A
    /// restarted worker at the same address inherits the number.
    #[n(7)]
    pub index: u64,
    /// True if the worker is about to leave and takes no more tasks.
    #[cbor(n(8), default)]
    pub draining: bool,
    /// The host and process of the worker.
    #[cbor(n(9), default)]
    pub whereabouts: Whereabouts,
    /// The socket by which readers on its host reach the worker without a network.
    #[n(10)]
    pub local_socket: Option<String>,
}

/// A stored ticket key, which `Debug` hides.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct HiddenKey(#[n(0)] pub ByteArray<32>);

impl std::fmt::Debug for HiddenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HiddenKey")
    }
}

/// A task that was removed, until all clients have reported the splits that they have seen of the task.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RemovalRecord {
    /// The removed task.
    #[n(0)]
    pub task: TaskId,
    /// The iteration of the task.
    #[n(1)]
    pub iteration: IterationId,
    /// The address of the task's worker.
    #[n(2)]
    pub worker_address: String,
    /// The reason for the removal.
    #[n(3)]
    pub reason: RemovalReason,
    /// The clients that have not yet acknowledged the removal.
    #[n(4)]
    pub awaiting: BTreeSet<ClientId>,
    /// The leases that the task held.
    #[n(5)]
    pub holding: Holding,
    /// True if the task had several clients. A split that one client considers complete may then lack
    /// elements that another client dropped after the removal.
    #[cbor(n(6), default)]
    pub shared: bool,
    /// The most groups that any acknowledging client may hand over, in coordinated reads.
    #[cbor(n(7), default)]
    pub released: u64,
    /// The clients that were told of the removal and have not confirmed the verdict, in coordinated reads.
    #[cbor(n(8), default)]
    pub untold: BTreeSet<ClientId>,
    /// True if the verdict is final, because all clients have acknowledged the removal.
    #[cbor(n(9), default)]
    pub concluded: bool,
    /// The first round in which the task took part, in coordinated reads.
    #[cbor(n(10), default)]
    pub start_round: u64,
    /// The clients that read the task.
    #[cbor(n(11), default)]
    pub readers: BTreeSet<ClientId>,
    /// The splits of the task for which its worker's death counts (C16.7).
    #[cbor(n(12), default)]
    pub blame: Blame,
    /// The consumers of a coordinated read that had received the task's end before the removal (C9.5).
    #[cbor(n(13), default)]
    pub ended: BTreeSet<ClientId>,
}

/// The remembered requests of a process.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SessionRecord {
    /// The session of the process.
    #[n(0)]
    pub id: SessionId,
    /// The request number below which no request is ever carried out again.
    #[n(1)]
    pub floor: RequestNumber,
    /// The remembered answers, which the process may ask for again.
    #[n(2)]
    pub answers: BTreeMap<RequestNumber, Answer>,
    /// True if the role of the process is `read`.
    #[cbor(n(3), default)]
    pub is_read: bool,
}

/// The remembered answer to a numbered request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Answer {
    /// Success without a further result.
    #[n(0)]
    Done,
    /// The id of a dataset.
    #[n(1)]
    Dataset(#[n(0)] DatasetId),
    /// The id of a job.
    #[n(2)]
    Job(#[n(0)] JobId),
    /// The id of a client.
    #[n(3)]
    Client(#[n(0)] ClientId),
    /// A lease of splits, whose payloads are in the plan.
    #[n(4)]
    Splits {
        /// The iteration whose plan has the payloads.
        #[n(0)]
        iteration: IterationId,
        /// The leased splits, in runs of consecutive splits.
        #[n(1)]
        runs: Vec<Run>,
        /// True if the pass over the source had no more splits for the task.
        #[n(2)]
        end: bool,
        /// The number of the pass over the source from which splits were leased.
        #[cbor(n(3), default)]
        current: u64,
        /// True if the lease had the maximum length, so that the task may ask for another lease.
        #[cbor(n(4), default)]
        more: bool,
    },
    /// The error by which the request was refused.
    #[n(5)]
    Refused(#[n(0)] Error),
}

/// The key of a record in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The only [`MetaRecord`].
    Meta,
    /// The key of a dataset.
    Dataset(DatasetId),
    /// The key of a job.
    Job(JobId),
    /// The key of an iteration.
    Iteration(IterationId),
    /// The key of an iteration's split plan.
    Plan(IterationId),
    /// The key of an iteration's ledger.
    Ledger(IterationId),
    /// The key of a client.
    Client(ClientId),
    /// The key of a task.
    Task(TaskId),
    /// The key of a task's leases.
    Holding(TaskId),
    /// The key of a removal.
    Removal(TaskId),
    /// The key of a worker.
    Worker(WorkerId),
    /// The key of a session.
    Session(SessionId),
}

impl Key {
    /// Returns the key as bytes: a table's number, then the id. The records of a table are therefore
    /// adjacent and ordered by id.
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

/// A record of any kind.
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

    /// Returns the record as bytes (CBOR, numbered fields).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        minicbor::encode(self, &mut bytes)
            .expect("a vector takes all bytes, and no record refuses to be encoded");
        bytes
    }

    /// Decodes a record from bytes.
    ///
    /// # Errors
    /// The bytes hold no record that this version knows.
    pub fn from_bytes(bytes: &[u8]) -> Result<Record, RecordError> {
        minicbor::decode(bytes).map_err(|error| RecordError(error.to_string()))
    }
}

/// The error of a stored record that cannot be read. The store is damaged, or a later version wrote the
/// record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored record cannot be read: {0}")]
pub struct RecordError(String);

/// A change to the stored records.
#[expect(
    clippy::large_enum_variant,
    reason = "most changes are records, so boxes would only cost allocations"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Stores a new or changed record.
    Put(Record),
    /// Deletes the record with this key.
    Delete(Key),
}

impl Change {
    /// Returns the key of the changed record.
    pub fn key(&self) -> Key {
        match self {
            Change::Put(record) => record.key(),
            Change::Delete(key) => key.clone(),
        }
    }
}
