//! Workers out of reach, workers that do not know tasks assigned to them, and readers without any worker.
//!
//! An unreachable worker does not stop the reader from reading other workers (D3.5). The reader retries the
//! worker while it still reads tasks of that worker. Reading fails only when no other task is left and the
//! time limit has passed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::time::Duration;

use millstream_dataplane::proto::message::ToWorker;

use super::entry::Entry;
use super::state::ReaderCore;
use super::trouble::Trouble;
use crate::connector::NotConnected;
use crate::error::ReadError;
use crate::notice::Notice;

/// The factor by which the time limit is longer for a worker that answers but does not know its task. A
/// worker that answers is alive, and it will soon receive the task or be given up by the dispatcher.
const UNKNOWN_GIVE_UPS: u32 = 4;

/// The time without a worker before the user is notified.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// The time without a task, between two tasks, before the user is notified. Other readers may hold the rest
/// of the epoch.
const TELL_LULL_AFTER: Duration = Duration::from_secs(30);

impl ReaderCore {
    /// Notes whether the dispatcher is in reach.
    pub(super) fn note_contact(&mut self, is_up: bool) {
        if is_up {
            self.outages.end(self.now);
        } else {
            self.outages.begin(self.now);
        }
    }

    /// Notes that a link to a worker was up for a while.
    pub(crate) fn note_stood(&mut self, worker: &str) {
        self.note_answer(worker);
    }

    /// Notes a failed attempt to reach a worker. After `give_up`, reading fails once only tasks of given-up
    /// workers remain. If the dispatcher reported that a task of this worker failed, reading fails with that
    /// error. Returns a notice for the user, if due.
    pub(crate) fn note_failed_attempt(
        &mut self,
        worker: &str,
        failed: &NotConnected,
        give_up: Duration,
    ) -> Option<Notice> {
        let outbox = self.links.get_mut(worker)?;
        let trouble = outbox
            .trouble
            .get_or_insert_with(|| Trouble::begin(self.now, &self.outages));
        let lasted = trouble.lasted(self.now, &self.outages);
        let is_to_tell = trouble.is_to_tell(lasted);
        if lasted > give_up {
            outbox.given_up = Some(unreached(failed, worker, lasted));
            self.has_given_up = true;
            let mut of_worker = self.tasks.values();
            let told = of_worker.find_map(|entry| {
                let is_of_worker = &*entry.worker == worker && entry.is_wanted();
                is_of_worker.then(|| entry.told_failure()).flatten()
            });
            self.failure = self.failure.take().or(told);
        }
        is_to_tell.then(|| Notice::WorkerUnreachable {
            worker: worker.to_owned(),
            reason: failed.reason.clone(),
            since_s: lasted.as_secs(),
        })
    }

    /// Repeats the subscriptions to tasks that their workers did not know. A task that stays unknown for four
    /// times `give_up` counts as given up: reading fails once only given-up tasks remain (D3.1, D3.5).
    /// Returns the notices that are due.
    pub(crate) fn ask_again(&mut self, give_up: Duration) -> Vec<Notice> {
        let now = self.now;
        let Self {
            tasks,
            links,
            outages,
            has_given_up,
            ..
        } = self;
        let (mut notices, mut asked) = (Vec::new(), Vec::new());
        for entry in tasks.values_mut().filter(|entry| entry.is_wanted()) {
            let Some(unknown) = &mut entry.unknown else {
                continue;
            };
            let lasted = unknown.trouble.lasted(now, outages);
            let (worker, task) = (entry.worker.to_string(), entry.source.task.0);
            if unknown.trouble.is_to_tell(lasted) {
                notices.push(Notice::TaskUnknown {
                    worker: worker.clone(),
                    task,
                    since_s: lasted.as_secs(),
                });
            }
            if lasted > give_up * UNKNOWN_GIVE_UPS {
                let reason = unknown.reason.clone();
                entry.given_up = Some(ReadError::Refused { worker, task, reason });
                *has_given_up = true;
            }
            let is_due = unknown.ask_at.is_some_and(|at| at <= now);
            if let Some(outbox) = links
                .get_mut(&entry.worker)
                .filter(|outbox| outbox.is_up && is_due)
            {
                unknown.ask_at = None;
                outbox.push(ToWorker::Subscribe(entry.subscribe()));
                asked.push(Arc::clone(&entry.worker));
            }
        }
        for worker in asked {
            self.stir(&worker);
        }
        notices
    }

    /// Checks whether the reader has a task to read. A reader without a worker for `give_up` fails with an
    /// error that names the dispatcher. Returns a notice for the user, if due.
    pub(crate) fn look_for_tasks(&mut self, dispatcher: &str, give_up: Duration) -> Option<Notice> {
        if !self.is_idle() {
            self.idle = None;
            return None;
        }
        let has_begun = !self.tasks.is_empty();
        let idle = self.idle.get_or_insert_with(|| {
            let tell_after = if has_begun { TELL_LULL_AFTER } else { TELL_AFTER };
            Trouble::begin(self.now, &self.outages).told_after(tell_after)
        });
        let lasted = idle.lasted(self.now, &self.outages);
        let is_to_tell = idle.is_to_tell(lasted);
        let (dispatcher, since_s) = (dispatcher.to_owned(), lasted.as_secs());
        if lasted > give_up && !has_begun {
            let error = ReadError::NoWorkers {
                dispatcher: dispatcher.clone(),
                after_s: since_s,
            };
            self.failure.get_or_insert(error);
        }
        let notice = if has_begun {
            Notice::NoTasks { dispatcher, since_s }
        } else {
            Notice::NoWorkers { dispatcher, since_s }
        };
        is_to_tell.then_some(notice)
    }

    /// Returns whether the consumer waits although no task can deliver an element.
    fn is_idle(&self) -> bool {
        let is_asked = self.is_open && !self.is_iteration_over && !self.has_something();
        is_asked && !self.tasks.values().any(Entry::is_wanted) && !self.outages.is_open()
    }

    /// Returns the error for which reading fails if all remaining tasks are at workers that were given up.
    pub(super) fn stuck(&self) -> Option<&ReadError> {
        if !self.has_given_up {
            return None;
        }
        let mut why = None;
        for entry in self.tasks.values().filter(|entry| entry.is_wanted()) {
            let outbox = self.links.get(&entry.worker);
            let given_up = entry.given_up.as_ref();
            let given_up = given_up.or_else(|| outbox.and_then(|outbox| outbox.given_up.as_ref()));
            match given_up {
                Some(error) => why = why.or(Some(error)),
                // In a coordinated read the other tasks wait for the turn of this task.
                None if self.schedule.is_some() => {}
                None => return None,
            }
        }
        why
    }

    /// Clears the outage of a worker that has answered.
    pub(super) fn note_answer(&mut self, worker: &str) {
        if let Some(outbox) = self.links.get_mut(worker) {
            (outbox.trouble, outbox.given_up) = (None, None);
        }
    }
}

/// Makes the error of a worker that was out of reach for the time `after`.
fn unreached(failed: &NotConnected, worker: &str, after: Duration) -> ReadError {
    let (worker, reason, after_s) = (worker.to_owned(), failed.reason.clone(), after.as_secs());
    if failed.is_full {
        ReadError::WorkerFull {
            worker,
            reason,
            after_s,
        }
    } else {
        ReadError::WorkerUnreachable {
            worker,
            reason,
            after_s,
        }
    }
}
