//! The simulated world: its processes, its virtual time, and the loop that delivers every event.
//!
//! Does not know how a process reacts to an event, which the files of the processes decide.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use millstream_control::{
    Error, IterationId, Moment, Reply, Request, RequestNumber, SessionId, TaskId, WorkerId,
};
use millstream_link::Role;
use millstream_testkit::Chance;

use super::center::Center;
use super::dataset::SimDataset;
use super::defects::SimDefect;
use super::faults::Fault;
use super::group::{FIXED, Group, Order};
use super::ledger::{Ledger, LedgerTally};
use super::session::{Push, Session};
use super::trainer::SimTrainer;
use super::worker::{Road, SimWorker};

/// The number of a process. No two processes of a world have the same number.
pub(super) type Pid = u64;

/// The virtual time within which all epochs of a world must end.
const ENDS_WITHIN: Duration = Duration::from_secs(900);

/// Everything that happens at one time.
#[derive(Debug)]
pub(super) enum Event {
    /// A request arrives at the dispatcher.
    Asked {
        from: Pid,
        asker: (SessionId, Role),
        connection: u64,
        number: u64,
        settled_below: RequestNumber,
        request: Box<Request>,
    },
    /// A heartbeat arrives at the dispatcher. The moment is the time at which it was sent.
    Heard(Pid, u64, Moment),
    /// An answer arrives at a process.
    Answered {
        to: Pid,
        connection: u64,
        number: u64,
        result: Box<Result<Reply, Error>>,
    },
    /// A push arrives at a process.
    Pushed(Pid, u64, Box<Push>),
    /// The dispatcher's disk has stored a commit. The number is the life of the dispatcher's process.
    Committed(u64),
    /// The planner has divided a dataset into splits.
    Planned(u64, IterationId),
    /// The system of a worker's host has answered a probe.
    Probed(u64, WorkerId, String),
    /// The dispatcher checks its timeouts.
    Woken(u64),
    /// The dispatcher starts again from its store.
    Revived,
    /// A process sends a heartbeat, repeats its requests, and reconnects.
    Ticked(Pid),
    /// A task computes its next element.
    Computed(Pid, TaskId),
    /// The next message of a task arrives at its reader.
    Carried(TaskId),
    /// A trainer takes an element, or reads one that arrived.
    Stepped(Pid),
    /// A trainer saves its state.
    Saved(Pid),
    /// A fault happens.
    Struck(Fault),
    /// A worker starts, at this address.
    Started(String),
    /// A trainer of this number starts, in the group of this generation.
    Trained(u64, u64),
}

/// The settings of a world, all drawn from its seed.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) epochs: u64,
    /// The percentage of messages that are lost, and of those that arrive twice.
    pub(super) lost: u64,
    pub(super) twice: u64,
    /// The maximum delay of a message, in milliseconds.
    pub(super) delay_ms: u64,
    /// The maximum time of a commit, in milliseconds.
    pub(super) disk_ms: u64,
    /// The maximum time in which a worker computes an element, in milliseconds.
    pub(super) compute_ms: u64,
    /// The maximum time of a step of a trainer, in milliseconds.
    pub(super) step_ms: u64,
    /// The number of elements that a task may have sent and the reader has not released.
    pub(super) credits: u64,
    /// The number of early elements that a reader stores without counting them as outstanding.
    pub(super) window: usize,
    /// The maximum number of splits in one lease.
    pub(super) want: u32,
    /// The maximum number of faults that are drawn for an epoch.
    pub(super) faults: u64,
}

/// A world that reads some epochs.
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) chance: Chance,
    pub(super) now: Moment,
    pub(super) settings: Settings,
    pub(super) defect: Option<SimDefect>,
    pub(super) dataset: SimDataset,
    pub(super) center: Center,
    pub(super) workers: BTreeMap<Pid, SimWorker>,
    pub(super) trainers: BTreeMap<Pid, SimTrainer>,
    pub(super) roads: BTreeMap<TaskId, Road>,
    /// The process of each session.
    pub(super) sessions: BTreeMap<SessionId, Pid>,
    pub(super) group: Group,
    pub(super) ledger: Ledger,
    pub(super) tally: Tally,
    events: BTreeMap<(Moment, u64), Event>,
    next_event: u64,
    next_pid: Pid,
    is_loud: bool,
}

/// The events of a world, counted for the tests of the simulation itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) epochs: u64,
    /// The epochs whose trainers receive elements in any order.
    pub(super) in_any_order: u64,
    pub(super) events: u64,
    pub(super) removals: u64,
    pub(super) repeated: u64,
    pub(super) restarts: u64,
    pub(super) resumes: u64,
    pub(super) resized: u64,
    pub(super) fenced: u64,
    pub(super) given_up: u64,
    pub(super) ledger: LedgerTally,
    /// A number that follows from the order of all events.
    pub(super) trace: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.epochs += other.epochs;
        self.in_any_order += other.in_any_order;
        self.events += other.events;
        self.removals += other.removals;
        self.repeated += other.repeated;
        self.restarts += other.restarts;
        self.resumes += other.resumes;
        self.resized += other.resized;
        self.fenced += other.fenced;
        self.given_up += other.given_up;
        self.ledger.add(&other.ledger);
        self.trace ^= other.trace;
    }
}

/// Runs the world of a seed to the end of its epochs. Panics if a promise is broken.
pub(super) fn run(seed: u64, defect: Option<SimDefect>, is_loud: bool) -> Tally {
    let mut world = World::new(seed, defect, is_loud);
    world.begin();
    while !world.group.has_ended {
        world.step();
        assert!(
            world.now < ENDS_WITHIN,
            "seed {seed}: the epoch never ends: {:#?}",
            world.center.status()
        );
    }
    world.tally.ledger = world.ledger.tally.clone();
    world.tally
}

impl World {
    fn new(seed: u64, defect: Option<SimDefect>, is_loud: bool) -> World {
        let mut chance = Chance::new(seed);
        let settings = Settings::draw(&mut chance);
        let dataset = SimDataset::draw(&mut chance, seed, settings.epochs);
        let order = draw_order(seed);
        World {
            seed,
            now: Duration::ZERO,
            defect,
            center: Center::new(),
            workers: BTreeMap::new(),
            trainers: BTreeMap::new(),
            roads: BTreeMap::new(),
            sessions: BTreeMap::new(),
            group: Group::new(&mut chance, &dataset, order),
            ledger: Ledger::new(order != FIXED),
            tally: Tally::default(),
            events: BTreeMap::new(),
            next_event: 0,
            next_pid: 1,
            is_loud,
            settings,
            dataset,
            chance,
        }
    }

    fn begin(&mut self) {
        self.register_dataset();
        self.later(Duration::ZERO, Event::Woken(0));
        for number in 0..self.chance.within(1..5) {
            let delay = self.chance.millis(0..200);
            self.later(delay, Event::Started(format!("worker-{number}")));
        }
        self.begin_epoch();
    }

    /// Delivers the next event.
    fn step(&mut self) {
        let Some(((at, _), event)) = self.events.pop_first() else {
            panic!("seed {}: nothing happens any more", self.seed)
        };
        self.now = at;
        self.tally.events += 1;
        self.tally.trace = self.tally.trace.rotate_left(7) ^ at.as_nanos() as u64;
        if self.is_loud && !matches!(event, Event::Woken(_) | Event::Ticked(_) | Event::Heard(..)) {
            println!("{:9.3} {event:?}", at.as_secs_f64());
        }
        match event {
            Event::Asked {
                from,
                asker,
                connection,
                number,
                settled_below,
                request,
            } => self.receive_request((from, connection, number), asker, settled_below, *request),
            Event::Heard(from, connection, sent_at) => self.receive_heartbeat(from, connection, sent_at),
            Event::Answered {
                to,
                connection,
                number,
                result,
            } => self.receive_answer(to, connection, number, *result),
            Event::Pushed(to, connection, push) => self.receive_push(to, connection, *push),
            Event::Committed(life) => self.end_commit(life),
            Event::Planned(life, iteration) => self.answer_plan(life, iteration),
            Event::Probed(life, worker, address) => self.answer_probe(life, worker, &address),
            Event::Woken(life) => self.wake_center(life),
            Event::Revived => self.revive_center(),
            Event::Ticked(pid) => self.tick(pid),
            Event::Computed(pid, task) => self.compute(pid, task),
            Event::Carried(task) => self.carry(task),
            Event::Stepped(pid) => self.step_trainer(pid),
            Event::Saved(pid) => self.save(pid),
            Event::Struck(fault) => self.strike(fault),
            Event::Started(address) => self.start_worker(address),
            Event::Trained(generation, rank) => self.start_trainer(generation, rank),
        }
    }

    /// Lets an event happen after `delay`.
    pub(super) fn later(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    pub(super) fn at(&mut self, at: Moment, event: Event) {
        self.next_event += 1;
        self.events.insert((at.max(self.now), self.next_event), event);
    }

    pub(super) fn fresh_pid(&mut self) -> Pid {
        self.next_pid += 1;
        self.next_pid
    }

    /// Draws the delay of a message.
    pub(super) fn delay(&mut self) -> Duration {
        let most = match self.chance.percent(90) {
            true => 3,
            false => self.settings.delay_ms,
        };
        self.chance.millis(1..most + 2)
    }

    pub(super) fn session(&mut self, pid: Pid) -> Option<&mut Session> {
        let of_worker = self.workers.get_mut(&pid).map(|worker| &mut worker.session);
        of_worker.or_else(|| self.trainers.get_mut(&pid).map(|trainer| &mut trainer.session))
    }

    /// Returns the time until which a process does nothing.
    pub(super) fn stalled_until(&self, pid: Pid) -> Option<Moment> {
        let of_worker = self.workers.get(&pid).map(|worker| worker.stalled_until);
        of_worker.or_else(|| self.trainers.get(&pid).map(|trainer| trainer.stalled_until))
    }

    pub(super) fn note(&self, text: fmt::Arguments<'_>) {
        if self.is_loud {
            println!("{:9.3} {text}", self.now.as_secs_f64());
        }
    }

    pub(super) fn has(&self, defect: SimDefect) -> bool {
        self.defect == Some(defect)
    }
}

/// Draws the order in which trainers receive elements. One world in three allows any order.
pub(super) fn draw_order(seed: u64) -> Order {
    // A chance of its own keeps the worlds of past failures as they were.
    let mut chance = Chance::new(!seed);
    match chance.percent(33) {
        true => (chance.within(2..12), 1 + chance.index(4)),
        false => FIXED,
    }
}

impl Settings {
    fn draw(chance: &mut Chance) -> Settings {
        let is_calm = chance.percent(20);
        Settings {
            epochs: chance.within(1..4),
            lost: if chance.percent(60) {
                chance.within(0..12)
            } else {
                0
            },
            twice: if chance.percent(60) {
                chance.within(0..12)
            } else {
                0
            },
            delay_ms: chance.within(1..300),
            disk_ms: chance.within(0..60),
            compute_ms: chance.within(1..120),
            step_ms: if chance.percent(30) {
                chance.within(80..400)
            } else {
                chance.within(1..80)
            },
            credits: chance.within(1..9),
            window: chance.index(6),
            want: chance.within(1..7) as u32,
            faults: if is_calm { 0 } else { chance.within(1..12) },
        }
    }
}
