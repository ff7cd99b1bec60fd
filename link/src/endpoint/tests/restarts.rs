//! Tests servers that are killed and restarted at the same address.

use std::net::SocketAddr;

use quinn::ConnectionError;
use tokio::runtime::Builder;

use super::*;

/// The idle timeout, longer than the watchdog, so that silence ends no connection in this test.
const PATIENT: Duration = Duration::from_secs(600);

#[test]
fn a_crashed_servers_successor_resets_its_peers() {
    let clients = Builder::new_multi_thread().enable_all().build().unwrap();
    let first = Builder::new_current_thread().enable_all().build().unwrap();
    let mut server = first.block_on(async { serve(None) });
    let address = server.endpoint.local_addr();
    let (accepted, connection) = first.block_on(async {
        let connecting = clients.spawn(connect_to(address));
        (server.accept().await, connecting.await.unwrap())
    });
    // The server is dropped in this order, so that nothing can send a close to the peer.
    drop(first);
    drop((accepted, server));
    let second = Builder::new_multi_thread().enable_all().build().unwrap();
    let _server = second.block_on(async { serve(Some(address)) });
    let ended = clients.block_on(within(connection.closed()));
    assert!(matches!(ended, ConnectionError::Reset), "{ended}");
}

async fn connect_to(address: SocketAddr) -> Connection {
    let config = EndpointConfig {
        idle_timeout: PATIENT,
        keep_alive: Some(Duration::from_millis(20)),
        ..EndpointConfig::default()
    };
    let client = Endpoint::client(cluster().credentials(Role::Read), config).unwrap();
    let connecting = client.connect(address, Role::Worker, ALPN, WATCHDOG);
    connecting.await.unwrap()
}

fn serve(bind: Option<SocketAddr>) -> Server {
    let config = EndpointConfig {
        bind,
        idle_timeout: PATIENT,
        ..EndpointConfig::default()
    };
    Server::start(cluster().credentials(Role::Worker), &[Role::Read], config)
}
