//! The state of a reader: where each task and each link stands, and what waits for the consumer.
//!
//! Everything here runs under the one lock of the [`Intake`](crate::intake::Intake), and nothing in it waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Cancel, Grant, RefusalCode, Refused, ToClient, ToWorker};
use millstream_dataplane::proto::receive::Arrival;
use millstream_dataplane::transport::{Body, LinkLost, LinkReport};
use millstream_element::{ElementSpec, Layout, Pack};
use tokio::time::Instant;

use crate::auto::Auto;
use crate::credit::{Bounds, Standing, distribute, distribute_in_turn};
use crate::entry::{Entry, Outbox, task_of};
use crate::error::ReadError;
use crate::intake::{Delivery, Handing};
use crate::loss::Losses;
use crate::reach::{Outages, Trouble};
use crate::recent::Recent;
use crate::remains::Remains;
use crate::schedule::Schedule;
use crate::unreported::Unreported;
use crate::verdict::Looks;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) bounds: Bounds,
    pub(crate) auto: Auto,
    pub(crate) recent: Recent,
    pub(crate) tasks: BTreeMap<TaskId, Entry>,
    pub(crate) links: BTreeMap<Arc<str>, Outbox>,
    pub(crate) ready: VecDeque<Delivery>,
    /// Whose turn it is, in coordinated reads: there each task keeps what arrived of it.
    pub(crate) schedule: Option<Schedule>,
    pub(crate) at_hand: Option<TaskId>,
    pub(crate) at_hand_settled: u64,
    /// The consumer has not come back for more, so it may still use the latest element of those at hand.
    pub(crate) is_in_use: bool,
    /// The dispatcher may have ended this reader, so that nothing more is handed over.
    pub(crate) is_fenced: bool,
    /// The pack at hand, or last at hand while the consumer waits: its elements all count as seen.
    pub(crate) at_hand_pack: Option<(TaskId, Pack)>,
    /// What the consumer was given and has not yet taken in hand: counts as seen as well.
    pub(crate) given: Option<(TaskId, Body)>,
    /// Splits that were lost, and why their workers went.
    pub(crate) losses: Losses,
    /// What each link was last said to be like.
    pub(crate) reports: BTreeMap<String, LinkReport>,
    pub(crate) unreported: Unreported,
    pub(crate) grants: u64,
    /// Elements that were handed over since credits were last distributed.
    pub(crate) undistributed: u64,
    /// How many of them are distributed at once: an eighth of what may be outstanding, so that a grant is worth its message.
    pub(crate) distribute_at: u64,
    pub(crate) is_open: bool,
    pub(crate) is_iteration_over: bool,
    pub(crate) failure: Option<ReadError>,
    pub(crate) outages: Outages,
    /// There is no task to read.
    pub(crate) idle: Option<Trouble>,
    /// What the consumer was found to wait for.
    pub(crate) looks: Looks,
    /// Some worker or task was given up at some time.
    pub(crate) has_given_up: bool,
    /// The consumer's thread is at it, which carries the messages for workers of its host itself.
    pub(crate) is_consumer: bool,
}

impl State {
    pub(crate) fn next(&mut self, handed: &AtomicU64) -> Poll<Result<Option<Handing>, ReadError>> {
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
            handed.store(0, Ordering::Release);
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

    /// The consumer is done with everything that was handed over; true if anything was since the last time.
    pub(crate) fn stop_using(&mut self, handed: &AtomicU64) -> bool {
        let has_settled = self.settle(handed);
        self.is_in_use = false;
        self.confirm();
        has_settled
    }

    /// Whether workers are about to be out of credits though fewer were handed over than are distributed at once: where there
    /// are many of them, or bytes bound what is outstanding more than elements do.
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

    /// Whether a worker of this host is to be told something.
    pub(crate) fn is_to_carry(&self) -> bool {
        let mut outboxes = self.links.values();
        outboxes.any(|outbox| outbox.is_up && outbox.is_local && !outbox.messages.is_empty())
    }

    /// Whether the consumer need not wait.
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

    pub(crate) fn is_over(&self) -> bool {
        self.is_iteration_over
            && self.ready.is_empty()
            && !self.has_turn()
            && self.tasks.values().all(|entry| !entry.is_wanted())
    }

    /// Books what was handed over since the last time; true if anything was.
    pub(crate) fn settle(&mut self, handed: &AtomicU64) -> bool {
        let handed = handed.load(Ordering::Acquire);
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

    /// Bounds what may be outstanding by what was handed over of late, where others share the job (D4.8).
    pub(crate) fn note_recent(&mut self) {
        if let Some(shared) = &mut self.bounds.shared {
            *shared = self.recent.elements();
        }
    }

    pub(crate) fn handle_message(&mut self, worker: &str, message: ToClient) -> Result<(), LinkLost> {
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
            // A worker that came back at its old address knows neither its old tasks nor their tickets; the dispatcher
            // is about to say so.
            ToClient::Refused(Refused {
                code: RefusalCode::UnknownTask | RefusalCode::BadTicket,
                message,
                ..
            }) => {
                entry.note_unknown(message, Instant::now(), &self.outages);
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

    /// Moves what arrived in order to where the consumer finds it.
    pub(crate) fn drain(&mut self, task: TaskId) -> Result<(), LinkLost> {
        let is_in_use = self.in_use() == Some(task);
        let Some(entry) = self.tasks.get_mut(&task) else {
            return Ok(());
        };
        while let Some(arrival) = entry.half.poll() {
            match arrival {
                Arrival::Pack { elements, body } => {
                    let Some(layout) = entry.layout.clone() else {
                        return Err(LinkLost::Misbehaved(format!(
                            "task {task} sent elements before its specification"
                        )));
                    };
                    self.auto.note_arrival(body.region_bytes());
                    entry.polled += elements;
                    entry.delivered += elements;
                    let worker = entry.worker.clone();
                    let delivery = Delivery {
                        task,
                        worker,
                        layout,
                        body,
                    };
                    if self.schedule.is_some() {
                        entry.in_turn.queue.push_back(delivery);
                    } else {
                        self.ready.push_back(delivery);
                    }
                }
                // A lease is of one attempt, so it says enough.
                Arrival::SplitDone { lease, attempt: _ } => {
                    entry.note_done(lease);
                    if self.schedule.is_some() {
                        self.unreported.note_done(task, lease);
                    } else {
                        entry.unconfirmed.push_back((entry.delivered, lease));
                        for lease in entry.confirm(entry.used(is_in_use)) {
                            self.unreported.note_done(task, lease);
                        }
                    }
                }
                Arrival::End => {
                    entry.finish();
                    self.unreported.note_waiting(task, entry.waiting_splits());
                    self.unreported.note_drained(task);
                    // Tells the worker that it may forget this reader.
                    if let Some(outbox) = self.links.get_mut(&entry.worker).filter(|outbox| outbox.is_up) {
                        outbox.push(ToWorker::Cancel(Cancel { task, has_all: true }));
                    }
                }
                Arrival::Failed(failure) => {
                    entry.finish();
                    let worker = entry.worker.to_string();
                    let failure = ReadError::Task { worker, failure };
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
        if entry.half.owes_acknowledgement() {
            let acknowledgement = entry.half.acknowledge();
            self.tell(task, acknowledgement);
        }
        Ok(())
    }

    /// Grants what is free. Nothing is granted before the consumer asked for its first element.
    pub(crate) fn distribute(&mut self) {
        if !self.is_open || self.failure.is_some() {
            return;
        }
        let standings = self.standings();
        self.undistributed = 0;
        self.distribute_at = match &self.schedule {
            None => (self.bounds.elements(&standings) / 8).max(1),
            // The next turn may be anybody's.
            Some(_) => 1,
        };
        let grants = match &self.schedule {
            None => distribute(&self.bounds, &standings),
            Some(schedule) => {
                let window = schedule.window(self.bounds.elements(&standings));
                distribute_in_turn(&self.bounds, &standings, &window)
            }
        };
        for (task, credits) in grants {
            self.grants += 1;
            let grants = self.grants;
            if let Some(entry) = self.tasks.get_mut(&task) {
                entry.granted_at = grants;
                let grant = entry.half.grant(credits, entry.credit_bytes());
                self.tell(task, grant);
            }
        }
    }

    /// Counts an element that was handed over as outstanding.
    pub(crate) fn keep(&mut self, task: TaskId) {
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.kept += 1;
        }
    }

    /// Does so no more with one of the task.
    pub(crate) fn let_go(&mut self, task: TaskId) {
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.kept = entry.kept.saturating_sub(1);
        }
        self.distribute();
    }

    pub(crate) fn tell(&mut self, task: TaskId, mut grant: Grant) {
        let is_in_use = self.in_use() == Some(task);
        let Some(entry) = self.tasks.get_mut(&task) else {
            return;
        };
        // D4.6
        grant.waiting = Some(entry.standing().waiting);
        if self.schedule.is_none() {
            entry.used_told = entry.used(is_in_use);
            grant.handed = Some(entry.used_told);
        }
        if let Some(outbox) = self.links.get_mut(&entry.worker).filter(|outbox| outbox.is_up) {
            // The latest grant says all that earlier ones did.
            match outbox.messages.back_mut() {
                Some(ToWorker::Grant(last)) if last.task == task => *last = grant,
                Some(_) | None => outbox.messages.push_back(ToWorker::Grant(grant)),
            }
            outbox.stirred_at = Some(Instant::now());
            if !(self.is_consumer && outbox.is_local) {
                outbox.bell.wake();
            }
        }
    }

    /// The task whose latest element the user may still use.
    fn in_use(&self) -> Option<TaskId> {
        self.at_hand
            .filter(|_| self.is_in_use && self.at_hand_settled > 0)
    }

    /// Reports the splits of all tasks that the user is done with. True if there were any.
    pub(crate) fn confirm(&mut self) -> bool {
        let tasks = self.tasks.iter();
        let waiting = tasks.filter(|(_, entry)| !entry.unconfirmed.is_empty());
        let tasks: smallvec::SmallVec<[TaskId; 8]> = waiting.map(|(task, _)| *task).collect();
        let mut has_confirmed = false;
        for task in tasks {
            has_confirmed |= self.confirm_of(task);
        }
        has_confirmed
    }

    fn confirm_of(&mut self, task: TaskId) -> bool {
        let is_in_use = self.in_use() == Some(task);
        let Some(entry) = self.tasks.get_mut(&task) else {
            return false;
        };
        let used = entry.used(is_in_use);
        let mut has_confirmed = false;
        for lease in entry.confirm(used) {
            has_confirmed = true;
            self.unreported.note_done(task, lease);
        }
        has_confirmed
    }

    /// Tells workers what arrived without anything being granted since. False if that is nothing.
    pub(crate) fn acknowledge(&mut self) -> bool {
        let (in_use, is_coordinated) = (self.in_use(), self.schedule.is_some());
        let owed = self.tasks.iter_mut();
        let owed: Vec<_> = owed
            .filter_map(|(task, entry)| {
                let used = if is_coordinated {
                    0
                } else {
                    entry.used(in_use == Some(*task))
                };
                Some((*task, entry.acknowledgement(used)?))
            })
            .collect();
        let is_owed = !owed.is_empty();
        for (task, grant) in owed {
            self.tell(task, grant);
        }
        is_owed
    }

    /// The worker does not know the task: says whether it never will, going by what the dispatcher said.
    pub(crate) fn judge_unknown(&mut self, task: TaskId) {
        if self.tasks.get(&task).is_none_or(|entry| entry.unknown.is_none())
            || self.take_word_for_failure(task)
        {
            return;
        }
        if let Some(entry) = self.tasks.get_mut(&task).filter(|_| self.is_iteration_over) {
            // Everything was delivered or named as lost before the dispatcher said so (C3.3, C3.4).
            entry.finish();
        }
    }

    /// Once the iteration is over nobody says any more whether a worker out of reach will come back (C6.6).
    pub(crate) fn judge_unreachable(&mut self) {
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

    /// Takes the dispatcher's word that a task failed, where it has said so: its worker will not any more. In a coordinated read that
    /// ends reading when it is the task's turn (D7.5).
    pub(crate) fn take_word_for_failure(&mut self, task: TaskId) -> bool {
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

    /// The dispatcher says that nothing more comes of a task.
    pub(crate) fn end_task(&mut self, task: TaskId) {
        if self.tasks.get(&task).is_none_or(|entry| !entry.is_wanted()) || self.take_word_for_failure(task) {
            return;
        }
        let Some(entry) = self.tasks.get_mut(&task) else {
            return;
        };
        entry.remove();
        let worker = entry.worker.clone();
        self.end_in_turn(task);
        if let Some(outbox) = self.links.get_mut(&worker).filter(|outbox| outbox.is_up) {
            outbox.push(ToWorker::Cancel(Cancel { task, has_all: false }));
        }
    }

    /// What is here of a task, to be looked through away from the lock.
    pub(crate) fn remains(&self, task: TaskId) -> Remains {
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

    pub(crate) fn standings(&self) -> Vec<Standing> {
        self.tasks.values().map(Entry::standing).collect()
    }
}
