//! The faults of a simulated world: what goes wrong, and when.
//!
//! A fault changes processes, connections and roads. It decides nothing about elements.

use std::time::Duration;

use millstream_control::{Departure, Event as Input};
use millstream_testkit::Chance;

use super::world::{Event, Pid, World};

/// A fault, which strikes a random process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A worker dies. A supervisor may start it again at the same address.
    WorkerDies,
    /// A worker loses the dispatcher for a while, and goes on sending elements.
    WorkerCutOff,
    /// A worker stops for a while with all its connections open.
    WorkerStalls,
    /// A worker drains and leaves.
    WorkerDrains,
    /// A worker joins.
    WorkerJoins,
    /// The dispatcher dies and starts again from its store.
    CenterDies,
    /// A trainer dies, and starts again from its last saved state.
    TrainerDies,
    /// All trainers stop, and another number of trainers continues.
    GroupResumes,
    /// A trainer loses the dispatcher for a while.
    TrainerCutOff,
    /// A trainer stops for a while.
    TrainerStalls,
    /// The elements from a worker to a trainer are delayed for a while.
    RoadBlocked,
    /// A process loses its connection with the dispatcher, and reconnects at once.
    Reconnects,
    /// A trainer that was superseded ends. This fault follows others.
    SupersededEnds(Pid),
}

/// The faults that are drawn. A fault that stands here several times is more frequent.
const DRAWN: [Fault; 19] = [
    Fault::WorkerDies,
    Fault::WorkerDies,
    Fault::WorkerDies,
    Fault::WorkerCutOff,
    Fault::WorkerCutOff,
    Fault::WorkerStalls,
    Fault::WorkerDrains,
    Fault::WorkerJoins,
    Fault::CenterDies,
    Fault::CenterDies,
    Fault::CenterDies,
    Fault::TrainerDies,
    Fault::GroupResumes,
    Fault::GroupResumes,
    Fault::TrainerCutOff,
    Fault::TrainerStalls,
    Fault::TrainerStalls,
    Fault::RoadBlocked,
    Fault::Reconnects,
];

/// Draws the number of workers that die in each epoch, apart from the faults of `DRAWN`. In one world of
/// four, two workers die while they send, so that the next attempts repeat elements.
pub(super) fn draw_deaths(seed: u64) -> u64 {
    // A chance of its own keeps the worlds of past failures as they were.
    let mut chance = Chance::new(seed.rotate_left(24));
    if chance.percent(25) { 2 } else { 0 }
}

impl World {
    /// Draws the faults of an epoch and their times. Most of them come early, so that several overlap.
    pub(super) fn plan_faults(&mut self) {
        for _ in 0..draw_deaths(self.seed) {
            let delay = self.chance.millis(0..2000);
            self.later(delay, Event::Struck(Fault::WorkerDies));
        }
        let count = self.chance.within(0..self.settings.faults + 1);
        for _ in 0..count {
            let span = self.chance.pick(&[300, 1000, 4000]).expect("some spans");
            let delay = self.chance.millis(0..span);
            let fault = self.chance.pick(&DRAWN).expect("some faults");
            self.later(delay, Event::Struck(fault));
        }
    }

    fn fresh_address(&mut self) -> String {
        format!("worker-{}", 100 + self.fresh_pid())
    }

    fn some_worker(&mut self) -> Option<Pid> {
        let workers: Vec<Pid> = self.workers.keys().copied().collect();
        self.chance.pick(&workers)
    }

    fn some_member(&mut self) -> Option<Pid> {
        let members: Vec<Pid> = self.group.members.iter().flatten().copied().collect();
        self.chance.pick(&members)
    }

    pub(super) fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::WorkerDies => self.end_some_worker(),
            Fault::WorkerCutOff => {
                let pid = self.some_worker();
                self.cut_off(pid);
            }
            Fault::WorkerStalls => {
                let until = self.now + self.chance.millis(100..9000);
                if let Some(worker) = self.some_worker().and_then(|pid| self.workers.get_mut(&pid)) {
                    worker.stalled_until = until;
                }
            }
            Fault::WorkerDrains => self.drain_some_worker(),
            Fault::WorkerJoins => {
                let address = self.fresh_address();
                self.later(Duration::ZERO, Event::Started(address));
            }
            Fault::CenterDies => self.end_center(),
            Fault::TrainerDies => {
                if let Some(pid) = self.some_member() {
                    self.restart_trainer(pid);
                }
            }
            Fault::GroupResumes => self.resume_group(),
            Fault::TrainerCutOff => {
                let pid = self.some_member();
                self.cut_off(pid);
            }
            Fault::TrainerStalls => {
                let until = self.now + self.chance.millis(100..12_000);
                if let Some(trainer) = self.some_member().and_then(|pid| self.trainers.get_mut(&pid)) {
                    trainer.stalled_until = until;
                }
            }
            Fault::RoadBlocked => {
                let until = self.now + self.chance.millis(100..6000);
                let tasks: Vec<_> = self.roads.keys().copied().collect();
                let task = self.chance.pick(&tasks);
                if let Some(road) = task.and_then(|task| self.roads.get_mut(&task)) {
                    road.blocked_until = until;
                }
            }
            Fault::Reconnects => {
                let pid = if self.chance.percent(50) {
                    self.some_worker()
                } else {
                    self.some_member()
                };
                if let Some(session) = pid.and_then(|pid| self.session(pid)) {
                    session.disconnect();
                }
            }
            Fault::SupersededEnds(pid) => self.kill_trainer(pid),
        }
    }

    /// Kills a worker. The dispatcher may notice the end of the connection, and another worker starts.
    fn end_some_worker(&mut self) {
        let Some(pid) = self.some_worker() else {
            return;
        };
        let session = self.workers.get(&pid).map(|worker| worker.session.id);
        let Some((session, address)) = session.zip(self.kill_worker(pid)) else {
            return;
        };
        if self.chance.percent(60) {
            let departure = match self.chance.percent(50) {
                true => Departure::Lost,
                false => Departure::Reset,
            };
            self.feed(Input::Disconnected { session, departure });
        }
        let address = match self.chance.percent(60) {
            true => address,
            false => self.fresh_address(),
        };
        let delay = self.chance.millis(0..5000);
        self.later(delay, Event::Started(address));
    }

    /// Drains a worker. Another one starts later.
    fn drain_some_worker(&mut self) {
        if let Some(worker) = self.some_worker().and_then(|pid| self.workers.get_mut(&pid)) {
            worker.is_draining = true;
            let (delay, address) = (self.chance.millis(0..5000), self.fresh_address());
            self.later(delay, Event::Started(address));
        }
    }

    /// Cuts a process off from the dispatcher for a while.
    fn cut_off(&mut self, pid: Option<Pid>) {
        let until = self.now + self.chance.millis(200..16_000);
        let Some(session) = pid.and_then(|pid| self.session(pid)) else {
            return;
        };
        session.disconnect();
        session.cut_until = until;
        let session = session.id;
        if self.chance.percent(30) {
            let departure = Departure::Lost;
            self.feed(Input::Disconnected { session, departure });
        }
    }
}
