//! The connector of readers to workers: by the best transport there is, falling back to the network.
//!
//! Connects; `transport_choice` decides what is best. Does not know tasks and credits.

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

/// The time that the first attempt to reach a worker may take. Each failure lets the next take twice as long,
/// up to four times: an overloaded worker is slow, and an attempt that is cut short makes it slower.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Attempts whose deadlines grow.
const DOUBLINGS_MAX: u32 = 2;

/// Attempts of one process that begin at a time. Hundreds of handshakes at once would take longer together
/// than each may.
const ATTEMPTS_MAX: usize = 16;

/// An attempt that takes longer leaves its turn to another: a worker that does not answer holds nobody up.
const TURN_MAX: Duration = Duration::from_secs(3);

/// Local sockets that are remembered because a link by them broke; a reader of more workers tries the first
/// again.
const FAILED_MAX: usize = 1024;

/// Connects to workers by the best transport there is.
#[derive(Debug, Clone)]
pub struct AutoConnector {
    endpoint: Endpoint,
    local: LocalWorkers,
    shares_memory: bool,
    /// Local sockets by which no link lasted, and why.
    failed: Arc<Mutex<BTreeMap<String, String>>>,
    /// Workers to which the last attempts over the network failed, and how many.
    failures: Arc<Mutex<BTreeMap<String, u32>>>,
    turns: Arc<Semaphore>,
}

impl AutoConnector {
    /// A connector that uses this endpoint for workers elsewhere.
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

    /// Returns this connector, which then shares no memory with workers in other processes of this host.
    #[must_use]
    pub fn without_shared_memory(self) -> Self {
        Self {
            shares_memory: false,
            ..self
        }
    }

    /// An attempt that begins when few others of this process are under way.
    async fn in_turn<T>(&self, attempt: impl Future<Output = T>) -> T {
        let turn = self.turns.acquire().await;
        let mut attempt = pin!(attempt);
        if let Ok(done) = tokio::time::timeout(TURN_MAX, attempt.as_mut()).await {
            return done;
        }
        drop(turn);
        attempt.await
    }

    /// The workers of this process.
    pub(crate) fn local(&self) -> &LocalWorkers {
        &self.local
    }

    /// A link through shared memory to the worker that listens at this local socket, unless one broke before:
    /// the network then carries on where it stopped.
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
            .map_err(|error| format!("the worker says that it is at {socket}: {error}"))?;
        let link = shm::connect(&address, admission).await;
        link.map_err(|error| error.to_string())
    }

    #[cfg(not(target_os = "linux"))]
    async fn connect_shared(&self, _: &str, _: Arc<dyn Admission>) -> Result<Box<ClientLink>, String> {
        Err("memory is shared on Linux only".to_owned())
    }

    /// A link to a worker of another process.
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
        failed.insert(socket.clone(), format!("shared memory was given up: {why}"));
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

/// A link to a worker of this process.
fn connect_memory(server: &Server, admission: Arc<dyn Admission>) -> Box<ClientLink> {
    let (worker_end, client_end) = memory::pair(admission, Knobs::default());
    let server = server.clone();
    // Ends with the link, which the reader owns the other end of.
    tokio::spawn(async move { server.serve(worker_end).await });
    client_end
}

/// The data plane's protocol, as TLS names it.
pub(crate) fn alpn() -> &'static str {
    std::str::from_utf8(quic::ALPN).unwrap_or_default()
}
