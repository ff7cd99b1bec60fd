//! What goes because nobody uses it any more: iterations, jobs, datasets.
//!
//! Released clients go at once, dead workers and silent processes by the sweep.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Dispatcher;
use super::record::{IterationRecord, Phase};
use super::sweep::overdue;
use crate::id::{DatasetId, IterationId, JobId};
use crate::job::Abandoned;

impl Dispatcher {
    /// Collects, if it is time to look again (C3.9). Iterations first: a job goes with its last one.
    pub(super) fn collect_unused(&mut self) {
        if self.now < self.clocks.last_collection + self.config.job_gc_check_interval {
            return;
        }
        self.clocks.last_collection = self.now;
        self.collect_iterations();
        self.collect_jobs();
        self.collect_datasets();
    }

    fn collect_iterations(&mut self) {
        let Some(timeout) = self.config.job_gc_timeout else {
            return;
        };
        let unread = overdue(&self.clocks.unread, self.now, timeout);
        let lowest_read = self.lowest_passes_read();
        for id in unread {
            let Some(row) = self.tables.iterations.get(&id) else {
                continue;
            };
            let goes = match row.phase {
                Phase::Planning => false,
                Phase::Running => self.may_be_given_up(row),
                // C3.7: whoever reads an earlier pass still comes to this one.
                Phase::Finished => lowest_read
                    .get(&row.job)
                    .is_none_or(|lowest| *lowest > row.repetition),
                Phase::Collected => true,
            };
            if goes {
                if row.phase == Phase::Running {
                    self.end_iteration(id, Phase::Collected);
                }
                self.clocks.unread.remove(&id);
                self.tables.remove_iteration(id);
            }
        }
    }

    /// C3.6: of one that no client ever had, nothing can be missed, and with a coordinated read nobody can go on.
    fn may_be_given_up(&self, row: &IterationRecord) -> bool {
        let waits = self.abandoned(row.job) == Abandoned::Waits;
        let is_kept = waits && self.is_dynamic(row.id) && row.was_read && !self.is_coordinated(row.id);
        self.config.gc_dynamic_sharding_jobs || !is_kept
    }

    /// C3.6: its last client has gone, and nobody else knows of the job. True if it exists no more.
    pub(super) fn give_up_abandoned(&mut self, id: IterationId) -> bool {
        let is_abandoned = self
            .tables
            .iterations
            .get(&id)
            .is_some_and(|row| row.phase == Phase::Running && self.abandoned(row.job) == Abandoned::Ends);
        if !is_abandoned || self.tables.index.clients_of.contains_key(&id) {
            return false;
        }
        self.collect_running(id);
        true
    }

    /// Ends a running iteration that nobody reads, and forgets it.
    pub(super) fn collect_running(&mut self, id: IterationId) {
        self.end_iteration(id, Phase::Collected);
        self.clocks.unread.remove(&id);
        self.tables.remove_iteration(id);
    }

    fn abandoned(&self, job: JobId) -> Abandoned {
        let job = self.tables.jobs.get(&job);
        job.map_or(Abandoned::Waits, |job| job.parameters.abandoned)
    }

    /// The lowest pass of each job that somebody reads.
    fn lowest_passes_read(&self) -> BTreeMap<JobId, u64> {
        let mut lowest = BTreeMap::new();
        for id in self.tables.index.clients_of.keys() {
            if let Some(row) = self.tables.iterations.get(id) {
                let pass = lowest.entry(row.job).or_insert(row.repetition);
                *pass = row.repetition.min(*pass);
            }
        }
        lowest
    }

    /// C3.8
    fn collect_jobs(&mut self) {
        let Some(timeout) = self.config.job_gc_timeout else {
            return;
        };
        for id in overdue(&self.clocks.jobs_used, self.now, timeout) {
            let passes = &self.tables.index.iteration_of_key;
            if passes.range((id, 0)..=(id, u64::MAX)).next().is_some() {
                continue;
            }
            self.remove_idle_job(id);
        }
    }

    /// Removes a job without iterations.
    pub(super) fn remove_idle_job(&mut self, id: JobId) {
        self.clocks.jobs_used.remove(&id);
        if let Some(job) = self.tables.remove_job(id) {
            self.clocks.datasets_used.insert(job.parameters.dataset, self.now);
        }
    }

    /// C2.5: those with automatic ids whose process is gone.
    fn collect_datasets(&mut self) {
        for id in self.unused_datasets() {
            let owner = self.tables.datasets.get(&id).and_then(|row| row.owner);
            if owner.is_some_and(|owner| !self.tables.sessions.contains(&owner)) {
                self.remove_dataset(&id);
            }
        }
    }

    /// C2.5: takes away the dataset that was idle longest. False if all are needed.
    pub(super) fn make_room_for_dataset(&mut self) -> bool {
        let used = &self.clocks.datasets_used;
        let longest = self.unused_datasets().into_iter().min_by_key(|id| used.get(id));
        let Some(id) = longest else {
            return false;
        };
        self.remove_dataset(&id);
        true
    }

    /// Datasets that no job reads and that nobody has asked for within their lifetime.
    fn unused_datasets(&self) -> Vec<DatasetId> {
        let Some(timeout) = self.config.dataset_gc_timeout else {
            return Vec::new();
        };
        let jobs = self.tables.jobs.values();
        let read: BTreeSet<&DatasetId> = jobs.map(|job| &job.parameters.dataset).collect();
        let mut idle = overdue(&self.clocks.datasets_used, self.now, timeout);
        idle.retain(|id| !read.contains(id));
        idle
    }

    fn remove_dataset(&mut self, id: &DatasetId) {
        self.clocks.datasets_used.remove(id);
        self.tables.datasets.remove(id);
    }
}
