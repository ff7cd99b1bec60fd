//! A running worker: starts, follows the dispatcher, and stops.
//!
//! The worker owns a lane for readers, a lane for the dispatcher, a pool for computations and a thread for
//! each task. The worker's end joins all threads.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use millstream_control::agent::{Agent, AgentConfig, AgentEvent, AgentEvents};
use millstream_control::{FailureReport, Policy, TaskDef, TaskId};
use millstream_dataplane::worker::{Server, ServerConfig};
use millstream_element::SlotAlloc;
use millstream_link::{Credentials, Endpoint, HostPorts, LoadedKey, Role, TicketKey};
use millstream_pipeline::exec::{Cancel, Functions, Pool, SharedBudget};
use millstream_pipeline::storage::Storage;
use millstream_trace::Tracer;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::config::WorkerConfig;
use super::drain::{Drain, Step};
use super::feed::TaskFeed;
use super::lanes::{Lanes, bind, to_dispatcher};
use super::load::load;
use super::observer::WorkerObserver;
use super::pace::{TaskMeter, link_counts};
use super::reports::Reports;
use super::stopper::{Wish, Wishes, WorkerStopper};
use super::task::{Outcome, TaskRun, run};
use super::tasks::Tasks;
use super::threads::Threads;
use super::traced::TracedSplits;
use crate::local::LocalEntry;
use crate::serve_shared;
use crate::worker::error::WorkerError;

/// The time for which the worker waits for the end of its tasks, and then of its lanes. A user's function may
/// be stuck for ever.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The time between two reports of the tasks' pace: two heartbeats at their default interval.
const PACE_EVERY: Duration = Duration::from_secs(1);
/// The time between two checks whether all readers have disconnected after a shutdown of the service.
const QUIET_LOOK: Duration = Duration::from_millis(20);

/// The capacity of the channel for outcomes of tasks.
const ENDS_MAX: usize = 1024;

/// A running worker. Dropping the value ends the worker without a goodbye message; [`Worker::stop`] sends a
/// goodbye message, and [`Worker::drain`] also loses no elements. Each of these waits for the worker's tasks,
/// for two seconds at most. After two seconds, a thread that is stuck in a user's function is abandoned.
#[derive(Debug)]
pub struct Worker {
    address: String,
    local_addr: SocketAddr,
    server: Server,
    local: Option<LocalEntry>,
    threads: Threads,
    stopper: WorkerStopper,
    /// The channel that disconnects when the worker has ended.
    alive: mpsc::Sender<Infallible>,
    ended: Option<millstream_link::LaneTask<Result<(), WorkerError>>>,
    lanes: Option<Lanes>,
}

/// The part of the worker that follows the dispatcher.
struct Follower {
    agent: Rc<Agent>,
    events: AgentEvents,
    server: Server,
    alloc: Arc<dyn SlotAlloc>,
    functions: Arc<Functions>,
    storage: Storage,
    pool: Arc<Pool>,
    budget: SharedBudget,
    tracer: Tracer,
    tasks: Tasks,
    threads: Threads,
    reports: Reports,
    ends: mpsc::Sender<(TaskId, Outcome)>,
    /// The number of task threads that have not reported the outcome of their task.
    at_work: usize,
    drain: Drain,
    leaving: Leaving,
}

/// The settings and the state of the worker's end.
struct Leaving {
    drain_deadline: Duration,
    quiet_period: Duration,
    /// `true` once the service was shut down.
    is_over: bool,
}

impl Worker {
    /// Binds, registers and serves. Blocks until the dispatcher has accepted the worker.
    ///
    /// # Errors
    /// [`WorkerError`] names the fault and its place.
    pub fn start(key: &LoadedKey, config: WorkerConfig) -> Result<Self, WorkerError> {
        Self::start_stoppable(key, config, WorkerStopper::new())
    }

    /// Starts a worker. `stopper` can end the worker even while it waits for its dispatcher.
    ///
    /// # Errors
    /// The errors of [`Worker::start`], and [`WorkerError::GivenUp`].
    pub fn start_stoppable(
        key: &LoadedKey,
        config: WorkerConfig,
        stopper: WorkerStopper,
    ) -> Result<Self, WorkerError> {
        let (leaving, budget) = (Leaving::of(&config), SharedBudget::new(config.buffers_bytes()));
        let (credentials, dispatcher) = (identity(key)?, dispatcher(&config)?);
        let ticket_key = TicketKey::generate().map_err(|error| WorkerError::Resource(error.to_string()))?;
        let memory = millstream_element::Pool::new(config.pool_bytes);
        let server = serving(&config, &ticket_key, &memory)?;
        let alloc: Arc<dyn SlotAlloc> = Arc::new(memory);
        let lanes = Lanes::start()?;
        let settings = (config.bind, config.endpoint.clone());
        let local_addr = bind(&lanes.data, credentials.clone(), settings, server.clone())?.local_addr();
        let endpoint = to_dispatcher(&lanes.control, credentials, local_addr, config.endpoint)?;
        let local_socket =
            serve_shared::listen(&lanes.data, config.shm_dir, config.shm_bytes, server.clone())?;
        let address = lanes.advertise(config.advertise, local_addr, &dispatcher)?;
        // An early return drops the entry, so that readers cannot find a worker that did not start.
        let local = config.local.add(&address, server.clone());
        let mut agent_config = AgentConfig::new(&address, ticket_key);
        let registration = &mut agent_config.registration;
        (registration.tags, registration.whereabouts) = (config.tags, config.local.whereabouts());
        registration.local_socket = local_socket;
        (agent_config.session, agent_config.lease) = (config.session, config.lease);
        agent_config.tracer = config.tracer.clone();
        let pool = pool(config.threads)?;
        let (functions, storage, tracer) = (config.functions, config.storage, config.tracer);
        let follow_server = server.clone();
        let registering = register(endpoint, dispatcher, agent_config, stopper.wishes());
        let (agent, events, wishes) = lanes.control.spawn(registering).wait()??;
        let ((alive, is_alive), threads) = (mpsc::channel(1), Threads::new());
        let task_threads = threads.clone();
        let ended = lanes.control.spawn_local_with(move || async move {
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
                storage,
                pool: Arc::new(pool),
                budget,
                tracer,
                threads: task_threads,
                ends,
                at_work: 0,
                drain: Drain::default(),
                leaving,
            }
            .follow(ended, wishes, is_alive)
            .await
        });
        Ok(Self {
            address,
            local_addr,
            server,
            local: Some(local),
            threads,
            stopper,
            alive,
            ended: Some(ended),
            lanes: Some(lanes),
        })
    }

    /// Returns the address that readers receive.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the address of the worker's socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns the server of the data plane.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns a handle that observes the worker from this process.
    pub fn observer(&self) -> WorkerObserver {
        WorkerObserver {
            address: self.address.clone(),
            server: self.server.clone(),
            stopper: self.stopper.clone(),
            alive: self.alive.clone(),
        }
    }

    /// Returns a handle that ends the worker from another thread.
    pub fn stopper(&self) -> WorkerStopper {
        self.stopper.clone()
    }

    /// Returns whether the worker has ended, after a stop or because the dispatcher refused it.
    /// [`Worker::join`] ends the remaining threads.
    pub fn has_ended(&self) -> bool {
        self.alive.is_closed()
    }

    /// Says goodbye to the dispatcher, and ends the worker within seconds. Other workers read the splits that
    /// this worker had begun; splits that were partly delivered are reported as lost.
    ///
    /// # Errors
    /// The error that ended the worker before.
    pub fn stop(self) -> Result<(), WorkerError> {
        self.stopper.stop();
        self.join()
    }

    /// Shuts down gracefully: accepts no more tasks and splits, gives back the splits not started, and
    /// delivers the begun elements under the readers' credits. After the delivery, the worker says goodbye
    /// and ends.
    ///
    /// Under `dynamic` no split is lost and none is read twice. Under the other policies no worker can
    /// continue in the middle of a share, so the tasks end at once. The next worker with the same number
    /// starts the share from the beginning.
    ///
    /// Drops the elements that readers have not taken at [`WorkerConfig::drain_deadline`]. Drops all elements
    /// at once if the dispatcher is unreachable or [`WorkerStopper::stop`] is called.
    ///
    /// # Errors
    /// The error that ended the worker before.
    pub fn drain(self) -> Result<(), WorkerError> {
        self.stopper.drain();
        self.join()
    }

    /// Waits until the worker has ended: after a request by its [`WorkerStopper`], or because the dispatcher
    /// refused it.
    ///
    /// # Errors
    /// The error that ended the worker, unless a request ended it.
    pub fn join(mut self) -> Result<(), WorkerError> {
        let outcome = self
            .ended
            .take()
            .map_or(Ok(Ok(())), millstream_link::LaneTask::wait);
        self.local = None;
        self.threads.join(STOP_GRACE);
        if let Some(Lanes { control, data }) = self.lanes.take() {
            let control = control.shutdown(STOP_GRACE);
            data.shutdown(STOP_GRACE)?;
            control?;
        }
        outcome?
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.local = None;
        // Dropping the lanes stops the tasks.
        if let Some(lanes) = self.lanes.take() {
            drop(lanes);
            self.threads.join(STOP_GRACE);
        }
    }
}

/// Returns the credentials of a worker.
fn identity(key: &LoadedKey) -> Result<Credentials, WorkerError> {
    let credentials = key.credentials(Role::Worker);
    credentials.map_err(|error| WorkerError::Bind(error.to_string()))
}

/// Returns the addresses of the dispatchers.
fn dispatcher(config: &WorkerConfig) -> Result<HostPorts, WorkerError> {
    let dispatcher = HostPorts::from_str(&config.dispatcher);
    dispatcher.map_err(|error| WorkerError::Address(error.to_string()))
}

/// Returns the pool of computing threads. The default number of threads is the number of processors.
fn pool(threads: Option<usize>) -> Result<Pool, WorkerError> {
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    Pool::new(threads.unwrap_or(1)).map_err(|error| WorkerError::Resource(error.to_string()))
}

/// Registers the worker. Returns [`WorkerError::GivenUp`] if the worker is asked to end first, because it
/// holds no elements yet.
async fn register(
    endpoint: Endpoint,
    dispatcher: HostPorts,
    config: AgentConfig,
    wishes: Wishes,
) -> Result<(Agent, AgentEvents, Wishes), WorkerError> {
    let registered = tokio::select! {
        registered = Agent::start(endpoint, dispatcher, config) => registered?,
        () = wishes.reach(Wish::Drain) => return Err(WorkerError::GivenUp),
    };
    Ok((registered.0, registered.1, wishes))
}

async fn until_unread(server: &Server) {
    while !server.links().is_empty() {
        tokio::time::sleep(QUIET_LOOK).await;
    }
}

/// Returns the server of the data plane, with memory limits from the worker's settings.
fn serving(
    config: &WorkerConfig,
    ticket_key: &TicketKey,
    memory: &millstream_element::Pool,
) -> Result<Server, WorkerError> {
    let server = ServerConfig {
        cache: config.cache().map_err(WorkerError::Settings)?,
        arenas: config.arenas(memory).map_err(WorkerError::Settings)?,
        ..config.server.clone()
    };
    let alloc: Arc<dyn SlotAlloc> = Arc::new(memory.clone());
    Server::new(server, ticket_key.clone(), &alloc).map_err(|error| WorkerError::Resource(error.to_string()))
}

impl Leaving {
    fn of(config: &WorkerConfig) -> Self {
        Self {
            drain_deadline: config.drain_deadline,
            quiet_period: config.shutdown_quiet_period,
            is_over: false,
        }
    }
}

impl Follower {
    /// Follows the dispatcher until the worker is asked to end or must end. Returning drops `_alive`, which
    /// reports the end.
    async fn follow(
        mut self,
        mut ended: mpsc::Receiver<(TaskId, Outcome)>,
        wishes: Wishes,
        _alive: mpsc::Receiver<Infallible>,
    ) -> Result<(), WorkerError> {
        let mut paces = tokio::time::interval(PACE_EVERY);
        paces.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outcome = loop {
            let next = tokio::select! {
                event = self.events.next() => self.handle(event),
                Some((task, outcome)) = ended.recv() => self.note_end(task, outcome),
                () = self.server.has_missed() => {
                    self.reports.tell_missed();
                    ControlFlow::Continue(())
                }
                () = self.reports.reap() => ControlFlow::Continue(()),
                () = wishes.reach(Wish::Stop) => ControlFlow::Break(Ok(())),
                () = wishes.reach(Wish::Drain), if !self.drain.has_begun() => {
                    self.drain.begin(self.agent.clone(), self.leaving.drain_deadline);
                    ControlFlow::Continue(())
                }
                step = self.drain.step() => self.note_drain(step),
                _ = paces.tick() => {
                    self.reports.tell_missed();
                    self.tasks.report_to(&self.agent);
                    self.agent.note_links(link_counts(&self.server.links()));
                    self.agent.note_load(load(&self.server));
                    ControlFlow::Continue(())
                }
            };
            match next {
                ControlFlow::Break(outcome) => break outcome,
                ControlFlow::Continue(()) if self.is_drained() => break Ok(()),
                ControlFlow::Continue(()) => {}
            }
        };
        if self.is_drained() {
            tokio::select! {
                () = self.agent.returned() => {}
                _ = self.drain.step() => {}
                () = wishes.reach(Wish::Stop) => {}
            }
        }
        // The drain holds a clone of the agent, which must be the last one below.
        self.drain = Drain::default();
        self.tasks.stop_all();
        self.reports.stop().await;
        if let Some(agent) = Rc::into_inner(self.agent)
            && let Err(error) = agent.leave().await
        {
            tracing::debug!(%error, "the dispatcher did not receive the goodbye; it will notice the missing heartbeats");
        }
        if self.leaving.is_over {
            // Elements in flight still arrive. The worker has no tasks any more, so no new elements follow.
            let _ = tokio::time::timeout(self.leaving.quiet_period, until_unread(&self.server)).await;
        }
        outcome
    }

    fn handle(&mut self, event: Option<AgentEvent>) -> ControlFlow<Result<(), WorkerError>> {
        match event {
            Some(AgentEvent::StartTask(definition)) => {
                if let Some(definition) = self.tasks.admit(definition) {
                    self.start(definition);
                }
            }
            Some(AgentEvent::StopTask { task, reason }) => {
                tracing::info!(%task, %reason, "task stopped");
                self.reports.abandon(task);
                self.tasks.stop(task);
                while let Some(definition) = self.tasks.next_waiting() {
                    self.start(definition);
                }
            }
            Some(AgentEvent::ReleaseClient { client, tasks }) => {
                tracing::info!(%client, "the dispatcher released a reader");
                self.reports.release(client, &tasks);
            }
            Some(AgentEvent::LeaseLapsed) => {
                self.start_over("the dispatcher gave this worker's tasks to other workers");
            }
            Some(AgentEvent::DispatcherRestarted) => self.start_over(
                "the dispatcher restarted without its records, so this worker's tasks are gone (a dispatcher with \
                 --work-dir keeps its records)",
            ),
            Some(AgentEvent::ShutDown { by }) => {
                tracing::warn!(by, "the service was shut down");
                self.leaving.is_over = true;
                return ControlFlow::Break(Ok(()));
            }
            Some(AgentEvent::Failed(error)) => return ControlFlow::Break(Err(error.into())),
            None => return ControlFlow::Break(Ok(())),
        }
        ControlFlow::Continue(())
    }

    fn note_end(&mut self, task: TaskId, outcome: Outcome) -> ControlFlow<Result<(), WorkerError>> {
        self.at_work -= 1;
        if matches!(outcome, Outcome::Failed(_)) {
            self.tasks.note_failed(task);
        }
        self.reports.begin(task, outcome);
        ControlFlow::Continue(())
    }

    fn note_drain(&mut self, step: Step) -> ControlFlow<Result<(), WorkerError>> {
        match step {
            Step::Announced => {
                self.tasks.begin_all();
                return ControlFlow::Continue(());
            }
            Step::Unheard(error) => {
                tracing::warn!(%error, "the dispatcher did not receive the announcement of the graceful shutdown: the worker ends at once");
            }
            Step::Late => tracing::warn!(
                deadline_s = self.leaving.drain_deadline.as_secs_f64(),
                "the deadline of the graceful shutdown has passed: the worker drops the elements that readers have not taken"
            ),
        }
        ControlFlow::Break(Ok(()))
    }

    /// Returns whether the worker is draining and has nothing left that a reader or the dispatcher waits for
    /// (C10.5).
    fn is_drained(&self) -> bool {
        let is_quiet = self.at_work == 0 && self.reports.are_heard();
        self.drain.is_announced() && is_quiet && self.tasks.are_over()
    }

    fn start_over(&mut self, why: &'static str) {
        let next = if self.drain.has_begun() {
            "this worker ends"
        } else {
            "this worker registers again"
        };
        tracing::warn!("{why}; {next}");
        self.reports.abandon_all();
        self.tasks.stop_all();
    }

    fn start(&mut self, definition: TaskDef) {
        let task = definition.task;
        if let Err(message) = self.try_start(definition) {
            tracing::warn!(%task, %message, "task cannot start");
            self.reports
                .begin(task, Outcome::Failed(FailureReport::new(message)));
        }
    }

    fn try_start(&mut self, definition: TaskDef) -> Result<(), String> {
        let task = definition.task;
        let (cancel, meter) = (Cancel::new(), Arc::new(TaskMeter::default()));
        let traced = TracedSplits::new(self.tracer.clone(), task, meter.clone());
        let feed = match definition.policy {
            Policy::Dynamic => {
                let splits = self.agent.splits(task).map_err(|error| error.to_string())?;
                Some(TaskFeed::new(
                    splits,
                    definition.exactly_once.clone(),
                    traced.clone(),
                ))
            }
            Policy::Off | Policy::File | Policy::Data | Policy::FileOrData | Policy::Hint => None,
        };
        let produced = (definition.cross_trainer_cache && definition.policy == Policy::Dynamic)
            .then(|| self.agent.produced(task).map_err(|error| error.to_string()))
            .transpose()?;
        let run_with = TaskRun {
            definition,
            server: self.server.clone(),
            alloc: self.alloc.clone(),
            functions: self.functions.clone(),
            storage: self.storage.clone(),
            pool: self.pool.clone(),
            budget: self.budget.clone(),
            feed,
            produced,
            cancel: cancel.clone(),
            meter: meter.clone(),
            traced,
        };
        let ends = self.ends.clone();
        self.threads.start(&format!("task-{task}"), move || {
            let outcome = run(run_with);
            // Sending fails only while the worker stops.
            let _ = ends.blocking_send((task, outcome));
        })?;
        self.at_work += 1;
        self.tasks.add(task, cancel, meter);
        Ok(())
    }
}
