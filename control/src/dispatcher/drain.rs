//! The graceful shutdown of workers. A draining worker gets no new tasks, and its present tasks are
//! finished or continued by other workers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::{StopReason, WorkerPush};
use super::failure::{Blame, RemovalReason};
use super::happened::ServiceEventKind;
use super::record::TaskPhase;
use super::state::ServiceState;
use crate::error::Error;
use crate::id::{SessionId, TaskId};

impl ServiceState {
    /// Drains a worker: the worker takes no more tasks, and leaves once its present tasks are over (C10.1).
    pub(super) fn drain_worker(&mut self, session: SessionId) -> Result<(), Error> {
        let id = self.tables.workers.living_of(session)?;
        if self.tables.workers.is_draining(id) {
            return Ok(());
        }
        self.tables.workers.drain(id);
        let (address, tasks) = (self.tables.workers.address_of(id), self.tables.tasks.count_on(id));
        let text =
            format!("Worker {address} drains: it takes no more tasks, and leaves after its {tasks} tasks.");
        self.tell(ServiceEventKind::WorkerDraining, text);
        for task in self.tables.tasks.on(id) {
            self.hand_over(task);
        }
        Ok(())
    }

    /// Removes a task of a draining worker that the worker need not finish. Returns true if the task is
    /// removed.
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
        // No other worker can continue these tasks at the position where they stop (C10.3).
        let cannot_go_on = self.tables.is_cached(iteration);
        let is_unread = !self.tables.is_read(task);
        // Other tasks repeat the splits of an exactly-once job. If its client has not joined yet, the client
        // must not wait for them until this worker leaves. Every other unread task stays until then, so that
        // the worker can return the splits that it has not started (C10.4).
        let is_repeated = is_unread && self.tables.is_exactly_once(iteration);
        let must_go = !self.tables.books.is_dynamic(iteration) || cannot_go_on;
        let is_removed = is_repeated || (is_running && must_go);
        if is_removed {
            self.remove_task(id, RemovalReason::WorkerLeft, Blame::Nothing);
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

    /// Forgets a settled task that was cut short, as if it had never existed, so that its iteration
    /// continues without the task. A task that was cut short does not show that its sources are exhausted
    /// (C10.2).
    pub(super) fn forget_cut_short(&mut self, id: TaskId) {
        let Some(task) = self.tables.tasks.remove(id) else {
            return;
        };
        // If no other worker registers, the clients are told which worker is missing (C7.5).
        let address = self.tables.workers.address_of(task.worker);
        self.tables.iterations.note_lost_worker(task.iteration, &address);
    }
}
