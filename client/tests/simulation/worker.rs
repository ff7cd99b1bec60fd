//! A worker's process: the production data plane and the production books of splits, with a model of the agent around
//! them: incarnations, leases, orders in their turn, and reports of ends.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use millstream_control::agent::{FeedBatch, FeedRun};
use millstream_control::{
    BootId, Code, Error, LeaseRange, Policy, Reply, Request, StopReason, TaskDef, TaskId, Whereabouts,
    WorkerPush, WorkerRegistration,
};
use millstream_dataplane::proto::message::Failure;
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::worker::{BufferLimits, ProduceError, Producer, Server, ServerConfig, TaskMode};
use millstream_element::{
    Dtype, ElementSpec, HeapAlloc, Provenance, Shape, SlotAlloc, TensorSpec, WriteError,
};
use millstream_link::{Role, TicketKey};

use super::bugs::Bug;
use super::flow::{Flow, Row, Step};
use super::oracle::IterationKey;
use super::session::{Purpose, Session};
use super::world::{Event, Pid, World};

/// A worker that had no answer for this long drops its tasks: twice the dispatcher's limit.
const LEASE: Duration = Duration::from_secs(2);
/// How long a worker that leaves waits for the dispatcher.
const FAREWELL: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Splits a task asks for at a time.
const WANT: u32 = 16;
/// Numbers in an element: whose it is, how many items it has, and four for each.
const WORDS: u64 = 4 + 4 * ITEMS_MAX;
/// Items of one element at most.
pub(super) const ITEMS_MAX: u64 = 4;
/// Elements a task makes at a time.
const RUN_MAX: usize = 3;

/// A worker's process.
pub(super) struct Worker {
    pub(super) address: String,
    key: [u8; 32],
    server: Server,
    pub(super) session: Option<Session>,
    boot: Option<BootId>,
    /// Its incarnation was registered.
    begun: bool,
    /// It waits for an answer before the next order.
    is_busy: bool,
    orders: VecDeque<Order>,
    tasks: BTreeMap<TaskId, Task>,
    pause: Duration,
    /// When the next incarnation begins.
    begins_at: Option<Duration>,
    pub(super) is_leaving: bool,
}

#[derive(Debug)]
enum Order {
    Register,
    Obey(WorkerPush),
}

struct Task {
    iteration: IterationKey,
    producer: Option<Producer>,
    flow: Flow,
    /// Answers to requests for splits that are under way.
    asking: usize,
    /// Leases to give back once all answers are here.
    unstarted: Vec<LeaseRange>,
    returning: usize,
    /// Ended, with what the dispatcher was told of it.
    report: Option<Report>,
    exhausted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    /// It waits for what it gives back.
    Ended,
    Finishing,
    /// It waits for its readers.
    Settling,
    Telling,
    Done,
    Failed,
}

impl Worker {
    fn new(address: &str, key: [u8; 32], mut session: Session) -> Worker {
        let config = ServerConfig {
            patience: Duration::from_millis(50),
            resume_within: Duration::from_secs(3),
            buffer: BufferLimits {
                elements: 6,
                bytes: 1 << 20,
            },
            ..ServerConfig::default()
        };
        let alloc: std::sync::Arc<dyn SlotAlloc> = std::sync::Arc::new(HeapAlloc);
        let server = Server::new(config, TicketKey::from_bytes(key), &alloc).expect("no thread is needed");
        session.heard = None;
        Worker {
            address: address.to_owned(),
            key,
            server,
            session: Some(session),
            boot: None,
            begun: false,
            is_busy: false,
            orders: VecDeque::new(),
            tasks: BTreeMap::new(),
            pause: PAUSE_MIN,
            begins_at: None,
            is_leaving: false,
        }
    }

    /// Whether it has nothing to do any more.
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

    /// The process is gone from one moment to the next.
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

    /// A worker says goodbye, and ends when it was heard, or soon in any case.
    pub(super) fn stop_worker(&mut self, pid: Pid) {
        if let Some(worker) = self.workers.get_mut(&pid) {
            worker.is_leaving = true;
            self.call(pid, Purpose::LeaveWorker, Request::LeaveWorker);
            let latest = self.now + FAREWELL;
            self.at(latest, Event::Ended(pid));
        }
    }

    pub(super) fn worker_is_up(&mut self, pid: Pid, boot: BootId) {
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        if worker.boot.replace(boot).is_some_and(|known| known != boot) {
            // C1.8
            return self.end_incarnation(pid, "the dispatcher has forgotten everything");
        }
        worker.orders.push_back(Order::Register);
        self.next_order(pid);
    }

    pub(super) fn obey(&mut self, pid: Pid, push: WorkerPush) {
        if let Some(worker) = self.workers.get_mut(&pid) {
            worker.orders.push_back(Order::Obey(push));
        }
        self.next_order(pid);
    }

    /// One order after the other, each to its end.
    fn next_order(&mut self, pid: Pid) {
        while let Some(worker) = self.workers.get_mut(&pid)
            && !worker.is_busy
            && let Some(order) = worker.orders.pop_front()
        {
            match order {
                Order::Register if worker.is_leaving => {}
                Order::Register => {
                    worker.is_busy = true;
                    let registration = WorkerRegistration {
                        address: worker.address.clone(),
                        tags: Vec::new(),
                        ticket_key: TicketKey::from_bytes(worker.key),
                        version: "simulated".to_owned(),
                        whereabouts: Whereabouts::default(),
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
                Order::Obey(push @ WorkerPush::ShutDown { .. }) => panic!("nobody asked for {push:?}"),
                Order::Obey(WorkerPush::Stop { task, reason }) => self.stop_task(pid, task, Some(reason)),
            }
        }
    }

    fn stop_task(&mut self, pid: Pid, id: TaskId, reason: Option<StopReason>) {
        self.note(format_args!("worker {pid} stops {id}: {reason:?}"));
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        if let Some(task) = worker.tasks.remove(&id) {
            worker.server.remove_task(served(id));
            let is_told = matches!(
                task.report,
                Some(Report::Settling | Report::Telling | Report::Done)
            );
            if reason == Some(StopReason::Settled) && is_told {
                self.oracle.settled(task.iteration, id);
            }
        }
    }

    /// The lease has lapsed, or the dispatcher says that it has.
    fn end_incarnation(&mut self, pid: Pid, why: &str) {
        self.note(format_args!("worker {pid} starts over: {why}"));
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
        (worker.boot, worker.begun, worker.is_busy) = (None, false, false);
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
                    Ok(_) => panic!("another answer"),
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
            (Purpose::FailTask, _) => {}
            (Purpose::LeaveWorker, _) => self.kill_worker(pid),
            (purpose, _) => panic!("a worker asks no {purpose:?}"),
        }
    }

    fn start_task(&mut self, pid: Pid, def: TaskDef) {
        let boot = self.center.boot().map_or(0, |boot| boot.0);
        let Some(job) = def.dataset.definition.first().copied() else {
            return;
        };
        let chance = self.chance.fork();
        let dataset = self.jobs[usize::from(job)].dataset.clone();
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        let boot = worker.boot.map_or(boot, |boot| boot.0);
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U64, &[WORDS])).expect("a spec");
        let producer = worker.server.add_task(
            served(def.task),
            TaskMode::FirstCome,
            &spec,
            std::sync::Arc::new(HeapAlloc),
        );
        let flow = Flow::new(&dataset, &def, def.policy == Policy::Dynamic, chance);
        let iteration = IterationKey {
            boot,
            iteration: def.iteration,
        };
        let task = Task {
            iteration,
            producer: Some(producer.expect("it is new here")),
            flow,
            asking: 0,
            unstarted: Vec::new(),
            returning: 0,
            report: None,
            exhausted: def.policy != Policy::Dynamic,
        };
        worker.tasks.insert(def.task, task);
        self.oracle
            .task_began(iteration, usize::from(job), def.repetition, def.task);
    }

    fn leased(&mut self, pid: Pid, id: TaskId, source: u32, repetition: u64, result: Result<Reply, Error>) {
        let worker = self.workers.get_mut(&pid);
        let Some(task) = worker.and_then(|worker| worker.tasks.get_mut(&id)) else {
            return;
        };
        let Ok(Reply::Splits {
            runs, end, current, ..
        }) = result
        else {
            // The task was given away: the agent is about to hear of it.
            task.asking -= 1;
            return;
        };
        if runs.is_empty() && !end {
            // C5.2: it holds too many.
            let later = self.now + Duration::from_millis(20);
            return self.at(later, Event::AskAgain(pid, id, source, repetition));
        }
        task.asking -= 1;
        let runs = runs.into_iter().map(|run| {
            let payloads = VecDeque::new();
            FeedRun { run, payloads }
        });
        let batch = FeedBatch {
            runs: runs.collect(),
            end,
            current,
        };
        if task.report.is_some() {
            task.unstarted
                .extend(batch.runs.iter().map(|leased| leased.run.leases()));
            self.give_back(pid, id);
        } else {
            task.flow.books.answered(source, batch);
        }
    }

    pub(super) fn ask_splits(&mut self, pid: Pid, id: TaskId, source: u32, repetition: u64) {
        let worker = self.workers.get_mut(&pid);
        if worker.is_some_and(|worker| worker.tasks.contains_key(&id)) {
            let request = Request::LeaseSplits {
                task: id,
                source,
                repetition,
                want: WANT,
            };
            let purpose = Purpose::Lease {
                task: id,
                source,
                repetition,
            };
            self.call(pid, purpose, request);
        }
    }

    /// C5.5: once every answer is here, what was not begun goes back.
    fn give_back(&mut self, pid: Pid, id: TaskId) {
        let worker = self.workers.get_mut(&pid);
        let Some(task) = worker.and_then(|worker| worker.tasks.get_mut(&id)) else {
            return;
        };
        if task.asking > 0 || task.unstarted.is_empty() {
            return;
        }
        let leases = std::mem::take(&mut task.unstarted);
        task.returning += 1;
        self.call(
            pid,
            Purpose::Return(id),
            Request::ReturnSplits { task: id, leases },
        );
    }

    /// What a worker does from time to time.
    pub(super) fn worker_tick(&mut self, pid: Pid) {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        worker.server.forget_absent();
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
    }

    /// Makes the next elements of a task, as far as there are splits, room and somebody who wants them.
    fn work(&mut self, pid: Pid, id: TaskId) {
        for _ in 0..RUN_MAX {
            let worker = self.workers.get_mut(&pid);
            let Some(task) = worker.and_then(|worker| worker.tasks.get_mut(&id)) else {
                return;
            };
            let Some(producer) = &mut task.producer else {
                return;
            };
            if !producer.is_started() || !producer.has_room() {
                return;
            }
            match task.flow.step() {
                Step::Row(row) => {
                    write(producer, task.iteration, id, &row);
                    tell_finished(producer, &mut task.flow);
                }
                Step::Ask { source, repetition } => {
                    tell_finished(producer, &mut task.flow);
                    task.flow.books.asked(source, repetition);
                    task.asking += 1;
                    self.ask_splits(pid, id, source, repetition);
                }
                Step::Wait => return tell_finished(producer, &mut task.flow),
                Step::End => return self.end_task(pid, id, Ending::Exhausted),
                Step::Fail => {
                    let failure = Failure::new("data", "a record is damaged", "", "");
                    return self.end_task(pid, id, Ending::Failed(failure));
                }
            }
        }
    }

    fn end_task(&mut self, pid: Pid, id: TaskId, ending: Ending) {
        let worker = self.workers.get_mut(&pid);
        let Some(task) = worker.and_then(|worker| worker.tasks.get_mut(&id)) else {
            return;
        };
        let Some(mut producer) = task.producer.take() else {
            return;
        };
        tell_finished(&mut producer, &mut task.flow);
        task.exhausted |= task.flow.books.is_exhausted();
        task.unstarted = task.flow.books.take_unstarted();
        let is_failure = matches!(ending, Ending::Failed(_));
        task.report = Some(if is_failure { Report::Failed } else { Report::Ended });
        producer.finish(ending);
        if is_failure {
            self.oracle.failed(task.iteration);
            let message = "a record is damaged".to_owned();
            self.call(pid, Purpose::FailTask, Request::FailTask { task: id, message });
        }
        self.note(format_args!("worker {pid} ends {id}, failure {is_failure}"));
        self.give_back(pid, id);
    }

    /// Tells the dispatcher of an end: first that it is there, then that it was delivered.
    fn report_end(&mut self, pid: Pid, id: TaskId) {
        let settles_early = self.bug == Some(Bug::SettledTooEarly);
        let Some(worker) = self.workers.get_mut(&pid) else {
            return;
        };
        let is_settled = worker.server.is_settled(served(id)) || settles_early;
        let Some(task) = worker.tasks.get_mut(&id) else {
            return;
        };
        let is_returned = task.returning == 0 && task.asking == 0 && task.unstarted.is_empty();
        let delivered = match task.report {
            Some(Report::Ended) if is_returned => false,
            Some(Report::Settling) if is_settled => true,
            _ => return,
        };
        task.report = Some(if delivered {
            Report::Telling
        } else {
            Report::Finishing
        });
        let request = Request::FinishTask {
            task: id,
            delivered,
            exhausted: task.exhausted,
            cut_short: false,
        };
        self.call(pid, Purpose::Finish { task: id, delivered }, request);
    }
}

fn served(task: TaskId) -> millstream_dataplane::TaskId {
    millstream_dataplane::TaskId(task.0)
}

fn tell_finished(producer: &mut Producer, flow: &mut Flow) {
    for (lease, attempt) in flow.finished.drain(..) {
        producer.split_done(lease, attempt);
    }
}

fn write(producer: &mut Producer, iteration: IterationKey, task: TaskId, row: &Row) {
    let written = producer.written_elements();
    let leases = row.leases.iter().map(|(lease, attempt)| Provenance {
        lease: *lease,
        attempt: *attempt,
        from: 0,
        upto: 1,
    });
    let provenance: Vec<Provenance> = leases.collect();
    let outcome = producer.write(|pack, layout| -> Result<(), ProduceError<()>> {
        let begun = pack.begin(layout, &[Shape::fixed(&[WORDS])], provenance.len());
        let mut element = match begun {
            Ok(element) => element,
            Err(WriteError::Full { needed_bytes, .. }) => return Err(ProduceError::Full { needed_bytes }),
            Err(error) => panic!("{error}"),
        };
        let mut words = vec![
            iteration.boot,
            iteration.iteration.0,
            task.0,
            row.items.len() as u64,
        ];
        for item in &row.items {
            words.extend([item.source, item.pass, item.index, item.number]);
        }
        words.resize(WORDS as usize, 0);
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        for (place, byte) in element.component_mut(0).iter_mut().zip(bytes) {
            *place = byte;
        }
        element.finish(written, &provenance).expect("as begun");
        Ok(())
    });
    outcome.expect("it is written");
}
