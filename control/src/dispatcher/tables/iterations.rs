//! The iterations: the iterations that a client may join, that run, that wait for a plan, or that no client
//! reads.
//!
//! [`Iterations`] does not know tasks, splits or workers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::stamps::{Alarms, Stamps};
use super::table::Table;
use crate::dispatcher::moment::Moment;
use crate::dispatcher::record::{IterationRecord, Phase};
use crate::error::Error;
use crate::id::{IterationId, JobId, RequestNumber, SessionId};
use crate::whereabouts::Whereabouts;

/// Maximum number of lost workers that an iteration names.
const WORKERS_LOST_MAX: usize = 64;

/// The table of all iterations that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Iterations {
    pub(super) rows: Table<IterationId, IterationRecord>,
    index: Index,
    /// The requests that wait for a plan to become clients. Waiting requests are not stored, because their
    /// processes repeat them.
    openers: BTreeMap<IterationId, Vec<Opener>>,
    /// The iterations without clients, whether running or over, except for iterations that wait for a plan.
    pub(crate) unread: Stamps<IterationId>,
    /// The coordinated reads with missing consumers.
    pub(crate) incomplete: Alarms<IterationId>,
    /// The process that joined last as each consumer of a job. The processes are not stored, because they
    /// only delay an alarm.
    consumers: BTreeMap<(JobId, u32), SessionId>,
}

/// The index by which an iteration is found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    /// The iterations that a client may still join, by job and repetition.
    of_key: BTreeMap<(JobId, u64), IterationId>,
    /// The iterations that are planned and not over.
    running: BTreeSet<IterationId>,
    /// The number of iterations that all processes of role `read` began together.
    of_read: usize,
}

/// A request to become a client of an iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opener {
    pub(crate) session: SessionId,
    pub(crate) number: RequestNumber,
    pub(crate) consumer: Option<u32>,
    pub(crate) whereabouts: Whereabouts,
}

impl Index {
    fn note(&mut self, row: &IterationRecord) {
        self.of_read += usize::from(row.owner.is_some_and(|owner| owner.is_read));
        if row.phase != Phase::Collected {
            self.of_key.insert((row.job, row.repetition), row.id);
        }
        if row.phase == Phase::Running {
            self.running.insert(row.id);
        }
    }
}

impl Iterations {
    /// Adds an iteration from the store.
    pub(super) fn load(&mut self, row: IterationRecord) {
        self.index.note(&row);
        self.rows.load(row.id, row);
    }

    pub(crate) fn insert(&mut self, row: IterationRecord) {
        self.index.note(&row);
        self.rows.insert(row.id, row);
    }

    pub(crate) fn remove(&mut self, id: IterationId) {
        self.unread.remove(&id);
        if let Some(row) = self.rows.remove(&id) {
            self.index.of_read -= usize::from(row.owner.is_some_and(|owner| owner.is_read));
            self.index.of_key.remove(&(row.job, row.repetition));
        }
    }

    /// Moves an iteration to another phase.
    pub(crate) fn set_phase(&mut self, id: IterationId, phase: Phase) {
        let Some(row) = self.rows.get_mut(&id) else {
            return;
        };
        row.phase = phase;
        match phase {
            Phase::Planning => {}
            Phase::Running => {
                self.index.running.insert(id);
            }
            Phase::Finished => {
                self.index.running.remove(&id);
            }
            Phase::Collected => {
                self.index.running.remove(&id);
                self.index.of_key.remove(&(row.job, row.repetition));
            }
        }
    }

    pub(crate) fn get(&self, id: &IterationId) -> Option<&IterationRecord> {
        self.rows.get(id)
    }

    /// Returns an iteration for a change of any fields except its job, repetition, phase and owner.
    pub(crate) fn get_mut(&mut self, id: &IterationId) -> Option<&mut IterationRecord> {
        self.rows.get_mut(id)
    }

    #[cfg(debug_assertions)]
    pub(crate) fn contains(&self, id: &IterationId) -> bool {
        self.rows.contains(id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &IterationRecord> {
        self.rows.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn phase_of(&self, id: IterationId) -> Option<Phase> {
        self.rows.get(&id).map(|row| row.phase)
    }

    /// Returns the iteration of a job's repetition that a client may join.
    pub(crate) fn of_key(&self, job: JobId, repetition: u64) -> Option<IterationId> {
        self.index.of_key.get(&(job, repetition)).copied()
    }

    /// Returns whether a job has an iteration that a client may join.
    pub(crate) fn has_any_of(&self, job: JobId) -> bool {
        let mut passes = self.index.of_key.range((job, 0)..=(job, u64::MAX));
        passes.next().is_some()
    }

    /// Returns the iterations that are planned and not over.
    pub(crate) fn running(&self) -> Vec<IterationId> {
        self.index.running.iter().copied().collect()
    }

    pub(crate) fn is_running(&self, id: IterationId) -> bool {
        self.index.running.contains(&id)
    }

    /// Returns the number of iterations that all processes of role `read` began.
    pub(crate) fn of_read(&self) -> usize {
        self.index.of_read
    }

    /// Returns the iterations that run, or whose plan a request waits for.
    pub(crate) fn open(&self) -> impl Iterator<Item = &IterationRecord> {
        let running = self.index.running.iter();
        let open = running.chain(self.openers.keys());
        open.filter_map(|id| self.rows.get(id))
    }

    /// Lets a request wait for an iteration's plan, unless `limit` requests already wait.
    pub(crate) fn await_plan(&mut self, id: IterationId, opener: Opener, limit: usize) -> Result<(), Error> {
        let openers = self.openers.entry(id).or_default();
        if openers.len() >= limit {
            return Err(Error::exhausted(format!(
                "{} clients already wait for this iteration, the most that may wait",
                openers.len()
            )));
        }
        openers.push(opener);
        Ok(())
    }

    /// Removes and returns the requests that waited for an iteration's plan.
    pub(crate) fn take_openers(&mut self, id: IterationId) -> Vec<Opener> {
        self.openers.remove(&id).unwrap_or_default()
    }

    /// Removes and returns the requests that waited for any plan.
    pub(crate) fn take_all_openers(&mut self) -> Vec<Opener> {
        let openers = std::mem::take(&mut self.openers);
        openers.into_values().flatten().collect()
    }

    /// Notes that an iteration has lost a worker. Only the latest lost workers are remembered.
    pub(crate) fn note_lost_worker(&mut self, id: IterationId, address: &str) {
        if let Some(row) = self.rows.get_mut(&id) {
            row.workers_lost.retain(|known| known != address);
            if row.workers_lost.len() == WORKERS_LOST_MAX {
                row.workers_lost.remove(0);
            }
            row.workers_lost.push(address.to_owned());
        }
    }

    /// Lets a consumer join an iteration once: elements that were sent to one client are never sent to
    /// another (C9.2).
    pub(crate) fn take_consumer(
        &mut self,
        id: IterationId,
        consumer: Option<u32>,
        session: SessionId,
    ) -> Result<(), Error> {
        let Some(consumer) = consumer else {
            return Ok(());
        };
        let row = self.rows.get(&id);
        if row.is_some_and(|row| row.consumers.contains(&consumer)) {
            return Err(Error::precondition(format!(
                "consumer {consumer} of iteration {id} has already begun, and the current round is \
                 past its first round: a restarted consumer needs a new repetition, and so do all other \
                 consumers"
            )));
        }
        if let Some(row) = self.rows.get_mut(&id) {
            row.consumers.insert(consumer);
            self.consumers.insert((row.job, consumer), session);
        }
        Ok(())
    }

    /// Returns the process that joined last as a consumer of a job.
    pub(crate) fn process_of_consumer(&self, job: JobId, consumer: u32) -> Option<SessionId> {
        self.consumers.get(&(job, consumer)).copied()
    }

    /// Forgets the consumers of a job that was deleted.
    pub(crate) fn forget_consumers(&mut self, job: JobId) {
        let consumers = self.consumers.range((job, 0)..=(job, u32::MAX));
        let consumers: Vec<_> = consumers.map(|(consumer, _)| *consumer).collect();
        for consumer in consumers {
            self.consumers.remove(&consumer);
        }
    }

    /// Starts or stops the clock that collects an unread iteration.
    pub(crate) fn note_readers(&mut self, id: IterationId, has_readers: bool, now: Moment) {
        if has_readers {
            self.unread.remove(&id);
        } else {
            self.unread.note_first(id, now);
        }
    }

    /// Excuses all processes for a time in which the dispatcher itself did not run (C7.6).
    pub(crate) fn excuse(&mut self, time: Duration) {
        self.unread.excuse(time);
        self.incomplete.excuse(time);
    }

    /// Panics if the index contradicts the rows.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        let mut index = Index::default();
        for row in self.rows.values() {
            index.note(row);
        }
        assert_eq!(self.index, index, "the index of iterations is stale");
        assert!(self.unread.iter().all(|(id, _)| self.rows.contains(id)));
    }
}
