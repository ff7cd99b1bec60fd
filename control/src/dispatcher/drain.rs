//! Workers that announce that they leave: they are given nothing more, and what they have is brought to its
//! end or to others.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::{StopReason, WorkerPush};
use super::failure::RemovalReason;
use super::record::TaskPhase;
use super::state::ServiceState;
use crate::error::Error;
use crate::id::{SessionId, TaskId};

impl ServiceState {
    /// C10.1: the worker takes no more tasks; it leaves once those that it has are over.
    pub(super) fn drain_worker(&mut self, session: SessionId) -> Result<(), Error> {
        let id = self.tables.workers.living_of(session)?;
        if self.tables.workers.is_draining(id) {
            return Ok(());
        }
        self.tables.workers.drain(id);
        for task in self.tables.tasks.on(id) {
            self.hand_over(task);
        }
        Ok(())
    }

    /// Takes from a worker that is being drained what it need not bring to its end. True if the task is gone.
    pub(super) fn hand_over(&mut self, id: TaskId) -> bool {
        let Some(task) = self.tables.tasks.get(&id) else {
            return false;
        };
        let (iteration, worker) = (task.iteration, task.worker);
        let is_running = task.phase == TaskPhase::Running;
        let is_over = matches!(task.phase, TaskPhase::Settled | TaskPhase::Failed(_));
        if is_over || !self.tables.workers.is_draining(worker) {
            return false;
        }
        // C10.3: nobody can go on where it stops.
        let cannot_go_on = self.tables.is_coordinated(iteration) || self.tables.is_cached(iteration);
        let is_removed = is_running && (!self.tables.books.is_dynamic(iteration) || cannot_go_on);
        // C10.4: it stays until the worker leaves, so that it can give back what it has not started.
        let is_unread = self.tables.readers(task).is_empty();
        if is_removed {
            self.remove_task(id, RemovalReason::WorkerLeft);
        }
        if is_unread && let Some(task) = self.tables.tasks.get_mut(&id) {
            task.stopped = true;
        }
        if is_removed || is_unread {
            let reason = StopReason::Draining;
            self.push_worker(worker, WorkerPush::Stop { task: id, reason });
        }
        is_removed
    }

    /// C10.2: a settled task that was cut short says nothing of how much there is to read. It is forgotten as
    /// if it had never been, so that its iteration goes on without it.
    pub(super) fn forget_cut_short(&mut self, id: TaskId) {
        let Some(task) = self.tables.tasks.remove(id) else {
            return;
        };
        // C7.5: if no other comes, the clients are told who is missing.
        let address = self.tables.workers.address_of(task.worker);
        self.tables.iterations.note_lost_worker(task.iteration, &address);
    }
}
