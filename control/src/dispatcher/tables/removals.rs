//! Removals: tasks that are gone, until their readers have reported the splits that they have seen.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::groups::Groups;
use super::stamps::Stamps;
use super::table::Table;
use crate::dispatcher::moment::Moment;
use crate::dispatcher::record::RemovalRecord;
use crate::id::{IterationId, TaskId};

/// The table of all removals that are not completed.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    pub(super) rows: Table<TaskId, RemovalRecord>,
    of_iteration: Groups<IterationId, TaskId>,
    /// The time at which each removal began. A removal of a coordinated read has no deadline, and no entry.
    pub(crate) begun: Stamps<TaskId>,
}

impl Removals {
    /// Adds a removal from the store.
    pub(super) fn load(&mut self, row: RemovalRecord) {
        self.of_iteration.insert(row.iteration, row.task);
        self.rows.load(row.task, row);
    }

    pub(crate) fn insert(&mut self, row: RemovalRecord, now: Moment) {
        if !row.is_coordinated() {
            self.begun.note(row.task, now);
        }
        self.of_iteration.insert(row.iteration, row.task);
        self.rows.insert(row.task, row);
    }

    pub(crate) fn remove(&mut self, task: TaskId) -> Option<RemovalRecord> {
        let row = self.rows.remove(&task)?;
        self.begun.remove(&task);
        self.of_iteration.remove(&row.iteration, &task);
        Some(row)
    }

    pub(crate) fn get(&self, task: &TaskId) -> Option<&RemovalRecord> {
        self.rows.get(task)
    }

    /// Returns a removal for a change of any field except its iteration.
    pub(crate) fn get_mut(&mut self, task: &TaskId) -> Option<&mut RemovalRecord> {
        self.rows.get_mut(task)
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn values(&self) -> impl Iterator<Item = &RemovalRecord> {
        self.rows.values()
    }

    pub(crate) fn of(&self, iteration: IterationId) -> Vec<TaskId> {
        self.of_iteration.of(&iteration).collect()
    }

    pub(crate) fn rows_of(&self, iteration: IterationId) -> impl Iterator<Item = &RemovalRecord> {
        let tasks = self.of_iteration.of(&iteration);
        tasks.filter_map(|task| self.rows.get(&task))
    }

    pub(crate) fn count_of(&self, iteration: IterationId) -> usize {
        self.of_iteration.count(&iteration)
    }

    pub(crate) fn has_any_of(&self, iteration: IterationId) -> bool {
        self.of_iteration.contains(&iteration)
    }

    /// Gives every removal a full timeout.
    pub(crate) fn restart_clocks(&mut self, now: Moment) {
        for row in self.rows.values().filter(|row| !row.is_coordinated()) {
            self.begun.note(row.task, now);
        }
    }

    /// Panics if the index or the clocks contradict the rows.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        let mut of_iteration = Groups::default();
        for row in self.rows.values() {
            of_iteration.insert(row.iteration, row.task);
            let (task, is_timed) = (row.task, self.begun.get(&row.task).is_some());
            assert!(
                !row.awaiting.is_empty() || row.is_coordinated(),
                "removal {task} waits for no client"
            );
            assert_ne!(is_timed, row.is_coordinated(), "removal {task} and its deadline");
        }
        assert_eq!(self.of_iteration, of_iteration, "the index of removals is stale");
    }
}
