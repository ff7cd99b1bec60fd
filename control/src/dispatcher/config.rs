//! Every limit and timeout of the dispatcher, with its default and its reason.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::PathBuf;
use std::time::Duration;

use millstream_trace::Tracer;

use super::addresses::WorkerAddresses;
use crate::job::DeploymentMode;
use crate::scaling::ScalingConfig;

/// The limits and timeouts of the dispatcher. Start from the default and change what is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherConfig {
    /// The fixed list of workers, for static sharding. Default empty: any worker may register.
    pub worker_addresses: WorkerAddresses,
    /// The placement of trainers and workers. Default unspecified.
    pub deployment_mode: DeploymentMode,
    /// The interval of the heartbeats of workers and clients. Default 500 ms, so that the dispatcher
    /// notices a silent process within a second.
    pub heartbeat_interval: Duration,
    /// The silence after which the dispatcher stops keeping other processes waiting for a silent one.
    /// Default 10 s, so that nineteen heartbeats may be lost. A worker has its lease
    /// instead, [`worker_lease`](Self::worker_lease), or two heartbeats if its port is closed (C7.4).
    pub liveness: Duration,
    /// The time for which the status still shows a dead worker before the dispatcher forgets the worker
    /// (C7.7). Default 600 s.
    pub worker_timeout: Duration,
    /// The silence after which the dispatcher releases a client and forgets the answers kept for its
    /// process. Default 300 s, because a trainer may stall for minutes and come back.
    pub client_timeout: Duration,
    /// The time that clients have to report the splits that they have seen of a removed task. A client that
    /// has not reported by then counts as having seen a part of every split. Default 30 s.
    pub acknowledge_timeout: Duration,
    /// The delay after which clients are told that every worker of their iteration is gone. Default 10 s,
    /// within which a supervisor restarts a worker.
    pub workers_lost_grace: Duration,
    /// The interval between two searches for unused records. Default 10 s: records live for minutes, and a
    /// search among 100 000 records takes milliseconds.
    pub job_gc_check_interval: Duration,
    /// The time after which an unread iteration, finished or not (C3.6, C3.7), or an unread job (C3.8) is
    /// collected. `None` collects neither iterations nor jobs. Default 300 s, because a trainer may spend
    /// minutes between two epochs.
    pub job_gc_timeout: Option<Duration>,
    /// True if unfinished iterations under DYNAMIC are collected as well. Default false, so that a
    /// restarted trainer continues at its previous position.
    pub gc_dynamic_sharding_jobs: bool,
    /// The time after which a dataset that no job reads is collected (C2.5). `None` never collects a
    /// dataset. Default 3600 s, because people and scripts forward dataset ids, and are slower than readers
    /// that reconnect.
    pub dataset_gc_timeout: Option<Duration>,
    /// The deadline for listing a dataset's sources, including the wait in the queue of listings. Default
    /// 600 s, which suffices for millions of files on a slow file system and ends a listing that hangs.
    pub plan_deadline: Duration,
    /// The interval at which the dispatcher checks its timeouts. Default 250 ms, which bounds how late the
    /// dispatcher notices a silence.
    pub sweep_interval: Duration,
    /// The time for which a dispatcher that shuts down waits for workers and clients to leave. Default 5 s,
    /// which is ten heartbeats: living processes receive the shutdown within that time.
    pub shutdown_quiet_period: Duration,
    /// Maximum number of splits in one lease batch. Default 1024: one request per 10 ms then carries
    /// 100 000 splits/s.
    pub lease_batch_max: u32,
    /// Maximum number of splits that one task may hold before a client confirms their arrival. At the
    /// limit, the task waits for confirmations before it leases more splits. Default 2^20, which exceeds
    /// the elements of any shuffle buffer in memory. At about 100 bytes each, 2^20 scattered splits take
    /// 100 MiB in the dispatcher.
    pub held_splits_max: u64,
    /// Maximum bytes of a dataset's definition. Default 16 MiB.
    pub definition_bytes_max: usize,
    /// Maximum number of datasets. Default 10 000, which fit in memory if each has a few megabytes.
    pub datasets_max: usize,
    /// Maximum number of jobs. Default 100 000. Processes of role `read` may create half of these jobs.
    pub jobs_max: usize,
    /// Maximum number of jobs that one process may have created. At the limit, the process's oldest job
    /// without iterations makes room. Default 4096.
    pub jobs_per_process_max: usize,
    /// Maximum number of iterations, including finished iterations that are not yet collected. Default
    /// 100 000. Processes of role `read` may begin half of these iterations.
    pub iterations_max: usize,
    /// Maximum number of unfinished iterations. Default 2048, half the tasks that a worker takes: each
    /// iteration has a task on each worker, and may need a second task. Processes of role `read` may begin
    /// half of these iterations.
    pub iterations_open_max: usize,
    /// Maximum number of unfinished iterations that one process began. Default 256.
    pub iterations_open_per_process_max: usize,
    /// Maximum number of clients. Default 100 000.
    pub clients_max: usize,
    /// Maximum number of clients of one process. Default 1024.
    pub clients_per_process_max: usize,
    /// Maximum number of consumers of one coordinated read. Default 4096: every task keeps an entry for
    /// each consumer, and a round takes as long as its slowest consumer. No training has more accelerators
    /// that read by themselves.
    pub consumers_max: u32,
    /// The time after which a coordinated read with missing consumers is given up. The present consumers
    /// are told which consumers are missing. Default 60 s, within which trainers that are started together
    /// have arrived.
    pub consumer_timeout: Duration,
    /// Maximum number of workers, including dead workers that are not yet forgotten. Default 10 000.
    pub workers_max: usize,
    /// Maximum number of processes whose replies are kept. Default 16 384. Half of these processes may have
    /// the role `read`.
    pub sessions_max: usize,
    /// Maximum number of ranges of lost splits that an iteration names. Further lost splits are only
    /// counted. Default 10 000.
    pub lost_ranges_max: usize,
    /// The bounds and waiting times of the policy that decides how many workers the service wants (C11.5).
    pub scaling: ScalingConfig,
    /// The directory in which the dispatcher keeps its records, so that a restarted dispatcher continues
    /// from them. `None` keeps the records in memory, where they end with the process. Default `None`. The
    /// caller opens the store, because the state machine has no access to files.
    pub work_dir: Option<PathBuf>,
    /// The folders and URL prefixes under which datasets may name files; the planner that lists the files
    /// enforces the limit. Default empty: every path and URL except the metadata servers from which clouds
    /// hand out credentials.
    pub allowed_paths: Vec<String>,
    /// The audit log: the file that records which process made which request. The caller opens the file.
    /// Default `None`: the dispatcher writes no audit log.
    pub audit_log: Option<PathBuf>,
    /// The tracer of the answers to requests for splits. Default off.
    pub tracer: Tracer,
}

impl DispatcherConfig {
    /// Returns the worker lease: the silence after which a worker counts as gone although nothing else is
    /// known about the worker. The lease is three times `liveness`, because an overloaded worker comes
    /// back, and giving up the worker early would lose its splits (C7.4).
    pub fn worker_lease(&self) -> Duration {
        self.liveness.saturating_mul(WORKER_LEASE)
    }
}

impl Default for DispatcherConfig {
    fn default() -> DispatcherConfig {
        DispatcherConfig {
            worker_addresses: WorkerAddresses::default(),
            deployment_mode: DeploymentMode::Unspecified,
            heartbeat_interval: Duration::from_millis(500),
            liveness: Duration::from_secs(10),
            worker_timeout: Duration::from_secs(600),
            client_timeout: Duration::from_secs(300),
            acknowledge_timeout: Duration::from_secs(30),
            workers_lost_grace: Duration::from_secs(10),
            job_gc_check_interval: Duration::from_secs(10),
            job_gc_timeout: Some(Duration::from_secs(300)),
            gc_dynamic_sharding_jobs: false,
            dataset_gc_timeout: Some(Duration::from_secs(3600)),
            plan_deadline: Duration::from_secs(600),
            sweep_interval: Duration::from_millis(250),
            shutdown_quiet_period: Duration::from_secs(5),
            lease_batch_max: 1024,
            held_splits_max: 1 << 20,
            definition_bytes_max: 16 << 20,
            datasets_max: 10_000,
            jobs_max: 100_000,
            jobs_per_process_max: 4096,
            iterations_max: 100_000,
            iterations_open_max: 2048,
            iterations_open_per_process_max: 256,
            clients_max: 100_000,
            clients_per_process_max: 1024,
            consumers_max: 4096,
            consumer_timeout: Duration::from_secs(60),
            workers_max: 10_000,
            sessions_max: 16_384,
            lost_ranges_max: 10_000,
            scaling: ScalingConfig::default(),
            work_dir: None,
            allowed_paths: Vec::new(),
            audit_log: None,
            tracer: Tracer::default(),
        }
    }
}

/// A worker's lease as a multiple of `liveness`.
const WORKER_LEASE: u32 = 3;
/// Maximum number of numbered requests of one process, counted from its first unanswered request (C1.5).
/// The dispatcher keeps the same number of answers for the process.
pub(crate) const REQUESTS_OPEN_MAX: u64 = 256;
/// Maximum bytes of a worker's address: a DNS name and a port have at most 259. The bound lets one message
/// name all workers to a reader.
pub const WORKER_ADDRESS_BYTES_MAX: usize = 300;
/// Maximum bytes of a worker's local socket, twice the length of the longest socket address.
pub const LOCAL_SOCKET_BYTES_MAX: usize = 256;
/// Maximum number of tags of a worker.
pub const TAGS_MAX: usize = 64;
/// Maximum bytes of all tags of a worker together.
pub const TAGS_BYTES_MAX: usize = 512;
/// Maximum bytes of an error text that a worker reports.
pub const ERROR_BYTES_MAX: usize = 16 << 10;
