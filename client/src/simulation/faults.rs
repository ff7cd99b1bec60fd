//! The faults of a run. Each run draws some kinds of faults and omits other kinds, so that the runs differ in
//! kind.

use std::time::Duration;

use millstream_control::{DispatcherConfig, Policy, WorkerAddresses};
use millstream_testkit::Chance;

use super::flow::{Dataset, Shape};
use super::trainer::Stage;
use super::world::{Event, Job, Pid, World};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    KillWorker,
    LeaveWorker,
    /// A worker shuts down gracefully.
    DrainWorker,
    /// A worker loses its connection to the dispatcher for a while.
    CutWorker,
    /// A worker's process pauses for a while.
    PauseWorker,
    AddWorker,
    KillTrainer,
    CutTrainer,
    PauseTrainer,
    AddTrainer,
    CrashCenter,
    HangDisk,
    BreakConn,
    DisturbRoad,
}

/// Faults that neither end a process nor silence a process for long.
const GENTLE: [Fault; 9] = [
    Fault::DrainWorker,
    Fault::CutWorker,
    Fault::AddWorker,
    Fault::CutTrainer,
    Fault::PauseTrainer,
    Fault::AddTrainer,
    Fault::CrashCenter,
    Fault::BreakConn,
    Fault::DisturbRoad,
];

pub(super) const ALL: [Fault; 14] = [
    Fault::KillWorker,
    Fault::LeaveWorker,
    Fault::DrainWorker,
    Fault::CutWorker,
    Fault::PauseWorker,
    Fault::AddWorker,
    Fault::KillTrainer,
    Fault::CutTrainer,
    Fault::PauseTrainer,
    Fault::AddTrainer,
    Fault::CrashCenter,
    Fault::HangDisk,
    Fault::BreakConn,
    Fault::DisturbRoad,
];

/// The addresses of the fixed list of workers.
const PLACES: [&str; 3] = ["one:1", "two:2", "three:3"];

/// The drawn parameters of one run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) is_gentle: bool,
    pub(super) faults: Vec<Fault>,
    /// The longest pause between two faults, in milliseconds.
    pub(super) gap: u64,
    /// The period during which faults occur.
    pub(super) safety: Duration,
    /// The longest silence of a process, in milliseconds.
    pub(super) silence: u64,
    pub(super) remembers: bool,
    /// The longest delay of a message, in milliseconds.
    pub(super) slowest: u64,
    pub(super) workers: usize,
    pub(super) trainers: usize,
    pub(super) is_static: bool,
    pub(super) trainers_leave: bool,
    pub(super) max_outstanding: u64,
    /// True if a reader may be silent for longer than its lease.
    pub(super) may_lapse: bool,
    /// The percentage of answers that never arrive, because the connection breaks first.
    pub(super) answers_lost: u64,
    /// The longest pause between two ticks of a process, in milliseconds.
    pub(super) tick: u64,
}

impl Plan {
    pub(super) fn draw(chance: &mut Chance) -> Plan {
        let is_gentle = chance.percent(30);
        let kinds: &[Fault] = if is_gentle { &GENTLE } else { &ALL };
        let faults = kinds.iter().copied().filter(|_| chance.percent(50)).collect();
        let slow = chance.percent(40);
        Plan {
            is_gentle,
            faults,
            gap: chance.within(40..500),
            safety: chance.millis(1000..6000),
            silence: if is_gentle { 300 } else { 4000 },
            remembers: is_gentle || chance.percent(80),
            slowest: if slow { chance.within(10..400) } else { 12 },
            workers: chance.within(1..4) as usize,
            trainers: chance.within(1..4) as usize,
            is_static: chance.percent(20),
            trainers_leave: !is_gentle && chance.percent(40),
            max_outstanding: chance.within(1..9),
            may_lapse: !is_gentle,
            answers_lost: if chance.percent(50) {
                chance.within(1..6)
            } else {
                0
            },
            tick: chance.within(3..30),
        }
    }

    pub(super) fn config(&self) -> DispatcherConfig {
        let seconds = Duration::from_secs;
        let places = if self.is_static {
            &PLACES[..self.workers]
        } else {
            &[]
        };
        DispatcherConfig {
            worker_addresses: WorkerAddresses::new(places.iter().copied()).expect("a list"),
            heartbeat_interval: Duration::from_millis(250),
            liveness: seconds(1),
            worker_timeout: seconds(6),
            client_timeout: seconds(4),
            acknowledge_timeout: Duration::from_millis(1500),
            workers_lost_grace: seconds(3600),
            job_gc_check_interval: seconds(1),
            job_gc_timeout: Some(seconds(8)),
            gc_dynamic_sharding_jobs: true,
            dataset_gc_timeout: Some(seconds(3)),
            sweep_interval: Duration::from_millis(200),
            lease_batch_max: 8,
            ..DispatcherConfig::default()
        }
    }

    /// Draws the jobs of a run.
    pub(super) fn jobs(&self, chance: &mut Chance) -> Vec<Job> {
        let count = chance.within(1..3);
        (0..count).map(|_| self.job(chance)).collect()
    }

    fn job(&self, chance: &mut Chance) -> Job {
        let policies: &[Policy] = if self.is_static {
            &[Policy::Data, Policy::FileOrData, Policy::Dynamic]
        } else {
            &[Policy::Dynamic, Policy::Dynamic, Policy::Dynamic, Policy::Off]
        };
        let policy = chance.pick(policies).expect("some");
        let shapes = [
            Shape::Repeat(1),
            Shape::Repeat(1),
            Shape::Repeat(chance.within(2..4)),
            Shape::Concatenate,
            Shape::Zip,
            Shape::Take(chance.within(0..12)),
            Shape::Shuffle(chance.within(2..8) as usize),
            Shape::Batch(chance.within(2..4) as usize),
        ];
        let shape = chance.pick(&shapes).expect("some");
        let sources = if matches!(shape, Shape::Concatenate | Shape::Zip) {
            2
        } else {
            1
        };
        Job {
            policy,
            dataset: Dataset {
                shape,
                sources: (0..sources).map(|_| chance.within(0..60)).collect(),
                sizes: chance.within(2..5),
                fails: (!self.is_gentle && chance.percent(10)).then(|| chance.within(0..20)),
            },
            repetitions: chance.within(1..3),
        }
    }
}

impl World {
    /// Inflicts one fault, and schedules the next fault.
    pub(super) fn go_wrong(&mut self) {
        if self.is_healed {
            return;
        }
        let faults = self.plan.faults.clone();
        if let Some(fault) = self.chance.pick(&faults) {
            self.note(format_args!("fault: {fault:?}"));
            let place = ALL
                .iter()
                .position(|kind| *kind == fault)
                .expect("`ALL` contains every fault");
            self.faults_done[place] += 1;
            self.inflict(fault);
        }
        let rest = if self.plan.is_gentle { 400 } else { 5 };
        let next = self.now + self.chance.millis(rest..rest + self.plan.gap);
        self.at(next, Event::Fault);
    }

    fn inflict(&mut self, fault: Fault) {
        let silence = self.chance.millis(20..self.plan.silence);
        let until = self.now + silence;
        let workers: Vec<Pid> = self.workers.keys().copied().collect();
        let trainers: Vec<Pid> = self.trainers.keys().copied().collect();
        let (worker, trainer) = (self.chance.pick(&workers), self.chance.pick(&trainers));
        match (fault, worker, trainer) {
            (Fault::KillWorker, Some(pid), _) => {
                let address = self.workers[&pid].address.clone();
                self.kill_worker(pid);
                self.replace_worker(address);
            }
            (Fault::LeaveWorker, Some(pid), _) => self.leave_worker(pid, false),
            (Fault::DrainWorker, Some(pid), _) => self.leave_worker(pid, true),
            (Fault::CutWorker, Some(pid), _) => {
                self.cut.insert(pid, until);
            }
            (Fault::PauseWorker, Some(pid), _) => {
                self.asleep.insert(pid, until);
            }
            (Fault::AddWorker, _, _) if !self.plan.is_static && workers.len() < 4 => {
                let address = format!("worker-{}:1", self.chance.within(0..5));
                self.begin_worker(&address);
            }
            (Fault::KillTrainer, _, Some(pid)) => {
                let job = self.trainers[&pid].job;
                self.kill_trainer(pid);
                let soon = self.now + self.chance.millis(10..2000);
                self.at(soon, Event::StartTrainer(job));
            }
            (Fault::CutTrainer, _, Some(pid)) => {
                self.cut.insert(pid, until);
            }
            (Fault::PauseTrainer, _, Some(pid)) => {
                self.asleep.insert(pid, until);
            }
            (Fault::AddTrainer, _, _) if trainers.len() < 5 => {
                let job = self.chance.index(self.jobs.len());
                self.start_trainer(job);
            }
            (Fault::CrashCenter, _, _) if self.center.machine.is_some() => {
                if self.chance.percent(60) {
                    self.center.dies_storing = true;
                } else {
                    self.crash_center();
                }
            }
            (Fault::HangDisk, _, _) => self.center.hangs_until = until,
            (Fault::BreakConn, _, _) => self.break_conn(),
            (Fault::DisturbRoad, _, _) => self.roads.disturb(),
            _ => {}
        }
    }

    fn leave_worker(&mut self, pid: Pid, in_good_order: bool) {
        let Some(worker) = self.workers.get(&pid).filter(|worker| !worker.is_leaving) else {
            return;
        };
        let address = worker.address.clone();
        if in_good_order {
            self.drain_worker(pid);
        } else {
            self.stop_worker(pid);
        }
        self.replace_worker(address);
    }

    fn replace_worker(&mut self, address: String) {
        if self.plan.is_static || self.chance.percent(80) {
            let soon = self.now + self.chance.millis(1..2500);
            let address = match self.plan.is_static || self.chance.percent(60) {
                true => address,
                false => format!("worker-{}:1", self.chance.within(0..5)),
            };
            self.at(soon, Event::StartWorker(address));
        }
    }

    /// Starts a worker at an address that no other worker uses. Retries later if the present worker at the
    /// address is leaving.
    pub(super) fn begin_worker(&mut self, address: &str) {
        let earlier = self.workers.values().find(|worker| worker.address == address);
        match earlier.map(|worker| worker.is_leaving) {
            None => {
                self.start_worker(address);
            }
            Some(true) => {
                let later = self.now + Duration::from_millis(100);
                self.at(later, Event::StartWorker(address.to_owned()));
            }
            Some(false) => {}
        }
    }

    pub(super) fn begin_everybody(&mut self) {
        self.start_center();
        for (place, listed) in PLACES.iter().enumerate().take(self.plan.workers) {
            let named = format!("worker-{place}:1");
            self.start_worker(if self.plan.is_static { listed } else { &named });
        }
        for _ in 0..self.plan.trainers {
            let job = self.chance.index(self.jobs.len());
            self.start_trainer(job);
        }
        let first = self.now + self.chance.millis(0..300);
        self.at(first, Event::Fault);
    }

    /// Ends all faults, and starts every process that the run needs.
    pub(super) fn heal(&mut self) {
        self.note(format_args!("healed"));
        self.is_healed = true;
        self.cut.clear();
        self.asleep.clear();
        self.center.hangs_until = self.now;
        if self.center.machine.is_none() {
            self.start_center();
        }
        if self.plan.is_static {
            for address in &PLACES[..self.plan.workers] {
                self.begin_worker(address);
            }
        } else if !self.workers.values().any(|worker| !worker.is_leaving) {
            self.start_worker("worker-9:1");
        }
        // At least one trainer reads each job to its end.
        for job in 0..self.jobs.len() {
            self.start_trainer(job);
        }
    }

    /// Returns whether every started reader is done.
    pub(super) fn is_read(&self) -> bool {
        self.trainers.values().all(|trainer| trainer.stage == Stage::Done)
    }
}
