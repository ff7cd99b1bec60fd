//! Tasks that are added, end, fail or are removed, and splits that are lost.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Cancel, Failure, ToWorker};

use super::entry::Entry;
use super::remains::Remains;
use super::state::ReaderCore;
use crate::error::ReadError;
use crate::event::TaskSource;
use crate::loss::{DataLoss, LostSplits};
use crate::notice::Notice;
use crate::report::{Report, SeenSplits};

impl ReaderCore {
    /// Adds a task. Returns true if the task's worker is new, so that the caller must start a driver for its
    /// link.
    pub(crate) fn add_task(&mut self, source: TaskSource) -> bool {
        self.add_to_schedule(&source);
        if self.tasks.contains_key(&source.task) {
            return false;
        }
        let is_coordinated = self.schedule.is_some();
        let worker: Arc<str> = source.worker.address.as_str().into();
        let is_new = !self.links.contains_key(&worker);
        let outbox = self.links.entry(Arc::clone(&worker)).or_default();
        outbox.move_to(source.worker.clone());
        // The dispatcher considers the worker alive again.
        (outbox.trouble, outbox.given_up) = (None, None);
        let mut entry = Entry::new(
            source,
            Arc::clone(&worker),
            is_coordinated,
            self.trainer_id.clone(),
        );
        if outbox.is_up {
            entry.is_local = outbox.is_local;
            outbox.push(ToWorker::Subscribe(entry.subscribe()));
        }
        self.tasks.insert(entry.source.task, entry);
        // The link must also be woken if it has to move to another socket.
        self.stir(&worker);
        is_new
    }

    /// Cancels a task that the dispatcher removed. Elements that have arrived are still handed over; returns
    /// them so that the caller can search them for their splits.
    pub(super) fn remove_task(&mut self, task: TaskId, reason: &str) -> Remains {
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.remove();
            self.losses.note_removed(&entry.worker, reason);
            if self.schedule.is_some() {
                entry.reopen_unconfirmed();
            }
            self.unreported.note_waiting(task, entry.waiting_splits());
            let worker = Arc::clone(&entry.worker);
            self.push(&worker, ToWorker::Cancel(Cancel { task, has_all: false }));
        }
        self.freeze(task);
        let remains = self.remains(task);
        self.distribute();
        remains
    }

    /// Queues the report of the splits that were seen of a removed task.
    pub(crate) fn note_removed(&mut self, task: TaskId, mut seen: SeenSplits) {
        let is_exact = self.whole_splits && self.schedule.is_none();
        if is_exact && seen.partial != SeenSplits::everything().partial {
            // With `whole_splits`, each seen split has just one element, which has arrived, so that the split
            // is done.
            for lease in std::mem::take(&mut seen.partial).into_iter().flatten() {
                self.unreported.note_done(task, lease);
            }
        }
        self.unreported.note_removed(task, seen);
    }

    /// Handles the end of a task, so that the reader no longer waits for it.
    pub(super) fn end_task(&mut self, task: TaskId) {
        self.end_unfinished(task);
        self.distribute();
    }

    /// Notes that the dispatcher reported a task's failure. The worker usually reports the failure too, after
    /// the elements before the failure.
    pub(super) fn note_failure(&mut self, task: TaskId, worker: &str, failure: Failure) {
        let is_coordinated = self.schedule.is_some();
        match self.tasks.get_mut(&task) {
            Some(entry) if !entry.is_wanted() => {}
            Some(entry) => {
                entry.failure = Some(failure);
                if !entry.may_hear_of_failure(is_coordinated) {
                    self.take_word_for_failure(task);
                }
            }
            None => {
                self.failure.get_or_insert(ReadError::task(worker, failure));
            }
        }
    }

    /// Returns the notice that the dispatcher gave up the worker of a task that was still being read.
    pub(super) fn notice_of_lost_worker(&self, task: TaskId, reason: &str) -> Option<Notice> {
        let entry = self.tasks.get(&task).filter(|entry| entry.is_wanted())?;
        let (worker, reason) = (entry.worker.to_string(), reason.to_owned());
        Some(Notice::WorkerLost { worker, reason })
    }

    /// Notes splits that lost elements together with their worker.
    pub(super) fn note_lost_splits(&mut self, worker: &str, splits: &[LostSplits]) {
        if !self.is_exactly_once {
            self.losses.note(worker, splits);
        }
    }

    /// Returns the lost splits, each listed once.
    pub(crate) fn lost_splits(&self) -> Vec<LostSplits> {
        self.losses.splits()
    }

    /// Returns the lost splits with the workers that held them; `None` if no split was lost.
    pub(crate) fn loss(&self) -> Option<DataLoss> {
        self.losses.loss()
    }

    /// Notes that the iteration will have no further tasks.
    pub(super) fn finish_iteration(&mut self) {
        self.is_iteration_over = true;
        for task in self.tasks.keys().copied().collect::<Vec<_>>() {
            self.judge_unknown(task);
        }
        self.judge_unreachable();
    }

    /// Notes that all tasks are known with which a coordinated read began.
    pub(super) fn open_schedule(&mut self) {
        self.open_turns();
        self.distribute();
    }

    /// Notes the first round of a task in a coordinated read.
    pub(super) fn settle_start(&mut self, task: TaskId, start_round: u64) {
        self.settle_turn(task, start_round);
        self.distribute();
    }

    /// Notes how many groups of a removed task are handed over in a coordinated read.
    pub(super) fn conclude_task(&mut self, task: TaskId, groups: u64) {
        self.conclude(task, groups);
        self.distribute();
    }

    /// Returns the next report to the dispatcher.
    pub(crate) fn next_report(&mut self) -> Option<Report> {
        self.unreported.next()
    }

    /// Decides, from the dispatcher's reports, whether a task that its worker does not know will ever be
    /// known.
    pub(super) fn judge_unknown(&mut self, task: TaskId) {
        let is_coordinated = self.schedule.is_some() && !self.is_iteration_over;
        let Some(entry) = self.tasks.get(&task).filter(|entry| entry.unknown.is_some()) else {
            return;
        };
        if !entry.may_hear_of_failure(is_coordinated) && self.take_word_for_failure(task) {
            return;
        }
        if let Some(entry) = self.tasks.get_mut(&task).filter(|_| self.is_iteration_over) {
            // Before the dispatcher ended the iteration, every element was delivered or its split named as
            // lost (C3.3, C3.4).
            entry.finish();
        }
    }

    /// Applies reported failures of workers out of reach once the iteration is over. After the end, the
    /// dispatcher no longer reports whether such a worker returns (C6.6).
    pub(super) fn judge_unreachable(&mut self) {
        if !self.is_iteration_over {
            return;
        }
        let is_up = |entry: &Entry| self.links.get(&entry.worker).is_some_and(|outbox| outbox.is_up);
        let unreachable = self.tasks.iter();
        let unreachable: Vec<TaskId> = unreachable
            .filter(|(_, entry)| entry.is_wanted() && !is_up(entry))
            .map(|(task, _)| *task)
            .collect();
        for task in unreachable {
            self.take_word_for_failure(task);
        }
    }

    /// Applies the failure that the dispatcher reported for a task whose worker will not report it. In a
    /// coordinated read the failure ends reading at the task's turn (D7.5). Returns false if no failure was
    /// reported.
    fn take_word_for_failure(&mut self, task: TaskId) -> bool {
        let Some(entry) = self.tasks.get_mut(&task) else {
            return false;
        };
        let Some(failure) = entry.told_failure() else {
            return false;
        };
        if self
            .schedule
            .as_ref()
            .is_some_and(|schedule| schedule.is_taking(task))
        {
            entry.in_turn.failed.get_or_insert(failure);
            entry.finish();
        } else {
            self.failure.get_or_insert(failure);
        }
        true
    }

    fn end_unfinished(&mut self, task: TaskId) {
        if self.tasks.get(&task).is_none_or(|entry| !entry.is_wanted()) || self.take_word_for_failure(task) {
            return;
        }
        let Some(entry) = self.tasks.get_mut(&task) else {
            return;
        };
        entry.remove();
        let worker = entry.worker.clone();
        self.end_in_turn(task);
        self.push(&worker, ToWorker::Cancel(Cancel { task, has_all: false }));
    }

    /// Collects the elements of a task that the reader still holds, to be searched outside the lock.
    fn remains(&self, task: TaskId) -> Remains {
        let Some(entry) = self.tasks.get(&task).filter(|entry| entry.trainer_id.is_none()) else {
            return Remains::default();
        };
        let waiting = self.ready.iter().map(|delivery| (delivery.task, &delivery.body));
        let waiting = waiting.chain(self.given.iter().map(|(of, body)| (*of, body)));
        let at_hand = self.at_hand_pack.as_ref().filter(|(of, _)| *of == task);
        let in_turn = &entry.in_turn;
        Remains {
            seen: entry.seen.clone(),
            done: entry.done.keys().copied().collect(),
            layout: entry.layout.clone(),
            waiting: waiting
                .filter(|(of, _)| *of == task)
                .map(|(_, body)| body.clone())
                .chain(in_turn.queue.iter().map(|delivery| delivery.body.clone()))
                .collect(),
            at_hand: at_hand
                .map(|(_, pack)| pack.clone())
                .or_else(|| in_turn.open.as_ref().map(|(pack, _)| pack.clone())),
            released: in_turn.frozen.unwrap_or_default(),
        }
    }
}
