//! The server's side of connections: handshakes with a deadline and limits, and quotas for accepted
//! connections.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use parking_lot::Mutex;
use quinn::{Connection, ConnectionError, Incoming, VarInt};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};

use super::handshakes::{Admission, Handshakes, Origin};
use super::{Endpoint, revocation};
use crate::identity::Role;
use crate::tls::{peer_certificate, peer_role};

/// The application close code of a connection beyond a quota. The protocols above do not use this number.
pub const CLOSE_OVER_QUOTA: u32 = 6;
/// The minimum time between two warnings about refused peers.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// The identification of a peer process, by the digest of its certificate.
type PeerId = [u8; 32];

/// Accepts an endpoint's connections. Handshakes run concurrently, and end when the acceptor is dropped.
#[derive(Debug)]
pub struct Acceptor {
    endpoint: Endpoint,
    handshakes: JoinSet<Option<Accepted>>,
    places: Handshakes,
    state: Arc<State>,
}

/// A reader of an [`Acceptor`]'s counts, which works from other threads and after the acceptor's end.
#[derive(Clone, Debug)]
pub struct AcceptCounter {
    state: Arc<State>,
}

/// A connection whose peer has proved a role that this server admits.
#[derive(Debug)]
pub struct Accepted {
    /// The established connection.
    pub connection: Connection,
    /// The role that the peer has proved.
    pub role: Role,
    /// The connection's place in the quotas. The caller must keep it as long as the connection.
    pub permit: ConnectionPermit,
}

/// A connection's place in the server's quotas, which is freed on drop.
#[derive(Debug)]
pub struct ConnectionPermit {
    peer: PeerId,
    is_read: bool,
    state: Arc<State>,
    /// The end of the watch for a revocation of the peer. Dropping it ends the watch.
    _watch: Option<oneshot::Sender<()>>,
}

impl ConnectionPermit {
    /// Returns the SHA-256 of the peer's certificate. Processes that use the same site certificate have the
    /// same digest.
    pub fn peer(&self) -> [u8; 32] {
        self.peer
    }
}

/// The numbers of connections that an acceptor has accepted and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptCounts {
    /// The number of connections handed over.
    pub accepted: u64,
    /// The number of clients asked to prove their address first.
    pub retried: u64,
    /// The number of clients refused because too many handshakes were in progress, in total or with their
    /// address.
    pub refused_busy: u64,
    /// The number of failed handshakes: wrong key, role or version, or a peer that disappeared.
    pub failed: u64,
    /// The number of handshakes that did not end in time, or that were evicted.
    pub timed_out: u64,
    /// The number of connections closed after the handshake because the server or the peer had too many
    /// connections.
    pub over_quota: u64,
}

#[derive(Debug, Default)]
struct State {
    open: Mutex<OpenConnections>,
    warnings: Mutex<Warnings>,
    accepted: AtomicU64,
    retried: AtomicU64,
    refused_busy: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    over_quota: AtomicU64,
}

/// The limit on warnings about refused peers, so that a peer without a key cannot fill the log.
#[derive(Debug, Default)]
struct Warnings {
    latest: Option<Instant>,
    /// The number of refusals since the latest warning that were not logged.
    unnamed: u64,
}

impl Warnings {
    /// Returns the number of unlogged refusals if the present refusal should be logged, else `None`.
    fn note(&mut self, now: Instant) -> Option<u64> {
        let is_due = self.latest.is_none_or(|latest| now - latest >= WARN_EVERY);
        if is_due {
            self.latest = Some(now);
            return Some(std::mem::take(&mut self.unnamed));
        }
        self.unnamed += 1;
        None
    }
}

#[derive(Debug, Default)]
struct OpenConnections {
    total: usize,
    /// The number of connections with peers of the role `read`.
    of_read: usize,
    of_peer: HashMap<PeerId, usize>,
}

impl AcceptCounter {
    /// Returns the counts so far.
    pub fn counts(&self) -> AcceptCounts {
        // The counters are relaxed, because they are independent and only shown to people.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AcceptCounts {
            accepted: read(&self.state.accepted),
            retried: read(&self.state.retried),
            refused_busy: read(&self.state.refused_busy),
            failed: read(&self.state.failed),
            timed_out: read(&self.state.timed_out),
            over_quota: read(&self.state.over_quota),
        }
    }
}

impl Endpoint {
    /// Returns an acceptor, which accepts connections until it is dropped. Returns `None` for an endpoint
    /// that only connects.
    ///
    /// The caller should use one acceptor at a time, because each acceptor admits as many connections as the
    /// limits allow.
    pub fn acceptor(&self) -> Option<Acceptor> {
        self.is_server().then(|| Acceptor::new(self.clone()))
    }
}

impl Acceptor {
    fn new(endpoint: Endpoint) -> Acceptor {
        let config = endpoint.config();
        let places = Handshakes::new(config.handshakes_max, config.handshakes_per_address_max);
        Acceptor {
            endpoint,
            handshakes: JoinSet::new(),
            places,
            state: Arc::default(),
        }
    }

    /// Waits for the next connection. Returns `None` after the endpoint was closed.
    ///
    /// Cancel-safe. A peer that fails its handshake is logged and counted, and never ends the loop. While the
    /// caller does not wait here, handshakes in progress continue, and at most `handshakes_max` new
    /// handshakes queue.
    pub async fn accept(&mut self) -> Option<Accepted> {
        loop {
            tokio::select! {
                incoming = self.endpoint.quic().accept() => self.admit(incoming?),
                Some(done) = self.handshakes.join_next() => {
                    if let Some(accepted) = self.finish(done) {
                        return Some(accepted);
                    }
                }
            }
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> AcceptCounts {
        self.counter().counts()
    }

    /// Returns a reader of the counts that outlives this acceptor.
    pub fn counter(&self) -> AcceptCounter {
        AcceptCounter {
            state: Arc::clone(&self.state),
        }
    }

    fn admit(&mut self, incoming: Incoming) {
        let (peer, now) = (incoming.remote_address(), Instant::now());
        let origin = match incoming.remote_address_validated() {
            true => Origin::proved(peer.ip()),
            false => Origin::Unproved,
        };
        match self.places.admit(origin, now) {
            Admission::Begin => {
                let handshake = handshake(self.endpoint.clone(), incoming, Arc::clone(&self.state));
                let task = self.handshakes.spawn(handshake);
                self.places.begin(origin, task, now);
            }
            Admission::Prove => {
                count(&self.state.retried);
                if let Err(error) = incoming.retry() {
                    // A retry fails only for a proved address, which cannot occur here.
                    error.into_incoming().refuse();
                }
            }
            Admission::Refuse => {
                tracing::debug!(%peer, "too many handshakes, in all or with this address");
                count(&self.state.refused_busy);
                incoming.refuse();
            }
        }
    }

    fn finish(&self, done: Result<Option<Accepted>, JoinError>) -> Option<Accepted> {
        let accepted = match done {
            Ok(accepted) => accepted?,
            Err(error) if error.is_cancelled() => {
                tracing::debug!("a stalled handshake was evicted to make room for another");
                count(&self.state.timed_out);
                return None;
            }
            Err(error) => {
                tracing::error!(%error, "a handshake task died");
                count(&self.state.failed);
                return None;
            }
        };
        count(&self.state.accepted);
        Some(accepted)
    }
}

async fn handshake(endpoint: Endpoint, incoming: Incoming, state: Arc<State>) -> Option<Accepted> {
    let peer = incoming.remote_address();
    let config = endpoint.server_config_for(peer)?;
    let connecting = match incoming.accept_with(config) {
        Ok(connecting) => connecting,
        Err(error) => return failed(&state, peer, &error),
    };
    let deadline = endpoint.config().handshake_deadline;
    let connection = match tokio::time::timeout(deadline, connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            if matches!(
                error,
                ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_)
            ) {
                warn_of(&state, peer, &error);
            }
            return failed(&state, peer, &error);
        }
        Err(_) => {
            tracing::debug!(%peer, ?deadline, "a handshake did not end in time");
            count(&state.timed_out);
            return None;
        }
    };
    let (Some(role), Some(certificate)) = (peer_role(&connection), peer_certificate(&connection)) else {
        warn_of(&state, peer, &"the peer proved no role");
        return failed(&state, peer, &"the peer proved no role");
    };
    let mut id = PeerId::default();
    id.copy_from_slice(digest::digest(&digest::SHA256, &certificate).as_ref());
    let mut permit = match ConnectionPermit::take(&state, (id, role), &endpoint) {
        Ok(permit) => permit,
        Err(reason) => {
            tracing::warn!(%peer, %role, %reason, "closed a connection beyond a quota");
            count(&state.over_quota);
            connection.close(VarInt::from_u32(CLOSE_OVER_QUOTA), reason.as_bytes());
            return None;
        }
    };
    if let Some(revocations) = endpoint.revocations() {
        permit._watch = Some(revocation::watch(connection.clone(), Arc::clone(revocations)));
    }
    Some(Accepted {
        connection,
        role,
        permit,
    })
}

/// Logs that a peer was refused because of its key, its role or its version. The errors of a handshake
/// contain no secrets.
fn warn_of(state: &State, peer: SocketAddr, error: &dyn std::fmt::Display) {
    let due = state.warnings.lock().note(Instant::now());
    if let Some(unnamed) = due {
        tracing::warn!(%peer, %error, unnamed, "a peer was refused: check its key, its role and its version");
    }
}

fn failed(state: &State, peer: SocketAddr, error: &dyn std::fmt::Display) -> Option<Accepted> {
    tracing::debug!(%peer, %error, "a handshake failed");
    count(&state.failed);
    None
}

fn count(counter: &AtomicU64) {
    // Relaxed suffices, because the counters order nothing.
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Decreases a count, and removes a count of zero from the map.
fn give_back<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl ConnectionPermit {
    /// Takes a place in the quotas. Returns the exhausted quota as a text for the peer.
    fn take(
        state: &Arc<State>,
        (peer, role): (PeerId, Role),
        endpoint: &Endpoint,
    ) -> Result<ConnectionPermit, String> {
        let mut open = state.open.lock();
        let of_peer = open.of_peer.get(&peer).copied().unwrap_or(0);
        let config = endpoint.config();
        if of_peer >= config.connections_per_peer_max {
            return Err(format!(
                "this process already has {of_peer} connections with the server, the maximum (connections_per_peer_max)"
            ));
        }
        if open.total >= config.connections_max {
            return Err(format!(
                "the server already has {} connections, its maximum (connections_max)",
                open.total
            ));
        }
        let (is_read, share) = (role == Role::Read, config.connections_max.div_ceil(4) * 3);
        if is_read && open.of_read >= share {
            return Err(format!(
                "the server already has {share} connections with processes of role `read`, their maximum (three quarters \
                 of connections_max)"
            ));
        }
        open.total += 1;
        open.of_read += usize::from(is_read);
        open.of_peer.insert(peer, of_peer + 1);
        Ok(ConnectionPermit {
            peer,
            is_read,
            state: Arc::clone(state),
            _watch: None,
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.state.open.lock();
        open.total -= 1;
        open.of_read -= usize::from(self.is_read);
        give_back(&mut open.of_peer, &self.peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_logged_rarely() {
        let (mut warnings, begun) = (Warnings::default(), Instant::now());
        let named = |warnings: &mut Warnings, ms| warnings.note(begun + Duration::from_millis(ms));
        assert_eq!(named(&mut warnings, 0), Some(0));
        for ms in 1..10_000 {
            assert_eq!(named(&mut warnings, ms), None);
        }
        assert_eq!(named(&mut warnings, 10_000), Some(9_999));
        assert_eq!(named(&mut warnings, 30_000), Some(0));
    }
}
