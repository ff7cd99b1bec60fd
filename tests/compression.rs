//! Tests of a worker that compresses, over real QUIC: the reader receives the elements unchanged, and worker
//! and reader count the same bytes.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use millstream::client::MaxOutstanding;
use millstream::control::Policy;
use millstream::dataplane::TaskId;
use millstream::dataplane::proto::message::{
    EndOfTask, Grant, Hello, SplitDone, Subscribe, ToClient, ToWorker,
};
use millstream::dataplane::proto::send::Ending;
use millstream::dataplane::transport::{Body, ClientLink, Compression, Downstream};
use millstream::dataplane::worker::{ProduceError, Producer, Server, ServerConfig, TaskMode};
use millstream::element::{
    Dtype, Element, ElementSpec, HeapAlloc, Layout, Origin, Shape, SlotAlloc, TensorSpec,
};
use millstream::link::{Claims, EndpointConfig, TicketKey};
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;

use crate::support::cluster::{Cluster, numbers};
use crate::support::links::{Mechanism, UpTo};
use crate::support::{run, watched};

const TASK: TaskId = TaskId(3);
const ELEMENTS: u64 = 500;
/// The number of elements in a split.
const SPLIT: u64 = 50;

#[test]
fn a_service_that_compresses_yields_every_number_once() {
    watched("compressing service", || {
        for policy in [Policy::Off, Policy::Dynamic] {
            let compressing = |config: &mut millstream::WorkerConfig| {
                config.server.compression = Compression::Lz4;
            };
            let functions = vec![Functions::new(), Functions::new()];
            let cluster = Cluster::start_with(
                Mechanism::Quic,
                functions,
                &EndpointConfig::default(),
                compressing,
            );
            let dataset = Dataset::range(0, 20_000, 1).batch(100, false);
            let mut reader = cluster.read(dataset, policy, MaxOutstanding::Elements(16));
            let mut all = Vec::new();
            while let Some(element) = reader.next_element().expect("the reader proceeds") {
                all.extend(numbers(&element));
            }
            all.sort_unstable();
            let times = if matches!(policy, Policy::Off) { 2 } else { 1 };
            let wanted = (0..20_000).flat_map(|number| std::iter::repeat_n(number, times));
            assert!(all.into_iter().eq(wanted), "{policy}");
        }
    });
}

/// The end of a task may overtake packs that are still being compressed, and its count includes these packs
/// (D2.2, D5.1, D5.2, D5.4).
#[test]
fn both_ends_count_compressed_bytes() {
    travels(Compression::Lz4, None, true);
}

#[test]
fn a_datasets_compression_overrides_the_workers() {
    travels(Compression::None, Some(Compression::Lz4), true);
    travels(Compression::Lz4, Some(Compression::None), false);
}

fn travels(of_worker: Compression, of_task: Option<Compression>, is_compressed: bool) {
    run(async move {
        let key = TicketKey::generate().expect("randomness");
        let alloc: Arc<dyn SlotAlloc> = Arc::new(HeapAlloc);
        let config = ServerConfig {
            compression: of_worker,
            ..ServerConfig::default()
        };
        let server = Server::new(config, key.clone(), &alloc).expect("threads start");
        let producer = server.add_task(TASK, TaskMode::FirstCome, &spec(), alloc);
        if let Some(compression) = of_task {
            server.compress_task(TASK, compression);
        }
        produce(producer.expect("a new task"), ELEMENTS);
        let ends = Mechanism::Quic.connect(Arc::new(UpTo(u64::MAX))).await;
        let (worker, mut link) = (ends.worker, ends.client);
        let (serving_server, mut restored) = (server.clone(), 0);
        let serving = tokio::spawn(async move { serving_server.serve(worker).await });
        for message in opening(&key) {
            say(&mut link, message).await;
        }
        let (mut compressed, mut received, mut splits, mut end) = (0, Vec::new(), Vec::new(), None);
        while (received.len() as u64) < ELEMENTS || end.is_none() {
            match poll_fn(|cx| link.poll_recv(cx)).await.expect("the link exists") {
                Downstream::Pack(pack) => {
                    if let Body::Lz4 {
                        block, region_bytes, ..
                    } = &pack.pack
                    {
                        compressed += block.len() as u64;
                        restored += *region_bytes as u64;
                        assert_eq!(pack.pack.copies_when_opened(), *region_bytes as u64);
                    }
                    received.extend(sequences(pack.first, pack.pack));
                }
                Downstream::Message(ToClient::SplitDone(SplitDone { lease, upto, .. })) => {
                    splits.push((lease, upto));
                }
                Downstream::Message(ToClient::EndOfTask(EndOfTask { sent, .. })) => end = Some(sent),
                Downstream::Message(ToClient::Hello(_) | ToClient::Accepted(_)) => {}
                Downstream::Message(other) => panic!("{other:?}"),
            }
        }
        received.sort_unstable();
        assert!(received.into_iter().eq(0..ELEMENTS));
        assert_eq!(
            compressed > 0,
            is_compressed,
            "{compressed} bytes were compressed"
        );
        assert!(!is_compressed || compressed < restored);
        assert!(
            link.bytes_copied() >= compressed,
            "the receiver copies what it is sent"
        );
        assert_eq!(link.report().bytes_copied, link.bytes_copied());
        assert_eq!(end, Some(ELEMENTS));
        assert!(splits.iter().map(|(lease, _)| *lease).eq(0..ELEMENTS / SPLIT));
        for (lease, upto) in splits {
            assert!(
                ((lease + 1) * SPLIT..=ELEMENTS).contains(&upto),
                "split {lease}: {upto}"
            );
        }
        drop(link);
        serving.await.expect("no panic");
        // Uncompressed slots are sent without a copy. Compression copies the bytes of a compressed pack once.
        assert_eq!(server.counters().bytes_copied.load(Ordering::Relaxed), compressed);
    });
}

/// The number of outstanding elements in [`paced`].
const OUTSTANDING: u64 = 64;

/// Under AUTO, the worker compresses packs for a slow link (D2.6).
#[test]
fn a_slow_link_gets_compressed_packs() {
    watched("a slow link", || run(paced(Slow::Link, u64::MAX)));
}

/// Under AUTO, the worker sends plain packs to a slow consumer, even if the consumer is as slow as a slow
/// link (D2.6, D4.6).
#[test]
fn a_slow_consumer_gets_plain_packs() {
    watched("a slow consumer", || run(paced(Slow::Consumer, 600)));
}

/// The slowest part of a simulated path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slow {
    Link,
    Consumer,
}

/// A simulated stage that packs pass through, one after the other.
#[derive(Debug)]
struct Stage {
    bytes_per_s: f64,
    /// The packs in the stage: the number of elements of each pack and its time in the stage. The first pack
    /// leaves the stage at `due`.
    packs: VecDeque<(u64, Duration)>,
    due: Instant,
}

impl Stage {
    fn new(bytes_per_s: f64) -> Self {
        let (packs, due) = (VecDeque::new(), Instant::now());
        Self {
            bytes_per_s,
            packs,
            due,
        }
    }

    fn push(&mut self, elements: u64) {
        let takes = Duration::from_secs_f64((elements * 4096) as f64 / self.bytes_per_s);
        if self.packs.is_empty() {
            self.due = Instant::now() + takes;
        }
        self.packs.push_back((elements, takes));
    }

    /// Waits until the next pack leaves the stage, and returns its number of elements. Cancel-safe.
    async fn next(&mut self) -> u64 {
        let Some((elements, _)) = self.packs.front().copied() else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(self.due).await;
        self.packs.pop_front();
        self.due += self.packs.front().map_or(Duration::ZERO, |(_, takes)| *takes);
        elements
    }
}

/// Reads packs over a simulated link with a simulated consumer. A slow link must receive a compressed pack,
/// which ends the test; a slow consumer must receive plain packs.
async fn paced(slow: Slow, elements: u64) {
    let key = TicketKey::generate().expect("randomness");
    let alloc: Arc<dyn SlotAlloc> = Arc::new(HeapAlloc);
    let config = ServerConfig {
        compression: Compression::Auto,
        // With a long patience the worker gives no credits back, which simplifies the test's count.
        patience: Duration::from_secs(3600),
        ..ServerConfig::default()
    };
    let server = Server::new(config, key.clone(), &alloc).expect("threads start");
    let producer = server.add_task(TASK, TaskMode::FirstCome, &spec(), alloc);
    produce(producer.expect("a new task"), elements);
    let ends = Mechanism::Quic.connect(Arc::new(UpTo(u64::MAX))).await;
    let (worker, mut client, serving) = (ends.worker, ends.client, server.clone());
    let serving = tokio::spawn(async move { serving.serve(worker).await });
    let [hello, subscribe, _] = opening(&key);
    say(&mut client, hello).await;
    say(&mut client, subscribe).await;
    say(&mut client, granting(OUTSTANDING, 0, 0)).await;
    let mut link = Stage::new(10e6);
    let mut consumer = Stage::new(if slow == Slow::Link { 1e9 } else { 2e6 });
    let (mut received, mut handed) = (0, 0);
    while handed < elements {
        tokio::select! {
            frame = poll_fn(|cx| client.poll_recv(cx)) => match frame.expect("the link exists") {
                Downstream::Message(_) => continue,
                Downstream::Pack(pack) if matches!(pack.pack, Body::Lz4 { .. }) => {
                    assert_eq!(slow, Slow::Link);
                    break;
                }
                Downstream::Pack(pack) => {
                    link.push(pack.pack.len() as u64);
                    continue;
                }
            },
            arrived = link.next() => {
                received += arrived;
                consumer.push(arrived);
            }
            done = consumer.next() => handed += done,
        }
        say(
            &mut client,
            granting(handed + OUTSTANDING, received, received - handed),
        )
        .await;
    }
    server.remove_task(TASK);
    drop(client);
    serving.await.expect("no panic");
}

fn granting(limit: u64, received: u64, waiting: u64) -> ToWorker {
    ToWorker::Grant(Grant {
        task: TASK,
        limit,
        element_bytes: 1 << 20,
        received,
        splits: 0,
        waiting: Some(waiting),
        handed: None,
    })
}

/// Returns the first messages of a client that requests all elements.
fn opening(key: &TicketKey) -> [ToWorker; 3] {
    let ticket = key.mint(&Claims {
        client: 1,
        task: TASK.0,
        consumer: None,
    });
    let subscribe = Subscribe {
        task: TASK,
        ticket: ticket.as_bytes().to_vec(),
        resume_from: 0,
        splits_from: 0,
        trainer_id: None,
        asked_before: 0,
    };
    let grant = Grant {
        task: TASK,
        limit: ELEMENTS,
        element_bytes: 1 << 20,
        received: 0,
        splits: 0,
        waiting: None,
        handed: None,
    };
    [
        ToWorker::Hello(Hello::current()),
        ToWorker::Subscribe(subscribe),
        ToWorker::Grant(grant),
    ]
}

fn spec() -> ElementSpec {
    ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[4000])).expect("a spec")
}

/// Writes `elements` elements, on a separate thread.
fn produce(mut producer: Producer, elements: u64) {
    std::thread::spawn(move || {
        for sequence in 0..elements {
            if producer.wait_room().is_err() {
                return;
            }
            let written: Result<(), ProduceError<()>> = producer.write(|pack, layout| {
                let mut element = match pack.begin(layout, &[Shape::fixed(&[4000])], 0) {
                    Ok(element) => element,
                    Err(millstream::element::WriteError::Full { needed_bytes, .. }) => {
                        return Err(ProduceError::Full { needed_bytes });
                    }
                    Err(error) => panic!("{error}"),
                };
                element.component_mut(0).fill(sequence as u8);
                element.finish(sequence, &[]).expect("as begun");
                Ok(())
            });
            written.expect("written");
            if (sequence + 1) % SPLIT == 0 {
                producer.split_done(sequence / SPLIT, 1);
            }
        }
        producer.finish(Ending::Exhausted);
    });
}

/// Returns the sequence numbers of a pack's elements, and checks the content of each element.
fn sequences(first: u64, body: Body) -> Vec<u64> {
    let layout = Layout::new(spec()).expect("a layout");
    let pack = body.open(&HeapAlloc).expect("whole");
    let check = |(place, slot)| {
        let element = Element::open(slot, &layout, Origin::Foreign).expect("sound");
        let payload = element.component(0).expect("one component").bytes().to_vec();
        assert_eq!(element.sequence(), first + place as u64);
        assert!(payload.iter().all(|byte| *byte == element.sequence() as u8));
        element.sequence()
    };
    pack.slots().enumerate().map(check).collect()
}

async fn say(link: &mut Box<ClientLink>, message: ToWorker) {
    poll_fn(|cx| link.poll_ready(cx)).await.expect("room");
    link.try_send(message).expect("room");
}
