//! Links of each mechanism between two ends in this process.

use std::sync::Arc;
use std::time::Duration;

use millstream::dataplane::TaskId;
use millstream::dataplane::proto::receive::ReceiveError;
use millstream::dataplane::transport::memory::{self, Knobs};
use millstream::dataplane::transport::quic::{self, PathReporter};
use millstream::dataplane::transport::{Admission, ClientLink, WorkerLink};
use millstream::element::{HeapAlloc, SlotAlloc};
use millstream::link::{ClusterKey, Endpoint, EndpointConfig, Role};

/// Admits packs of up to so many bytes.
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

/// Two ends, and what must live as long as they do.
pub(crate) struct Ends {
    pub(crate) worker: Box<WorkerLink>,
    pub(crate) client: Box<ClientLink>,
    _keeps: Vec<Box<dyn std::any::Any>>,
}

/// How a link is made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mechanism {
    Memory,
    Quic,
}

impl Mechanism {
    pub(crate) async fn connect(self, admission: Arc<dyn Admission>) -> Ends {
        match self {
            Self::Memory => {
                let (worker, client) = memory::pair(admission, Arc::new(HeapAlloc), Knobs::default());
                Ends {
                    worker,
                    client,
                    _keeps: Vec::new(),
                }
            }
            Self::Quic => connect_quic(admission).await,
        }
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
    // A stream exists for the peer once something was written to it.
    super::links::say_hello(&mut client);
    let path = PathReporter::new(server.clone(), accepted.connection);
    let worker = quic::accept(path, Arc::new(HeapAlloc), deadline)
        .await
        .expect("a link");
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
