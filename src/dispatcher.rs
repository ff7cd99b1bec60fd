//! A dispatcher: the control plane's server with the pipeline's planner, on a lane of its own.

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

/// The time that a stopping dispatcher may take.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// The priority that the dispatcher's thread asks for, as `nice` counts: the highest.
#[cfg(target_os = "linux")]
const NICENESS: i32 = -20;

/// Why a dispatcher cannot start, or did not end well.
#[derive(Debug, Error)]
pub enum DispatcherError {
    /// The key cannot be a dispatcher's.
    #[error(transparent)]
    Key(#[from] CredentialsError),
    /// The address cannot be had, or the key does not allow it.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The work directory cannot be used.
    #[error(transparent)]
    WorkDir(#[from] WorkDirError),
    /// The list of files that it may read is not valid.
    #[error("{0}")]
    Access(String),
    /// The audit log cannot be opened.
    #[error("the audit log {} cannot be opened: {source}; choose a file in a folder that this user may write", path.display())]
    Audit {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The store failed, and it stopped because of it.
    #[error("{0}")]
    Store(String),
    /// The system gives no thread, or a part of it panicked.
    #[error(transparent)]
    Lane(#[from] LaneError),
}

/// A dispatcher that serves. Dropping it ends it without a goodbye; [`Dispatcher::stop`] says goodbye.
#[derive(Debug)]
pub struct Dispatcher {
    local_addr: SocketAddr,
    server: Option<Server>,
    lane: Option<Lane>,
}

impl Dispatcher {
    /// Binds and serves. Its records are kept in [`DispatcherConfig::work_dir`], and it goes on where they
    /// end; without one they are in memory, and it begins again each time. Blocks while they are read.
    ///
    /// # Errors
    /// [`DispatcherError`] names the address or the file, and what to do.
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
                "the client timeout is not longer than the interval of heartbeats, so readers lapse though they live: raise it"
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

    /// Returns the address of the dispatcher.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops it from elsewhere, as often as one likes; `None` once it has stopped.
    pub fn stopper(&self) -> Option<ServerStopper> {
        self.server.as_ref().map(Server::stopper)
    }

    /// Returns whether it has ended: it was told to, its service was shut down, or its store failed.
    /// [`Dispatcher::join`] says why.
    pub fn has_ended(&self) -> bool {
        self.server.as_ref().is_none_or(Server::has_ended)
    }

    /// Says goodbye and ends, within seconds.
    ///
    /// # Errors
    /// Its store failed, or a part of it panicked.
    pub fn stop(self) -> Result<(), DispatcherError> {
        if let Some(stopper) = self.stopper() {
            stopper.stop();
        }
        self.join()
    }

    /// Waits until it has ended: its stopper was used, its service was shut down, or its store failed.
    ///
    /// # Errors
    /// Its store failed, or a part of it panicked.
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

/// Has the calling thread run before others of a crowded host, where the process may ask for it. The
/// dispatcher needs little time, but hundreds of workers and readers wait for it: without its turn,
/// heartbeats are dropped that their senders sent in time.
fn raise_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "the dispatcher runs at the priority of its process: give it CAP_SYS_NICE, or a processor of its own");
    }
}
