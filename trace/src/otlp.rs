//! The export of spans over OTLP: HTTP with protobuf, to a collector of OpenTelemetry or to a backend of
//! traces.
//!
//! A thread of the OpenTelemetry SDK sends the spans in batches. Spans that do not fit into its queue are
//! dropped, so a collector that hangs never holds up a process.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanExporter, SpanLinks, SpanProcessor as _,
};

use crate::config::{OtlpConfig, OtlpError};
use crate::span::{AttributeValue, Part, Span};
use crate::tracer::SpanSink;

/// Maximum number of spans that wait to be sent.
const QUEUE_MAX: usize = 2048;
/// The flags of a span: its trace is sampled, and the 56 rightmost bits of its id are random (W3C trace
/// context, level 2).
const FLAGS: TraceFlags = TraceFlags::new(0x03);
/// The time between two batches. Short, so that a trace is complete soon after its split.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// The time for one request, as in other exporters of OpenTelemetry.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// The interval of warnings while the collector does not take spans.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// The time for which the end of a process waits until its last spans are sent.
const FLUSH_DEADLINE: Duration = Duration::from_secs(2);

/// The exporter, which warns when the collector does not take spans.
#[derive(Debug)]
struct Exporter {
    exporter: opentelemetry_otlp::SpanExporter,
    failure: LatestFailure,
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
            let failure = self.failure.lock().ok().and_then(|mut failure| failure.take());
            tracing::warn!(
                url = self.url,
                spans,
                error = failure.unwrap_or_else(|| error.to_string()),
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

/// The latest failure of a request with its causes, such as a refused connection or an unknown certificate.
/// The exporter's own error has no causes.
type LatestFailure = Arc<Mutex<Option<String>>>;

/// The client, which notes the latest failure.
#[derive(Debug)]
struct Client {
    client: reqwest::blocking::Client,
    failure: LatestFailure,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.send_bytes(request).await;
        if let Ok(mut failure) = self.failure.lock() {
            *failure = answer.as_ref().err().map(|error| full_text(&**error));
        }
        answer
    }
}

/// The queue of the exporter.
pub(crate) struct OtlpSink {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
    has_ended: AtomicBool,
}

impl OtlpSink {
    /// Starts the thread that sends spans to this URL.
    pub(crate) fn start(config: &OtlpConfig, url: String) -> Result<OtlpSink, OtlpError> {
        let failure = LatestFailure::default();
        let client = Client {
            client: client(&url)?,
            failure: Arc::clone(&failure),
        };
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(&url)
            .build()
            .map_err(|error| OtlpError::Settings(error.to_string()))?;
        let mut exporter = Exporter {
            exporter,
            failure,
            url,
            warned: Mutex::default(),
        };
        exporter.set_resource(&resource(config));
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_MAX)
            .with_scheduled_delay(SEND_EVERY)
            .build();
        Ok(OtlpSink {
            processor: Arc::new(
                BatchSpanProcessor::builder(exporter)
                    .with_batch_config(batches)
                    .build(),
            ),
            scope: InstrumentationScope::builder("millstream")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
            has_ended: AtomicBool::new(false),
        })
    }
}

/// Returns a client for the requests to this URL. Its own thread makes it, because a caller within an
/// asynchronous runtime must not.
fn client(url: &str) -> Result<reqwest::blocking::Client, OtlpError> {
    let mut client = reqwest::blocking::Client::builder()
        .timeout(request_deadline())
        // A redirect would carry the token of the headers to another server.
        .redirect(reqwest::redirect::Policy::none());
    if url.starts_with("http://") {
        // Without this, the client reads the certificates of the system, which small images do not have.
        client = client.tls_certs_only([]);
    }
    let failed = |reason: String| OtlpError::Client {
        url: url.to_owned(),
        reason,
    };
    let making = std::thread::Builder::new().spawn(move || client.build());
    let made = making.map_err(|error| failed(error.to_string()))?.join();
    let made = made.map_err(|_| failed("its thread panicked".to_owned()))?;
    made.map_err(|error| failed(full_text(&error)))
}

/// Returns the time for a request: that of the variables of OpenTelemetry, or 10 s.
fn request_deadline() -> Duration {
    let variables = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
    let said = variables.iter().find_map(|name| std::env::var(name).ok());
    let millis = said.and_then(|text| text.parse().ok());
    millis.map_or(REQUEST_DEADLINE, Duration::from_millis)
}

/// Returns the text of an error with the texts of its causes.
fn full_text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

/// Returns the attributes of this process. Those of the variables replace the others.
fn resource(config: &OtlpConfig) -> Resource {
    let resource = Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes([
            KeyValue::new("service.name", config.service.clone()),
            KeyValue::new("service.instance.id", config.instance.clone()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ])
        .with_detector(Box::new(EnvResourceDetector::new()));
    match std::env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        Ok(_) | Err(_) => resource.build(),
    }
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
            FLAGS,
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
            status: span.failure.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        });
    }

    fn end(&self) {
        let Some(ended) = self.shut_down() else {
            return;
        };
        match ended.recv_timeout(FLUSH_DEADLINE) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the last spans were not sent to the collector of traces")
            }
            Err(_) => tracing::warn!("the last spans were not sent to the collector of traces in time"),
        }
    }
}

impl OtlpSink {
    /// Sends the spans that wait, on a thread of its own: the SDK's shutdown may wait for a name that is
    /// being looked up. Returns `None` if a call before has done it.
    fn shut_down(&self) -> Option<mpsc::Receiver<OTelSdkResult>> {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (sender, ended) = mpsc::channel();
        let processor = Arc::clone(&self.processor);
        let flush = move || {
            // Nobody waits after the deadline, or after a drop.
            let _ = sender.send(processor.shutdown_with_timeout(FLUSH_DEADLINE));
        };
        // Without a thread, the spans that wait are lost.
        std::thread::Builder::new().spawn(flush).ok()?;
        Some(ended)
    }
}

impl Drop for OtlpSink {
    fn drop(&mut self) {
        // The caller may be a task of a runtime, or a thread that others wait for.
        let _ = self.shut_down();
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn failures_keep_their_causes() {
        // Nothing listens at a port that was bound and is free again.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces", free.local_addr().unwrap());
        drop(free);
        let failure = LatestFailure::default();
        let client = Client {
            client: client(&url).unwrap(),
            failure: Arc::clone(&failure),
        };
        let request = Request::post(&url).body(Bytes::new()).unwrap();
        let mut sent = client.send_bytes(request);
        // The client blocks, so that the first poll has the answer.
        let answer = sent.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(answer, std::task::Poll::Ready(Err(_))), "{answer:?}");
        let failure = failure.lock().unwrap().take().unwrap();
        assert!(failure.contains("Connection refused"), "{failure}");
    }
}
