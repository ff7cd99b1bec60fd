//! Serves a worker's data plane to processes of its host through shared memory: accepts links, runs a session
//! on each.
//!
//! Where the system cannot, readers of the host use the network as others do.

use std::path::PathBuf;

#[cfg(target_os = "linux")]
use millstream_dataplane::transport::shm::{self, Listener, ListenerConfig};
use millstream_dataplane::worker::Server;
use millstream_link::Lane;
#[cfg(target_os = "linux")]
use tokio::task::JoinSet;

use crate::worker::error::WorkerError;

/// Listens on a lane from then on, until it ends, unless nothing is to be shared. The text is the address
/// that readers are told.
///
/// # Errors
/// The directory that was asked for does not do, or the lane has ended.
#[cfg(target_os = "linux")]
pub(crate) fn listen(
    lane: &Lane,
    directory: Option<PathBuf>,
    shm_bytes: Option<usize>,
    server: Server,
) -> Result<Option<String>, WorkerError> {
    if shm_bytes == Some(0) {
        return Ok(None);
    }
    let is_asked_for = directory.is_some();
    let config = ListenerConfig {
        directory,
        ..ListenerConfig::default()
    };
    let binding = lane.spawn(async move {
        let listener = Listener::bind(&config)?;
        let address = listener.address().to_string();
        tokio::task::spawn_local(serve(listener, server));
        Ok::<_, shm::BindError>(address)
    });
    match binding.wait()? {
        Ok(address) => Ok(Some(address)),
        Err(error) if is_asked_for => Err(WorkerError::Bind(error.to_string())),
        Err(error) => {
            tracing::warn!(%error, "readers on this host are served over the network");
            Ok(None)
        }
    }
}

/// Listens nowhere: memory is shared on Linux only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn listen(
    _: &Lane,
    _: Option<PathBuf>,
    _: Option<usize>,
    _: Server,
) -> Result<Option<String>, WorkerError> {
    Ok(None)
}

/// Serves for ever; sessions end with the future. The listener bounds how many there are.
#[cfg(target_os = "linux")]
async fn serve(mut listener: Listener, server: Server) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            incoming = listener.accept() => {
                let server = server.clone();
                sessions.spawn(async move {
                    match shm::accept(incoming).await {
                        Ok(link) => {
                            let end = server.serve(link).await;
                            tracing::debug!(lost = %end.lost, "session through shared memory ended");
                        }
                        Err(error) => tracing::info!(%error, "a reader on this host did not become a session"),
                    }
                });
            }
            Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
        }
    }
}
