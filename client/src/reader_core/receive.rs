//! Handles frames from workers: messages about tasks, and packs of elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Cancel, RefusalCode, Refused, ToClient, ToWorker};
use millstream_dataplane::proto::receive::{Arrival, ReceiveError};
use millstream_dataplane::transport::{Downstream, LinkLost};
use millstream_element::{ElementSpec, Layout};

use super::entry::Entry;
use super::state::ReaderCore;
use crate::error::ReadError;

impl ReaderCore {
    /// Handles a frame from a worker.
    ///
    /// # Errors
    /// Fails if the worker broke the protocol.
    pub(crate) fn handle(&mut self, worker: &str, frame: Downstream) -> Result<(), LinkLost> {
        if self.failure.is_some() {
            // Nothing is read after a failure.
            return Ok(());
        }
        match frame {
            Downstream::Message(message) => {
                self.handle_message(worker, message)?;
                self.distribute();
            }
            Downstream::Pack(pack) => {
                if let Some(outbox) = self.links.get_mut(worker) {
                    outbox.packs_on_way = outbox.packs_on_way.saturating_sub(1);
                    outbox.stirred_at = Some(self.now);
                }
                let is_expected = |entry: &&mut Entry| &*entry.worker == worker && !entry.is_removed;
                let Some(entry) = self.tasks.get_mut(&pack.task).filter(is_expected) else {
                    return Ok(());
                };
                let elements = pack.pack.len() as u64;
                entry.half.handle_pack(pack.first, elements, pack.pack)?;
                // Arrived elements still count as outstanding, so no credits are distributed.
                self.drain(pack.task)?;
            }
        }
        Ok(())
    }

    /// Admits a pack whose header has arrived.
    ///
    /// # Errors
    /// Fails if the pack exceeds the granted credits.
    pub(crate) fn admit(
        &mut self,
        task: TaskId,
        first: u64,
        elements: u64,
        region_bytes: u64,
    ) -> Result<(), ReceiveError> {
        let Some(entry) = self.tasks.get_mut(&task) else {
            return Err(ReceiveError::Contradiction { count: first });
        };
        entry.admit(first, elements, region_bytes)?;
        if let Some(outbox) = self.links.get_mut(&entry.worker) {
            outbox.packs_on_way += 1;
        }
        Ok(())
    }

    fn handle_message(&mut self, worker: &str, message: ToClient) -> Result<(), LinkLost> {
        let Some(task) = task_of(&message) else {
            return Ok(());
        };
        let Some(entry) = self
            .tasks
            .get_mut(&task)
            .filter(|entry| &*entry.worker == worker && !entry.is_removed)
        else {
            return Ok(());
        };
        match &message {
            ToClient::Accepted(accepted) => {
                entry.is_subscribed = true;
                (entry.unknown, entry.given_up) = (None, None);
                if entry.layout.is_none() {
                    let spec = ElementSpec::from_bytes(&accepted.spec)
                        .map_err(|error| LinkLost::Misbehaved(format!("task {task}: {error}")))?;
                    let layout = Layout::new(spec)
                        .map_err(|error| LinkLost::Misbehaved(format!("task {task}: {error}")))?;
                    entry.layout = Some(layout);
                }
            }
            // A worker that restarted at its old address knows neither its old tasks nor their tickets. The
            // dispatcher will soon report the restart.
            ToClient::Refused(Refused {
                code: RefusalCode::UnknownTask | RefusalCode::BadTicket,
                message,
                ..
            }) => {
                entry.note_unknown(message, self.now, &self.outages);
                self.judge_unknown(task);
                return Ok(());
            }
            ToClient::Refused(refused) => {
                let (worker, reason) = (worker.to_owned(), refused.message.clone());
                let refused = ReadError::Refused {
                    worker,
                    task: task.0,
                    reason,
                };
                self.failure.get_or_insert(refused);
                return Ok(());
            }
            ToClient::Yielded(_) => entry.has_yielded = true,
            ToClient::Need(_) => entry.has_yielded = false,
            ToClient::Hello(_)
            | ToClient::SplitDone(_)
            | ToClient::TaskError(_)
            | ToClient::EndOfTask(_)
            | ToClient::Released(_) => {}
        }
        let is_accepted = matches!(message, ToClient::Accepted(_));
        entry.half.handle(message)?;
        let element_bytes = entry.half.element_bytes();
        if is_accepted {
            self.note_answer(worker);
        }
        if !self.bounds.can_hold(element_bytes) {
            let max_outstanding_bytes = self.bounds.max_outstanding_bytes;
            let error = ReadError::ElementTooLarge {
                task: task.0,
                element_bytes,
                max_outstanding_bytes,
            };
            self.failure.get_or_insert(error);
            return Ok(());
        }
        self.drain(task)
    }

    /// Moves elements that arrived in order to the queue from which the consumer takes them.
    fn drain(&mut self, task: TaskId) -> Result<(), LinkLost> {
        let (is_in_use, mut has_ended) = (self.in_use() == Some(task), false);
        let Some(entry) = self.tasks.get_mut(&task) else {
            return Ok(());
        };
        while let Some(arrival) = entry.half.poll() {
            match arrival {
                Arrival::Pack { elements, body } => {
                    let Some(delivery) = entry.deliver(elements, body, self.now) else {
                        return Err(LinkLost::Misbehaved(format!(
                            "task {task} sent elements before its specification"
                        )));
                    };
                    self.auto.note_arrival(delivery.body.region_bytes());
                    if self.schedule.is_some() {
                        entry.in_turn.queue.push_back(delivery);
                    } else {
                        self.ready.push_back(delivery);
                    }
                }
                // The lease identifies the attempt, so the attempt number is not needed.
                Arrival::SplitDone { lease, attempt: _ } => {
                    entry.note_done(lease);
                    if self.schedule.is_some() {
                        entry.await_release(lease);
                    } else {
                        entry.unconfirmed.push_back((entry.delivered, lease));
                        let done = entry.confirm(entry.used(is_in_use));
                        done.for_each(|lease| self.unreported.note_done(task, lease));
                    }
                }
                Arrival::End => {
                    entry.finish();
                    has_ended = true;
                }
                Arrival::Failed(failure) => {
                    entry.finish();
                    let failure = ReadError::task(&entry.worker, failure);
                    if self.schedule.is_some() {
                        entry.in_turn.failed = Some(failure);
                        // C9.7
                        self.unreported.note_drained(task);
                    } else {
                        self.failure.get_or_insert(failure);
                    }
                }
            }
        }
        if self.schedule.is_some() {
            let done = entry.confirm_released(has_ended);
            done.for_each(|lease| self.unreported.note_done(task, lease));
        }
        if has_ended {
            self.unreported.note_waiting(task, entry.waiting_splits());
            self.unreported.note_drained(task);
        }
        let worker = Arc::clone(&entry.worker);
        let is_owed = entry.half.owes_acknowledgement();
        let acknowledgement = is_owed.then(|| entry.half.acknowledge());
        if has_ended {
            self.end_of_data_in_turn(task);
            // Allows the worker to forget this reader.
            self.push(&worker, ToWorker::Cancel(Cancel { task, has_all: true }));
        }
        if let Some(acknowledgement) = acknowledgement {
            self.tell(task, acknowledgement);
        }
        Ok(())
    }
}

/// Returns the task that a message is about.
fn task_of(message: &ToClient) -> Option<TaskId> {
    match message {
        ToClient::Hello(_) => None,
        ToClient::Accepted(message) => Some(message.task),
        ToClient::Refused(message) => Some(message.task),
        ToClient::Yielded(message) => Some(message.task),
        ToClient::Need(message) => Some(message.task),
        ToClient::SplitDone(message) => Some(message.task),
        ToClient::TaskError(message) => Some(message.task),
        ToClient::EndOfTask(message) => Some(message.task),
        ToClient::Released(message) => Some(message.task),
    }
}
