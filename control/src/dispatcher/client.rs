//! Clients: the leases of readers on iterations, with the clients' snapshots and reports.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_link::{Claims, TicketKey};

use super::action::{ClientPush, Snapshot, TaskInfo, TaskRemoved};
use super::failure::TaskFailure;
use super::record::{IterationRecord, Phase, TaskPhase, TaskRecord};
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::id::{ClientId, SessionId, TaskId};
use crate::split::LeaseRange;

impl ServiceState {
    /// Sends a client its snapshot: everything that the client needs to continue (C4.1).
    pub(super) fn attach(&mut self, session: SessionId, client: ClientId) -> Result<(), Error> {
        let row = self.tables.clients.owned_by(session, client)?;
        let iteration = row.iteration;
        // A client whose part is finished is told that the iteration is finished (C14.2).
        let has_everything = row.reads_before.is_some();
        let mut snapshot = Snapshot::default();
        for task in self.tables.tasks.of(iteration) {
            if let Some(task) = self.tables.tasks.get(&task)
                && self.tables.is_served(task)
                && self.tables.reads(row, task.id, task.worker)
            {
                snapshot.tasks.extend(self.tables.task_info(client, task));
            }
        }
        for task in self.tables.removals.of(iteration) {
            let Some(removal) = self.tables.removals.get(&task) else {
                continue;
            };
            if removal.concluded && removal.untold.contains(&client) {
                snapshot.concluded.push(removal.verdict());
            }
            if removal.awaiting.contains(&client) {
                snapshot.removed.push(TaskRemoved {
                    task,
                    worker_address: removal.worker_address.clone(),
                    reason: removal.reason,
                    start_round: removal.start_round,
                });
            }
        }
        if let Some(row) = self.tables.iterations.get(&iteration) {
            // A client that joins a finished iteration is told so at once (C3.5).
            snapshot.finished = has_everything || matches!(row.phase, Phase::Finished | Phase::Collected);
            snapshot.lost.clone_from(&row.lost);
            snapshot.splits_lost = row.splits_lost;
            snapshot.failed = self.tables.failures_for(client, row);
        }
        self.tables.clients.seen.note(client, self.now);
        self.push_client(client, ClientPush::Snapshot(snapshot));
        if self.tables.clients.stranded.is_told(&client) {
            self.tell_workers_lost(client);
        }
        self.tell_client_incomplete(client, iteration);
        Ok(())
    }

    pub(super) fn release(&mut self, session: SessionId, client: ClientId) -> Result<(), Error> {
        self.tables.clients.owned_by(session, client)?;
        self.end_client(client);
        Ok(())
    }

    /// Ends a client that is gone. No process can report any more what the client has seen, so it counts as
    /// having seen a part of every held split (C6.2). The splits that its user was not done with are lost
    /// (C6.7).
    pub(super) fn end_client(&mut self, id: ClientId) {
        let Some(mut client) = self.tables.clients.remove(id) else {
            return;
        };
        let iteration = client.iteration;
        let phase = self.tables.iterations.phase_of(iteration);
        self.tables.note_readers(iteration, self.now);
        if self.give_up_abandoned(iteration) {
            return;
        }
        let in_hand = client.in_hand.take_all();
        self.tables.clients.clear_hands(iteration, &in_hand);
        self.abandon_splits(iteration, &in_hand, "");
        if phase != Some(Phase::Running) {
            return self.leave_private_tasks(&client);
        }
        if let Some(row) = self.tables.iterations.get_mut(&iteration) {
            row.was_read = true;
        }
        for task in self.tables.tasks.of(iteration) {
            let holding = self.tables.books.holding(task);
            let row = self.tables.tasks.get(&task);
            if holding.is_some_and(|holding| !holding.is_empty())
                && row.is_some_and(|row| self.tables.reads(&client, row.id, row.worker))
            {
                self.tables.books.mark_all_seen(task);
            }
        }
        for task in self.tables.removals.of(iteration) {
            if let Some(removal) = self.tables.removals.get_mut(&task)
                && removal.readers.contains(&id)
            {
                removal.awaiting.remove(&id);
                removal.untold.remove(&id);
                removal.holding.mark_all_seen();
                self.review_removal(task);
            }
        }
        self.leave_private_tasks(&client);
        self.release_from_workers(&client);
        for task in self.tables.tasks.of(iteration) {
            self.review_task(task);
        }
    }

    pub(super) fn task_drained(
        &mut self,
        session: SessionId,
        client: ClientId,
        task: TaskId,
    ) -> Result<(), Error> {
        let iteration = self.tables.clients.owned_by(session, client)?.iteration;
        let Some(row) = self.tables.tasks.get_mut(&task) else {
            return Ok(());
        };
        if row.iteration != iteration {
            return Err(Error::invalid(format!(
                "task {task} is not of client {client}'s iteration"
            )));
        }
        if row.phase != TaskPhase::Settled {
            row.drained.insert(client);
        }
        // This client may have a part of the splits that the task holds, and it will not be asked again
        // (C6.1).
        let row = self.tables.tasks.get(&task);
        let shared = row.is_some_and(|row| self.tables.readers(row).len() > 1);
        if shared {
            self.tables.books.mark_all_seen(task);
        }
        self.review_task(task);
        Ok(())
    }
}

impl Tables {
    /// Handles a client's report that its user is done with these splits (C5.6).
    pub(super) fn splits_done(
        &mut self,
        session: SessionId,
        client: ClientId,
        task: TaskId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        let iteration = self.clients.owned_by(session, client)?.iteration;
        self.check_of_iteration(client, iteration, task)?;
        if let Some(removal) = self.removals.get_mut(&task).filter(|row| row.is_coordinated()) {
            // In a coordinated read, another consumer may hand over fewer groups (C6.4, C9.5).
            leases.iter().for_each(|range| removal.holding.mark_seen(*range));
            return Ok(());
        }
        let mut done = self.take_held(task, leases);
        done.extend(self.clients.take_in_hand(client, leases));
        if !self.books.done(iteration, &done)
            && let Some(row) = self.iterations.get_mut(&iteration)
        {
            // The iteration is over, but this user was not done with all of its splits until now.
            row.splits_done += done.iter().map(|run| run.count).sum::<u64>();
        }
        Ok(())
    }

    /// Returns the failures of an iteration that concern a client: the failures of the tasks that the
    /// client reads.
    fn failures_for(&self, client: ClientId, row: &IterationRecord) -> Vec<TaskFailure> {
        let client = self.clients.get(&client);
        let is_read = |failure: &&TaskFailure| {
            client
                .zip(failure.worker)
                .is_none_or(|(client, worker)| self.reads(client, failure.task, worker))
        };
        row.failures.iter().filter(is_read).cloned().collect()
    }

    /// Returns the facts of a task for a client, with the client's ticket.
    pub(super) fn task_info(&self, client: ClientId, task: &TaskRecord) -> Option<TaskInfo> {
        let worker = self.workers.get(&task.worker)?;
        let reader = self.clients.get(&client)?;
        let consumer = reader.consumer;
        let is_near = reader.whereabouts.is_same_host(&worker.whereabouts);
        let key = TicketKey::from_bytes(*worker.ticket_key.0);
        let ticket = key.mint(&Claims {
            client: client.0,
            task: task.id.0,
            consumer,
        });
        Some(TaskInfo {
            task: task.id,
            worker_address: worker.address.clone(),
            worker: worker.id,
            worker_tags: worker.tags.clone(),
            ticket: ticket.as_bytes().to_vec(),
            start_round: task.start_round,
            whereabouts: worker.whereabouts,
            // Only readers on the worker's host are told its local socket (C14.6).
            local_socket: worker.local_socket.clone().filter(|_| is_near),
        })
    }
}
