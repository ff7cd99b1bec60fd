//! Coordinated reads: the consumers, the rounds in which each task takes part, and the consumers that keep
//! others waiting.
//!
//! The dispatcher does not know how far any consumer has read. Each consumer reports the first round in
//! which it can read a late task. Each consumer also reports the number of groups of a removed task that it
//! may hand over.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use super::action::{ClientPush, TaskConcluded};
use super::record::{JobRecord, RemovalRecord, TaskRecord};
use super::splits::Holding;
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::id::{ClientId, IterationId, JobId, SessionId, TaskId};
use crate::job::{JobParameters, TargetWorkers};

/// Checks that a job can be opened as this consumer (C9.2).
pub(super) fn check_consumer(job: &JobRecord, consumer: Option<u32>) -> Result<(), Error> {
    let name = &job.name;
    match (job.parameters.num_consumers, consumer) {
        (None, None) => Ok(()),
        (Some(count), Some(consumer)) if consumer < count => Ok(()),
        (Some(count), Some(consumer)) => Err(Error::invalid(format!(
            "the job {name:?} has {count} consumers, numbered from 0: there is no consumer {consumer}"
        ))),
        (Some(count), None) => Err(Error::invalid(format!(
            "the job {name:?} has {count} consumers: say which one this is, from 0 to {}",
            count.saturating_sub(1)
        ))),
        (None, Some(consumer)) => Err(Error::invalid(format!(
            "the job {name:?} was created without num_consumers: it cannot be read as consumer {consumer}"
        ))),
    }
}

/// Checks the number of a job's consumers, which may be at most `limit`, and that all of them can read the
/// same workers (C9.1).
pub(super) fn check_consumers(parameters: &JobParameters, limit: u32) -> Result<(), Error> {
    let Some(count) = parameters.num_consumers else {
        return Ok(());
    };
    if count == 0 || count > limit {
        return Err(Error::invalid(format!(
            "a coordinated read has 1 to {limit} consumers: num_consumers cannot be {count}"
        )));
    }
    match parameters.target_workers {
        TargetWorkers::Auto | TargetWorkers::Any | TargetWorkers::Host => Ok(()),
        TargetWorkers::Local => Err(Error::invalid(
            "coordinated reads (num_consumers) cannot have target_workers `local`: all consumers read the same \
             workers; use `auto` or `any`",
        )),
    }
}

impl ServiceState {
    /// Records the first round in which a consumer can read a late task (C9.4).
    pub(super) fn round_ready(
        &mut self,
        session: SessionId,
        client: ClientId,
        task: TaskId,
        earliest: u64,
    ) -> Result<(), Error> {
        let row = self.tables.clients.owned_by(session, client)?;
        let (iteration, consumer) = (row.iteration, row.consumer);
        // The task may have ended with its worker, so that the round no longer matters.
        let Some(row) = self.tables.tasks.get(&task) else {
            return Ok(());
        };
        if row.iteration != iteration {
            return Err(Error::invalid(format!(
                "task {task} is not of client {client}'s iteration"
            )));
        }
        let Some(consumer) = consumer else {
            return Err(Error::invalid(format!(
                "client {client} is not a consumer of a coordinated read, and has no rounds"
            )));
        };
        if row.start_round.is_some() || row.ready.contains_key(&consumer) {
            return Ok(());
        }
        if let Some(row) = self.tables.tasks.get_mut(&task) {
            row.ready.insert(consumer, earliest);
        }
        self.review_pending(task);
        Ok(())
    }

    /// Sets the first round of a late task once every consumer has named its own first possible round. The
    /// latest of these rounds is chosen, because no consumer has begun it.
    fn review_pending(&mut self, id: TaskId) {
        let Some(task) = self.tables.tasks.get(&id) else {
            return;
        };
        let iteration = task.iteration;
        let answers = u32::try_from(task.ready.len()).ok();
        let latest = task.ready.values().max().copied();
        let (Some(start_round), true) = (latest, self.tables.consumers_of(iteration) == answers) else {
            return;
        };
        if let Some(task) = self.tables.tasks.get_mut(&id) {
            task.start_round = Some(start_round);
            task.ready.clear();
        }
        let push = ClientPush::TaskScheduled {
            task: id,
            start_round,
        };
        self.push_clients(iteration, &push);
    }

    /// Ends a late task whose worker is gone before its first round was known. No consumer has handed over
    /// elements of the task, so its splits become free (C9.6).
    pub(super) fn drop_pending(&mut self, task: &TaskRecord, mut holding: Holding) {
        self.tables.books.free(task.iteration, &holding.take_all());
        self.push_clients(task.iteration, &ClientPush::TaskEnded { task: task.id });
        self.review_iteration(task.iteration);
    }

    /// Concludes the removal of a task after every client has acknowledged it: the number of groups to hand
    /// over is final. The removal is remembered until every consumer has confirmed the verdict (C9.5).
    pub(super) fn conclude(&mut self, mut removal: RemovalRecord) {
        if removal.untold.is_empty() {
            return;
        }
        if !removal.concluded {
            removal.concluded = true;
            for client in &removal.untold {
                self.push_client(*client, ClientPush::TaskConcluded(removal.verdict()));
            }
        }
        self.tables.removals.insert(removal, self.now);
    }

    pub(super) fn verdict_heard(
        &mut self,
        session: SessionId,
        client: ClientId,
        task: TaskId,
    ) -> Result<(), Error> {
        self.tables.clients.owned_by(session, client)?;
        let removal = self.tables.removals.get(&task);
        if removal.is_some_and(|removal| removal.concluded && removal.untold.contains(&client)) {
            if let Some(removal) = self.tables.removals.get_mut(&task) {
                removal.untold.remove(&client);
            }
            self.review_removal(task);
        }
        Ok(())
    }

    /// Returns the consumers of an iteration that have not joined, are gone, or are silent. A consumer that
    /// has not joined is not missing while the process of its previous epoch is heard (C9.8). An iteration
    /// that is not coordinated has none.
    pub(super) fn missing_consumers(&self, iteration: IterationId) -> Vec<u32> {
        let count = self.tables.consumers_of(iteration).unwrap_or(0);
        let there = self.consumers_heard(iteration);
        (0..count).filter(|consumer| !there.contains(consumer)).collect()
    }

    /// Returns whether consumers of a coordinated read are missing. The running time depends on the number
    /// of clients, not on the number of consumers.
    fn is_incomplete(&self, iteration: IterationId) -> bool {
        let there = || u32::try_from(self.consumers_heard(iteration).len()).unwrap_or(u32::MAX);
        self.tables
            .consumers_of(iteration)
            .is_some_and(|count| there() < count)
    }

    fn consumers_heard(&self, iteration: IterationId) -> BTreeSet<u32> {
        let clients = &self.tables.clients;
        let heard = clients
            .rows_of(iteration)
            .filter(|row| clients.is_heard(&row.id, self.now, self.config.liveness));
        let mut there: BTreeSet<u32> = heard.filter_map(|row| row.consumer).collect();
        if let Some(row) = self.tables.iterations.get(&iteration) {
            let count = self.tables.consumers_of(iteration).unwrap_or(0);
            let absent = (0..count).filter(|consumer| !row.consumers.contains(consumer));
            there.extend(absent.filter(|consumer| self.is_between_epochs(row.job, *consumer)));
        }
        there
    }

    /// Returns whether the process that read the previous epoch as this consumer is heard. Such a trainer may
    /// evaluate or save between two epochs for as long as it likes.
    fn is_between_epochs(&self, job: JobId, consumer: u32) -> bool {
        let process = self.tables.iterations.process_of_consumer(job, consumer);
        let seen = process.and_then(|process| self.tables.sessions.seen.get(&process));
        seen.is_some_and(|seen| self.now.saturating_sub(seen) <= self.config.liveness)
    }

    /// Tells the consumers which other consumers have been missing for too long (C9.8).
    pub(super) fn tell_incomplete(&mut self) {
        for id in self.tables.iterations.running() {
            if !self.tables.clients.has_any_of(id) || !self.is_incomplete(id) {
                self.tables.iterations.incomplete.clear(&id);
                continue;
            }
            let (alarms, grace) = (
                &mut self.tables.iterations.incomplete,
                self.config.consumer_timeout,
            );
            if alarms.raise(id, self.now, grace) {
                let consumers = self.missing_consumers(id);
                self.push_clients(id, &ClientPush::ConsumersLost { consumers });
            }
        }
    }

    /// Tells a client that reattaches which consumers are missing, if the other clients were told.
    pub(super) fn tell_client_incomplete(&mut self, client: ClientId, iteration: IterationId) {
        if self.tables.iterations.incomplete.is_told(&iteration) {
            let consumers = self.missing_consumers(iteration);
            if consumers.is_empty() {
                return;
            }
            self.push_client(client, ClientPush::ConsumersLost { consumers });
        }
    }
}

impl Tables {
    /// Returns the number of consumers of an iteration, if it is a coordinated read.
    pub(super) fn consumers_of(&self, iteration: IterationId) -> Option<u32> {
        let row = self.iterations.get(&iteration)?;
        self.catalog.find_job(&row.job)?.parameters.num_consumers
    }

    pub(super) fn is_coordinated(&self, iteration: IterationId) -> bool {
        self.consumers_of(iteration).is_some()
    }

    /// Returns the first round of a task that is created while its iteration runs. `None` in a coordinated
    /// read, where the consumers determine the round (C9.4).
    pub(super) fn late_start(&self, iteration: IterationId) -> Option<u64> {
        (!self.is_coordinated(iteration)).then_some(0)
    }

    /// Returns whether no consumer needs to receive a task's failure from its worker any more. Every
    /// consumer of a coordinated read receives the failure, including consumers that join later, so that
    /// all consumers meet it in the same step (C9.7).
    pub(super) fn is_failure_heard(&self, task: &TaskRecord) -> bool {
        if !self.is_served(task) || !self.is_coordinated(task.iteration) {
            return true;
        }
        let mut readers = self.readers(task).into_iter();
        self.have_consumers_joined(task.iteration) && readers.all(|client| task.drained.contains(&client))
    }

    /// Returns whether every consumer of a coordinated read has joined. Returns true for other iterations.
    pub(super) fn have_consumers_joined(&self, iteration: IterationId) -> bool {
        let Some(count) = self.consumers_of(iteration) else {
            return true;
        };
        let row = self.iterations.get(&iteration);
        row.is_some_and(|row| row.consumers.len() as u64 == u64::from(count))
    }
}

impl RemovalRecord {
    /// Returns whether the removal belongs to a coordinated read. The removal of a coordinated read is
    /// remembered until all consumers know of the verdict.
    pub(super) fn is_coordinated(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Returns the verdict so far: the number of the task's groups that are handed over. The number is
    /// final once the removal is concluded.
    pub(super) fn verdict(&self) -> TaskConcluded {
        TaskConcluded {
            task: self.task,
            groups: self.released,
        }
    }
}
