//! The calls of the consumer, which asks for elements, reports the elements that it handed over, and ends
//! reading.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::task::Poll;

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Cancel, ToWorker};
use millstream_element::Pack;

use super::delivery::Handing;
use super::entry::Entry;
use super::state::ReaderCore;
use crate::error::ReadError;

impl ReaderCore {
    /// Returns the next elements, `Ok(None)` at the end, or `Pending` while no elements are available.
    /// `handed` counts the elements of the current delivery that were handed over. The caller restarts this
    /// count at 0 with each new delivery.
    pub(crate) fn next(&mut self, handed: u64) -> Poll<Result<Option<Handing>, ReadError>> {
        let is_first = !std::mem::replace(&mut self.is_open, true);
        if self.stop_using(handed) {
            self.at_hand = None;
        }
        if self.is_fenced {
            return match &self.failure {
                Some(failure) => Poll::Ready(Err(failure.clone())),
                None => Poll::Pending,
            };
        }
        if is_first || self.undistributed >= self.distribute_at || self.is_short() {
            self.distribute();
        }
        let next = if self.schedule.is_some() {
            self.next_in_turn()
        } else {
            let delivery = self.ready.pop_front();
            delivery.map(|delivery| (delivery.task, Handing::Pack(delivery)))
        };
        if let Some((task, handing)) = next {
            self.at_hand = Some(task);
            self.is_in_use = true;
            if let Handing::Pack(delivery) | Handing::First(delivery) = &handing {
                self.given = Some((task, delivery.body.clone()));
            }
            self.at_hand_settled = 0;
            return Poll::Ready(Ok(Some(handing)));
        }
        if let Some(failed) = self.failed_turn().cloned() {
            self.failure.get_or_insert(failed);
        }
        if let Some(stuck) = self.stuck().cloned() {
            self.failure.get_or_insert(stuck);
        }
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        if self.is_over() {
            Poll::Ready(Ok(None))
        } else {
            Poll::Pending
        }
    }

    /// Notes the pack that the consumer opened, and the leases that the consumer found in the previous pack.
    pub(crate) fn note_at_hand(&mut self, task: TaskId, pack: &Pack, leases: &mut Vec<(TaskId, u64)>) {
        self.given = None;
        if self.schedule.is_some() {
            self.note_open(task, pack);
        } else {
            self.at_hand_pack = Some((task, pack.clone()));
        }
        for (task, lease) in leases.drain(..) {
            if let Some(entry) = self
                .tasks
                .get_mut(&task)
                .filter(|entry| entry.trainer_id.is_none() && !entry.done.contains_key(&lease))
            {
                entry.seen.insert(lease);
            }
        }
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.forget_done();
        }
    }

    /// Ends reading with an error, which the consumer receives after the elements that arrived before.
    pub(crate) fn fail(&mut self, error: ReadError) {
        self.failure.get_or_insert(error);
    }

    /// Stops or resumes the hand-over of elements, which pauses while the lease may have ended (C4.4). An
    /// `error` ends reading for good.
    pub(super) fn fence(&mut self, is_fenced: bool, error: Option<ReadError>) {
        self.is_fenced = is_fenced;
        self.failure = self.failure.take().or(error);
    }

    /// Returns whether the consumer may hand over nothing, because the lease may have ended (C4.4).
    pub(crate) fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Returns the error that ended reading.
    pub(crate) fn failure(&self) -> Option<ReadError> {
        self.failure.clone()
    }

    /// Notes that the service shuts down, which ends reading unless the iteration is already over.
    pub(super) fn shut_down(&mut self, by: String) {
        if !self.is_iteration_over {
            self.failure.get_or_insert(ReadError::ShutDown { by });
        }
    }

    /// Cancels every subscription, and ends reading.
    pub(crate) fn cancel(&mut self, handed: u64) {
        self.failure.get_or_insert(ReadError::Cancelled);
        self.stop_using(handed);
        // Before its task is cancelled, a worker must receive the last acknowledgement. Otherwise the worker
        // would report the splits of used elements as lost (C6.7).
        self.acknowledge();
        let tasks = self.tasks.values();
        let tasks: Vec<_> = tasks
            .map(|entry| (entry.source.task, Arc::clone(&entry.worker)))
            .collect();
        for (task, worker) in tasks {
            self.push(&worker, ToWorker::Cancel(Cancel { task, has_all: false }));
        }
    }

    /// Books the elements that the consumer handed over, even if it paused in the middle of a pack, and
    /// acknowledges arrived elements to workers. Returns false if nothing changed.
    pub(crate) fn tick(&mut self, handed: u64) -> bool {
        let has_settled = self.settle(handed);
        if has_settled {
            self.distribute();
            self.confirm();
        }
        self.acknowledge() || has_settled
    }

    /// Books the elements that the consumer handed over, and grants the credits that are free again.
    pub(crate) fn settle_and_distribute(&mut self, handed: u64) {
        if self.settle(handed) {
            self.distribute();
        }
    }

    /// Returns how many elements the consumer may hand over before it must report them to the core: an eighth
    /// of the outstanding limit.
    pub(crate) fn settle_every(&self) -> u64 {
        let standings = self.standings();
        (self.bounds.elements(&standings) / 8).clamp(1, 4096)
    }

    /// Returns whether the consumer can continue without waiting.
    pub(crate) fn has_something(&self) -> bool {
        if self.is_fenced {
            return self.failure.is_some();
        }
        let has_next = !self.ready.is_empty() || self.has_turn();
        has_next
            || self.failure.is_some()
            || self.failed_turn().is_some()
            || self.stuck().is_some()
            || self.is_over()
    }

    /// Returns the number of elements that arrived and wait for the consumer, except in coordinated reads.
    pub(crate) fn ready_elements(&self) -> u64 {
        self.ready.iter().map(|delivery| delivery.body.len() as u64).sum()
    }

    /// Returns whether the iteration is over and all its elements were handed over.
    pub(crate) fn is_over(&self) -> bool {
        self.is_iteration_over
            && self.ready.is_empty()
            && !self.has_turn()
            && self.tasks.values().all(|entry| !entry.is_wanted())
    }

    /// Returns whether messages wait for a worker on this host.
    pub(crate) fn is_to_carry(&self) -> bool {
        let mut outboxes = self.links.values();
        outboxes.any(|outbox| outbox.is_up && outbox.is_local && !outbox.messages.is_empty())
    }

    /// Notes that the consumer is done with all elements that were handed over. Returns whether any element
    /// was handed over since the last call.
    pub(super) fn stop_using(&mut self, handed: u64) -> bool {
        let has_settled = self.settle(handed);
        self.is_in_use = false;
        self.confirm();
        has_settled
    }

    /// Books the elements that were handed over since the last call. Returns whether any element was handed
    /// over.
    pub(super) fn settle(&mut self, handed: u64) -> bool {
        let fresh = handed - self.at_hand_settled.min(handed);
        let Some(entry) = self.at_hand.and_then(|task| self.tasks.get_mut(&task)) else {
            return false;
        };
        entry.polled -= fresh.min(entry.polled);
        self.at_hand_settled = handed;
        self.undistributed += fresh;
        self.recent.note(fresh);
        self.note_recent();
        fresh > 0
    }

    /// Returns whether workers are about to run out of credits before enough elements were handed over for a
    /// regular distribution. Such a shortage occurs with many workers, or if the limit of bytes is tighter
    /// than the limit of elements.
    fn is_short(&self) -> bool {
        if self.undistributed == 0 || !self.ready.is_empty() {
            return false;
        }
        let mut outstanding = 0;
        let mut standings = self
            .tasks
            .values()
            .map(Entry::standing)
            .filter(|task| task.is_eligible);
        let has_none = standings.any(|task| {
            outstanding += task.outstanding;
            task.outstanding == 0
        });
        has_none || outstanding < self.distribute_at
    }
}
