//! Tests of traces: the spans that a collector of OpenTelemetry receives from the processes of a service.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream::client::{MaxOutstanding, ReaderConfig};
use millstream::control::Policy;
use millstream::link::EndpointConfig;
use millstream::pipeline::graph::{Dataset, Params};
use millstream::trace::{OtlpConfig, SampleRatio};

use crate::support::cluster::{Cluster, drain, fresh_key, number, working};
use crate::support::collector::{Collector, ReceivedSpan};
use crate::support::exact;
use crate::support::http::free_port;
use crate::support::links::Mechanism;
use crate::support::process::{Process, finish, millstream};
use crate::support::{eventually, watched};

/// The header with which an exporter presents itself to a collector.
const HEADER: (&str, &str) = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "api-key=planted0header0of0a0collector",
);

/// A dispatcher and a worker with traces.
struct TracedService {
    key: String,
    dispatcher: Process,
    _worker: Process,
}

impl TracedService {
    /// Starts the service with these further flags.
    fn start(flags: &[&str]) -> TracedService {
        let (_, key) = fresh_key();
        let dispatcher = ["dispatcher", "--bind", "127.0.0.1:0"];
        let dispatcher = Process::start(&key, &[&dispatcher[..], flags].concat());
        let worker = ["worker", "--dispatcher", &dispatcher.address];
        let worker = Process::start(&key, &[&worker[..], flags].concat());
        TracedService {
            key,
            dispatcher,
            _worker: worker,
        }
    }

    /// Reads the numbers up to `count` with these further flags. Returns the output.
    fn read(&self, count: u64, flags: &[&str]) -> String {
        let count = count.to_string();
        let read = [
            "read",
            "--dispatcher",
            &self.dispatcher.address,
            "--range",
            &count,
        ];
        let finished = finish(millstream(&self.key, &[&read[..], flags].concat()));
        assert!(finished.status.success(), "{}", finished.stderr);
        finished.stdout
    }
}

/// Returns the spans by trace, and within a trace by name.
fn by_trace(spans: Vec<ReceivedSpan>) -> BTreeMap<Vec<u8>, BTreeMap<String, ReceivedSpan>> {
    let mut traces = BTreeMap::<Vec<u8>, BTreeMap<String, ReceivedSpan>>::new();
    for span in spans {
        let trace = traces.entry(span.trace.clone()).or_default();
        trace.entry(span.name.clone()).or_insert(span);
    }
    traces
}

/// Returns the traces of which a service sent a span.
fn traces_of(spans: &[ReceivedSpan], service: &str) -> BTreeSet<Vec<u8>> {
    let own = spans.iter().filter(|span| span.service == service);
    own.map(|span| span.trace.clone()).collect()
}

#[test]
fn one_trace_has_the_spans_of_all_processes() {
    watched("one trace", || {
        let collector = Collector::start();
        let url = collector.url();
        let flags = ["--traces", &url, "--trace-ratio", "1"];
        let service = TracedService::start(&flags);
        service.read(1000, &flags);
        let parts = ["lease split", "grant split", "produce split", "prefetch elements"];
        let complete = || {
            let traces = by_trace(collector.spans());
            let has_all =
                |trace: &&BTreeMap<String, ReceivedSpan>| parts.iter().all(|part| trace.contains_key(*part));
            traces.values().filter(has_all).count() > 0 && traces.values().all(|trace| has_all(&trace))
        };
        eventually("complete traces", &true, complete);
        for trace in by_trace(collector.spans()).into_values() {
            let [lease, grant, produce, prefetch] = parts.map(|part| &trace[part]);
            let services = [lease, grant, produce, prefetch].map(|span| span.service.as_str());
            let kinds = ["worker", "dispatcher", "worker", "reader"].map(|kind| format!("millstream-{kind}"));
            assert_eq!(services, kinds.each_ref().map(String::as_str));
            assert!(lease.parent.is_empty());
            assert_eq!([&grant.parent, &produce.parent], [&lease.id, &lease.id]);
            assert_eq!(prefetch.parent, produce.id);
            // The processes share a clock here.
            assert!(
                lease.start_ns <= grant.start_ns && grant.end_ns <= lease.end_ns,
                "{trace:?}"
            );
            assert!(produce.start_ns <= prefetch.end_ns, "{trace:?}");
            assert!(
                produce
                    .attributes
                    .iter()
                    .any(|(name, _)| name == "millstream.busy_ms")
            );
        }
    });
}

#[test]
fn all_processes_sample_the_same_splits() {
    watched("sampling", || {
        let collector = Collector::start();
        let url = collector.url();
        let flags = ["--traces", &url, "--trace-ratio", "0.2"];
        let service = TracedService::start(&flags);
        service.read(1 << 19, &flags);
        let is_complete = || {
            let spans = collector.spans();
            let [dispatcher, worker, reader] = ["dispatcher", "worker", "reader"]
                .map(|kind| traces_of(&spans, &format!("millstream-{kind}")));
            !reader.is_empty() && dispatcher == worker && worker == reader
        };
        eventually("the same traces from all processes", &true, is_complete);
        let spans = collector.spans();
        let sampled = traces_of(&spans, "millstream-reader").len();
        let attributes = spans.iter().flat_map(|span| &span.attributes);
        let leases = attributes.filter(|(name, _)| name == "millstream.lease");
        let splits = leases.filter_map(|(_, lease)| lease.parse::<usize>().ok()).max();
        let splits = splits.expect("leases");
        assert!(
            splits > 100 && sampled < splits / 3,
            "{sampled} of {splits} splits at a ratio of 0.2"
        );
    });
}

#[test]
fn collectors_that_hang_delay_no_reader() {
    watched("a collector that hangs", || {
        // Connections are accepted by the system, and nobody answers.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let silent = format!("http://{}", silent.local_addr().expect("bound"));
        let absent = format!("http://{}", free_port());
        for url in [&silent, &absent] {
            let flags = ["--traces", url.as_str(), "--trace-ratio", "1"];
            let service = TracedService::start(&flags);
            assert!(service.read(1000, &flags).contains("1000 elements"));
        }
    });
}

#[test]
fn invalid_collectors_are_refused_with_a_remedy() {
    let (_, key) = fresh_key();
    for (flags, expected) in [
        (
            &["--traces", "127.0.0.1:4318"][..],
            "expected a URL such as http://127.0.0.1:4318",
        ),
        (
            &["--traces", "http://user:planted@127.0.0.1:4318"],
            "OTEL_EXPORTER_OTLP_HEADERS",
        ),
        (
            &["--traces", "http://127.0.0.1:4318", "--trace-ratio", "2"],
            "above 0 and at most 1",
        ),
    ] {
        let command = ["dispatcher", "--bind", "127.0.0.1:0"];
        let finished = finish(millstream(&key, &[&command[..], flags].concat()));
        let said = finished.stderr;
        assert!(!finished.status.success() && said.contains(expected), "{said}");
        assert!(!said.contains("planted"), "{said}");
    }
}

#[test]
fn headers_of_collectors_stay_secret() {
    watched("headers", || {
        let (_, key) = fresh_key();
        let collector = Collector::start();
        let url = collector.url();
        let folder = tempfile::tempdir().expect("a directory");
        let log = |name: &str| folder.path().join(name).display().to_string();
        let flags = ["--traces", &url, "--trace-ratio", "1"];
        let environment = [(HEADER.0, HEADER.1.to_owned()), ("RUST_LOG", "trace".to_owned())];
        let start = |arguments: &[&str], name: &str| {
            Process::start_logging(&environment, &key, &[arguments, &flags].concat(), &log(name))
        };
        let dispatcher = start(&["dispatcher", "--bind", "127.0.0.1:0"], "dispatcher");
        let worker = start(&["worker", "--dispatcher", &dispatcher.address], "worker");
        let read = ["read", "--dispatcher", &dispatcher.address, "--range", "1000"];
        finish(millstream(&key, &read));
        let presented = || collector.headers().contains(&HEADER.1.replace('=', ": "));
        eventually("the header", &true, presented);
        drop((worker, dispatcher));
        for name in ["dispatcher", "worker"] {
            let text = std::fs::read_to_string(log(name)).expect("a log");
            assert!(text.len() > 100, "{name} says something: {text}");
            let secret = HEADER.1.split_once('=').expect("a header").1;
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "the log of the {name}");
        }
    });
}

#[test]
fn each_pack_has_one_span_of_a_split() {
    watched("alternating splits", || {
        let collector = Collector::start();
        let config = OtlpConfig::named(collector.url(), SampleRatio::ALL, "test", "test");
        let tracer = config.start().expect("an export");
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        // The elements of two sources, and thus of their splits, alternate at random.
        let half = |first| (0.5, Dataset::range(first, first + 512, 1).split_size(512));
        let dataset = Dataset::sample([half(0), half(512)], Some(7), false);
        let config = ReaderConfig {
            max_outstanding: MaxOutstanding::Elements(512),
            tracer: tracer.clone(),
            ..ReaderConfig::default()
        };
        let mut reader = cluster.read_with(dataset, Policy::Dynamic, &config);
        assert_eq!(drain(&mut reader).len(), 1024);
        tracer.end();
        let spans = collector.spans();
        let prefetched = spans
            .iter()
            .filter(|span| span.name == "prefetch elements")
            .count();
        let packs = cluster.workers[0]
            .server()
            .counters()
            .packs
            .load(Ordering::Relaxed);
        let packs = usize::try_from(packs).expect("few packs");
        assert!(
            (2..=2 * packs).contains(&prefetched),
            "{prefetched} spans of {packs} packs"
        );
        assert!(packs < 256, "packs of several elements: {packs}");
    });
}

#[test]
fn unfinished_splits_are_errors() {
    watched("unfinished splits", || {
        let collector = Collector::start();
        let config = OtlpConfig::named(collector.url(), SampleRatio::ALL, "test", "test");
        let tracer = config.start().expect("an export");
        let functions = vec![working(Duration::from_millis(5))];
        let cluster = Cluster::start_with(Mechanism::Quic, functions, &EndpointConfig::default(), |worker| {
            worker.tracer = tracer.clone();
        });
        // The worker needs 20 s for the split, and the reader leaves at once.
        let dataset = Dataset::range(0, 4096, 1).split_size(4096);
        let dataset = dataset.map_declared("work", Params::none(), number());
        let mut reader = cluster.read(dataset, Policy::Dynamic, MaxOutstanding::Elements(16));
        reader.next_element().expect("an element").expect("one of many");
        drop(reader);
        drop(cluster);
        tracer.end();
        let spans = collector.spans();
        let produced: Vec<&ReceivedSpan> = spans.iter().filter(|span| span.name == "produce split").collect();
        assert!(
            !produced.is_empty() && produced.iter().all(|span| span.is_error),
            "{spans:?}"
        );
    });
}

#[test]
fn waits_for_earlier_elements_are_spans() {
    watched("ordered elements", || {
        let collector = Collector::start();
        // Both workers take part, because the work takes two seconds.
        let work = || working(Duration::from_millis(5));
        let cluster = Cluster::start(Mechanism::Quic, vec![work(), work()]);
        let config = OtlpConfig::named(collector.url(), SampleRatio::ALL, "test", "test");
        let tracer = config.start().expect("an export");
        let numbers = Dataset::range(0, 400, 1).split_size(20);
        let dataset = numbers.map_declared("work", Params::none(), number());
        let config = ReaderConfig {
            max_outstanding: MaxOutstanding::Elements(256),
            tracer: tracer.clone(),
            ..ReaderConfig::default()
        };
        let mut reader = exact::open(cluster.service(), dataset, &work(), &config);
        let mut count = 0;
        while reader.next_element().expect("the reader proceeds").is_some() {
            count += 1;
        }
        assert_eq!(count, 400);
        tracer.end();
        let named = |name: &str| collector.spans().iter().filter(|span| span.name == name).count();
        // With two workers, some elements of a later split arrive before those of an earlier one.
        assert!(named("order elements") > 0, "{}", named("prefetch elements"));
        // At most one span for each run of elements of a split.
        assert!(named("order elements") <= 20, "{}", named("order elements"));
        drop(reader);
    });
}
