//! Reports of pace that arrive with heartbeats: which of them count, and how many workers the service wants.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::autoscale;
use super::machine::Dispatcher;
use super::record::TaskPhase;
use crate::id::{IterationId, SessionId, TaskId};
use crate::pace::Measures;

impl Dispatcher {
    /// Notes the reports about the process' own tasks and clients, and no others (C11.1).
    pub(super) fn handle_measures(&mut self, session: SessionId, measures: Measures) {
        let now = self.now;
        let worker = self.tables.index.worker_of_session.get(&session).copied();
        if let (Some(worker), Some(links)) = (worker, measures.links) {
            self.paces.note_links(worker, links);
        }
        let tasks = &self.tables.tasks;
        let is_own = |task: TaskId| tasks.get(&task).is_some_and(|row| Some(row.worker) == worker);
        for (task, pace) in measures.tasks {
            if is_own(task) {
                self.paces.note_task(task, pace, now);
            }
        }
        for (task, name) in measures.bottlenecks {
            if is_own(task) {
                self.paces.note_bottleneck(task, name);
            }
        }
        for (client, pace) in measures.clients {
            if self.client(session, client).is_ok() {
                self.paces.note_client(client, pace, now);
            }
        }
    }

    /// Forgets the reports of tasks, clients and workers that are gone.
    pub(super) fn forget_paces(&mut self) {
        let tables = &self.tables;
        self.paces.retain(
            |task| tables.tasks.contains(task),
            |client| tables.clients.contains(client),
            |worker| tables.workers.get(worker).is_some_and(|row| row.dead.is_none()),
        );
    }

    /// Returns how many workers an iteration wants, without limits (C11.2).
    pub(super) fn workers_wanted_by(&self, iteration: IterationId) -> Option<u64> {
        // A task that has ended is no worker's to share.
        let runs = |task: &TaskId| {
            let row = self.tables.tasks.get(task);
            row.is_some_and(|row| row.phase == TaskPhase::Running)
        };
        let tasks = self.tables.tasks_of(iteration).into_iter().filter(runs);
        let clients = self.tables.clients_of(iteration).into_iter();
        self.paces.workers_wanted(tasks, clients)
    }

    /// Returns how many workers the service wants: those of the iteration that wants most, within the limits (C11.2).
    pub(super) fn workers_wanted(&self) -> Option<u64> {
        let running = self.tables.index.running.iter();
        let wanted = running.filter_map(|id| self.workers_wanted_by(*id)).max()?;
        autoscale::bounded(wanted, self.tables.index.worker_of_address.len() as u64)
    }
}
