//! Reports of pace that arrive with heartbeats: which of them count, and how many workers the service wants.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::autoscale;
use super::moment::Moment;
use super::paces::Paces;
use super::tables::Tables;
use crate::id::{IterationId, SessionId, TaskId};
use crate::pace::Measures;
use crate::split::SplitPace;

impl Paces {
    /// Notes the reports about the process' own tasks and clients, and no others (C11.1).
    pub(super) fn note_measures(
        &mut self,
        session: SessionId,
        measures: Measures,
        tables: &Tables,
        now: Moment,
    ) {
        let worker = tables.workers.of_session(session);
        if let (Some(worker), Some(links)) = (worker, measures.links) {
            self.note_links(worker, links);
        }
        let tasks = &tables.tasks;
        let is_own = |task: TaskId| tasks.get(&task).is_some_and(|row| Some(row.worker) == worker);
        for (task, pace) in measures.tasks {
            if is_own(task) {
                self.note_task(task, pace, now);
            }
        }
        for (task, name) in measures.bottlenecks {
            if is_own(task) {
                self.note_bottleneck(task, name);
            }
        }
        for (client, pace) in measures.clients {
            if tables.clients.owned_by(session, client).is_ok() {
                self.note_client(client, pace, now);
            }
        }
    }

    /// Forgets the reports of tasks, clients and workers that are gone.
    pub(super) fn forget_gone(&mut self, tables: &Tables) {
        self.retain(
            |task| tables.tasks.contains(task),
            |client| tables.clients.contains(client),
            |worker| tables.workers.get(worker).is_some_and(|row| row.dead.is_none()),
        );
    }

    /// Returns how many workers an iteration wants, without limits (C11.2).
    pub(super) fn workers_wanted_by(&self, iteration: IterationId, tables: &Tables) -> Option<u64> {
        // A task that has ended is no worker's to share.
        let tasks = tables.tasks.running_of(iteration);
        let clients = tables.clients.of(iteration).into_iter();
        self.workers_for(tasks, clients)
    }

    /// Returns how many workers the service wants: those of the iteration that wants most, within the limits
    /// (C11.2).
    pub(super) fn workers_wanted(&self, tables: &Tables) -> Option<u64> {
        let running = tables.iterations.running().into_iter();
        let wanted = running
            .filter_map(|id| self.workers_wanted_by(id, tables))
            .max()?;
        autoscale::bounded(wanted, tables.workers.living_count() as u64)
    }

    /// Notes how fast a task starts splits. Returns how fast all running tasks of the iteration are together;
    /// a task of which nothing is known counts as fast as this one.
    pub(super) fn note_split_pace(
        &mut self,
        task: TaskId,
        of: IterationId,
        pace: SplitPace,
        tables: &Tables,
    ) -> u64 {
        self.note_splits(task, pace);
        let running = tables.tasks.running_of(of);
        let paces = running.map(|task| self.splits_of(task).unwrap_or(pace.per_1000_s));
        paces.fold(0, u64::saturating_add)
    }

    /// Returns whether every running task of an iteration has said how fast it is.
    pub(super) fn has_all_of(&self, iteration: IterationId, tables: &Tables) -> bool {
        let mut running = tables.tasks.running_of(iteration);
        running.all(|task| self.splits_of(task).is_some())
    }
}
