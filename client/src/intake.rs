//! What a reader has and is owed, shared between its lane and its consumer.
//!
//! Owns the client halves of all subscriptions of an iteration, the queue of what arrived, and the one lock around them.
//! The lane steps it once a pack, the consumer once a pack and once every few elements. Refuses to know sockets.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Cancel, Hello, ToWorker};
use millstream_dataplane::proto::receive::ReceiveError;
use millstream_dataplane::transport::{Admission, Body, Downstream, InPack, LinkLost, LinkReport, Nap};
use millstream_element::{Layout, Pack, SlotAlloc};
use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

use crate::auto::{Auto, LOCAL_ROUND_TRIP};
use crate::copies::Copies;
use crate::credit::Bounds;
#[cfg(test)]
use crate::credit::Standing;
use crate::entry::Entry;
use crate::error::ReadError;
use crate::follow::Report;
use crate::loss::Losses;
use crate::notice::Notices;
use crate::place::WorkerPlace;
use crate::reach::Outages;
use crate::recent::Recent;
use crate::remains::Remains;
use crate::schedule::Schedule;
use crate::state::State;
use crate::unreported::Unreported;
use crate::verdict::Looks;
use crate::waiting::Carriers;

/// A task that the reader is to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSource {
    /// The task.
    pub task: TaskId,
    /// Where its worker is.
    pub worker: WorkerPlace,
    /// The dispatcher's ticket for it.
    pub ticket: Vec<u8>,
    /// The first round of a coordinated read that it takes part in; `None`: that is settled later. Else without a meaning.
    pub start_round: Option<u64>,
}

/// What the consumer is given.
#[derive(Debug)]
pub(crate) enum Handing {
    /// All elements of a delivery.
    Pack(Delivery),
    /// The first element of one, in a coordinated read.
    First(Delivery),
    /// A further element of a pack that the consumer opened before.
    Further {
        task: TaskId,
        worker: Arc<str>,
        layout: Arc<Layout>,
        pack: Pack,
        index: usize,
    },
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
    /// Leases of splits that it has elements of, but not all: ascending, apart from each other. More than the task ever
    /// held counts as all of those.
    pub partial: Vec<RangeInclusive<u64>>,
    /// In coordinated reads: how many of the task's groups this reader hands over without knowing the verdict.
    pub released: u64,
}

impl SeenSplits {
    /// Something is here that cannot be read, so it may be of any split.
    pub(crate) fn everything() -> Self {
        Self {
            partial: vec![0..=u64::MAX],
            released: 0,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) state: Mutex<State>,
    /// Elements of the delivery at hand that the consumer has handed over; only the consumer writes it.
    pub(crate) handed: AtomicU64,
    pub(crate) arrived: Condvar,
    consumer: AtomicWaker,
    /// Links that the consumer carries as well.
    pub(crate) carriers: Mutex<Carriers>,
    pub(crate) nap: Nap,
    alloc: Arc<dyn SlotAlloc>,
    copies: Copies,
    /// As which trainer the iteration is read.
    trainer_id: Option<Arc<str>>,
    /// A split is one element at most.
    pub(crate) whole_splits: bool,
    notices: Notices,
}

impl Intake {
    /// `is_coordinated` says that this reader is one of several consumers that read in step.
    pub(crate) fn new(
        bounds: Bounds,
        alloc: Arc<dyn SlotAlloc>,
        is_coordinated: bool,
        trainer_id: Option<Arc<str>>,
        notices: Notices,
    ) -> Self {
        let state = State {
            bounds,
            auto: Auto::default(),
            recent: Recent::default(),
            tasks: BTreeMap::new(),
            links: BTreeMap::new(),
            ready: VecDeque::new(),
            schedule: is_coordinated.then(Schedule::default),
            at_hand: None,
            at_hand_settled: 0,
            is_in_use: false,
            is_fenced: false,
            at_hand_pack: None,
            given: None,
            losses: Losses::default(),
            reports: BTreeMap::new(),
            unreported: Unreported::default(),
            grants: 0,
            undistributed: 0,
            distribute_at: 1,
            is_open: false,
            is_iteration_over: false,
            failure: None,
            outages: Outages::default(),
            idle: None,
            looks: Looks::default(),
            has_given_up: false,
            is_consumer: false,
        };
        let (handed, arrived) = (AtomicU64::new(0), Condvar::new());
        Self {
            state: Mutex::new(state),
            handed,
            arrived,
            consumer: AtomicWaker::new(),
            carriers: Mutex::default(),
            nap: Nap::default(),
            alloc,
            copies: Copies::default(),
            trainer_id,
            whole_splits: false,
            notices,
        }
    }

    // What the lane tells.

    /// Adds a task. True when no link to its worker is known yet.
    pub(crate) fn add_task(&self, source: TaskSource) -> bool {
        let mut state = self.state.lock();
        state.add_to_schedule(&source);
        if state.tasks.contains_key(&source.task) {
            return false;
        }
        let is_coordinated = state.schedule.is_some();
        let worker: Arc<str> = source.worker.address.as_str().into();
        let is_new = !state.links.contains_key(&worker);
        let outbox = state.links.entry(worker.clone()).or_default();
        outbox.move_to(source.worker.clone());
        // The dispatcher has heard of it since.
        (outbox.trouble, outbox.given_up) = (None, None);
        let mut entry = Entry::new(source, worker, is_coordinated, self.trainer_id.clone());
        if outbox.is_up {
            entry.is_local = outbox.is_local;
            outbox.push(ToWorker::Subscribe(entry.subscribe()));
        }
        state.tasks.insert(entry.source.task, entry);
        is_new
    }

    /// Drops a task that the dispatcher removed for a reason; what arrived from it is still handed over, and is what remains.
    pub(crate) fn remove_task(&self, task: TaskId, reason: &str) -> Remains {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(entry) = state.tasks.get_mut(&task) {
            entry.remove();
            state.losses.note_removed(&entry.worker, reason);
            state.unreported.note_waiting(task, entry.waiting_splits());
            if let Some(outbox) = state.links.get_mut(&entry.worker).filter(|outbox| outbox.is_up) {
                outbox.push(ToWorker::Cancel(Cancel { task, has_all: false }));
            }
        }
        state.freeze(task);
        let remains = state.remains(task);
        state.distribute();
        self.wake(state);
        remains
    }

    /// Notes what was seen of a removed task, for the dispatcher.
    pub(crate) fn note_removed(&self, task: TaskId, mut seen: SeenSplits) {
        let unreported = &mut self.state.lock().unreported;
        if self.whole_splits && seen.partial != SeenSplits::everything().partial {
            // The worker had not yet said that they ended.
            for lease in std::mem::take(&mut seen.partial).into_iter().flatten() {
                unreported.note_done(task, lease);
            }
        }
        unreported.note_removed(task, seen);
    }

    /// The dispatcher said that nothing more comes of a task: whoever waits for its end need not.
    pub(crate) fn end_task(&self, task: TaskId) {
        let mut state = self.state.lock();
        state.end_task(task);
        state.distribute();
        self.wake(&state);
    }

    /// All tasks are known that a coordinated read began with.
    pub(crate) fn open_schedule(&self) {
        self.change_schedule(|state| state.open_schedule());
    }

    /// The dispatcher said from when on a task takes part in a coordinated read.
    pub(crate) fn settle_start(&self, task: TaskId, start_round: u64) {
        self.change_schedule(|state| state.settle_start(task, start_round));
    }

    /// The dispatcher said how much of a removed task is handed over in a coordinated read.
    pub(crate) fn conclude_task(&self, task: TaskId, groups: u64) {
        self.change_schedule(|state| state.conclude(task, groups));
    }

    fn change_schedule(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        state.distribute();
        self.wake(&state);
    }

    /// Notes what a link is like.
    pub(crate) fn note_link(&self, worker: &str, report: LinkReport) {
        let mut state = self.state.lock();
        let is_local = state.links.get(worker).is_some_and(|outbox| outbox.is_local);
        let on_host = is_local.then_some(LOCAL_ROUND_TRIP);
        if let Some(round_trip) = report.round_trip.or(on_host) {
            state.auto.note_round_trip(worker, round_trip);
        }
        state.reports.insert(worker.to_owned(), report);
    }

    /// What the links were last like, by worker, and what was copied by now.
    pub(crate) fn links(&self) -> BTreeMap<String, LinkReport> {
        let mut reports = self.state.lock().reports.clone();
        for (worker, report) in &mut reports {
            report.bytes_copied = self.copies.bytes(worker);
        }
        reports
    }

    /// What was copied of each worker's elements.
    pub(crate) fn copies(&self) -> &Copies {
        &self.copies
    }

    /// The dispatcher said that a task failed. Its worker says so too, behind the elements before, unless it cannot.
    pub(crate) fn note_failure(&self, task: TaskId, worker: &str, message: &str) {
        let mut state = self.state.lock();
        let is_coordinated = state.schedule.is_some();
        match state.tasks.get_mut(&task) {
            Some(entry) if !entry.is_wanted() => {}
            Some(entry) => {
                entry.failure = Some(message.to_owned());
                if !entry.may_hear_of_failure(is_coordinated) {
                    state.take_word_for_failure(task);
                }
            }
            None => {
                state.failure.get_or_insert(ReadError::task(worker, message));
            }
        }
        self.wake(&state);
    }

    /// Notes the pack that the consumer takes in hand, and the leases that it met in the one before.
    pub(crate) fn note_at_hand(&self, task: TaskId, pack: &Pack, leases: &mut Vec<(TaskId, u64)>) {
        let mut state = self.state.lock();
        state.given = None;
        if state.schedule.is_some() {
            state.note_open(task, pack);
        } else {
            state.at_hand_pack = Some((task, pack.clone()));
        }
        for (task, lease) in leases.drain(..) {
            if let Some(entry) = state
                .tasks
                .get_mut(&task)
                .filter(|entry| entry.trainer_id.is_none() && !entry.done.contains_key(&lease))
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
        for task in state.tasks.keys().copied().collect::<Vec<_>>() {
            state.judge_unknown(task);
        }
        state.judge_unreachable();
        self.wake(&state);
    }

    /// Ends reading with an error, behind what arrived before.
    pub(crate) fn fail(&self, error: ReadError) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(error);
        self.wake(&state);
    }

    /// Hands over nothing while the lease may have ended (C4.4); for good with the error that says so.
    pub(crate) fn fence(&self, is_fenced: bool, error: Option<ReadError>) {
        let mut state = self.state.lock();
        state.is_fenced = is_fenced;
        state.failure = state.failure.take().or(error);
        self.wake(&state);
    }

    /// The service ends. A reader that has everything is not concerned.
    pub(crate) fn shut_down(&self, by: String) {
        let mut state = self.state.lock();
        if !state.is_iteration_over {
            state.failure.get_or_insert(ReadError::ShutDown { by });
            self.wake(&state);
        }
    }

    /// A link to a worker stands: says hello and subscribes to its tasks.
    pub(crate) fn handle_link_up(&self, worker: &str, place: &WorkerPlace, is_local: bool) {
        let mut state = self.state.lock();
        let State { tasks, links, .. } = &mut *state;
        let Some(outbox) = links.get_mut(worker) else {
            return;
        };
        (outbox.is_up, outbox.is_local) = (true, is_local);
        outbox.has_moved = outbox.place.has_moved_from(place);
        outbox.messages.clear();
        outbox.push(ToWorker::Hello(Hello::current()));
        let of_worker = |entry: &&mut Entry| &*entry.worker == worker && entry.is_wanted();
        for entry in tasks.values_mut().filter(of_worker) {
            entry.is_local = is_local;
            outbox.push(ToWorker::Subscribe(entry.subscribe()));
        }
    }

    /// A link broke: writes off its credits, so that the other tasks get them.
    pub(crate) fn handle_link_lost(&self, worker: &str) {
        let mut state = self.state.lock();
        state.auto.forget(worker);
        if let Some(outbox) = state.links.get_mut(worker) {
            (outbox.is_up, outbox.packs_on_way) = (false, 0);
            outbox.messages.clear();
        }
        for entry in state.tasks.values_mut().filter(|entry| &*entry.worker == worker) {
            entry.handle_link_lost();
        }
        state.judge_unreachable();
        state.distribute();
        self.wake(&state);
    }

    /// Has the dispatcher told that the link to a worker was lost.
    pub(crate) fn note_suspect(&self, worker: &str) {
        self.state.lock().unreported.note_suspect(worker);
    }

    /// Where the worker is, if any task of it is still to be read. If not, a later task of it needs a new driver.
    pub(crate) fn place_if_wanted(&self, worker: &str) -> Option<WorkerPlace> {
        let mut state = self.state.lock();
        let of_worker = |entry: &Entry| &*entry.worker == worker && entry.is_wanted();
        let is_wanted = state.failure.is_none() && state.tasks.values().any(of_worker);
        if !is_wanted {
            state.links.remove(worker);
        }
        state.links.get(worker).map(|outbox| outbox.place.clone())
    }

    /// Takes a frame from a worker.
    pub(crate) fn handle(
        &self,
        state: &mut State,
        worker: &str,
        frame: Downstream<InPack>,
    ) -> Result<(), LinkLost> {
        if state.failure.is_some() {
            // Nobody reads on behind a failure.
            return Ok(());
        }
        match frame {
            Downstream::Message(message) => {
                state.handle_message(worker, message)?;
                state.distribute();
            }
            Downstream::Pack(pack) => {
                if let Some(outbox) = state.links.get_mut(worker) {
                    outbox.packs_on_way = outbox.packs_on_way.saturating_sub(1);
                    outbox.stirred_at = Some(Instant::now());
                }
                let is_expected = |entry: &&mut Entry| &*entry.worker == worker && !entry.is_removed;
                let Some(entry) = state.tasks.get_mut(&pack.task).filter(is_expected) else {
                    return Ok(());
                };
                entry.half.handle_pack(pack.first, pack.elements, pack.body)?;
                // What arrived is outstanding as before: no credit is free for it.
                state.drain(pack.task)?;
            }
        }
        self.wake(state);
        Ok(())
    }

    /// Takes the messages that wait for a worker, or arranges to be woken for them. `None`: the worker is no longer where the
    /// link leads.
    pub(crate) fn poll_outbox(&self, worker: &str, cx: &mut Context<'_>) -> Poll<Option<ToWorker>> {
        let mut state = self.state.lock();
        let Some(outbox) = state.links.get_mut(worker) else {
            return Poll::Pending;
        };
        outbox.bell.register(cx.waker());
        if outbox.has_moved {
            return Poll::Ready(None);
        }
        let message = outbox.messages.pop_front();
        message.map_or(Poll::Pending, |message| Poll::Ready(Some(message)))
    }

    /// Books what the consumer handed over, which may have fallen silent in the middle of a pack; tells workers what arrived, too.
    /// False if it was nothing.
    pub(crate) fn tick(&self) -> bool {
        let mut state = self.state.lock();
        let has_settled = state.settle(&self.handed);
        if has_settled {
            state.distribute();
            state.confirm();
        }
        state.acknowledge() || has_settled
    }

    /// Sizes `Auto` again, `elapsed` after it did so last.
    pub(crate) fn resize_auto(&self, elapsed: Duration) {
        let mut state = self.state.lock();
        state.auto.resize(elapsed);
        state.recent.pass(elapsed);
        state.note_recent();
        let is_more = state.auto.bytes() > state.bounds.auto_bytes;
        state.bounds.auto_bytes = state.auto.bytes();
        if is_more {
            state.distribute();
        }
    }

    /// The next report.
    pub(crate) fn next_report(&self) -> Option<Report> {
        self.state.lock().unreported.next()
    }

    // What the consumer asks.

    /// The next elements; `Ok(None)` at the end. Registers the waker when there is nothing yet.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Handing>, ReadError>> {
        self.consumer.register(cx.waker());
        self.try_next()
    }

    /// The same without waiting.
    pub(crate) fn try_next(&self) -> Poll<Result<Option<Handing>, ReadError>> {
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
        state.stop_using(&self.handed);
        // Before it is cancelled a worker hears what its elements were used for, or it reports them as lost (C6.7).
        state.acknowledge();
        let State { tasks, links, .. } = &mut *state;
        for entry in tasks.values() {
            if let Some(outbox) = links.get_mut(&entry.worker).filter(|outbox| outbox.is_up) {
                outbox.push(ToWorker::Cancel(Cancel {
                    task: entry.source.task,
                    has_all: false,
                }));
            }
        }
        self.wake(&state);
    }

    /// Whether everything was handed over.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().is_over()
    }

    /// Where each task stands.
    #[cfg(test)]
    pub(crate) fn standings(&self) -> Vec<Standing> {
        self.state.lock().standings()
    }

    /// Where users are told what they should hear of.
    pub(crate) fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Where decompressed elements go.
    pub(crate) fn alloc(&self) -> &Arc<dyn SlotAlloc> {
        &self.alloc
    }

    pub(crate) fn wake(&self, state: &State) {
        if state.has_something() {
            self.arrived.notify_all();
            self.nap.wake();
            self.consumer.wake();
        }
    }
}

impl Admission for Intake {
    fn admit(&self, task: TaskId, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError> {
        let mut state = self.state.lock();
        match state.tasks.get_mut(&task) {
            Some(entry) => {
                entry.admit(first, elements, region_bytes)?;
                let worker = entry.worker.clone();
                if let Some(outbox) = state.links.get_mut(&worker) {
                    outbox.packs_on_way += 1;
                }
                Ok(())
            }
            None => Err(ReceiveError::Contradiction { count: first }),
        }
    }

    fn slot_alloc(&self) -> &dyn SlotAlloc {
        &*self.alloc
    }
}
