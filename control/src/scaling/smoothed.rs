//! The moving averages of observations, which a short peak or dip changes little.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use super::observation::Observation;

/// The time after which an old observation counts for a third.
const MEMORY_S: f64 = 3.0;

/// The moving averages of observations.
#[derive(Debug, Default)]
pub(super) struct Smoothed {
    at: Option<Duration>,
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
        let before = self.at.replace(now);
        // The first observation counts completely.
        let weight = before.map_or(1.0, |before| {
            1.0 - (-now.saturating_sub(before).as_secs_f64() / MEMORY_S).exp()
        });
        let mix = |old: f64, new: f64| old + (new - old) * weight;
        if let Some(waiting) = seen.waiting {
            self.waiting = Some(self.waiting.map_or(waiting, |old| mix(old, waiting)));
        }
        if let Some(load) = seen.load {
            self.load = Some(self.load.map_or(load, |old| mix(old, load)));
        }
        if seen.waiting.is_some() {
            self.rate = mix(self.rate, seen.rate);
            self.demand = mix(self.demand, seen.demand);
        }
    }

    /// Forgets all averages.
    pub(super) fn clear(&mut self) {
        *self = Smoothed::default();
    }
}
