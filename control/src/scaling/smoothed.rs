//! The moving averages of observations, which a short peak or dip changes little.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use super::observation::Observation;

/// The shortest time after which an old observation counts for a third.
const MEMORY_S: f64 = 3.0;
/// The number of turns of the readers after which an old observation counts for a third.
const MEMORY_TURNS: f64 = 3.0;
/// The length from which on a step has seconds without an element.
const LONG_STEP: Duration = Duration::from_secs(1);
/// The longest turn that counts.
const TURN_MAX: Duration = Duration::from_secs(60);

/// The time that the first observation covers.
const FIRST_S: f64 = 1.0;

/// The moving averages of observations.
#[derive(Debug, Default)]
pub(super) struct Smoothed {
    /// The times of the first and of the latest observation.
    times: Option<(Duration, Duration)>,
    /// The average share of waiting. `None` before the first report.
    pub(super) waiting: Option<f64>,
    /// The average number of busy workers. `None` before the first report.
    pub(super) load: Option<f64>,
    /// The average elements that readers take in a second.
    pub(super) rate: f64,
    /// The average elements that readers would take in a second without waiting.
    pub(super) demand: f64,
}

impl Smoothed {
    /// Adds an observation. Values that nobody has reported leave their averages as they are.
    pub(super) fn add(&mut self, now: Duration, seen: &Observation) {
        let weight = match self.times {
            // The first observation counts completely.
            None => 1.0,
            Some((first, latest)) => {
                let since = now.saturating_sub(latest).as_secs_f64();
                let memory_s = MEMORY_S.max(MEMORY_TURNS * self.turn(seen).as_secs_f64());
                // The first observations count alike, because no earlier ones are known.
                let share = since / (now.saturating_sub(first).as_secs_f64() + FIRST_S);
                (1.0 - (-since / memory_s).exp()).max(share)
            }
        };
        let first = self.times.map_or(now, |(first, _)| first);
        self.times = Some((first, now));
        let mix = |old: f64, new: f64| old + (new - old) * weight;
        if let Some(waiting) = seen.waiting {
            self.waiting = Some(self.waiting.map_or(waiting, |old| mix(old, waiting)));
        }
        if let Some(load) = seen.load {
            self.load = Some(self.load.map_or(load, |old| mix(old, load)));
        }
        if let Some(waiting) = seen.waiting {
            // In most seconds of a long step the user takes nothing.
            let rate = match seen.step >= LONG_STEP {
                true => seen.demand * (1.0 - waiting),
                false => seen.rate,
            };
            self.rate = mix(self.rate, rate);
            self.demand = mix(self.demand, seen.demand);
        }
    }

    /// Returns the time of a turn of the readers: a step, and the wait after it. In a long turn a user waits
    /// at the end, and not in the seconds before.
    ///
    /// Returns zero for shorter steps than [`LONG_STEP`], because each second has many of them.
    pub(super) fn turn(&self, seen: &Observation) -> Duration {
        if seen.step < LONG_STEP {
            return Duration::ZERO;
        }
        let served = 1.0 - self.waiting.unwrap_or(0.0);
        let turn = Duration::try_from_secs_f64(seen.step.as_secs_f64() / served);
        turn.unwrap_or(TURN_MAX).min(TURN_MAX)
    }

    /// Returns the time that the averages cover.
    pub(super) fn age(&self, now: Duration) -> Duration {
        let first = self.times.map_or(now, |(first, _)| first);
        now.saturating_sub(first)
    }

    /// Forgets all averages.
    pub(super) fn clear(&mut self) {
        *self = Smoothed::default();
    }
}
