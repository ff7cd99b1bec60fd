//! The turns of a coordinated read. Elements are handed over in order, and only if all consumers have them.
//!
//! Without a schedule, the functions of this file have no effect.
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

    /// Adds a task to the schedule; repeated calls are allowed. If the task has no start yet, queues a report
    /// of the earliest round in which this consumer can start it.
    pub(super) fn add_to_schedule(&mut self, source: &TaskSource) {
        let (task, start) = (source.task, source.start_round);
        if let Some(Some(earliest)) = self.in_step(|schedule| schedule.add(task, start)) {
            self.unreported.note_ready(task, earliest);
        }
    }

    pub(super) fn settle_turn(&mut self, task: TaskId, start_round: u64) {
        self.in_step(|schedule| schedule.settle_start(task, start_round));
    }

    /// Handles the removal of a task. Until the dispatcher's verdict, only groups that are already released
    /// are handed over.
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

    /// Sets the final number of groups of a task: the dispatcher's verdict on a removed task, or the groups
    /// of an ended task. Every consumer has these groups, because a worker told one of them so (D7.3).
    pub(super) fn conclude(&mut self, task: TaskId, groups: u64) {
        let here = self.tasks.get(&task).map_or(0, |entry| entry.delivered);
        self.in_step(|schedule| schedule.conclude(task, groups, here));
        if let Some(entry) = self.tasks.get_mut(&task).filter(|_| self.failure.is_none()) {
            if !entry.in_turn.is_concluded {
                // Later elements are never handed over, so their credits are free.
                entry.polled = entry.polled.saturating_sub(here - groups);
            }
            (entry.in_turn.frozen, entry.in_turn.is_concluded) = (Some(groups), true);
            self.drop_rest(task);
        }
    }

    /// Handles the end of a task's data. The worker has released every complete group before the end, so that
    /// all consumers hand over the same number of groups (D7.5).
    pub(super) fn end_of_data_in_turn(&mut self, task: TaskId) {
        let groups = self.tasks.get(&task).map(|entry| entry.half.released());
        if let Some(groups) = groups.filter(|_| self.schedule.is_some()) {
            self.conclude(task, groups);
            // The next turn may be that of a task without credits.
            self.distribute();
        }
    }

    /// Handles the end of a task without a verdict. An end without a verdict is an error, unless the task
    /// never had a start.
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

    /// Returns the next element, if it has arrived and every consumer has it.
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

    /// Returns whether the next element has arrived and every consumer has it.
    pub(super) fn has_turn(&self) -> bool {
        let turn = self.schedule.as_ref().and_then(Schedule::turn);
        turn.is_some_and(|turn| {
            let entry = self.tasks.get(&turn.task);
            entry.is_some_and(|entry| turn.group < entry.released())
        })
    }

    /// Returns the failure of the task whose turn it is. The failure ends reading in the same step for every
    /// consumer (D7.5).
    pub(super) fn failed_turn(&self) -> Option<&ReadError> {
        let turn = self.schedule.as_ref().and_then(Schedule::turn)?;
        let entry = self.tasks.get(&turn.task)?;
        entry
            .in_turn
            .failed
            .as_ref()
            .filter(|_| turn.group >= entry.released())
    }

    /// Notes that the consumer opened a pack and took its first element.
    pub(super) fn note_open(&mut self, task: TaskId, pack: &Pack) {
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.in_turn.open = Some((pack.clone(), 1));
        }
        self.drop_rest(task);
    }

    /// Drops the remaining elements of a removed or ended task that has no further turn.
    fn drop_rest(&mut self, task: TaskId) {
        let is_taking = |schedule: &Schedule| schedule.is_taking(task);
        if let Some(entry) = self.tasks.get_mut(&task)
            && (entry.is_removed || entry.in_turn.is_concluded)
            && !self.schedule.as_ref().is_some_and(is_taking)
        {
            entry.in_turn.queue.clear();
            entry.in_turn.open = None;
        }
    }

    /// Changes the schedule. An error that would put this consumer out of step ends reading.
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
