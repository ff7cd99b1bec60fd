//! The clients of each iteration and process, and the splits that their users hold.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use super::groups::Groups;
use super::stamps::{Alarms, Stamps};
use super::table::Table;
use crate::dispatcher::moment::Moment;
use crate::dispatcher::record::ClientRecord;
use crate::dispatcher::splits::{Holding, Run};
use crate::error::Error;
use crate::id::{ClientId, IterationId, SessionId};
use crate::split::LeaseRange;

/// The table of all clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(super) rows: Table<ClientId, ClientRecord>,
    index: Index,
    /// The time of the last heartbeat that named each client.
    pub(crate) seen: Stamps<ClientId>,
    /// The clients that have lost workers without which they cannot continue.
    pub(crate) stranded: Alarms<ClientId>,
}

/// The index by which a client is found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    of_iteration: Groups<IterationId, ClientId>,
    of_session: Groups<SessionId, ClientId>,
}

impl Index {
    fn note(&mut self, row: &ClientRecord) {
        self.of_iteration.insert(row.iteration, row.id);
        self.of_session.insert(row.session, row.id);
    }
}

impl Clients {
    /// Adds a client from the store.
    pub(super) fn load(&mut self, row: ClientRecord) {
        self.index.note(&row);
        self.rows.load(row.id, row);
    }

    pub(crate) fn insert(&mut self, row: ClientRecord, now: Moment) {
        self.seen.note(row.id, now);
        self.index.note(&row);
        self.rows.insert(row.id, row);
    }

    pub(crate) fn remove(&mut self, id: ClientId) -> Option<ClientRecord> {
        let row = self.rows.remove(&id)?;
        self.seen.remove(&id);
        self.stranded.clear(&id);
        self.index.of_iteration.remove(&row.iteration, &id);
        self.index.of_session.remove(&row.session, &id);
        Some(row)
    }

    pub(crate) fn get(&self, id: &ClientId) -> Option<&ClientRecord> {
        self.rows.get(id)
    }

    /// Returns a client if it belongs to this process.
    pub(crate) fn owned_by(&self, session: SessionId, id: ClientId) -> Result<&ClientRecord, Error> {
        let row = self.rows.get(&id).filter(|row| row.session == session);
        row.ok_or_else(|| {
            Error::not_found(format!(
                "there is no client {id} of this process: it was released, or it was silent for too long"
            ))
        })
    }

    pub(crate) fn contains(&self, id: &ClientId) -> bool {
        self.rows.contains(id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &ClientRecord> {
        self.rows.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the clients of a process, in the order of their numbers.
    pub(crate) fn of_session(&self, session: SessionId) -> Vec<ClientId> {
        self.index.of_session.of(&session).collect()
    }

    pub(crate) fn of(&self, iteration: IterationId) -> Vec<ClientId> {
        self.index.of_iteration.of(&iteration).collect()
    }

    pub(crate) fn rows_of(&self, iteration: IterationId) -> impl Iterator<Item = &ClientRecord> {
        let ids = self.index.of_iteration.of(&iteration);
        ids.filter_map(|id| self.rows.get(&id))
    }

    pub(crate) fn has_any_of(&self, iteration: IterationId) -> bool {
        self.index.of_iteration.contains(&iteration)
    }

    /// Returns the iterations that have clients.
    pub(crate) fn iterations(&self) -> impl Iterator<Item = &IterationId> {
        self.index.of_iteration.groups()
    }

    pub(crate) fn count_of_session(&self, session: SessionId) -> usize {
        self.index.of_session.count(&session)
    }

    /// Returns whether a client sent a heartbeat within `limit`.
    pub(crate) fn is_heard(&self, id: &ClientId, now: Moment, limit: Duration) -> bool {
        let seen = self.seen.get(id);
        seen.is_some_and(|seen| now.saturating_sub(seen) <= limit)
    }

    /// Notes that a client reads no task from `end` on, because its part of the iteration is finished
    /// (C14.2).
    pub(crate) fn end_reading(&mut self, id: ClientId, end: crate::id::TaskId) {
        if let Some(row) = self.rows.get_mut(&id) {
            row.reads_before = Some(end);
        }
    }

    /// Makes a client hold splits that no client holds yet.
    pub(crate) fn give(&mut self, id: ClientId, runs: Vec<Run>) {
        if let Some(row) = self.rows.get_mut(&id) {
            runs.into_iter().for_each(|run| row.in_hand.insert(run));
        }
    }

    /// Makes a client hold splits that this client or another client may already hold.
    pub(crate) fn share(&mut self, id: ClientId, runs: Vec<Run>) {
        if let Some(row) = self.rows.get_mut(&id) {
            runs.into_iter().for_each(|run| row.in_hand.put(run));
        }
    }

    /// Returns the splits of these leases that a client holds.
    pub(crate) fn in_hand(&self, id: ClientId, leases: &[LeaseRange]) -> Vec<Run> {
        let row = self.rows.get(&id).into_iter();
        row.flat_map(|row| leases.iter().flat_map(|range| row.in_hand.within(*range)))
            .collect()
    }

    /// Returns the splits of these leases that the other clients of an iteration hold.
    pub(crate) fn in_hand_of_others(
        &self,
        iteration: IterationId,
        id: ClientId,
        leases: &[LeaseRange],
    ) -> Holding {
        let mut found = Holding::default();
        for row in self.rows_of(iteration).filter(|row| row.id != id) {
            for run in leases.iter().flat_map(|range| row.in_hand.within(*range)) {
                found.put(run);
            }
        }
        found
    }

    /// Takes these leases from the splits that a client holds. Returns the splits that no other client
    /// holds (C5.8).
    pub(crate) fn take_in_hand(&mut self, id: ClientId, leases: &[LeaseRange]) -> Vec<Run> {
        let mut taken = Holding::default();
        let Some(row) = self.rows.get_mut(&id) else {
            return Vec::new();
        };
        let iteration = row.iteration;
        for run in leases.iter().flat_map(|range| row.in_hand.take(*range)) {
            taken.insert(run);
        }
        let of_taken: Vec<LeaseRange> = taken.runs().iter().map(Run::leases).collect();
        for run in self.in_hand_of_others(iteration, id, &of_taken).runs() {
            taken.take(run.leases());
        }
        taken.take_all()
    }

    /// Takes these splits from all clients of an iteration.
    pub(crate) fn clear_hands(&mut self, iteration: IterationId, runs: &[Run]) {
        for id in self.of(iteration) {
            let row = self.rows.get(&id);
            let has_any = |run: &&Run| row.is_some_and(|row| !row.in_hand.within(run.leases()).is_empty());
            let own: Vec<&Run> = runs.iter().filter(has_any).collect();
            if own.is_empty() {
                continue;
            }
            if let Some(row) = self.rows.get_mut(&id) {
                own.into_iter().for_each(|run| {
                    row.in_hand.take(run.leases());
                });
            }
        }
    }

    /// Gives every client a full timeout from `until` on.
    pub(crate) fn restart_clocks(&mut self, until: Moment) {
        for row in self.rows.values() {
            self.seen.note(row.id, until);
        }
    }

    /// Excuses all clients for a time in which the dispatcher itself did not run (C7.6).
    pub(crate) fn excuse(&mut self, time: Duration) {
        self.seen.excuse(time);
        self.stranded.excuse(time);
    }

    /// Panics if the index or the clocks contradict the rows.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        let mut index = Index::default();
        for row in self.rows.values() {
            index.note(row);
            assert!(self.seen.get(&row.id).is_some(), "client {} has no clock", row.id);
        }
        assert_eq!(self.index, index, "the index of clients is stale");
    }
}
