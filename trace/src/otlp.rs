//! The export of spans over OTLP: HTTP with protobuf, to a collector of OpenTelemetry or to a backend of
//! traces.
//!
//! A thread of the OpenTelemetry SDK sends the spans in batches. Spans that do not fit into its queue are
//! dropped and counted, so a collector that hangs never holds up a process.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanExporter, SpanLinks, SpanProcessor as _,
};

use crate::config::{OtlpConfig, OtlpError};
use crate::span::{AttributeValue, Part, Span};
use crate::tracer::SpanSink;

/// Maximum number of spans that wait to be sent.
const QUEUE_MAX: usize = 2048;
/// The time between two batches. Short, so that a trace is complete soon after its split.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// The interval of warnings while the collector does not take spans.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// The time for which the end of a process waits until its last spans are sent.
const FLUSH_DEADLINE: Duration = Duration::from_secs(2);

/// The exporter, which warns when the collector does not take spans.
#[derive(Debug)]
struct Exporter {
    exporter: opentelemetry_otlp::SpanExporter,
    url: String,
    /// The time of the latest warning.
    warned: Mutex<Option<Instant>>,
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.exporter.export(batch).await;
        if let Err(error) = &exported
            && let Ok(mut warned) = self.warned.lock()
            && warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY)
        {
            *warned = Some(Instant::now());
            tracing::warn!(
                url = self.url,
                spans,
                %error,
                "spans are lost: the collector of traces does not take them; check that it listens there for OTLP over HTTP"
            );
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// The queue of the exporter.
pub(crate) struct OtlpSink {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    has_ended: AtomicBool,
}

impl OtlpSink {
    /// Starts the thread that sends spans to this URL.
    pub(crate) fn start(config: &OtlpConfig, url: String) -> Result<OtlpSink, OtlpError> {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_endpoint(&url)
            .build()
            .map_err(|error| OtlpError::Settings(error.to_string()))?;
        let mut exporter = Exporter {
            exporter,
            url,
            warned: Mutex::default(),
        };
        exporter.set_resource(&resource(config));
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_MAX)
            .with_scheduled_delay(SEND_EVERY)
            .build();
        Ok(OtlpSink {
            processor: BatchSpanProcessor::builder(exporter)
                .with_batch_config(batches)
                .build(),
            scope: InstrumentationScope::builder("millstream")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
            has_ended: AtomicBool::new(false),
        })
    }
}

/// Returns the attributes of this process.
fn resource(config: &OtlpConfig) -> Resource {
    let mut resource = Resource::builder().with_attributes([
        KeyValue::new("service.instance.id", config.instance.clone()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ]);
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(config.service.clone());
    }
    resource.build()
}

impl fmt::Debug for OtlpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OtlpSink")
    }
}

impl SpanSink for OtlpSink {
    fn take(&self, span: Span) {
        // Relaxed: a span that is recorded at the same time may be sent or dropped.
        if self.has_ended.load(Ordering::Relaxed) {
            return;
        }
        let trace_id = opentelemetry::TraceId::from_bytes(span.trace.get().to_be_bytes());
        let span_id = |id: u64| opentelemetry::SpanId::from_bytes(id.to_be_bytes());
        let context = SpanContext::new(
            trace_id,
            span_id(span.id.get()),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        );
        self.processor.on_end(SpanData {
            span_context: context,
            parent_span_id: span
                .parent
                .map_or(opentelemetry::SpanId::INVALID, |parent| span_id(parent.get())),
            parent_span_is_remote: span.parent.is_some(),
            span_kind: kind(span.part),
            name: span.part.name().into(),
            start_time: span.start,
            end_time: span.end,
            attributes: span
                .attributes
                .into_iter()
                .map(|(name, value)| KeyValue::new(name, to_value(value)))
                .collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        });
    }

    fn end(&self) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.processor.shutdown_with_timeout(FLUSH_DEADLINE) {
            tracing::warn!(%error, "the last spans were not sent to the collector of traces");
        }
    }
}

impl Drop for OtlpSink {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the kind by which backends draw the flow of work from workers to readers.
fn kind(part: Part) -> SpanKind {
    match part {
        Part::Lease => SpanKind::Client,
        Part::Grant => SpanKind::Server,
        Part::Produce => SpanKind::Producer,
        Part::Prefetch => SpanKind::Consumer,
        Part::Order => SpanKind::Internal,
    }
}

fn to_value(value: AttributeValue) -> Value {
    match value {
        // An id may use all bits. OTLP has no unsigned numbers.
        AttributeValue::Count(count) => {
            i64::try_from(count).map_or_else(|_| Value::String(count.to_string().into()), Value::I64)
        }
        AttributeValue::Millis(millis) => Value::F64(millis),
        AttributeValue::Text(text) => Value::String(text.into()),
    }
}
