//! The decisions of a scaling policy: more workers as soon as readers wait, fewer after a calm time, none
//! without readers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::time::Duration;

use super::config::ScalingConfig;
use super::experience::{DEMAND_GROWTH, Experience};
use super::growth::growth_limit;
use super::observation::Observation;
use super::readers::{KnownReaders, RETURN_WITHIN};
use super::smoothed::Smoothed;
use super::trial::{Outcome, Trial};
use super::wanted::{Reason, Wanted};

/// The share of waiting from which on more workers are wanted.
const WAITING_HIGH: f64 = 0.1;
/// The share of waiting up to which fewer workers may suffice.
const WAITING_LOW: f64 = 0.05;
/// The time for which readers must wait before more workers are wanted. One late element is no shortage.
const UP_AFTER: Duration = Duration::from_secs(3);
/// The time for which the waiting of new readers does not count: every pipeline begins with an empty buffer.
const START_OF_READERS: Duration = Duration::from_secs(5);
/// The load of the wanted workers from which on none of them is idle.
const LOAD_HIGH: f64 = 0.6;
/// The load for which fewer workers are sized. The distance to [`LOAD_HIGH`] prevents oscillation.
const LOAD_TARGET: f64 = 0.8;
/// The divisor of the smallest step up: an effect of fewer workers could not be told from noise.
const STEP_DIVISOR: u64 = 4;
/// The divisor of a change in the number of producing workers from which on earlier averages do not count.
const CHANGE_DIVISOR: u64 = 8;
/// The largest share of waiting that is used to compute a number of workers.
const WAITING_MAX: f64 = 0.99;
/// The time after a step down in which waiting readers undo the step.
const UNDO_WITHIN: Duration = Duration::from_secs(120);
/// The time without an element or a wait after which readers count as paused, for example by an evaluation.
const PAUSED_AFTER: Duration = Duration::from_secs(30);
/// The turns of the readers for which new workers must produce elements before the policy judges their
/// effect.
const SETTLE_TURNS: u32 = 3;
/// The warm-ups after which the policy decides although workers come and go.
const WARM_UPS_MAX: u32 = 3;

/// The policy that decides how many workers a service wants.
///
/// The caller passes observations about once a second to [`step`](ScalingPolicy::step), with times that do
/// not decrease.
#[derive(Debug)]
pub(crate) struct ScalingPolicy {
    config: ScalingConfig,
    begun: Duration,
    /// The number of living workers before the first decision, and the time of its latest change.
    present: (u64, Duration),
    wanted: Option<Wanted>,
    averages: Smoothed,
    readers: KnownReaders,
    /// The number of producing workers when the averages began.
    producing: u64,
    waiting_since: Option<Duration>,
    idle_since: Option<Duration>,
    /// The latest time at which a reader took an element or waited.
    read_at: Duration,
    calm: Option<Calm>,
    trial: Option<Trial>,
    /// The latest step down, until its effect is known.
    lowered: Option<Lowered>,
    /// The largest useful numbers of workers.
    ceilings: Experience,
    /// The smallest sufficient numbers of workers.
    floors: Experience,
}

/// A time in which workers were idle.
#[derive(Debug)]
struct Calm {
    since: Duration,
    /// The largest number of workers that was needed in this time.
    needed: u64,
}

/// A step down.
#[derive(Debug)]
struct Lowered {
    at: Duration,
    from: u64,
    demand: f64,
    datasets: BTreeSet<u64>,
}

impl ScalingPolicy {
    /// Returns a policy that begins at `now`, and has observed nothing.
    pub(crate) fn new(config: ScalingConfig, now: Duration) -> ScalingPolicy {
        ScalingPolicy {
            config,
            begun: now,
            present: (0, now),
            wanted: None,
            averages: Smoothed::default(),
            readers: KnownReaders::default(),
            producing: 0,
            waiting_since: None,
            idle_since: None,
            read_at: now,
            calm: None,
            trial: None,
            lowered: None,
            ceilings: Experience::default(),
            floors: Experience::default(),
        }
    }

    /// Returns the latest decision. `None` until the policy has warmed up.
    pub(crate) fn wanted(&self) -> Option<&Wanted> {
        self.wanted.as_ref()
    }

    /// Adds an observation, and decides.
    pub(crate) fn step(&mut self, now: Duration, seen: &Observation) -> Option<&Wanted> {
        self.note(now, seen);
        let Some(wanted) = self.wanted.as_ref().map(|wanted| wanted.workers) else {
            self.step_first(now, seen);
            return self.wanted();
        };
        if seen.readers == 0 {
            self.step_without_readers(now, wanted);
            return self.wanted();
        }
        self.idle_since = None;
        if wanted == 0 {
            self.set(1, Reason::FirstReaders);
        } else if self.trial.is_some() {
            self.step_trial(now, seen, wanted);
        } else if !self.step_up(now, seen, wanted) {
            self.step_down(now, seen, wanted);
        }
        self.wanted()
    }

    /// Decides for the first time, once the workers of the service are known.
    fn step_first(&mut self, now: Duration, seen: &Observation) {
        if seen.workers != self.present.0 {
            self.present = (seen.workers, now);
        }
        let age = now.saturating_sub(self.begun);
        let is_known = now.saturating_sub(self.present.1) >= self.config.warm_up
            || age >= self.config.warm_up * WARM_UPS_MAX;
        if seen.workers > 0 {
            if is_known {
                self.set(seen.workers, Reason::Present);
            }
        } else if seen.readers > 0 {
            if is_known {
                self.set(1, Reason::FirstReaders);
            }
        } else if age >= self.config.idle_after {
            self.set(self.config.workers_min, Reason::NoReaders(age));
        }
    }

    fn set(&mut self, workers: u64, reason: Reason) {
        let workers = workers.clamp(self.config.workers_min, self.config.workers_max);
        self.wanted = Some(Wanted { workers, reason });
        (self.waiting_since, self.calm) = (None, None);
    }

    /// Updates the averages, and forgets experience that does not hold for the present readers.
    fn note(&mut self, now: Duration, seen: &Observation) {
        let are_new = self.readers.note(now, seen);
        // The waiting before a loss or an arrival of workers says nothing about the time after it. Between
        // two epochs no worker produces elements, although none is lost.
        let is_lost = seen.producing < self.producing && !self.readers.are_restarting(now);
        let change = seen.producing.abs_diff(self.producing);
        let has_changed =
            (is_lost || seen.producing > self.producing) && change >= self.producing / CHANGE_DIVISOR;
        if are_new || has_changed {
            self.producing = seen.producing;
            self.averages.clear();
            self.waiting_since = None;
        }
        let is_waiting = seen.waiting.is_some_and(|waiting| waiting > 0.0);
        if are_new || seen.rate > 0.0 || is_waiting || seen.is_starting {
            self.read_at = now;
        }
        if self.readers.age(now) >= START_OF_READERS {
            self.averages.add(now, seen);
        }
        let demand = self.averages.demand;
        self.ceilings.forget_outgrown(seen, demand);
        self.floors.forget_outgrown(seen, demand);
    }

    fn step_without_readers(&mut self, now: Duration, wanted: u64) {
        let since = *self.idle_since.get_or_insert(now);
        let time = now.saturating_sub(since);
        // The readers may only be between two epochs.
        if time >= RETURN_WITHIN {
            (self.trial, self.calm, self.waiting_since) = (None, None, None);
        }
        if wanted > self.config.workers_min && time >= self.config.idle_after {
            (self.ceilings, self.floors) = (Experience::default(), Experience::default());
            self.lowered = None;
            self.set(self.config.workers_min, Reason::NoReaders(time));
        }
    }

    fn step_trial(&mut self, now: Duration, seen: &Observation, wanted: u64) {
        let Some(trial) = &mut self.trial else { return };
        if self.readers.are_restarting(now) && seen.producing < trial.producing() {
            return;
        }
        let settle = self.config.settle.max(SETTLE_TURNS * self.averages.turn(seen));
        let outcome = trial.judge(now, seen, &self.averages, settle);
        let from = trial.from;
        match outcome {
            Outcome::Open => return,
            Outcome::Helped => self.ceilings.forget(seen),
            Outcome::Void => {}
            Outcome::NoHelp => {
                let retry = self.ceilings.learn(now, seen, from, self.averages.demand);
                self.set(from.min(wanted), Reason::NoHelp(retry));
            }
        }
        self.trial = None;
    }

    /// Decides for more workers if readers wait. Returns whether they wait.
    fn step_up(&mut self, now: Duration, seen: &Observation, wanted: u64) -> bool {
        let waiting = self.averages.waiting.unwrap_or(0.0);
        if waiting < WAITING_HIGH || seen.producing == 0 {
            let is_between_epochs = waiting >= WAITING_HIGH && self.readers.are_restarting(now);
            if !is_between_epochs {
                self.waiting_since = None;
            }
            return false;
        }
        self.calm = None;
        let since = *self.waiting_since.get_or_insert(now);
        let is_short = now.saturating_sub(since) < UP_AFTER;
        if is_short || self.averages.age(now) < self.averages.turn(seen) {
            return true;
        }
        if let Some(lowered) = self.lowered.take()
            && now.saturating_sub(lowered.at) < UNDO_WITHIN
            && lowered.from > wanted
            && lowered.datasets == seen.datasets
        {
            let demand = self.averages.demand;
            // After a growth of the demand, the earlier number says nothing.
            if demand <= lowered.demand * DEMAND_GROWTH {
                self.floors.learn(now, seen, lowered.from, demand);
                self.set(lowered.from, Reason::MissedWorkers);
                return true;
            }
        }
        let target = self.raised(now, seen, wanted, waiting);
        if target > wanted {
            self.trial = Some(Trial::begin(now, target, seen, &self.averages));
            self.set(target, Reason::ReadersWait(waiting));
        }
        true
    }

    /// Returns the number of workers that would serve the waiting readers, within the limits of a step.
    fn raised(&self, now: Duration, seen: &Observation, wanted: u64, waiting: f64) -> u64 {
        // Readers also wait while a part of the workers is idle, for example readers in order for one late
        // split. The pace of the workers therefore decides, if it is known.
        let needed = seen.estimate.unwrap_or_else(|| {
            let by_waiting = seen.producing as f64 / (1.0 - waiting.min(WAITING_MAX));
            // The conversion of a float to an integer saturates.
            by_waiting.ceil() as u64
        });
        let step = wanted.saturating_add((wanted / STEP_DIVISOR).max(1));
        let target = if seen.producing >= wanted {
            needed.max(step)
        } else if needed >= step {
            needed
        } else {
            // The wanted workers are on their way, and may suffice.
            wanted
        };
        target
            .min(growth_limit(seen.workers))
            .min(self.ceilings.workers(now, seen).unwrap_or(u64::MAX))
            .min(self.config.workers_max)
    }

    /// Decides for fewer workers after a calm time.
    fn step_down(&mut self, now: Duration, seen: &Observation, wanted: u64) {
        let paused = now.saturating_sub(self.read_at);
        if paused >= self.config.idle_after && wanted > 1 {
            return self.set(1, Reason::Paused(paused));
        }
        let (Some(waiting), Some(load)) = (self.averages.waiting, self.averages.load) else {
            self.calm = None;
            return;
        };
        let is_paused = paused >= PAUSED_AFTER.max(2 * self.averages.turn(seen));
        if is_paused || waiting > WAITING_LOW || load >= LOAD_HIGH * wanted as f64 {
            self.calm = None;
            return;
        }
        let needed = ((load / LOAD_TARGET).ceil() as u64).max(1);
        let calm = self.calm.get_or_insert(Calm {
            since: now,
            needed: 1,
        });
        calm.needed = calm.needed.max(needed);
        if now.saturating_sub(calm.since) < self.config.down_after {
            return;
        }
        let floor = self.floors.workers(now, seen).unwrap_or(0);
        // A worker with full buffers looks more idle than it is, so one step removes at most half.
        let target = calm.needed.max(wanted.div_ceil(2)).max(floor);
        self.calm = None;
        if target < wanted {
            let was_harmless = |lowered: &Lowered| now.saturating_sub(lowered.at) >= UNDO_WITHIN;
            if self.lowered.as_ref().is_some_and(was_harmless) {
                self.floors.forget(seen);
            }
            self.lowered = Some(Lowered {
                at: now,
                from: wanted,
                demand: self.averages.demand,
                datasets: seen.datasets.clone(),
            });
            self.set(target, Reason::Idle(load));
        }
    }
}
