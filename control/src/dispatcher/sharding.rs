//! Static sharding: which number a worker has, which datasets can be divided, and which shares of an iteration are nobody's.
//!
//! Refuses to know how a dataset is divided: the worker does that, told its number and how many there are.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use super::addresses::{Claim, NoPlace};
use super::machine::Dispatcher;
use super::record::{ClientRecord, DatasetRecord, WorkerRecord};
use crate::error::Error;
use crate::id::{IterationId, WorkerId};
use crate::job::Policy;

impl Dispatcher {
    /// Whether a dataset can be read under a policy, as far as its number of workers and where it is divided go (C8.2).
    pub(super) fn check_sharding(&self, policy: Policy, dataset: &DatasetRecord) -> Result<(), Error> {
        let id = &dataset.id;
        if dataset.facts.has_shard_hint && policy != Policy::Hint {
            return Err(Error::precondition(format!(
                "dataset {id} has a shard hint, and so can be read under the sharding policy `hint` only, not under `{policy}`"
            )));
        }
        if !policy.is_static() {
            return Ok(());
        }
        let workers = self.config.worker_addresses.len();
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
    pub(super) fn shares_under(&self, policy: Policy) -> u64 {
        if policy.is_static() {
            self.config.worker_addresses.len()
        } else {
            0
        }
    }

    /// Whether an iteration has something to do for a worker: if it is divided, only that worker's share, and only while
    /// nobody has had it (C8.3).
    pub(super) fn is_wanted(&self, iteration: IterationId, worker: WorkerId) -> bool {
        let shares = self.shares_of(iteration);
        if shares == 0 {
            return true;
        }
        let index = self.tables.workers.get(&worker).map(|row| row.index);
        index.is_some_and(|index| index < shares && !self.shares_in_hand(iteration).contains(&index))
    }

    /// Whether no task has some share of an iteration (C8.4).
    pub(super) fn misses_shares(&self, iteration: IterationId) -> bool {
        let tasks = self.tables.index.tasks_of.get(&iteration);
        // Each task has a share of its own.
        tasks.map_or(0, BTreeSet::len) < usize::try_from(self.shares_of(iteration)).unwrap_or(usize::MAX)
    }

    /// The addresses of workers that had a share of an iteration for a client and went, where no other has taken it over.
    pub(super) fn lost_shares(&self, client: &ClientRecord) -> Vec<String> {
        let iteration = client.iteration;
        let Some(row) = self.tables.iterations.get(&iteration) else {
            return Vec::new();
        };
        if row.workers_lost.is_empty() || !self.misses_shares(iteration) {
            return Vec::new();
        }
        let in_hand = self.shares_in_hand(iteration);
        let workers = self.tables.workers.values();
        let gone = workers.filter(|worker| worker.dead.is_some() && !in_hand.contains(&worker.index));
        let gone = gone.filter(|worker| self.admits(client, worker.id));
        let gone: BTreeSet<&str> = gone.map(|worker| worker.address.as_str()).collect();
        let lost = row.workers_lost.iter();
        lost.filter(|address| gone.contains(address.as_str()))
            .cloned()
            .collect()
    }

    /// The number of the worker that registers at `address`: its place in the fixed list, else the next one, or that of
    /// whoever was there before (C8.1).
    pub(super) fn place_of(&self, address: &str) -> Result<u64, Error> {
        let list = &self.config.worker_addresses;
        let workers = || self.tables.workers.values();
        if list.is_empty() {
            let inherited = workers().find(|row| row.address == address).map(|row| row.index);
            let next = || workers().map(|row| row.index + 1).max().unwrap_or(0);
            return Ok(inherited.unwrap_or_else(next));
        }
        let mut claims: BTreeMap<u64, Option<Claim>> = BTreeMap::new();
        for row in workers().filter(|row| self.keeps_place(row)) {
            let claim = if row.address == address {
                Some(Claim::Own)
            } else {
                row.dead.map(|_| Claim::Left)
            };
            let known = claims.entry(row.index).or_insert(claim);
            // A living holder counts before whoever was there, and one's own past before another's.
            *known = (*known).min(claim);
        }
        let place = list.place(address, |index| {
            claims.get(&index).copied().unwrap_or(Some(Claim::Free))
        });
        place.map_err(|reason| {
            Error::precondition(match reason {
                NoPlace::Unlisted => format!(
                    "worker {address} is not in this dispatcher's fixed list of workers, which is {list}: add it there, or give \
                     the worker an address that is"
                ),
                NoPlace::Taken => format!(
                    "all places that worker {address} could have in this dispatcher's fixed list of workers are held by workers \
                     that live: the list is {list}"
                ),
            })
        })
    }

    /// Whether a worker's number is its place in the list: always, unless the dispatcher was restarted with another list.
    pub(super) fn keeps_place(&self, worker: &WorkerRecord) -> bool {
        let list = &self.config.worker_addresses;
        list.is_empty() || list.admits(worker.index, &worker.address)
    }

    fn shares_of(&self, iteration: IterationId) -> u64 {
        let row = self.tables.iterations.get(&iteration);
        row.map_or(0, |row| row.shares)
    }

    /// The shares of an iteration that a task has, settled or not.
    pub(super) fn shares_in_hand(&self, iteration: IterationId) -> BTreeSet<u64> {
        let tasks = self.tables.index.tasks_of.get(&iteration).into_iter().flatten();
        let tasks = tasks.filter_map(|task| self.tables.tasks.get(task));
        let workers = tasks.filter_map(|task| self.tables.workers.get(&task.worker));
        workers.map(|worker| worker.index).collect()
    }
}
