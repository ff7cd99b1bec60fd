//! The dispatcher's clock: the time that has passed, less the time in which its thread waited for a
//! processor.
//!
//! A dispatcher on an overloaded host hears everybody late. By this clock others are silent only while it
//! could have heard them.

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::dispatcher::Moment;

/// Counts from its creation, in the looks of one thread: what another thread waited for is not known.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    /// The time in which the thread has waited for a processor since the start.
    starved: Duration,
    /// The thread of the latest look, and how long it had waited by then in all.
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

    /// Finds out what time it is. Takes microseconds: look once in each turn of the loop.
    pub(super) fn look(&mut self) -> Moment {
        let thread = thread::current().id();
        if let Some(waited) = run_delay() {
            if let Some((_, before)) = self.seen.filter(|(seen, _)| *seen == thread) {
                self.starved += waited.saturating_sub(before);
            }
            self.seen = Some((thread, waited));
        }
        let passed = self.started.elapsed().saturating_sub(self.starved);
        // The system may count a wait later than the time that it took.
        self.now = self.now.max(passed);
        self.now
    }

    /// Returns the time of the latest look.
    pub(super) fn now(&self) -> Moment {
        self.now
    }

    /// Returns when a moment is there, if the thread does not have to wait until then.
    pub(super) fn instant(&self, moment: Moment) -> Instant {
        self.started + self.starved + moment
    }
}

/// Returns how long this thread was ready to run and did not in all; nothing where the system does not say.
#[cfg(target_os = "linux")]
fn run_delay() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    parse_run_delay(&text)
}

#[cfg(not(target_os = "linux"))]
fn run_delay() -> Option<Duration> {
    None
}

/// The second of three numbers, in nanoseconds (Linux, Documentation/scheduler/sched-stats.rst).
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
        // As many threads as there are processors, twice, so that each of them waits for half of the time or
        // more.
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
