//! The control plane: datasets, jobs, iterations, tasks, splits, leases, and the dispatcher.
//!
//! A pure core, [`Dispatcher`], decides; a thin shell carries its requests and pushes over QUIC.
//! Definitions and element specifications are opaque bytes here. A worker is an address and a ticket key.
//! The protocol is in `control/PROTOCOL.md`.
//!
//! | module | contents |
//! |---|---|
//! | `id`, `error`, `exactly_once`, `job`, `links`, `load`, `split`, `stage`, `pace`, `planner`, `whereabouts` | the common
//! types of the control plane |
//! | `port` | the check whether a process listens at a port |
//! | `dispatcher` | the state machine, without clock or socket |
//! | `store` | the store of the dispatcher's records |
//! | `scaling` | the policy that decides how many workers a service wants |
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
mod load;
mod pace;
mod planner;
mod port;
pub mod rpc;
mod scaling;
mod shared;
mod split;
mod stage;
mod store;
mod whereabouts;

pub use dispatcher::{
    Action, Answer, Batch, Change, ClientPush, ClientRecord, ClientStatus, Counts, DatasetRecord,
    DatasetStatus, Departure, Dispatcher, DispatcherConfig, ERROR_BYTES_MAX, Event, FailureReport, HiddenKey,
    Holding, Incoming, IterationRecord, IterationStatus, JobRecord, JobStatus, Key, LOCAL_SOCKET_BYTES_MAX,
    Ledger, MetaRecord, Moment, NAME_BYTES_MAX, Phase, ProgramStatus, QuotaOwner, Record, RecordError,
    Refusals, RemovalReason, RemovalRecord, Reply, ReplyToken, Request, Run, SERVICE_EVENTS_MAX,
    ServiceEvent, ServiceEventKind, SessionRecord, Snapshot, SourceStatus, StageStatus, Stages, Status,
    StopReason, TAGS_BYTES_MAX, TAGS_MAX, TaskConcluded, TaskDef, TaskFailure, TaskInfo, TaskPhase,
    TaskRecord, TaskRemoved, TaskStatus, WORKER_ADDRESS_BYTES_MAX, WorkerAddressError, WorkerAddresses,
    WorkerPush, WorkerRecord, WorkerRegistration, WorkerStatus,
};
pub use error::{Code, Error};
pub use exactly_once::{ExactlyOnce, FailedElement, PoisonLimits, QuarantinedElement};
pub use id::{
    BootId, ClientId, DatasetId, DatasetIdError, IterationId, JobId, RequestNumber, SessionId, TaskId,
    WorkerId,
};
pub use job::{
    Abandoned, DeploymentMode, JobParameters, Policy, TargetWorkers, UnknownDeploymentMode, UnknownPolicy,
    UnknownTargetWorkers,
};
pub use links::{ClientLinks, LinkCounts, NETWORK_REASON_BYTES_MAX};
pub use load::WorkerLoad;
pub use pace::{BOTTLENECK_BYTES_MAX, Measures, Pace};
pub use planner::{Cardinality, DatasetFacts, PlanError, Planner, SourcePlan, SplitPlan};
pub use scaling::ScalingConfig;
pub use split::{LeaseRange, PayloadVersion, Seen, Split, SplitPace, SplitRange};
pub use stage::{STAGE_LABEL_BYTES_MAX, STAGES_MAX, StagePace};
pub use store::{
    Campaign, Candidate, DiskStore, EtcdConfig, EtcdConfigError, EtcdUser, MemoryStore, Store, StoreError,
    WorkDirError,
};
#[cfg(feature = "etcd")]
pub use store::{EtcdCandidate, EtcdError};
pub use whereabouts::Whereabouts;
