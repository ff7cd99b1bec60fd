//! The pace and the bottleneck of a task. The task's thread records both, and the worker reads the records
//! once a second for the dispatcher.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_control::{LinkCounts, Pace, StagePace};
use millstream_dataplane::transport::LinkReport;
use millstream_pipeline::exec::Stats;
use parking_lot::Mutex;

use super::stages::StageGauge;

/// The time between two records of a task's bottleneck.
const BOTTLENECK_EVERY: Duration = Duration::from_secs(1);

/// The counters of a task's thread. Only the task's thread writes the counters.
#[derive(Debug)]
pub(super) struct TaskMeter {
    born: Instant,
    elements: AtomicU64,
    busy_ns: AtomicU64,
    /// The start of the work in progress, in nanoseconds since `born`, plus 1. The value 0 means that the
    /// task does not compute.
    busy_since_ns: AtomicU64,
    /// The latest recorded bottleneck.
    bottleneck: Mutex<Option<String>>,
    stages: Mutex<StageGauge>,
}

/// The clock that says when a task's thread records its bottleneck again.
#[derive(Debug, Default)]
pub(super) struct BottleneckClock {
    said: Option<Instant>,
}

impl BottleneckClock {
    /// Returns whether a record is due at `now`, and if so restarts the interval.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = self
            .said
            .is_none_or(|said| now.saturating_duration_since(said) >= BOTTLENECK_EVERY);
        if due {
            self.said = Some(now);
        }
        due
    }
}

impl Default for TaskMeter {
    fn default() -> TaskMeter {
        TaskMeter {
            born: Instant::now(),
            elements: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            busy_since_ns: AtomicU64::new(0),
            bottleneck: Mutex::default(),
            stages: Mutex::default(),
        }
    }
}

impl TaskMeter {
    /// Records the bottleneck and the recent work of the stages.
    pub(super) fn note_stats(&self, stats: Option<&Stats>) {
        if let Some(stats) = stats {
            *self.bottleneck.lock() = Some(stats.bottleneck_name().to_owned());
            self.stages.lock().note(stats);
        }
    }

    /// Returns the latest recorded bottleneck.
    pub(super) fn bottleneck(&self) -> Option<String> {
        self.bottleneck.lock().clone()
    }

    /// Takes the latest recorded work of the stages. Empty if no work was recorded since the previous call.
    pub(super) fn take_stages(&self) -> Vec<StagePace> {
        self.stages.lock().take()
    }

    /// Records that the task has been computing since `since`.
    pub(super) fn begin(&self, since: Instant) {
        let since = nanoseconds(since.saturating_duration_since(self.born));
        self.busy_since_ns
            .store(since.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns the computing time up to `now`, with the work in progress.
    pub(super) fn busy(&self, now: Instant) -> Duration {
        let since = self.busy_since_ns.load(Ordering::Relaxed).checked_sub(1);
        let begun = since.map(|since| self.born + Duration::from_nanos(since));
        let open = begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
        Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed)) + open
    }

    /// Adds computed elements and their computing time, without the time that the task waited for its
    /// readers. The work in progress has ended.
    pub(super) fn note(&self, elements: usize, busy: Duration) {
        let add = |sum: &AtomicU64, more: u64| {
            sum.store(
                sum.load(Ordering::Relaxed).saturating_add(more),
                Ordering::Relaxed,
            );
        };
        self.busy_since_ns.store(0, Ordering::Relaxed);
        add(&self.busy_ns, nanoseconds(busy));
        add(&self.elements, elements as u64);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The converter of a meter's counters to a pace, read at intervals.
#[derive(Debug, Default)]
pub(super) struct TaskGauge {
    elements: u64,
    busy_ns: u64,
    element_ns: Option<u64>,
    /// The largest computing time so far. A reading between the end of some work and its count is too small.
    busy: Duration,
}

impl TaskGauge {
    /// Returns the pace since the last reading with new elements. Returns `None` before the task computes.
    pub(super) fn pace(&mut self, meter: &TaskMeter, now: Instant) -> Option<Pace> {
        let elements = meter.elements.load(Ordering::Relaxed);
        let busy_ns = meter.busy_ns.load(Ordering::Relaxed);
        let fresh = elements.saturating_sub(self.elements);
        if let Some(element_ns) = busy_ns.saturating_sub(self.busy_ns).checked_div(fresh) {
            (self.elements, self.busy_ns) = (elements, busy_ns);
            self.element_ns = Some(element_ns.max(1));
        }
        self.busy = self.busy.max(meter.busy(now));
        let (element_ns, busy) = (self.element_ns, self.busy);
        (elements > 0 || !busy.is_zero()).then(|| Pace {
            elements,
            element_ns,
            waited_ms: 0,
            busy_ms: u64::try_from(busy.as_millis()).unwrap_or(u64::MAX),
        })
    }
}

/// Counts the links by their transport.
pub(super) fn link_counts(links: &[LinkReport]) -> LinkCounts {
    let mut counts = LinkCounts::default();
    for link in links {
        counts.add(link.transport);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C11.1
    #[test]
    fn an_elements_time_is_the_latest() {
        let (meter, mut gauge) = (TaskMeter::default(), TaskGauge::default());
        let now = meter.born;
        let pace = |elements, element_ns| {
            Some(Pace {
                elements,
                element_ns: Some(element_ns),
                ..Pace::default()
            })
        };
        assert_eq!(gauge.pace(&meter, now), None);
        meter.note(10, Duration::from_micros(10));
        assert_eq!(gauge.pace(&meter, now), pace(10, 1_000));
        // Work on an unfinished element counts with that element.
        meter.note(0, Duration::from_micros(7));
        assert_eq!(gauge.pace(&meter, now), pace(10, 1_000));
        meter.note(1, Duration::from_micros(2));
        assert_eq!(gauge.pace(&meter, now), pace(11, 9_000));
    }

    /// C11.1
    #[test]
    fn work_in_progress_counts_as_busy() {
        let (meter, mut gauge) = (TaskMeter::default(), TaskGauge::default());
        let after = |ms| meter.born + Duration::from_millis(ms);
        let mut busy_ms = |ms| gauge.pace(&meter, after(ms)).map(|pace| pace.busy_ms);
        assert_eq!(busy_ms(50), None);
        meter.begin(after(100));
        assert_eq!(busy_ms(350), Some(250));
        meter.note(1, Duration::from_millis(300));
        assert_eq!(busy_ms(900), Some(300));
        meter.begin(after(1000));
        assert_eq!(busy_ms(1500), Some(800));
    }

    /// C11.4
    #[test]
    fn bottlenecks_are_reported_once_a_second() {
        let (mut clock, start) = (BottleneckClock::default(), Instant::now());
        let after = |ms| start + Duration::from_millis(ms);
        let due = [0, 1, 999, 1000, 1001, 2500].map(|ms| clock.is_due(after(ms)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
