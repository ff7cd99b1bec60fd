//! The cross-trainer cache: the jobs that may have the cache, the one repetition that is read, and the
//! completion of its splits.
//!
//! Only the workers know which elements are kept, and which elements each trainer has read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::record::{DatasetRecord, JobRecord};
use super::tables::Tables;
use crate::error::Error;
use crate::id::{IterationId, SessionId, TaskId};
use crate::job::JobParameters;
use crate::planner::Cardinality;
use crate::split::LeaseRange;

/// Checks that a job may have the cross-trainer cache (C13.1).
pub(super) fn check_cache(
    name: Option<&str>,
    parameters: &JobParameters,
    dataset: &DatasetRecord,
) -> Result<(), Error> {
    if !parameters.cross_trainer_cache {
        return Ok(());
    }
    if name.is_none() {
        return Err(Error::invalid(
            "the cross-trainer cache needs a job_name: trainers with the same job_name share the cached \
            elements",
        ));
    }
    if let Some(consumers) = parameters.num_consumers {
        return Err(Error::invalid(format!(
            "the cross-trainer cache cannot be combined with a coordinated read (num_consumers = \
            {consumers}): \
             consumers read different elements, readers of a cache the same elements"
        )));
    }
    match dataset.facts.cardinality {
        Cardinality::Infinite | Cardinality::Unknown => Ok(()),
        Cardinality::Finite(elements) => Err(Error::invalid(format!(
            "the cross-trainer cache needs an infinite dataset, and dataset {} has {elements} elements: repeat it without \
             end",
            dataset.id
        ))),
    }
}

/// Checks that this repetition of a job can be read: a job with the cross-trainer cache has only repetition
/// 0 (C13.2).
pub(super) fn check_pass(job: &JobRecord, repetition: u64) -> Result<(), Error> {
    if !job.parameters.cross_trainer_cache || repetition == 0 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "repetition {repetition} of the job {:?} cannot be read: a job with the cross-trainer cache has \
        only repetition 0, \
         which never ends",
        job.name
    )))
}

impl Tables {
    /// Handles a worker's report that its task has produced these splits (C13.3).
    pub(super) fn splits_produced(
        &mut self,
        session: SessionId,
        task: TaskId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        let iteration = self.own_task(session, task)?.iteration;
        if !self.is_cached(iteration) {
            return Err(Error::invalid(format!(
                "task {task} has no cross-trainer cache: its splits are done only when a reader has \
                received them"
            )));
        }
        let books = &mut self.books;
        let runs = books.take_held(task, leases).unwrap_or_default();
        books.done(iteration, &runs);
        Ok(())
    }

    /// Returns whether the job of an iteration has the cross-trainer cache.
    pub(super) fn is_cached(&self, iteration: IterationId) -> bool {
        let row = self.iterations.get(&iteration);
        let job = row.and_then(|row| self.catalog.find_job(&row.job));
        job.is_some_and(|job| job.parameters.cross_trainer_cache)
    }
}
