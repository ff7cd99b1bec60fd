//! Tests of links over real loopback sockets: admission, limits, MTU and restarts.

mod admission;
mod flood;
mod limits;
mod mtu;
mod restarts;

use std::future::Future;
use std::time::Duration;

use quinn::Connection;
use tokio::sync::mpsc;

use super::{AcceptCounts, Accepted, ConnectError, Endpoint, EndpointConfig};
use crate::identity::{ClusterKey, Credentials, Role};

const ALPN: &str = "millstream-test/1";
/// The timeout of all waits, at least ten times longer than any step takes.
const WATCHDOG: Duration = Duration::from_secs(60);

fn cluster() -> ClusterKey {
    ClusterKey::from_bytes([42; 32])
}

/// A server whose accept loop runs in a task, until it is dropped.
struct Server {
    endpoint: Endpoint,
    accepted: mpsc::Receiver<Accepted>,
    counts: tokio::sync::watch::Receiver<AcceptCounts>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    fn start(credentials: Credentials, accepted_roles: &[Role], config: EndpointConfig) -> Server {
        let endpoint = Endpoint::bind_server(credentials, &[ALPN], accepted_roles, config).unwrap();
        let mut acceptor = endpoint.acceptor().unwrap();
        let (sender, accepted) = mpsc::channel(64);
        let (tell, counts) = tokio::sync::watch::channel(acceptor.counts());
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_millis(1));
            loop {
                tokio::select! {
                    next = acceptor.accept() => match next {
                        Some(next) => sender.send(next).await.unwrap(),
                        None => return,
                    },
                    _ = tick.tick() => {}
                }
                tell.send_replace(acceptor.counts());
            }
        });
        Server {
            endpoint,
            accepted,
            counts,
            task,
        }
    }

    fn worker() -> Server {
        Server::start(
            cluster().credentials(Role::Worker),
            &[Role::Read],
            EndpointConfig::default(),
        )
    }

    async fn accept(&mut self) -> Accepted {
        within(self.accepted.recv()).await.unwrap()
    }

    async fn counted(&mut self, reached: impl FnMut(&AcceptCounts) -> bool) {
        within(self.counts.wait_for(reached)).await.unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn client(credentials: Credentials) -> Endpoint {
    Endpoint::client(credentials, EndpointConfig::default()).unwrap()
}

async fn connect(client: &Endpoint, server: &Server) -> Result<Connection, ConnectError> {
    client
        .connect(server.endpoint.local_addr(), Role::Worker, ALPN, WATCHDOG)
        .await
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(WATCHDOG, future)
        .await
        .expect("the awaited event did not occur within the timeout")
}
