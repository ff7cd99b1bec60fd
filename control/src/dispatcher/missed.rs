//! The splits that readers hold, and the loss of such splits when a reader is gone (C5.8, C6.7, C6.8).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::WorkerPush;
use super::record::{ClientRecord, TaskPhase, TaskRecord};
use super::splits::Run;
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::id::{ClientId, IterationId, SessionId, TaskId, WorkerId};
use crate::split::LeaseRange;

impl ServiceState {
    /// Declares shared splits of these leases lost, because the client that holds them together with other
    /// clients will not receive their end (C5.8).
    pub(super) fn lose_shared(&mut self, iteration: IterationId, client: ClientId, leases: &[LeaseRange]) {
        let clients = &mut self.tables.clients;
        let own = clients.in_hand(client, leases);
        let own: Vec<LeaseRange> = own.iter().map(Run::leases).collect();
        let lost = clients.in_hand_of_others(iteration, client, &own).take_all();
        clients.clear_hands(iteration, &lost);
        self.abandon_splits(iteration, &lost, "");
    }

    /// Handles a worker's report of the splits of which a released client held elements (C6.7).
    pub(super) fn splits_missed(
        &mut self,
        session: SessionId,
        task: TaskId,
        client: ClientId,
        (leases, is_released): (&[LeaseRange], bool),
    ) -> Result<(), Error> {
        self.tables.workers.living_of(session)?;
        if !self.tables.tasks.contains(&task) {
            // The task ended with its iteration.
            return Ok(());
        }
        let row = self.tables.own_task(session, task)?;
        let (iteration, worker) = (row.iteration, row.worker);
        let mut lost = self.tables.take_held(task, leases);
        let shared = self
            .tables
            .clients
            .in_hand_of_others(iteration, client, leases)
            .take_all();
        self.tables.clients.clear_hands(iteration, &shared);
        lost.extend(shared);
        let address = self.tables.workers.address_of(worker);
        self.abandon_splits(iteration, &lost, &address);
        if is_released && let Some(row) = self.tables.tasks.get_mut(&task) {
            row.releasing.remove(&client);
        }
        let phase = self.tables.tasks.get(&task).map(|row| &row.phase);
        if phase == Some(&TaskPhase::Finished) {
            self.review_task(task);
        } else if self.tables.is_exactly_once(iteration) {
            // The missed splits are free, and another task may have to be started for them (C16.4).
            self.review_iteration(iteration);
        }
        Ok(())
    }

    /// Asks the workers to stop serving a released client and to report the splits that the client held.
    /// The client's tasks do not settle before the workers have answered (C6.7).
    pub(super) fn release_from_workers(&mut self, client: &ClientRecord) {
        let iteration = client.iteration;
        if self.tables.is_coordinated(iteration) {
            return;
        }
        let mut workers: Vec<WorkerId> = Vec::new();
        for id in self.tables.tasks.of(iteration) {
            let Some(task) = self
                .tables
                .tasks
                .get(&id)
                .filter(|task| self.tables.serves(task, client))
            else {
                continue;
            };
            let worker = task.worker;
            if let Some(task) = self.tables.tasks.get_mut(&id) {
                task.releasing.insert(client.id);
            }
            workers.push(worker);
        }
        workers.sort_unstable();
        workers.dedup();
        for worker in workers {
            self.ask_for_missed(worker);
        }
    }

    /// Sends a worker its releases of clients that it has not answered yet.
    pub(super) fn ask_for_missed(&mut self, worker: WorkerId) {
        let mut releases: std::collections::BTreeMap<ClientId, Vec<TaskId>> =
            std::collections::BTreeMap::new();
        for id in self.tables.tasks.on(worker) {
            let releasing = self
                .tables
                .tasks
                .get(&id)
                .into_iter()
                .flat_map(|task| &task.releasing);
            for client in releasing {
                releases.entry(*client).or_default().push(id);
            }
        }
        for (client, tasks) in releases {
            self.push_worker(worker, WorkerPush::Release { client, tasks });
        }
    }

    /// Ends the silent clients that keep other clients waiting (C6.8).
    pub(super) fn end_suspects(&mut self) {
        for client in self.tables.clients.seen.overdue(self.now, self.config.liveness) {
            let row = self.tables.clients.get(&client);
            if row.is_some_and(|row| self.holds_others_up(row)) {
                self.lapse_client(client);
            }
        }
    }

    /// Returns whether a client keeps other clients waiting: its tasks have produced everything, the client
    /// may not have received everything, and another client is not silent.
    fn holds_others_up(&self, client: &ClientRecord) -> bool {
        let iteration = client.iteration;
        if !self.tables.iterations.is_running(iteration) || self.tables.is_coordinated(iteration) {
            return false;
        }
        let clients = &self.tables.clients;
        let mut others = clients.rows_of(iteration);
        if !others.any(|other| clients.is_heard(&other.id, self.now, self.config.liveness)) {
            return false;
        }
        let tasks = self.tables.tasks.rows_of(iteration);
        let mut own = tasks
            .filter(|task| self.tables.reads(client, task.id, task.worker))
            .peekable();
        let mut removals = self.tables.removals.rows_of(iteration);
        let is_awaited = removals.any(|removal| removal.awaiting.contains(&client.id));
        let mut is_due = is_awaited;
        let is_produced = own.all(|task| {
            is_due |= task.phase == TaskPhase::Finished && !task.drained.contains(&client.id);
            task.phase != TaskPhase::Running
        });
        is_produced && is_due
    }
}

impl Tables {
    /// Makes a client responsible for splits that it has received completely, until its user is done with
    /// them (C5.8).
    pub(super) fn keep(
        &mut self,
        session: SessionId,
        client: ClientId,
        task: TaskId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        let iteration = self.clients.owned_by(session, client)?.iteration;
        self.check_of_iteration(client, iteration, task)?;
        let runs = self.take_held(task, leases);
        self.clients.give(client, runs);
        Ok(())
    }

    /// Handles a worker's report that a client holds elements of these splits together with other clients.
    /// The worker tells the clients of the splits' ends only after this report (C5.8).
    pub(super) fn splits_shared(
        &mut self,
        session: SessionId,
        task: TaskId,
        client: ClientId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        self.workers.living_of(session)?;
        if !self.tasks.contains(&task) {
            // The task ended with its iteration.
            return Ok(());
        }
        let iteration = self.own_task(session, task)?.iteration;
        let row = self.clients.get(&client);
        if row.is_none_or(|row| row.iteration != iteration) {
            // The client is gone. The task's worker reports the splits that the client held (C6.7).
            return Ok(());
        }
        let mut runs = self.take_held(task, leases);
        runs.extend(
            self.clients
                .in_hand_of_others(iteration, client, leases)
                .take_all(),
        );
        self.clients.share(client, runs);
        Ok(())
    }

    /// Takes these leases out of the leases that a task holds, or held when it was removed.
    pub(super) fn take_held(&mut self, task: TaskId, leases: &[LeaseRange]) -> Vec<Run> {
        if let Some(runs) = self.books.take_held(task, leases) {
            return runs;
        }
        let Some(removal) = self.removals.get_mut(&task) else {
            return Vec::new();
        };
        let leases = leases.iter();
        leases.flat_map(|range| removal.holding.take(*range)).collect()
    }

    /// Checks that a client reports on a task of its own iteration. A report on a task that no longer
    /// exists is accepted: the client was told of its removal, or its iteration is over.
    pub(super) fn check_of_iteration(
        &self,
        client: ClientId,
        iteration: IterationId,
        task: TaskId,
    ) -> Result<(), Error> {
        let of_task = self.tasks.get(&task).map(|task| task.iteration);
        let of_removal = self.removals.get(&task).map(|removal| removal.iteration);
        match of_task.or(of_removal) {
            Some(found) if found != iteration => Err(Error::invalid(format!(
                "task {task} is not of client {client}'s iteration"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns whether a worker may have sent elements of this task to a client that has not received the
    /// task's end.
    fn serves(&self, task: &TaskRecord, client: &ClientRecord) -> bool {
        let may_send = match task.phase {
            TaskPhase::Running | TaskPhase::Finished => true,
            TaskPhase::Failed(_) | TaskPhase::Settled => false,
        };
        may_send && !task.drained.contains(&client.id) && self.reads(client, task.id, task.worker)
    }
}
