//! The tasks that a reader reads: those of the workers that its job's `target_workers` admits.
//!
//! This file owns the end of a reader that leaves tasks aside, and the fate of the tasks that only that
//! reader could read.
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

/// Processes whose readers have left an iteration for good, as many as it remembers: more trainers with
/// workers of their own do not share a job.
const LEFT_MAX: usize = 1024;

impl ServiceState {
    /// C14.2: ends the readers that leave tasks aside and have everything of theirs.
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

    /// C14.5: the last reader of its process has gone. What only readers there could read goes with it.
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

    /// Settles a task that nobody will read any more: what it held is lost, since a reader that is gone may
    /// have seen of it.
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
        self.lose_splits(iteration, &held, &address);
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
    /// C14.1: whether this client reads what this worker has of its iteration.
    pub(super) fn admits(&self, client: &ClientRecord, worker: WorkerId) -> bool {
        match (self.parameters_of(client.iteration), self.workers.get(&worker)) {
            (Some(parameters), Some(worker)) => {
                parameters.admits(&client.whereabouts, &worker.whereabouts, &worker.tags)
            }
            // Nobody can say, so it may have.
            (None, _) | (_, None) => true,
        }
    }

    /// Returns whether this client reads this task of that worker (C14.1, C14.2).
    pub(super) fn reads(&self, client: &ClientRecord, task: TaskId, worker: WorkerId) -> bool {
        client.reads_before.is_none_or(|end| task < end) && self.admits(client, worker)
    }

    /// The clients that read a task, in the order of their ids.
    pub(super) fn readers(&self, task: &TaskRecord) -> Vec<ClientId> {
        let clients = self.clients.rows_of(task.iteration);
        clients
            .filter(|client| self.reads(client, task.id, task.worker))
            .map(|client| client.id)
            .collect()
    }

    /// C14.3: whether somebody would read a new task of this iteration on this worker; while it has no
    /// clients, whether everybody would.
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

    /// C14.3: whether every client leaves this task aside, and it has never had anything to lose by it.
    pub(super) fn is_idle_task(&self, task: &TaskRecord) -> bool {
        task.phase == TaskPhase::Running
            && self.books.holding(task.id).is_some_and(Holding::is_empty)
            && self.clients.has_any_of(task.iteration)
            && self.readers(task).is_empty()
    }

    /// Returns whether a client leaves some of these tasks aside and has all of the others, at least one.
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

    /// Splits of an iteration that are free and that somebody wants.
    pub(super) fn splits_free(&self, id: IterationId) -> u64 {
        let wants_no_more = |task: TaskId| self.tasks.stopped_early(task);
        let ledger = self.books.ledger(id);
        ledger.map_or(0, |ledger: &Ledger| ledger.wanted(wants_no_more))
    }

    /// C14.4: a reader of its process's workers must have one there.
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

    /// C14.5: an iteration that the readers of this process have left is not read there again.
    pub(super) fn check_not_left(&self, id: IterationId, reader: &Whereabouts) -> Result<(), Error> {
        let row = self.iterations.get(&id);
        let left = row.filter(|row| reader.process.is_some_and(|process| row.left.contains(&process)));
        left.map_or(Ok(()), |row| {
            Err(Error::precondition(format!(
                "pass {} of job {} was read in this process before, and its tasks on the workers of this process, which nobody \
                 else may read, have been deleted with their reader: read another pass, or a job of another name",
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

    /// C7.5: the workers without which a client that read of them cannot go on.
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
