//! The target workers of a reader: the workers whose tasks the reader reads.
//!
//! This file also ends a reader that has finished its own tasks while it skips other tasks. The file also
//! deletes the tasks that only readers of one process could read, once those readers are gone.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::{ClientPush, StopReason, WorkerPush};
use super::record::{ClientRecord, Phase, TaskPhase, TaskRecord};
use super::splits::{Holding, Ledger};
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::id::{ClientId, IterationId, JobId, TaskId, WorkerId};
use crate::job::{JobParameters, TargetWorkers};
use crate::whereabouts::Whereabouts;

/// Maximum number of processes that an iteration remembers after their last readers left. No job is shared
/// by more trainers with workers of their own.
const LEFT_MAX: usize = 1024;

impl ServiceState {
    /// Ends the readers that skip some tasks and have received everything of their own tasks (C14.2).
    pub(super) fn end_readers(&mut self, id: IterationId) {
        let Some(parameters) = self.tables.parameters_of(id) else {
            return;
        };
        let tasks = self.tables.tasks.of(id);
        let is_choosy = |task: &TaskId| {
            let task = self.tables.tasks.get(task);
            let worker = task.and_then(|task| self.tables.workers.get(&task.worker));
            worker.is_some_and(|worker| !parameters.admits_everybody(&worker.tags))
        };
        if !tasks.iter().any(is_choosy) || self.tables.splits_free(id) > 0 {
            return;
        }
        let next_task = self.tables.meta().next_task;
        let splits_lost = self.tables.iterations.get(&id).map_or(0, |row| row.splits_lost);
        for client in self.tables.clients.of(id) {
            let row = self.tables.clients.get(&client);
            if !row.is_some_and(|row| row.reads_before.is_none() && self.tables.has_all_of_its(row, &tasks)) {
                continue;
            }
            self.tables.clients.end_reading(client, next_task);
            self.push_client(client, ClientPush::IterationFinished { splits_lost });
        }
    }

    /// Deletes the tasks that only one process could read, after the last reader of that process has gone
    /// (C14.5).
    pub(super) fn leave_private_tasks(&mut self, client: &ClientRecord) {
        let (id, Some(process)) = (client.iteration, client.whereabouts.process) else {
            return;
        };
        let Some(parameters) = self.tables.parameters_of(id) else {
            return;
        };
        let is_alone = |other: &ClientRecord| !other.whereabouts.is_same_process(&client.whereabouts);
        if !self.tables.clients.rows_of(id).all(is_alone) {
            return;
        }
        let workers = self.tables.workers.values();
        let private: Vec<WorkerId> = workers
            .filter(|worker| worker.whereabouts.is_same_process(&client.whereabouts))
            .filter(|worker| parameters.is_private(&worker.tags))
            .map(|worker| worker.id)
            .collect();
        if private.is_empty() {
            return;
        }
        if let Some(row) = self.tables.iterations.get_mut(&id) {
            row.left.retain(|known| *known != process);
            if row.left.len() == LEFT_MAX {
                row.left.remove(0);
            }
            row.left.push(process);
        }
        for task in self.tables.tasks.of(id) {
            if self
                .tables
                .tasks
                .get(&task)
                .is_some_and(|row| private.contains(&row.worker))
            {
                self.delete_task(task);
            }
        }
    }

    /// Settles a task that no client will read any more. The held splits of the task are lost, because a
    /// client that is gone may have seen some of their elements.
    fn delete_task(&mut self, id: TaskId) {
        let Some(row) = self.tables.tasks.get_mut(&id) else {
            return;
        };
        match row.phase {
            TaskPhase::Failed(_) | TaskPhase::Settled => return,
            TaskPhase::Running | TaskPhase::Finished => {}
        }
        row.phase = TaskPhase::Settled;
        row.drained.clear();
        let (iteration, worker) = (row.iteration, row.worker);
        let held = self.tables.books.end_task(id);
        let held = held.map(|mut holding| holding.take_all()).unwrap_or_default();
        let address = self.tables.workers.address_of(worker);
        self.abandon_splits(iteration, &held, &address);
        self.push_worker(
            worker,
            WorkerPush::Stop {
                task: id,
                reason: StopReason::Abandoned,
            },
        );
    }
}

impl Tables {
    /// Returns whether this client reads the tasks of this worker (C14.1).
    pub(super) fn admits(&self, client: &ClientRecord, worker: WorkerId) -> bool {
        match (self.parameters_of(client.iteration), self.workers.get(&worker)) {
            (Some(parameters), Some(worker)) => {
                parameters.admits(&client.whereabouts, &worker.whereabouts, &worker.tags)
            }
            // Without the job or the worker the answer is unknown, so the client counts as a reader.
            (None, _) | (_, None) => true,
        }
    }

    /// Returns whether this client reads this task of that worker (C14.1, C14.2).
    pub(super) fn reads(&self, client: &ClientRecord, task: TaskId, worker: WorkerId) -> bool {
        client.reads_before.is_none_or(|end| task < end) && self.admits(client, worker)
    }

    /// Returns the clients that read a task, in the order of their ids.
    pub(super) fn readers(&self, task: &TaskRecord) -> Vec<ClientId> {
        let clients = self.clients.rows_of(task.iteration);
        clients
            .filter(|client| self.reads(client, task.id, task.worker))
            .map(|client| client.id)
            .collect()
    }

    /// Returns whether a client reads a task. Most tasks are read by every client, so that the first one is
    /// enough.
    pub(super) fn is_read(&self, task: &TaskRecord) -> bool {
        let mut clients = self.clients.rows_of(task.iteration);
        clients.any(|client| self.reads(client, task.id, task.worker))
    }

    /// Returns whether a client would read a new task of this iteration on this worker. While the iteration
    /// has no clients, returns whether every client would (C14.3).
    pub(super) fn would_be_read(&self, iteration: IterationId, worker: WorkerId) -> bool {
        if !self.clients.has_any_of(iteration) {
            let worker = self.workers.get(&worker);
            return self
                .parameters_of(iteration)
                .zip(worker)
                .is_none_or(|(parameters, worker)| parameters.admits_everybody(&worker.tags));
        }
        let mut clients = self.clients.rows_of(iteration);
        clients.any(|client| client.reads_before.is_none() && self.admits(client, worker))
    }

    /// Returns whether no client reads this running task, and the task holds no splits (C14.3).
    pub(super) fn is_idle_task(&self, task: &TaskRecord) -> bool {
        task.phase == TaskPhase::Running
            && self.books.holding(task.id).is_some_and(Holding::is_empty)
            && self.clients.has_any_of(task.iteration)
            && !self.is_read(task)
    }

    /// Returns whether a client skips some of these tasks and has received everything of its own tasks, of
    /// which it has at least one.
    fn has_all_of_its(&self, client: &ClientRecord, tasks: &[TaskId]) -> bool {
        let rows = || tasks.iter().filter_map(|task| self.tasks.get(task));
        let mut own = rows()
            .filter(|task| self.reads(client, task.id, task.worker))
            .peekable();
        let has_own = own.peek().is_some();
        let is_over = own.all(|task| match task.phase {
            TaskPhase::Running => false,
            TaskPhase::Finished => task.drained.contains(&client.id) && task.releasing.is_empty(),
            TaskPhase::Failed(_) | TaskPhase::Settled => true,
        });
        let mut removals = self.removals.rows_of(client.iteration);
        has_own
            && is_over
            && rows().any(|task| !self.reads(client, task.id, task.worker))
            && !removals.any(|removal| removal.readers.contains(&client.id))
            && self.lost_shares(client).is_empty()
    }

    /// Returns the number of free splits of an iteration that a task may still read.
    pub(super) fn splits_free(&self, id: IterationId) -> u64 {
        let wants_no_more = |task: TaskId| self.tasks.stopped_early(task);
        let ledger = self.books.ledger(id);
        ledger.map_or(0, |ledger: &Ledger| ledger.wanted(wants_no_more))
    }

    /// Checks that a reader with target workers `local` has a living worker in its own process (C14.4).
    pub(super) fn check_target(&self, job: JobId, reader: &Whereabouts) -> Result<(), Error> {
        let parameters = &self.catalog.job(job)?.parameters;
        if parameters.target_workers != TargetWorkers::Local {
            return Ok(());
        }
        let living = self.workers.taking_tasks();
        let mut rows = living.iter().filter_map(|worker| self.workers.get(worker));
        if rows.any(|worker| worker.whereabouts.is_same_process(reader)) {
            return Ok(());
        }
        Err(parameters.without_local_worker())
    }

    /// Checks that this process has not left the iteration: the readers of a process that left cannot open
    /// it again (C14.5).
    pub(super) fn check_not_left(&self, id: IterationId, reader: &Whereabouts) -> Result<(), Error> {
        let row = self.iterations.get(&id);
        let left = row.filter(|row| reader.process.is_some_and(|process| row.left.contains(&process)));
        left.map_or(Ok(()), |row| {
            Err(Error::precondition(format!(
                "pass {} of job {} was read in this process before, and its tasks on the workers of this \
                process were deleted when \
                 the last reader left: read another pass, or use another job name",
                row.repetition, row.job
            )))
        })
    }

    /// Returns whether a client waits for a worker that it may read.
    pub(super) fn waits_for_worker(&self, client: ClientId) -> bool {
        let Some(client) = self.clients.get(&client) else {
            return false;
        };
        !self.workers.living().any(|worker| self.admits(client, worker))
    }

    /// Returns the lost workers without which a client cannot continue (C7.5).
    pub(super) fn missing_workers(&self, client: &ClientRecord) -> Vec<String> {
        let Some(row) = self.iterations.get(&client.iteration) else {
            return Vec::new();
        };
        if row.phase != Phase::Running || row.workers_lost.is_empty() || client.reads_before.is_some() {
            return Vec::new();
        }
        if !self.waits_for_worker(client.id) {
            return self.lost_shares(client);
        }
        let others = |address: &String| {
            let mut workers = self.workers.values();
            workers.any(|worker| worker.address == *address && !self.admits(client, worker.id))
        };
        let lost = row.workers_lost.iter();
        lost.filter(|address| !others(address)).cloned().collect()
    }

    pub(super) fn parameters_of(&self, iteration: IterationId) -> Option<&JobParameters> {
        let row = self.iterations.get(&iteration)?;
        self.catalog.find_job(&row.job).map(|job| &job.parameters)
    }
}
