//! The collection of iterations, jobs and datasets that no process uses any more.
//!
//! Released clients are deleted at once. The sweep forgets dead workers and silent processes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use super::record::{IterationRecord, Phase};
use super::state::ServiceState;
use super::tables::Tables;
use crate::id::{IterationId, JobId, SessionId};
use crate::job::Abandoned;

impl ServiceState {
    /// Collects unused records if the check interval has passed (C3.9). Iterations are collected first,
    /// because a job is collected with its last iteration.
    pub(super) fn collect_unused(&mut self) {
        if self.now < self.last_collection + self.config.job_gc_check_interval {
            return;
        }
        self.last_collection = self.now;
        self.collect_iterations();
        self.collect_jobs();
        if let Some(timeout) = self.config.dataset_gc_timeout {
            let sessions = &self.tables.sessions;
            let is_there = |session: &SessionId| sessions.contains(session);
            self.tables.catalog.collect_datasets(self.now, timeout, is_there);
        }
    }

    fn collect_iterations(&mut self) {
        let Some(timeout) = self.config.job_gc_timeout else {
            return;
        };
        let unread = self.tables.iterations.unread.overdue(self.now, timeout);
        let lowest_read = self.tables.lowest_passes_read();
        for id in unread {
            let Some(row) = self.tables.iterations.get(&id) else {
                continue;
            };
            let goes = match row.phase {
                Phase::Planning => false,
                Phase::Running => self.may_be_given_up(row),
                // A reader of an earlier repetition will still open this repetition (C3.7).
                Phase::Finished => lowest_read
                    .get(&row.job)
                    .is_none_or(|lowest| *lowest > row.repetition),
                Phase::Collected => true,
            };
            if goes {
                if row.phase == Phase::Running {
                    self.end_iteration(id, Phase::Collected);
                }
                self.tables.iterations.remove(id);
            }
        }
    }

    /// Returns whether an unread running iteration may be given up. An iteration that never had a client
    /// may be given up. So may a coordinated read and an exactly-once job, which no other reader can continue
    /// (C3.6).
    fn may_be_given_up(&self, row: &IterationRecord) -> bool {
        let waits = self.tables.abandoned(row.job) == Abandoned::Waits;
        let is_kept = waits
            && self.tables.books.is_dynamic(row.id)
            && row.was_read
            && !self.tables.is_coordinated(row.id)
            && !self.tables.is_exactly_once(row.id);
        self.config.gc_dynamic_sharding_jobs || !is_kept
    }

    /// Ends an iteration whose last client has gone, if its job ends with its readers (C3.6). Returns true
    /// if the iteration no longer exists.
    pub(super) fn give_up_abandoned(&mut self, id: IterationId) -> bool {
        let is_abandoned = self.tables.iterations.get(&id).is_some_and(|row| {
            row.phase == Phase::Running && self.tables.abandoned(row.job) == Abandoned::Ends
        });
        if !is_abandoned || self.tables.clients.has_any_of(id) {
            return false;
        }
        self.collect_running(id);
        true
    }

    /// Ends a running iteration that no client reads, and deletes its record.
    pub(super) fn collect_running(&mut self, id: IterationId) {
        self.end_iteration(id, Phase::Collected);
        self.tables.iterations.remove(id);
    }

    /// Collects jobs that have been unused for the job GC timeout and have no iterations (C3.8).
    fn collect_jobs(&mut self) {
        let Some(timeout) = self.config.job_gc_timeout else {
            return;
        };
        for id in self.tables.catalog.unused_jobs(self.now, timeout) {
            if !self.tables.iterations.has_any_of(id) {
                self.tables.catalog.remove_job(id, self.now);
                self.tables.iterations.forget_consumers(id);
            }
        }
    }
}

impl Tables {
    fn abandoned(&self, job: JobId) -> Abandoned {
        let job = self.catalog.find_job(&job);
        job.map_or(Abandoned::Waits, |job| job.parameters.abandoned)
    }

    /// Returns the lowest repetition of each job that a client reads.
    fn lowest_passes_read(&self) -> BTreeMap<JobId, u64> {
        let mut lowest = BTreeMap::new();
        for id in self.clients.iterations() {
            if let Some(row) = self.iterations.get(id) {
                let pass = lowest.entry(row.job).or_insert(row.repetition);
                *pass = row.repetition.min(*pass);
            }
        }
        lowest
    }
}
