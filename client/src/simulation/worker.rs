//! A worker's process: the production data plane and split feed, and a model of the agent. The model covers
//! incarnations, leases, orders in sequence, and reports of ends.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use millstream_control::{
    ClientId, Code, Error, LeaseRange, Reply, Request, StopReason, TaskId, Whereabouts, WorkerPush,
    WorkerRegistration,
};
use millstream_dataplane::transport::Compression;
use millstream_dataplane::worker::{BufferLimits, MissedSplits, Server, ServerConfig, SharedSplits};
use millstream_element::{HeapAlloc, SlotAlloc};
use millstream_link::{Role, TicketKey};

use super::bugs::Bug;
use super::session::{Purpose, Session};
use super::task::{Report, Task};
use super::world::{Event, Pid, World};

/// The time without an answer after which a worker drops its tasks: twice the dispatcher's limit.
const LEASE: Duration = Duration::from_secs(2);
/// The time for which a leaving worker waits for the dispatcher.
const GOODBYE: Duration = Duration::from_secs(2);
/// The time for which a draining worker waits for its tasks.
const DRAIN: Duration = Duration::from_secs(6);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The state of a worker's process.
pub(super) struct Worker {
    pub(super) address: String,
    key: [u8; 32],
    pub(super) server: Server,
    pub(super) session: Option<Session>,
    /// True if the incarnation is registered.
    begun: bool,
    /// True if an answer must arrive before the next order.
    is_busy: bool,
    orders: VecDeque<Order>,
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pause: Duration,
    /// The time at which the next incarnation begins.
    begins_at: Option<Duration>,
    pub(super) is_leaving: bool,
    /// True if the worker has said goodbye.
    is_gone: bool,
    /// True if the dispatcher knows that the worker leaves once its tasks are over.
    pub(super) is_draining: bool,
    /// Dead readers that the worker is reporting to the dispatcher.
    missed: BTreeMap<(TaskId, u64), Vec<u64>>,
    /// Shared splits that the worker reports one message at a time.
    shared: VecDeque<SharedSplits>,
}

#[derive(Debug)]
enum Order {
    Register,
    Obey(WorkerPush),
}

impl Worker {
    fn new(address: &str, key: [u8; 32], mut session: Session) -> Worker {
        let config = ServerConfig {
            patience: Duration::from_millis(50),
            resume_within: Duration::from_secs(20),
            buffer: BufferLimits {
                elements: 6,
                bytes: 1 << 20,
            },
            // Compression runs on threads, whose order no seed controls.
            compression: Compression::None,
            ..ServerConfig::default()
        };
        let alloc: std::sync::Arc<dyn SlotAlloc> = std::sync::Arc::new(HeapAlloc);
        let server = Server::new(config, TicketKey::from_bytes(key), &alloc)
            .expect("a server without compression starts no thread");
        session.heard = None;
        Worker {
            address: address.to_owned(),
            key,
            server,
            session: Some(session),
            begun: false,
            is_busy: false,
            orders: VecDeque::new(),
            tasks: BTreeMap::new(),
            pause: PAUSE_MIN,
            begins_at: None,
            is_leaving: false,
            is_gone: false,
            is_draining: false,
            missed: BTreeMap::new(),
            shared: VecDeque::new(),
        }
    }

    /// Returns whether the worker has no tasks.
    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }
}

impl World {
    pub(super) fn start_worker(&mut self, address: &str) -> Pid {
        let pid = self.fresh_pid();
        self.note(format_args!("worker {pid} begins at {address}"));
        let session = self.open_session(pid, Role::Worker);
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.chance.draw().to_le_bytes());
        let worker = Worker::new(address, key, session);
        self.roads.open(address, pid, worker.server.clone());
        self.workers.insert(pid, worker);
        self.at(self.now, Event::Tick(pid));
        pid
    }

    /// Kills the worker's process without any goodbye.
    pub(super) fn kill_worker(&mut self, pid: Pid) {
        self.note(format_args!("worker {pid} dies"));
        self.roads.close(pid);
        self.executor.kill(pid);
        self.forget_conns(pid);
        if let Some(worker) = self.workers.remove(&pid) {
            self.oracle
                .worker_ended(worker.tasks.values().map(|task| task.iteration));
        }
    }

    /// Makes a worker say goodbye. The worker ends when the dispatcher answers, or after a short timeout.
    pub(super) fn stop_worker(&mut self, pid: Pid) {
        if let Some(worker) = self.workers.get_mut(&pid) {
            (worker.is_leaving, worker.is_gone) = (true, true);
            self.call(pid, Purpose::LeaveWorker, Request::LeaveWorker);
            let latest = self.now + GOODBYE;
            self.at(latest, Event::Ended(pid));
        }
    }

    /// Shuts a worker down gracefully, if its tasks end in time (C10.1).
    pub(super) fn drain_worker(&mut self, pid: Pid) {
        if let Some(worker) = self.workers.get_mut(&pid).filter(|worker| worker.begun) {
            worker.is_leaving = true;
            self.call(pid, Purpose::Drain, Request::DrainWorker);
            let latest = self.now + DRAIN;
            self.at(latest, Event::Drained(pid));
        } else {
            self.stop_worker(pid);
        }
    }

    pub(super) fn worker_is_up(&mut self, pid: Pid) {
        if let Some(worker) = self.workers.get_mut(&pid) {
            worker.orders.push_back(Order::Register);
        }
        self.next_order(pid);
    }

    pub(super) fn obey(&mut self, pid: Pid, push: WorkerPush) {
        if let Some(worker) = self.workers.get_mut(&pid) {
            worker.orders.push_back(Order::Obey(push));
        }
        self.next_order(pid);
    }

    /// Carries out the waiting orders one at a time, each to its end.
    fn next_order(&mut self, pid: Pid) {
        while let Some(worker) = self.workers.get_mut(&pid)
            && !worker.is_busy
            && let Some(order) = worker.orders.pop_front()
        {
            match order {
                Order::Register if worker.is_gone => {}
                Order::Register => {
                    worker.is_busy = true;
                    let registration = WorkerRegistration {
                        address: worker.address.clone(),
                        tags: Vec::new(),
                        ticket_key: TicketKey::from_bytes(worker.key),
                        version: "simulated".to_owned(),
                        whereabouts: Whereabouts::default(),
                        local_socket: None,
                    };
                    self.call(pid, Purpose::Register, Request::RegisterWorker(registration));
                }
                Order::Obey(WorkerPush::Assigned { tasks }) => {
                    let known: Vec<TaskId> = worker.tasks.keys().copied().collect();
                    for task in tasks.iter().rev() {
                        let start = WorkerPush::Start { task: *task };
                        worker.orders.push_front(Order::Obey(start));
                    }
                    for task in known.into_iter().filter(|task| !tasks.contains(task)) {
                        self.stop_task(pid, task, None);
                    }
                }
                Order::Obey(WorkerPush::Start { task }) => {
                    if !worker.tasks.contains_key(&task) {
                        worker.is_busy = true;
                        self.call(pid, Purpose::Describe(task), Request::DescribeTask { task });
                    }
                }
                Order::Obey(WorkerPush::Release { client, tasks }) => {
                    let server = worker.server.clone();
                    for task in tasks {
                        let missed = server.release(served(task), client.0);
                        self.say_missed(pid, missed, true);
                    }
                }
                Order::Obey(push @ WorkerPush::ShutDown { .. }) => panic!("no process requested {push:?}"),
                Order::Obey(WorkerPush::Stop { task, reason }) => self.stop_task(pid, task, Some(reason)),
            }
        }
    }

    fn say_missed(&mut self, pid: Pid, missed: MissedSplits, is_released: bool) {
        let task = TaskId(missed.task.0);
        self.note(format_args!("worker {pid} has missed {missed:?}"));
        let is_silent = self.bug == Some(Bug::MissedNotTold);
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        let leases = LeaseRange::collect(missed.leases.iter().copied());
        worker.missed.insert((task, missed.client), missed.leases);
        let leases = if is_silent { Vec::new() } else { leases };
        let request = Request::SplitsMissed(task, ClientId(missed.client), leases, is_released);
        let client = missed.client;
        self.call(pid, Purpose::Missed { task, client }, request);
    }

    /// Reports the next shared splits to the dispatcher.
    fn say_shared(&mut self, pid: Pid) {
        let worker = self.workers.get(&pid);
        let Some(shared) = worker.and_then(|worker| worker.shared.front()).cloned() else {
            return;
        };
        self.note(format_args!("worker {pid} has {shared:?}"));
        self.oracle.tally.shared += shared.leases.len() as u64;
        let leases = LeaseRange::collect(shared.leases);
        let request = Request::SplitsShared(TaskId(shared.task.0), ClientId(shared.client), leases);
        self.call(pid, Purpose::Shared, request);
    }

    fn stop_task(&mut self, pid: Pid, id: TaskId, reason: Option<StopReason>) {
        self.note(format_args!("worker {pid} stops {id}: {reason:?}"));
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        if let Some(mut task) = worker.tasks.remove(&id) {
            worker.server.remove_task(served(id));
            let leases = task.flow.books.take_unstarted();
            if reason == Some(StopReason::Draining) && !leases.is_empty() {
                // C10.4
                self.call(
                    pid,
                    Purpose::ReturnStopped,
                    Request::ReturnSplits { task: id, leases },
                );
            }
            let is_told = matches!(
                task.report,
                Some(Report::Settling | Report::Telling | Report::Done)
            );
            if reason == Some(StopReason::Settled) && is_told {
                self.oracle.settled(task.iteration, id);
            }
        }
    }

    /// Ends an incarnation whose lease has lapsed, as known to the worker or reported by the dispatcher.
    pub(super) fn end_incarnation(&mut self, pid: Pid, why: &str) {
        self.note(format_args!("worker {pid} starts over: {why}"));
        if self.workers.get(&pid).is_some_and(|worker| worker.is_leaving) {
            // A leaving worker has no reason to register again.
            return self.kill_worker(pid);
        }
        self.forget_conns(pid);
        let keeps_tasks = self.bug == Some(Bug::LapsedTasksKept);
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        let tasks = std::mem::take(&mut worker.tasks);
        self.oracle
            .worker_ended(tasks.values().map(|task| task.iteration));
        if keeps_tasks {
            worker.tasks = tasks;
        } else {
            for id in tasks.keys() {
                worker.server.remove_task(served(*id));
            }
        }
        worker.session = None;
        (worker.begun, worker.is_busy) = (false, false);
        worker.missed.clear();
        worker.shared.clear();
        worker.orders.clear();
        worker.begins_at = Some(self.now + worker.pause);
        worker.pause = (worker.pause * 2).min(PAUSE_MAX);
    }

    pub(super) fn worker_answered(&mut self, pid: Pid, purpose: Purpose, result: Result<Reply, Error>) {
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        match (purpose, result) {
            (Purpose::Register, Ok(_)) => {
                worker.begun = true;
                worker.is_busy = false;
                self.next_order(pid);
            }
            (Purpose::Register, Err(error)) => self.end_incarnation(pid, &error.message),
            (Purpose::Describe(id), result) => {
                worker.is_busy = false;
                match result {
                    Ok(Reply::Task(def)) => self.start_task(pid, *def),
                    Ok(_) => panic!("expected a task as the answer"),
                    Err(error) => assert!(
                        matches!(error.code, Code::Aborted | Code::NotFound),
                        "{id} cannot begin: {error}"
                    ),
                }
                self.next_order(pid);
            }
            (
                Purpose::Lease {
                    task,
                    source,
                    repetition,
                },
                result,
            ) => {
                self.leased(pid, task, source, repetition, result);
            }
            (Purpose::Return(id), _) => {
                if let Some(task) = worker.tasks.get_mut(&id) {
                    task.returning -= 1;
                }
            }
            (Purpose::Finish { task: id, delivered }, result) => {
                if let Some(task) = worker.tasks.get_mut(&id) {
                    task.report = Some(match result {
                        Ok(_) if !delivered => Report::Settling,
                        Ok(_) | Err(_) => Report::Done,
                    });
                }
            }
            (Purpose::Missed { task, client }, result) => {
                let leases = worker.missed.remove(&(task, client)).unwrap_or_default();
                if result.is_ok() {
                    let task = served(task);
                    worker.server.note_heard(&MissedSplits { task, client, leases });
                }
            }
            (Purpose::Shared, result) => {
                if let Some(shared) = worker.shared.pop_front().filter(|_| result.is_ok()) {
                    worker.server.note_shared(&shared);
                }
                self.say_shared(pid);
            }
            (Purpose::Drain, Ok(_)) => {
                worker.is_draining = true;
                let flows = worker.tasks.values_mut().map(|task| &mut task.flow);
                flows.for_each(|flow| flow.is_draining = true);
            }
            (Purpose::Drain, Err(_)) => self.stop_worker(pid),
            (Purpose::FailTask | Purpose::ReturnStopped, _) => {}
            (Purpose::LeaveWorker, _) => self.kill_worker(pid),
            (purpose, _) => panic!("a worker never sends requests for {purpose:?}"),
        }
    }

    /// Performs a worker's periodic work.
    pub(super) fn worker_tick(&mut self, pid: Pid) {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        worker.server.forget_absent();
        let missed = worker.server.take_missed();
        missed
            .into_iter()
            .for_each(|missed| self.say_missed(pid, missed, false));
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        let is_silent = worker.shared.is_empty();
        worker.shared.extend(worker.server.take_shared());
        if is_silent {
            self.say_shared(pid);
        }
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        if worker.begins_at.is_some_and(|at| at <= now) {
            worker.begins_at = None;
            let session = self.open_session(pid, Role::Worker);
            if let Some(worker) = self.workers.get_mut(&pid) {
                worker.session = Some(session);
            }
        }
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        let heard = worker.session.as_ref().and_then(|session| session.heard);
        if worker.begun && heard.is_some_and(|heard| now >= heard + LEASE) {
            // C7.4
            self.end_incarnation(pid, "its lease has lapsed");
        }
        if let Some(worker) = self.workers.get(&pid) {
            let may_work = worker.begun || worker.tasks.is_empty();
            assert!(may_work, "worker {pid} goes on with tasks behind its lease");
        }
        let tasks = self
            .workers
            .get(&pid)
            .map(|worker| worker.tasks.keys().copied().collect::<Vec<_>>());
        for task in tasks.unwrap_or_default() {
            self.work(pid, task);
            self.report_end(pid, task);
        }
        if let Some(worker) = self.workers.get_mut(&pid)
            && worker.is_draining
            && worker.tasks.is_empty()
        {
            worker.is_draining = false;
            self.stop_worker(pid);
        }
    }
}

pub(super) fn served(task: TaskId) -> millstream_dataplane::TaskId {
    millstream_dataplane::TaskId(task.0)
}
