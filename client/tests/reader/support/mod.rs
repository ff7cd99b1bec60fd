//! Workers in this process for a reader under test: links that break on purpose, tasks that count their
//! elements, and a gauge of outstanding elements.

mod tap;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc as std_mpsc;
use std::task::Poll;
use std::time::Duration;

use millstream_client::{
    Connected, Connecting, Connector, Feed, MaxOutstanding, Reader, ReaderConfig, Report, TaskEvent,
    TaskSource, WorkerPlace,
};
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Hello, PROTOCOL_VERSION, ToClient};
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::transport::memory::{self, Knobs};
use millstream_dataplane::transport::{Admission, ClientLink, Downstream, LinkLost, WorkerLink};
use millstream_dataplane::worker::{ProduceError, Producer, Server, ServerConfig, TaskMode};
use millstream_element::{Dtype, Element, ElementSpec, HeapAlloc, Provenance, Shape, TensorSpec};
use millstream_link::Lane;
use millstream_link::ticket::{Claims, TicketKey};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use tap::Tap;
pub(crate) use tap::{Log, Spoil};

/// Ten times the duration of the slowest test on a busy machine. A test that runs longer hangs.
const WATCHDOG: Duration = Duration::from_secs(60);

/// An address at which every connecting client panics.
pub(crate) const TRAP: &str = "trap";

/// The highest task number that tests use.
const TASK_MAX: u64 = 9;

/// The number of elements in one split.
pub(crate) const SPLIT: u64 = 10;

/// The number of elements that left a buffer and were not handed over: the current number and the maximum.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    now: AtomicI64,
    most: AtomicI64,
}

impl Gauge {
    fn add(&self, elements: i64) {
        let now = self.now.fetch_add(elements, Ordering::SeqCst) + elements;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    pub(crate) fn most(&self) -> i64 {
        self.most.load(Ordering::SeqCst)
    }
}

/// The workers by address, and the behaviour of the next links to each worker.
#[derive(Debug)]
pub(crate) struct Workers {
    runtime: tokio::runtime::Runtime,
    key: [u8; 32],
    patience: Duration,
    pub(crate) gauge: Arc<Gauge>,
    servers: Mutex<BTreeMap<String, Server>>,
    knobs: Mutex<BTreeMap<String, VecDeque<Knobs>>>,
    links: Mutex<BTreeMap<String, Vec<tokio::task::AbortHandle>>>,
    logs: Mutex<BTreeMap<String, Arc<Log>>>,
    strangers: Mutex<BTreeMap<String, std_mpsc::Sender<LinkLost>>>,
    /// The places to which links were made, in order.
    pub(crate) dialled: Mutex<Vec<WorkerPlace>>,
}

impl Workers {
    pub(crate) fn new(names: &[&str]) -> Arc<Self> {
        Self::with_patience(names, Duration::from_millis(5))
    }

    /// Makes workers whose idle tasks keep their credits for the length of a test.
    pub(crate) fn patient(names: &[&str]) -> Arc<Self> {
        Self::with_patience(names, WATCHDOG)
    }

    fn with_patience(names: &[&str], patience: Duration) -> Arc<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        let workers = Arc::new(Self {
            runtime: runtime.expect("a runtime starts"),
            key: [7; 32],
            patience,
            gauge: Arc::default(),
            servers: Mutex::default(),
            knobs: Mutex::default(),
            links: Mutex::default(),
            logs: Mutex::default(),
            strangers: Mutex::default(),
            dialled: Mutex::default(),
        });
        for name in names {
            workers.start(name);
        }
        workers
    }

    /// Starts a worker. Replaces a worker at the same address by one without tasks.
    pub(crate) fn start(&self, name: &str) {
        let gauge = self.gauge.clone();
        let config = ServerConfig {
            patience: self.patience,
            on_taken: Some(Arc::new(move |elements| gauge.add(elements as i64))),
            ..ServerConfig::default()
        };
        let alloc: Arc<dyn millstream_element::SlotAlloc> = Arc::new(HeapAlloc);
        let server =
            Server::new(config, TicketKey::from_bytes(self.key), &alloc).expect("no threads to start");
        self.servers.lock().insert(name.to_owned(), server);
    }

    /// Breaks the links of a worker.
    pub(crate) fn cut(&self, name: &str) {
        for link in self.links.lock().remove(name).unwrap_or_default() {
            link.abort();
        }
    }

    /// Stops a worker, and breaks its links.
    pub(crate) fn stop(&self, name: &str) {
        if let Some(server) = self.servers.lock().remove(name) {
            for task in 0..=TASK_MAX {
                server.remove_task(TaskId(task));
            }
        }
        self.cut(name);
    }

    /// Returns the log of the messages on a worker's links.
    pub(crate) fn log(&self, name: &str) -> Arc<Log> {
        self.logs.lock().entry(name.to_owned()).or_default().clone()
    }

    /// Adds a worker that uses the next protocol version. The receiver gets the error that ends the first
    /// link to this worker.
    pub(crate) fn add_stranger(&self, name: &str) -> std_mpsc::Receiver<LinkLost> {
        let (ends, end) = std_mpsc::channel();
        self.strangers.lock().insert(name.to_owned(), ends);
        end
    }

    /// Sets the behaviour of the next links to a worker. Later links are sound.
    pub(crate) fn misbehave(&self, name: &str, knobs: impl IntoIterator<Item = Knobs>) {
        self.knobs
            .lock()
            .entry(name.to_owned())
            .or_default()
            .extend(knobs);
    }

    pub(crate) fn server(&self, name: &str) -> Server {
        self.servers.lock()[name].clone()
    }

    /// Adds a task of `count` elements with `items` numbers each, and starts the thread that produces them.
    pub(crate) fn add_task(
        &self,
        name: &str,
        task: u64,
        count: u64,
        items: u64,
        ending: Ending,
    ) -> TaskEvent {
        let producer = self.add_silent_task(name, task, items);
        std::thread::spawn(move || produce(producer, task, count, ending));
        self.added(name, task)
    }

    /// Adds a task whose elements the caller produces.
    pub(crate) fn add_silent_task(&self, name: &str, task: u64, items: u64) -> Producer {
        self.add_task_as(name, task, TaskMode::FirstCome, items)
    }

    /// Adds a task for a coordinated read by this number of consumers.
    pub(crate) fn add_coordinated_task(&self, name: &str, task: u64, consumers: NonZeroU32) -> Producer {
        self.add_task_as(name, task, TaskMode::Coordinated { consumers }, 1)
    }

    fn add_task_as(&self, name: &str, task: u64, mode: TaskMode, items: u64) -> Producer {
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U64, &[items])).expect("a spec");
        self.server(name)
            .add_task(TaskId(task), mode, &spec, Arc::new(HeapAlloc))
            .expect("a new task")
    }

    pub(crate) fn added(&self, name: &str, task: u64) -> TaskEvent {
        TaskEvent::Added(self.source(name, task, 1, None))
    }

    /// Makes a task with a ticket for this client.
    pub(crate) fn source(&self, name: &str, task: u64, client: u64, consumer: Option<u32>) -> TaskSource {
        let ticket = TicketKey::from_bytes(self.key).mint(&Claims {
            client,
            task,
            consumer,
        });
        TaskSource {
            task: TaskId(task),
            worker: WorkerPlace::at(name),
            ticket: ticket.as_bytes().to_vec(),
            start_round: Some(0),
        }
    }
}

impl Connector for Workers {
    fn connect<'a>(&'a self, worker: &'a WorkerPlace, admission: Arc<dyn Admission>) -> Connecting<'a> {
        self.dialled.lock().push(worker.clone());
        let worker = worker.address.as_str();
        assert_ne!(worker, TRAP, "a client connected to the trap");
        if let Some(ends) = self.strangers.lock().get(worker).cloned() {
            let (far, near) = memory::pair(admission, Knobs::default());
            self.runtime.spawn(greet_in_next_version(far, ends));
            return Box::pin(async { Ok(Connected::from(near as Box<ClientLink>)) });
        }
        let Some(server) = self.servers.lock().get(worker).cloned() else {
            return Box::pin(async { Err("no worker has this address".to_owned().into()) });
        };
        let knobs = self
            .knobs
            .lock()
            .get_mut(worker)
            .and_then(VecDeque::pop_front)
            .unwrap_or_default();
        let (far, near) = memory::pair(admission, knobs);
        let serving = self.runtime.spawn(async move { server.serve(far).await });
        self.links
            .lock()
            .entry(worker.to_owned())
            .or_default()
            .push(serving.abort_handle());
        let near: Box<ClientLink> = Box::new(Tap::new(near, self.log(worker)));
        Box::pin(async { Ok(near.into()) })
    }
}

async fn greet_in_next_version(mut link: Box<WorkerLink>, ends: std_mpsc::Sender<LinkLost>) {
    let lost = poll_fn(|cx| {
        if link.poll_ready(cx).is_ready() {
            let hello = Hello {
                version: PROTOCOL_VERSION + 1,
                ..Hello::current()
            };
            let _ = link.try_send(Downstream::Message(ToClient::Hello(hello)));
        }
        Poll::Ready(())
    });
    lost.await;
    let lost = poll_fn(|cx| {
        while let Poll::Ready(frame) = link.poll_recv(cx) {
            if let Err(lost) = frame {
                return Poll::Ready(lost);
            }
        }
        Poll::Pending
    });
    let _ = ends.send(lost.await);
}

/// Returns the first number of element `index` of a task.
pub(crate) fn number(task: u64, index: u64) -> u64 {
    (task << 32) | index
}

/// Returns the lease of the split that contains element `index` of a task.
pub(crate) fn lease(task: u64, index: u64) -> u64 {
    (task << 32) | (index / SPLIT)
}

/// Writes one element.
pub(crate) fn write(producer: &mut Producer, task: u64, index: u64) -> Result<(), ProduceError<()>> {
    let items = producer.layout().spec().components()[0]
        .payload_bytes()
        .expect("static")
        / 8;
    producer.write(|pack, layout| {
        let mut element = match pack.begin(layout, &[Shape::fixed(&[items])], 1) {
            Ok(element) => element,
            Err(millstream_element::WriteError::Full { needed_bytes, .. }) => {
                return Err(ProduceError::Full { needed_bytes });
            }
            Err(error) => panic!("{error}"),
        };
        let payload = element.component_mut(0);
        payload.fill(index as u8);
        payload[..8].copy_from_slice(&number(task, index).to_le_bytes());
        let provenance = Provenance {
            lease: lease(task, index),
            attempt: 1,
            from: index,
            upto: index + 1,
        };
        element
            .finish(index, &[provenance])
            .expect("the provenance has the announced length");
        Ok(())
    })
}

fn produce(mut producer: Producer, task: u64, count: u64, ending: Ending) {
    if producer.wait_started().is_err() {
        return;
    }
    for index in 0..count {
        if producer.wait_room().is_err() {
            return;
        }
        write(&mut producer, task, index).expect("written");
        if (index + 1) % SPLIT == 0 || index + 1 == count {
            producer.split_done(lease(task, index), 1);
        }
    }
    producer.finish(ending);
}

/// A reader, and the other ends of its channels.
pub(crate) struct Read {
    pub(crate) reader: Reader,
    pub(crate) events: mpsc::Sender<TaskEvent>,
    pub(crate) reports: mpsc::Receiver<Report>,
    /// The lane thread, which still runs after the reader was dropped.
    pub(crate) lane: Arc<Lane>,
}

/// Starts a reader with at most `max_outstanding` outstanding elements.
pub(crate) fn read(workers: &Arc<Workers>, max_outstanding: u64) -> Read {
    read_with(
        workers,
        ReaderConfig {
            max_outstanding: MaxOutstanding::Elements(max_outstanding),
            ..ReaderConfig::default()
        },
    )
}

pub(crate) fn read_with(workers: &Arc<Workers>, config: ReaderConfig) -> Read {
    let (events, events_queue) = mpsc::channel(1024);
    // Simulates a dispatcher that is slow to take reports.
    let (reports_queue, reports) = mpsc::channel(1);
    let gauge = workers.gauge.clone();
    let config = ReaderConfig {
        on_handed: Some(Arc::new(move || gauge.add(-1))),
        // The thread never checks by itself, so that a lost wake-up hangs the test.
        look_up_every: 2 * WATCHDOG,
        ..config
    };
    let lane = Arc::new(Lane::start("reader").expect("a lane"));
    let feed = Feed {
        events: events_queue,
        reports: reports_queue,
        pace: Arc::default(),
        dispatcher: "dispatcher:1".to_owned(),
    };
    Read {
        reader: Reader::start(lane.clone(), workers.clone(), feed, &config),
        events,
        reports,
        lane,
    }
}

impl Read {
    pub(crate) fn tell(&self, event: TaskEvent) {
        self.events.blocking_send(event).expect("the reader listens");
    }
}

/// Returns the task and index of an element, after checking all its numbers.
pub(crate) fn identity(element: &Element) -> (u64, u64) {
    let view = element.component(0).expect("one component");
    let numbers = view.as_slice::<u64>().expect("numbers");
    let (task, index) = (numbers[0] >> 32, numbers[0] & 0xffff_ffff);
    assert_eq!(element.sequence(), index);
    assert_eq!(element.provenance()[0].lease, lease(task, index));
    assert!(
        view.bytes()[8..].iter().all(|byte| *byte == index as u8),
        "torn element {index} of task {task}"
    );
    (task, index)
}

/// Runs a blocking test, and panics if the test hangs.
pub(crate) fn watched<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(test());
    });
    match outcome.recv_timeout(WATCHDOG) {
        Ok(value) => value,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("the test thread panicked"))
        }
    }
}

/// Reads the given elements of one task.
pub(crate) fn expect(read: &mut Read, task: u64, indices: std::ops::Range<u64>) {
    for index in indices {
        let element = read.reader.next_element().expect("no failure yet");
        assert_eq!(identity(&element.expect("an element")), (task, index));
    }
}
