//! The dispatcher as a pure state machine: events in, changes and actions out.
//!
//! The state machine uses no clock, socket, task or randomness. The caller passes in each event with its
//! time, stores the changes, and then carries out the actions. `control/PROTOCOL.md` has the rules that the
//! machine keeps.
//!
//! | file | contents |
//! |---|---|
//! | `machine` | the machine's interface: events in, batches of changes and actions out |
//! | `missed` | the elements that readers hold, and the splits that are lost with a reader |
//! | `event`, `action`, `moment` | the machine's inputs, its outputs, and their time |
//! | `request` | the routing of requests; roles, numbers, remembered answers |
//! | `outcome` | the result of a request |
//! | `state` | the state of the service; the file of each concern adds its procedures |
//! | `tables`, `record` | the stored records, each table with its owner, and the changes since the last
//! batch |
//! | `dataset`, `iteration`, `client`, `task`, `removal`, `worker` | the procedures of each kind of record
//! |
//! | `splits` | the books of an iteration's splits |
//! | `caching` | the cross-trainer cache and its conditions for a job |
//! | `order` | ordered jobs: the splits that a task may get, and the tasks that read released splits |
//! | `division` | the sums over tasks by which their splits are divided |
//! | `turns` | the turns of the tasks of ordered jobs, which lease splits in fair parts |
//! | `exactness` | exactly-once jobs: their only reader, and their splits, which are never lost |
//! | `poison` | splits whose workers die while they read them, which are given up |
//! | `coordination` | coordinated reads: the rounds in which each task takes part |
//! | `addresses`, `sharding` | the fixed list of workers, and static sharding by that list |
//! | `target` | the tasks that a reader reads, and the tasks that only one process can read |
//! | `liveness` | the living workers: heartbeats, reports, and pauses of the dispatcher itself |
//! | `sweep` | the work that falls due as time passes |
//! | `collect` | the collection of unused records |
//! | `paces`, `measures`, `estimate` | the speed of tasks and clients, and the number of workers that the
//! speed asks for |
//! | `drain` | the graceful shutdown of a worker |
//! | `shutdown`, `closing` | the end of the service |
//! | `happened` | the latest events, for people |
//! | `failure` | the reasons for which a task ends before its data does |
//! | `quota` | the limits of one process, and the common limits of all processes of role `read` |
//! | `stages`, `stage_reports` | the stages of running pipelines, for people |
//! | `status`, `report` | a snapshot for people |
//! | `config` | limits and timeouts |
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod action;
mod addresses;
mod caching;
mod client;
mod closing;
mod collect;
mod config;
mod coordination;
mod dataset;
mod division;
mod drain;
mod estimate;
mod event;
mod exactness;
mod failure;
mod happened;
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
mod poison;
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
mod stage_reports;
mod stages;
mod state;
mod status;
mod sweep;
mod tables;
mod target;
mod task;
#[cfg(test)]
mod tests;
mod turns;
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
#[cfg(test)]
pub(crate) use failure::Blame;
pub use failure::{FailureReport, RemovalReason, TaskFailure};
pub use happened::{SERVICE_EVENTS_MAX, ServiceEvent, ServiceEventKind};
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
pub use stages::{StageStatus, Stages};
pub use status::{
    ClientStatus, Counts, DatasetStatus, IterationStatus, JobStatus, ProgramStatus, Refusals, SourceStatus,
    Status, TaskStatus, WorkerStatus,
};
