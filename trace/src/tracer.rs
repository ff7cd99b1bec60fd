//! The handle with which a process records spans.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::ids::{SpanId, TraceId};
use crate::sample::SampleRatio;
use crate::span::{AttributeValue, Part, Span};

/// The destination of spans.
pub trait SpanSink: fmt::Debug + Send + Sync {
    /// Takes a span. Must not block, because busy threads record spans.
    fn take(&self, span: Span);

    /// Sends the spans that wait, and drops all later ones. Blocks for 2 seconds at most. The default does
    /// nothing.
    fn end(&self) {}
}

/// The handle with which a process records spans. The default is off: it samples nothing. Clones record to
/// the same destination.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<On>>);

#[derive(Debug)]
struct On {
    ratio: SampleRatio,
    sink: Box<dyn SpanSink>,
}

/// The trace of one sampled split.
#[derive(Clone, Debug)]
pub struct SplitTrace {
    on: Arc<On>,
    id: TraceId,
    task: u64,
    lease: u64,
}

/// Two tracers are equal if they are off, or record to the same destination.
impl PartialEq for Tracer {
    fn eq(&self, other: &Tracer) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

impl Eq for Tracer {}

impl Tracer {
    /// Returns a tracer that records a fraction of the splits.
    pub fn new(ratio: SampleRatio, sink: Box<dyn SpanSink>) -> Tracer {
        Tracer(Some(Arc::new(On { ratio, sink })))
    }

    /// Returns whether any split is traced.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Sends the spans that wait, and drops all later ones, also those of clones. Blocks for 2 seconds at
    /// most. The drop of the last clone sends them too, but does not wait, so call this before a process
    /// ends.
    pub fn end(&self) {
        if let Some(on) = &self.0 {
            on.sink.end();
        }
    }

    /// Returns the trace of a split if it is sampled. Costs nothing if the tracer is off.
    #[inline]
    pub fn split(&self, task: u64, lease: u64) -> Option<SplitTrace> {
        let on = self.0.as_ref()?;
        let id = TraceId::of_split(task, lease);
        on.ratio.samples(id).then(|| SplitTrace {
            on: Arc::clone(on),
            id,
            task,
            lease,
        })
    }
}

impl SplitTrace {
    /// Returns the id of the trace.
    pub fn id(&self) -> TraceId {
        self.id
    }

    /// Records a finished part of the work on the split. Adds the task and the lease to the attributes.
    pub fn record(
        &self,
        part: Part,
        times: (Instant, Instant),
        attributes: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) {
        self.note(part, times, None, attributes);
    }

    /// Records a part of the work on the split that ended for this reason before it was finished.
    pub fn record_unfinished(
        &self,
        part: Part,
        times: (Instant, Instant),
        failure: &'static str,
        attributes: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) {
        self.note(part, times, Some(failure), attributes);
    }

    fn note(
        &self,
        part: Part,
        (start, end): (Instant, Instant),
        failure: Option<&'static str>,
        attributes: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) {
        let (now, today) = (Instant::now(), SystemTime::now());
        // A clock before 1970 gives the time 1970.
        let at = |moment: Instant| {
            let age = now.saturating_duration_since(moment);
            today.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let own = [
            ("millstream.task", AttributeValue::Count(self.task)),
            ("millstream.lease", AttributeValue::Count(self.lease)),
        ];
        self.on.sink.take(Span {
            trace: self.id,
            id: part.span_id(self.id),
            parent: part.parent().map(|parent| SpanId::of(self.id, parent.name())),
            part,
            start: at(start),
            end: at(end.max(start)),
            failure,
            attributes: own.into_iter().chain(attributes).collect(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Taken(Arc<Mutex<Vec<Span>>>);

    impl SpanSink for Taken {
        fn take(&self, span: Span) {
            self.0.lock().expect("no panic").push(span);
        }
    }

    #[test]
    fn tracers_are_off_by_default() {
        let tracer = Tracer::default();
        assert!(!tracer.is_on());
        assert!(tracer.split(1, 1).is_none());
    }

    #[test]
    fn processes_join_one_trace_without_messages() {
        let taken = Taken::default();
        // Each process has a tracer of its own.
        let record = |part| {
            let tracer = Tracer::new(SampleRatio::ALL, Box::new(taken.clone()));
            let now = Instant::now();
            let split = tracer.split(3, 4).expect("all splits are sampled");
            split.record(part, (now, now + Duration::from_millis(5)), []);
        };
        for part in [
            Part::Lease,
            Part::Grant,
            Part::Produce,
            Part::Prefetch,
            Part::Prefetch,
        ] {
            record(part);
        }
        let spans = taken.0.lock().expect("no panic").clone();
        let [lease, grant, produce, first, second] = spans.as_slice() else {
            panic!("{spans:?}");
        };
        assert!(spans.iter().all(|span| span.trace == lease.trace));
        let parents = [lease, grant, produce, first].map(|span| span.parent);
        assert_eq!(parents, [None, Some(lease.id), Some(lease.id), Some(produce.id)]);
        assert_ne!(first.id, second.id);
        assert!(spans.iter().all(|span| span.end >= span.start));
    }
}
