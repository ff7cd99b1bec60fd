//! Spans: the parts of the work on a split, with their times.

use std::time::SystemTime;

use crate::ids::{SpanId, TraceId};

/// A part of the work on a split, in the order in which a split passes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The worker waits for the dispatcher's answer to its request for splits.
    Lease,
    /// The dispatcher answers the request, after it has stored the lease.
    Grant,
    /// The worker computes the elements of the split, from taking the split to writing its last element.
    Produce,
    /// Elements of the split wait at the reader, from their arrival until the first of them is taken.
    Prefetch,
    /// An element waits at the reader of an exactly-once job for the elements before it.
    Order,
}

impl Part {
    /// Returns the name of the part's spans.
    pub fn name(self) -> &'static str {
        match self {
            Part::Lease => "lease split",
            Part::Grant => "grant split",
            Part::Produce => "produce split",
            Part::Prefetch => "prefetch elements",
            Part::Order => "order elements",
        }
    }

    /// Returns the part that is the parent of this one. A trace has one span of a part with children.
    pub fn parent(self) -> Option<Part> {
        match self {
            Part::Lease => None,
            Part::Grant | Part::Produce => Some(Part::Lease),
            Part::Prefetch | Part::Order => Some(Part::Produce),
        }
    }

    /// Returns the id of a new span of this part.
    pub(crate) fn span_id(self, trace: TraceId) -> SpanId {
        match self {
            Part::Lease | Part::Produce => SpanId::of(trace, self.name()),
            // A request may be repeated. The elements of a split arrive in several packs, and at several
            // readers.
            Part::Grant | Part::Prefetch | Part::Order => SpanId::random(),
        }
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A number or an id.
    Count(u64),
    /// A time in milliseconds.
    Millis(f64),
    /// The address of a process.
    Text(String),
}

/// A recorded part of the work on a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace of the split.
    pub trace: TraceId,
    /// The id of the span.
    pub id: SpanId,
    /// The id of the parent, which another process may record.
    pub parent: Option<SpanId>,
    /// The part of the work.
    pub part: Part,
    /// The start.
    pub start: SystemTime,
    /// The end, not before the start.
    pub end: SystemTime,
    /// The reason why the work was not finished.
    pub failure: Option<&'static str>,
    /// The attributes, with names that begin with `millstream.`. The name of a time ends with its unit.
    pub attributes: Vec<(&'static str, AttributeValue)>,
}
