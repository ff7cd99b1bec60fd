//! The limit of requests that a process may make in a second (C15.5): a token bucket.
//!
//! A process that exceeds the limit waits; no request is refused. Pure: the caller passes in the time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, Instant};

use millstream_link::Role;

/// The burst that a process may make after a silence, in seconds of its rate.
const BURST_S: u32 = 4;

/// The token bucket of one connection.
#[derive(Debug)]
pub(super) struct RequestRate {
    /// The time in which one token arrives.
    interval: Duration,
    /// The time at which the bucket was, or will be, empty without debts. Each request moves the time by
    /// `interval`.
    empty_at: Instant,
}

impl RequestRate {
    /// Returns the full bucket of a role. Workers have a higher rate, because a worker asks for the splits
    /// of all its tasks.
    pub(super) fn of(role: Role, now: Instant) -> RequestRate {
        let per_second = match role {
            Role::Read | Role::Submit | Role::Dispatcher => 2_000,
            Role::Worker => 20_000,
        };
        let interval = Duration::from_secs(1) / per_second;
        let full = Duration::from_secs(BURST_S.into());
        RequestRate {
            interval,
            empty_at: now.checked_sub(full).unwrap_or(now),
        }
    }

    /// Takes a token for a request. Returns how long the request must wait for the token.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let full = Duration::from_secs(BURST_S.into());
        let oldest = now.checked_sub(full).unwrap_or(self.empty_at);
        self.empty_at = self.empty_at.max(oldest) + self.interval;
        self.empty_at.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that a burst passes at once and further requests wait (C15.5).
    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
    fn a_burst_passes_and_the_excess_waits() {
        let mut now = Instant::now() + Duration::from_secs(3600);
        let mut rate = RequestRate::of(Role::Read, now);
        for _ in 0..8_000 {
            assert_eq!(rate.take(now), Duration::ZERO, "a burst of four seconds");
        }
        assert_eq!(rate.take(now), Duration::from_micros(500));
        assert_eq!(rate.take(now), Duration::from_micros(1000));
        now += Duration::from_secs(1);
        let passed = (0..5_000).filter(|_| rate.take(now).is_zero()).count();
        assert_eq!(passed, 1_998, "one second of tokens, less the two owed");
    }
}
