//! The liveness of workers, judged from their heartbeats and from the reports of readers.
//!
//! [`WorkerLiveness`] knows workers by their ids only, and does not know the consequences of a death.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::config::DispatcherConfig;
use super::moment::Moment;
use crate::id::WorkerId;

/// Number of heartbeats that a worker with a closed port may miss. One heartbeat may be on its way, and one
/// may be late.
const CLOSED_HEARTBEATS: u32 = 2;

/// The heartbeats and probes of all workers.
#[derive(Debug, Default)]
pub(super) struct WorkerLiveness {
    workers: BTreeMap<WorkerId, Pulse>,
}

/// The limits of a worker's silence.
#[derive(Clone, Copy, Debug)]
pub(super) struct SilenceLimits {
    heartbeat: Duration,
    liveness: Duration,
    lease: Duration,
}

/// The facts about one worker's liveness.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    heard: Moment,
    /// True if the worker has sent a heartbeat in this life of the dispatcher.
    is_known: bool,
    /// The time at which the worker's port was found closed.
    closed_at: Option<Moment>,
    /// True if the worker sent a heartbeat after its port was found closed, so that the port says nothing
    /// about the worker.
    is_port_unreliable: bool,
    /// True if a reader has reported a lost link to the worker.
    is_reported: bool,
}

impl SilenceLimits {
    pub(super) fn of(config: &DispatcherConfig) -> SilenceLimits {
        SilenceLimits {
            heartbeat: config.heartbeat_interval,
            liveness: config.liveness,
            lease: config.worker_lease(),
        }
    }

    /// Returns how long a worker may be silent.
    fn of_worker(&self, pulse: &Pulse) -> Duration {
        if !pulse.is_found_closed() {
            // An overloaded worker and a worker behind a cut network are as silent as a dead worker, and
            // come back.
            return self.lease;
        }
        if pulse.is_known || pulse.is_reported {
            CLOSED_HEARTBEATS * self.heartbeat
        } else {
            // The dispatcher does not know yet whether this worker's port can be relied on.
            self.liveness
        }
    }
}

impl WorkerLiveness {
    /// Begins or resumes watching a worker that has just registered.
    pub(super) fn note_registered(&mut self, worker: WorkerId, now: Moment) {
        let pulse = self.workers.entry(worker).or_insert(Pulse::new(now));
        (pulse.heard, pulse.is_known, pulse.is_reported) = (now, true, false);
    }

    /// Begins to watch a worker from the store that has not yet reconnected (C1.6).
    pub(super) fn note_stored(&mut self, worker: WorkerId, now: Moment) {
        self.workers.insert(worker, Pulse::new(now));
    }

    /// Notes the heartbeat of a worker.
    pub(super) fn note_heartbeat(&mut self, worker: WorkerId, now: Moment, limits: SilenceLimits) {
        let Some(pulse) = self.workers.get_mut(&worker) else {
            return;
        };
        if pulse.closed_at.is_some_and(|at| now >= at + limits.heartbeat) {
            // One heartbeat may have been on its way when the port closed. This heartbeat was sent later.
            pulse.is_port_unreliable = true;
        }
        (pulse.heard, pulse.is_known, pulse.is_reported) = (now, true, false);
    }

    /// Notes that a reader has lost its link to the worker. Returns whether the worker is watched.
    pub(super) fn note_reported(&mut self, worker: WorkerId) -> bool {
        let pulse = self.workers.get_mut(&worker);
        pulse.map(|pulse| pulse.is_reported = true).is_some()
    }

    /// Notes whether a process listens at the worker's address, or that the worker's process broke off the
    /// connection.
    pub(super) fn note_probed(&mut self, worker: WorkerId, is_closed: bool, now: Moment) {
        if let Some(pulse) = self.workers.get_mut(&worker) {
            pulse.closed_at = is_closed.then(|| pulse.closed_at.unwrap_or(now));
        }
    }

    /// Stops watching a worker.
    pub(super) fn remove(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
    }

    /// Returns whether the worker is watched.
    #[cfg(debug_assertions)]
    pub(super) fn contains(&self, worker: WorkerId) -> bool {
        self.workers.contains_key(&worker)
    }

    /// Returns whether no worker is watched, so that nothing here depends on time.
    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// Returns how long a watched worker has been silent.
    pub(super) fn silence(&self, worker: WorkerId, now: Moment) -> Option<Duration> {
        let pulse = self.workers.get(&worker)?;
        Some(now.saturating_sub(pulse.heard))
    }

    /// Excuses all workers for a time in which the dispatcher itself did not run (C7.6).
    pub(super) fn excuse(&mut self, time: Duration) {
        for pulse in self.workers.values_mut() {
            pulse.heard += time;
            pulse.closed_at = None;
            pulse.is_reported = false;
        }
    }

    /// Returns the workers that have been silent for longer than their limits (C7.4).
    pub(super) fn dead(&self, now: Moment, limits: SilenceLimits) -> Vec<WorkerId> {
        let is_dead = |pulse: &Pulse| now.saturating_sub(pulse.heard) > limits.of_worker(pulse);
        let dead = self.workers.iter().filter(|(_, pulse)| is_dead(pulse));
        dead.map(|(id, _)| *id).collect()
    }

    /// Returns the workers whose addresses the shell should probe for a listening process.
    pub(super) fn to_probe(&self, now: Moment, limits: SilenceLimits) -> Vec<WorkerId> {
        let missed = CLOSED_HEARTBEATS * limits.heartbeat;
        let is_doubtful = |pulse: &Pulse| {
            !pulse.is_port_unreliable && (pulse.is_reported || now.saturating_sub(pulse.heard) >= missed)
        };
        let doubtful = self.workers.iter().filter(|(_, pulse)| is_doubtful(pulse));
        doubtful.map(|(id, _)| *id).collect()
    }
}

impl Pulse {
    fn new(now: Moment) -> Pulse {
        Pulse {
            heard: now,
            is_known: false,
            closed_at: None,
            is_port_unreliable: false,
            is_reported: false,
        }
    }

    fn is_found_closed(&self) -> bool {
        self.closed_at.is_some() && !self.is_port_unreliable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(250);

    /// Workers with heartbeats every half second, judged every quarter of a second.
    struct Rig {
        liveness: WorkerLiveness,
        limits: SilenceLimits,
        now: Moment,
        workers: u64,
    }

    impl Rig {
        fn new(workers: u64) -> Rig {
            let mut rig = Rig {
                liveness: WorkerLiveness::default(),
                limits: SilenceLimits::of(&DispatcherConfig::default()),
                now: Duration::from_secs(100),
                workers,
            };
            for worker in 1..=workers {
                rig.liveness.note_registered(WorkerId(worker), rig.now);
            }
            assert_eq!(rig.pass(4.0, |_| true), []);
            rig
        }

        /// Lets time pass while the workers that `speaks` selects send heartbeats. Returns the time of
        /// death of each worker that died.
        fn pass(&mut self, seconds: f64, speaks: impl Fn(u64) -> bool) -> Vec<(Duration, u64)> {
            let begun = self.now;
            let mut dead = Vec::new();
            while self.now - begun < Duration::from_secs_f64(seconds) {
                self.now += STEP;
                let heartbeats = self.now.as_millis().is_multiple_of(500);
                for worker in (1..=self.workers).filter(|worker| heartbeats && speaks(*worker)) {
                    self.liveness
                        .note_heartbeat(WorkerId(worker), self.now, self.limits);
                }
                for worker in self.liveness.dead(self.now, self.limits) {
                    self.liveness.remove(worker);
                    dead.push((self.now - begun, worker.0));
                }
            }
            dead
        }
    }

    #[test]
    fn silence_alone_is_death_after_the_lease() {
        let mut rig = Rig::new(2);
        let dead = rig.pass(40.0, |worker| worker != 2);
        assert_eq!(dead, [(Duration::from_millis(30_250), 2)]);
    }

    #[test]
    fn a_closed_port_is_death_within_two_heartbeats() {
        let mut rig = Rig::new(2);
        rig.liveness.note_probed(WorkerId(2), true, rig.now);
        let dead = rig.pass(3.0, |worker| worker != 2);
        assert_eq!(dead, [(Duration::from_millis(1250), 2)]);
    }

    #[test]
    fn one_readers_word_kills_no_worker() {
        let mut rig = Rig::new(1);
        for _ in 0..40 {
            assert!(rig.liveness.note_reported(WorkerId(1)));
            assert_eq!(rig.pass(0.5, |_| true), []);
        }
        rig.liveness.note_reported(WorkerId(1));
        assert_eq!(rig.pass(29.5, |_| false), [], "a slow worker lives as well");
        rig.liveness.note_probed(WorkerId(1), true, rig.now);
        assert_eq!(rig.pass(0.5, |_| false).len(), 1);
        assert!(!rig.liveness.note_reported(WorkerId(1)));
    }

    #[test]
    fn a_speaking_workers_closed_port_is_ignored() {
        let mut rig = Rig::new(1);
        rig.liveness.note_probed(WorkerId(1), true, rig.now);
        assert_eq!(rig.pass(2.0, |_| true), []);
        let later = rig.now + Duration::from_secs(2);
        assert_eq!(rig.liveness.to_probe(later, rig.limits), []);
        assert_eq!(rig.pass(29.5, |_| false), [], "alive within its lease");
    }

    #[test]
    fn overloaded_workers_that_speak_within_their_lease_live() {
        let mut rig = Rig::new(200);
        for turn in 0..20 {
            assert_eq!(rig.pass(4.0, |worker| worker % 7 == turn % 7), []);
        }
    }

    #[test]
    fn half_of_all_workers_can_die_at_once() {
        let mut rig = Rig::new(200);
        for worker in 1..=100 {
            rig.liveness.note_probed(WorkerId(worker), true, rig.now);
        }
        let dead = rig.pass(2.0, |worker| worker > 100);
        let dead: Vec<_> = dead.into_iter().map(|(_, worker)| worker).collect();
        assert_eq!(dead, (1..=100).collect::<Vec<_>>());
    }

    #[test]
    fn a_stored_worker_keeps_its_lease_unless_reported() {
        for (is_closed, is_reported, after_ms) in
            [(false, false, 30_250), (true, false, 10_250), (true, true, 1_250)]
        {
            let mut rig = Rig::new(1);
            let worker = WorkerId(9);
            rig.liveness.note_stored(worker, rig.now);
            rig.liveness.note_probed(worker, is_closed, rig.now);
            assert!(!is_reported || rig.liveness.note_reported(worker));
            let dead = rig.pass(40.0, |_| true);
            assert_eq!(dead, [(Duration::from_millis(after_ms), worker.0)]);
        }
    }
}
