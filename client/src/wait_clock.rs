//! The time that a user of elements has waited, which one thread records and other threads read.
//!
//! The clock does not know what the user waits for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The total time of a user's waits, including the current wait.
///
/// A process that prefetches elements from a reader records the waits of its own user here: see
/// [`ReaderConfig::user_waits`](crate::ReaderConfig::user_waits).
#[derive(Debug)]
pub struct WaitClock {
    born: Instant,
    waited_ns: AtomicU64,
    /// The start of the current wait, in nanoseconds since `born`, plus 1. The value 0 means that the user
    /// does not wait.
    since_ns: AtomicU64,
}

impl Default for WaitClock {
    fn default() -> WaitClock {
        WaitClock {
            born: Instant::now(),
            waited_ns: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
        }
    }
}

impl WaitClock {
    /// Records that the user waits from `now` on. Has no effect during a wait.
    pub fn begin(&self, now: Instant) {
        if self.since_ns.load(Ordering::Relaxed) == 0 {
            let since = self.nanoseconds(now).saturating_add(1);
            self.since_ns.store(since, Ordering::Relaxed);
        }
    }

    /// Records that the user waits no longer.
    pub fn end(&self, now: Instant) {
        let waited_ns = nanoseconds(self.waited(now));
        self.since_ns.store(0, Ordering::Relaxed);
        self.waited_ns.store(waited_ns, Ordering::Relaxed);
    }

    /// Returns the time that the user has waited until `now`.
    pub fn waited(&self, now: Instant) -> Duration {
        let since = self.since_ns.load(Ordering::Relaxed).checked_sub(1);
        let current_ns = since.map_or(0, |since| self.nanoseconds(now).saturating_sub(since));
        let waited_ns = self.waited_ns.load(Ordering::Relaxed);
        Duration::from_nanos(waited_ns.saturating_add(current_ns))
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        nanoseconds(at.saturating_duration_since(self.born))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_and_a_current_wait_counts() {
        let clock = WaitClock::default();
        let after = |ms| clock.born + Duration::from_millis(ms);
        clock.begin(after(100));
        clock.begin(after(200));
        assert_eq!(clock.waited(after(300)).as_millis(), 200);
        clock.end(after(400));
        clock.end(after(500));
        assert_eq!(clock.waited(after(900)).as_millis(), 300);
        clock.begin(after(1000));
        assert_eq!(clock.waited(after(1001)).as_millis(), 301);
    }
}
