//! Traces of sampled splits: the spans from a split's lease to the hand-over of its elements.
//!
//! The dispatcher, the worker and the reader of a split record spans of one trace. Each of them derives the
//! ids of the trace from the task and the lease, so no message carries them. Each of them decides in the same
//! way whether a split is sampled.
//!
//! The crate does not depend on the dispatcher, the worker and the reader: they name their [`Part`] of the
//! work and its times.
//!
//! - [`Tracer`]: the handle of a process, which is off by default
//! - [`SplitTrace`]: the trace of one sampled split
//! - [`Span`], [`Part`]: a recorded part of the work on a split
//! - [`SpanSink`]: the destination of spans
//! - [`OtlpConfig`], [`OtlpError`]: the export over OTLP, which needs the feature `otlp`

mod config;
mod ids;
#[cfg(feature = "otlp")]
mod otlp;
mod sample;
mod span;
mod tracer;

pub use config::{OtlpConfig, OtlpError};
pub use ids::{SpanId, TraceId};
pub use sample::{RatioError, SampleRatio};
pub use span::{AttributeValue, Part, Span};
pub use tracer::{SpanSink, SplitTrace, Tracer};
