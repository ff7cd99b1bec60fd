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
use millstream_dataplane::proto::message::{
    Cancel, Failure, Grant, Hello, RefusalCode, Refused, ToClient, ToWorker,
};
use millstream_dataplane::proto::receive::{Arrival, ReceiveError};
use millstream_dataplane::transport::{Admission, Body, Downstream, InPack, LinkLost, LinkReport};
use millstream_element::{Element, ElementSpec, Layout, Origin, Pack, SlotAlloc};
use parking_lot::{Condvar, Mutex};

use crate::credit::{Bounds, Standing, distribute};
use crate::entry::{Entry, Outbox, task_of};
use crate::error::ReadError;
use crate::follow::LostSplits;

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

#[derive(Debug)]
struct State {
    bounds: Bounds,
    tasks: BTreeMap<TaskId, Entry>,
    links: BTreeMap<Arc<str>, Outbox>,
    ready: VecDeque<Delivery>,
    at_hand: Option<TaskId>,
    at_hand_settled: u64,
    /// The pack at hand, or last at hand while the consumer waits: its elements all count as seen.
    at_hand_pack: Option<(TaskId, Pack)>,
    /// What the consumer was given and has not yet taken in hand: counts as seen as well.
    given: Option<(TaskId, Body)>,
    lost_splits: Vec<LostSplits>,
    /// What each link was last said to be like.
    reports: BTreeMap<String, LinkReport>,
    drained: Vec<TaskId>,
    workers_starve: bool,
    done_splits: Vec<DoneSplit>,
    grants: u64,
    is_open: bool,
    is_iteration_over: bool,
    failure: Option<ReadError>,
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

impl State {
    fn next(&mut self, handed: &AtomicU64) -> Poll<Result<Option<Delivery>, ReadError>> {
        let is_first = !std::mem::replace(&mut self.is_open, true);
        if self.settle(handed) || is_first {
            self.at_hand = None;
            self.distribute();
        }
        if let Some(delivery) = self.ready.pop_front() {
            self.at_hand = Some(delivery.task);
            self.given = Some((delivery.task, delivery.body.clone()));
            self.at_hand_settled = 0;
            handed.store(0, Ordering::Release);
            return Poll::Ready(Ok(Some(delivery)));
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

    fn is_over(&self) -> bool {
        self.is_iteration_over && self.ready.is_empty() && self.tasks.values().all(|entry| !entry.is_wanted())
    }

    /// Books what was handed over since the last time; true if anything was.
    fn settle(&mut self, handed: &AtomicU64) -> bool {
        let handed = handed.load(Ordering::Acquire);
        let fresh = handed - self.at_hand_settled.min(handed);
        let Some(entry) = self.at_hand.and_then(|task| self.tasks.get_mut(&task)) else {
            return false;
        };
        entry.polled -= fresh.min(entry.polled);
        self.at_hand_settled = handed;
        fresh > 0
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
                entry.unknown = None;
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
                entry.note_unknown(message);
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
            ToClient::Yielded(_) => (entry.has_yielded, self.workers_starve) = (true, true),
            // After a yield it only has something again; without one it has more than it was given credits for.
            ToClient::Need(_) => self.workers_starve &= std::mem::take(&mut entry.has_yielded),
            ToClient::Hello(_)
            | ToClient::SplitDone(_)
            | ToClient::TaskError(_)
            | ToClient::EndOfTask(_)
            | ToClient::Skip(_) => {}
        }
        entry.half.handle(message)?;
        let element_bytes = entry.half.element_bytes();
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
    fn drain(&mut self, task: TaskId) -> Result<(), LinkLost> {
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
                    entry.polled += elements;
                    entry.delivered += elements;
                    self.ready.push_back(Delivery {
                        task,
                        worker: entry.worker.clone(),
                        layout,
                        body,
                    });
                }
                Arrival::SplitDone { lease, attempt } => {
                    entry.note_done(lease);
                    self.done_splits.push(DoneSplit { task, lease, attempt });
                }
                Arrival::End => {
                    entry.finish();
                    self.drained.push(task);
                    // Tells the worker that it may forget this reader.
                    if let Some(outbox) = self.links.get_mut(&entry.worker).filter(|outbox| outbox.is_up) {
                        outbox.push(ToWorker::Cancel(Cancel { task }));
                    }
                }
                Arrival::Failed(failure) => {
                    entry.finish();
                    self.failure.get_or_insert(ReadError::Task {
                        worker: entry.worker.to_string(),
                        failure,
                    });
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
    fn distribute(&mut self) {
        if !self.is_open || self.failure.is_some() {
            return;
        }
        for (task, credits) in distribute(&self.bounds, &self.standings()) {
            self.grants += 1;
            let grants = self.grants;
            if let Some(entry) = self.tasks.get_mut(&task) {
                entry.granted_at = grants;
                let grant = entry.half.grant(credits, entry.credit_bytes());
                self.tell(task, grant);
            }
        }
    }

    fn tell(&mut self, task: TaskId, grant: Grant) {
        let Some(entry) = self.tasks.get(&task) else {
            return;
        };
        if let Some(outbox) = self.links.get_mut(&entry.worker).filter(|outbox| outbox.is_up) {
            // The latest grant says all that earlier ones did.
            match outbox.messages.back_mut() {
                Some(ToWorker::Grant(last)) if last.task == task => *last = grant,
                Some(_) | None => outbox.messages.push_back(ToWorker::Grant(grant)),
            }
            outbox.bell.wake();
        }
    }

    /// Leases of splits of which there are elements here, but not all.
    fn seen_splits(&self, task: TaskId, alloc: &dyn SlotAlloc) -> Vec<u64> {
        let Some(entry) = self.tasks.get(&task) else {
            return Vec::new();
        };
        let mut seen = entry.seen.clone();
        let waiting = self.ready.iter().map(|delivery| (delivery.task, &delivery.body));
        let waiting = waiting
            .chain(self.given.iter().map(|(of, body)| (*of, body)))
            .filter(|(of, _)| *of == task);
        let mut packs: Vec<Pack> = waiting
            .filter_map(|(_, body)| body.clone().open(alloc).ok())
            .collect();
        packs.extend(
            self.at_hand_pack
                .iter()
                .filter(|(of, _)| *of == task)
                .map(|(_, pack)| pack.clone()),
        );
        for slot in packs.iter().flat_map(Pack::slots) {
            let Some(layout) = &entry.layout else { break };
            // One that cannot be read is reported when its turn comes.
            let Ok(element) = Element::open(slot, layout, Origin::Ours) else {
                continue;
            };
            seen.extend(element.provenance().iter().map(|provenance| provenance.lease));
        }
        seen.into_iter()
            .filter(|lease| !entry.done.contains_key(lease))
            .collect()
    }

    fn standings(&self) -> Vec<Standing> {
        self.tasks.values().map(Entry::standing).collect()
    }
}
