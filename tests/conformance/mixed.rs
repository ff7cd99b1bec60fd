//! A service of local workers in the trainer's process and of remote workers. A remote worker is a separate
//! process, or a worker in this process with other [`LocalWorkers`] than the trainer's.

use std::sync::Arc;

use millstream::control::{DispatcherConfig, Policy, TargetWorkers};
use millstream::pipeline::exec::Functions;
use millstream::{LocalWorkers, Service, Worker, WorkerConfig, WorkerError};

use super::harness::{distribute, range, sorted};
use crate::support::cluster::Cluster;
use crate::support::links::Mechanism;
use crate::support::process::Process;

/// A service of local and remote workers. The cluster's workers are the local workers, followed by the remote
/// workers in this process.
pub(super) struct Mixed {
    pub(super) cluster: Cluster,
    remote: Vec<Process>,
}

impl Mixed {
    /// Starts a service with workers of both kinds, all with the same tags. The liveness timeout has its
    /// default, because no test of this module waits for a death.
    pub(super) fn start(local: usize, remote: usize, tags: &[&str]) -> Self {
        Self::with(DispatcherConfig::default(), local, remote, tags)
    }

    /// Starts a service whose dispatcher has these settings.
    pub(super) fn with(config: DispatcherConfig, local: usize, remote: usize, tags: &[&str]) -> Self {
        let mut mixed = Self {
            cluster: Cluster::plain_with(Mechanism::Memory, config, 0),
            remote: Vec::new(),
        };
        for _ in 0..local {
            mixed.add_local(tags);
        }
        for _ in 0..remote {
            mixed.add_remote(tags);
        }
        mixed
    }

    pub(super) fn service(&self) -> &Service {
        self.cluster.service()
    }

    /// Adds a local worker.
    pub(super) fn add_local(&mut self, tags: &[&str]) {
        let local = self.service().local_workers().clone();
        let worker = self.worker(local, tags).expect("a worker");
        self.cluster.workers.push(worker);
    }

    /// Adds a remote worker in this process.
    pub(super) fn add_remote(&mut self, tags: &[&str]) {
        let worker = self.worker(LocalWorkers::default(), tags).expect("a worker");
        self.cluster.workers.push(worker);
    }

    /// Adds a remote worker in a separate process.
    pub(super) fn add_process(&mut self, tags: &[&str]) {
        let mut arguments = vec!["worker", "--dispatcher", &self.cluster.address];
        arguments.extend(tags.iter().flat_map(|tag| ["--tag", tag]));
        let process = Process::start(&self.cluster.key_text, &arguments);
        self.remote.push(process);
    }

    /// Starts a worker that belongs to these local workers.
    pub(super) fn worker(&self, local: LocalWorkers, tags: &[&str]) -> Result<Worker, WorkerError> {
        let config = WorkerConfig {
            local,
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            threads: Some(1),
            functions: Arc::new(Functions::new()),
            ..WorkerConfig::new(&self.cluster.address)
        };
        Worker::start(&self.cluster.key, config)
    }

    /// Returns the numbers of a range, read once from these workers, in the order of arrival.
    pub(super) fn numbers(&self, count: i64, policy: Policy, target: TargetWorkers) -> Vec<i64> {
        distribute(self.service(), range(count), policy)
            .target(target)
            .numbers()
    }

    /// Returns the numbers of a range, read once from these workers, sorted.
    pub(super) fn sorted(&self, count: i64, policy: Policy, target: TargetWorkers) -> Vec<i64> {
        sorted(self.numbers(count, policy, target))
    }
}
