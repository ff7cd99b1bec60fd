//! Every limit and timeout of the dispatcher, with its default and its reason.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::PathBuf;
use std::time::Duration;

use super::addresses::WorkerAddresses;
use crate::job::DeploymentMode;

/// The limits and timeouts of the dispatcher. Start from the default and change what is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherConfig {
    /// The workers that there are, for static sharding. Default empty: any worker may come.
    pub worker_addresses: WorkerAddresses,
    /// The way in which trainers and workers are placed. Default unspecified.
    pub deployment_mode: DeploymentMode,
    /// The interval of the heartbeats of workers and clients. Default 500 ms: a process that is gone is
    /// missed within a second.
    pub heartbeat_interval: Duration,
    /// The silence after which others stop waiting for a process. Default 10 s, so that nineteen heartbeats
    /// may be lost. A worker has its lease, [`worker_lease`](Self::worker_lease), or two heartbeats if its
    /// port is closed (C7.4).
    pub liveness: Duration,
    /// A dead worker is still shown in the status for this long, and then forgotten (C7.7). Default 600 s.
    pub worker_timeout: Duration,
    /// A client silent for this long is released, and so are the answers kept for a process. Default 300 s: a
    /// trainer may stall for minutes and come back.
    pub client_timeout: Duration,
    /// A removed task's splits wait this long for the clients to say what they have seen of it; who has not
    /// said so by then counts as having seen all of it. Default 30 s.
    pub acknowledge_timeout: Duration,
    /// When every worker of an iteration is gone, its clients are told after this. Default 10 s: a worker
    /// under a supervisor is back by then.
    pub workers_lost_grace: Duration,
    /// The time between two searches for unused records. Default 10 s: lifetimes are minutes, and a search
    /// among 100 000 records takes milliseconds.
    pub job_gc_check_interval: Duration,
    /// The time after which an unread iteration, finished or not (C3.6, C3.7), or an unread job (C3.8) is
    /// collected; `None` for never. Default 300 s, because a trainer may do something else for minutes
    /// between two passes.
    pub job_gc_timeout: Option<Duration>,
    /// Whether unfinished iterations under DYNAMIC are collected as well. Default false, so that a trainer
    /// that restarts continues where it was.
    pub gc_dynamic_sharding_jobs: bool,
    /// A dataset that no job reads is collected after this (C2.5); `None`: never. Default 3600 s: ids are
    /// passed on by people and scripts, more slowly than readers come back.
    pub dataset_gc_timeout: Option<Duration>,
    /// The time that listing a dataset's sources may take, with the wait for its turn. Default 600 s: that
    /// suffices for millions of files on a slow file system, and ends a listing that hangs.
    pub plan_deadline: Duration,
    /// Time passes for the dispatcher in steps of this. Default 250 ms: how late it may notice a silence.
    pub sweep_interval: Duration,
    /// The time for which a dispatcher that ends the service waits for workers and clients to go. Default 5
    /// s: within ten heartbeats living processes have heard of the end.
    pub shutdown_quiet_period: Duration,
    /// Splits leased to one task at a time. Default 1024: one request per 10 ms then carries 100 000
    /// splits/s.
    pub lease_batch_max: u32,
    /// Splits one task may hold of which no client has said that it received them: it waits for more until
    /// some are. Default 2^20: no shuffle's buffer in memory holds as many elements, and at about 100 bytes
    /// each, if all are scattered, they take 100 MiB here.
    pub held_splits_max: u64,
    /// Bytes of a dataset's definition. Default 16 MiB.
    pub definition_bytes_max: usize,
    /// Datasets. Default 10 000: with few megabytes each they still fit in memory.
    pub datasets_max: usize,
    /// Jobs. Default 100 000. Processes of role `read` may create half of them.
    pub jobs_max: usize,
    /// Jobs that one process created, without those that nobody reads: these make room for its next. Default
    /// 4096.
    pub jobs_per_process_max: usize,
    /// Iterations, the finished ones included that are not yet collected. Default 100 000. Processes of role
    /// `read` may begin half of them.
    pub iterations_max: usize,
    /// Iterations that are not finished. Default 2048, half the tasks that a worker takes: each iteration has
    /// a task on each worker, and may need a second. Processes of role `read` may begin half of them.
    pub iterations_open_max: usize,
    /// Iterations that one process began and that are not finished. Default 256.
    pub iterations_open_per_process_max: usize,
    /// Clients. Default 100 000.
    pub clients_max: usize,
    /// Clients of one process. Default 1024.
    pub clients_per_process_max: usize,
    /// Consumers of one coordinated read. Default 4096: every task keeps an entry for each consumer, and a
    /// round takes as long as the slowest. No training has more accelerators that read by themselves.
    pub consumers_max: u32,
    /// A coordinated read of which some consumers are missing for this long is given up: the others are told
    /// which. Default 60 s: trainers that are started together are all there by then.
    pub consumer_timeout: Duration,
    /// Workers, dead ones included that are not yet forgotten. Default 10 000.
    pub workers_max: usize,
    /// Processes with requests whose replies are kept. Default 16 384. Half of them may have the role `read`.
    pub sessions_max: usize,
    /// Ranges of lost splits that an iteration names; beyond it they are counted only. Default 10 000.
    pub lost_ranges_max: usize,
    /// The directory in which the dispatcher keeps its records, so that it goes on where it was after a
    /// restart; `None`: they are in memory and end with it. For the caller that opens the store: the state
    /// machine knows no files. Default `None`: a caller that wants them kept says where.
    pub work_dir: Option<PathBuf>,
    /// The only files that datasets may name, as folders and beginnings of URLs, for the planner that lists
    /// them. Default empty: all but servers by which clouds give machines their credentials.
    pub allowed_paths: Vec<String>,
    /// The file in which it is noted who asked for what, for the caller that opens it. Default `None`:
    /// nowhere.
    pub audit_log: Option<PathBuf>,
}

impl DispatcherConfig {
    /// Returns how long a worker may be silent of which nothing else is known: three times `liveness`. An
    /// overloaded worker comes back, and what it had in hand would be lost with it (C7.4).
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
            work_dir: None,
            allowed_paths: Vec::new(),
            audit_log: None,
        }
    }
}

/// A worker's lease as a multiple of `liveness`.
const WORKER_LEASE: u32 = 3;
/// A process' numbered requests, from the first that is not answered on (C1.5): as many answers are kept for
/// it.
pub(crate) const REQUESTS_OPEN_MAX: u64 = 256;
/// Most bytes of a worker's address: a name of the DNS and a port have 259. Readers are told of all workers
/// in one message.
pub const WORKER_ADDRESS_BYTES_MAX: usize = 300;
/// Most bytes of a worker's local socket: twice what the longest address of a socket takes.
pub const LOCAL_SOCKET_BYTES_MAX: usize = 256;
/// Most tags of a worker.
pub const TAGS_MAX: usize = 64;
/// Most bytes of a worker's tags together.
pub const TAGS_BYTES_MAX: usize = 512;
/// Most bytes of an error text that a worker reports.
pub const ERROR_BYTES_MAX: usize = 16 << 10;
