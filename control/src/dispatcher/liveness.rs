//! Judges which workers live, from their heartbeats, from what others report, and from the dispatcher's own absence.
//!
//! Knows workers and sessions by number only. Refuses to know what follows from a death.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::config::DispatcherConfig;
use super::machine::Moment;
use crate::id::{SessionId, WorkerId};

/// Heartbeats that a worker whose port is closed may miss. One may be on its way, and one may be late.
const CLOSED_HEARTBEATS: u32 = 2;
/// How many of the longest recent gaps between two heartbeats a silence must exceed.
const GAPS: u32 = 4;
/// One heard process among this many silent ones does not show that the dispatcher is connected.
const SILENT_PER_HEARD: usize = 16;

/// The heartbeats of all workers, and of the other processes as witnesses.
#[derive(Debug, Default)]
pub(super) struct WorkerLiveness {
    workers: BTreeMap<WorkerId, Pulse>,
    /// The latest heartbeat of each process that was heard within the cut-off limit.
    heard: BTreeMap<SessionId, Moment>,
    /// Workers were excused at the latest judgement, because nearly nobody was heard.
    is_cut_off: bool,
}

/// The limits of silence.
#[derive(Clone, Copy, Debug)]
pub(super) struct SilenceLimits {
    heartbeat: Duration,
    liveness: Duration,
    cut_off: Duration,
}

/// What is known of one worker.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    session: SessionId,
    heard: Moment,
    /// The silence counts from here; later than `heard` where the worker has been excused.
    excused_until: Moment,
    /// The longest recent time between two heartbeats; fades with each.
    gap: Duration,
    /// Whether it was heard in this life of the dispatcher.
    is_known: bool,
    /// When its port was found closed.
    closed_at: Option<Moment>,
    /// It was heard after its port was found closed: the port says nothing about it.
    is_port_unreliable: bool,
    /// A reader has lost its link to the worker.
    is_reported: bool,
}

impl SilenceLimits {
    pub(super) fn of(config: &DispatcherConfig) -> SilenceLimits {
        SilenceLimits {
            heartbeat: config.heartbeat_interval,
            liveness: config.liveness,
            cut_off: config.cut_off_limit.max(config.liveness),
        }
    }

    /// Returns whether nothing excuses the worker's silence any longer, whoever else is silent.
    fn have_run_out(&self, pulse: &Pulse, now: Moment) -> bool {
        let excused = now.saturating_sub(pulse.silent_since());
        let silence = now.saturating_sub(pulse.heard);
        pulse.is_found_closed() || excused > self.cut_off || silence > self.cut_off + 2 * self.liveness
    }

    /// Returns how long a worker may be silent that nothing excuses.
    fn of_worker(&self, pulse: &Pulse) -> Duration {
        let usual = self.liveness.max(GAPS * pulse.gap).min(self.cut_off);
        if pulse.is_found_closed() {
            let closed = if pulse.is_known || pulse.is_reported {
                CLOSED_HEARTBEATS * self.heartbeat
            } else {
                // Whether the port can be relied on is not known yet.
                self.liveness
            };
            return closed.min(usual);
        }
        usual
    }
}

impl Pulse {
    fn is_found_closed(&self) -> bool {
        self.closed_at.is_some() && !self.is_port_unreliable
    }

    /// Returns since when the worker counts as silent. A closed port is no longer excused by the dispatcher's absence.
    fn silent_since(&self) -> Moment {
        if self.is_found_closed() {
            self.heard
        } else {
            self.heard.max(self.excused_until)
        }
    }
}

impl WorkerLiveness {
    /// Begins to watch a worker, or resumes: it has just registered.
    pub(super) fn note_registered(&mut self, worker: WorkerId, session: SessionId, now: Moment) {
        let pulse = self.workers.entry(worker).or_insert(Pulse::new(session, now));
        (pulse.heard, pulse.is_known, pulse.is_reported) = (now, true, false);
    }

    /// Begins to watch a worker that the store names and that has not come back yet (C1.6).
    pub(super) fn note_stored(
        &mut self,
        worker: WorkerId,
        session: SessionId,
        now: Moment,
        liveness: Duration,
    ) {
        let excused_until = now + liveness;
        let pulse = Pulse {
            excused_until,
            ..Pulse::new(session, now)
        };
        self.workers.insert(worker, pulse);
    }

    /// Notes the heartbeat of any process.
    pub(super) fn note_process(&mut self, session: SessionId, now: Moment) {
        self.heard.insert(session, now);
    }

    /// Notes the heartbeat of a worker.
    pub(super) fn note_heartbeat(&mut self, worker: WorkerId, now: Moment, limits: SilenceLimits) {
        let Some(pulse) = self.workers.get_mut(&worker) else {
            return;
        };
        if pulse.is_known && !self.is_cut_off {
            let gap = now.saturating_sub(pulse.silent_since());
            pulse.gap = gap.max(pulse.gap * 7 / 8);
        }
        if pulse.closed_at.is_some_and(|at| now >= at + limits.heartbeat) {
            // One heartbeat may have been on its way when the port closed; this one was sent later.
            pulse.is_port_unreliable = true;
        }
        (pulse.heard, pulse.is_known, pulse.is_reported) = (now, true, false);
    }

    /// Notes that a reader has lost its link to the worker. Returns whether the worker is watched.
    pub(super) fn note_reported(&mut self, worker: WorkerId) -> bool {
        let pulse = self.workers.get_mut(&worker);
        pulse.map(|pulse| pulse.is_reported = true).is_some()
    }

    /// Notes whether anything listens at the worker's address, or that its process broke the connection off.
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
    pub(super) fn contains(&self, worker: WorkerId) -> bool {
        self.workers.contains_key(&worker)
    }

    /// Returns whether nothing here depends on time.
    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty() && self.heard.is_empty()
    }

    /// Returns how long a watched worker has been silent.
    pub(super) fn silence(&self, worker: WorkerId, now: Moment) -> Option<Duration> {
        let pulse = self.workers.get(&worker)?;
        Some(now.saturating_sub(pulse.heard))
    }

    /// Excuses everybody for a time in which the dispatcher itself did not run (C7.6).
    pub(super) fn excuse(&mut self, time: Duration) {
        for pulse in self.workers.values_mut() {
            pulse.heard += time;
            pulse.excused_until += time;
            pulse.closed_at = None;
            pulse.is_reported = false;
        }
        self.heard.values_mut().for_each(|heard| *heard += time);
    }

    /// Returns the workers that are dead (C7.4), and forgets processes that are long gone.
    pub(super) fn judge(&mut self, now: Moment, limits: SilenceLimits) -> Vec<WorkerId> {
        self.heard
            .retain(|_, heard| now.saturating_sub(*heard) <= limits.cut_off);
        let was_cut_off = std::mem::take(&mut self.is_cut_off);
        let mut dead = Vec::new();
        for (id, pulse) in &self.workers {
            let silence = now.saturating_sub(pulse.silent_since());
            if silence <= limits.of_worker(pulse) {
                continue;
            }
            if !limits.have_run_out(pulse, now) && self.is_cut_off_from(pulse, now, limits) {
                self.is_cut_off = true;
                continue;
            }
            dead.push(*id);
        }
        if was_cut_off && !self.is_cut_off {
            return self.resume(&dead, now, limits);
        }
        dead
    }

    /// Returns the workers of which it should be asked whether anything listens at their addresses.
    pub(super) fn to_probe(&self, now: Moment, limits: SilenceLimits) -> Vec<WorkerId> {
        let missed = CLOSED_HEARTBEATS * limits.heartbeat;
        let is_doubtful = |pulse: &Pulse| {
            !pulse.is_port_unreliable && (pulse.is_reported || now.saturating_sub(pulse.heard) >= missed)
        };
        let doubtful = self.workers.iter().filter(|(_, pulse)| is_doubtful(pulse));
        doubtful.map(|(id, _)| *id).collect()
    }

    /// Gives everybody two more silences, as after a restart: one to notice that the dispatcher is back, and one to come back. Those
    /// whose processes are known to be gone are not waited for, nor those whose limit has passed in any case.
    fn resume(&mut self, dead: &[WorkerId], now: Moment, limits: SilenceLimits) -> Vec<WorkerId> {
        let is_certain = |id: &WorkerId| {
            let pulse = self.workers.get(id);
            pulse.is_none_or(|pulse| limits.have_run_out(pulse, now))
        };
        let certain = dead.iter().copied().filter(is_certain).collect();
        for pulse in self.workers.values_mut() {
            pulse.excused_until = pulse.excused_until.max(now + limits.liveness);
        }
        certain
    }

    /// Returns whether nearly all who were heard when this worker was last heard have fallen silent with it: then the
    /// dispatcher is cut off, not they (C7.6).
    fn is_cut_off_from(&self, pulse: &Pulse, now: Moment, limits: SilenceLimits) -> bool {
        let together = pulse.heard.saturating_sub(limits.liveness);
        let (mut heard, mut silent) = (0, 0);
        for (session, at) in &self.heard {
            if *session == pulse.session || *at < together {
                continue;
            }
            if now.saturating_sub(*at) <= limits.liveness / 2 {
                heard += 1;
            } else {
                silent += 1;
            }
        }
        heard * SILENT_PER_HEARD < silent + 1
    }
}

impl Pulse {
    fn new(session: SessionId, now: Moment) -> Pulse {
        Pulse {
            session,
            heard: now,
            excused_until: now,
            gap: Duration::ZERO,
            is_known: false,
            closed_at: None,
            is_port_unreliable: false,
            is_reported: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(250);

    /// Workers and readers with heartbeats every half second, judged every quarter.
    struct Rig {
        liveness: WorkerLiveness,
        limits: SilenceLimits,
        now: Moment,
        workers: u64,
        readers: u64,
    }

    impl Rig {
        fn new(workers: u64, readers: u64) -> Rig {
            let mut rig = Rig {
                liveness: WorkerLiveness::default(),
                limits: SilenceLimits::of(&DispatcherConfig::default()),
                now: Duration::from_secs(100),
                workers,
                readers,
            };
            for worker in 1..=workers {
                rig.liveness
                    .note_registered(WorkerId(worker), SessionId(worker), rig.now);
            }
            assert_eq!(rig.pass(4.0, |_| true), []);
            rig
        }

        /// Time passes; sessions that `speaks` names are heard. Readers' sessions come after those of workers.
        fn pass(&mut self, seconds: f64, speaks: impl Fn(u64) -> bool) -> Vec<(Duration, WorkerId)> {
            let begun = self.now;
            let mut dead = Vec::new();
            while self.now - begun < Duration::from_secs_f64(seconds) {
                self.now += STEP;
                let heartbeats = self.now.as_millis().is_multiple_of(500);
                for session in
                    (1..=self.workers + self.readers).filter(|session| heartbeats && speaks(*session))
                {
                    self.liveness.note_process(SessionId(session), self.now);
                    if session <= self.workers {
                        self.liveness
                            .note_heartbeat(WorkerId(session), self.now, self.limits);
                    }
                }
                for worker in self.liveness.judge(self.now, self.limits) {
                    self.liveness.remove(worker);
                    dead.push((self.now - begun, worker));
                }
            }
            dead
        }
    }

    fn names(dead: &[(Duration, WorkerId)]) -> Vec<u64> {
        dead.iter().map(|(_, worker)| worker.0).collect()
    }

    #[test]
    fn silence_alone_is_death_after_the_limit() {
        let mut rig = Rig::new(2, 1);
        let dead = rig.pass(20.0, |session| session != 2);
        assert_eq!(names(&dead), [2]);
        assert_eq!(dead[0].0, Duration::from_millis(5250));
    }

    #[test]
    fn a_closed_port_is_death_within_two_heartbeats() {
        let mut rig = Rig::new(2, 1);
        rig.liveness.note_probed(WorkerId(2), true, rig.now);
        let dead = rig.pass(3.0, |session| session != 2);
        assert_eq!(names(&dead), [2]);
        assert!(dead[0].0 <= Duration::from_millis(1500), "{dead:?}");
    }

    #[test]
    fn one_readers_word_never_kills_a_healthy_worker() {
        let mut rig = Rig::new(1, 1);
        for _ in 0..40 {
            assert!(rig.liveness.note_reported(WorkerId(1)));
            assert_eq!(rig.pass(0.5, |_| true), []);
        }
        rig.liveness.note_reported(WorkerId(1));
        assert_eq!(rig.pass(4.5, |session| session != 1), [], "nor one that is slow");
        rig.liveness.note_probed(WorkerId(1), true, rig.now);
        assert_eq!(names(&rig.pass(0.5, |session| session != 1)), [1]);
        assert!(!rig.liveness.note_reported(WorkerId(1)));
    }

    #[test]
    fn a_closed_port_of_a_worker_that_speaks_is_disregarded() {
        let mut rig = Rig::new(1, 1);
        rig.liveness.note_probed(WorkerId(1), true, rig.now);
        assert_eq!(rig.pass(2.0, |_| true), []);
        assert_eq!(
            rig.liveness
                .to_probe(rig.now + Duration::from_secs(2), rig.limits),
            []
        );
        assert_eq!(
            rig.pass(4.5, |session| session != 1),
            [],
            "silence counts as ever"
        );
    }

    #[test]
    fn silence_of_everybody_is_the_dispatchers_own() {
        for (workers, readers) in [(1, 1), (3, 2), (200, 50)] {
            let mut rig = Rig::new(workers, readers);
            assert_eq!(rig.pass(10.0, |_| false), []);
            // They come back one by one, within ten seconds.
            let dead = (0..20).flat_map(|half| rig.pass(0.5, |session| session % 20 <= half));
            assert_eq!(dead.collect::<Vec<_>>(), []);
            // Only now does the silence of one count again.
            let dead = rig.pass(30.0, |session| session != 1);
            assert_eq!(names(&dead), [1]);
        }
    }

    #[test]
    fn a_silence_of_everybody_ends_at_the_cut_off_limit() {
        let mut rig = Rig::new(3, 1);
        assert_eq!(rig.pass(30.0, |_| false), []);
        assert_eq!(names(&rig.pass(1.0, |_| false)), [1, 2, 3]);
    }

    #[test]
    fn half_of_all_workers_can_die_at_once() {
        let mut rig = Rig::new(200, 50);
        let dead = rig.pass(8.0, |session| session > 100);
        assert_eq!(names(&dead), (1..=100).collect::<Vec<_>>());
    }

    #[test]
    fn a_worker_that_was_slow_before_is_given_more_time() {
        let mut rig = Rig::new(2, 1);
        assert_eq!(rig.pass(3.0, |session| session != 1), []);
        assert_eq!(rig.pass(0.5, |_| true), []);
        assert_eq!(
            rig.pass(9.0, |session| session != 1),
            [],
            "nine seconds, after three"
        );
        assert_eq!(names(&rig.pass(25.0, |session| session != 1)), [1]);
    }

    #[test]
    fn a_stored_worker_has_two_silences_unless_others_report_it() {
        for (is_closed, is_reported, after_ms) in
            [(false, false, 10_250), (true, false, 5_250), (true, true, 1_250)]
        {
            let mut rig = Rig::new(1, 1);
            let (worker, session) = (WorkerId(9), SessionId(99));
            let liveness = rig.limits.liveness;
            rig.liveness.note_stored(worker, session, rig.now, liveness);
            rig.liveness.note_probed(worker, is_closed, rig.now);
            assert!(!is_reported || rig.liveness.note_reported(worker));
            let dead = rig.pass(20.0, |_| true);
            assert_eq!(dead, [(Duration::from_millis(after_ms), worker)]);
        }
    }
}
