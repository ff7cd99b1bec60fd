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
use super::owners::Owners;
use super::refusals::RefusalCounts;
use crate::dispatcher::{Dispatcher, DispatcherConfig};
use crate::id::BootId;
use crate::planner::Planner;
use crate::rpc::{ALPN, IDLE_TIMEOUTS};
use crate::store::{Store, StoreError};

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
    boot: BootId,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    running: JoinHandle<Result<(), StoreError>>,
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
        let records = store.load()?;
        let boot = BootId(rand::random());
        let dispatcher = Dispatcher::load(config.dispatcher, records, boot, Duration::ZERO);
        let boot = dispatcher.boot();
        let (stop, stopped) = watch::channel(false);
        let (inputs, events) = mpsc::channel(INPUTS_MAX);
        let (kept, sessions_max) = (
            dispatcher.config().client_timeout,
            dispatcher.config().sessions_max,
        );
        let owners = Owners::new(kept, sessions_max);
        let shared = Arc::new(Shared {
            inputs,
            planner: Arc::clone(&planner),
            // Analyses are short. Four at a time correspond to the cores of a small machine.
            analyses: Semaphore::new(4),
            config: dispatcher.config().clone(),
            boot,
            pushes_max: config.pushes_max.max(1),
            audit: config.audit,
            refusals: RefusalCounts::new(acceptor.counter()),
            owners: Mutex::new(owners),
        });
        let event_loop = EventLoop::new(dispatcher, store, planner, endpoint.clone());
        let running = tokio::spawn(event_loop.run(events, stopped.clone()));
        let accepting = tokio::spawn(accept(acceptor, shared, stopped));
        Ok(Server {
            endpoint,
            boot,
            stop,
            accepting,
            running,
        })
    }

    /// Returns the address in use.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// Returns the boot id: the name of this life of the dispatcher's state.
    pub fn boot(&self) -> BootId {
        self.boot
    }

    /// Returns a handle that stops the server from elsewhere.
    pub fn stopper(&self) -> ServerStopper {
        ServerStopper {
            stop: self.stop.clone(),
        }
    }

    /// Returns whether the server has stopped: it was stopped, its service was shut down, or its store
    /// failed. [`shutdown`](Server::shutdown) returns the failure.
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Stops the server: closes its connections after every answered change is stored. Ends within seconds.
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
        self.endpoint.close("the dispatcher is shutting down");
        if (&mut self.accepting).await.is_err() {
            tracing::error!("the dispatcher's accepting task panicked");
        }
        self.endpoint.wait_idle(GOODBYE).await;
        ended.unwrap_or_else(|_| {
            Err(StoreError::Failed(
                "the dispatcher's event loop panicked".to_owned(),
            ))
        })
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

async fn accept(mut acceptor: Acceptor, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = acceptor.accept() => match accepted {
                Some(accepted) => {
                    connections.spawn(connection::serve(accepted, Arc::clone(&shared)));
                }
                None => break,
            },
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!(%error, "a connection's task panicked");
                }
            }
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
    // The caller closes the endpoint and gives the reason. A connection that is dropped earlier would be
    // closed without a reason.
    let told = async { while connections.join_next().await.is_some() {} };
    tokio::time::timeout(GOODBYE, told).await.ok();
    connections.shutdown().await;
}
