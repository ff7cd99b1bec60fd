//! Dispatches each event of the iteration to the part of the reader that handles the event.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_dataplane::TaskId;

use super::remains::Remains;
use super::state::ReaderCore;
use crate::error::ReadError;
use crate::event::TaskEvent;
use crate::notice::Notice;

/// The work that an event requires from the caller.
#[derive(Debug)]
pub(crate) enum Obeyed {
    /// No work.
    Done,
    /// The caller keeps a link to this worker.
    Drive(String),
    /// The caller searches the remaining elements of this task for their splits, and reports the splits.
    LookThrough(TaskId, Remains),
}

impl ReaderCore {
    /// Handles an event of the iteration. Returns the work for the caller, and a notice for the user if the
    /// event causes one.
    pub(crate) fn obey(&mut self, event: TaskEvent) -> (Obeyed, Option<Notice>) {
        match event {
            TaskEvent::Added(source) => {
                let worker = source.worker.address.clone();
                if self.add_task(source) {
                    return (Obeyed::Drive(worker), None);
                }
            }
            TaskEvent::Removed {
                task,
                reason,
                has_left,
            } => {
                let notice = self.notice_of_lost_worker(task, &reason).filter(|_| !has_left);
                let remains = self.remove_task(task, &reason);
                return (Obeyed::LookThrough(task, remains), notice);
            }
            TaskEvent::Ended { task } => self.end_task(task),
            TaskEvent::SplitsLost { splits, worker } => self.note_lost_splits(&worker, &splits),
            TaskEvent::TaskFailed {
                task,
                worker,
                failure,
            } => self.note_failure(task, &worker, failure),
            TaskEvent::IterationFinished => self.finish_iteration(),
            TaskEvent::CaughtUp => self.open_schedule(),
            TaskEvent::Scheduled { task, start_round } => self.settle_start(task, start_round),
            TaskEvent::Concluded { task, groups } => self.conclude_task(task, groups),
            TaskEvent::ConsumersLost { consumers } => self.fail(ReadError::ConsumersLost { consumers }),
            TaskEvent::WorkersLost { workers } => self.fail(ReadError::WorkersLost { workers }),
            TaskEvent::Contact { is_up } => self.note_contact(is_up),
            TaskEvent::ShutDown { by } => self.shut_down(by),
            TaskEvent::LeaseDoubted(is_doubted) => self.fence(is_doubted, None),
            TaskEvent::Lapsed => self.fence(true, Some(ReadError::Lapsed)),
            TaskEvent::Failed(reason) => self.fail(ReadError::Dispatcher(reason)),
            TaskEvent::Unreachable(reason) => self.fail(ReadError::DispatcherUnreachable(reason)),
        }
        (Obeyed::Done, None)
    }
}
