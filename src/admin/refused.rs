//! The number of handshakes that failed lately, from a count since the start of the process.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time over which failures are counted.
const LATELY: Duration = Duration::from_secs(60);
/// The minimum time between two remembered counts, so that at most 61 are remembered.
const EVERY: Duration = Duration::from_secs(1);

/// The counts of the last minute.
#[derive(Debug, Default)]
pub(super) struct Refused {
    counts: VecDeque<(Instant, u64)>,
}

impl Refused {
    /// Notes the count at `now`. Returns the number of failures in the last minute.
    pub(super) fn note(&mut self, now: Instant, count: u64) -> u64 {
        let is_due = |(at, _): &(Instant, u64)| now.saturating_duration_since(*at) >= EVERY;
        if self.counts.back().is_none_or(is_due) {
            self.counts.push_back((now, count));
        }
        let is_old = |(at, _): &(Instant, u64)| now.saturating_duration_since(*at) > LATELY;
        while self.counts.len() > 1 && self.counts.front().is_some_and(is_old) {
            self.counts.pop_front();
        }
        let before = self.counts.front().map_or(count, |(_, count)| *count);
        count.saturating_sub(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_for_a_minute() {
        let (mut refused, begun) = (Refused::default(), Instant::now());
        let mut note = |second: u64, count| refused.note(begun + Duration::from_secs(second), count);
        assert_eq!(note(0, 5), 0);
        assert_eq!(note(1, 7), 2);
        assert_eq!(note(50, 7), 2);
        assert_eq!(note(200, 7), 0);
    }

    #[test]
    fn the_memory_is_bounded() {
        let (mut refused, begun) = (Refused::default(), Instant::now());
        for step in 0..10_000_u64 {
            refused.note(
                begun + Duration::from_millis(250) * u32::try_from(step).unwrap(),
                step,
            );
        }
        assert!(refused.counts.len() <= 62, "{}", refused.counts.len());
    }
}
