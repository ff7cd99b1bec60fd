//! Tests of a session with two lives of a dispatcher, one after the other at one address.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use millstream_link::{ClusterKey, Endpoint, EndpointConfig, HostPort, Role};
use tokio::sync::mpsc;

use super::{Session, SessionConfig, SessionEvent};
use crate::error::Code;
use crate::id::JobId;
use crate::planner::{DatasetFacts, PlanError, Planner, SplitPlan};
use crate::rpc::server::{Server, ServerConfig};
use crate::rpc::wire::WireRequest;
use crate::store::MemoryStore;
use crate::whereabouts::Whereabouts;

const WATCHDOG: Duration = Duration::from_secs(60);

/// Tests that a request does not reach another life of the dispatcher, where ids have other meanings
/// (C1.8). The test does not read the session's events, so that the session alone must fail in time.
#[tokio::test]
async fn requests_do_not_outlive_their_dispatchers_memory() {
    let key = ClusterKey::generate().unwrap();
    let first = dispatcher(&key, None);
    let address = first.local_addr();
    let endpoint = Endpoint::client(key.credentials(Role::Read), EndpointConfig::default()).unwrap();
    let (events, mut heard) = mpsc::channel(16);
    let named: HostPort = address.to_string().parse().unwrap();
    let session = Session::start(endpoint, named.into(), SessionConfig::default(), events);
    assert!(matches!(heard.recv().await, Some(SessionEvent::Up)));
    stop(first).await;
    let request = WireRequest::OpenIteration {
        job: JobId(5000),
        repetition: 0,
        consumer: None,
        whereabouts: Whereabouts::default(),
    };
    // The new dispatcher would answer that the job does not exist.
    let (answer, _second) = tokio::join!(session.call(request, WATCHDOG), async {
        dispatcher(&key, Some(address))
    });
    let error = answer.unwrap_err();
    assert_eq!(error.code, Code::Aborted, "{error}");
    assert!(matches!(heard.recv().await, Some(SessionEvent::Down(_))));
    assert!(matches!(heard.recv().await, Some(SessionEvent::Restarted)));
    assert!(heard.recv().await.is_none());
}

/// Stops a server and waits until its port is free. The server's accepting task may hold the port a moment
/// longer.
async fn stop(server: Server) {
    let address = server.local_addr();
    server.shutdown().await.unwrap();
    while UdpSocket::bind(address).is_err() {
        tokio::task::yield_now().await;
    }
}

fn dispatcher(key: &ClusterKey, bind: Option<SocketAddr>) -> Server {
    let config = ServerConfig {
        endpoint: EndpointConfig {
            bind,
            ..EndpointConfig::default()
        },
        ..ServerConfig::default()
    };
    let credentials = key.credentials(Role::Dispatcher);
    Server::start(
        credentials,
        config,
        Arc::new(NoPlanner),
        Box::new(MemoryStore::new()),
    )
    .unwrap()
}

struct NoPlanner;

impl Planner for NoPlanner {
    fn facts(&self, _definition: &[u8]) -> Result<DatasetFacts, PlanError> {
        Err(PlanError::Definition("nothing is planned here".to_owned()))
    }

    fn plan_splits(&self, _definition: &[u8], _repetition: u64) -> Result<SplitPlan, PlanError> {
        Err(PlanError::Definition("nothing is planned here".to_owned()))
    }
}
