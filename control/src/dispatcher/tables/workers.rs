//! The workers: their addresses, their places in the fixed list, their heartbeats and their deaths.
//!
//! [`Workers`] does not know tasks.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::stamps::Stamps;
use super::table::Table;
use crate::dispatcher::addresses::{Claim, NoPlace, WorkerAddresses};
use crate::dispatcher::failure::RemovalReason;
use crate::dispatcher::liveness::WorkerLiveness;
use crate::dispatcher::moment::Moment;
use crate::dispatcher::record::WorkerRecord;
use crate::error::Error;
use crate::id::{SessionId, WorkerId};

/// The table of all workers, including dead workers until they are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    pub(super) rows: Table<WorkerId, WorkerRecord>,
    index: Index,
    /// The heartbeats of the living workers.
    pub(crate) liveness: WorkerLiveness,
    /// The time at which each dead worker died.
    pub(crate) died: Stamps<WorkerId>,
}

/// The index by which workers are found, so that no request looks at all workers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    /// The living worker at each address.
    of_address: BTreeMap<String, WorkerId>,
    of_session: BTreeMap<SessionId, WorkerId>,
    /// All workers at each address, also dead ones.
    all_of_address: BTreeSet<(String, WorkerId)>,
    /// All workers, also dead ones, by their number.
    of_number: BTreeSet<(u64, WorkerId)>,
}

impl Index {
    fn note(&mut self, row: &WorkerRecord) {
        if row.dead.is_none() {
            self.of_address.insert(row.address.clone(), row.id);
        }
        self.of_session.insert(row.session, row.id);
        self.all_of_address.insert((row.address.clone(), row.id));
        self.of_number.insert((row.index, row.id));
    }

    fn forget(&mut self, row: &WorkerRecord) {
        self.of_session.remove(&row.session);
        self.all_of_address.remove(&(row.address.clone(), row.id));
        self.of_number.remove(&(row.index, row.id));
    }

    /// Returns all workers at an address, also dead ones, in the order of their registration.
    fn all_at(&self, address: &str) -> impl Iterator<Item = WorkerId> {
        let ids = [WorkerId(0), WorkerId(u64::MAX)].map(|id| (address.to_owned(), id));
        let [first, last] = ids;
        self.all_of_address.range(first..=last).map(|(_, id)| *id)
    }

    /// Returns all workers with a number, also dead ones.
    fn numbered(&self, number: u64) -> impl Iterator<Item = WorkerId> {
        let ids = (number, WorkerId(0))..=(number, WorkerId(u64::MAX));
        self.of_number.range(ids).map(|(_, id)| *id)
    }

    /// Returns the number after the largest one.
    fn next_number(&self) -> u64 {
        self.of_number.last().map_or(0, |(number, _)| number + 1)
    }
}

impl Workers {
    /// Adds a worker from the store.
    pub(super) fn load(&mut self, row: WorkerRecord) {
        self.index.note(&row);
        self.rows.load(row.id, row);
    }

    pub(crate) fn insert(&mut self, row: WorkerRecord, now: Moment) {
        self.liveness.note_registered(row.id, now);
        self.index.note(&row);
        self.rows.insert(row.id, row);
    }

    pub(crate) fn get(&self, id: &WorkerId) -> Option<&WorkerRecord> {
        self.rows.get(id)
    }

    #[cfg(debug_assertions)]
    pub(crate) fn contains(&self, id: &WorkerId) -> bool {
        self.rows.contains(id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &WorkerRecord> {
        self.rows.values()
    }

    /// Returns the living workers that take tasks, in the order of their registration.
    pub(crate) fn taking_tasks(&self) -> Vec<WorkerId> {
        let mut workers: Vec<WorkerId> = self
            .living()
            .filter(|worker| !self.is_draining(*worker))
            .collect();
        workers.sort_unstable();
        workers
    }

    /// Returns the living workers, in the order of their addresses.
    pub(crate) fn living(&self) -> impl Iterator<Item = WorkerId> {
        self.index.of_address.values().copied()
    }

    pub(crate) fn living_count(&self) -> usize {
        self.index.of_address.len()
    }

    pub(crate) fn draining_count(&self) -> usize {
        self.living().filter(|worker| self.is_draining(*worker)).count()
    }

    /// Returns the living worker at an address.
    pub(crate) fn at_address(&self, address: &str) -> Option<WorkerId> {
        self.index.of_address.get(address).copied()
    }

    /// Returns the worker of a process, dead or not.
    pub(crate) fn of_session(&self, session: SessionId) -> Option<WorkerId> {
        self.index.of_session.get(&session).copied()
    }

    /// Returns the worker of a process, or an error if the worker is dead or unknown.
    pub(crate) fn living_of(&self, session: SessionId) -> Result<WorkerId, Error> {
        let row = self.of_session(session).and_then(|id| self.rows.get(&id));
        let row = row.ok_or_else(|| {
            Error::aborted("this worker is not registered: drop its tasks and register again")
        })?;
        row.check_living()
    }

    /// Returns a worker's address, for messages.
    pub(crate) fn address_of(&self, id: WorkerId) -> String {
        let row = self.rows.get(&id);
        row.map_or_else(|| "an unknown worker".to_owned(), |row| row.address.clone())
    }

    /// Returns whether a worker is about to leave.
    pub(crate) fn is_draining(&self, id: WorkerId) -> bool {
        self.rows.get(&id).is_some_and(|row| row.draining)
    }

    pub(crate) fn drain(&mut self, id: WorkerId) {
        if let Some(row) = self.rows.get_mut(&id) {
            row.draining = true;
        }
    }

    /// Notes the death of a worker. Returns its session, or `None` if the worker was dead before.
    pub(crate) fn end(&mut self, id: WorkerId, reason: RemovalReason, now: Moment) -> Option<SessionId> {
        if self.rows.get(&id)?.dead.is_some() {
            return None;
        }
        let row = self.rows.get_mut(&id)?;
        row.dead = Some(reason);
        self.index.of_address.remove(&row.address);
        self.liveness.remove(id);
        self.died.note(id, now);
        Some(row.session)
    }

    /// Forgets a dead worker.
    pub(crate) fn forget(&mut self, id: WorkerId) {
        self.died.remove(&id);
        if let Some(row) = self.rows.remove(&id) {
            self.index.forget(&row);
        }
    }

    /// Returns the dead workers that are forgotten when a worker registers at `address`.
    ///
    /// The table keeps only the `latest` dead worker of an address. If the table has more than `limit`
    /// rows, the workers that died first are forgotten as well.
    pub(crate) fn in_the_way(&self, address: &str, latest: Option<WorkerId>, limit: usize) -> Vec<WorkerId> {
        let is_older = |id: &WorkerId| {
            let row = self.rows.get(id);
            Some(*id) != latest && row.is_some_and(|row| row.dead.is_some())
        };
        let mut older: Vec<WorkerId> = self.index.all_at(address).filter(is_older).collect();
        if latest.is_none() {
            // The latest worker at this address is dead already, and stays in the table.
            older.pop();
        }
        let rows = self.rows.len() - older.len();
        let beyond = (rows + 1).saturating_sub(limit);
        if beyond > 0 {
            let others = self.died.iter().filter(|(id, _)| !older.contains(id));
            let mut dead: Vec<_> = others.map(|(id, at)| (at, *id)).collect();
            dead.sort_unstable();
            older.extend(dead.into_iter().take(beyond).map(|(_, id)| id));
        }
        older
    }

    /// Returns the number of the worker that registers at `address` (C8.1).
    ///
    /// The number is the worker's place in the fixed list. Without a list, a worker inherits the number of
    /// the previous worker at its address, or gets the next free number.
    pub(crate) fn place_of(&self, address: &str, list: &WorkerAddresses) -> Result<u64, Error> {
        if list.is_empty() {
            let first = self.index.all_at(address).next();
            let inherited = first.and_then(|id| self.rows.get(&id)).map(|row| row.index);
            return Ok(inherited.unwrap_or_else(|| self.index.next_number()));
        }
        let place = list.place(address, |index| self.claim(address, index, list));
        place.map_err(|reason| {
            Error::precondition(match reason {
                NoPlace::Unlisted => format!(
                    "worker {address} is not in this dispatcher's fixed list of workers, which is {list}: \
                    add the worker to the list, or give \
                     it an address from the list"
                ),
                NoPlace::Taken => format!(
                    "all places that worker {address} could have in this dispatcher's fixed list of \
                    workers are taken by living \
                     workers: the list is {list}"
                ),
            })
        })
    }

    /// Rates a place of the fixed list for a worker at `address`. Returns `None` if another living worker has
    /// the place.
    fn claim(&self, address: &str, index: u64, list: &WorkerAddresses) -> Option<Claim> {
        let holders = self.index.numbered(index).filter_map(|id| self.rows.get(&id));
        let claims = holders.filter(|row| row.keeps_place(list)).map(|row| {
            if row.address == address {
                Some(Claim::Own)
            } else {
                row.dead.map(|_| Claim::Left)
            }
        });
        // The claim of a living holder precedes the claim of a dead holder. The worker's own earlier claim
        // precedes the claim of another worker.
        claims.min().unwrap_or(Some(Claim::Free))
    }

    /// Gives every worker a full timeout. A worker uses one silence to notice the loss of the dispatcher,
    /// and needs the rest of the timeout to reconnect.
    pub(crate) fn restart_clocks(&mut self, now: Moment) {
        for row in self.rows.values() {
            if row.dead.is_none() {
                self.liveness.note_stored(row.id, now);
            } else {
                self.died.note(row.id, now);
            }
        }
    }

    /// Excuses all workers for a time in which the dispatcher itself did not run (C7.6).
    pub(crate) fn excuse(&mut self, time: Duration) {
        self.liveness.excuse(time);
        self.died.excuse(time);
    }

    /// Returns whether no clock of the workers is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.liveness.is_empty() && self.died.is_empty()
    }

    /// Panics if the index or the clocks contradict the rows.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        let mut index = Index::default();
        for row in self.rows.values() {
            index.note(row);
            let is_watched = self.liveness.contains(row.id);
            assert_eq!(row.dead.is_none(), is_watched, "worker {}", row.id);
        }
        assert_eq!(self.index, index, "the index of workers is stale");
    }
}

impl WorkerRecord {
    /// Returns the worker's id, or the error for a worker that was given up.
    pub(crate) fn check_living(&self) -> Result<WorkerId, Error> {
        match self.dead {
            None => Ok(self.id),
            Some(reason) => Err(Error::aborted(format!(
                "worker {} was given up ({reason}): drop its tasks and register again",
                self.address
            ))),
        }
    }

    /// Returns whether the worker's number is its place in the list. The number differs only after a
    /// restart of the dispatcher with another list.
    pub(crate) fn keeps_place(&self, list: &WorkerAddresses) -> bool {
        list.is_empty() || list.admits(self.index, &self.address)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dispatcher::record::HiddenKey;
    use crate::whereabouts::Whereabouts;

    const ADDRESSES: [&str; 3] = ["a:1", "a:2", "b:1"];

    fn record(id: u64, address: &str, index: u64) -> WorkerRecord {
        WorkerRecord {
            id: WorkerId(id),
            session: SessionId(id),
            address: address.to_owned(),
            tags: Vec::new(),
            ticket_key: HiddenKey([1; 32].into()),
            version: String::new(),
            dead: None,
            index,
            draining: false,
            whereabouts: Whereabouts::default(),
            local_socket: None,
        }
    }

    /// Returns the dead workers to forget, by a search through all workers.
    fn searched(workers: &Workers, address: &str, latest: Option<WorkerId>, limit: usize) -> Vec<WorkerId> {
        let dead = |row: &&WorkerRecord| row.dead.is_some();
        let here = workers.values().filter(|row| row.address == address).filter(dead);
        let mut older: Vec<WorkerId> = here.map(|row| row.id).filter(|id| Some(*id) != latest).collect();
        if latest.is_none() {
            older.pop();
        }
        let mut others: Vec<_> = workers.died.iter().map(|(id, at)| (at, *id)).collect();
        others.retain(|(_, id)| !older.contains(id));
        others.sort_unstable();
        let beyond = (workers.values().count() + 1 - older.len()).saturating_sub(limit);
        older.extend(others.into_iter().take(beyond).map(|(_, id)| id));
        older
    }

    /// Returns the number of the next worker at an address without a fixed list, by a search.
    fn number_searched(workers: &Workers, address: &str) -> u64 {
        let mut rows = workers.values();
        let inherited = rows.find(|row| row.address == address).map(|row| row.index);
        let next = workers.values().map(|row| row.index + 1).max();
        inherited.or(next).unwrap_or(0)
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_search_finds(
            steps in prop::collection::vec((0..ADDRESSES.len(), any::<bool>()), 1..40),
            limit in 3_usize..8,
        ) {
            let mut workers = Workers::default();
            let list = WorkerAddresses::default();
            for (id, (at, dies_first)) in (1..).zip(steps) {
                let (address, now) = (ADDRESSES[at], Duration::from_secs(id));
                let living = workers.at_address(address);
                if let Some(living) = living.filter(|_| dies_first) {
                    workers.end(living, RemovalReason::WorkerSilent, now);
                }
                let number = workers.place_of(address, &list).expect("a number");
                prop_assert_eq!(number, number_searched(&workers, address));
                let previous = workers.at_address(address);
                if let Some(previous) = previous {
                    workers.end(previous, RemovalReason::WorkerRestarted, now);
                }
                let forgotten = workers.in_the_way(address, previous, limit);
                prop_assert_eq!(&forgotten, &searched(&workers, address, previous, limit));
                for id in &forgotten {
                    workers.forget(*id);
                }
                workers.insert(record(id, address, number), now);
                prop_assert!(workers.rows.len() <= limit.max(2 * ADDRESSES.len()));
                #[cfg(debug_assertions)]
                workers.check();
            }
        }
    }
}
