//! A dispatcher: the server of the control plane with the planner of the pipeline, on its own lane.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millstream_control::rpc::{AuditLog, Server, ServerConfig, ServerStopper, StartError};
use millstream_control::{DiskStore, DispatcherConfig, MemoryStore, Store, WorkDirError};
use millstream_link::{CredentialsError, EndpointConfig, Lane, LaneError, LoadedKey, Role};
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

/// A running dispatcher. Dropping the value ends the dispatcher without a goodbye message;
/// [`Dispatcher::stop`] sends a goodbye message.
#[derive(Debug)]
pub struct Dispatcher {
    local_addr: SocketAddr,
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
        let credentials = key.credentials(Role::Dispatcher)?;
        let store: Box<dyn Store> = match &config.work_dir {
            Some(folder) => Box::new(DiskStore::open(folder)?),
            None => Box::new(MemoryStore::new()),
        };
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
        let starting = lane.spawn(async move { Server::start(credentials, config, planner, store) });
        let server = starting.wait()??;
        Ok(Self {
            local_addr: server.local_addr(),
            server: Some(server),
            lane: Some(lane),
        })
    }

    /// Returns the address at which the dispatcher listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
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
