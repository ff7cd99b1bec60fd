//! The state of a run, and the one loop that advances it: one thread, virtual time, one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_control::{IterationId, Policy, Record, SessionId, Status, TaskId};
use millstream_testkit::Chance;

use super::bugs::Bug;
use super::center::Center;
use super::clock::{Alarms, Executor};
use super::faults::{ALL, Plan};
use super::flow::Dataset;
use super::oracle::{Oracle, Tally};
use super::road::Roads;
use super::session::{Conn, ConnId, Down, Up};
use super::trainer::Trainer;
use super::worker::Worker;
use crate::report::SeenSplits;

/// The time within which every iteration must end after the faults have stopped.
const LIVENESS: Duration = Duration::from_secs(120);
/// The time within which all traces of ended processes must disappear.
const FORGOTTEN: Duration = Duration::from_secs(24);

/// The number of a process. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pid(u64);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job that trainers share.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) policy: Policy,
    pub(super) dataset: Dataset,
    pub(super) repetitions: u64,
}

/// An event in the simulation's queue.
#[derive(Debug)]
pub(super) enum Event {
    Turn(u64),
    Committed(u64),
    Woken(u64),
    Planned(u64, IterationId, Vec<u8>),
    Connect(Pid, SessionId),
    Overdue(ConnId),
    LostHere(ConnId),
    LostThere(ConnId),
    Arrive(ConnId, Up),
    Hear(ConnId, Down),
    Release(ConnId),
    Beat(ConnId),
    Tick(Pid),
    AskAgain(Pid, TaskId, u32, u64),
    LookedThrough(Pid, millstream_dataplane::TaskId, SeenSplits),
    Ended(Pid),
    Drained(Pid),
    StartCenter,
    StartWorker(String),
    StartTrainer(usize),
    Fault,
}

/// The state of a run.
pub(super) struct World {
    pub(super) chance: Chance,
    pub(super) plan: Plan,
    pub(super) bug: Option<Bug>,
    pub(super) now: Duration,
    events: BTreeMap<(Duration, u64), Event>,
    next_event: u64,
    alarms: Alarms,
    pub(super) executor: Executor,
    pub(super) roads: Arc<Roads>,
    pub(super) jobs: Vec<Job>,
    pub(super) center: Center,
    pub(super) conns: BTreeMap<ConnId, Conn>,
    pub(super) next_conn: u64,
    pub(super) workers: BTreeMap<Pid, Worker>,
    pub(super) trainers: BTreeMap<Pid, Trainer>,
    next_pid: u64,
    /// Processes that are cut off from the dispatcher, and below, paused processes. Each process is listed
    /// with the time at which its fault ends.
    pub(super) cut: BTreeMap<Pid, Duration>,
    pub(super) asleep: BTreeMap<Pid, Duration>,
    pub(super) oracle: Oracle,
    pub(super) is_healed: bool,
    /// True if all processes have finished their work.
    is_over: bool,
    pub(super) faults_done: [u64; ALL.len()],
    log: Log,
}

/// A digest of a run's log and, on request, the printed text.
struct Log {
    hash: u64,
    speaks: bool,
}

impl fmt::Write for Log {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.speaks {
            print!("{text}");
        }
        Ok(())
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// A digest of all log entries.
    pub(super) log: u64,
    /// The number of times that each fault was inflicted, in the order of [`ALL`].
    pub(super) faults: [u64; ALL.len()],
    pub(super) tally: Tally,
}

/// Runs the world of a seed to its end.
///
/// # Panics
/// Panics if a promise is broken.
pub(super) fn run(seed: u64, bug: Option<Bug>, speaks: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let mut world = World::new(seed, bug, speaks);
        world.begin_everybody();
        let safety = world.plan.safety;
        world.pass_until(safety).await;
        world.heal();
        let deadline = world.now + LIVENESS;
        while !world.is_read() {
            assert!(
                world.now < deadline,
                "the run never ends: {}",
                world.what_is_left()
            );
            world.pass_until(world.now + Duration::from_millis(50)).await;
        }
        world.check_everything_ends().await;
        Outcome {
            log: world.log.hash,
            faults: world.faults_done,
            tally: world.oracle.tally,
        }
    })
}

impl World {
    fn new(seed: u64, bug: Option<Bug>, speaks: bool) -> World {
        let mut chance = Chance::new(seed);
        let plan = Plan::draw(&mut chance);
        let jobs = plan.jobs(&mut chance);
        let alarms = Alarms::default();
        let roads = Roads::new(alarms.clone(), chance.fork(), plan.slowest, bug);
        let mut world = World {
            chance,
            bug,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            next_event: 0,
            alarms,
            executor: Executor::default(),
            roads: Arc::new(roads),
            center: Center::new(plan.config(), plan.remembers),
            plan,
            conns: BTreeMap::new(),
            next_conn: 0,
            workers: BTreeMap::new(),
            trainers: BTreeMap::new(),
            next_pid: 0,
            cut: BTreeMap::new(),
            asleep: BTreeMap::new(),
            oracle: Oracle::new(&jobs),
            jobs,
            is_healed: false,
            is_over: false,
            faults_done: [0; ALL.len()],
            log: Log {
                hash: 0xcbf2_9ce4_8422_2325,
                speaks,
            },
        };
        let (plan, jobs) = (world.plan.clone(), world.jobs.clone());
        world.note(format_args!("{plan:?} {jobs:?}"));
        world
    }

    pub(super) fn note(&mut self, what: fmt::Arguments<'_>) {
        let now = self.now.as_millis();
        fmt::write(&mut self.log, format_args!("{now} {what}\n")).expect("a log takes everything");
    }

    pub(super) fn at(&mut self, when: Duration, event: Event) {
        let number = self.next_event;
        self.next_event += 1;
        self.events.insert((when.max(self.now), number), event);
    }

    pub(super) fn fresh_pid(&mut self) -> Pid {
        self.next_pid += 1;
        Pid(self.next_pid)
    }

    /// Draws the delay of a message.
    pub(super) fn delay(&mut self) -> Duration {
        let slowest = self.plan.slowest.max(2);
        if self.chance.percent(85) {
            self.chance.millis(1..6)
        } else {
            self.chance.millis(1..slowest)
        }
    }

    pub(super) fn cut_until(&self, pid: Pid) -> Option<Duration> {
        self.cut.get(&pid).copied().filter(|until| *until > self.now)
    }

    pub(super) fn asleep_until(&self, pid: Pid) -> Option<Duration> {
        self.asleep.get(&pid).copied().filter(|until| *until > self.now)
    }

    /// Advances the run to the time `end`.
    async fn pass_until(&mut self, end: Duration) {
        loop {
            self.run_futures();
            let next = self.events.keys().next().map(|(at, _)| *at);
            let next = next.into_iter().chain(self.alarms.next_due()).min();
            let until = next.map_or(end, |next| next.min(end));
            if until > self.now {
                tokio::time::advance(until - self.now).await;
                self.now = until;
            }
            self.alarms.pass_to(self.now);
            if next.is_none_or(|next| next > end) {
                return self.run_futures();
            }
            if let Some(first) = self.events.first_entry()
                && first.key().0 <= self.now
            {
                let event = first.remove();
                self.happen(event);
            }
        }
    }

    fn run_futures(&mut self) {
        let (asleep, now) = (&self.asleep, self.now);
        let is_asleep = |pid: Pid| asleep.get(&pid).is_some_and(|until| *until > now);
        loop {
            self.executor.run(&mut self.chance, is_asleep);
            let fresh = self.roads.take_fresh();
            if fresh.is_empty() {
                return;
            }
            for (pid, server, link) in fresh {
                self.executor.spawn(pid, async move {
                    server.serve(link).await;
                });
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn(epoch) => self.turn(epoch),
            Event::Committed(epoch) => self.committed(epoch),
            Event::Woken(epoch) => self.wake_center(epoch),
            Event::Planned(epoch, iteration, definition) => self.planned(epoch, iteration, &definition),
            Event::Connect(pid, session) => self.connect(pid, session),
            Event::Overdue(conn) => self.overdue(conn),
            Event::LostHere(conn) => self.lose_conn(conn),
            Event::LostThere(conn) => self.lost_there(conn),
            Event::Arrive(conn, message) => self.cross_up(conn, message),
            Event::Hear(conn, message) => self.cross_down(conn, message),
            Event::Release(conn) => self.release(conn),
            Event::Beat(conn) => self.beat(conn),
            Event::Tick(pid) => self.tick(pid),
            Event::AskAgain(pid, task, source, repetition) => self.ask_again(pid, task, source, repetition),
            Event::LookedThrough(pid, task, seen) => self.looked_through(pid, task, seen),
            Event::Ended(pid) if self.workers.contains_key(&pid) => self.kill_worker(pid),
            Event::Ended(_) => {}
            Event::Drained(pid) => self.stop_worker(pid),
            Event::StartCenter if self.center.machine.is_none() => self.start_center(),
            Event::StartCenter => {}
            Event::StartWorker(address) => self.begin_worker(&address),
            Event::StartTrainer(job) => {
                self.start_trainer(job);
            }
            Event::Fault => self.go_wrong(),
        }
    }

    fn tick(&mut self, pid: Pid) {
        let pause = if self.is_over { 500 } else { self.plan.tick };
        let next = self.now + self.chance.millis(2..pause + 3);
        let next = self.asleep_until(pid).map_or(next, |until| until.max(next));
        if self.asleep_until(pid).is_none() {
            self.worker_tick(pid);
            self.trainer_tick(pid);
        }
        if self.workers.contains_key(&pid) || self.trainers.contains_key(&pid) {
            self.at(next, Event::Tick(pid));
        }
    }

    /// Checks every promise about ends: first of the data that was read, then that no state of ended
    /// processes remains.
    async fn check_everything_ends(&mut self) {
        self.is_over = true;
        // Messages in flight arrive within this time.
        self.pass_until(self.now + Duration::from_secs(2)).await;
        self.check_ends().await;
        let trainers: Vec<Pid> = self.trainers.keys().copied().collect();
        for pid in trainers {
            self.kill_trainer(pid);
        }
        self.pass_until(self.now + FORGOTTEN).await;
        let status = self.status();
        assert_eq!(status.counts.tasks, 0, "tasks are left");
        assert_eq!(status.counts.clients, 0, "clients are left");
        for (pid, worker) in &self.workers {
            assert!(worker.is_idle(), "worker {pid} has tasks left");
        }
        let workers: Vec<Pid> = self.workers.keys().copied().collect();
        for pid in workers {
            self.stop_worker(pid);
        }
        self.pass_until(self.now + FORGOTTEN / 2).await;
        assert!(self.workers.is_empty(), "a worker never leaves");
        let left: Vec<Record> = self.center.stored().collect();
        // Datasets with an explicit name are never deleted (C2.5).
        let is_own = |record: &Record| matches!(record, Record::Meta(_) | Record::Dataset(_));
        assert!(left.iter().all(is_own), "records are left: {left:?}");
    }

    /// Checks each iteration once it has no clients. Splits that dead trainers held count as lost only when
    /// these clients are released (C5.8).
    async fn check_ends(&mut self) {
        let (jobs, deadline) = (self.jobs.clone(), self.now + FORGOTTEN);
        let mut checked = BTreeSet::new();
        loop {
            let status = self.status();
            self.oracle.check_ends(&status, &jobs, |row| {
                row.clients.is_empty() && !checked.contains(&row.id)
            });
            let unread = status.iterations.iter().filter(|row| row.clients.is_empty());
            checked.extend(unread.map(|row| row.id));
            if status.counts.clients == 0 {
                return;
            }
            assert!(self.now < deadline, "clients are left: {}", self.what_is_left());
            self.pass_until(self.now + Duration::from_millis(100)).await;
        }
    }

    fn status(&self) -> Status {
        self.center
            .machine
            .as_ref()
            .expect("the dispatcher runs")
            .status()
    }

    /// Returns the state that helps to explain a hang.
    fn what_is_left(&self) -> String {
        let status = self
            .center
            .machine
            .as_ref()
            .map(millstream_control::Dispatcher::status);
        let stages = self.trainers.iter().map(|(pid, trainer)| (*pid, trainer.stage));
        let stages: Vec<_> = stages.collect();
        format!("trainers {stages:?}, {status:#?}")
    }
}
