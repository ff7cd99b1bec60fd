//! The start and the stop of the dispatcher's server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millstream_link::{Acceptor, BindError, Credentials, Endpoint, EndpointConfig, Role};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::audit::AuditLog;
use super::connection::{self, PROCESS_LIMITS, Shared};
use super::event_loop::{EventLoop, INPUTS_MAX};
use super::observer::ServerObserver;
use super::owners::Owners;
use super::refusals::RefusalCounts;
use super::standby;
use crate::dispatcher::{Dispatcher, DispatcherConfig, Record};
use crate::id::BootId;
use crate::planner::Planner;
use crate::rpc::{ALPN, IDLE_TIMEOUTS};
use crate::store::{Candidate, Store, StoreError};

/// The time for which a stopping server waits for its peers to receive the close. QUIC keeps a closed
/// connection for three probe timeouts in case its last packets were lost. A peer that misses the packets
/// notices the silence.
const GOODBYE: Duration = Duration::from_millis(250);

/// The settings of a dispatcher's server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The endpoint; by default 127.0.0.1 and any free port. The server
    /// replaces [`EndpointConfig::of_accepted`] by its own limits, and its connections outlast six idle
    /// timeouts.
    pub endpoint: EndpointConfig,
    /// The limits and timeouts of the dispatcher's state machine.
    pub dispatcher: DispatcherConfig,
    /// Maximum number of messages that wait to be pushed to one process. A process with a full queue is
    /// disconnected, and reconnects. Default 4096, which suffices for the simultaneous start of 4096 tasks.
    pub pushes_max: usize,
    /// The audit log. Default `None`: no log.
    pub audit: Option<AuditLog>,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            endpoint: EndpointConfig::default(),
            dispatcher: DispatcherConfig::default(),
            pushes_max: 4096,
            audit: None,
        }
    }
}

/// A running dispatcher with its server. Dropping the value stops the server without waiting for its
/// peers; [`shutdown`](Server::shutdown) waits for them.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    stop: watch::Sender<bool>,
    observer: ServerObserver,
    running: JoinHandle<Result<(), StoreError>>,
}

/// The parts that a dispatcher keeps while it leads and while it does not.
struct Parts {
    endpoint: Endpoint,
    acceptor: Acceptor,
    dispatcher: DispatcherConfig,
    pushes_max: usize,
    audit: Option<AuditLog>,
    planner: Arc<dyn Planner>,
    stopped: watch::Receiver<bool>,
    /// The parts that observers need, while this dispatcher leads.
    leading: watch::Sender<Option<Arc<Shared>>>,
}

impl Server {
    /// Binds the address, loads the store and serves. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`]: the address is not available, or the store cannot be read.
    pub fn start(
        credentials: Credentials,
        config: ServerConfig,
        planner: Arc<dyn Planner>,
        mut store: Box<dyn Store>,
    ) -> Result<Server, StartError> {
        let (mut parts, stop) = Parts::bind(credentials, config, planner)?;
        let records = store.load()?;
        let (endpoint, observer) = (parts.endpoint.clone(), parts.observer());
        let running = tokio::spawn(async move {
            let led = parts.lead(store, records).await;
            parts.end(led).await
        });
        Ok(Server {
            endpoint,
            stop,
            observer,
            running,
        })
    }

    /// Binds the address, and serves whenever this dispatcher leads. Until then it tells processes the
    /// address of the leader. `advertised` is the address at which processes reach this dispatcher, by
    /// default the bound address. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`]: the address is not available.
    pub fn start_candidate(
        credentials: Credentials,
        config: ServerConfig,
        planner: Arc<dyn Planner>,
        candidate: Box<dyn Candidate>,
        advertised: Option<String>,
    ) -> Result<Server, StartError> {
        let (parts, stop) = Parts::bind(credentials, config, planner)?;
        let (endpoint, observer) = (parts.endpoint.clone(), parts.observer());
        let advertised = advertised.unwrap_or_else(|| endpoint.local_addr().to_string());
        let running = tokio::spawn(parts.take_turns(candidate, advertised));
        Ok(Server {
            endpoint,
            stop,
            observer,
            running,
        })
    }

    /// Returns the address in use.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// Returns a handle that stops the server from elsewhere.
    pub fn stopper(&self) -> ServerStopper {
        ServerStopper {
            stop: self.stop.clone(),
        }
    }

    /// Returns a handle that observes the dispatcher from this process.
    pub fn observer(&self) -> ServerObserver {
        self.observer.clone()
    }

    /// Returns whether the server has stopped: it was stopped, its service was shut down, or its store
    /// failed. [`shutdown`](Server::shutdown) returns the failure.
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Stops the server: closes its connections after every answered change is stored. Ends within seconds,
    /// also if the store does not answer.
    ///
    /// # Errors
    /// The store failed, and the server had stopped by itself for this reason.
    pub async fn shutdown(self) -> Result<(), StoreError> {
        self.stop.send_replace(true);
        self.join().await
    }

    /// Waits until the server has stopped: its [`ServerStopper`] was used, its service was shut down
    /// (C12.3), or its store failed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn join(mut self) -> Result<(), StoreError> {
        let ended = (&mut self.running).await;
        ended.unwrap_or_else(|_| {
            Err(StoreError::Failed(
                "the dispatcher's event loop panicked".to_owned(),
            ))
        })
    }
}

impl Parts {
    fn bind(
        credentials: Credentials,
        config: ServerConfig,
        planner: Arc<dyn Planner>,
    ) -> Result<(Parts, watch::Sender<bool>), StartError> {
        let accepted = [Role::Read, Role::Submit, Role::Worker];
        let endpoint = EndpointConfig {
            of_accepted: PROCESS_LIMITS,
            idle_timeout: config.endpoint.idle_timeout.saturating_mul(IDLE_TIMEOUTS),
            // A client on an overloaded host needs the longer deadline for its handshake.
            handshake_deadline: config.endpoint.handshake_deadline.saturating_mul(IDLE_TIMEOUTS),
            ..config.endpoint
        };
        let endpoint = Endpoint::bind_server(credentials, &[ALPN], &accepted, endpoint)?;
        let acceptor = endpoint.acceptor().ok_or(StartError::NotAServer)?;
        let (stop, stopped) = watch::channel(false);
        let parts = Parts {
            endpoint,
            acceptor,
            dispatcher: config.dispatcher,
            pushes_max: config.pushes_max.max(1),
            audit: config.audit,
            planner,
            stopped,
            leading: watch::Sender::new(None),
        };
        Ok((parts, stop))
    }

    fn observer(&self) -> ServerObserver {
        ServerObserver::new(self.leading.subscribe())
    }

    /// Leads whenever this dispatcher is elected, and answers with the leader's address otherwise (C17.1).
    async fn take_turns(
        mut self,
        mut candidate: Box<dyn Candidate>,
        advertised: String,
    ) -> Result<(), StoreError> {
        loop {
            let leader = candidate.leader();
            let mut stopped = self.stopped.clone();
            let elected = tokio::select! {
                elected = candidate.campaign(&advertised) => Some(elected),
                never = standby::answer_all(&mut self.acceptor, leader) => match never {},
                _ = stopped.wait_for(|stop| *stop) => None,
            };
            let led = match elected {
                Some(Ok(Some(store))) => self.load_and_lead(store).await,
                // The service was shut down at another dispatcher (C17.6).
                Some(Ok(None)) | None => Ok(()),
                Some(Err(error)) => Err(error),
            };
            match led {
                Err(StoreError::Lost(_)) => {}
                led @ (Ok(()) | Err(StoreError::Failed(_) | StoreError::Full(_))) => {
                    return self.end(led).await;
                }
            }
        }
    }

    async fn load_and_lead(&mut self, mut store: Box<dyn Store>) -> Result<(), StoreError> {
        let loading = tokio::task::spawn_blocking(move || store.load().map(|records| (store, records)));
        let mut stopped = self.stopped.clone();
        let loaded = tokio::select! {
            loaded = loading => loaded,
            // The thread may wait for its store for long, and then drops it.
            _ = stopped.wait_for(|stop| *stop) => return Ok(()),
        };
        let (store, records) =
            loaded.map_err(|_| StoreError::Failed("the reading of the records panicked".to_owned()))??;
        tracing::info!(records = records.len(), "this dispatcher leads");
        self.lead(store, records).await
    }

    /// Serves processes until the event loop ends.
    async fn lead(&mut self, store: Box<dyn Store>, records: Vec<Record>) -> Result<(), StoreError> {
        let boot = BootId(rand::random());
        let dispatcher = Dispatcher::load(self.dispatcher.clone(), records, boot, Duration::ZERO);
        let boot = dispatcher.boot();
        let (inputs, events) = mpsc::channel(INPUTS_MAX);
        let (depose, deposed) = watch::channel(false);
        let (kept, sessions_max) = (
            dispatcher.config().client_timeout,
            dispatcher.config().sessions_max,
        );
        let owners = Owners::new(kept, sessions_max);
        let shared = Arc::new(Shared {
            inputs,
            planner: Arc::clone(&self.planner),
            // Analyses are short. Four at a time correspond to the cores of a small machine.
            analyses: Semaphore::new(4),
            config: dispatcher.config().clone(),
            boot,
            pushes_max: self.pushes_max,
            audit: self.audit.clone(),
            refusals: RefusalCounts::new(self.acceptor.counter()),
            owners: Mutex::new(owners),
            deposed,
        });
        self.leading.send_replace(Some(Arc::clone(&shared)));
        let planner = Arc::clone(&self.planner);
        let event_loop = EventLoop::new(
            dispatcher,
            store,
            planner,
            self.endpoint.clone(),
            self.stopped.clone(),
        );
        let mut running = tokio::spawn(event_loop.run(events));
        let mut connections = JoinSet::new();
        let ended = tokio::select! {
            ended = &mut running => ended,
            ended = accept(&mut self.acceptor, &mut connections, &shared) => match ended {},
        };
        let ended = ended.unwrap_or_else(|_| {
            Err(StoreError::Failed(
                "the dispatcher's event loop panicked".to_owned(),
            ))
        });
        self.leading.send_replace(None);
        // A connection that is dropped before it is closed would be closed without a reason.
        match &ended {
            Err(StoreError::Lost(_)) => _ = depose.send_replace(true),
            Ok(()) | Err(StoreError::Failed(_) | StoreError::Full(_)) => {
                self.endpoint.close("the dispatcher is shutting down");
            }
        }
        let told = async { while connections.join_next().await.is_some() {} };
        tokio::time::timeout(GOODBYE, told).await.ok();
        connections.shutdown().await;
        ended
    }

    /// Closes the endpoint, and waits for peers to receive the close.
    async fn end(self, ended: Result<(), StoreError>) -> Result<(), StoreError> {
        self.endpoint.close("the dispatcher is shutting down");
        self.endpoint.wait_idle(GOODBYE).await;
        ended
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.endpoint.close("the dispatcher stopped");
    }
}

/// A handle that stops a dispatcher. Clones stop the same dispatcher.
#[derive(Clone, Debug)]
pub struct ServerStopper {
    stop: watch::Sender<bool>,
}

impl ServerStopper {
    /// Stops the dispatcher. Returns at once, and has no effect on a dispatcher that has stopped.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// The reason for which a dispatcher did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be bound, or the credentials are invalid.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The endpoint only connects, which is a defect of this crate.
    #[error("the dispatcher's endpoint accepts no connections")]
    NotAServer,
}

/// Serves the connections of the acceptor for ever. The caller ends the connections.
async fn accept(
    acceptor: &mut Acceptor,
    connections: &mut JoinSet<()>,
    shared: &Arc<Shared>,
) -> std::convert::Infallible {
    loop {
        tokio::select! {
            accepted = acceptor.accept() => match accepted {
                Some(accepted) => {
                    connections.spawn(connection::serve(accepted, Arc::clone(shared)));
                }
                // The endpoint is closed, and the end of the event loop follows.
                None => std::future::pending().await,
            },
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!(%error, "a connection's task panicked");
                }
            }
        }
    }
}
