//! Handshakes and connections at their limits.

use std::net::{Ipv4Addr, UdpSocket};

use super::super::RefusalReason;
use super::*;

/// Leaves a server with a handshake that never goes on: the client's first datagrams are passed on, the answers not.
async fn stalled_handshake(server: &Server) -> tokio::task::JoinHandle<()> {
    let relay = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let relay_address = relay.local_addr().unwrap();
    let client = client(cluster().credentials(Role::Read));
    let stalled = tokio::spawn(async move {
        client
            .connect(relay_address, Role::Worker, ALPN, WATCHDOG)
            .await
            .unwrap_err();
    });
    let to = server.endpoint.local_addr();
    let relayed = tokio::task::spawn_blocking(move || {
        let mut datagram = [0; 2048];
        let (size_bytes, _) = relay.recv_from(&mut datagram).unwrap();
        relay.send_to(&datagram[..size_bytes], to).unwrap();
        relay
    });
    drop(within(relayed).await.unwrap());
    stalled
}

fn limited(handshakes_max: usize, handshake_deadline: Duration) -> Server {
    let config = EndpointConfig {
        handshakes_max,
        handshake_deadline,
        ..EndpointConfig::default()
    };
    Server::start(cluster().credentials(Role::Worker), &[Role::Read], config)
}

#[tokio::test]
async fn above_half_of_the_handshakes_clients_prove_their_address_and_get_in() {
    let mut server = limited(2, WATCHDOG);
    let stalled = stalled_handshake(&server).await;
    let client = client(cluster().credentials(Role::Read));
    connect(&client, &server).await.unwrap();
    server.accept().await;
    server
        .counted(|counts| counts.retried == 1 && counts.accepted == 1)
        .await;
    stalled.abort();
}

#[tokio::test]
async fn beyond_the_limit_clients_are_told_to_come_back_and_then_get_in() {
    let mut server = limited(1, Duration::from_millis(500));
    let stalled = stalled_handshake(&server).await;
    let client = client(cluster().credentials(Role::Read));
    let error = connect(&client, &server).await.unwrap_err();
    assert!(
        matches!(
            error,
            ConnectError::Refused {
                reason: RefusalReason::Busy,
                ..
            }
        ),
        "{error:?}"
    );
    server.counted(|counts| counts.timed_out == 1).await;
    connect(&client, &server).await.unwrap();
    server.accept().await;
    stalled.abort();
}

#[tokio::test]
async fn a_peer_beyond_its_quota_is_closed_and_may_return_when_there_is_room() {
    let config = EndpointConfig {
        connections_per_peer_max: 1,
        ..EndpointConfig::default()
    };
    let mut server = Server::start(cluster().credentials(Role::Worker), &[Role::Read], config);
    let greedy = client(cluster().credentials(Role::Read));
    let _first = connect(&greedy, &server).await.unwrap();
    let kept = server.accept().await;
    // The server says no after the handshake, so the connection may just have been made, or be closed already.
    if let Ok(second) = connect(&greedy, &server).await {
        within(second.closed()).await;
    }
    server.counted(|counts| counts.over_quota == 1).await;
    let other = client(cluster().credentials(Role::Read));
    connect(&other, &server).await.unwrap();
    server.accept().await;
    drop(kept);
    connect(&greedy, &server).await.unwrap();
    server.accept().await;
}

#[tokio::test]
async fn a_closed_endpoint_ends_its_accept_loop_and_its_attempts() {
    let server = Server::worker();
    let endpoint = server.endpoint.clone();
    let mut acceptor = endpoint.acceptor().unwrap();
    endpoint.close("bye");
    assert!(within(acceptor.accept()).await.is_none());
    let client = client(cluster().credentials(Role::Read));
    client.close("bye");
    let error = connect(&client, &server).await.unwrap_err();
    assert!(matches!(error, ConnectError::EndpointClosed { .. }), "{error:?}");
}

#[tokio::test]
async fn a_client_without_an_acceptor_and_ipv4_without_ipv6() {
    let config = EndpointConfig {
        bind: Some((Ipv4Addr::LOCALHOST, 0).into()),
        ..EndpointConfig::default()
    };
    let client = Endpoint::client(cluster().credentials(Role::Read), config).unwrap();
    assert!(client.acceptor().is_none());
    let six = "[::1]:9".parse().unwrap();
    let error = client
        .connect(six, Role::Worker, ALPN, WATCHDOG)
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
}
