//! Exactly-once jobs: their checks, their only reader, and their splits, which no dead worker takes along
//! (C16).
//!
//! The reader counts the elements that it has of each split, and drops repeated elements. Any split that is
//! not done can therefore be read again, also if the reader has seen a part of it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::poison::check_poison_limits;
use super::record::TaskPhase;
use super::splits::{Ledger, Run};
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::exactly_once::ExactlyOnce;
use crate::id::{ClientId, IterationId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::planner::SplitPlan;

/// The failure of a task of an exactly-once job that ended before its splits did (C16.6).
pub(super) const STOPPED_EARLY: &str = "the task of an exactly-once job ended before its splits did, so that some elements would be \
     missing: its pipeline must read each split to the end";

/// Checks that a job can be read exactly once (C16.2).
pub(super) fn check_exactly_once(name: Option<&str>, parameters: &JobParameters) -> Result<(), Error> {
    let Some(once) = &parameters.exactly_once else {
        return Ok(());
    };
    if let Some(name) = name {
        return Err(Error::invalid(format!(
            "an exactly-once job has one reader and no name, and this one is named {name:?}: leave out the \
             job name, and let each trainer open its own job with its own first split"
        )));
    }
    if once.step == 0 {
        return Err(Error::invalid(
            "the step of an exactly-once job is the number of trainers that divide the splits: expected at \
             least 1, found 0",
        ));
    }
    check_poison_limits(once.poison)?;
    let quarantined = once.quarantine.as_ref().map_or(0, Vec::len);
    if quarantined > ExactlyOnce::QUARANTINED_MAX {
        return Err(Error::invalid(format!(
            "an exactly-once job leaves out at most {} failed elements, found {quarantined}",
            ExactlyOnce::QUARANTINED_MAX
        )));
    }
    if parameters.policy != Policy::Dynamic || !parameters.in_order {
        return Err(Error::invalid(format!(
            "an exactly-once job needs the sharding policy `dynamic` and in_order, and found the policy `{}` \
             and in_order = {}: set both",
            parameters.policy, parameters.in_order
        )));
    }
    if parameters.num_consumers.is_some() || parameters.cross_trainer_cache {
        return Err(Error::invalid(
            "an exactly-once job has one reader, and so neither consumers nor the cross-trainer cache: leave \
             out num_consumers and the cache, and let each trainer open its own job",
        ));
    }
    Ok(())
}

impl ServiceState {
    /// Handles splits that their task will not deliver completely. The splits are lost, except in an
    /// exactly-once job, where another task reads them (C16.4).
    pub(super) fn abandon_splits(&mut self, id: IterationId, runs: &[Run], worker_address: &str) {
        if self.tables.is_exactly_once(id) {
            self.tables.books.free(id, runs);
        } else {
            self.lose_splits(id, runs, worker_address);
        }
    }
}

impl Tables {
    /// Returns whether an iteration belongs to an exactly-once job.
    pub(super) fn is_exactly_once(&self, id: IterationId) -> bool {
        self.exactly_once_of(id).is_some()
    }

    /// Returns whether an iteration belongs to an exactly-once job whose only reader is gone. No task needs
    /// to read such an iteration any further.
    pub(super) fn has_lost_its_reader(&self, id: IterationId) -> bool {
        self.is_exactly_once(id) && !self.clients.has_any_of(id)
    }

    /// Returns the plan by which an iteration leases splits. In an exactly-once job these are the selected
    /// splits of the only source (C16.2, C16.3). Only these jobs need the versions of files (C16.10).
    pub(super) fn select_splits(&self, id: IterationId, plan: SplitPlan) -> Result<SplitPlan, Error> {
        let Some(ExactlyOnce {
            first, step, files, ..
        }) = self.exactly_once_of(id)
        else {
            return Ok(plan.without_versions());
        };
        let (first, step, files) = (*first, *step, *files);
        match &plan.sources[..] {
            [source] if is_other(files, source.files()) => Err(Error::precondition(
                "the files of the dataset are not those of the saved position: files were added, removed, renamed or changed \
                 in size, so the position would stand for other elements. Restore the files, or begin the epoch or the save again",
            )),
            [_] => Ok(plan.selected(first, step)),
            sources => Err(Error::invalid(format!(
                "an exactly-once job needs a dataset with one source, which has one order of splits, and this \
                 dataset has {} sources: save the combined dataset and read the saved one, or read it \
                 without exactly_once",
                sources.len()
            ))),
        }
    }

    /// Returns the digest of the files that a client's iteration reads (C16.11).
    pub(super) fn files_of(&self, client: ClientId) -> Option<u64> {
        let iteration = self.clients.get(&client)?.iteration;
        self.books.plan(iteration)?.sources.first()?.files()
    }

    /// Checks that no other client has joined the iteration of an exactly-once job (C16.5).
    pub(super) fn check_sole_reader(&self, id: IterationId) -> Result<(), Error> {
        let row = self.iterations.get(&id);
        let reader = row.and_then(|row| row.reader);
        reader.map_or(Ok(()), |reader| {
            Err(Error::precondition(format!(
                "iteration {id} of an exactly-once job has one reader, and client {reader} is it: open \
                 another job, with the position from which to go on"
            )))
        })
    }

    /// Remembers the only reader of an iteration, if its job is an exactly-once job (C16.5).
    pub(super) fn note_sole_reader(&mut self, id: IterationId, client: ClientId) {
        if self.is_exactly_once(id)
            && let Some(row) = self.iterations.get_mut(&id)
        {
            row.reader = Some(client);
        }
    }

    /// Checks that a task of an exactly-once job does not ask for a second pass over its source (C16.1).
    pub(super) fn check_only_pass(&self, id: IterationId, repetition: u64) -> Result<(), Error> {
        if repetition == 0 || !self.is_exactly_once(id) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a task of an exactly-once job leases the splits of pass 0 over its source only, and found a \
             request for pass {repetition}: repeat the dataset by further iterations of the job"
        )))
    }

    /// Returns whether a running task of an exactly-once job reports its end although it was told of no end
    /// of its splits (C16.6).
    pub(super) fn ends_too_early(&self, id: IterationId, task: TaskId, exhausted: bool) -> bool {
        let Some((row, iteration)) = self.tasks.get(&task).zip(self.iterations.get(&id)) else {
            return false;
        };
        if !self.is_exactly_once(id) || row.phase != TaskPhase::Running {
            return false;
        }
        // A round begins with free splits, and ends for no task before one of its tasks has taken some.
        let next_lease = self.books.ledger(id).map(Ledger::next_lease);
        let is_unbegun = row.round > 0
            && row.round == iteration.round
            && next_lease == Some(iteration.round_lease)
            && self.splits_free(id) > 0;
        !exhausted || is_unbegun
    }

    fn exactly_once_of(&self, id: IterationId) -> Option<&ExactlyOnce> {
        self.parameters_of(id)?.exactly_once.as_ref()
    }
}

/// Returns whether the files of a source are not those of a saved position. A missing digest is no
/// mismatch: a new epoch and a source without files have none, nor do states of earlier versions.
fn is_other(saved: Option<u64>, found: Option<u64>) -> bool {
    saved.zip(found).is_some_and(|(saved, found)| saved != found)
}
