//! The decision when to change the number of workers. Pure: the caller passes in the time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

/// The time after which the number is set again if the service still has another number. Workers that have
/// started within this time count.
const REPEAT_AFTER: Duration = Duration::from_secs(60);
/// The time for which workers must be missing before the minimum is set without a word of the dispatcher. A
/// dispatcher that has just started does not know its workers yet.
const MISSING_AFTER: Duration = Duration::from_secs(30);
/// The time after a failure before the next attempt. Each further failure doubles the time.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Maximum time between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The decision when to change the number of workers.
#[derive(Debug)]
pub(super) struct Follower {
    least: u64,
    most: u64,
    /// The number that was set last, with the time.
    set: Option<(u64, Duration)>,
    failures: u32,
    retry_at: Duration,
    /// The time since which fewer workers than the minimum are present.
    missing_since: Option<Duration>,
}

impl Follower {
    pub(super) fn new(least: u64, most: u64) -> Follower {
        Follower {
            least,
            most,
            set: None,
            failures: 0,
            retry_at: Duration::ZERO,
            missing_since: None,
        }
    }

    /// Returns the number of workers to reach: the wanted number within the bounds. `None` if the dispatcher
    /// wants no number yet and the minimum is present.
    pub(super) fn goal(&mut self, now: Duration, wanted: Option<u64>, current: u64) -> Option<u64> {
        if current >= self.least {
            self.missing_since = None;
        } else {
            self.missing_since.get_or_insert(now);
        }
        let is_missing = |since: Duration| now.saturating_sub(since) >= MISSING_AFTER;
        match wanted {
            Some(wanted) => Some(wanted.clamp(self.least, self.most)),
            None => self
                .missing_since
                .filter(|since| is_missing(*since))
                .map(|_| self.least),
        }
    }

    /// Returns whether this number of workers must be set now. `current` is the present number.
    pub(super) fn is_due(&self, now: Duration, goal: u64, current: u64) -> bool {
        if now < self.retry_at {
            return false;
        }
        match self.set {
            Some((set, at)) if set == goal => current != goal && now.saturating_sub(at) >= REPEAT_AFTER,
            Some(_) => true,
            None => current != goal,
        }
    }

    /// Notes that the number was set.
    pub(super) fn succeeded(&mut self, now: Duration, goal: u64) {
        self.set = Some((goal, now));
        self.failures = 0;
        self.retry_at = now;
    }

    /// Notes that setting the number failed. Returns the time until the next attempt.
    pub(super) fn failed(&mut self, now: Duration) -> Duration {
        let wait = RETRY_MIN.saturating_mul(1 << self.failures.min(8)).min(RETRY_MAX);
        self.failures = self.failures.saturating_add(1);
        // The number may have been set in part.
        self.set = None;
        self.retry_at = now + wait;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn wanted_numbers_stay_within_the_bounds() {
        let mut follower = Follower::new(2, 8);
        let goals = [0, 5, 100].map(|wanted| follower.goal(at(0), Some(wanted), 3));
        assert_eq!(goals, [Some(2), Some(5), Some(8)]);
    }

    #[test]
    fn the_minimum_needs_no_wanted_number() {
        let mut follower = Follower::new(2, 8);
        assert_eq!(follower.goal(at(0), None, 1), None);
        assert_eq!(follower.goal(at(29), None, 1), None);
        assert_eq!(follower.goal(at(30), None, 1), Some(2));
        assert_eq!(follower.goal(at(31), None, 2), None);
        assert_eq!(follower.goal(at(32), None, 0), None, "the time begins again");
    }

    #[test]
    fn each_number_is_set_once() {
        let mut follower = Follower::new(0, 8);
        assert!(!follower.is_due(at(0), 4, 4), "the service has this number");
        assert!(follower.is_due(at(1), 5, 4));
        follower.succeeded(at(2), 5);
        assert!(!follower.is_due(at(3), 5, 4), "the worker is starting");
        assert!(follower.is_due(at(4), 4, 5), "another number");
    }

    #[test]
    fn lost_workers_are_replaced_after_a_minute() {
        let mut follower = Follower::new(0, 8);
        follower.succeeded(at(0), 5);
        assert!(!follower.is_due(at(59), 5, 3));
        assert!(follower.is_due(at(60), 5, 3));
        assert!(!follower.is_due(at(60), 5, 5));
    }

    #[test]
    fn failures_are_retried_ever_later() {
        let mut follower = Follower::new(0, 8);
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..9 {
            let wait = follower.failed(now);
            assert!(!follower.is_due(now + wait - Duration::from_millis(1), 5, 4));
            now += wait;
            assert!(follower.is_due(now, 5, 4));
            waits.push(wait.as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        follower.succeeded(now, 5);
        assert_eq!(follower.failed(now), RETRY_MIN);
    }
}
