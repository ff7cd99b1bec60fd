//! Serves a worker's data plane over QUIC: accepts links, and runs a session on each link.

use std::time::Duration;

use millstream_dataplane::transport::quic::{self, PathReporter};
use millstream_dataplane::worker::Server;
use millstream_link::Endpoint;
use tokio::task::JoinSet;

/// The time within which a client must open its first stream after the handshake.
const FIRST_STREAM_DEADLINE: Duration = Duration::from_secs(5);

/// The time between two searches for clients that lost their link and did not return.
const FORGET_EVERY: Duration = Duration::from_secs(5);

/// Serves until the endpoint is closed. Dropping the future ends all sessions.
pub(crate) async fn serve(endpoint: Endpoint, server: Server) {
    let Some(mut acceptor) = endpoint.acceptor() else {
        return;
    };
    let mut sessions = JoinSet::new();
    let mut forget = tokio::time::interval(FORGET_EVERY);
    forget.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = acceptor.accept() => {
                let Some(accepted) = accepted else { break };
                let path = PathReporter::new(endpoint.clone(), accepted.connection);
                let (server, permit) = (server.clone(), accepted.permit);
                sessions.spawn(async move {
                    match quic::accept(path, FIRST_STREAM_DEADLINE).await {
                        Ok(link) => {
                            let end = server.serve(link).await;
                            tracing::debug!(lost = %end.lost, "session ended");
                        }
                        Err(lost) => tracing::info!(%lost, "a client connected but did not start a session"),
                    }
                    drop(permit);
                });
            }
            Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
            _ = forget.tick() => server.forget_absent(),
        }
    }
}
