//! The tasks, found by their iteration and by their worker.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::groups::Groups;
use super::stamps::Stamps;
use super::table::Table;
use crate::dispatcher::record::{TaskPhase, TaskRecord};
use crate::id::{IterationId, TaskId, WorkerId};

/// The table of all tasks of running iterations.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(super) rows: Table<TaskId, TaskRecord>,
    index: Index,
    /// The time at which each task got the suspect that it reads alone.
    pub(crate) alone_since: Stamps<TaskId>,
}

/// The index by which a task is found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    of_iteration: Groups<IterationId, TaskId>,
    on_worker: Groups<WorkerId, TaskId>,
}

impl Index {
    fn note(&mut self, row: &TaskRecord) {
        self.of_iteration.insert(row.iteration, row.id);
        self.on_worker.insert(row.worker, row.id);
    }
}

impl Tasks {
    /// Adds a task from the store.
    pub(super) fn load(&mut self, row: TaskRecord) {
        self.index.note(&row);
        self.rows.load(row.id, row);
    }

    pub(crate) fn insert(&mut self, row: TaskRecord) {
        self.index.note(&row);
        self.rows.insert(row.id, row);
    }

    pub(crate) fn remove(&mut self, id: TaskId) -> Option<TaskRecord> {
        let row = self.rows.remove(&id)?;
        self.alone_since.remove(&id);
        self.index.of_iteration.remove(&row.iteration, &id);
        self.index.on_worker.remove(&row.worker, &id);
        Some(row)
    }

    pub(crate) fn get(&self, id: &TaskId) -> Option<&TaskRecord> {
        self.rows.get(id)
    }

    /// Returns a task for a change of any field except its iteration and its worker.
    pub(crate) fn get_mut(&mut self, id: &TaskId) -> Option<&mut TaskRecord> {
        self.rows.get_mut(id)
    }

    pub(crate) fn contains(&self, id: &TaskId) -> bool {
        self.rows.contains(id)
    }

    #[cfg(debug_assertions)]
    pub(crate) fn values(&self) -> impl Iterator<Item = &TaskRecord> {
        self.rows.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn of(&self, iteration: IterationId) -> Vec<TaskId> {
        self.index.of_iteration.of(&iteration).collect()
    }

    pub(crate) fn rows_of(&self, iteration: IterationId) -> impl Iterator<Item = &TaskRecord> {
        let ids = self.index.of_iteration.of(&iteration);
        ids.filter_map(|id| self.rows.get(&id))
    }

    pub(crate) fn count_of(&self, iteration: IterationId) -> usize {
        self.index.of_iteration.count(&iteration)
    }

    /// Returns the task of an iteration that was started last.
    pub(crate) fn latest_of(&self, iteration: IterationId) -> Option<TaskId> {
        self.index.of_iteration.last(&iteration)
    }

    pub(crate) fn on(&self, worker: WorkerId) -> Vec<TaskId> {
        self.index.on_worker.of(&worker).collect()
    }

    pub(crate) fn count_on(&self, worker: WorkerId) -> usize {
        self.index.on_worker.count(&worker)
    }

    /// Returns the tasks of an iteration that have not ended.
    pub(crate) fn running_of(&self, iteration: IterationId) -> impl Iterator<Item = TaskId> {
        let rows = self.rows_of(iteration);
        rows.filter(|row| row.phase == TaskPhase::Running)
            .map(|row| row.id)
    }

    /// Returns whether a task ended by itself before its splits did, so that it wants no more splits.
    pub(crate) fn stopped_early(&self, id: TaskId) -> bool {
        self.rows.get(&id).is_some_and(|row| row.stopped_early)
    }

    /// Forgets a settled task that was started for free splits, unless it stopped early and so shows that
    /// no task wants these splits.
    pub(crate) fn forget_caught_up(&mut self, id: TaskId) {
        let row = self.rows.get(&id);
        if row.is_some_and(|row| row.catches_up && !row.stopped_early) {
            self.remove(id);
        }
    }

    /// Panics if the index contradicts the rows.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        let mut index = Index::default();
        for row in self.rows.values() {
            index.note(row);
        }
        assert_eq!(self.index, index, "the index of tasks is stale");
    }
}
