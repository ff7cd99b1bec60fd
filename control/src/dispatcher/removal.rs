//! Removals: a task is gone, and what it held is sorted into delivered, lost, and to be read again.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use super::action::{ClientPush, TaskRemoved};
use super::failure::RemovalReason;
use super::record::{RemovalRecord, TaskPhase};
use super::splits::Run;
use super::state::ServiceState;
use crate::error::Error;
use crate::id::{ClientId, SessionId, TaskId};
use crate::split::Seen;

impl ServiceState {
    /// C6.1: takes a task away from a worker that is gone, and asks its readers what they have of it.
    pub(super) fn remove_task(&mut self, id: TaskId, reason: RemovalReason) {
        let Some(task) = self.tables.tasks.remove(id) else {
            return;
        };
        let mut holding = self.tables.books.end_task(id).unwrap_or_default();
        if !task.releasing.is_empty() {
            // C6.7: nobody says any more what the worker sent to them in the meantime.
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
        // Who has received its end has nothing to say of it, if its worker gave back what it had not begun
        // before it went.
        let is_told = |client: &ClientId| task.phase != TaskPhase::Running && task.drained.contains(client);
        let awaiting = readers.iter().copied();
        let awaiting: BTreeSet<ClientId> = awaiting.filter(|client| !is_told(client)).collect();
        let untold = if self.tables.is_coordinated(iteration) {
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
        };
        self.tables.removals.insert(removal, self.now);
        for client in readers {
            self.push_client(client, push.clone());
        }
        self.review_removal(id);
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
            // Sorted out already.
            return Ok(());
        }
        self.tables.splits_done(session, client, task, &seen.complete)?;
        self.lose_shared(iteration, client, &seen.partial);
        if let Some(removal) = self.tables.removals.get_mut(&task) {
            for range in &seen.partial {
                removal.holding.mark_seen(*range);
            }
            // C9.5: as often as it says so, it has handed over no more than this.
            removal.released = removal.released.max(seen.released);
            removal.awaiting.remove(&client);
        }
        self.review_removal(task);
        Ok(())
    }

    /// C6.3: who has not answered in time counts as having seen everything.
    pub(super) fn expire_removal(&mut self, task: TaskId) {
        if let Some(removal) = self.tables.removals.get_mut(&task) {
            removal.awaiting.clear();
            removal.holding.mark_all_seen();
        }
        self.review_removal(task);
    }

    /// Once everybody has answered: what nobody saw is read again, what somebody saw a part of is lost
    /// (C6.4).
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
        let (seen, unseen): (Vec<Run>, Vec<Run>) =
            removal.holding.take_all().into_iter().partition(|run| run.seen);
        let iteration = removal.iteration;
        self.tables.books.free(iteration, &unseen);
        self.lose_splits(iteration, &seen, &removal.worker_address);
        self.conclude(removal);
        self.review_iteration(iteration);
    }

    /// C4.3: ends a reader that never came back.
    pub(super) fn lapse_client(&mut self, client: ClientId) {
        self.push_client(client, ClientPush::Lapsed);
        self.end_client(client);
    }
}
