//! The decision whether and when a dead process starts again. Knows no processes, and takes the time as an
//! argument.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time within which deaths count together.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// The delay of the first restart within [`WINDOW`]. Each further restart doubles the delay.
const DELAY_MIN: Duration = Duration::from_millis(100);

/// Maximum delay of a restart.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// The deaths of one process within the last [`WINDOW`].
#[derive(Debug)]
pub(super) struct Restarts {
    max: u32,
    /// The times of the deaths that were followed by a restart, at most `max`.
    deaths: VecDeque<Instant>,
}

impl Restarts {
    /// Returns the record of a process that may start again `max` times within [`WINDOW`].
    pub(super) fn new(max: u32) -> Self {
        Self {
            max,
            deaths: VecDeque::new(),
        }
    }

    /// Records a death. Returns the delay of the restart, or `None` if the process must not start again.
    pub(super) fn delay_after_death(&mut self, now: Instant) -> Option<Duration> {
        while let Some(first) = self.deaths.front()
            && now.duration_since(*first) >= WINDOW
        {
            self.deaths.pop_front();
        }
        if self.deaths.len() >= self.max as usize {
            return None;
        }
        let doublings = u32::try_from(self.deaths.len()).unwrap_or(u32::MAX);
        self.deaths.push_back(now);
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        Some(DELAY_MIN.saturating_mul(factor).min(DELAY_MAX))
    }

    /// Returns the number of restarts within the last [`WINDOW`], as of the last death.
    pub(super) fn count(&self) -> usize {
        self.deaths.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_maximum() {
        let now = Instant::now();
        let mut restarts = Restarts::new(8);
        let delays: Vec<_> = std::iter::from_fn(|| restarts.delay_after_death(now)).collect();
        let expected = [100, 200, 400, 800, 1600, 3200, 5000, 5000];
        assert_eq!(delays, expected.map(Duration::from_millis));
    }

    #[test]
    fn old_deaths_are_forgotten() {
        let start = Instant::now();
        let mut restarts = Restarts::new(3);
        for death in 0..100 {
            let delay = restarts.delay_after_death(start + death * WINDOW / 2);
            assert!(
                delay.is_some_and(|delay| delay <= 2 * DELAY_MIN),
                "death {death}: {delay:?}"
            );
        }
        assert_eq!(restarts.count(), 2);
    }

    #[test]
    fn no_restart_is_allowed_with_zero() {
        assert_eq!(Restarts::new(0).delay_after_death(Instant::now()), None);
    }
}
