//! Tests of hand-written peers that break the protocol over real QUIC. The error names the peer and its
//! fault, and the peer receives the reason. The process allocates no absurd size, and continues to serve
//! other peers.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use millstream::client::{
    Feed, MaxOutstanding, ReadError, Reader, ReaderConfig, TaskEvent, TaskSource, WorkerPlace,
};
use millstream::control::Policy;
use millstream::dataplane::proto::message::{Accepted, Cancel, Hello, PROTOCOL_VERSION, ToClient, ToWorker};
use millstream::dataplane::transport::LinkLost;
use millstream::dataplane::transport::quic::{self, PathReporter};
use millstream::link::{ClusterKey, Endpoint, EndpointConfig, Lane, Role};
use millstream::pipeline::graph::Dataset;
use millstream::{AutoConnector, LocalWorkers};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::support::cluster::{Cluster, drain};
use crate::support::hand_written::{
    HandWritten, Lie, PAYLOAD_BYTES, RawPack, TASK, element, framed, two_tensors,
};
use crate::support::links::Mechanism;
use crate::support::{run, watched};

/// The time limit for receiving a close, far longer than a close needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The offset of an element's header, which begins with the row of the first component: offset, size, rank.
const FIRST_ROW: usize = 2 * PAYLOAD_BYTES as usize;
const SECOND_ROW: usize = FIRST_ROW + 24;
/// The size in bytes of the header's fixed part at the end of the element, which begins with version and
/// size.
const ROOT_BYTES: usize = 40;

/// D1.1, D1.2, D1.3, D2.1, D2.2, D2.3.
#[test]
fn a_protocol_breaking_worker_is_named() {
    let version = PROTOCOL_VERSION + 998;
    let greeting = Hello { version, features: 0 };
    let early = Accepted {
        task: TASK,
        spec: two_tensors().to_bytes(),
        element_bytes: 64,
    };
    let honest = element(0);
    let pack = RawPack::of(0, &honest);
    let granted = honest.len() as u64;
    let packs = |change: fn(&mut RawPack)| {
        let mut pack = pack.clone();
        change(&mut pack);
        Lie::FirstPack(pack.to_bytes())
    };
    let (absurd, more) = (1u64 << 60, granted + 64);
    let mut larger = pack.clone();
    (larger.region_bytes, larger.len) = (more, more as u32);
    let mut cut = pack.to_bytes();
    cut.truncate(cut.len() - 1);
    let mut long = pack.to_bytes();
    long.push(0);
    let whole = (48 + 4 + granted).to_string();
    refuses_links(&[
        (
            Lie::Opening(framed(&ToClient::Hello(greeting))),
            &[&version.to_string(), &PROTOCOL_VERSION.to_string()],
        ),
        (Lie::Opening(framed(&ToClient::Accepted(early))), &["hello"]),
        (Lie::Opening(vec![0xff; 64]), &["4294967295", "131072"]),
        (
            Lie::Opening(vec![3, 0, 0, 0, 0xff, 0xff, 0xff]),
            &["invalid message"],
        ),
        (packs(|pack| pack.version = 9), &["version"]),
        (packs(|pack| pack.elements = 0), &["1 to 65536 elements"]),
        (packs(|pack| pack.elements = u64::MAX), &["1 to 65536 elements"]),
        (
            packs(|pack| pack.region_bytes = 1 << 60),
            &["task 12", &absurd.to_string()],
        ),
        (
            Lie::FirstPack(larger.to_bytes()),
            &[&more.to_string(), &granted.to_string()],
        ),
        (packs(|pack| pack.first = 1000), &["task 12", "1000"]),
        (packs(|pack| pack.len = u32::MAX), &["task 12", "do not cover"]),
        (Lie::FirstPack(cut), &["pack of"]),
        (Lie::FirstPack(long), &["pack of", &whole]),
    ]);
}

/// D2.5.
#[test]
fn a_lying_element_is_named() {
    let words = |changes: &[(usize, u64)]| {
        let mut bytes = element(0);
        for (at, word) in changes {
            bytes[*at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    };
    let root = element(0).len() - ROOT_BYTES;
    let mut newer = element(0);
    newer[root] = 9;
    let mut huge_header = element(0);
    huge_header[root + 4..root + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut torn = element(0);
    torn.truncate(torn.len() - 8);
    let offset = PAYLOAD_BYTES;
    let elements: [(&str, Vec<u8>, &[&str]); 9] = [
        (
            "misaligned",
            words(&[(SECOND_ROW, offset + 8)]),
            &["component 1", "not 64-byte aligned"],
        ),
        (
            "overlapping",
            words(&[(SECOND_ROW, 0)]),
            &["component 1", "overlaps"],
        ),
        (
            "beyond",
            words(&[(SECOND_ROW, 1 << 40)]),
            &["component 1", "beyond the element"],
        ),
        (
            "absurd",
            words(&[(SECOND_ROW + 8, u64::MAX - 63)]),
            &["component 1", "beyond the element"],
        ),
        (
            "lying",
            words(&[(FIRST_ROW + 8, offset - 1)]),
            &["component 0", "does not match its shape"],
        ),
        (
            "deep",
            words(&[(FIRST_ROW + 16, u32::MAX.into())]),
            &["component 0", "rank"],
        ),
        ("newer", newer, &["version 9"]),
        ("huge header", huge_header, &["4294967295"]),
        ("torn", torn, &["header"]),
    ];
    let trainer = Trainer::start();
    watched("lying elements", move || {
        let others = trainer.worker(Lie::None);
        let mut others = trainer.read(&others);
        for (what, bytes, parts) in elements {
            let worker = trainer.worker(Lie::FirstPack(RawPack::of(0, &bytes).to_bytes()));
            let error = trainer.read(&worker).fails(what);
            assert!(matches!(error, ReadError::Element { .. }), "{what}: {error}");
            names(
                what,
                &error.to_string(),
                &[&[worker.address.as_str()], parts].concat(),
            );
            others.goes_on();
        }
    });
}

/// D1.1, D1.2, D1.3, D2.1.
#[test]
fn a_protocol_breaking_client_is_told_why() {
    let version = PROTOCOL_VERSION + 998;
    let greeting = ToWorker::Hello(Hello { version, features: 0 });
    let hello = framed(&ToWorker::Hello(Hello::current()));
    let after_hello = |bytes: &[u8]| [&hello, bytes].concat();
    let cut = after_hello(&[9, 0, 0, 0, 1, 2, 3]);
    let version = version.to_string();
    let lies: [(Vec<u8>, Vec<String>); 6] = [
        (framed(&greeting), vec![version, PROTOCOL_VERSION.to_string()]),
        (
            framed(&ToWorker::Cancel(Cancel {
                task: TASK,
                has_all: false,
            })),
            vec!["hello".into()],
        ),
        (vec![0xff; 64], vec!["4294967295".into(), "131072".into()]),
        (
            after_hello(&[0xff; 64]),
            vec!["4294967295".into(), "131072".into()],
        ),
        (
            after_hello(&[2, 0, 0, 0, 0x18, 0x63]),
            vec!["invalid message".into()],
        ),
        (cut, vec!["end".into()]),
    ];
    watched("lying clients", move || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let numbers = Dataset::range(0, 5000, 1);
        let mut reader = cluster.read(numbers, Policy::Off, MaxOutstanding::Elements(10));
        let lane = Lane::start("liar").expect("a lane");
        for (read, (bytes, parts)) in lies.into_iter().enumerate() {
            let credentials = cluster.key.credentials(Role::Read).expect("a cluster key");
            let address = cluster.workers[0].local_addr();
            let goodbye = lane.spawn(async move {
                let endpoint = Endpoint::client(credentials, EndpointConfig::default()).expect("a free port");
                let alpn = std::str::from_utf8(quic::ALPN).expect("ascii");
                let connected = endpoint.connect(address, Role::Worker, alpn, PATIENCE).await;
                let connection = connected.expect("connected");
                let (mut say, _hear) = connection.open_bi().await.expect("a stream");
                // The worker may close the link before all bytes are written.
                let _ = say.write_all(&bytes).await;
                let _ = say.shutdown().await;
                connection.closed().await.to_string()
            });
            let goodbye = goodbye.wait().expect("the lane lives");
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            names("a client's lie", &goodbye, &[&["code 1"], &*parts].concat());
            let next = reader.next_element().expect("the reader proceeds");
            assert!(next.is_some(), "{read} elements and no more");
        }
        assert_eq!(drain(&mut reader).len(), 5000 - 6);
    });
}

/// Bytes on a second message stream, which the worker does not read, would fill the worker's memory.
#[test]
fn a_client_has_one_message_stream() {
    watched("streams", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let credentials = cluster.key.credentials(Role::Read).expect("a cluster key");
        let address = cluster.workers[0].local_addr();
        run(async move {
            let endpoint = Endpoint::client(credentials, EndpointConfig::default()).expect("a free port");
            let alpn = std::str::from_utf8(quic::ALPN).expect("ascii");
            let connected = endpoint.connect(address, Role::Worker, alpn, PATIENCE).await;
            let connection = connected.expect("connected");
            let _messages = connection.open_bi().await.expect("a stream");
            let mut cx = Context::from_waker(Waker::noop());
            assert!(pin!(connection.open_bi()).poll(&mut cx).is_pending());
            assert!(pin!(connection.open_uni()).poll(&mut cx).is_pending());
        });
    });
}

/// The worker disconnects a client that opens its stream and then sends nothing, even if the connection
/// lives.
#[test]
fn a_client_that_never_greets_is_sent_away() {
    run(async {
        let key = ClusterKey::generate().expect("randomness");
        let alpn = std::str::from_utf8(quic::ALPN).expect("ascii");
        let config = EndpointConfig::default();
        let server = Endpoint::bind_server(
            key.credentials(Role::Worker),
            &[alpn],
            &[Role::Read],
            config.clone(),
        );
        let server = server.expect("a free port");
        let mut acceptor = server.acceptor().expect("a server");
        let client = Endpoint::client(key.credentials(Role::Read), config).expect("a free port");
        let (accepted, connected) = tokio::join!(
            acceptor.accept(),
            client.connect(server.local_addr(), Role::Worker, alpn, PATIENCE),
        );
        let (accepted, connection) = (accepted.expect("accepted"), connected.expect("connected"));
        let (mut say, _hear) = connection.open_bi().await.expect("a stream");
        say.write_all(&[7]).await.expect("room");
        let deadline = Duration::from_millis(50);
        let path = PathReporter::new(server.clone(), accepted.connection);
        let link = quic::accept(path, deadline).await;
        let mut link = link.expect("the stream is there");
        let lost = std::future::poll_fn(|cx| link.poll_recv(cx))
            .await
            .expect_err("silence");
        let LinkLost::Misbehaved(reason) = &lost else {
            panic!("{lost}")
        };
        assert!(reason.contains("50ms"), "{reason}");
    });
}

/// Starts a worker for each lie, and reads from it. The error must name the worker and contain the given
/// parts, and the worker must receive the reason.
fn refuses_links(lies: &[(Lie, &[&str])]) {
    let lies: Vec<(Lie, Vec<String>)> = lies
        .iter()
        .map(|(lie, parts)| (lie.clone(), parts.iter().map(|part| (*part).to_owned()).collect()))
        .collect();
    watched("lying workers", move || {
        let trainer = Trainer::start();
        let others = trainer.worker(Lie::None);
        let mut others = trainer.read(&others);
        for (lie, parts) in lies {
            let what = format!("{parts:?}");
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let worker = trainer.worker(lie);
            let reading = trainer.read(&worker);
            let error = reading.fails(&what);
            assert!(
                matches!(error, ReadError::WorkerMisbehaved { .. }),
                "{what}: {error}"
            );
            names(
                &what,
                &error.to_string(),
                &[&[worker.address.as_str()], &*parts].concat(),
            );
            let goodbye = worker
                .goodbye
                .recv_timeout(PATIENCE)
                .expect("the link was closed");
            names(&what, &goodbye, &[&["code 1"], &*parts].concat());
            others.goes_on();
        }
    });
}

fn names(what: &str, text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{what}: `{part}` is not in: {text}");
    }
}

/// A reading process, with all its tasks on one lane and one socket.
struct Trainer {
    key: ClusterKey,
    endpoint: Endpoint,
    lane: Arc<Lane>,
}

/// A reader with the channels that keep its iteration open.
struct Reading {
    reader: Reader,
    _events: mpsc::Sender<TaskEvent>,
    _reports: mpsc::Receiver<millstream::client::Report>,
}

impl Trainer {
    fn start() -> Self {
        let key = ClusterKey::generate().expect("randomness");
        let lane = Arc::new(Lane::start("trainer").expect("a lane"));
        let credentials = key.credentials(Role::Read);
        let bound = lane.spawn(async move { Endpoint::client(credentials, EndpointConfig::default()) });
        let endpoint = bound.wait().expect("the lane lives").expect("a free port");
        Self { key, endpoint, lane }
    }

    fn worker(&self, lie: Lie) -> HandWritten {
        HandWritten::start(&self.lane, &self.key, lie)
    }

    fn read(&self, worker: &HandWritten) -> Reading {
        let (events, events_queue) = mpsc::channel(8);
        let (reports_queue, reports) = mpsc::channel(8);
        let feed = Feed {
            events: events_queue,
            reports: reports_queue,
            pace: Arc::default(),
            dispatcher: "dispatcher:1".to_owned(),
        };
        let config = ReaderConfig {
            max_outstanding: MaxOutstanding::Elements(1),
            ..ReaderConfig::default()
        };
        let connector = Arc::new(AutoConnector::new(self.endpoint.clone(), LocalWorkers::default()));
        let reader = Reader::start(self.lane.clone(), connector, feed, &config);
        let source = TaskSource {
            task: TASK,
            worker: WorkerPlace::at(&worker.address),
            ticket: vec![1; 64],
            start_round: Some(0),
        };
        events
            .blocking_send(TaskEvent::Added(source))
            .expect("the reader listens");
        Reading {
            reader,
            _events: events,
            _reports: reports,
        }
    }
}

impl Reading {
    /// Reads one element, which must fail, and returns the error.
    fn fails(mut self, what: &str) -> ReadError {
        match self.reader.next_element() {
            Ok(element) => panic!("{what}: {element:?}"),
            Err(error) => error,
        }
    }

    /// Reads one valid element.
    fn goes_on(&mut self) {
        let element = self
            .reader
            .next_element()
            .expect("no failure")
            .expect("an element");
        let payload = element.component(1).expect("two components");
        assert!(payload.bytes().iter().all(|byte| *byte == 2));
    }
}
