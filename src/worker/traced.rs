//! The spans of a worker: the time from taking a sampled split to writing its last element.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_control::TaskId;
use millstream_pipeline::exec::Split;
use millstream_trace::{AttributeValue, Part, SplitTrace, Tracer};
use parking_lot::Mutex;

use super::pace::TaskMeter;

/// Maximum number of sampled splits of a task that are traced at a time. Further splits have no span of the
/// worker.
const OPEN_MAX: usize = 1024;

/// The sampled splits that a task has begun. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct TracedSplits {
    tracer: Tracer,
    task: TaskId,
    open: Arc<OpenSplits>,
}

/// The sampled splits that are not finished, by lease. Their spans are recorded at the end of the task at the
/// latest.
#[derive(Debug)]
struct OpenSplits {
    begun: Mutex<BTreeMap<u64, Begun>>,
    meter: Arc<TaskMeter>,
}

/// A sampled split that the task has begun.
#[derive(Debug)]
struct Begun {
    split: SplitTrace,
    taken: Instant,
    source: u32,
    index: u64,
    attempt: u32,
    /// The computing time of the task before the split.
    busy: Duration,
}

impl TracedSplits {
    pub(super) fn new(tracer: Tracer, task: TaskId, meter: Arc<TaskMeter>) -> TracedSplits {
        TracedSplits {
            tracer,
            task,
            open: Arc::new(OpenSplits {
                begun: Mutex::default(),
                meter,
            }),
        }
    }

    /// Notes that the pipeline takes a split.
    pub(super) fn begin(&self, split: &Split) {
        let Some(trace) = self.tracer.split(self.task.0, split.lease) else {
            return;
        };
        let mut open = self.open.begun.lock();
        if open.len() < OPEN_MAX {
            let taken = Instant::now();
            let begun = Begun {
                split: trace,
                taken,
                source: split.source,
                index: split.index,
                attempt: split.attempt,
                busy: self.open.meter.busy(taken),
            };
            open.insert(split.lease, begun);
        }
    }

    /// Records that the last element of a split is written.
    pub(super) fn end(&self, lease: u64) {
        if !self.tracer.is_on() {
            return;
        }
        if let Some(begun) = self.open.begun.lock().remove(&lease) {
            begun.record(&self.open.meter, None);
        }
    }
}

impl Begun {
    /// Records the span up to now. `failure` is the reason why the split is not finished.
    fn record(self, meter: &TaskMeter, failure: Option<&'static str>) {
        let now = Instant::now();
        let busy = meter.busy(now).saturating_sub(self.busy);
        let count = AttributeValue::Count;
        let attributes = [
            ("millstream.source", count(self.source.into())),
            ("millstream.split", count(self.index)),
            ("millstream.attempt", count(self.attempt.into())),
            // In the rest of the time, the task waited for room in its buffer.
            (
                "millstream.busy_ms",
                AttributeValue::Millis(busy.as_secs_f64() * 1e3),
            ),
        ];
        let times = (self.taken, now);
        match failure {
            None => self.split.record(Part::Produce, times, attributes),
            Some(failure) => self
                .split
                .record_unfinished(Part::Produce, times, failure, attributes),
        }
    }
}

impl Drop for OpenSplits {
    fn drop(&mut self) {
        for (_, begun) in std::mem::take(self.begun.get_mut()) {
            begun.record(&self.meter, Some("the task ended before the split"));
        }
    }
}
