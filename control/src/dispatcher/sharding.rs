//! Static sharding: the workers' numbers, the datasets that can be divided, and the shares of an iteration
//! without a task.
//!
//! This file does not know how a dataset is divided. The worker divides the dataset by its own number and
//! the number of workers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use super::addresses::WorkerAddresses;
use super::record::{ClientRecord, DatasetRecord};
use super::tables::Tables;
use crate::error::Error;
use crate::id::{IterationId, WorkerId};
use crate::job::Policy;

/// Checks that a policy can read a dataset, given the fixed list of workers and the dataset's files and
/// shard hint (C8.2).
pub(super) fn check_sharding(
    policy: Policy,
    dataset: &DatasetRecord,
    list: &WorkerAddresses,
) -> Result<(), Error> {
    let id = &dataset.id;
    if dataset.facts.has_shard_hint && policy != Policy::Hint {
        return Err(Error::precondition(format!(
            "dataset {id} has a shard hint, and so can be read under the sharding policy `hint` only, not under `{policy}`"
        )));
    }
    if !policy.is_static() {
        return Ok(());
    }
    let workers = list.len();
    if workers == 0 {
        return Err(Error::not_found(format!(
            "the sharding policy `{policy}` divides a dataset among a fixed list of workers, and this dispatcher has none: \
             start it with worker addresses, or use `off` or `dynamic`"
        )));
    }
    match &dataset.facts.not_by_files {
        Some(reason) if policy == Policy::File && workers > 1 => Err(Error::not_found(format!(
            "dataset {id} cannot be read under the sharding policy `file`: {reason}"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Returns the number of shares into which a new iteration of a job is divided, or 0 if it is not divided.
pub(super) fn shares_under(policy: Policy, list: &WorkerAddresses) -> u64 {
    if policy.is_static() { list.len() } else { 0 }
}

impl Tables {
    /// Returns whether an iteration has work for a worker. A divided iteration has only the share of the
    /// worker's number, and only while no task has that share (C8.3).
    pub(super) fn is_wanted(&self, iteration: IterationId, worker: WorkerId) -> bool {
        let shares = self.shares_of(iteration);
        if shares == 0 {
            return true;
        }
        let index = self.workers.get(&worker).map(|row| row.index);
        index.is_some_and(|index| index < shares && !self.shares_in_hand(iteration).contains(&index))
    }

    /// Returns whether a share of an iteration has no task (C8.4).
    pub(super) fn misses_shares(&self, iteration: IterationId) -> bool {
        // Each task has a share of its own, so a lower number of tasks means a missing share.
        self.tasks.count_of(iteration) < usize::try_from(self.shares_of(iteration)).unwrap_or(usize::MAX)
    }

    /// Returns the addresses of the lost workers whose shares of an iteration no other worker has taken
    /// over. Only workers that the client may read are listed.
    pub(super) fn lost_shares(&self, client: &ClientRecord) -> Vec<String> {
        let iteration = client.iteration;
        let Some(row) = self.iterations.get(&iteration) else {
            return Vec::new();
        };
        if row.workers_lost.is_empty() || !self.misses_shares(iteration) {
            return Vec::new();
        }
        let in_hand = self.shares_in_hand(iteration);
        let workers = self.workers.values();
        let gone = workers.filter(|worker| worker.dead.is_some() && !in_hand.contains(&worker.index));
        let gone = gone.filter(|worker| self.admits(client, worker.id));
        let gone: BTreeSet<&str> = gone.map(|worker| worker.address.as_str()).collect();
        let lost = row.workers_lost.iter();
        lost.filter(|address| gone.contains(address.as_str()))
            .cloned()
            .collect()
    }

    fn shares_of(&self, iteration: IterationId) -> u64 {
        let row = self.iterations.get(&iteration);
        row.map_or(0, |row| row.shares)
    }

    /// Returns the shares of an iteration that have a task, settled or not.
    pub(super) fn shares_in_hand(&self, iteration: IterationId) -> BTreeSet<u64> {
        let workers = self
            .tasks
            .rows_of(iteration)
            .filter_map(|task| self.workers.get(&task.worker));
        workers.map(|worker| worker.index).collect()
    }
}
