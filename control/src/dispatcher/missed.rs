//! Splits that readers have in hand, and what becomes of them when a reader is gone (C5.8, C6.7, C6.8).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::WorkerPush;
use super::machine::Dispatcher;
use super::record::{ClientRecord, TaskPhase, TaskRecord};
use super::splits::{Holding, Run};
use super::sweep::overdue;
use crate::error::Error;
use crate::id::{ClientId, IterationId, SessionId, TaskId, WorkerId};
use crate::split::LeaseRange;

impl Dispatcher {
    /// C5.8: a client answers for these splits, of which everything has arrived, until its user is done with them.
    pub(super) fn keep(
        &mut self,
        session: SessionId,
        client: ClientId,
        task: TaskId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        let iteration = self.client(session, client)?.iteration;
        self.check_of_iteration(client, iteration, task)?;
        let runs = self.take_held(task, leases);
        if let Some(row) = self.tables.clients.get_mut(&client) {
            runs.into_iter().for_each(|run| row.in_hand.insert(run));
        }
        Ok(())
    }

    /// C5.8: a worker says that a client has elements of these splits in hand, as others have. It tells the clients of their ends
    /// afterwards.
    pub(super) fn splits_shared(
        &mut self,
        session: SessionId,
        task: TaskId,
        client: ClientId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        self.living_worker(session)?;
        if !self.tables.tasks.contains(&task) {
            // It ended with its iteration.
            return Ok(());
        }
        let iteration = self.own_task(session, task)?.iteration;
        let row = self.tables.clients.get(&client);
        if row.is_none_or(|row| row.iteration != iteration) {
            // It is gone, and its worker says what it took with it (C6.7).
            return Ok(());
        }
        let mut runs = self.take_held(task, leases);
        runs.extend(self.in_hand_of_others(iteration, client, leases).take_all());
        if let Some(row) = self.tables.clients.get_mut(&client) {
            runs.into_iter().for_each(|run| row.in_hand.put(run));
        }
        Ok(())
    }

    /// Returns what other clients of an iteration than this one have in hand of these leases.
    fn in_hand_of_others(&self, iteration: IterationId, client: ClientId, leases: &[LeaseRange]) -> Holding {
        let mut found = Holding::default();
        let others = self.tables.clients_of(iteration).into_iter();
        let others = others.filter(|other| *other != client);
        for row in others.filter_map(|other| self.tables.clients.get(&other)) {
            for run in leases.iter().flat_map(|range| row.in_hand.within(*range)) {
                found.put(run);
            }
        }
        found
    }

    /// C5.8: takes these leases out of what a client has in hand. Returns those that no other client has in hand.
    pub(super) fn take_in_hand(&mut self, client: ClientId, leases: &[LeaseRange]) -> Vec<Run> {
        let mut taken = Holding::default();
        let Some(row) = self.tables.clients.get_mut(&client) else {
            return Vec::new();
        };
        let iteration = row.iteration;
        for run in leases.iter().flat_map(|range| row.in_hand.take(*range)) {
            taken.insert(run);
        }
        let of_taken: Vec<LeaseRange> = taken.runs().iter().map(Run::leases).collect();
        for run in self.in_hand_of_others(iteration, client, &of_taken).runs() {
            taken.take(run.leases());
        }
        taken.take_all()
    }

    /// Takes these leases out of what all clients of an iteration have in hand.
    pub(super) fn clear_hands(&mut self, iteration: IterationId, runs: &[Run]) {
        for client in self.tables.clients_of(iteration) {
            let row = self.tables.clients.get(&client);
            let has_any = |run: &&Run| row.is_some_and(|row| !row.in_hand.within(run.leases()).is_empty());
            let own: Vec<&Run> = runs.iter().filter(has_any).collect();
            if own.is_empty() {
                continue;
            }
            if let Some(row) = self.tables.clients.get_mut(&client) {
                own.into_iter().for_each(|run| {
                    row.in_hand.take(run.leases());
                });
            }
        }
    }

    /// C5.8: loses the splits that a client has in hand with others and of which it will not hear the end, of these leases.
    pub(super) fn lose_shared(&mut self, iteration: IterationId, client: ClientId, leases: &[LeaseRange]) {
        let own = self.tables.clients.get(&client).into_iter();
        let own: Vec<LeaseRange> = own
            .flat_map(|row| leases.iter().flat_map(|range| row.in_hand.within(*range)))
            .map(|run| run.leases())
            .collect();
        let lost = self.in_hand_of_others(iteration, client, &own).take_all();
        self.clear_hands(iteration, &lost);
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
        self.living_worker(session)?;
        if !self.tables.tasks.contains(&task) {
            // It ended with its iteration.
            return Ok(());
        }
        let row = self.own_task(session, task)?;
        let (iteration, worker) = (row.iteration, row.worker);
        let mut lost = self.take_held(task, leases);
        let shared = self.in_hand_of_others(iteration, client, leases).take_all();
        self.clear_hands(iteration, &shared);
        lost.extend(shared);
        let address = self.address_of(worker);
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

    /// Takes these leases out of what a task holds, or held when it was removed.
    pub(super) fn take_held(&mut self, task: TaskId, leases: &[LeaseRange]) -> Vec<Run> {
        let of_task = self.tables.holdings.get_mut(&task);
        let of_removal = self.tables.removals.get_mut(&task);
        let holding = of_task.or_else(|| of_removal.map(|removal| &mut removal.holding));
        let taken = holding.map(|holding| leases.iter().flat_map(|range| holding.take(*range)).collect());
        taken.unwrap_or_default()
    }

    /// Says so if a client reports on a task of another iteration. A task that is gone altogether was told of, or is over.
    pub(super) fn check_of_iteration(
        &self,
        client: ClientId,
        iteration: IterationId,
        task: TaskId,
    ) -> Result<(), Error> {
        let of_task = self.tables.tasks.get(&task).map(|task| task.iteration);
        let of_removal = self.tables.removals.get(&task).map(|removal| removal.iteration);
        match of_task.or(of_removal) {
            Some(found) if found != iteration => Err(Error::invalid(format!(
                "task {task} is not of client {client}'s iteration"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// C6.7: workers serve a client that is gone no more, and say what it took with it. Its tasks are not over before.
    pub(super) fn release_from_workers(&mut self, client: &ClientRecord) {
        let iteration = client.iteration;
        if self.is_coordinated(iteration) {
            return;
        }
        let mut workers: Vec<WorkerId> = Vec::new();
        for id in self.tables.tasks_of(iteration) {
            let Some(task) = self
                .tables
                .tasks
                .get(&id)
                .filter(|task| self.serves(task, client))
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

    /// Whether a worker may have sent elements of this task to a client that has not received its end.
    fn serves(&self, task: &TaskRecord, client: &ClientRecord) -> bool {
        let may_send = match task.phase {
            TaskPhase::Running | TaskPhase::Finished => true,
            TaskPhase::Failed(_) | TaskPhase::Settled => false,
        };
        may_send && !task.drained.contains(&client.id) && self.reads(client, task.id, task.worker)
    }

    /// Tells a worker of the clients that are gone, as far as it has not answered.
    pub(super) fn ask_for_missed(&mut self, worker: WorkerId) {
        let mut releases: std::collections::BTreeMap<ClientId, Vec<TaskId>> =
            std::collections::BTreeMap::new();
        for id in self.tables.tasks_on(worker) {
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
        for client in overdue(&self.clocks.client_seen, self.now, self.config.liveness) {
            let row = self.tables.clients.get(&client);
            if row.is_some_and(|row| self.holds_others_up(row)) {
                self.lapse_client(client);
            }
        }
    }

    /// Whether everything was produced that a client reads, it is not known to have all of it, and another client is there.
    fn holds_others_up(&self, client: &ClientRecord) -> bool {
        let iteration = client.iteration;
        if !self.tables.index.running.contains(&iteration) || self.is_coordinated(iteration) {
            return false;
        }
        let is_alive = |other: &ClientId| {
            let seen = self.clocks.client_seen.get(other);
            seen.is_some_and(|seen| self.now.saturating_sub(*seen) <= self.config.liveness)
        };
        if !self.tables.clients_of(iteration).iter().any(is_alive) {
            return false;
        }
        let tasks = self.tables.tasks_of(iteration);
        let tasks = tasks.iter().filter_map(|task| self.tables.tasks.get(task));
        let mut own = tasks
            .filter(|task| self.reads(client, task.id, task.worker))
            .peekable();
        let removals = self.tables.removals_of(iteration);
        let mut removals = removals.iter().filter_map(|task| self.tables.removals.get(task));
        let is_awaited = removals.any(|removal| removal.awaiting.contains(&client.id));
        let mut is_due = is_awaited;
        let is_produced = own.all(|task| {
            is_due |= task.phase == TaskPhase::Finished && !task.drained.contains(&client.id);
            task.phase != TaskPhase::Running
        });
        is_produced && is_due
    }
}
