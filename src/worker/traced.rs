//! The spans of a worker: the time from taking a sampled split to writing its last element.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_control::TaskId;
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
    meter: Arc<TaskMeter>,
    open: Arc<Mutex<BTreeMap<u64, Begun>>>,
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
            meter,
            open: Arc::default(),
        }
    }

    /// Notes that the pipeline takes a split.
    pub(super) fn begin(&self, split: &millstream_control::Split) {
        let Some(trace) = self.tracer.split(self.task.0, split.lease) else {
            return;
        };
        let mut open = self.open.lock();
        if open.len() < OPEN_MAX {
            let taken = Instant::now();
            let begun = Begun {
                split: trace,
                taken,
                source: split.source,
                index: split.index,
                attempt: split.attempt,
                busy: self.meter.busy(taken),
            };
            open.insert(split.lease, begun);
        }
    }

    /// Records that the last element of a split is written.
    pub(super) fn end(&self, lease: u64) {
        if !self.tracer.is_on() {
            return;
        }
        let Some(begun) = self.open.lock().remove(&lease) else {
            return;
        };
        let now = Instant::now();
        let busy = self.meter.busy(now).saturating_sub(begun.busy);
        let count = AttributeValue::Count;
        begun.split.record(
            Part::Produce,
            (begun.taken, now),
            [
                ("millstream.source", count(begun.source.into())),
                ("millstream.split", count(begun.index)),
                ("millstream.attempt", count(begun.attempt.into())),
                // The rest of the time, the task waited for splits or for room in its buffer.
                (
                    "millstream.busy_ms",
                    AttributeValue::Millis(busy.as_secs_f64() * 1e3),
                ),
            ],
        );
    }
}
