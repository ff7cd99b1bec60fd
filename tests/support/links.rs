//! Links over each transport between two ends in this process.

use std::sync::Arc;
use std::time::Duration;

use millstream::dataplane::TaskId;
use millstream::dataplane::proto::receive::ReceiveError;
use millstream::dataplane::transport::memory::{self, Knobs};
use millstream::dataplane::transport::quic::{self, PathReporter};
use millstream::dataplane::transport::{Admission, ClientLink, WorkerLink};
use millstream::element::{HeapAlloc, SlotAlloc};
use millstream::link::{ClusterKey, Endpoint, EndpointConfig, Role};

/// An admission that accepts packs of up to this many bytes.
#[derive(Debug)]
pub(crate) struct UpTo(pub(crate) u64);

impl Admission for UpTo {
    fn admit(&self, _: TaskId, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError> {
        if region_bytes <= self.0 {
            return Ok(());
        }
        let _ = first;
        Err(ReceiveError::Oversized {
            region_bytes,
            elements,
            element_bytes: self.0,
        })
    }

    fn slot_alloc(&self) -> &dyn SlotAlloc {
        &HeapAlloc
    }
}

/// The two ends of a link, with the values that must live as long.
pub(crate) struct Ends {
    pub(crate) worker: Box<WorkerLink>,
    pub(crate) client: Box<ClientLink>,
    _keeps: Vec<Box<dyn std::any::Any>>,
}

/// The transports of links.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mechanism {
    Memory,
    #[cfg(target_os = "linux")]
    Shm,
    Quic,
}

impl Mechanism {
    pub(crate) async fn connect(self, admission: Arc<dyn Admission>) -> Ends {
        match self {
            Self::Memory => {
                let (worker, client) = memory::pair(admission, Knobs::default());
                Ends {
                    worker,
                    client,
                    _keeps: Vec::new(),
                }
            }
            #[cfg(target_os = "linux")]
            Self::Shm => connect_shm(admission).await,
            Self::Quic => connect_quic(admission).await,
        }
    }
}

/// The task whose packs the tests of links send.
pub(crate) const TASK: TaskId = TaskId(9);

#[cfg(target_os = "linux")]
async fn connect_shm(admission: Arc<dyn Admission>) -> Ends {
    use millstream::dataplane::transport::shm::{self, Listener, ListenerConfig};

    let mut listener = Listener::bind(&ListenerConfig::default()).expect("a socket");
    let address = listener.address().clone();
    let accepted = async {
        let incoming = listener.accept().await;
        shm::accept(incoming).await
    };
    let (worker, client) = tokio::join!(accepted, shm::connect(&address, admission));
    let (mut worker, client) = (worker.expect("a link"), client.expect("a link"));
    worker.attach(TASK, &OneArena::new()).expect("an arena");
    Ends {
        worker,
        client,
        _keeps: vec![Box::new(listener)],
    }
}

/// The memory of a task: an arena of 64 MiB.
#[cfg(target_os = "linux")]
struct OneArena(Arc<millstream::dataplane::transport::Arena>);

#[cfg(target_os = "linux")]
impl OneArena {
    fn new() -> Self {
        use millstream::dataplane::transport::{Arena, ArenaBudget};

        let bytes = 64 << 20;
        let arena = Arena::new(bytes, false, &ArenaBudget::new(bytes, None)).expect("memory");
        Self(Arc::new(arena))
    }
}

#[cfg(target_os = "linux")]
impl millstream::dataplane::transport::TaskMemory for OneArena {
    fn arena(&self) -> Option<Arc<millstream::dataplane::transport::Arena>> {
        Some(self.0.clone())
    }

    fn is_shared(&self) -> bool {
        false
    }
}

async fn connect_quic(admission: Arc<dyn Admission>) -> Ends {
    let key = ClusterKey::generate().expect("randomness");
    let alpn = std::str::from_utf8(quic::ALPN).expect("ascii");
    let config = EndpointConfig::default();
    let server = Endpoint::bind_server(
        key.credentials(Role::Worker),
        &[alpn],
        &[Role::Read],
        config.clone(),
    );
    let server = server.expect("a free port");
    let reader = Endpoint::client(key.credentials(Role::Read), config).expect("a free port");
    let mut acceptor = server.acceptor().expect("a server");
    let deadline = Duration::from_secs(10);
    let (accepted, connection) = tokio::join!(
        acceptor.accept(),
        reader.connect(server.local_addr(), Role::Worker, alpn, deadline),
    );
    let (accepted, connection) = (accepted.expect("accepted"), connection.expect("connected"));
    let path = PathReporter::new(reader.clone(), connection);
    let mut client = quic::connect(path, admission).await.expect("a link");
    // A stream exists for the peer only after the first byte was written.
    super::links::say_hello(&mut client);
    let path = PathReporter::new(server.clone(), accepted.connection);
    let worker = quic::accept(path, deadline).await.expect("a link");
    Ends {
        worker,
        client,
        _keeps: vec![
            Box::new(server),
            Box::new(reader),
            Box::new(accepted.permit),
            Box::new(acceptor),
        ],
    }
}

fn say_hello(client: &mut Box<ClientLink>) {
    use millstream::dataplane::proto::message::{Hello, ToWorker};
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(client.poll_ready(&mut cx).is_ready());
    client.try_send(ToWorker::Hello(Hello::current())).expect("room");
}
