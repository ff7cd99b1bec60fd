//! A dispatcher: the server of the control plane with the planner of the pipeline, on its own lane.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millstream_control::rpc::{AuditLog, Server, ServerConfig, ServerObserver, ServerStopper, StartError};
use millstream_control::{
    Candidate, DiskStore, DispatcherConfig, EtcdConfig, MemoryStore, Store, WorkDirError,
};
use millstream_link::{
    Credentials, CredentialsError, EndpointConfig, HostPort, Lane, LaneError, LoadedKey, PublicKeys, Role,
};
use millstream_pipeline::exec::Functions;
use millstream_pipeline::storage::{Storage, StorageConfig};
use thiserror::Error;

use crate::planner::GraphPlanner;

/// The time within which a stopping dispatcher must end.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// The priority that the dispatcher's thread requests, as a `nice` value. -20 is the highest priority.
#[cfg(target_os = "linux")]
const NICENESS: i32 = -20;

/// The reason why a dispatcher could not start or ended with an error.
#[derive(Debug, Error)]
pub enum DispatcherError {
    /// The key does not permit the role of a dispatcher.
    #[error(transparent)]
    Key(#[from] CredentialsError),
    /// The address is not available, or the key does not permit it.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The work directory cannot be used.
    #[error(transparent)]
    WorkDir(#[from] WorkDirError),
    /// The store on etcd cannot be used.
    #[error("{0}")]
    Etcd(String),
    /// Other processes cannot reach the bound address, and the settings name no other.
    #[error(
        "the dispatcher listens at {0}, an address that other machines cannot use: bind an address of the network, and \
         give the address at which workers and readers reach this dispatcher, as with --bind 0.0.0.0:{port} --advertise \
         HOST:{port}", port = .0.port()
    )]
    NotAdvertised(SocketAddr),
    /// The list of allowed files is invalid.
    #[error("{0}")]
    Access(String),
    /// The audit log cannot be opened.
    #[error("the audit log {} cannot be opened: {source}; choose a file in a folder that this user may write", path.display())]
    Audit {
        /// The path of the audit log.
        path: PathBuf,
        /// The reason from the operating system.
        source: std::io::Error,
    },
    /// The store failed, which stopped the dispatcher.
    #[error("{0}")]
    Store(String),
    /// The system refused to start a thread, or a part of the dispatcher panicked.
    #[error(transparent)]
    Lane(#[from] LaneError),
}

/// The settings of one of several dispatchers with a common store.
#[derive(Clone, Debug)]
pub struct SharedStore {
    /// The store on etcd.
    pub etcd: EtcdConfig,
    /// The address at which workers and readers reach this dispatcher. Default: the bound address, if other
    /// machines can use it or if etcd is on this host alone.
    pub advertise: Option<HostPort>,
}

/// A running dispatcher. Dropping the value ends the dispatcher without a goodbye message;
/// [`Dispatcher::stop`] sends a goodbye message.
#[derive(Debug)]
pub struct Dispatcher {
    local_addr: SocketAddr,
    observer: ServerObserver,
    server: Option<Server>,
    lane: Option<Lane>,
}

impl Dispatcher {
    /// Binds the address and starts to serve. Blocks while the records are read.
    ///
    /// The dispatcher keeps its records in [`DispatcherConfig::work_dir`], and continues from the records
    /// that it finds there. Without a directory, the records are in memory and end with the dispatcher.
    ///
    /// # Errors
    /// [`DispatcherError`] names the address or the file, and the remedy.
    pub fn start(
        key: &LoadedKey,
        bind: Option<SocketAddr>,
        config: DispatcherConfig,
        functions: Arc<Functions>,
    ) -> Result<Self, DispatcherError> {
        let store: Box<dyn Store> = match &config.work_dir {
            Some(folder) => Box::new(DiskStore::open(folder)?),
            None => Box::new(MemoryStore::new()),
        };
        Self::launch(key, bind, config, functions, |credentials, config, planner| {
            Server::start(credentials, config, planner, store)
        })
    }

    /// Binds the address, and serves whenever this dispatcher leads the dispatchers of its store. At other
    /// times it tells processes the address of the leader. Blocks for seconds if etcd does not answer.
    ///
    /// # Errors
    /// [`DispatcherError`] names the address or etcd, and the remedy.
    pub fn start_candidate(
        key: &LoadedKey,
        bind: Option<SocketAddr>,
        config: DispatcherConfig,
        functions: Arc<Functions>,
        shared: SharedStore,
    ) -> Result<Self, DispatcherError> {
        let bound = bind.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into());
        let is_local = bound.ip().to_canonical().is_loopback() && !shared.etcd.is_local();
        if shared.advertise.is_none() && (bound.ip().is_unspecified() || is_local) {
            return Err(DispatcherError::NotAdvertised(bound));
        }
        let advertise = shared.advertise.as_ref().map(HostPort::to_string);
        let own = key.keys.own.public();
        let keys = std::iter::once(&own).chain(&key.keys.accepted);
        let candidate = candidate(shared.etcd, keys.map(PublicKeys::fingerprint).collect())?;
        Self::launch(key, bind, config, functions, |credentials, config, planner| {
            Server::start_candidate(credentials, config, planner, candidate, advertise)
        })
    }

    fn launch(
        key: &LoadedKey,
        bind: Option<SocketAddr>,
        config: DispatcherConfig,
        functions: Arc<Functions>,
        start: impl FnOnce(Credentials, ServerConfig, Arc<GraphPlanner>) -> Result<Server, StartError>
        + Send
        + 'static,
    ) -> Result<Self, DispatcherError> {
        let credentials = key.credentials(Role::Dispatcher)?;
        let audit = config.audit_log.as_deref().map(open_audit).transpose()?;
        if config.client_timeout <= config.heartbeat_interval {
            tracing::warn!(
                client_timeout_ms = config.client_timeout.as_millis(),
                heartbeat_ms = config.heartbeat_interval.as_millis(),
                "the client timeout is not longer than the heartbeat interval, so the dispatcher releases living readers: raise the client timeout"
            );
        }
        let lane = Lane::start("dispatcher")?;
        lane.spawn(async { raise_priority() }).wait()?;
        let endpoint = EndpointConfig {
            bind,
            ..EndpointConfig::default()
        };
        let config = ServerConfig {
            endpoint,
            dispatcher: config,
            audit,
            ..ServerConfig::default()
        };
        let storage = Storage::new(StorageConfig {
            allowed: config.dispatcher.allowed_paths.clone(),
            ..StorageConfig::default()
        });
        let storage = storage.map_err(|error| DispatcherError::Access(error.to_string()))?;
        let planner = Arc::new(GraphPlanner::with_storage(functions, storage));
        let starting = lane.spawn(async move { start(credentials, config, planner) });
        let server = starting.wait()??;
        Ok(Self {
            local_addr: server.local_addr(),
            observer: server.observer(),
            server: Some(server),
            lane: Some(lane),
        })
    }

    /// Returns the address at which the dispatcher listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns a handle that observes the dispatcher from this process.
    pub fn observer(&self) -> ServerObserver {
        self.observer.clone()
    }

    /// Returns a handle that stops the dispatcher from another thread, or `None` once the dispatcher has
    /// stopped. The handle may be used several times.
    pub fn stopper(&self) -> Option<ServerStopper> {
        self.server.as_ref().map(Server::stopper)
    }

    /// Returns whether the dispatcher has ended. A dispatcher ends after a stop, after the shutdown of its
    /// service, or after a failure of its store; [`Dispatcher::join`] returns the reason.
    pub fn has_ended(&self) -> bool {
        self.server.as_ref().is_none_or(Server::has_ended)
    }

    /// Says goodbye to workers and readers, and ends the dispatcher within seconds.
    ///
    /// # Errors
    /// The store failed, or a part of the dispatcher panicked.
    pub fn stop(self) -> Result<(), DispatcherError> {
        if let Some(stopper) = self.stopper() {
            stopper.stop();
        }
        self.join()
    }

    /// Waits until the dispatcher has ended: after a stop, after the shutdown of its service, or after a
    /// failure of its store.
    ///
    /// # Errors
    /// The store failed, or a part of the dispatcher panicked.
    pub fn join(mut self) -> Result<(), DispatcherError> {
        let Some(lane) = self.lane.take() else {
            return Ok(());
        };
        if let Some(server) = self.server.take() {
            let stopped = lane.spawn(async move { server.join().await }).wait()?;
            stopped.map_err(|error| DispatcherError::Store(error.to_string()))?;
        }
        lane.shutdown(STOP_GRACE)?;
        Ok(())
    }
}

#[cfg(feature = "etcd")]
fn candidate(config: EtcdConfig, keys: Vec<String>) -> Result<Box<dyn Candidate>, DispatcherError> {
    let candidate = millstream_control::EtcdCandidate::connect(config, keys);
    Ok(Box::new(
        candidate.map_err(|error| DispatcherError::Etcd(error.to_string()))?,
    ))
}

#[cfg(not(feature = "etcd"))]
fn candidate(config: EtcdConfig, _: Vec<String>) -> Result<Box<dyn Candidate>, DispatcherError> {
    Err(DispatcherError::Etcd(format!(
        "{config}: this build of millstream has no etcd: build it with --features etcd, which needs protoc"
    )))
}

fn open_audit(path: &Path) -> Result<AuditLog, DispatcherError> {
    AuditLog::open(path).map_err(|source| DispatcherError::Audit {
        path: path.to_owned(),
        source,
    })
}

/// Raises the priority of the calling thread, if the process has the permission. The dispatcher needs little
/// processor time, but hundreds of workers and readers wait for the dispatcher. On a crowded host, a
/// dispatcher without priority drops heartbeats that arrived in time.
fn raise_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "the dispatcher runs at the priority of its process: give it CAP_SYS_NICE, or a processor of its own");
    }
}
