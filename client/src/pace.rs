//! The pace of a reader's user: the figures that it notes while it reads, and the report of them once a
//! second.
//!
//! The reader's thread writes plain stores; the thread that reports reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_control::Pace;

/// The figures that a reader notes for other threads.
#[derive(Debug)]
pub struct PaceMeter {
    born: Instant,
    elements: AtomicU64,
    waited_ns: AtomicU64,
    /// When the wait that goes on began, since `born`, and 1 more; 0: none does.
    waiting_since_ns: AtomicU64,
}

impl Default for PaceMeter {
    fn default() -> PaceMeter {
        PaceMeter {
            born: Instant::now(),
            elements: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            waiting_since_ns: AtomicU64::new(0),
        }
    }
}

impl PaceMeter {
    /// Notes the number of elements that were handed over in all.
    pub(crate) fn note_elements(&self, elements: u64) {
        self.elements.store(elements, Ordering::Relaxed);
    }

    /// The user waits for an element since then.
    pub(crate) fn note_wait(&self, since: Instant) {
        let since = nanoseconds(since.saturating_duration_since(self.born));
        self.waiting_since_ns
            .store(since.saturating_add(1), Ordering::Relaxed);
    }

    /// Notes that the reader waits no longer, and the time that it has waited in all.
    pub(crate) fn note_waited(&self, waited: Duration) {
        self.waiting_since_ns.store(0, Ordering::Relaxed);
        self.waited_ns.store(nanoseconds(waited), Ordering::Relaxed);
    }

    fn read(&self, now: Instant) -> Reading {
        let at_ns = nanoseconds(now.saturating_duration_since(self.born));
        let since = self.waiting_since_ns.load(Ordering::Relaxed).checked_sub(1);
        let waits_ns = since.map_or(0, |since| at_ns.saturating_sub(since));
        Reading {
            at_ns,
            elements: self.elements.load(Ordering::Relaxed),
            waited_ns: self.waited_ns.load(Ordering::Relaxed).saturating_add(waits_ns),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    at_ns: u64,
    elements: u64,
    waited_ns: u64,
}

/// Makes a pace of what a meter shows from time to time.
#[derive(Debug, Default)]
pub(crate) struct PaceGauge {
    before: Option<Reading>,
    element_ns: Option<u64>,
}

impl PaceGauge {
    /// The pace since the last time there was an element; `None` before the first one.
    pub(crate) fn pace(&mut self, meter: &PaceMeter, now: Instant) -> Option<Pace> {
        let reading = meter.read(now);
        let elements = reading.elements;
        if elements == 0 {
            // The time before a user begins is not its time for an element.
            self.before = Some(reading);
            return None;
        }
        let before = self.before.unwrap_or_default();
        let fresh = elements.saturating_sub(before.elements);
        let waited_ns = reading.waited_ns.saturating_sub(before.waited_ns);
        let own_ns = reading
            .at_ns
            .saturating_sub(before.at_ns)
            .saturating_sub(waited_ns);
        if let Some(element_ns) = own_ns.checked_div(fresh) {
            self.element_ns = Some(element_ns.max(1));
            self.before = Some(reading);
        }
        Some(Pace {
            elements,
            element_ns: self.element_ns,
        })
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
        let expected = |elements, element_ns| {
            Some(Pace {
                elements,
                element_ns: Some(element_ns),
            })
        };
        assert_eq!(gauge.pace(&meter, now), expected(100, 2_500_000));
        // Ten more, then a wait that still goes on.
        meter.note_elements(110);
        meter.note_wait(now + SECOND / 10);
        now += SECOND;
        assert_eq!(gauge.pace(&meter, now), expected(110, 10_000_000));
        // Nothing new: what was known stays, and the wait is counted once it is over.
        now += SECOND;
        assert_eq!(gauge.pace(&meter, now), expected(110, 10_000_000));
        meter.note_waited(SECOND * 3 / 4 + SECOND * 19 / 10);
        meter.note_elements(111);
        now += SECOND;
        assert_eq!(gauge.pace(&meter, now), expected(111, 1_000_000_000));
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
                element_ns: Some(1)
            })
        );
    }
}
