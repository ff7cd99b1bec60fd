//! Splits that readers have in hand, and what becomes of them when a reader is gone (C5.8, C6.7, C6.8).
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
    /// C5.8: loses the splits that a client has in hand with others and of which it will not hear the end, of
    /// these leases.
    pub(super) fn lose_shared(&mut self, iteration: IterationId, client: ClientId, leases: &[LeaseRange]) {
        let clients = &mut self.tables.clients;
        let own = clients.in_hand(client, leases);
        let own: Vec<LeaseRange> = own.iter().map(Run::leases).collect();
        let lost = clients.in_hand_of_others(iteration, client, &own).take_all();
        clients.clear_hands(iteration, &lost);
        self.lose_splits(iteration, &lost, "");
    }

    /// C6.7: a worker says which splits a client that is gone had elements of.
    pub(super) fn splits_missed(
        &mut self,
        session: SessionId,
        task: TaskId,
        client: ClientId,
        (leases, is_released): (&[LeaseRange], bool),
    ) -> Result<(), Error> {
        self.tables.workers.living_of(session)?;
        if !self.tables.tasks.contains(&task) {
            // It ended with its iteration.
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
        self.lose_splits(iteration, &lost, &address);
        if is_released && let Some(row) = self.tables.tasks.get_mut(&task) {
            row.releasing.remove(&client);
        }
        let phase = self.tables.tasks.get(&task).map(|row| &row.phase);
        if phase == Some(&TaskPhase::Finished) {
            self.review_task(task);
        }
        Ok(())
    }

    /// C6.7: workers serve a client that is gone no more, and say what it took with it. Its tasks are not
    /// over before.
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

    /// Tells a worker of the clients that are gone, as far as it has not answered.
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

    /// C6.8: ends the silent clients that other clients wait for.
    pub(super) fn end_suspects(&mut self) {
        for client in self.tables.clients.seen.overdue(self.now, self.config.liveness) {
            let row = self.tables.clients.get(&client);
            if row.is_some_and(|row| self.holds_others_up(row)) {
                self.lapse_client(client);
            }
        }
    }

    /// Returns whether others wait for a client: its tasks have produced everything, it may not have all of
    /// it, and another client is there.
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
    /// C5.8: a client answers for these splits, of which everything has arrived, until its user is done with
    /// them.
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

    /// C5.8: a worker says that a client has elements of these splits in hand, as others have. It tells the
    /// clients of their ends afterwards.
    pub(super) fn splits_shared(
        &mut self,
        session: SessionId,
        task: TaskId,
        client: ClientId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        self.workers.living_of(session)?;
        if !self.tasks.contains(&task) {
            // It ended with its iteration.
            return Ok(());
        }
        let iteration = self.own_task(session, task)?.iteration;
        let row = self.clients.get(&client);
        if row.is_none_or(|row| row.iteration != iteration) {
            // It is gone, and its worker says what it took with it (C6.7).
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

    /// Takes these leases out of what a task holds, or held when it was removed.
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

    /// Says so if a client reports on a task of another iteration. A task that is gone altogether was told
    /// of, or is over.
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

    /// Returns whether a worker may have sent elements of this task to a client that has not received its
    /// end.
    fn serves(&self, task: &TaskRecord, client: &ClientRecord) -> bool {
        let may_send = match task.phase {
            TaskPhase::Running | TaskPhase::Finished => true,
            TaskPhase::Failed(_) | TaskPhase::Settled => false,
        };
        may_send && !task.drained.contains(&client.id) && self.reads(client, task.id, task.worker)
    }
}
