//! Removals: when a task is gone, its held splits are sorted into delivered, lost and free splits.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use super::action::{ClientPush, TaskRemoved};
use super::failure::{Blame, RemovalReason};
use super::happened::ServiceEventKind;
use super::record::{RemovalRecord, TaskPhase, TaskRecord};
use super::splits::Run;
use super::state::ServiceState;
use crate::error::Error;
use crate::id::{ClientId, SessionId, TaskId};
use crate::split::Seen;

impl ServiceState {
    /// Removes a task of a worker that is gone, and asks the task's readers which splits they have seen
    /// (C6.1).
    pub(super) fn remove_task(&mut self, id: TaskId, reason: RemovalReason, blame: Blame) {
        let Some(task) = self.tables.tasks.remove(id) else {
            return;
        };
        let mut holding = self.tables.books.end_task(id).unwrap_or_default();
        if !task.releasing.is_empty() {
            // No process can report any more which elements the worker sent to the released clients (C6.7).
            holding.mark_all_seen();
        }
        let worker_address = self.tables.workers.address_of(task.worker);
        let iteration = task.iteration;
        self.tables
            .iterations
            .note_lost_worker(iteration, &worker_address);
        let Some(start_round) = task.start_round else {
            return self.drop_pending(&task, holding);
        };
        let readers = self.tables.readers(&task);
        let shared = readers.len() > 1;
        let is_coordinated = self.tables.is_coordinated(iteration);
        // A client that has received the task's end need not acknowledge, provided that the worker gave
        // back the splits that it had not begun. A consumer tells the others the number of groups (C9.5).
        let is_told = |client: &ClientId| {
            !is_coordinated && task.phase != TaskPhase::Running && task.drained.contains(client)
        };
        let awaiting = readers.iter().copied();
        let awaiting: BTreeSet<ClientId> = awaiting.filter(|client| !is_told(client)).collect();
        let untold = if is_coordinated {
            awaiting.clone()
        } else {
            BTreeSet::new()
        };
        let push = ClientPush::TaskRemoved(TaskRemoved {
            task: id,
            worker_address: worker_address.clone(),
            reason,
            start_round,
        });
        let mut ended = BTreeSet::new();
        if is_coordinated && task.phase == TaskPhase::Finished {
            ended.extend(readers.iter().filter(|client| task.drained.contains(client)));
        }
        if !ended.is_empty() {
            self.keep_as_settled(&task);
        }
        let removal = RemovalRecord {
            task: id,
            iteration,
            worker_address,
            reason,
            awaiting,
            holding,
            shared,
            released: 0,
            untold,
            concluded: false,
            start_round,
            readers: readers.iter().copied().collect(),
            blame,
            ended,
        };
        self.tables.removals.insert(removal, self.now);
        for client in readers {
            self.push_client(client, push.clone());
        }
        self.review_removal(id);
    }

    /// Keeps a removed task of which a consumer has the end. All its groups are delivered, and its iteration
    /// needs no other task for them (C9.5).
    fn keep_as_settled(&mut self, task: &TaskRecord) {
        let settled = TaskRecord {
            phase: TaskPhase::Settled,
            drained: BTreeSet::new(),
            releasing: BTreeSet::new(),
            ..task.clone()
        };
        self.tables.tasks.insert(settled);
    }

    pub(super) fn acknowledge(
        &mut self,
        session: SessionId,
        client: ClientId,
        task: TaskId,
        seen: &Seen,
    ) -> Result<(), Error> {
        let iteration = self.tables.clients.owned_by(session, client)?.iteration;
        if self
            .tables
            .removals
            .get(&task)
            .is_none_or(|removal| removal.iteration != iteration)
        {
            // The removal is completed already.
            return Ok(());
        }
        self.tables.splits_done(session, client, task, &seen.complete)?;
        self.lose_shared(iteration, client, &seen.partial);
        if let Some(removal) = self.tables.removals.get_mut(&task) {
            for range in &seen.partial {
                removal.holding.mark_seen(*range);
            }
            // A consumer that repeats its acknowledgement has not handed over more groups than it reports
            // here (C9.5).
            removal.released = removal.released.max(seen.released);
            removal.awaiting.remove(&client);
            if removal.ended.contains(&client) {
                let held = removal.holding.take_all();
                self.tables.books.done(iteration, &held);
            }
        }
        self.review_removal(task);
        Ok(())
    }

    /// Completes a removal that was not acknowledged in time: the silent clients count as having seen a
    /// part of every split (C6.3).
    pub(super) fn expire_removal(&mut self, task: TaskId) {
        if let Some(removal) = self.tables.removals.get_mut(&task) {
            removal.awaiting.clear();
            removal.holding.mark_all_seen();
        }
        self.review_removal(task);
    }

    /// Completes a removal once every client has acknowledged it. Splits that no client saw become free,
    /// and splits that a client saw in part are lost (C6.4), except in exactly-once jobs (C16.4).
    pub(super) fn review_removal(&mut self, task: TaskId) {
        if self
            .tables
            .removals
            .get(&task)
            .is_none_or(|removal| !removal.awaiting.is_empty())
        {
            return;
        }
        let Some(mut removal) = self.tables.removals.remove(task) else {
            return;
        };
        let held = removal.holding.take_all();
        let iteration = removal.iteration;
        if self.tables.is_exactly_once(iteration) {
            self.free_held(&removal, &held);
        } else {
            let (seen, unseen): (Vec<Run>, Vec<Run>) = held.into_iter().partition(|run| run.seen);
            self.tables.books.free(iteration, &unseen);
            self.lose_splits(iteration, &seen, &removal.worker_address);
        }
        self.conclude(removal);
        self.review_iteration(iteration);
    }

    /// Ends a client that was silent for too long (C4.3).
    pub(super) fn lapse_client(&mut self, client: ClientId) {
        if let Some(iteration) = self.tables.clients.get(&client).map(|row| row.iteration) {
            let text = format!("has lost trainer {client}, which was given up because it sent no heartbeat.");
            self.tell_of_epoch(ServiceEventKind::TrainerGivenUp, iteration, &text);
        }
        self.push_client(client, ClientPush::Lapsed);
        self.end_client(client);
    }
}
