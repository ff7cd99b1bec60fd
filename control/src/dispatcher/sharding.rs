//! Static sharding: which number a worker has, which datasets can be divided, and which shares of an
//! iteration are nobody's.
//!
//! Refuses to know how a dataset is divided: the worker does that, told its number and how many there are.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use super::addresses::WorkerAddresses;
use super::record::{ClientRecord, DatasetRecord};
use super::tables::Tables;
use crate::error::Error;
use crate::id::{IterationId, WorkerId};
use crate::job::Policy;

/// Checks that a policy can read a dataset, by the fixed list of workers and the place of the division
/// (C8.2).
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

/// Into how many shares a new iteration of a job is divided; 0: it is not.
pub(super) fn shares_under(policy: Policy, list: &WorkerAddresses) -> u64 {
    if policy.is_static() { list.len() } else { 0 }
}

impl Tables {
    /// Returns whether an iteration has work for a worker. A divided iteration has only that worker's share
    /// for it, and only while no task has had that share (C8.3).
    pub(super) fn is_wanted(&self, iteration: IterationId, worker: WorkerId) -> bool {
        let shares = self.shares_of(iteration);
        if shares == 0 {
            return true;
        }
        let index = self.workers.get(&worker).map(|row| row.index);
        index.is_some_and(|index| index < shares && !self.shares_in_hand(iteration).contains(&index))
    }

    /// Returns whether no task has some share of an iteration (C8.4).
    pub(super) fn misses_shares(&self, iteration: IterationId) -> bool {
        // Each task has a share of its own.
        self.tasks.count_of(iteration) < usize::try_from(self.shares_of(iteration)).unwrap_or(usize::MAX)
    }

    /// The addresses of workers that had a share of an iteration for a client and went, where no other has
    /// taken it over.
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

    /// The shares of an iteration that a task has, settled or not.
    pub(super) fn shares_in_hand(&self, iteration: IterationId) -> BTreeSet<u64> {
        let workers = self
            .tasks
            .rows_of(iteration)
            .filter_map(|task| self.workers.get(&task.worker));
        workers.map(|worker| worker.index).collect()
    }
}
