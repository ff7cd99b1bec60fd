//! A collector of OpenTelemetry that keeps what it receives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use parking_lot::Mutex;
use prost::Message as _;

/// The largest request of an exporter.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// A span, with the service that sent it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: Vec<u8>,
    pub(crate) id: Vec<u8>,
    /// The id of the parent; empty without a parent.
    pub(crate) parent: Vec<u8>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) is_error: bool,
    /// The values of the attributes as text.
    pub(crate) attributes: Vec<(String, String)>,
}

/// A collector. Its threads end with the process.
#[derive(Debug)]
pub(crate) struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
}

#[derive(Debug, Default)]
struct Received {
    spans: Vec<ReceivedSpan>,
    headers: Vec<String>,
}

impl Collector {
    pub(crate) fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let received = Arc::<Mutex<Received>>::default();
        let shared = received.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let received = shared.clone();
                thread::spawn(move || serve(&connection, &received));
            }
        });
        Collector { address, received }
    }

    /// Returns the URL for the flag --traces.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the spans received so far.
    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        self.received.lock().spans.clone()
    }

    /// Returns the headers received so far.
    pub(crate) fn headers(&self) -> Vec<String> {
        self.received.lock().headers.clone()
    }
}

/// Receives the requests of a connection until the exporter closes it.
fn serve(connection: &TcpStream, received: &Mutex<Received>) -> Option<()> {
    let mut input = BufReader::new(connection);
    loop {
        let mut length = 0;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = bytes.parse().ok()?;
            }
            headers.push(line);
        }
        assert!(length <= REQUEST_BYTES_MAX, "{headers:?}");
        assert!(headers[0].starts_with("POST /v1/traces "), "{headers:?}");
        let mut body = vec![0; length];
        input.read_exact(&mut body).ok()?;
        let request = ExportTraceServiceRequest::decode(&*body).expect("protobuf of OTLP");
        let mut received = received.lock();
        received.headers.extend(headers);
        received.spans.extend(spans_of(request));
        drop(received);
        let mut to = connection;
        to.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n")
            .ok()?;
    }
}

fn spans_of(request: ExportTraceServiceRequest) -> Vec<ReceivedSpan> {
    let mut found = Vec::new();
    for resource_spans in request.resource_spans {
        let resource = resource_spans.resource.unwrap_or_default();
        let service = resource.attributes.iter().find(|pair| pair.key == "service.name");
        let service = service
            .map(|pair| text_of(pair.value.as_ref()))
            .unwrap_or_default();
        for span in resource_spans
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans)
        {
            let attribute = |pair: KeyValue| (pair.key, text_of(pair.value.as_ref()));
            found.push(ReceivedSpan {
                service: service.clone(),
                name: span.name,
                trace: span.trace_id,
                id: span.span_id,
                parent: span.parent_span_id,
                start_ns: span.start_time_unix_nano,
                end_ns: span.end_time_unix_nano,
                is_error: span
                    .status
                    .is_some_and(|status| status.code == StatusCode::Error as i32),
                attributes: span.attributes.into_iter().map(attribute).collect(),
            });
        }
    }
    found
}

fn text_of(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.clone()) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}
