//! The check whether more workers help the readers. A service whose storage is slow waits however many
//! workers it has, and must not grow for ever.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use super::observation::Observation;
use super::smoothed::Smoothed;

/// The share of the expected gain from which on workers count as helpful.
const HELPFUL_SHARE: f64 = 0.25;
/// The share of waiting below which readers count as served.
const SERVED: f64 = 0.1;
/// The settling times after which a part of the new workers is judged without the rest.
const PARTIAL_SETTLES: u32 = 4;
/// The time after which a trial ends without all of its workers.
const TRIAL_MAX: Duration = Duration::from_secs(180);
/// The smallest share of served time that is told from none.
const PROGRESS_MIN: f64 = 1e-3;

/// A decision for more workers whose effect is not known yet.
#[derive(Debug)]
pub(super) struct Trial {
    begun: Duration,
    /// The number of producing workers before the decision.
    pub(super) from: u64,
    goal: u64,
    readers: u64,
    /// The share of their time in which the readers were served, before the decision.
    progress: f64,
    rate: f64,
    /// The number of producing workers, and the time since which it has not changed.
    steady: (u64, Duration),
}

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The effect is not known yet.
    Open,
    /// The readers wait less, or take more elements.
    Helped,
    /// The readers wait as before.
    NoHelp,
    /// The workers did not come, or the readers changed.
    Void,
}

impl Trial {
    /// Begins a trial at the decision for `goal` workers.
    pub(super) fn begin(now: Duration, goal: u64, seen: &Observation, averages: &Smoothed) -> Trial {
        Trial {
            begun: now,
            from: seen.producing.max(1),
            goal,
            readers: seen.readers,
            progress: progress(averages),
            rate: averages.rate,
            steady: (seen.producing, now),
        }
    }

    /// Returns the latest number of producing workers.
    pub(super) fn producing(&self) -> u64 {
        self.steady.0
    }

    /// Judges the trial after an observation.
    pub(super) fn judge(
        &mut self,
        now: Duration,
        seen: &Observation,
        averages: &Smoothed,
        settle: Duration,
    ) -> Outcome {
        if seen.readers != self.readers {
            return Outcome::Void;
        }
        if seen.producing != self.steady.0 {
            self.steady = (seen.producing, now);
        }
        let steady_for = now.saturating_sub(self.steady.1);
        let is_complete = seen.producing >= self.goal && steady_for >= settle;
        if is_complete && steady_for < settle + seen.lag && !self.has_helped(seen, averages) {
            return Outcome::Open;
        }
        let is_overdue = steady_for >= settle * PARTIAL_SETTLES;
        let is_partial = seen.producing > self.from && is_overdue;
        if is_complete || is_partial {
            return self.verdict(seen, averages);
        }
        // Readers that are served without the new workers need no verdict.
        if is_overdue && 1.0 - progress(averages) < SERVED {
            return Outcome::Void;
        }
        if now.saturating_sub(self.begun) < TRIAL_MAX + seen.lag {
            return Outcome::Open;
        }
        if seen.producing > self.from {
            return self.verdict(seen, averages);
        }
        // Workers that live and get nothing to produce do not help.
        if seen.workers >= self.goal {
            Outcome::NoHelp
        } else {
            Outcome::Void
        }
    }

    fn verdict(&self, seen: &Observation, averages: &Smoothed) -> Outcome {
        if self.has_helped(seen, averages) {
            Outcome::Helped
        } else {
            Outcome::NoHelp
        }
    }

    fn has_helped(&self, seen: &Observation, averages: &Smoothed) -> bool {
        let now_served = progress(averages);
        if 1.0 - now_served < SERVED {
            return true;
        }
        let by_workers = seen.producing as f64 / self.from as f64;
        let expected = by_workers.min(1.0 / self.progress) - 1.0;
        let by_rate = if self.rate > 0.0 {
            averages.rate / self.rate
        } else {
            1.0
        };
        let gained = by_rate.max(now_served / self.progress) - 1.0;
        gained >= HELPFUL_SHARE * expected
    }
}

fn progress(averages: &Smoothed) -> f64 {
    (1.0 - averages.waiting.unwrap_or(0.0)).max(PROGRESS_MIN)
}
