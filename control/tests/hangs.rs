//! Tests of a dispatcher that hangs or cannot store, a file system that does not answer, and a process that
//! does not read.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_control::agent::{AgentConfig, AgentEvent};
use millstream_control::rpc::ALPN;
use millstream_control::{
    Change, ClientPush, Code, DatasetFacts, PlanError, Planner, Policy, Record, SourcePlan, SplitPlan, Store,
    StoreError,
};
use millstream_link::{Endpoint, EndpointConfig, PeerLimits, Role};

use crate::support::{Cluster, FailingStore, WordPlanner, open, told, within};

/// Tests that a dispatcher which hangs does not keep a worker's lease alive (C1.9, C7.4).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatcher_hanging_on_storage_counts_as_silent() {
    let cluster = Cluster::new();
    let (gate, hanging) = channel();
    let store = HangingStore {
        hanging,
        hangs: Arc::default(),
    };
    let hangs = Arc::clone(&store.hangs);
    let server = cluster.dispatcher(None, Box::new(store));
    let mut worker = cluster.worker("worker:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    *hangs.lock().unwrap() = true;
    let asked = tokio::spawn(async move { client.register_dataset(None, b"10".to_vec()).await });
    assert_eq!(worker.event().await, AgentEvent::LeaseLapsed);
    *hangs.lock().unwrap() = false;
    drop(gate);
    within("the answer", asked).await.unwrap().unwrap();
}

/// Tests that a task finishes only after its unstarted splits are returned, because splits held by a
/// finished task count as read (C5.5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_finishes_after_its_splits_return() {
    let cluster = Cluster::new();
    let (gate, hanging) = channel();
    let store = HangingStore {
        hanging,
        hangs: Arc::default(),
    };
    let hangs = Arc::clone(&store.hangs);
    let server = cluster.dispatcher(None, Box::new(store));
    let configure = |config: &mut AgentConfig| {
        config.split_deadline = Duration::from_millis(300);
        config.lease = Duration::from_secs(60);
    };
    let mut worker = cluster
        .configured_worker("worker:1", server.local_addr(), configure)
        .await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let _iteration = open(&client, "50", Policy::Dynamic).await;
    let task = worker.started().await.task;
    let mut feed = worker.agent.splits(task).unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        feed.next(0, 0).unwrap().unwrap();
        // The first answer has one split and the second two. A request that the hang leaves without an answer
        // would have nothing to return.
        while feed.next_at_hand(0, 0).is_none() {
            std::thread::yield_now();
        }
        feed
    });
    let feed = within("a split", reading).await.unwrap();
    *hangs.lock().unwrap() = true;
    drop(feed);
    let finished = within("the refusal", worker.agent.finish_task(task, true)).await;
    let error = finished.unwrap_err();
    assert!(error.message.contains("not returned yet"), "{error}");
    *hangs.lock().unwrap() = false;
    drop(gate);
    let finished = async {
        while worker.agent.finish_task(task, true).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    within("the end", finished).await;
}

/// C1.6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_commit_ends_the_dispatcher() {
    let cluster = Cluster::new();
    let fails = Arc::new(Mutex::new(false));
    let store = FailingStore {
        fails: Arc::clone(&fails),
        error: || StoreError::Failed("the disk is gone".to_owned()),
    };
    let server = cluster.dispatcher(None, Box::new(store));
    let client = cluster
        .connect_with(Role::Submit, server.local_addr(), |config| {
            config.request_deadline = Duration::from_secs(1);
        })
        .await
        .unwrap();
    client.register_dataset(None, b"10".to_vec()).await.unwrap();
    assert!(!server.has_ended());
    *fails.lock().unwrap() = true;
    let error = client.register_dataset(None, b"20".to_vec()).await.unwrap_err();
    assert!(
        matches!(error.code, Code::Unavailable | Code::DeadlineExceeded),
        "{error}"
    );
    let ended = async {
        while !server.has_ended() {
            tokio::task::yield_now().await;
        }
    };
    within("the dispatcher's end", ended).await;
    let error = within("the shutdown", server.shutdown()).await.unwrap_err();
    assert!(error.to_string().contains("disk is gone"), "{error}");
}

/// Tests that a full store delays changes, fails no task, and works again as soon as space is free (C1.6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_is_waited_for() {
    let cluster = Cluster::new();
    let is_full = Arc::new(Mutex::new(false));
    let server = cluster.dispatcher(None, Box::new(FailingStore::full(&is_full)));
    let mut worker = cluster.worker("127.0.0.1:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let iteration = open(&client, "50", Policy::Dynamic).await;
    let task = worker.started().await.task;
    let mut feed = worker.agent.splits(task).unwrap();
    let (sender, mut read) = tokio::sync::mpsc::unbounded_channel();
    let reading = tokio::task::spawn_blocking(move || {
        while let Some(split) = feed.next(0, 0).unwrap() {
            sender.send(split.lease).unwrap();
        }
    });
    within("a split", read.recv()).await.unwrap();
    *is_full.lock().unwrap() = true;
    let refusal = async {
        loop {
            if let Err(error) = client.register_dataset(None, b"20".to_vec()).await {
                return error;
            }
        }
    };
    let error = within("the refusal", refusal).await;
    assert!(error.message.contains("the store is full: no room"), "{error}");
    let status = within("the status", client.status()).await.unwrap();
    assert_eq!(status.counts.workers, 1);
    let observed = within("an observation", server.observer().observe())
        .await
        .unwrap();
    assert!(observed.store_full.unwrap().contains("no room"));
    // A report also waits for space, and its error gives the reason.
    let error = within("the report", iteration.task_drained(task))
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::Unavailable, "{error}");
    *is_full.lock().unwrap() = false;
    within("the end", reading).await.unwrap();
    assert!(!server.has_ended());
    within("the release", iteration.release()).await.unwrap();
    let status = within("the status", client.status()).await.unwrap();
    assert!(
        status.workers.iter().all(|worker| worker.dead.is_none()),
        "{status:?}"
    );
}

/// Tests that a dispatcher whose loop panics does not keep its peers waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatcher_that_dies_within_disconnects_everybody() {
    let cluster = Cluster::new();
    let dies = Arc::new(Mutex::new(false));
    let server = cluster.dispatcher(None, Box::new(DyingStore(Arc::clone(&dies))));
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let endpoint = cluster.endpoint(Role::Read);
    let deadline = Duration::from_secs(10);
    let connecting = endpoint.connect(server.local_addr(), Role::Dispatcher, ALPN, deadline);
    // The last connection has sent no hello, and is not kept for long.
    let connection = connecting.await.unwrap();
    *dies.lock().unwrap() = true;
    let asked = tokio::spawn(async move { client.register_dataset(None, b"10".to_vec()).await });
    let reason = within("being disconnected", connection.closed())
        .await
        .to_string();
    assert!(reason.contains("the dispatcher has failed"), "{reason}");
    asked.abort();
    let error = within("the shutdown", server.shutdown()).await.unwrap_err();
    assert!(error.to_string().contains("event loop panicked"), "{error}");
}

/// C3.1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_listing_is_given_up_alone() {
    let (release, released) = channel();
    let cluster = Cluster::planned(HangingPlanner(Mutex::new(released)));
    let server = cluster.configured(|config| config.dispatcher.plan_deadline = Duration::from_millis(300));
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let dataset = client.register_dataset(None, b"hang".to_vec()).await.unwrap();
    let parameters = millstream_control::JobParameters::new(dataset.clone(), Policy::Off);
    let job = client.find_or_create_job(None, &parameters).await.unwrap();
    let hung = within("giving up", client.open_iteration(job, 0, None))
        .await
        .unwrap_err();
    assert!(hung.message.contains(&format!("dataset {dataset}")), "{hung}");
    let _other = open(&client, "10", Policy::Off).await;
    drop(release);
    within("another attempt", client.open_iteration(job, 0, None))
        .await
        .unwrap();
}

/// Tests that a task whose definition cannot be sent fails with the reason instead of never starting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_indescribably_large_task_fails_with_the_reason() {
    let cluster = Cluster::planned(HugePlanner);
    let server = cluster.server();
    let _worker = cluster.worker("worker:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let mut iteration = open(&client, "huge", Policy::Off).await;
    let message = loop {
        if let ClientPush::TaskFailed { message, .. } = told(&mut iteration).await {
            break message;
        }
    };
    assert!(message.contains("too many files"), "{message}");
}

/// Tests that the dispatcher continues to serve other workers, and that the remaining worker gets its tasks
/// (C7.2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_at_one_address_exhaust_nothing() {
    let cluster = Cluster::new();
    let server = cluster.configured(|config| config.dispatcher.workers_max = 2);
    let mut one = cluster.worker("same:1", server.local_addr()).await;
    let mut other = cluster.worker("same:1", server.local_addr()).await;
    for _ in 0..2 {
        assert_eq!(one.event().await, AgentEvent::LeaseLapsed);
        assert_eq!(other.event().await, AgentEvent::LeaseLapsed);
    }
    let _third = cluster.worker("third:1", server.local_addr()).await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    assert!(client.status().await.unwrap().workers.len() <= 3);
    other.die();
    let _iteration = open(&client, "10", Policy::Off).await;
    while !matches!(one.event().await, AgentEvent::StartTask(_)) {}
}

/// Tests that a worker's lease is never shorter than the dispatcher's limit, whatever the setting (C7.4).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_long_enough_for_the_dispatcher() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let mut worker = cluster
        .configured_worker("worker:1", server.local_addr(), |config| {
            config.lease = Duration::from_millis(1);
        })
        .await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let _iteration = open(&client, "20", Policy::Dynamic).await;
    let task = worker.started().await.task;
    assert_eq!(worker.read_all(task).await.len(), 20);
}

/// C4.2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_reads_no_pushes_is_disconnected() {
    let cluster = Cluster::new();
    let server = cluster.configured(|config| config.pushes_max = 4);
    // The tags make each snapshot larger than half a KiB.
    let _worker = cluster
        .configured_worker("worker:1", server.local_addr(), |config| {
            config.registration.tags = (0..8).map(|tag| format!("{tag:064}")).collect();
        })
        .await;
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let _iteration = open(&client, "10", Policy::Off).await;
    let config = EndpointConfig {
        of_connected: PeerLimits {
            stream_window_bytes: 2 << 10,
            ..PeerLimits::default()
        },
        ..EndpointConfig::default()
    };
    // One process has one certificate, so its session belongs to it.
    let endpoint = Endpoint::client(cluster.credentials(Role::Read), config).unwrap();
    let connect = async || {
        let deadline = Duration::from_secs(10);
        let connecting = endpoint.connect(server.local_addr(), Role::Dispatcher, ALPN, deadline);
        let connection = connecting.await.unwrap();
        let (mut send, recv) = connection.open_bi().await.unwrap();
        // The bytes encode a hello: version 2, session 5.
        send.write_all(b"\x03\0\0\0\x82\x02\x05").await.unwrap();
        (connection, (send, recv))
    };
    // Reads the length of the answer, unless the connection is closed.
    macro_rules! ask {
        ($connection:expr, $request:expr) => {
            async {
                let (mut send, mut recv) = $connection.open_bi().await.ok()?;
                send.write_all($request).await.ok()?;
                send.finish().ok()?;
                Some(recv.read_to_end(1 << 16).await.ok()?.len())
            }
        };
    }
    let (deaf, _unread) = connect().await;
    // The bytes open iteration 0 of job 5000, as request 1. The process then attaches client 3001
    // repeatedly.
    ask!(deaf, b"\x01\x83\x01\x01\x82\x03\x82\x19\x13\x88\x00")
        .await
        .unwrap();
    let attach = b"\x01\x83\xf6\x01\x82\x04\x81\x19\x0b\xb9";
    let flood = async { while ask!(deaf, attach).await.is_some() {} };
    within("being disconnected", flood).await;
    let reason = within("the reason", deaf.closed()).await.to_string();
    assert!(reason.contains("pushes were not taken"), "{reason}");
    let (back, (_send, mut recv)) = connect().await;
    ask!(back, attach).await.unwrap();
    let mut told = vec![0; 512];
    within("the snapshot", recv.read_exact(&mut told)).await.unwrap();
}

/// A store whose commits wait until the other end of `hanging` is dropped.
struct HangingStore {
    hanging: Receiver<()>,
    hangs: Arc<Mutex<bool>>,
}

impl Store for HangingStore {
    fn is_volatile(&self) -> bool {
        false
    }

    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        Ok(Vec::new())
    }

    fn commit(&mut self, _changes: &[Change]) -> Result<(), StoreError> {
        let hangs = *self.hangs.lock().unwrap();
        if hangs {
            self.hanging.recv().ok();
        }
        Ok(())
    }
}

/// A store whose commit panics, and so ends the event loop.
struct DyingStore(Arc<Mutex<bool>>);

impl Store for DyingStore {
    fn is_volatile(&self) -> bool {
        let dies = *self.0.lock().unwrap();
        assert!(!dies, "the test asked for a panic");
        true
    }

    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        Ok(Vec::new())
    }

    fn commit(&mut self, _changes: &[Change]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A planner whose listing of `hang` waits until the other end of the channel is dropped.
struct HangingPlanner(Mutex<Receiver<()>>);

impl Planner for HangingPlanner {
    fn facts(&self, _definition: &[u8]) -> Result<DatasetFacts, PlanError> {
        WordPlanner.facts(b"1")
    }

    fn plan_splits(&self, definition: &[u8], repetition: u64) -> Result<SplitPlan, PlanError> {
        if definition == b"hang" {
            self.0.lock().unwrap().recv().ok();
        }
        WordPlanner.plan_splits(b"1", repetition)
    }
}

/// A planner whose listing has 130 MiB.
struct HugePlanner;

impl Planner for HugePlanner {
    fn facts(&self, _definition: &[u8]) -> Result<DatasetFacts, PlanError> {
        WordPlanner.facts(b"1")
    }

    fn plan_splits(&self, _definition: &[u8], _repetition: u64) -> Result<SplitPlan, PlanError> {
        Ok(SplitPlan {
            sources: vec![SourcePlan::listed((0..130).map(|_| vec![0; 1 << 20]))],
            seed: 0,
        })
    }
}
