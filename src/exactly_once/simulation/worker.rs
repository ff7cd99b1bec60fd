//! A worker's process: tasks that lease splits, compute their elements, and send them to their reader.
//!
//! A worker computes elements as a function of dataset, epoch and split. Does not know other workers.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use millstream_control::{
    ClientId, Error, ExactlyOnce, LeaseRange, Moment, Reply, Request, Run, SplitPace, TaskId, Whereabouts,
    WorkerPush, WorkerRegistration,
};
use millstream_link::{Role, TicketKey};
use millstream_pipeline::exec::SplitPart;

use super::defects::SimDefect;
use super::session::{Purpose, Session};
use super::world::{Event, Pid, World};
use crate::exactly_once::sequence::Numbered;

/// The silence of the dispatcher after which a worker drops its tasks.
const GIVES_UP_AFTER: Duration = Duration::from_secs(12);
/// The time after which an idle task looks for work again.
const IDLE: Duration = Duration::from_millis(25);

/// A worker's process.
#[derive(Debug)]
pub(super) struct SimWorker {
    pub(super) address: String,
    pub(super) session: Session,
    pub(super) tasks: BTreeMap<TaskId, SimTask>,
    /// The time until which the process does nothing.
    pub(super) stalled_until: Moment,
    /// Whether the worker has announced that it leaves.
    pub(super) is_draining: bool,
    /// Whether the dispatcher has answered the announcement.
    is_drain_known: bool,
}

/// A task on a worker.
#[derive(Debug, Default)]
pub(super) struct SimTask {
    /// The settings of the job, and the epoch.
    terms: Option<(ExactlyOnce, u64)>,
    /// The splits that the task has not begun: their index in the job, lease and attempt.
    queue: VecDeque<(u64, u64, u32)>,
    current: Option<BegunSplit>,
    /// Whether the dispatcher has said that no split is left.
    is_exhausted: bool,
    /// Whether the dispatcher has refused a lease, so that the task waits for its end.
    is_refused: bool,
    pub(super) reader: Option<(Pid, ClientId)>,
    /// The number of elements that were sent, and of those that the reader has released.
    sent: u64,
    pub(super) released: u64,
    has_sent_end: bool,
    is_delivery_told: bool,
}

/// The split that a task is computing.
#[derive(Debug, Clone)]
struct BegunSplit {
    split: u64,
    lease: u64,
    attempt: u32,
    /// The position of the next element.
    next: u64,
}

/// A message of a task to its reader.
#[derive(Debug, Clone)]
pub(super) enum Message {
    /// An element with its lease and its numbers.
    Element(u64, Numbered<u64>),
    /// The end of a lease.
    SplitDone(u64),
    /// The end of the task.
    End,
}

/// The messages of one task on their way to its reader, in order.
#[derive(Debug)]
pub(super) struct Road {
    pub(super) worker: Pid,
    pub(super) to: Pid,
    pub(super) messages: VecDeque<Message>,
    pub(super) blocked_until: Moment,
    is_awake: bool,
}

impl SimTask {
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.current.is_none()
    }

    fn take(&mut self, runs: &[Run]) {
        for run in runs {
            let splits = (0..run.count)
                .map(|offset| (run.first_index + offset, run.first_lease + offset, run.attempt));
            self.queue.extend(splits);
        }
    }

    /// Returns the split to compute, after beginning the next one if necessary.
    fn begin(&mut self, defect: Option<SimDefect>) -> Option<&mut BegunSplit> {
        if self.current.is_none() {
            let (index, lease, attempt) = self.queue.pop_front()?;
            let (once, _) = self.terms.as_ref()?;
            let split = match defect {
                Some(SimDefect::SplitNotTranslated) => index * once.step,
                Some(_) | None => once.source_index(index),
            };
            self.current = Some(BegunSplit {
                split,
                lease,
                attempt,
                next: 0,
            });
        }
        self.current.as_mut()
    }

    /// Computes the next messages: an element, and the end of its lease after the last one.
    fn compute(
        &mut self,
        elements: impl Fn(u64, u64) -> Vec<u64>,
        defect: Option<SimDefect>,
    ) -> Vec<Message> {
        let epoch = self.terms.as_ref().map_or(0, |(_, epoch)| *epoch);
        let Some(begun) = self.begin(defect) else {
            return Vec::new();
        };
        let epoch = if defect == Some(SimDefect::SeedOfFirstEpoch) {
            0
        } else {
            epoch
        };
        let values = elements(epoch, begun.split);
        let count = values.len() as u64;
        if defect == Some(SimDefect::AttemptBeginsLate) && begun.attempt > 0 && begun.next == 0 && count > 1 {
            begun.next = 1;
        }
        let position = begun.next;
        begun.next += 1;
        let part = match begun.next {
            _ if count == 0 => SplitPart::Empty,
            end if end >= count && defect != Some(SimDefect::LastNotMarked) => SplitPart::Last,
            _ => SplitPart::Inner,
        };
        let mut element = values.get(position as usize).copied().unwrap_or_default();
        if defect == Some(SimDefect::AttemptChangesElements) {
            element ^= u64::from(begun.attempt);
        }
        let numbered = Numbered {
            split: begun.split,
            position,
            part,
            element,
        };
        let lease = begun.lease;
        let is_over = begun.next >= count;
        let mut messages = vec![Message::Element(lease, numbered)];
        if count == 0 && defect == Some(SimDefect::EmptySplitUnsent) {
            messages.clear();
        }
        let is_early = defect == Some(SimDefect::SplitDoneTooEarly);
        if (is_over && !is_early) || (is_early && position == 0) {
            messages.push(Message::SplitDone(lease));
        }
        if is_over {
            self.current = None;
        }
        self.sent += 1;
        messages
    }
}

impl World {
    pub(super) fn start_worker(&mut self, address: String) {
        if self.workers.values().any(|worker| worker.address == address) {
            return;
        }
        let pid = self.fresh_pid();
        let session = self.open_session(pid, Role::Worker);
        let worker = SimWorker {
            address,
            session,
            tasks: BTreeMap::new(),
            stalled_until: self.now,
            is_draining: false,
            is_drain_known: false,
        };
        self.workers.insert(pid, worker);
        self.tick(pid);
    }

    pub(super) fn register_worker(&mut self, pid: Pid) {
        let Some(worker) = self.workers.get(&pid) else {
            return;
        };
        let registration = WorkerRegistration {
            address: worker.address.clone(),
            tags: vec![],
            ticket_key: TicketKey::from_bytes([7; 32]),
            version: String::new(),
            whereabouts: Whereabouts::default(),
            local_socket: None,
        };
        self.call(pid, Purpose::Register, Request::RegisterWorker(registration));
    }

    /// Lets a worker drop its tasks if the dispatcher was silent, and leave if it is drained.
    pub(super) fn tick_worker(&mut self, pid: Pid) {
        let now = self.now;
        let Some(worker) = self.workers.get(&pid) else {
            return;
        };
        if worker.session.heard + GIVES_UP_AFTER < now {
            return self.give_up_session(pid);
        }
        let is_waiting = worker.session.awaits(Purpose::Drain) || worker.session.awaits(Purpose::Leave);
        if worker.is_draining && !worker.is_drain_known && !is_waiting {
            self.call(pid, Purpose::Drain, Request::DrainWorker);
        } else if worker.is_drain_known && worker.tasks.is_empty() && !is_waiting {
            self.call(pid, Purpose::Leave, Request::LeaveWorker);
        }
    }

    /// Ends a session, so that the worker drops its tasks and registers under a new session.
    pub(super) fn give_up_session(&mut self, pid: Pid) {
        self.note(format_args!("worker {pid} gives up its session"));
        let mut session = self.open_session(pid, Role::Worker);
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        self.sessions.remove(&worker.session.id);
        session.cut_until = worker.session.cut_until;
        worker.session = session;
        worker.is_drain_known = false;
        for task in std::mem::take(&mut worker.tasks).into_keys() {
            self.cut_road(task);
        }
    }

    /// Loses the last of the messages that are on their way from a task.
    pub(super) fn cut_road(&mut self, task: TaskId) {
        if let Some(road) = self.roads.get_mut(&task) {
            let kept = self.chance.index(road.messages.len() + 1);
            road.messages.truncate(kept);
        }
    }

    pub(super) fn kill_worker(&mut self, pid: Pid) -> Option<String> {
        let worker = self.workers.remove(&pid)?;
        self.sessions.remove(&worker.session.id);
        for task in worker.tasks.keys() {
            self.cut_road(*task);
        }
        Some(worker.address)
    }

    pub(super) fn take_worker_push(&mut self, pid: Pid, push: WorkerPush) {
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        match push {
            WorkerPush::Assigned { tasks } => {
                let gone: Vec<TaskId> = worker
                    .tasks
                    .keys()
                    .copied()
                    .filter(|task| !tasks.contains(task))
                    .collect();
                gone.into_iter().for_each(|task| self.stop_task(pid, task));
                tasks.into_iter().for_each(|task| self.start_task(pid, task));
            }
            WorkerPush::Start { task } => self.start_task(pid, task),
            WorkerPush::Stop { task, .. } => self.stop_task(pid, task),
            WorkerPush::Release { client, tasks } => {
                for task in tasks {
                    let request = self.missed(pid, client, task);
                    self.call(pid, Purpose::Other, request);
                }
            }
            WorkerPush::ShutDown { .. } => {}
        }
    }

    /// Stops serving a client that is gone. Returns the report of the splits of which it held elements.
    fn missed(&mut self, pid: Pid, client: ClientId, task: TaskId) -> Request {
        let state = self
            .workers
            .get_mut(&pid)
            .and_then(|worker| worker.tasks.get_mut(&task));
        let mut leases = Vec::new();
        if let Some(state) = state {
            state.reader = None;
            leases.extend(state.current.take().map(|begun| begun.lease));
        }
        let road = self.roads.remove(&task);
        leases.extend(
            road.into_iter()
                .flat_map(|road| road.messages)
                .filter_map(|message| match message {
                    Message::Element(lease, _) | Message::SplitDone(lease) => Some(lease),
                    Message::End => None,
                }),
        );
        Request::SplitsMissed(task, client, LeaseRange::collect(leases), true)
    }

    fn start_task(&mut self, pid: Pid, task: TaskId) {
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        if let Entry::Vacant(entry) = worker.tasks.entry(task) {
            entry.insert(SimTask::default());
            self.later(Duration::ZERO, Event::Computed(pid, task));
        }
    }

    fn stop_task(&mut self, pid: Pid, task: TaskId) {
        let worker = self.workers.get_mut(&pid);
        if worker.is_some_and(|worker| worker.tasks.remove(&task).is_some()) {
            self.cut_road(task);
        }
    }

    pub(super) fn take_worker_answer(&mut self, pid: Pid, purpose: Purpose, result: Result<Reply, Error>) {
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        match (purpose, result) {
            (Purpose::Register, Err(_)) => self.give_up_session(pid),
            (Purpose::Describe(task), Ok(Reply::Task(definition))) => {
                if let Some(state) = worker.tasks.get_mut(&task) {
                    let once = definition.exactly_once.expect("an exactly-once job");
                    state.terms = Some((once, definition.repetition));
                }
            }
            (Purpose::Lease(task), Ok(Reply::Splits { runs, end, .. })) => {
                let is_draining = worker.is_drain_known;
                if let Some(state) = worker.tasks.get_mut(&task) {
                    state.take(&runs);
                    state.is_exhausted |= end;
                    if is_draining {
                        self.return_splits(pid, task);
                    }
                }
            }
            (Purpose::Lease(task), Err(_)) => {
                if let Some(state) = worker.tasks.get_mut(&task) {
                    state.is_refused = true;
                }
            }
            (Purpose::Drain, Ok(_)) => {
                worker.is_drain_known = true;
                let tasks: Vec<TaskId> = worker.tasks.keys().copied().collect();
                tasks.into_iter().for_each(|task| self.return_splits(pid, task));
            }
            (Purpose::Leave, Ok(_)) => {
                self.kill_worker(pid);
            }
            _ => {}
        }
    }

    /// Returns the splits that a task has not begun.
    fn return_splits(&mut self, pid: Pid, task: TaskId) {
        let is_kept = self.has(SimDefect::UnstartedNotReturned);
        let state = self
            .workers
            .get_mut(&pid)
            .and_then(|worker| worker.tasks.get_mut(&task));
        let Some(state) = state else {
            return;
        };
        let leases = LeaseRange::collect(state.queue.drain(..).map(|(_, lease, _)| lease));
        if !leases.is_empty() && !is_kept {
            self.call(pid, Purpose::Return(task), Request::ReturnSplits { task, leases });
        }
    }

    /// Lets a task compute and send its next element.
    pub(super) fn compute(&mut self, pid: Pid, task: TaskId) {
        let (now, defect, credits) = (self.now, self.defect, self.settings.credits);
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        let is_draining = worker.is_drain_known;
        let Some(state) = worker.tasks.get_mut(&task) else {
            return;
        };
        if worker.stalled_until > now {
            let until = worker.stalled_until;
            return self.at(until, Event::Computed(pid, task));
        }
        let has_road = state.reader.is_some() && state.sent - state.released < credits;
        let is_computing = has_road && state.terms.is_some() && !state.is_idle();
        if is_computing {
            let dataset = &self.dataset;
            let elements = |epoch, split: u64| dataset.elements(epoch, split).to_vec();
            let messages = state.compute(elements, defect);
            messages.into_iter().for_each(|message| self.send(task, message));
        }
        self.request_for_task(pid, task, is_draining);
        let delay = match is_computing {
            true => self.chance.millis(0..self.settings.compute_ms),
            false => IDLE,
        };
        self.later(delay, Event::Computed(pid, task));
    }

    /// Sends the requests that a task needs next.
    fn request_for_task(&mut self, pid: Pid, task: TaskId, is_draining: bool) {
        let Some(worker) = self.workers.get(&pid) else {
            return;
        };
        let Some(state) = worker.tasks.get(&task) else {
            return;
        };
        let purposes = [
            Purpose::Describe(task),
            Purpose::Lease(task),
            Purpose::Return(task),
            Purpose::Finish(task, false),
            Purpose::Finish(task, true),
        ];
        if !worker.session.is_up || purposes.iter().any(|purpose| worker.session.awaits(*purpose)) {
            return;
        }
        if state.terms.is_none() {
            return self.call(pid, Purpose::Describe(task), Request::DescribeTask { task });
        }
        let is_over = state.is_exhausted || is_draining;
        if !is_over && !state.is_refused && state.queue.len() < 2 {
            return self.lease(pid, task);
        }
        if is_over && state.is_idle() && state.reader.is_some() {
            self.finish_task(pid, task);
        }
    }

    fn lease(&mut self, pid: Pid, task: TaskId) {
        let want = 1 + self.chance.within(0..u64::from(self.settings.want)) as u32;
        let pace = self.chance.percent(70).then(|| SplitPace {
            per_1000_s: 1000 * self.chance.within(1..200),
            unstarted: self.chance.within(0..3),
            can_wait: true,
        });
        let state = self.workers.get(&pid).and_then(|worker| worker.tasks.get(&task));
        let is_idle = state.is_some_and(SimTask::is_idle);
        let request = Request::LeaseSplits {
            task,
            source: 0,
            repetition: 0,
            want,
            pace,
            is_idle,
        };
        self.call(pid, Purpose::Lease(task), request);
    }

    /// Reports the end of a task, and later that all of its elements have arrived.
    fn finish_task(&mut self, pid: Pid, task: TaskId) {
        let is_road_empty = self.roads.get(&task).is_none_or(|road| road.messages.is_empty());
        let state = self
            .workers
            .get_mut(&pid)
            .and_then(|worker| worker.tasks.get_mut(&task));
        let Some(state) = state else {
            return;
        };
        let delivered = state.has_sent_end && is_road_empty;
        if state.has_sent_end && (state.is_delivery_told || !delivered) {
            return;
        }
        state.is_delivery_told = delivered;
        let (is_new, is_exhausted) = (
            !std::mem::replace(&mut state.has_sent_end, true),
            state.is_exhausted,
        );
        let request = Request::FinishTask {
            task,
            delivered,
            exhausted: is_exhausted,
            cut_short: !is_exhausted,
        };
        self.call(pid, Purpose::Finish(task, delivered), request);
        if is_new {
            self.send(task, Message::End);
        }
    }

    fn send(&mut self, task: TaskId, message: Message) {
        let is_hasty = self.has(SimDefect::EndOvertakes);
        let Some(road) = self.roads.get_mut(&task) else {
            return;
        };
        match message {
            Message::End if is_hasty => road.messages.push_front(message),
            Message::End | Message::Element(..) | Message::SplitDone(_) => road.messages.push_back(message),
        }
        if !std::mem::replace(&mut road.is_awake, true) {
            let delay = self.delay();
            self.later(delay, Event::Carried(task));
        }
    }

    /// Delivers the next message of a task to its reader.
    pub(super) fn carry(&mut self, task: TaskId) {
        let now = self.now;
        let Some(road) = self.roads.get_mut(&task) else {
            return;
        };
        if road.blocked_until > now {
            let until = road.blocked_until;
            return self.at(until, Event::Carried(task));
        }
        let (to, next) = (road.to, road.messages.pop_front());
        road.is_awake = !road.messages.is_empty();
        if road.is_awake {
            let delay = self.delay();
            self.later(delay, Event::Carried(task));
        }
        if let Some(message) = next {
            self.receive(to, task, message);
        }
    }

    /// Connects a reader with a task, if its worker is in reach. Returns whether the task has a road.
    pub(super) fn subscribe(&mut self, to: Pid, client: ClientId, task: TaskId, address: &str) -> bool {
        if self.roads.contains_key(&task) {
            return true;
        }
        let worker = self
            .workers
            .iter_mut()
            .find(|(_, worker)| worker.address == address);
        let Some((pid, state)) = worker.and_then(|(pid, worker)| Some((*pid, worker.tasks.get_mut(&task)?)))
        else {
            return false;
        };
        state.reader = Some((to, client));
        let road = Road {
            worker: pid,
            to,
            messages: VecDeque::new(),
            blocked_until: self.now,
            is_awake: false,
        };
        self.roads.insert(task, road);
        true
    }

    /// Gives a task back the credit of an element.
    pub(super) fn release_credit(&mut self, task: TaskId) {
        let worker = self.roads.get(&task).map(|road| road.worker);
        let worker = worker.and_then(|pid| self.workers.get_mut(&pid));
        if let Some(state) = worker.and_then(|worker| worker.tasks.get_mut(&task)) {
            state.released += 1;
        }
    }
}
