//! A dispatcher, workers and readers in one process, with short limits and a watchdog.

pub(crate) mod honest;
pub(crate) mod log;
pub(crate) mod raw;

use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use millstream_control::agent::{Agent, AgentConfig, AgentEvent, AgentEvents, SplitFeed};
use millstream_control::rpc::{Client, IterationHandle, Server, ServerConfig, SessionConfig};
use millstream_control::{
    Candidate, Cardinality, Change, ClientPush, DatasetFacts, DispatcherConfig, Error, JobId, JobParameters,
    LeaseRange, MemoryStore, PlanError, Planner, Policy, Record, SourcePlan, Split, SplitPlan, Store,
    StoreError, TaskDef, TaskId, TaskInfo,
};
use millstream_link::{
    ClusterKey, Credentials, Endpoint, EndpointConfig, HostPort, HostPorts, Role, TicketKey,
};

/// The deadline of a test, ten times the duration of the longest test.
const WATCHDOG: Duration = Duration::from_secs(60);

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WATCHDOG, future)
        .await
        .unwrap_or_else(|_| panic!("watchdog: {what} never happened"))
}

/// A planner for definitions of the form `splits` or `files a b c`.
pub(crate) struct WordPlanner;

impl Planner for WordPlanner {
    fn facts(&self, definition: &[u8]) -> Result<DatasetFacts, PlanError> {
        self.plan_splits(definition, 0)?;
        Ok(DatasetFacts {
            spec: b"spec".to_vec(),
            cardinality: Cardinality::Unknown,
            splittable: Ok(()),
            aligned: Ok(()),
            not_by_files: None,
            has_shard_hint: false,
            compression: None,
        })
    }

    fn plan_splits(&self, definition: &[u8], _repetition: u64) -> Result<SplitPlan, PlanError> {
        let text =
            std::str::from_utf8(definition).map_err(|error| PlanError::Definition(error.to_string()))?;
        let source = match text.strip_prefix("files ") {
            Some(files) => SourcePlan::listed(files.split(' ').map(|file| file.as_bytes().to_vec())),
            None => SourcePlan::Counted {
                splits: text
                    .parse()
                    .map_err(|_| PlanError::Definition(format!("`{text}` is no number")))?,
            },
        };
        Ok(SplitPlan {
            sources: vec![source],
            seed: 0,
        })
    }
}

/// A store whose commits fail with this error while its flag is set.
pub(crate) struct FailingStore {
    pub(crate) fails: Arc<std::sync::Mutex<bool>>,
    pub(crate) error: fn() -> StoreError,
}

impl FailingStore {
    /// Returns a store that reports a lack of space.
    pub(crate) fn full(fails: &Arc<std::sync::Mutex<bool>>) -> FailingStore {
        FailingStore {
            fails: Arc::clone(fails),
            error: || StoreError::Full("no room".to_owned()),
        }
    }
}

impl Store for FailingStore {
    fn is_volatile(&self) -> bool {
        false
    }

    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        MemoryStore::new().load()
    }

    fn commit(&mut self, _changes: &[Change]) -> Result<(), StoreError> {
        if *self.fails.lock().unwrap() {
            return Err((self.error)());
        }
        Ok(())
    }
}

/// A store that outlives its dispatcher.
#[derive(Clone)]
pub(crate) struct SharedStore(Arc<std::sync::Mutex<MemoryStore>>);

impl SharedStore {
    pub(crate) fn new() -> SharedStore {
        SharedStore(Arc::new(std::sync::Mutex::new(MemoryStore::keeping())))
    }
}

impl Store for SharedStore {
    fn is_volatile(&self) -> bool {
        false
    }

    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        self.0.lock().unwrap().load()
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.0.lock().unwrap().commit(changes)
    }
}

pub(crate) struct Cluster {
    pub(crate) key: ClusterKey,
    planner: Arc<dyn Planner>,
}

impl Cluster {
    pub(crate) fn new() -> Cluster {
        Cluster::planned(WordPlanner)
    }

    pub(crate) fn planned(planner: impl Planner + 'static) -> Cluster {
        Cluster {
            key: ClusterKey::generate().unwrap(),
            planner: Arc::new(planner),
        }
    }

    pub(crate) fn credentials(&self, role: Role) -> Credentials {
        self.key.role_key(role).credentials()
    }

    /// Starts a dispatcher with short limits.
    pub(crate) fn dispatcher(&self, bind: Option<SocketAddr>, store: Box<dyn Store>) -> Server {
        self.start(bind, store, |_| {})
    }

    /// Starts a dispatcher with short limits and further settings.
    pub(crate) fn configured(&self, configure: impl FnOnce(&mut ServerConfig)) -> Server {
        self.start(None, Box::new(MemoryStore::new()), configure)
    }

    pub(crate) fn start(
        &self,
        bind: Option<SocketAddr>,
        store: Box<dyn Store>,
        configure: impl FnOnce(&mut ServerConfig),
    ) -> Server {
        let mut config = prompt(bind);
        configure(&mut config);
        Server::start(
            self.credentials(Role::Dispatcher),
            config,
            Arc::clone(&self.planner),
            store,
        )
        .unwrap()
    }

    /// Starts one of several dispatchers.
    pub(crate) fn candidate(&self, candidate: Box<dyn Candidate>) -> Server {
        let credentials = self.credentials(Role::Dispatcher);
        let planner = Arc::clone(&self.planner);
        Server::start_candidate(credentials, prompt(None), planner, candidate, None).unwrap()
    }

    pub(crate) fn server(&self) -> Server {
        self.dispatcher(None, Box::new(MemoryStore::new()))
    }

    pub(crate) fn endpoint(&self, role: Role) -> Endpoint {
        Endpoint::client(self.credentials(role), EndpointConfig::default()).unwrap()
    }

    pub(crate) async fn connect(&self, role: Role, address: SocketAddr) -> Result<Client, Error> {
        self.connect_with(role, address, |_| {}).await
    }

    pub(crate) async fn connect_with(
        &self,
        role: Role,
        address: SocketAddr,
        configure: impl FnOnce(&mut SessionConfig),
    ) -> Result<Client, Error> {
        let mut config = session();
        configure(&mut config);
        let connecting = Client::connect(self.endpoint(role), HostPort::from(address), config);
        within("connecting", connecting).await
    }

    /// Starts a worker of a service with several dispatchers.
    pub(crate) async fn worker_of(&self, name: &str, dispatchers: HostPorts) -> Worker {
        self.configured_worker(name, dispatchers, |_| {}).await
    }

    /// Starts a worker whose tasks the test runs.
    pub(crate) async fn worker(&self, name: &str, address: SocketAddr) -> Worker {
        self.configured_worker(name, address, |_| {}).await
    }

    pub(crate) async fn configured_worker(
        &self,
        name: &str,
        dispatcher: impl Into<HostPorts>,
        configure: impl FnOnce(&mut AgentConfig),
    ) -> Worker {
        let endpoint = self.endpoint(Role::Worker);
        let key = TicketKey::generate().unwrap();
        let mut config = AgentConfig {
            session: session(),
            lease: Duration::from_millis(1500),
            ..AgentConfig::new(name, key.clone())
        };
        configure(&mut config);
        let started = Agent::start(endpoint.clone(), dispatcher, config);
        let (agent, events) = within("registering", started).await.unwrap();
        Worker {
            agent,
            events,
            key,
            endpoint,
        }
    }
}

/// Returns the settings of a dispatcher with short limits.
fn prompt(bind: Option<SocketAddr>) -> ServerConfig {
    ServerConfig {
        endpoint: EndpointConfig {
            bind,
            ..EndpointConfig::default()
        },
        dispatcher: DispatcherConfig {
            heartbeat_interval: Duration::from_millis(50),
            liveness: Duration::from_millis(600),
            sweep_interval: Duration::from_millis(20),
            workers_lost_grace: Duration::from_millis(100),
            ..DispatcherConfig::default()
        },
        ..ServerConfig::default()
    }
}

pub(crate) fn session() -> SessionConfig {
    SessionConfig {
        connect_deadline: Duration::from_secs(20),
        attempt_deadline: Duration::from_millis(500),
        backoff_max: Duration::from_millis(100),
        request_deadline: Duration::from_secs(20),
        ..SessionConfig::default()
    }
}

pub(crate) struct Worker {
    pub(crate) agent: Agent,
    pub(crate) events: AgentEvents,
    pub(crate) key: TicketKey,
    endpoint: Endpoint,
}

impl Worker {
    pub(crate) async fn event(&mut self) -> AgentEvent {
        within("an event at the worker", self.events.next())
            .await
            .unwrap()
    }

    pub(crate) async fn started(&mut self) -> TaskDef {
        let event = self.event().await;
        let AgentEvent::StartTask(def) = event else {
            panic!("expected a task, not {event:?}")
        };
        def
    }

    /// Reads the source to its end, like the thread of a producer.
    pub(crate) async fn read_all(&self, task: TaskId) -> Vec<Split> {
        let feed = self.agent.splits(task).unwrap();
        let read = tokio::task::spawn_blocking(move || take(feed, usize::MAX).1);
        within("reading splits", read).await.unwrap()
    }

    /// Starts `count` splits, and holds the rest.
    pub(crate) async fn read_some(&self, task: TaskId, count: usize) -> (SplitFeed, Vec<Split>) {
        let feed = self.agent.splits(task).unwrap();
        let read = tokio::task::spawn_blocking(move || take(feed, count));
        within("reading splits", read).await.unwrap()
    }

    /// Reads the rest of a task of `count` splits and confirms all splits, after which the task and its
    /// iteration end without loss.
    pub(crate) async fn read_to_the_end(
        &self,
        iteration: &mut IterationHandle,
        task: TaskId,
        (feed, mut splits): (SplitFeed, Vec<Split>),
        count: u64,
    ) {
        let rest = tokio::task::spawn_blocking(move || take(feed, usize::MAX).1);
        splits.extend(within("the rest", rest).await.unwrap());
        let indices: Vec<u64> = splits.iter().map(|split| split.index).collect();
        assert_eq!(indices, (0..count).collect::<Vec<_>>());
        let leases = LeaseRange::collect(splits.iter().map(|split| split.lease));
        iteration.splits_done(task, &leases).await.unwrap();
        self.agent.finish_task(task, true).await.unwrap();
        assert_eq!(told(iteration).await, ClientPush::TaskEnded { task });
        let finished = ClientPush::IterationFinished { splits_lost: 0 };
        assert_eq!(told(iteration).await, finished);
    }

    /// Kills the process without a goodbye message.
    pub(crate) fn die(self) {
        self.endpoint.close("");
        drop(self.agent);
    }
}

fn take(mut feed: SplitFeed, count: usize) -> (SplitFeed, Vec<Split>) {
    let mut splits = Vec::new();
    while splits.len() < count
        && let Some(split) = feed.next(0, 0).unwrap()
    {
        splits.push(split);
    }
    (feed, splits)
}

/// Registers a dataset, creates a job, and opens an iteration.
pub(crate) async fn open(client: &Client, definition: &str, policy: Policy) -> IterationHandle {
    open_job(client, definition, policy).await.1
}

pub(crate) async fn open_job(client: &Client, definition: &str, policy: Policy) -> (JobId, IterationHandle) {
    let dataset = client
        .register_dataset(None, definition.as_bytes().to_vec())
        .await
        .unwrap();
    let job = client
        .find_or_create_job(None, &JobParameters::new(dataset, policy))
        .await
        .unwrap();
    (
        job,
        within("opening", client.open_iteration(job, 0, None))
            .await
            .unwrap(),
    )
}

pub(crate) async fn told(iteration: &mut IterationHandle) -> ClientPush {
    within("a push", iteration.next_push()).await.unwrap()
}

pub(crate) async fn task_added(iteration: &mut IterationHandle) -> TaskInfo {
    let push = told(iteration).await;
    let ClientPush::TaskAdded(task) = push else {
        panic!("expected a task, not {push:?}")
    };
    task
}

/// Stops a dispatcher, and waits until its port is free.
pub(crate) async fn stop(server: Server) {
    let address = server.local_addr();
    within("the shutdown", server.shutdown()).await.unwrap();
    let freed = async {
        while UdpSocket::bind(address).is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within("the port's release", freed).await;
}
