//! The dispatcher as a pure state machine: events in, changes and actions out.
//!
//! No clock, socket, task or randomness: the caller says what happened and when, stores the changes, then
//! carries out the actions. The rules it keeps are in `control/PROTOCOL.md`.
//!
//! | file | what it owns |
//! |---|---|
//! | `machine` | the machine's face: events in, batches out |
//! | `missed` | what readers have in hand, and what goes with one that is gone |
//! | `event`, `action`, `moment` | its inputs, its outputs, and their time |
//! | `request` | which request is carried out by whom; roles, numbers, remembered answers |
//! | `outcome` | what comes of one |
//! | `state` | what it knows and has to do; the files of each concern add their procedures to it |
//! | `tables`, `record` | what it remembers, each table with its owner, and the changes since the last batch |
//! | `dataset`, `iteration`, `client`, `task`, `removal`, `worker` | what happens to each of these |
//! | `splits` | the books of an iteration's splits |
//! | `caching` | the cross-trainer cache: what it asks of a job |
//! | `order` | readers in order: what a task may be dealt, and who reads what came free |
//! | `coordination` | coordinated reads: which task takes part in which rounds |
//! | `addresses`, `sharding` | the fixed list of workers, and what static sharding makes of it |
//! | `target` | which tasks a reader reads, and what is its alone |
//! | `liveness` | which workers live: heartbeats, reports, and the dispatcher's own absence |
//! | `sweep` | what happens because time passes |
//! | `collect` | what goes because nobody uses it |
//! | `paces`, `measures`, `autoscale` | how fast tasks and clients go, and how many workers that asks for |
//! | `shutdown`, `closing` | the end of the service |
//! | `failure` | how a task ends before its data does |
//! | `quota` | how much one process may have, and those of role `read` together |
//! | `status`, `report` | a snapshot for people |
//! | `config` | limits and timeouts |
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod action;
mod addresses;
mod autoscale;
mod caching;
mod client;
mod closing;
mod collect;
mod config;
mod coordination;
mod dataset;
mod drain;
mod event;
mod failure;
#[cfg(debug_assertions)]
mod invariants;
mod iteration;
mod liveness;
mod machine;
mod measures;
mod missed;
mod moment;
mod order;
mod outcome;
mod paces;
mod quota;
mod record;
mod removal;
mod report;
mod request;
mod sharding;
mod shutdown;
#[cfg(test)]
mod simulation;
mod splits;
mod state;
mod status;
mod sweep;
mod tables;
mod target;
mod task;
#[cfg(test)]
mod tests;
mod worker;

pub use action::{
    Action, ClientPush, Reply, Snapshot, StopReason, TaskConcluded, TaskDef, TaskInfo, TaskRemoved,
    WorkerPush,
};
pub use addresses::{NAME_BYTES_MAX, WorkerAddressError, WorkerAddresses};
pub(crate) use config::REQUESTS_OPEN_MAX;
pub use config::{
    DispatcherConfig, ERROR_BYTES_MAX, LOCAL_SOCKET_BYTES_MAX, TAGS_BYTES_MAX, TAGS_MAX,
    WORKER_ADDRESS_BYTES_MAX,
};
pub use event::{Departure, Event, Incoming, ReplyToken, Request, WorkerRegistration};
pub use failure::{RemovalReason, TaskFailure};
pub use machine::{Batch, Dispatcher};
pub use moment::Moment;
pub use record::{
    Answer, Change, ClientRecord, DatasetRecord, HiddenKey, IterationRecord, JobRecord, Key, MetaRecord,
    Phase, QuotaOwner, Record, RecordError, RemovalRecord, SessionRecord, TaskPhase, TaskRecord,
    WorkerRecord,
};
#[cfg(test)]
pub(crate) use splits::Dealing;
pub use splits::{Holding, Ledger, Run};
pub use status::{
    ClientStatus, Counts, DatasetStatus, IterationStatus, JobStatus, Refusals, SourceStatus, Status,
    TaskStatus, WorkerStatus,
};
