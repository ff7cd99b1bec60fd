//! Tests of the event loop alone, with inputs that arrive together, and of a connection alone, without an
//! event loop.

use std::sync::Arc;
use std::time::Duration;

use millstream_link::{ClusterKey, Endpoint, EndpointConfig, Role};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::connection::{self, Shared};
use super::event_loop::{EventLoop, INPUTS_MAX, Input};
use super::owners::Owners;
use super::refusals::RefusalCounts;
use crate::dispatcher::{Change, Dispatcher, DispatcherConfig, Moment, Record, Request};
use crate::id::{BootId, RequestNumber, SessionId};
use crate::planner::{Cardinality, DatasetFacts, PlanError, Planner, SplitPlan};
use crate::rpc::ALPN;
use crate::store::{Store, StoreError};

const REQUESTS: u64 = 100;

/// Tests that requests which arrive together wait for the disk only once (C1.6).
#[tokio::test]
async fn what_arrives_together_is_stored_together() {
    let credentials = ClusterKey::generate().unwrap().credentials(Role::Dispatcher);
    let endpoint = Endpoint::bind_server(credentials, &[ALPN], &[Role::Submit], EndpointConfig::default());
    let machine = Dispatcher::new(DispatcherConfig::default(), BootId(1), Moment::ZERO);
    let commits = Arc::new(Mutex::new(Vec::new()));
    let store = Box::new(CountingStore(Arc::clone(&commits)));
    let (stop, stopped) = watch::channel(false);
    let event_loop = EventLoop::new(machine, store, Arc::new(NoPlanner), endpoint.unwrap(), stopped);
    let (inputs, events) = mpsc::channel(INPUTS_MAX);
    let mut answers = Vec::new();
    for number in 1..=REQUESTS {
        let (input, answer) = register(number);
        inputs.try_send(input).unwrap_or_else(|_| panic!("there is room"));
        answers.push(answer);
    }
    let running = tokio::spawn(event_loop.run(events));
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    // The first commit stores the boot id.
    let datasets: Vec<u64> = commits.lock().clone();
    assert_eq!(datasets, [0, REQUESTS]);
    stop.send_replace(true);
    running.await.unwrap().unwrap();
}

/// Tests that a heartbeat is read only after the previous heartbeat was answered (C1.11).
#[tokio::test]
async fn a_heartbeat_waits_for_the_previous_answer() {
    let key = ClusterKey::generate().unwrap();
    let server = key.credentials(Role::Dispatcher);
    let server = Endpoint::bind_server(server, &[ALPN], &[Role::Read], EndpointConfig::default()).unwrap();
    let mut acceptor = server.acceptor().unwrap();
    let (inputs, mut heard) = mpsc::channel(INPUTS_MAX);
    let shared = Arc::new(Shared {
        inputs,
        planner: Arc::new(NoPlanner),
        analyses: Semaphore::new(1),
        config: DispatcherConfig::default(),
        boot: BootId(1),
        pushes_max: 16,
        owners: Mutex::new(Owners::new(Duration::from_secs(300), 16)),
        audit: None,
        refusals: RefusalCounts::new(acceptor.counter()),
        deposed: watch::channel(false).1,
    });
    let serving = tokio::spawn(async move {
        let accepted = acceptor.accept().await.unwrap();
        connection::serve(accepted, shared).await;
    });
    let process = Endpoint::client(key.credentials(Role::Read), EndpointConfig::default()).unwrap();
    let deadline = Duration::from_secs(10);
    let connecting = process.connect(server.local_addr(), Role::Dispatcher, ALPN, deadline);
    let connection = connecting.await.unwrap();
    let (mut send, _recv) = connection.open_bi().await.unwrap();
    // A hello and three heartbeats arrive together.
    let beats = b"\x03\0\0\0\x82\x01\x80".repeat(3);
    send.write_all(&[&b"\x03\0\0\0\x82\x02\x05"[..], &beats].concat())
        .await
        .unwrap();
    let Some(Input::Connected { admitted, .. }) = heard.recv().await else {
        panic!("a hello comes first")
    };
    admitted.send(()).unwrap();
    for _ in 0..3 {
        let Some(Input::Heartbeat { taken, .. }) = heard.recv().await else {
            panic!("a heartbeat is next")
        };
        // The other heartbeats have arrived as well, and only the missing answer delays them.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(heard.try_recv().is_err(), "one at a time");
        taken.send(()).unwrap();
    }
    connection.close(0_u8.into(), b"");
    serving.await.unwrap();
}

fn register(
    number: u64,
) -> (
    Input,
    oneshot::Receiver<Result<crate::dispatcher::Reply, crate::error::Error>>,
) {
    let (reply, answer) = oneshot::channel();
    let facts = DatasetFacts {
        spec: Vec::new(),
        cardinality: Cardinality::Unknown,
        splittable: Ok(()),
        aligned: Ok(()),
        not_by_files: None,
        has_shard_hint: false,
        compression: None,
    };
    let input = Input::Asked {
        session: SessionId(1),
        role: Role::Submit,
        number: Some(RequestNumber(number)),
        settled_below: RequestNumber(1),
        request: Request::RegisterDataset {
            id: None,
            definition: Vec::new(),
            facts,
        },
        reply,
    };
    (input, answer)
}

/// A store that counts the datasets of each commit.
struct CountingStore(Arc<Mutex<Vec<u64>>>);

impl Store for CountingStore {
    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        Ok(Vec::new())
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let is_dataset = |change: &&Change| matches!(change, Change::Put(Record::Dataset(_)));
        let datasets = changes.iter().filter(is_dataset).count() as u64;
        self.0.lock().push(datasets);
        Ok(())
    }

    fn is_volatile(&self) -> bool {
        false
    }
}

struct NoPlanner;

impl Planner for NoPlanner {
    fn facts(&self, _definition: &[u8]) -> Result<DatasetFacts, PlanError> {
        Err(PlanError::Definition("nothing is planned here".to_owned()))
    }

    fn plan_splits(&self, _definition: &[u8], _repetition: u64) -> Result<SplitPlan, PlanError> {
        Err(PlanError::Definition("nothing is planned here".to_owned()))
    }
}
