//! The catalog of datasets and jobs, which are registered once, found again by id or name, and forgotten
//! when unused.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::groups::Groups;
use super::stamps::Stamps;
use super::table::Table;
use crate::dispatcher::moment::Moment;
use crate::dispatcher::record::{DatasetRecord, JobRecord};
use crate::error::Error;
use crate::id::{DatasetId, JobId, SessionId};
use crate::job::JobParameters;

/// The catalog of all datasets and jobs.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(super) datasets: Table<DatasetId, Arc<DatasetRecord>>,
    pub(super) jobs: Table<JobId, JobRecord>,
    index: Index,
    /// The time at which each job was last requested.
    jobs_used: Stamps<JobId>,
    /// The time at which each dataset was last requested, or lost its last job.
    datasets_used: Stamps<DatasetId>,
}

/// The index by which a job is found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    job_of_name: BTreeMap<String, JobId>,
    /// The jobs that each process created.
    jobs_of: Groups<SessionId, JobId>,
    /// The number of jobs that all processes of role `read` have created together.
    jobs_of_read: usize,
}

impl Index {
    fn note(&mut self, job: &JobRecord) {
        self.job_of_name.insert(job.name.clone(), job.id);
        if let Some(owner) = job.owner {
            self.jobs_of.insert(owner.session, job.id);
            self.jobs_of_read += usize::from(owner.is_read);
        }
    }
}

impl Catalog {
    /// Adds a dataset from the store.
    pub(super) fn load_dataset(&mut self, row: Arc<DatasetRecord>) {
        self.datasets.load(row.id.clone(), row);
    }

    /// Adds a job from the store.
    pub(super) fn load_job(&mut self, row: JobRecord) {
        self.index.note(&row);
        self.jobs.load(row.id, row);
    }

    pub(crate) fn insert_dataset(&mut self, row: DatasetRecord, now: Moment) {
        self.datasets_used.note(row.id.clone(), now);
        self.datasets.insert(row.id.clone(), Arc::new(row));
    }

    pub(crate) fn find_dataset(&self, id: &DatasetId) -> Option<&Arc<DatasetRecord>> {
        self.datasets.get(id)
    }

    /// Returns a dataset, or the error for a dataset that does not exist.
    pub(crate) fn dataset(&self, id: &DatasetId) -> Result<&Arc<DatasetRecord>, Error> {
        self.datasets.get(id).ok_or_else(|| {
            Error::not_found(format!(
                "there is no dataset {id}: it was never registered, or it was unused for too long"
            ))
        })
    }

    /// Returns a dataset that a process requests, and restarts its idle time.
    pub(crate) fn use_dataset(&mut self, id: &DatasetId, now: Moment) -> Result<Arc<DatasetRecord>, Error> {
        let row = Arc::clone(self.dataset(id)?);
        self.datasets_used.note(id.clone(), now);
        Ok(row)
    }

    pub(crate) fn datasets(&self) -> impl Iterator<Item = &Arc<DatasetRecord>> {
        self.datasets.values()
    }

    pub(crate) fn dataset_count(&self) -> usize {
        self.datasets.len()
    }

    /// Forgets the datasets with automatic ids that were unused for `timeout` and whose processes are gone
    /// (C2.5).
    pub(crate) fn collect_datasets(
        &mut self,
        now: Moment,
        timeout: Duration,
        is_there: impl Fn(&SessionId) -> bool,
    ) {
        for id in self.unused_datasets(now, timeout) {
            let owner = self.datasets.get(&id).and_then(|row| row.owner);
            if owner.is_some_and(|owner| !is_there(&owner)) {
                self.remove_dataset(&id);
            }
        }
    }

    /// Forgets the dataset that was unused for longest (C2.5). Returns false if no dataset was unused for
    /// `timeout`.
    pub(crate) fn make_room_for_dataset(&mut self, now: Moment, timeout: Duration) -> bool {
        let unused = self.unused_datasets(now, timeout).into_iter();
        let Some(id) = unused.min_by_key(|id| self.datasets_used.get(id)) else {
            return false;
        };
        self.remove_dataset(&id);
        true
    }

    /// Returns the datasets that no job reads and no process has requested within `timeout`.
    fn unused_datasets(&self, now: Moment, timeout: Duration) -> Vec<DatasetId> {
        let jobs = self.jobs.values();
        let read: BTreeSet<&DatasetId> = jobs.map(|job| &job.parameters.dataset).collect();
        let mut idle = self.datasets_used.overdue(now, timeout);
        idle.retain(|id| !read.contains(id));
        idle
    }

    fn remove_dataset(&mut self, id: &DatasetId) {
        self.datasets_used.remove(id);
        self.datasets.remove(id);
    }

    pub(crate) fn insert_job(&mut self, row: JobRecord, now: Moment) {
        self.jobs_used.note(row.id, now);
        self.index.note(&row);
        self.jobs.insert(row.id, row);
    }

    pub(crate) fn find_job(&self, id: &JobId) -> Option<&JobRecord> {
        self.jobs.get(id)
    }

    /// Returns a job, or the error for a job that does not exist.
    pub(crate) fn job(&self, id: JobId) -> Result<&JobRecord, Error> {
        self.jobs.get(&id).ok_or_else(|| {
            Error::not_found(format!(
                "there is no job {id}: it was never created, or it was unread for too long; create it again"
            ))
        })
    }

    pub(crate) fn job_named(&self, name: &str) -> Option<&JobRecord> {
        self.jobs.get(self.index.job_of_name.get(name)?)
    }

    /// Notes that a process requests a job.
    pub(crate) fn use_job(&mut self, id: JobId, now: Moment) {
        self.jobs_used.note(id, now);
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = &JobRecord> {
        self.jobs.values()
    }

    pub(crate) fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the jobs that a process created, oldest first.
    pub(crate) fn jobs_of(&self, session: SessionId) -> Vec<JobId> {
        self.index.jobs_of.of(&session).collect()
    }

    /// Returns the number of jobs that all processes of role `read` created.
    pub(crate) fn jobs_of_read(&self) -> usize {
        self.index.jobs_of_read
    }

    /// Returns the jobs that no process has requested within `timeout`.
    pub(crate) fn unused_jobs(&self, now: Moment, timeout: Duration) -> Vec<JobId> {
        self.jobs_used.overdue(now, timeout)
    }

    /// Forgets a job, and restarts the idle time of its dataset.
    pub(crate) fn remove_job(&mut self, id: JobId, now: Moment) {
        self.jobs_used.remove(&id);
        let Some(job) = self.jobs.remove(&id) else {
            return;
        };
        self.index.job_of_name.remove(&job.name);
        if let Some(owner) = job.owner {
            self.index.jobs_of.remove(&owner.session, &id);
            self.index.jobs_of_read -= usize::from(owner.is_read);
        }
        self.datasets_used.note(job.parameters.dataset, now);
    }

    /// Returns a job's parameters with the dataset of an existing job, if both datasets are equal.
    ///
    /// Trainers that run one program register its dataset several times, each under its own id. Datasets
    /// with equal definitions and facts count as the same dataset (C2.3).
    pub(crate) fn in_terms_of(&self, existing: &JobRecord, wanted: JobParameters) -> JobParameters {
        let before = self.datasets.get(&existing.parameters.dataset);
        let now = self.datasets.get(&wanted.dataset);
        let is_same = before
            .zip(now)
            .is_some_and(|(before, now)| before.definition == now.definition && before.facts == now.facts);
        JobParameters {
            dataset: if is_same {
                existing.parameters.dataset.clone()
            } else {
                wanted.dataset
            },
            ..wanted
        }
    }

    /// Gives every dataset and job a full timeout.
    pub(crate) fn restart_clocks(&mut self, now: Moment) {
        for row in self.datasets.values() {
            self.datasets_used.note(row.id.clone(), now);
        }
        for row in self.jobs.values() {
            self.jobs_used.note(row.id, now);
        }
    }

    /// Excuses all processes for a time in which the dispatcher itself did not run (C7.6).
    pub(crate) fn excuse(&mut self, time: Duration) {
        self.jobs_used.excuse(time);
        self.datasets_used.excuse(time);
    }

    /// Returns whether no clock of the catalog is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs_used.is_empty() && self.datasets_used.is_empty()
    }

    /// Panics if the index or the clocks contradict the rows.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        let mut index = Index::default();
        for job in self.jobs.values() {
            index.note(job);
            let dataset = &job.parameters.dataset;
            assert!(self.datasets.contains(dataset), "job {} has no dataset", job.id);
        }
        assert_eq!(self.index, index, "the index of jobs is stale");
        assert!(self.jobs.keys().eq(self.jobs_used.iter().map(|(id, _)| id)));
        assert!(
            self.datasets
                .keys()
                .eq(self.datasets_used.iter().map(|(id, _)| id))
        );
    }
}
