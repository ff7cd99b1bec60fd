//! Serves a worker's data plane through shared memory to processes on its host: accepts links, and runs a
//! session on each link.
//!
//! On systems without support, readers on the host use the network.

use std::path::PathBuf;

#[cfg(target_os = "linux")]
use millstream_dataplane::transport::shm::{self, Listener, ListenerConfig};
use millstream_dataplane::worker::Server;
use millstream_link::Lane;
#[cfg(target_os = "linux")]
use tokio::task::JoinSet;

use crate::worker::error::WorkerError;

/// Starts a listener on the lane, which listens until the lane ends. Returns the listener's address for
/// readers, or `None` if shared memory is switched off or unavailable.
///
/// # Errors
/// The requested directory cannot be used, or the lane has ended.
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
            tracing::warn!(%error, "shared memory is not available: readers on this host use the network");
            Ok(None)
        }
    }
}

/// Returns `None`, because shared memory is supported on Linux only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn listen(
    _: &Lane,
    _: Option<PathBuf>,
    _: Option<usize>,
    _: Server,
) -> Result<Option<String>, WorkerError> {
    Ok(None)
}

/// Serves for ever. Dropping the future ends all sessions; the listener limits their number.
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
                        Err(error) => tracing::info!(%error, "a reader on this host connected but did not start a session"),
                    }
                });
            }
            Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
        }
    }
}
