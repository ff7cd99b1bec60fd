//! The simulated world: the machine, the workers, the consumers, and their messages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_link::Role;

use super::consumer::Consumer;
use super::splits::Data;
use crate::dispatcher::tests::rig::{READER, Rig, facts};
use crate::dispatcher::{DispatcherConfig, Event, Reply, Request, WorkerPush};
use crate::error::Error;
use crate::id::{JobId, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::planner::{Cardinality, DatasetFacts, SourcePlan, SplitPlan};
use crate::split::Seen;
use crate::whereabouts::Whereabouts;

const WORKERS_MAX: usize = 4;
/// The number of groups that each consumer must hand over once all processes behave.
const GROUPS_HEALED: usize = 12;
/// The number of turns within which the groups must be handed over.
const TURNS_MAX: usize = 200;

/// A worker's process. The elements of a worker reach the consumers also while the worker is cut off from
/// the dispatcher.
pub(super) struct Worker {
    pub(super) session: SessionId,
    address: String,
    pub(super) alive: bool,
    pub(super) cut_off: bool,
    /// True if the worker drains, so that it takes no further splits and tasks.
    pub(super) drains: bool,
    pub(super) tasks: BTreeMap<TaskId, Served>,
}

/// A task on its worker.
pub(super) struct Served {
    /// The number of groups that each consumer has acknowledged.
    acknowledged: Vec<u64>,
    /// True if no further split is leased to the task.
    pub(super) is_at_end: bool,
    /// True if the worker reported that it has produced all groups.
    pub(super) has_finished: bool,
}

impl Served {
    fn new(consumers: usize) -> Served {
        Served {
            acknowledged: vec![0; consumers],
            is_at_end: false,
            has_finished: false,
        }
    }

    /// Returns the number of groups that every consumer has acknowledged.
    fn released(&self) -> u64 {
        self.acknowledged.iter().min().copied().unwrap_or_default()
    }
}

pub(super) struct World {
    pub(super) rig: Rig,
    pub(super) data: Data,
    /// The lease and the index of each split that a task has produced, in the order of its groups.
    pub(super) produced: BTreeMap<TaskId, Vec<(u64, u64)>>,
    /// The groups whose splits were reported as done.
    pub(super) reported: BTreeSet<(TaskId, u64)>,
    job: JobId,
    count: u32,
    pub(super) workers: Vec<Worker>,
    pub(super) consumers: Vec<Consumer>,
    next_session: u64,
}

impl World {
    /// Makes a world in which `count` consumers read this data.
    pub(super) fn new(count: u32, data: Data) -> World {
        let mut rig = Rig::with(DispatcherConfig {
            client_timeout: Duration::from_secs(20),
            acknowledge_timeout: Duration::from_secs(8),
            consumer_timeout: Duration::from_secs(30),
            ..DispatcherConfig::default()
        });
        let (cardinality, policy) = match data {
            Data::Endless => (Cardinality::Infinite, Policy::Off),
            Data::Groups(groups) => (Cardinality::Finite(groups * u64::from(count)), Policy::Off),
            Data::Splits(splits) => {
                rig.plan = Ok(SplitPlan {
                    sources: vec![SourcePlan::Counted { splits }],
                    seed: 0,
                });
                (Cardinality::Finite(splits * u64::from(count)), Policy::Dynamic)
            }
        };
        let facts = DatasetFacts {
            cardinality,
            ..facts()
        };
        let dataset = rig.register(None, facts).unwrap();
        let parameters = JobParameters {
            num_consumers: Some(count),
            ..JobParameters::new(dataset, policy)
        };
        let job = rig.job(None, parameters).unwrap();
        World {
            rig,
            data,
            produced: BTreeMap::new(),
            reported: BTreeSet::new(),
            job,
            count,
            workers: Vec::new(),
            consumers: Vec::new(),
            next_session: READER.0 + 1,
        }
    }

    /// Performs one random step.
    pub(super) fn step(&mut self, op: u8, pick: usize) {
        match op {
            0 => self.end_worker(pick, pick.is_multiple_of(2)),
            1 => self.restart_worker(pick),
            2 => self.cut_off(pick),
            3 => self.rig.restart(),
            4 => self.pass(Duration::from_millis(pick as u64 % 7000)),
            5 => self.add_worker(),
            6 => self.add_consumer(),
            7 => self.toggle_deaf(pick),
            8..=13 => self.deliver(pick),
            14..=16 => self.acknowledge_elements(pick),
            17..=20 => self.release(pick),
            21..=26 => self.read(pick),
            27 | 28 => self.answer(pick),
            29 => self.acknowledge_removals(pick),
            30 => self.confirm(pick),
            31 | 32 => self.finish_tasks(pick),
            33 | 34 => self.report_ends(pick),
            35..=37 => self.produce(pick),
            38 | 39 => self.report_splits(pick),
            40 => self.drain(pick),
            _ => self.end_consumer(pick),
        }
    }

    /// Sends a request, and repeats it as if the answer were lost (C1.5).
    pub(super) fn ask(&mut self, session: SessionId, role: Role, request: Request) -> Result<Reply, Error> {
        let number = self.rig.send(session, role, request.clone());
        let first = self.rig.reply(number).expect("answered at once");
        self.rig.send_numbered(session, role, request, number, number);
        let again = self.rig.reply(number).expect("answered at once");
        assert_eq!(format!("{first:?}"), format!("{again:?}"));
        self.pass_on();
        first
    }

    fn pass_on(&mut self) {
        for (id, push) in std::mem::take(&mut self.rig.client_pushes) {
            let mut consumers = self.consumers.iter_mut();
            let to = consumers.find(|consumer| consumer.id == id && consumer.alive && !consumer.deaf);
            if let Some(to) = to {
                to.tell(push);
            }
        }
        for (session, push) in std::mem::take(&mut self.rig.worker_pushes) {
            let worker = self.workers.iter_mut().find(|worker| worker.session == session);
            let Some(worker) = worker.filter(|worker| worker.alive && !worker.cut_off) else {
                continue;
            };
            let count = self.count as usize;
            match push {
                WorkerPush::Assigned { tasks } => {
                    worker.tasks.retain(|task, _| tasks.contains(task));
                    for task in tasks {
                        worker.tasks.entry(task).or_insert_with(|| Served::new(count));
                    }
                }
                WorkerPush::Start { task } => drop(worker.tasks.insert(task, Served::new(count))),
                WorkerPush::Stop { task, .. } => drop(worker.tasks.remove(&task)),
                WorkerPush::Release { .. } | WorkerPush::ShutDown { .. } => {}
            }
        }
        for session in std::mem::take(&mut self.rig.disconnected) {
            let worker = self.workers.iter_mut().find(|worker| worker.session == session);
            if let Some(worker) = worker.filter(|worker| !worker.cut_off) {
                worker.alive = false;
            }
        }
    }

    fn fresh_session(&mut self) -> SessionId {
        self.next_session += 1;
        SessionId(self.next_session)
    }

    pub(super) fn add_worker(&mut self) {
        if self.workers.iter().filter(|worker| worker.alive).count() < WORKERS_MAX {
            self.start_worker(format!("worker-{}", self.workers.len()));
        }
    }

    fn start_worker(&mut self, address: String) {
        let session = self.fresh_session();
        self.workers.push(Worker {
            session,
            address: address.clone(),
            alive: true,
            cut_off: false,
            drains: false,
            tasks: BTreeMap::new(),
        });
        self.rig.register_worker(session.0, &address).unwrap();
        self.pass_on();
    }

    pub(super) fn worker(&mut self, pick: usize) -> Option<&mut Worker> {
        let mut living: Vec<_> = self.workers.iter_mut().filter(|worker| worker.alive).collect();
        let place = pick.checked_rem(living.len())?;
        Some(living.swap_remove(place))
    }

    fn end_worker(&mut self, pick: usize, gracefully: bool) {
        let Some(worker) = self.worker(pick) else { return };
        worker.alive = false;
        if gracefully && !worker.cut_off {
            let session = worker.session;
            if pick.is_multiple_of(4) {
                self.ask(session, Role::Worker, Request::DrainWorker).ok();
            }
            self.ask(session, Role::Worker, Request::LeaveWorker).ok();
        }
    }

    fn restart_worker(&mut self, pick: usize) {
        let Some(worker) = self.worker(pick) else { return };
        worker.alive = false;
        let address = worker.address.clone();
        self.start_worker(address);
    }

    fn cut_off(&mut self, pick: usize) {
        if let Some(worker) = self.worker(pick) {
            worker.cut_off = true;
        }
    }

    /// Adds the next consumer, if one is missing.
    fn add_consumer(&mut self) {
        let Some(index) = u32::try_from(self.consumers.len())
            .ok()
            .filter(|index| *index < self.count)
        else {
            return;
        };
        let session = self.fresh_session();
        let open = Request::OpenIteration {
            job: self.job,
            repetition: 0,
            consumer: Some(index),
            whereabouts: Whereabouts::default(),
        };
        let Ok(Reply::Client(id, _)) = self.ask(session, Role::Read, open) else {
            panic!("no client")
        };
        self.consumers.push(Consumer::new(index, session, id));
        self.ask(session, Role::Read, Request::Attach { client: id })
            .unwrap();
    }

    pub(super) fn consumer(&mut self, pick: usize) -> Option<&mut Consumer> {
        let mut living: Vec<_> = self
            .consumers
            .iter_mut()
            .filter(|consumer| consumer.alive)
            .collect();
        let place = pick.checked_rem(living.len())?;
        Some(living.swap_remove(place))
    }

    fn end_consumer(&mut self, pick: usize) {
        let Some(consumer) = self.consumer(pick) else {
            return;
        };
        consumer.alive = false;
        let (session, client) = (consumer.session, consumer.id);
        if pick.is_multiple_of(2) {
            self.ask(session, Role::Read, Request::Release { client })
                .unwrap();
        }
    }

    fn toggle_deaf(&mut self, pick: usize) {
        let Some(consumer) = self.consumer(pick) else {
            return;
        };
        consumer.deaf = !consumer.deaf;
        let (session, client) = (consumer.session, consumer.id);
        if !consumer.deaf {
            self.ask(session, Role::Read, Request::Attach { client }).unwrap();
        }
    }

    /// Lets time pass, in steps in which every living process sends a heartbeat.
    fn pass(&mut self, duration: Duration) {
        let end = self.rig.now + duration;
        while self.rig.now < end {
            self.rig.now = (self.rig.now + Duration::from_millis(500)).min(end);
            let workers = self
                .workers
                .iter()
                .filter(|worker| worker.alive && !worker.cut_off);
            let workers = workers.map(|worker| (worker.session, true, vec![]));
            let consumers = self.consumers.iter().filter(|consumer| consumer.alive);
            let consumers = consumers.map(|consumer| (consumer.session, false, vec![consumer.id]));
            for (session, worker, clients) in workers.chain(consumers).collect::<Vec<_>>() {
                self.rig.event(Event::Heartbeat {
                    session,
                    worker,
                    clients,
                });
            }
            self.rig.event(Event::Woken);
            self.pass_on();
        }
    }

    /// Delivers a group of each task on a worker to a consumer.
    fn deliver(&mut self, pick: usize) {
        let Some(worker) = self.worker(pick) else { return };
        let tasks: Vec<TaskId> = worker.tasks.keys().copied().collect();
        let tasks: Vec<_> = tasks
            .into_iter()
            .map(|task| (task, self.groups_of(task)))
            .collect();
        if let Some(consumer) = self.consumer(pick / WORKERS_MAX) {
            for (task, groups) in tasks {
                consumer.receive(task, groups);
            }
        }
    }

    /// Lets a worker report that it has produced everything. The consumers may lack any number of groups.
    fn finish_tasks(&mut self, pick: usize) {
        let (is_finite, has_splits) = match self.data {
            Data::Endless => (false, false),
            Data::Groups(_) => (true, false),
            Data::Splits(_) => (true, true),
        };
        let Some(worker) = self.worker(pick).filter(|worker| is_finite && !worker.cut_off) else {
            return;
        };
        let (session, cut_short) = (worker.session, worker.drains);
        let is_due = |served: &Served| !served.has_finished && (served.is_at_end || !has_splits);
        let running = worker.tasks.iter().filter(|(_, served)| is_due(served));
        let running: Vec<TaskId> = running.map(|(task, _)| *task).collect();
        for task in running {
            let finish = Request::FinishTask {
                task,
                delivered: false,
                exhausted: !cut_short,
                cut_short,
            };
            self.ask(session, Role::Worker, finish).unwrap();
            let worker = self.workers.iter_mut().find(|worker| worker.session == session);
            if let Some(served) = worker.and_then(|worker| worker.tasks.get_mut(&task)) {
                served.has_finished = true;
            }
        }
    }

    fn report_ends(&mut self, pick: usize) {
        let Some(consumer) = self.consumer(pick) else {
            return;
        };
        let (session, client) = (consumer.session, consumer.id);
        for task in std::mem::take(&mut consumer.to_report) {
            self.ask(session, Role::Read, Request::TaskDrained { client, task })
                .unwrap();
        }
    }

    fn acknowledge_elements(&mut self, pick: usize) {
        let Some(consumer) = self.consumer(pick / WORKERS_MAX) else {
            return;
        };
        let index = consumer.index as usize;
        let received = consumer.tasks.iter().map(|(task, view)| (*task, view.received));
        let received: BTreeMap<TaskId, u64> = received.collect();
        let Some(worker) = self.worker(pick) else { return };
        for (task, served) in &mut worker.tasks {
            if let Some(received) = received.get(task) {
                served.acknowledged[index] = *received;
            }
        }
    }

    /// Lets a worker tell a consumer how many groups all consumers have acknowledged, and that the task has
    /// ended if these are all its groups.
    fn release(&mut self, pick: usize) {
        let Some(worker) = self.worker(pick) else { return };
        let released = worker
            .tasks
            .iter()
            .map(|(task, served)| (*task, served.released(), served.has_finished));
        let released: Vec<(TaskId, u64, bool)> = released.collect();
        let released: Vec<_> = released
            .into_iter()
            .map(|(task, groups, has_finished)| {
                (task, groups, has_finished && groups == self.groups_of(task))
            })
            .collect();
        let Some(consumer) = self.consumer(pick / WORKERS_MAX) else {
            return;
        };
        for (task, groups, has_ended) in released {
            if let Some(view) = consumer.tasks.get_mut(&task)
                && !view.frozen
            {
                view.released = view.released.max(groups);
            }
            if has_ended {
                consumer.end_after(task, groups);
            }
        }
    }

    fn read(&mut self, pick: usize) {
        if let Some(consumer) = self.consumer(pick) {
            consumer.advance();
        }
    }

    fn answer(&mut self, pick: usize) {
        let Some(consumer) = self.consumer(pick) else {
            return;
        };
        let (session, client, earliest) = (consumer.session, consumer.id, consumer.earliest());
        for task in consumer.pending() {
            let request = Request::RoundReady {
                client,
                task,
                earliest,
            };
            self.ask(session, Role::Read, request).unwrap();
        }
    }

    fn acknowledge_removals(&mut self, pick: usize) {
        self.report_splits(pick);
        let Some(consumer) = self.consumer(pick) else {
            return;
        };
        let (session, client) = (consumer.session, consumer.id);
        for task in std::mem::take(&mut consumer.to_acknowledge) {
            let mut consumers = self.consumers.iter();
            let view =
                consumers.find_map(|consumer| (consumer.id == client).then(|| consumer.tasks.get(&task))?);
            let seen = Seen {
                released: view.map_or(0, |view| view.released),
                partial: view.map_or_else(Vec::new, |view| {
                    self.leases_of(task, view.released..view.received)
                }),
                ..Seen::default()
            };
            self.ask(session, Role::Read, Request::Acknowledge { client, task, seen })
                .unwrap();
        }
    }

    fn confirm(&mut self, pick: usize) {
        let Some(consumer) = self.consumer(pick) else {
            return;
        };
        let (session, client) = (consumer.session, consumer.id);
        for task in std::mem::take(&mut consumer.to_confirm) {
            self.ask(session, Role::Read, Request::VerdictHeard { client, task })
                .unwrap();
        }
    }

    /// Lets all living processes behave from now on, and adds all missing consumers.
    pub(super) fn heal(&mut self) {
        for worker in self.workers.iter_mut().filter(|worker| worker.cut_off) {
            worker.alive = false;
        }
        while self.consumers.len() < self.count as usize {
            self.add_consumer();
        }
        for pick in 0..self.consumers.len() {
            if self.consumer(pick).is_some_and(|consumer| consumer.deaf) {
                self.toggle_deaf(pick);
            }
        }
        // The time exceeds nearly every limit of silence (C7.6).
        self.pass(Duration::from_secs(40));
        if !self.workers.iter().any(|worker| worker.alive && !worker.drains) {
            self.add_worker();
        }
    }

    /// Lets all processes work until each living consumer has handed over the same number of further
    /// groups. Returns false if the consumers get stuck.
    pub(super) fn goes_on(&mut self) -> bool {
        let handed = |world: &World| world.consumers.iter().map(|consumer| consumer.handed.len()).min();
        let before = handed(self);
        for _ in 0..TURNS_MAX {
            self.behave();
            if handed(self) >= before.map(|before| before + GROUPS_HEALED) {
                return true;
            }
        }
        false
    }

    /// Lets every process do its part once.
    fn behave(&mut self) {
        for pick in 0..WORKERS_MAX * self.count as usize {
            self.deliver(pick);
            self.acknowledge_elements(pick);
            self.release(pick);
        }
        for pick in 0..WORKERS_MAX {
            self.produce(pick);
            self.finish_tasks(pick);
        }
        for pick in 0..self.count as usize {
            self.answer(pick);
            self.acknowledge_removals(pick);
            self.confirm(pick);
            self.report_splits(pick);
            self.report_ends(pick);
            self.read(pick);
        }
        self.pass(Duration::from_millis(300));
    }

    /// Lets all processes work until every consumer has reached the end. Returns false if the consumers get
    /// stuck.
    pub(super) fn ends(&mut self) -> bool {
        for _ in 0..TURNS_MAX {
            self.behave();
            if self.consumers.iter().all(|consumer| consumer.finished) {
                for consumer in &mut self.consumers {
                    while consumer.advance() {}
                }
                return true;
            }
        }
        false
    }

    /// Checks that the consumers have handed over the same groups, and all groups of each task that was not
    /// removed.
    pub(super) fn check_end(&self) {
        self.check_order();
        let first = &self.consumers[0];
        for consumer in &self.consumers {
            assert_eq!(consumer.handed.len(), first.handed.len(), "an end came early");
            for (task, view) in consumer.tasks.iter().filter(|(_, view)| !view.frozen) {
                assert_eq!(
                    consumer.handed_of(*task),
                    self.groups_of(*task),
                    "task {task}: {view:?}"
                );
            }
        }
    }

    /// Advances the clock until the dispatcher counts absent consumers as missing.
    pub(super) fn wait_for_the_missing(&mut self) {
        self.pass(Duration::from_secs(60));
    }

    pub(super) fn removals(&self) -> u64 {
        self.rig.machine.status().iterations[0].removals
    }

    /// Checks that all consumers have handed over the same groups, as far as each has read.
    pub(super) fn check_order(&self) {
        for one in &self.consumers {
            for other in &self.consumers {
                let common = one.handed.len().min(other.handed.len());
                assert_eq!(
                    one.handed[..common],
                    other.handed[..common],
                    "consumers {} and {}",
                    one.index,
                    other.index
                );
            }
        }
    }
}
