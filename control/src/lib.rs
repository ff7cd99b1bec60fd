//! The control plane: datasets, jobs, iterations, tasks, splits, leases, and the dispatcher.
//!
//! A pure core, [`Dispatcher`], decides; a thin shell carries its requests and pushes over QUIC.
//! Definitions and element specifications are opaque bytes here. A worker is an address and a ticket key.
//! The protocol is in `control/PROTOCOL.md`.
//!
//! | module | contents |
//! |---|---|
//! | `id`, `error`, `exactly_once`, `job`, `links`, `split`, `pace`, `planner`, `whereabouts` | the common
//! types of the control plane |
//! | `dispatcher` | the state machine, without clock or socket |
//! | `store` | the store of the dispatcher's records |
//! | [`rpc`] | the protocol: the dispatcher's server, the trainers' client |
//! | [`agent`] | the worker's side: registration, tasks, splits |

pub mod agent;
mod dispatcher;
mod error;
mod exactly_once;
#[cfg(test)]
mod fuzz;
mod id;
mod job;
mod links;
mod pace;
mod planner;
pub mod rpc;
mod shared;
mod split;
mod store;
mod whereabouts;

pub use dispatcher::{
    Action, Answer, Batch, Change, ClientPush, ClientRecord, ClientStatus, Counts, DatasetRecord,
    DatasetStatus, Departure, Dispatcher, DispatcherConfig, ERROR_BYTES_MAX, Event, HiddenKey, Holding,
    Incoming, IterationRecord, IterationStatus, JobRecord, JobStatus, Key, LOCAL_SOCKET_BYTES_MAX, Ledger,
    MetaRecord, Moment, NAME_BYTES_MAX, Phase, QuotaOwner, Record, RecordError, Refusals, RemovalReason,
    RemovalRecord, Reply, ReplyToken, Request, Run, SessionRecord, Snapshot, SourceStatus, Status,
    StopReason, TAGS_BYTES_MAX, TAGS_MAX, TaskConcluded, TaskDef, TaskFailure, TaskInfo, TaskPhase,
    TaskRecord, TaskRemoved, TaskStatus, WORKER_ADDRESS_BYTES_MAX, WorkerAddressError, WorkerAddresses,
    WorkerPush, WorkerRecord, WorkerRegistration, WorkerStatus,
};
pub use error::{Code, Error};
pub use exactly_once::{ExactlyOnce, PoisonLimits};
pub use id::{
    BootId, ClientId, DatasetId, DatasetIdError, IterationId, JobId, RequestNumber, SessionId, TaskId,
    WorkerId,
};
pub use job::{
    Abandoned, DeploymentMode, JobParameters, Policy, TargetWorkers, UnknownDeploymentMode, UnknownPolicy,
    UnknownTargetWorkers,
};
pub use links::LinkCounts;
pub use pace::{BOTTLENECK_BYTES_MAX, Measures, Pace};
pub use planner::{Cardinality, DatasetFacts, PlanError, Planner, SourcePlan, SplitPlan};
pub use split::{LeaseRange, Seen, Split, SplitPace, SplitRange};
pub use store::{DiskStore, MemoryStore, Store, StoreError, WorkDirError};
pub use whereabouts::Whereabouts;
