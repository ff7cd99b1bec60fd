//! The pace of a reader's user: the measurements that the reader records, and the report of the pace once a
//! second.
//!
//! The reader's thread writes the measurements with plain stores. The reporting thread reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use millstream_control::{ClientLinks, Pace};

use crate::wait_clock::WaitClock;

/// The function that returns the present links of a reader.
type ShowLinks = Box<dyn Fn() -> ClientLinks + Send + Sync>;

/// The measurements that a reader records for other threads.
pub struct PaceMeter {
    born: Instant,
    elements: AtomicU64,
    /// The elements among these that wait in a buffer between the reader and its user.
    buffered: AtomicU64,
    waited_ns: AtomicU64,
    /// The start of the current wait, in nanoseconds since `born`, plus 1. The value 0 means that the reader
    /// does not wait.
    waiting_since_ns: AtomicU64,
    /// The waits of the user, if another thread prefetches elements from the reader.
    user_waits: OnceLock<Arc<WaitClock>>,
    links: OnceLock<ShowLinks>,
}

impl std::fmt::Debug for PaceMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PaceMeter")
            .field("elements", &self.elements)
            .field("buffered", &self.buffered)
            .field("waited_ns", &self.waited_ns)
            .finish_non_exhaustive()
    }
}

impl Default for PaceMeter {
    fn default() -> PaceMeter {
        PaceMeter {
            born: Instant::now(),
            elements: AtomicU64::new(0),
            buffered: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            waiting_since_ns: AtomicU64::new(0),
            user_waits: OnceLock::new(),
            links: OnceLock::new(),
        }
    }
}

impl PaceMeter {
    /// Records the total number of elements that were handed over.
    pub(crate) fn note_elements(&self, elements: u64) {
        self.elements.store(elements, Ordering::Relaxed);
    }

    /// Records the number of handed-over elements that the user has not got yet.
    pub(crate) fn note_buffered(&self, elements: u64) {
        self.buffered.store(elements, Ordering::Relaxed);
    }

    /// Records that the user has been waiting for an element since `since`.
    pub(crate) fn note_wait(&self, since: Instant) {
        let since = nanoseconds(since.saturating_duration_since(self.born));
        self.waiting_since_ns
            .store(since.saturating_add(1), Ordering::Relaxed);
    }

    /// Records the end of a wait, and the total time that the reader has waited.
    pub(crate) fn note_waited(&self, waited: Duration) {
        self.waiting_since_ns.store(0, Ordering::Relaxed);
        self.waited_ns.store(nanoseconds(waited), Ordering::Relaxed);
    }

    /// Records that another thread prefetches elements from the reader, for a user whose waits this clock
    /// counts. Later calls change nothing.
    pub(crate) fn prefetch_for(&self, user_waits: Arc<WaitClock>) {
        // A meter belongs to one reader.
        let _ = self.user_waits.set(user_waits);
    }

    /// Shows the links that this function returns. Later calls change nothing.
    pub(crate) fn show_links(&self, links: impl Fn() -> ClientLinks + Send + Sync + 'static) {
        // A meter belongs to one reader.
        let _ = self.links.set(Box::new(links));
    }

    /// Returns the present links of the reader. `None` before the reader has started.
    pub(crate) fn links(&self) -> Option<ClientLinks> {
        self.links.get().map(|links| links())
    }

    fn read(&self, now: Instant) -> Reading {
        let at_ns = nanoseconds(now.saturating_duration_since(self.born));
        let since = self.waiting_since_ns.load(Ordering::Relaxed).checked_sub(1);
        let waits_ns = since.map_or(0, |since| at_ns.saturating_sub(since));
        let elements = self.elements.load(Ordering::Relaxed);
        Reading {
            at_ns,
            elements: elements.saturating_sub(self.buffered.load(Ordering::Relaxed)),
            waited_ns: self.waited_ns.load(Ordering::Relaxed).saturating_add(waits_ns),
            user_waited_ns: self.user_waits.get().map(|waits| nanoseconds(waits.waited(now))),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    at_ns: u64,
    elements: u64,
    waited_ns: u64,
    /// The time that the user has waited; `None` if the user takes its elements from the reader itself.
    user_waited_ns: Option<u64>,
}

/// Computes the pace from successive readings of a meter.
#[derive(Debug, Default)]
pub(crate) struct PaceGauge {
    /// The latest reading that found new elements.
    before: Option<Reading>,
    /// The reading of that kind before `before`.
    earlier: Option<Reading>,
    /// The time for which the user has waited for the service until the latest reading.
    waited_ns: u64,
    /// The waits of the reader and of the user at the latest reading.
    seen_ns: (u64, u64),
    element_ns: Option<u64>,
}

impl PaceGauge {
    /// Returns the pace of the user. Returns `None` before the user has read an element or waited.
    ///
    /// The time for an element is that since the reading before the latest one that found new elements. If a
    /// reading divides the elements of one step of the user, the second part therefore does not count alone.
    pub(crate) fn pace(&mut self, meter: &PaceMeter, now: Instant) -> Option<Pace> {
        let mut reading = meter.read(now);
        reading.waited_ns = self.waited_for_service(&reading);
        let elements = reading.elements;
        if elements == 0 {
            // The time before the user reads its first element does not count as time for an element.
            self.before = Some(reading);
            return (reading.waited_ns > 0).then(|| Pace {
                waited_ms: reading.waited_ns / 1_000_000,
                ..Pace::default()
            });
        }
        let before = self.before.unwrap_or_default();
        if elements > before.elements {
            let base = self.earlier.replace(before).unwrap_or(before);
            let waited_ns = reading.waited_ns.saturating_sub(base.waited_ns);
            let own_ns = reading.at_ns.saturating_sub(base.at_ns).saturating_sub(waited_ns);
            let fresh = elements.saturating_sub(base.elements).max(1);
            self.element_ns = Some((own_ns / fresh).max(1));
            self.before = Some(reading);
        }
        Some(Pace {
            elements,
            element_ns: self.element_ns,
            waited_ms: reading.waited_ns / 1_000_000,
            busy_ms: 0,
        })
    }

    /// Returns the time for which the user has waited for the service. A thread that prefetches for the user
    /// waits whenever its buffer is not full. The user also waits for the work of this thread. Between two
    /// readings, only the shorter wait counts.
    fn waited_for_service(&mut self, reading: &Reading) -> u64 {
        // A user that takes elements from the reader waits as long as the reader.
        let user_ns = reading.user_waited_ns.unwrap_or(reading.waited_ns);
        let by_reader = reading.waited_ns.saturating_sub(self.seen_ns.0);
        let by_user = user_ns.saturating_sub(self.seen_ns.1);
        self.seen_ns = (reading.waited_ns, user_ns);
        self.waited_ns = self.waited_ns.saturating_add(by_reader.min(by_user));
        self.waited_ns
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// C11.1
    #[test]
    fn waits_are_not_the_users_time() {
        let (meter, mut gauge) = (PaceMeter::default(), PaceGauge::default());
        let mut now = meter.born;
        assert_eq!(gauge.pace(&meter, now), None);
        now += SECOND;
        meter.note_elements(100);
        meter.note_waited(SECOND * 3 / 4);
        let expected = |elements, element_ns, waited_ms| {
            Some(Pace {
                elements,
                element_ns: Some(element_ns),
                waited_ms,
                busy_ms: 0,
            })
        };
        assert_eq!(gauge.pace(&meter, now), expected(100, 2_500_000, 750));
        // The user reads ten more elements, then starts a wait that has not ended.
        meter.note_elements(110);
        meter.note_wait(now + SECOND / 10);
        now += SECOND;
        assert_eq!(gauge.pace(&meter, now), expected(110, 3_181_818, 1650));
        // Without new elements the pace stays the same. The wait counts once it has ended.
        now += SECOND;
        assert_eq!(gauge.pace(&meter, now), expected(110, 3_181_818, 2650));
        meter.note_waited(SECOND * 3 / 4 + SECOND * 19 / 10);
        meter.note_elements(111);
        now += SECOND;
        assert_eq!(gauge.pace(&meter, now), expected(111, 100_000_000, 2650));
    }

    #[test]
    fn a_divided_step_counts_as_a_whole() {
        let (meter, mut gauge) = (PaceMeter::default(), PaceGauge::default());
        for step in 1..=3 {
            let start = meter.born + 10 * SECOND * step;
            // A reading divides the elements that the user takes at the start of a step of ten seconds.
            for (elements, at) in [(600, start), (1000, start + SECOND)] {
                meter.note_elements(u64::from(step - 1) * 1000 + elements);
                let pace = gauge.pace(&meter, at).expect("a pace");
                let element_ms = pace.element_ns.unwrap_or_default() / 1_000_000;
                assert!(
                    (10..=18).contains(&element_ms),
                    "{pace:?} at {elements} of step {step}"
                );
            }
        }
    }

    #[test]
    fn an_instant_user_still_has_a_pace() {
        let (meter, mut gauge) = (PaceMeter::default(), PaceGauge::default());
        assert_eq!(gauge.pace(&meter, meter.born), None);
        meter.note_elements(5);
        let pace = gauge.pace(&meter, meter.born);
        assert_eq!(
            pace,
            Some(Pace {
                elements: 5,
                element_ns: Some(1),
                waited_ms: 0,
                busy_ms: 0,
            })
        );
    }

    #[test]
    fn buffered_elements_are_not_the_users() {
        let (meter, mut gauge) = (PaceMeter::default(), PaceGauge::default());
        meter.note_elements(100);
        meter.note_buffered(99);
        let mut now = meter.born + SECOND;
        let expected = |elements| {
            Some(Pace {
                elements,
                element_ns: Some(1_000_000_000),
                waited_ms: 0,
                busy_ms: 0,
            })
        };
        assert_eq!(gauge.pace(&meter, now), expected(1));
        meter.note_buffered(98);
        now += SECOND;
        assert_eq!(gauge.pace(&meter, now), expected(2), "the user got one of them");
        meter.note_elements(101);
        meter.note_buffered(99);
        now += SECOND;
        assert_eq!(gauge.pace(&meter, now), expected(2), "one more was buffered");
    }

    #[test]
    fn the_wait_for_the_first_element_is_reported() {
        let (meter, mut gauge) = (PaceMeter::default(), PaceGauge::default());
        assert_eq!(gauge.pace(&meter, meter.born + SECOND), None, "nobody reads");
        meter.note_wait(meter.born + SECOND);
        let waiting = Pace {
            waited_ms: 2000,
            ..Pace::default()
        };
        assert_eq!(gauge.pace(&meter, meter.born + 3 * SECOND), Some(waiting));
    }

    /// C11.1
    #[test]
    fn a_prefetch_waits_no_longer_than_its_user() {
        let meter = PaceMeter::default();
        let waits = Arc::new(WaitClock::default());
        meter.prefetch_for(Arc::clone(&waits));
        let mut gauge = PaceGauge::default();
        let mut now = Instant::now();
        // The workers make five elements in a second, and the thread always waits for them. After each
        // element, the user works for 50 ms.
        for second in 1..=4_u32 {
            meter.note_wait(now);
            for _ in 0..5 {
                waits.begin(now + SECOND / 20);
                waits.end(now + SECOND / 5);
                now += SECOND / 5;
            }
            meter.note_elements(u64::from(5 * second));
            let pace = gauge.pace(&meter, now).unwrap();
            meter.note_waited(SECOND * second);
            if second > 1 {
                let element_ms = pace.element_ns.unwrap_or_default() / 1_000_000;
                assert!((49..=51).contains(&element_ms), "second {second}: {pace:?}");
                assert!(pace.waited_ms.abs_diff(u64::from(750 * second)) <= 10, "{pace:?}");
            }
        }
        // The thread works, and its user waits for it alone.
        let before = gauge.pace(&meter, now).unwrap().waited_ms;
        waits.begin(now);
        meter.note_elements(30);
        let after = gauge.pace(&meter, now + SECOND).unwrap();
        assert!(after.waited_ms - before <= 1, "{after:?}");
    }
}
