//! The dispatcher's clock: the elapsed time without the time in which the dispatcher's thread waited for a
//! processor.
//!
//! A dispatcher on an overloaded host receives all heartbeats late. By this clock, processes are silent
//! only while the dispatcher could have received their heartbeats.

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::dispatcher::Moment;

/// The clock of one thread, which counts from its creation. The clock must be read by one thread, because
/// the waiting time of other threads is unknown.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    /// The time in which the thread has waited for a processor since the start.
    starved: Duration,
    /// The thread of the latest reading, and its total waiting time at that reading.
    seen: Option<(ThreadId, Duration)>,
    now: Moment,
}

impl Clock {
    pub(super) fn start() -> Clock {
        let mut clock = Clock {
            started: Instant::now(),
            starved: Duration::ZERO,
            seen: None,
            now: Duration::ZERO,
        };
        clock.look();
        clock
    }

    /// Reads the current time. A reading takes microseconds, so the event loop makes one in each turn.
    pub(super) fn look(&mut self) -> Moment {
        let thread = thread::current().id();
        if let Some(waited) = run_delay() {
            if let Some((_, before)) = self.seen.filter(|(seen, _)| *seen == thread) {
                self.starved += waited.saturating_sub(before);
            }
            self.seen = Some((thread, waited));
        }
        let passed = self.started.elapsed().saturating_sub(self.starved);
        // The system may book a wait later than the time of the wait itself.
        self.now = self.now.max(passed);
        self.now
    }

    /// Returns the time of the latest reading.
    pub(super) fn now(&self) -> Moment {
        self.now
    }

    /// Returns the instant of a moment, provided that the thread does not wait for a processor until then.
    pub(super) fn instant(&self, moment: Moment) -> Instant {
        self.started + self.starved + moment
    }
}

/// Returns the total time for which this thread was ready to run but did not run. `None` if the system does
/// not report the time.
#[cfg(target_os = "linux")]
fn run_delay() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    parse_run_delay(&text)
}

#[cfg(not(target_os = "linux"))]
fn run_delay() -> Option<Duration> {
    None
}

/// Returns the second of the three numbers, in nanoseconds (Linux,
/// Documentation/scheduler/sched-stats.rst).
#[cfg(any(target_os = "linux", test))]
fn parse_run_delay(text: &str) -> Option<Duration> {
    let nanoseconds = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_is_the_second_number() {
        let delay = parse_run_delay("240118 2787572 2\n");
        assert_eq!(delay, Some(Duration::from_nanos(2_787_572)));
        for other in ["", "7", "7 x 2"] {
            assert_eq!(parse_run_delay(other), None, "{other:?}");
        }
    }

    #[test]
    fn time_without_a_processor_does_not_count() {
        let mut clock = Clock::start();
        clock.started -= Duration::from_secs(100);
        clock.starved = Duration::from_secs(90);
        let now = clock.look();
        assert!(
            now >= Duration::from_secs(10) && now < Duration::from_secs(90),
            "{now:?}"
        );
        assert!(clock.instant(now + Duration::from_secs(1)) > clock.started + Duration::from_secs(100));
        clock.starved += Duration::from_secs(5);
        assert!(clock.look() >= now, "it never goes back");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_starved_thread_has_a_slow_clock() {
        // Twice as many threads as processors, so that each thread waits for at least half of the time.
        let count = 2 * thread::available_parallelism().map_or(1, usize::from);
        let busy = || {
            let mut clock = Clock::start();
            while clock.look() < Duration::from_millis(100) {}
            clock.starved
        };
        let starved: Duration = thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|_| scope.spawn(busy)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(starved > Duration::ZERO);
    }
}
