//! The cross-trainer cache: which jobs may have it, which of their passes is read, and when their splits are
//! done.
//!
//! Only the workers know which elements are kept, and which of them each trainer has read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::record::{DatasetRecord, JobRecord};
use super::tables::Tables;
use crate::error::Error;
use crate::id::{IterationId, SessionId, TaskId};
use crate::job::JobParameters;
use crate::planner::Cardinality;
use crate::split::LeaseRange;

/// C13.1: whether trainers can share what the workers keep of a dataset.
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
            "the cross-trainer cache needs a job_name: trainers that give the same one share what the workers keep",
        ));
    }
    if let Some(consumers) = parameters.num_consumers {
        return Err(Error::invalid(format!(
            "the cross-trainer cache cannot be had in a coordinated read (num_consumers = {consumers}): its readers get \
             different elements, those of a cache the same"
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

/// C13.2: whether this pass of a job can be read.
pub(super) fn check_pass(job: &JobRecord, repetition: u64) -> Result<(), Error> {
    if !job.parameters.cross_trainer_cache || repetition == 0 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "repetition {repetition} of the job {:?} cannot be read: with the cross-trainer cache there is only repetition 0, \
         which never ends",
        job.name
    )))
}

impl Tables {
    /// C13.3
    pub(super) fn splits_produced(
        &mut self,
        session: SessionId,
        task: TaskId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        let iteration = self.own_task(session, task)?.iteration;
        if !self.is_cached(iteration) {
            return Err(Error::invalid(format!(
                "task {task} has no cross-trainer cache: its splits are done when a reader has them, not before"
            )));
        }
        let books = &mut self.books;
        let runs = books.take_held(task, leases).unwrap_or_default();
        books.done(iteration, &runs);
        Ok(())
    }

    /// Returns whether an iteration is read through the cache.
    pub(super) fn is_cached(&self, iteration: IterationId) -> bool {
        let row = self.iterations.get(&iteration);
        let job = row.and_then(|row| self.catalog.find_job(&row.job));
        job.is_some_and(|job| job.parameters.cross_trainer_cache)
    }
}
