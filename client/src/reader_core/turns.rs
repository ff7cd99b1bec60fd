//! The turns of a coordinated read: elements are handed over in order, and only those that all consumers
//! have.
//!
//! Without a schedule nothing here has an effect.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_dataplane::TaskId;
use millstream_element::Pack;

use super::delivery::Handing;
use super::schedule::{OutOfStep, Schedule};
use super::state::ReaderCore;
use crate::error::ReadError;
use crate::event::TaskSource;

impl ReaderCore {
    pub(super) fn open_turns(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            schedule.open();
        }
    }

    /// A task is known, perhaps once more. If it has no start the dispatcher is told at once from when on it
    /// can have one.
    pub(super) fn add_to_schedule(&mut self, source: &TaskSource) {
        let (task, start) = (source.task, source.start_round);
        if let Some(Some(earliest)) = self.in_step(|schedule| schedule.add(task, start)) {
            self.unreported.note_ready(task, earliest);
        }
    }

    pub(super) fn settle_turn(&mut self, task: TaskId, start_round: u64) {
        self.in_step(|schedule| schedule.settle_start(task, start_round));
    }

    /// A task is removed: until the verdict nothing is handed over but what is released now.
    pub(super) fn freeze(&mut self, task: TaskId) {
        let (Some(schedule), Some(entry)) = (&mut self.schedule, self.tasks.get_mut(&task)) else {
            return;
        };
        if entry.in_turn.frozen.is_none() {
            entry.in_turn.frozen = Some(entry.half.released());
        }
        schedule.freeze(task, entry.delivered);
        self.drop_rest(task);
    }

    /// The verdict on a removed task. All consumers have these groups, since one was told that they do
    /// (D7.3).
    pub(super) fn conclude(&mut self, task: TaskId, groups: u64) {
        let here = self.tasks.get(&task).map_or(0, |entry| entry.delivered);
        self.in_step(|schedule| schedule.conclude(task, groups, here));
        if let Some(entry) = self.tasks.get_mut(&task).filter(|_| self.failure.is_none()) {
            // What is behind is never handed over, and its credits are free.
            entry.polled = entry.polled.saturating_sub(here - groups);
            entry.in_turn.frozen = Some(groups);
            self.drop_rest(task);
        }
    }

    /// The dispatcher knows of no further word on a task, which is as it should be if it never had a start.
    pub(super) fn end_in_turn(&mut self, task: TaskId) {
        let Some(schedule) = &mut self.schedule else {
            return;
        };
        if schedule.is_taking(task) {
            let reason = format!("task {task} of a coordinated read ended without a last round");
            self.failure.get_or_insert(ReadError::Dispatcher(reason));
        }
        schedule.freeze(task, 0);
    }

    /// The next element, if it is here and every consumer has it.
    pub(super) fn next_in_turn(&mut self) -> Option<(TaskId, Handing)> {
        if !self.has_turn() {
            return None;
        }
        let schedule = self.schedule.as_mut()?;
        let task = schedule.turn()?.task;
        let entry = self.tasks.get_mut(&task)?;
        let further = entry
            .in_turn
            .open
            .as_mut()
            .filter(|(pack, next)| *next < pack.len());
        let handing = match (further, &entry.layout) {
            (Some((pack, next)), Some(layout)) => {
                *next += 1;
                Handing::Further {
                    task,
                    worker: entry.worker.clone(),
                    layout: layout.clone(),
                    pack: pack.clone(),
                    index: *next - 1,
                }
            }
            (Some(_), None) | (None, _) => Handing::First(entry.in_turn.queue.pop_front()?),
        };
        schedule.advance();
        self.drop_rest(task);
        Some((task, handing))
    }

    /// Returns whether the next element is here and every consumer has it.
    pub(super) fn has_turn(&self) -> bool {
        let turn = self.schedule.as_ref().and_then(Schedule::turn);
        turn.is_some_and(|turn| {
            let entry = self.tasks.get(&turn.task);
            entry.is_some_and(|entry| turn.group < entry.released())
        })
    }

    /// A task that failed ends reading when it is its turn, as it does for every consumer (D7.5).
    pub(super) fn failed_turn(&self) -> Option<&ReadError> {
        let turn = self.schedule.as_ref().and_then(Schedule::turn)?;
        let entry = self.tasks.get(&turn.task)?;
        entry
            .in_turn
            .failed
            .as_ref()
            .filter(|_| turn.group >= entry.released())
    }

    /// The consumer opened a pack, and has its first element.
    pub(super) fn note_open(&mut self, task: TaskId, pack: &Pack) {
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.in_turn.open = Some((pack.clone(), 1));
        }
        self.drop_rest(task);
    }

    /// Forgets what is left of a task that has no further turn.
    fn drop_rest(&mut self, task: TaskId) {
        let is_taking = |schedule: &Schedule| schedule.is_taking(task);
        if let Some(entry) = self.tasks.get_mut(&task)
            && entry.is_removed
            && !self.schedule.as_ref().is_some_and(is_taking)
        {
            entry.in_turn.queue.clear();
            entry.in_turn.open = None;
        }
    }

    /// Changes the schedule. What would put this consumer out of step ends reading.
    fn in_step<T>(&mut self, change: impl FnOnce(&mut Schedule) -> Result<T, OutOfStep>) -> Option<T> {
        match change(self.schedule.as_mut()?) {
            Ok(changed) => Some(changed),
            Err(error) => {
                self.failure
                    .get_or_insert(ReadError::Dispatcher(error.to_string()));
                None
            }
        }
    }
}
