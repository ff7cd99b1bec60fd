//! What a reader has and is owed, shared between its lane and its consumer.
//!
//! Owns the client halves of all subscriptions of an iteration, the queue of what arrived, and the one lock around them.
//! The lane steps it once a pack, the consumer once a pack and once every few elements. Refuses to know sockets.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Cancel, Failure, Hello, ToWorker};
use millstream_dataplane::proto::receive::ReceiveError;
use millstream_dataplane::transport::{Admission, Body, Downstream, InPack, LinkLost, LinkReport};
use millstream_element::{Layout, Pack, SlotAlloc};
use parking_lot::{Condvar, Mutex};

use crate::credit::Bounds;
use crate::entry::Entry;
use crate::error::ReadError;
use crate::follow::LostSplits;
use crate::state::State;

/// A task that the reader is to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSource {
    /// The task.
    pub task: TaskId,
    /// Where its worker listens.
    pub worker: String,
    /// The dispatcher's ticket for it.
    pub ticket: Vec<u8>,
}

/// Elements on their way to the consumer.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) task: TaskId,
    pub(crate) worker: Arc<str>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) body: Body,
}

/// Which splits of a removed task this reader has elements of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenSplits {
    /// Leases of splits that it has elements of, but not all.
    pub partial: Vec<u64>,
}

/// A split that was received to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoneSplit {
    /// The task it was leased to.
    pub task: TaskId,
    /// Its lease.
    pub lease: u64,
    /// Which attempt at the split it was.
    pub attempt: u32,
}

#[derive(Debug)]
pub(crate) struct Intake {
    state: Mutex<State>,
    /// Elements of the delivery at hand that the consumer has handed over; only the consumer writes it.
    handed: AtomicU64,
    arrived: Condvar,
    consumer: AtomicWaker,
    /// Wakes whoever tells the dispatcher.
    pub(crate) reporter: AtomicWaker,
    alloc: Arc<dyn SlotAlloc>,
}

impl Intake {
    pub(crate) fn new(bounds: Bounds, alloc: Arc<dyn SlotAlloc>) -> Self {
        let state = State {
            bounds,
            tasks: BTreeMap::new(),
            links: BTreeMap::new(),
            ready: VecDeque::new(),
            at_hand: None,
            at_hand_settled: 0,
            at_hand_pack: None,
            given: None,
            lost_splits: Vec::new(),
            reports: BTreeMap::new(),
            drained: Vec::new(),
            workers_starve: false,
            done_splits: Vec::new(),
            grants: 0,
            is_open: false,
            is_iteration_over: false,
            failure: None,
        };
        let (handed, arrived) = (AtomicU64::new(0), Condvar::new());
        Self {
            state: Mutex::new(state),
            handed,
            arrived,
            consumer: AtomicWaker::new(),
            reporter: AtomicWaker::new(),
            alloc,
        }
    }

    // What the lane tells.

    /// Adds a task. True when no link to its worker is known yet.
    pub(crate) fn add_task(&self, source: TaskSource) -> bool {
        let mut state = self.state.lock();
        if state.tasks.contains_key(&source.task) {
            return false;
        }
        let worker: Arc<str> = source.worker.as_str().into();
        let is_new = !state.links.contains_key(&worker);
        let outbox = state.links.entry(worker.clone()).or_default();
        let entry = Entry::new(source, worker);
        if outbox.is_up {
            outbox.push(ToWorker::Subscribe(
                entry.half.subscribe(entry.source.ticket.clone()),
            ));
        }
        state.tasks.insert(entry.source.task, entry);
        is_new
    }

    /// Drops a task that the dispatcher removed; what arrived from it is still handed over. Says which splits that is of.
    pub(crate) fn remove_task(&self, task: TaskId) -> SeenSplits {
        let mut state = self.state.lock();
        let mut seen = SeenSplits::default();
        if let Some(entry) = state.tasks.get_mut(&task) {
            entry.remove();
            let worker = entry.worker.clone();
            if let Some(outbox) = state.links.get_mut(&worker).filter(|outbox| outbox.is_up) {
                outbox.push(ToWorker::Cancel(Cancel { task }));
            }
            seen.partial = state.seen_splits(task, &*self.alloc);
        }
        state.distribute();
        self.wake(&state);
        seen
    }

    /// Notes what a link is like.
    pub(crate) fn note_link(&self, worker: &str, report: LinkReport) {
        self.state.lock().reports.insert(worker.to_owned(), report);
    }

    /// What the links were last like, by worker.
    pub(crate) fn links(&self) -> BTreeMap<String, LinkReport> {
        self.state.lock().reports.clone()
    }

    /// Notes splits of which elements were lost with their worker.
    pub(crate) fn note_lost_splits(&self, splits: &[LostSplits]) {
        self.state.lock().lost_splits.extend(splits);
    }

    /// A task that cannot even tell its own readers has failed.
    pub(crate) fn note_failure(&self, task: TaskId, worker: &str, message: &str) {
        let mut state = self.state.lock();
        let is_heard = state
            .tasks
            .get(&task)
            .is_some_and(|entry| entry.is_subscribed || !entry.is_wanted());
        if !is_heard {
            let failure = Failure::new("task", message, "", "");
            state.failure.get_or_insert(ReadError::Task {
                worker: worker.to_owned(),
                failure,
            });
        }
        self.wake(&state);
    }

    /// The tasks whose end arrived since the last call.
    pub(crate) fn take_drained(&self) -> Vec<TaskId> {
        std::mem::take(&mut self.state.lock().drained)
    }

    /// The splits noted so far, and whether workers last said that they had nothing ready.
    pub(crate) fn lost_splits(&self) -> (Vec<LostSplits>, bool) {
        let state = self.state.lock();
        (state.lost_splits.clone(), state.workers_starve)
    }

    /// Notes the pack that the consumer takes in hand, and the leases that it met in the one before.
    pub(crate) fn note_at_hand(&self, task: TaskId, pack: &Pack, leases: &mut Vec<(TaskId, u64)>) {
        let mut state = self.state.lock();
        state.given = None;
        state.at_hand_pack = Some((task, pack.clone()));
        for (task, lease) in leases.drain(..) {
            if let Some(entry) = state
                .tasks
                .get_mut(&task)
                .filter(|entry| !entry.done.contains_key(&lease))
            {
                entry.seen.insert(lease);
            }
        }
        if let Some(entry) = state.tasks.get_mut(&task) {
            entry.forget_done();
        }
    }

    /// The dispatcher said that no further task comes.
    pub(crate) fn finish_iteration(&self) {
        let mut state = self.state.lock();
        state.is_iteration_over = true;
        self.wake(&state);
    }

    /// Ends reading with an error, behind what arrived before.
    pub(crate) fn fail(&self, error: ReadError) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(error);
        self.wake(&state);
    }

    /// A link to a worker stands: says hello and subscribes to its tasks.
    pub(crate) fn handle_link_up(&self, worker: &str) {
        let mut state = self.state.lock();
        let State { tasks, links, .. } = &mut *state;
        let Some(outbox) = links.get_mut(worker) else {
            return;
        };
        outbox.is_up = true;
        outbox.messages.clear();
        outbox.push(ToWorker::Hello(Hello::current()));
        for entry in tasks
            .values()
            .filter(|entry| &*entry.worker == worker && entry.is_wanted())
        {
            outbox.push(ToWorker::Subscribe(
                entry.half.subscribe(entry.source.ticket.clone()),
            ));
        }
    }

    /// A link broke: writes off its credits, so that the other tasks get them.
    pub(crate) fn handle_link_lost(&self, worker: &str) {
        let mut state = self.state.lock();
        if let Some(outbox) = state.links.get_mut(worker) {
            outbox.is_up = false;
            outbox.messages.clear();
        }
        for entry in state.tasks.values_mut().filter(|entry| &*entry.worker == worker) {
            entry.handle_link_lost();
        }
        state.distribute();
        self.wake(&state);
    }

    /// Whether any task of the worker is still to be read. If not, a later task of it needs a new driver.
    pub(crate) fn is_wanted(&self, worker: &str) -> bool {
        let mut state = self.state.lock();
        let of_worker = |entry: &Entry| &*entry.worker == worker && entry.is_wanted();
        let is_wanted = state.failure.is_none() && state.tasks.values().any(of_worker);
        if !is_wanted {
            state.links.remove(worker);
        }
        is_wanted
    }

    /// Takes a frame from a worker.
    pub(crate) fn handle(&self, worker: &str, frame: Downstream<InPack>) -> Result<(), LinkLost> {
        let mut state = self.state.lock();
        if state.failure.is_some() {
            // Nobody reads on behind a failure.
            return Ok(());
        }
        match frame {
            Downstream::Message(message) => state.handle_message(worker, message)?,
            Downstream::Pack(pack) => {
                let is_expected = |entry: &&mut Entry| &*entry.worker == worker && !entry.is_removed;
                let Some(entry) = state.tasks.get_mut(&pack.task).filter(is_expected) else {
                    return Ok(());
                };
                entry.half.handle_pack(pack.first, pack.elements, pack.body)?;
                state.drain(pack.task)?;
            }
        }
        state.distribute();
        self.wake(&state);
        Ok(())
    }

    /// Takes the messages that wait for a worker, or arranges to be woken for them.
    pub(crate) fn poll_outbox(&self, worker: &str, cx: &mut Context<'_>) -> Poll<ToWorker> {
        let mut state = self.state.lock();
        let Some(outbox) = state.links.get_mut(worker) else {
            return Poll::Pending;
        };
        outbox.bell.register(cx.waker());
        outbox.messages.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    /// Asks again for tasks that their workers did not know; one that stays unknown for `give_up` ends reading (D3.1).
    pub(crate) fn ask_again(&self, give_up: Duration) {
        let mut state = self.state.lock();
        let State {
            tasks,
            links,
            failure,
            ..
        } = &mut *state;
        for entry in tasks.values_mut().filter(|entry| entry.is_wanted()) {
            let subscribe = entry.half.subscribe(entry.source.ticket.clone());
            let Some(unknown) = entry.unknown.as_mut().filter(|unknown| !unknown.is_asked) else {
                continue;
            };
            if unknown.since.elapsed() > give_up {
                let (worker, reason) = (entry.worker.to_string(), unknown.reason.clone());
                failure.get_or_insert(ReadError::Refused {
                    worker,
                    task: entry.source.task.0,
                    reason,
                });
            } else if let Some(outbox) = links.get_mut(&entry.worker).filter(|outbox| outbox.is_up) {
                unknown.is_asked = true;
                outbox.push(ToWorker::Subscribe(subscribe));
            }
        }
        self.wake(&state);
    }

    /// Books what the consumer handed over, also when it has fallen silent in the middle of a pack.
    pub(crate) fn settle(&self) {
        let mut state = self.state.lock();
        if state.settle(&self.handed) {
            state.distribute();
        }
    }

    /// The splits that were received to their ends since the last call.
    pub(crate) fn take_done_splits(&self) -> Vec<DoneSplit> {
        std::mem::take(&mut self.state.lock().done_splits)
    }

    // What the consumer asks.

    /// The next elements; `Ok(None)` at the end. Registers the waker when there is nothing yet.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Delivery>, ReadError>> {
        self.consumer.register(cx.waker());
        self.try_next()
    }

    /// The same for a thread, which waits `timeout` at most. `Pending` when nothing came.
    pub(crate) fn wait_next(&self, timeout: Duration) -> Poll<Result<Option<Delivery>, ReadError>> {
        let until = Instant::now() + timeout;
        let mut state = self.state.lock();
        loop {
            if let Poll::Ready(next) = state.next(&self.handed) {
                return Poll::Ready(next);
            }
            if self.arrived.wait_until(&mut state, until).timed_out() {
                return state.next(&self.handed);
            }
        }
    }

    /// The same without waiting.
    pub(crate) fn try_next(&self) -> Poll<Result<Option<Delivery>, ReadError>> {
        self.state.lock().next(&self.handed)
    }

    /// Counts one more element of the delivery at hand as handed over.
    pub(crate) fn count_handed(&self, elements: u64) {
        self.handed.store(elements, Ordering::Release);
    }

    /// How many hand-overs may go unreported: an eighth of what may be outstanding.
    pub(crate) fn settle_every(&self) -> u64 {
        let state = self.state.lock();
        let standings = state.standings();
        (state.bounds.elements(&standings) / 8).clamp(1, 4096)
    }

    /// Stops wanting anything: cancels every subscription.
    pub(crate) fn cancel(&self) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(ReadError::Cancelled);
        let State { tasks, links, .. } = &mut *state;
        for entry in tasks.values() {
            if let Some(outbox) = links.get_mut(&entry.worker).filter(|outbox| outbox.is_up) {
                outbox.push(ToWorker::Cancel(Cancel {
                    task: entry.source.task,
                }));
            }
        }
        self.wake(&state);
    }

    /// Where decompressed elements go.
    pub(crate) fn alloc(&self) -> &dyn SlotAlloc {
        &*self.alloc
    }

    fn wake(&self, state: &State) {
        if !state.ready.is_empty() || state.failure.is_some() || state.is_over() {
            self.arrived.notify_all();
            self.consumer.wake();
        }
        if !state.done_splits.is_empty() {
            self.reporter.wake();
        }
    }
}

impl Admission for Intake {
    fn admit(&self, task: TaskId, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError> {
        let mut state = self.state.lock();
        match state.tasks.get_mut(&task) {
            Some(entry) => entry.admit(first, elements, region_bytes),
            None => Err(ReceiveError::Contradiction { count: first }),
        }
    }

    fn slot_alloc(&self) -> &dyn SlotAlloc {
        &*self.alloc
    }
}
