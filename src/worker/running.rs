//! A running worker: starts, follows the dispatcher, stops.
//!
//! Owns a lane for readers and one for the dispatcher, the pool of its computations and a thread for each
//! task, and joins them all. A worker whose readers keep it busy is not silent: the dispatcher's lane has a
//! thread and a socket of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use millstream_control::agent::{Agent, AgentConfig, AgentEvent, AgentEvents};
use millstream_control::{Policy, TaskDef, TaskId};
use millstream_dataplane::transport::quic::CLIENT_LIMITS;
use millstream_dataplane::worker::{Server, ServerConfig};
use millstream_element::SlotAlloc;
use millstream_link::{
    Credentials, Endpoint, EndpointConfig, HostPort, Lane, LaneError, LoadedKey, Role, TicketKey,
};
use millstream_pipeline::exec::{Cancel, Functions, Pool, SharedBudget};
use millstream_pipeline::storage::Storage;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::advertised::advertised;
use super::config::WorkerConfig;
use super::drain::{Drain, Step};
use super::feed::TaskFeed;
use super::pace::{TaskMeter, link_counts};
use super::reports::Reports;
use super::stopper::{Wish, Wishes, WorkerStopper};
use super::task::{Outcome, TaskRun, run};
use super::tasks::Tasks;
use super::threads::Threads;
use crate::connect::alpn;
use crate::local::LocalEntry;
use crate::serve::serve;
use crate::serve_shared;
use crate::worker::error::WorkerError;

/// The time for which the end of the tasks, and then of the lane, is waited for; a user's function may be
/// stuck for ever.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The time between two reports of the tasks' pace: that of heartbeats at their default.
const PACE_EVERY: Duration = Duration::from_secs(1);
/// The time between two looks of a worker whose service was shut down whether its readers have gone.
const QUIET_LOOK: Duration = Duration::from_millis(20);

/// Ends of tasks that wait until the worker looks.
const ENDS_MAX: usize = 1024;

/// A worker that serves. Dropping it ends it without a goodbye; [`Worker::stop`] says goodbye, and
/// [`Worker::drain`] loses nothing. Each waits for its tasks, and after two seconds leaves behind what is
/// stuck in a user's function.
#[derive(Debug)]
pub struct Worker {
    address: String,
    local_addr: SocketAddr,
    server: Server,
    local: Option<LocalEntry>,
    threads: Threads,
    stopper: WorkerStopper,
    /// Disconnected once it has ended.
    alive: mpsc::Sender<Infallible>,
    ended: Option<millstream_link::LaneTask<Result<(), WorkerError>>>,
    lanes: Option<Lanes>,
}

/// The threads of a worker's sockets.
#[derive(Debug)]
struct Lanes {
    control: Lane,
    data: Lane,
}

/// The part of a worker that follows the dispatcher.
struct Follower {
    agent: Rc<Agent>,
    events: AgentEvents,
    server: Server,
    alloc: Arc<dyn SlotAlloc>,
    functions: Arc<Functions>,
    storage: Storage,
    pool: Arc<Pool>,
    budget: SharedBudget,
    tasks: Tasks,
    threads: Threads,
    reports: Reports,
    ends: mpsc::Sender<(TaskId, Outcome)>,
    /// Threads that have not said how their task ended.
    at_work: usize,
    drain: Drain,
    leaving: Leaving,
}

/// The limits of leaving.
struct Leaving {
    drain_deadline: Duration,
    quiet_period: Duration,
    /// The service was shut down.
    is_over: bool,
}

impl Lanes {
    fn start() -> Result<Self, LaneError> {
        Ok(Self {
            control: Lane::start("worker")?,
            data: Lane::start("readers")?,
        })
    }

    /// Returns the address that readers are told of a worker bound to `bound`.
    fn advertise(
        &self,
        wanted: Option<String>,
        bound: SocketAddr,
        dispatcher: &HostPort,
    ) -> Result<String, LaneError> {
        let address = advertised(wanted, bound, dispatcher.clone());
        self.control.spawn(address).wait()
    }
}

impl Worker {
    /// Binds, registers and serves. Blocks until the dispatcher has accepted the worker.
    ///
    /// # Errors
    /// [`WorkerError`] names what is wrong and where.
    pub fn start(key: &LoadedKey, config: WorkerConfig) -> Result<Self, WorkerError> {
        Self::start_stoppable(key, config, WorkerStopper::new())
    }

    /// Starts a worker that `stopper` also ends while it still waits for its dispatcher.
    ///
    /// # Errors
    /// As there, and [`WorkerError::GivenUp`].
    pub fn start_stoppable(
        key: &LoadedKey,
        config: WorkerConfig,
        stopper: WorkerStopper,
    ) -> Result<Self, WorkerError> {
        let (leaving, budget) = (Leaving::of(&config), SharedBudget::new(config.buffers_bytes()));
        let credentials = key
            .credentials(Role::Worker)
            .map_err(|error| WorkerError::Bind(error.to_string()))?;
        let dispatcher = HostPort::from_str(&config.dispatcher)
            .map_err(|error| WorkerError::Address(error.to_string()))?;
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
        // Taken back on every way out: a worker that did not start serves nobody.
        let local = config.local.add(&address, server.clone());
        let mut agent_config = AgentConfig::new(&address, ticket_key);
        let registration = &mut agent_config.registration;
        (registration.tags, registration.whereabouts) = (config.tags, config.local.whereabouts());
        registration.local_socket = local_socket;
        (agent_config.session, agent_config.lease) = (config.session, config.lease);
        let pool = pool(config.threads)?;
        let (functions, storage, follow_server) = (config.functions, config.storage, server.clone());
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

    /// The address that readers are told.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the address of the worker's socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The data plane.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Ends it from elsewhere.
    pub fn stopper(&self) -> WorkerStopper {
        self.stopper.clone()
    }

    /// Returns whether it has ended: it was told to, or the dispatcher refused it. What is left of it ends
    /// with [`Worker::join`].
    pub fn has_ended(&self) -> bool {
        self.alive.is_closed()
    }

    /// Says goodbye to the dispatcher and ends, within seconds. What it had begun is read from others, or
    /// reported lost where a part of it was delivered.
    ///
    /// # Errors
    /// What had ended it before.
    pub fn stop(self) -> Result<(), WorkerError> {
        self.stopper.stop();
        self.join()
    }

    /// Leaves in good order: takes no more tasks and splits, gives back those not started, delivers what it
    /// has begun under its readers' credits, says goodbye and ends. Under `dynamic` nothing is lost and
    /// nothing read twice. Under the other policies nobody could go on where it stops, so its tasks end at
    /// once: a share starts over with the next worker of its number.
    ///
    /// Gives up what readers have not taken at [`WorkerConfig::drain_deadline`], and everything at once if
    /// the dispatcher cannot be reached or [`WorkerStopper::stop`] is called.
    ///
    /// # Errors
    /// What had ended it before.
    pub fn drain(self) -> Result<(), WorkerError> {
        self.stopper.drain();
        self.join()
    }

    /// Waits until it has ended: it was told to by its [`WorkerStopper`], or the dispatcher refused it.
    ///
    /// # Errors
    /// What has ended it, if it was not told to.
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
        // Its end stops the tasks.
        if let Some(lanes) = self.lanes.take() {
            drop(lanes);
            self.threads.join(STOP_GRACE);
        }
    }
}

/// The threads that compute: so many, or one a processor.
fn pool(threads: Option<usize>) -> Result<Pool, WorkerError> {
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    Pool::new(threads.unwrap_or(1)).map_err(|error| WorkerError::Resource(error.to_string()))
}

/// Registers, unless the worker is told to end before: there is nothing to leave in good order then.
async fn register(
    endpoint: Endpoint,
    dispatcher: HostPort,
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

/// The data plane, which keeps as much for trainers as the worker's memory allows.
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

/// Binds, and serves on the lane from then on.
fn bind(
    lane: &Lane,
    credentials: Credentials,
    (address, config): (Option<SocketAddr>, EndpointConfig),
    server: Server,
) -> Result<Endpoint, WorkerError> {
    let config = EndpointConfig {
        bind: address,
        of_accepted: CLIENT_LIMITS,
        ..config
    };
    let binding = lane.spawn(async move {
        let accepted = [Role::Read, Role::Submit];
        let endpoint = Endpoint::bind_server(credentials, &[alpn()], &accepted, config)
            .map_err(|error| WorkerError::Bind(error.to_string()))?;
        tokio::task::spawn_local(serve(endpoint.clone(), server));
        Ok(endpoint)
    });
    binding.wait()?
}

/// An endpoint for the dispatcher, on the interface that readers use.
fn to_dispatcher(
    lane: &Lane,
    credentials: Credentials,
    served: SocketAddr,
    config: EndpointConfig,
) -> Result<Endpoint, WorkerError> {
    let config = EndpointConfig {
        bind: Some(SocketAddr::new(served.ip(), 0)),
        ..config
    };
    let binding = lane.spawn(async move {
        Endpoint::client(credentials, config).map_err(|error| WorkerError::Bind(error.to_string()))
    });
    binding.wait()?
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
    /// Until the worker is told to end, or has to. `_alive` says that it has not.
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
                    for (task, pace) in self.tasks.paces() {
                        self.agent.note_pace(task, pace);
                    }
                    for (task, name) in self.tasks.bottlenecks() {
                        self.agent.note_bottleneck(task, &name);
                    }
                    self.agent.note_links(link_counts(&self.server.links()));
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
        // It holds the agent.
        self.drain = Drain::default();
        self.tasks.stop_all();
        self.reports.stop().await;
        if let Some(agent) = Rc::into_inner(self.agent)
            && let Err(error) = agent.leave().await
        {
            tracing::debug!(%error, "the dispatcher was not told; it will notice the silence");
        }
        if self.leaving.is_over {
            // What is under way still arrives; nothing else comes of a worker without tasks.
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
                tracing::info!(%client, "a reader is gone");
                self.reports.release(client, &tasks);
            }
            Some(AgentEvent::LeaseLapsed) => {
                self.start_over("the dispatcher gave this worker's tasks away");
            }
            Some(AgentEvent::DispatcherRestarted) => self.start_over(
                "the dispatcher restarted without its memory, so this worker's tasks are gone (a dispatcher that is given \
                 a work directory, --work-dir, remembers)",
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
                tracing::warn!(%error, "the dispatcher cannot be told that this worker leaves: it ends at once");
            }
            Step::Late => tracing::warn!(
                deadline_s = self.leaving.drain_deadline.as_secs_f64(),
                "the deadline for leaving has passed: what readers have not taken is given up"
            ),
        }
        ControlFlow::Break(Ok(()))
    }

    /// Returns whether it is being drained and nothing is left that somebody waits for (C10.5).
    fn is_drained(&self) -> bool {
        let is_quiet = self.at_work == 0 && self.reports.are_heard();
        self.drain.is_announced() && is_quiet && self.tasks.are_over()
    }

    fn start_over(&mut self, why: &'static str) {
        let next = if self.drain.has_begun() {
            "it ends"
        } else {
            "it registers again"
        };
        tracing::warn!("{why}; {next}");
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
        let (cancel, meter) = (Cancel::new(), Arc::new(TaskMeter::default()));
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
        };
        let ends = self.ends.clone();
        self.threads.start(&format!("task-{task}"), move || {
            let outcome = run(run_with);
            // Nobody listens any more when the worker stops.
            let _ = ends.blocking_send((task, outcome));
        })?;
        self.at_work += 1;
        self.tasks.add(task, cancel, meter);
        Ok(())
    }
}
