//! The connector that links readers to workers over the best transport, with the network as the fallback.
//!
//! This module connects; `transport_choice` decides which transport is best. Does not know tasks and credits.

use std::collections::BTreeMap;
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use millstream_client::{Connected, Connecting, Connector, NotConnected, WorkerPlace};
use millstream_dataplane::transport::memory::{self, Knobs};
use millstream_dataplane::transport::quic::{self, PathReporter};
#[cfg(target_os = "linux")]
use millstream_dataplane::transport::shm::{self, ShmAddress};
use millstream_dataplane::transport::{Admission, ClientLink, LinkLost};
use millstream_dataplane::worker::Server;
use millstream_link::{ConnectError, Endpoint, HostPort, RefusalReason, Role};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::local::LocalWorkers;
use crate::transport_choice::{Choice, ReaderPlace, WhyNotBetter, choose};

/// The deadline of the first attempt to reach a worker. Each failure doubles the deadline of the next
/// attempt, up to four times the first. An overloaded worker is slow, and aborted attempts make it slower.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// The number of failures that double the deadline.
const DOUBLINGS_MAX: u32 = 2;

/// The maximum number of concurrent attempts in one process. Hundreds of concurrent handshakes would make
/// each handshake exceed its deadline.
const ATTEMPTS_MAX: usize = 16;

/// The time after which a slow attempt gives its permit to another attempt. A worker that does not answer
/// thus blocks no other attempt.
const TURN_MAX: Duration = Duration::from_secs(3);

/// The maximum number of local sockets in the list of failed sockets. A reader of more workers tries the
/// oldest failed socket again.
const FAILED_MAX: usize = 1024;

/// A connector that reaches each worker over the best transport.
#[derive(Debug, Clone)]
pub struct AutoConnector {
    endpoint: Endpoint,
    local: LocalWorkers,
    shares_memory: bool,
    /// The local sockets whose link broke, each with the reason.
    failed: Arc<Mutex<BTreeMap<String, String>>>,
    /// The workers whose last attempts over the network failed, each with the number of failures.
    failures: Arc<Mutex<BTreeMap<String, u32>>>,
    turns: Arc<Semaphore>,
}

impl AutoConnector {
    /// Creates a connector that uses this endpoint for workers outside of this process.
    pub fn new(endpoint: Endpoint, local: LocalWorkers) -> Self {
        Self {
            endpoint,
            local,
            shares_memory: true,
            failed: Arc::default(),
            failures: Arc::default(),
            turns: Arc::new(Semaphore::new(ATTEMPTS_MAX)),
        }
    }

    /// Returns this connector with shared memory switched off: workers in other processes of this host are
    /// reached over the network.
    #[must_use]
    pub fn without_shared_memory(self) -> Self {
        Self {
            shares_memory: false,
            ..self
        }
    }

    /// Runs an attempt once fewer than [`ATTEMPTS_MAX`] other attempts of this process hold a permit.
    async fn in_turn<T>(&self, attempt: impl Future<Output = T>) -> T {
        let turn = self.turns.acquire().await;
        let mut attempt = pin!(attempt);
        if let Ok(done) = tokio::time::timeout(TURN_MAX, attempt.as_mut()).await {
            return done;
        }
        drop(turn);
        attempt.await
    }

    /// Returns the workers of this process.
    pub(crate) fn local(&self) -> &LocalWorkers {
        &self.local
    }

    /// Connects through shared memory to the worker that listens at this local socket. Refuses a socket whose
    /// earlier link broke: the network then continues the session.
    #[cfg(target_os = "linux")]
    async fn connect_shared(
        &self,
        socket: &str,
        admission: Arc<dyn Admission>,
    ) -> Result<Box<ClientLink>, String> {
        if let Some(reason) = self.failed.lock().get(socket) {
            return Err(reason.clone());
        }
        let address: ShmAddress = socket
            .parse()
            .map_err(|error| format!("invalid local socket {socket} of the worker: {error}"))?;
        let link = shm::connect(&address, admission).await;
        link.map_err(|error| error.to_string())
    }

    #[cfg(not(target_os = "linux"))]
    async fn connect_shared(&self, _: &str, _: Arc<dyn Admission>) -> Result<Box<ClientLink>, String> {
        Err("shared memory is supported on Linux only".to_owned())
    }

    /// Connects to a worker over the chosen transport, or over the network if shared memory fails.
    async fn connect_other(
        &self,
        choice: Choice<'_, Server>,
        worker: &WorkerPlace,
        admission: Arc<dyn Admission>,
    ) -> Result<Connected, NotConnected> {
        let (link, why) = match choice {
            Choice::Memory(server) => return Ok(connect_memory(&server, admission).into()),
            Choice::Network(why) => (self.connect_quic(&worker.address, admission).await?, why),
            Choice::SharedMemory(socket) => match self.connect_shared(socket, admission.clone()).await {
                Ok(link) => (link, WhyNotBetter::OtherProcess),
                Err(reason) => {
                    let why = WhyNotBetter::Failed(reason);
                    (self.connect_quic(&worker.address, admission).await?, why)
                }
            },
        };
        let not_better = Some(why.to_string().into());
        Ok(Connected { link, not_better })
    }

    async fn connect_quic(
        &self,
        worker: &str,
        admission: Arc<dyn Admission>,
    ) -> Result<Box<ClientLink>, NotConnected> {
        let address = HostPort::from_str(worker).map_err(|error| error.to_string())?;
        let failures = self.failures.lock().get(worker).copied().unwrap_or(0);
        let deadline = CONNECT_DEADLINE * (1 << failures.min(DOUBLINGS_MAX));
        let idle_timeout = self.endpoint.config().idle_timeout.max(deadline);
        let resolved = address
            .resolve(CONNECT_DEADLINE)
            .await
            .map_err(|error| error.to_string())?;
        let mut last = NotConnected::from(format!("{worker} has no address"));
        for address in resolved {
            let place = (Role::Worker, alpn());
            match self
                .endpoint
                .connect_patiently(address, place, deadline, idle_timeout)
                .await
            {
                Ok(connection) => {
                    self.failures.lock().remove(worker);
                    let path = PathReporter::new(self.endpoint.clone(), connection);
                    return quic::connect(path, admission).await.map_err(NotConnected::from);
                }
                Err(error) => last = not_connected(&error),
            }
        }
        let mut counts = self.failures.lock();
        if counts.len() >= FAILED_MAX {
            counts.pop_first();
        }
        counts.insert(worker.to_owned(), failures + 1);
        Err(last)
    }
}

impl Connector for AutoConnector {
    fn connect<'a>(&'a self, worker: &'a WorkerPlace, admission: Arc<dyn Admission>) -> Connecting<'a> {
        let reader = ReaderPlace {
            whereabouts: self.local.whereabouts(),
            shares_memory: self.shares_memory,
        };
        Box::pin(async move {
            let choice = choose(reader, worker, self.local.find(&worker.address));
            self.in_turn(self.connect_other(choice, worker, admission)).await
        })
    }

    fn note_lost(&self, worker: &WorkerPlace, transport: &'static str, why: &LinkLost) {
        let Some(socket) = worker.local_socket.as_ref().filter(|_| transport == "shm") else {
            return;
        };
        let mut failed = self.failed.lock();
        if failed.len() >= FAILED_MAX {
            failed.pop_first();
        }
        failed.insert(
            socket.clone(),
            format!("the link through shared memory broke: {why}"),
        );
    }
}

fn not_connected(error: &ConnectError) -> NotConnected {
    let reason = error.to_string();
    let is_full = matches!(
        error,
        ConnectError::Refused {
            reason: RefusalReason::Full { .. },
            ..
        }
    );
    NotConnected { reason, is_full }
}

/// Connects to a worker of this process.
fn connect_memory(server: &Server, admission: Arc<dyn Admission>) -> Box<ClientLink> {
    let (worker_end, client_end) = memory::pair(admission, Knobs::default());
    let server = server.clone();
    // The session ends with the link, whose other end the reader owns.
    tokio::spawn(async move { server.serve(worker_end).await });
    client_end
}

/// Returns the name of the data plane's protocol for TLS (ALPN).
pub(crate) fn alpn() -> &'static str {
    std::str::from_utf8(quic::ALPN).unwrap_or_default()
}
