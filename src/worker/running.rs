//! A running worker: starts, follows the dispatcher, stops.
//!
//! Owns the lane of its sockets, the pool of its computations and a thread for each task, and joins them all.

use std::net::SocketAddr;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use millstream_control::agent::{Agent, AgentConfig, AgentEvent, AgentEvents};
use millstream_control::{Error, Policy, TaskDef, TaskId};
use millstream_dataplane::transport::quic::CLIENT_LIMITS;
use millstream_dataplane::worker::Server;
use millstream_element::SlotAlloc;
use millstream_link::{
    Credentials, Endpoint, EndpointConfig, HostPort, Lane, LaneError, LoadedKey, Role, TicketKey,
};
use millstream_pipeline::exec::{Cancel, Functions, Pool};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use super::config::WorkerConfig;
use super::feed::TaskFeed;
use super::reports::Reports;
use super::task::{Outcome, TaskRun, run};
use super::tasks::Tasks;
use super::threads::Threads;
use crate::connect::alpn;
use crate::local::LocalEntry;
use crate::serve::serve;

/// How long the end of the tasks, and then of the lane, is waited for; a user's function may be stuck for ever.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Ends of tasks that wait until the worker looks.
const ENDS_MAX: usize = 1024;

/// Why a worker cannot start, or could not go on.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The caller gave an address that is none.
    #[error("dispatcher address: {0}")]
    Address(String),
    /// The address cannot be had, or the key does not allow it.
    #[error("{0}")]
    Bind(String),
    /// The dispatcher cannot be reached, or refuses this worker.
    #[error(transparent)]
    Dispatcher(#[from] Error),
    /// The system gives no thread.
    #[error("{0}")]
    Resource(String),
    /// A part of it panicked: a bug.
    #[error(transparent)]
    Lane(#[from] LaneError),
}

/// A worker that serves. Dropping it ends it without farewell; [`Worker::stop`] says goodbye. Either waits for its tasks,
/// and after two seconds leaves behind what is stuck in a user's function.
#[derive(Debug)]
pub struct Worker {
    address: String,
    local_addr: SocketAddr,
    server: Server,
    local: Option<LocalEntry>,
    threads: Threads,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<millstream_link::LaneTask<Result<(), WorkerError>>>,
    lane: Option<Lane>,
}

/// What follows the dispatcher.
struct Follower {
    agent: Rc<Agent>,
    events: AgentEvents,
    server: Server,
    alloc: Arc<dyn SlotAlloc>,
    functions: Arc<Functions>,
    pool: Arc<Pool>,
    tasks: Tasks,
    threads: Threads,
    reports: Reports,
    ends: mpsc::Sender<(TaskId, Outcome)>,
}

impl Worker {
    /// Binds, registers and serves. Blocks until the dispatcher has accepted the worker.
    ///
    /// # Errors
    /// [`WorkerError`] names what is wrong and where.
    pub fn start(key: &LoadedKey, config: WorkerConfig) -> Result<Self, WorkerError> {
        let credentials = key
            .credentials(Role::Worker)
            .map_err(|error| WorkerError::Bind(error.to_string()))?;
        let dispatcher = HostPort::from_str(&config.dispatcher)
            .map_err(|error| WorkerError::Address(error.to_string()))?;
        let ticket_key = TicketKey::generate().map_err(|error| WorkerError::Resource(error.to_string()))?;
        let alloc: Arc<dyn SlotAlloc> = Arc::new(millstream_element::Pool::new(config.pool_bytes));
        let server = Server::new(config.server.clone(), ticket_key.clone(), &alloc)
            .map_err(|error| WorkerError::Resource(error.to_string()))?;
        let lane = Lane::start("worker")?;
        let endpoint_config = EndpointConfig {
            bind: config.bind,
            of_accepted: CLIENT_LIMITS,
            ..config.endpoint
        };
        let endpoint = bind(&lane, credentials, endpoint_config, server.clone(), alloc.clone())?;
        let local_addr = endpoint.local_addr();
        let address = config.advertise.clone().unwrap_or_else(|| local_addr.to_string());
        // Taken back on every way out: a worker that did not start serves nobody.
        let local = config.local.add(&address, server.clone());
        let mut agent_config = AgentConfig::new(&address, ticket_key);
        agent_config.registration.tags = config.tags;
        agent_config.session = config.session;
        agent_config.lease = config.lease;
        let threads = config
            .threads
            .or_else(|| std::thread::available_parallelism().ok().map(usize::from));
        let pool =
            Pool::new(threads.unwrap_or(1)).map_err(|error| WorkerError::Resource(error.to_string()))?;
        let (functions, follow_server) = (config.functions, server.clone());
        let (stop, stopped) = oneshot::channel();
        let registered = lane
            .spawn(async move { Agent::start(endpoint, dispatcher, agent_config).await })
            .wait()?;
        let (agent, events) = registered?;
        let threads = Threads::new();
        let task_threads = threads.clone();
        let ended = lane.spawn_local_with(move || async move {
            let (ends, ended) = mpsc::channel(ENDS_MAX);
            let (agent, server) = (Rc::new(agent), follow_server);
            Follower {
                reports: Reports::new(agent.clone(), server.clone()),
                agent,
                events,
                tasks: Tasks::new(server.clone()),
                server,
                alloc,
                functions,
                pool: Arc::new(pool),
                threads: task_threads,
                ends,
            }
            .follow(ended, stopped)
            .await
        });
        Ok(Self {
            address,
            local_addr,
            server,
            local: Some(local),
            threads,
            stop: Some(stop),
            ended: Some(ended),
            lane: Some(lane),
        })
    }

    /// The address that readers are told.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Its data plane.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Whether it has ended by itself: the dispatcher refused it.
    pub fn has_ended(&self) -> bool {
        self.stop.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Says goodbye to the dispatcher and ends, within seconds.
    ///
    /// # Errors
    /// What had ended it before.
    pub fn stop(mut self) -> Result<(), WorkerError> {
        self.local = None;
        if let Some(stop) = self.stop.take() {
            // Ended already when nobody listens.
            let _ = stop.send(());
        }
        let outcome = self
            .ended
            .take()
            .map_or(Ok(Ok(())), millstream_link::LaneTask::wait);
        self.threads.join(STOP_GRACE);
        if let Some(lane) = self.lane.take() {
            lane.shutdown(STOP_GRACE)?;
        }
        outcome?
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.local = None;
        // Its end stops the tasks.
        if let Some(lane) = self.lane.take() {
            drop(lane);
            self.threads.join(STOP_GRACE);
        }
    }
}

/// Binds, and serves on the lane from then on.
fn bind(
    lane: &Lane,
    credentials: Credentials,
    config: EndpointConfig,
    server: Server,
    alloc: Arc<dyn SlotAlloc>,
) -> Result<Endpoint, WorkerError> {
    let binding = lane.spawn(async move {
        let accepted = [Role::Read, Role::Submit];
        let endpoint = Endpoint::bind_server(credentials, &[alpn()], &accepted, config)
            .map_err(|error| WorkerError::Bind(error.to_string()))?;
        tokio::task::spawn_local(serve(endpoint.clone(), server, alloc));
        Ok(endpoint)
    });
    binding.wait()?
}

impl Follower {
    async fn follow(
        mut self,
        mut ended: mpsc::Receiver<(TaskId, Outcome)>,
        mut stopped: oneshot::Receiver<()>,
    ) -> Result<(), WorkerError> {
        let outcome = loop {
            tokio::select! {
                event = self.events.next() => match event {
                    Some(AgentEvent::StartTask(definition)) => self.start(definition),
                    Some(AgentEvent::StopTask { task, reason }) => {
                        tracing::info!(%task, %reason, "task stopped");
                        self.reports.abandon(task);
                        self.tasks.stop(task);
                    }
                    Some(AgentEvent::LeaseLapsed) => {
                        self.start_over("the dispatcher gave this worker's tasks away; it registers anew");
                    }
                    Some(AgentEvent::DispatcherRestarted) => self.start_over(
                        "the dispatcher restarted without its memory, so this worker's tasks are gone; it registers anew \
                         (a dispatcher that is given a work directory, --work-dir, remembers)",
                    ),
                    Some(AgentEvent::Failed(error)) => break Err(error.into()),
                    None => break Ok(()),
                },
                Some((task, outcome)) = ended.recv() => self.reports.begin(task, outcome),
                () = self.reports.reap() => {}
                _ = &mut stopped => break Ok(()),
            }
        };
        self.tasks.stop_all();
        self.reports.stop().await;
        let Some(agent) = Rc::into_inner(self.agent) else {
            return outcome;
        };
        if let Err(error) = agent.leave().await {
            tracing::debug!(%error, "the dispatcher was not told; it will notice the silence");
        }
        outcome
    }

    fn start_over(&mut self, why: &'static str) {
        tracing::warn!("{why}");
        self.reports.abandon_all();
        self.tasks.stop_all();
    }

    fn start(&mut self, definition: TaskDef) {
        let task = definition.task;
        if let Err(message) = self.try_start(definition) {
            tracing::warn!(%task, %message, "task cannot start");
            self.reports.begin(task, Outcome::Failed(message));
        }
    }

    fn try_start(&mut self, definition: TaskDef) -> Result<(), String> {
        let task = definition.task;
        let feed = match definition.policy {
            Policy::Dynamic => Some(TaskFeed(
                self.agent.splits(task).map_err(|error| error.to_string())?,
            )),
            Policy::Off | Policy::File | Policy::Data | Policy::FileOrData | Policy::Hint => None,
        };
        let cancel = Cancel::new();
        let run_with = TaskRun {
            definition,
            server: self.server.clone(),
            alloc: self.alloc.clone(),
            functions: self.functions.clone(),
            pool: self.pool.clone(),
            feed,
            cancel: cancel.clone(),
        };
        let ends = self.ends.clone();
        self.threads.start(&format!("task-{task}"), move || {
            let outcome = run(run_with);
            // Nobody listens any more when the worker stops.
            let _ = ends.blocking_send((task, outcome));
        })?;
        self.tasks.add(task, cancel);
        Ok(())
    }
}
