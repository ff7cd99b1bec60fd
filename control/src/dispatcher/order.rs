//! Jobs whose readers take elements in the order of their splits: which splits a task may be dealt, and who
//! reads what comes free.
//!
//! A reader in order waits for the earliest split that is missing, so nobody may have it after later ones:
//! neither in a lease nor in a pipeline nor in a buffer.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::record::{TaskPhase, TaskRecord};
use super::splits::{Dealing, Holding, Ledger};
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::id::{IterationId, TaskId};
use crate::job::{JobParameters, Policy};

/// Splits of one lease, for readers in order. They keep few elements until an earlier one comes, so with
/// longer leases one worker after the other would work.
const LEASE_MAX: u64 = 8;

/// C2.7: whether a job can be read in order.
pub(super) fn check_order(parameters: &JobParameters) -> Result<(), Error> {
    let is_shared = parameters.num_consumers.is_some() || parameters.cross_trainer_cache;
    if !parameters.in_order || (parameters.policy == Policy::Dynamic && !is_shared) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "in_order needs the sharding policy `dynamic`, without consumers and without the cross-trainer cache: elsewhere nobody deals \
         splits out in an order that readers could keep (the policy is `{}`)",
        parameters.policy
    )))
}

impl ServiceState {
    /// C6.9: starts tasks for free splits that every running task has passed.
    pub(super) fn catch_up(&mut self, id: IterationId) {
        if !self.tables.is_in_order(id) {
            return;
        }
        // What a running task gives back it may not have wanted at all: its end says so.
        let is_undecided = |task: TaskId| {
            let task = self.tables.tasks.get(&task);
            task.is_some_and(|task| task.stopped_early || self.tables.reads_on(task))
        };
        let ledger = self.tables.books.ledger(id);
        let Some((first, free)) = ledger.and_then(|ledger| ledger.earliest_wanted(is_undecided)) else {
            return;
        };
        let tasks = self.tables.tasks.of(id);
        let comes_by = |task: &TaskId| {
            let latest = self.tables.books.holding(*task).and_then(Holding::latest);
            let row = self.tables.tasks.get(task);
            row.is_some_and(|row| self.tables.reads_on(row)) && latest < Some(first)
        };
        if tasks.iter().any(comes_by) || self.tables.is_round_in_vain(id, &tasks) {
            return;
        }
        let next_task = self.tables.meta().next_task;
        self.begin_round(id, free);
        for task in self
            .tables
            .tasks
            .of(id)
            .into_iter()
            .filter(|task| *task >= next_task)
        {
            if let Some(row) = self.tables.tasks.get_mut(&task) {
                row.catches_up = true;
            }
        }
    }
}

impl Tables {
    /// Returns the splits that a task may be dealt next (C5.9), and how many at most.
    pub(super) fn dealing_to(&self, id: TaskId) -> (Dealing, u64) {
        let task = self.tasks.get(&id);
        let Some(task) = task.filter(|task| self.is_in_order(task.iteration)) else {
            return (Dealing::default(), u64::MAX);
        };
        let dealing = Dealing {
            after: self.books.holding(id).and_then(Holding::latest),
            only_free: task.catches_up,
        };
        (dealing, LEASE_MAX)
    }

    /// Returns whether the readers of an iteration take elements in the order of its splits. Several sources
    /// have no common order.
    fn is_in_order(&self, id: IterationId) -> bool {
        let row = self.iterations.get(&id);
        let job = row.and_then(|row| self.catalog.find_job(&row.job));
        let ledger = self.books.ledger(id);
        job.is_some_and(|job| job.parameters.in_order)
            && ledger.is_some_and(|ledger: &Ledger| ledger.has_source(0) && !ledger.has_source(1))
    }

    /// Returns whether a task will ask for more splits, as far as its worker goes.
    fn reads_on(&self, task: &TaskRecord) -> bool {
        task.phase == TaskPhase::Running && !self.workers.is_draining(task.worker)
    }
}
