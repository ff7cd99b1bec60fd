//! Tests handshakes and connections at their limits.

use std::net::{Ipv4Addr, UdpSocket};

use super::super::{PeerLimits, RefusalReason};
use super::*;

/// The point at which a handshake stalls.
#[derive(Clone, Copy, PartialEq)]
enum Stall {
    /// The server has received the client's first packet.
    Begun,
    /// The client has proved its address.
    Proved,
}

/// Leaves a server with a stalled handshake: no datagram is forwarded after the datagram that reached the
/// given point.
async fn stalled_handshake(server: &Server, stall: Stall) -> tokio::task::JoinHandle<()> {
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
        let mut client_address = None;
        loop {
            let (size_bytes, from) = relay.recv_from(&mut datagram).unwrap();
            let datagram = &datagram[..size_bytes];
            if from == to {
                // The server asks for the proof of the address.
                relay.send_to(datagram, client_address.unwrap()).unwrap();
                continue;
            }
            client_address = Some(from);
            relay.send_to(datagram, to).unwrap();
            if stall == Stall::Begun || has_token(datagram) {
                return relay;
            }
        }
    });
    drop(within(relayed).await.unwrap());
    stalled
}

/// Returns whether a client's first packet contains the token that proves its address (RFC 9000, section
/// 17.2.2).
fn has_token(datagram: &[u8]) -> bool {
    let after_version = 5;
    let source_id = after_version + 1 + usize::from(datagram[after_version]);
    let token_length = source_id + 1 + usize::from(datagram[source_id]);
    datagram[token_length] != 0
}

fn limited(handshakes_max: usize, handshake_deadline: Duration) -> Server {
    let config = EndpointConfig {
        handshakes_max,
        handshakes_per_address_max: 1,
        handshake_deadline,
        // The timeouts are long, so that only the deadline ends a handshake.
        idle_timeout: 2 * WATCHDOG,
        ..EndpointConfig::default()
    };
    Server::start(cluster().credentials(Role::Worker), &[Role::Read], config)
}

async fn is_busy(client: &Endpoint, server: &Server) -> bool {
    let error = connect(client, server).await.unwrap_err();
    let busy = RefusalReason::Busy;
    matches!(error, ConnectError::Refused { reason, .. } if reason == busy)
}

#[tokio::test]
async fn crowded_clients_prove_their_address() {
    let mut server = limited(2, WATCHDOG);
    let stalled = stalled_handshake(&server, Stall::Begun).await;
    let client = client(cluster().credentials(Role::Read));
    connect(&client, &server).await.unwrap();
    server.accept().await;
    server
        .counted(|counts| counts.retried == 1 && counts.accepted == 1)
        .await;
    stalled.abort();
}

#[tokio::test]
async fn beyond_the_limit_the_oldest_handshake_makes_room() {
    let mut server = limited(1, WATCHDOG);
    let stalled = stalled_handshake(&server, Stall::Begun).await;
    let client = client(cluster().credentials(Role::Read));
    // Young handshakes are not evicted.
    while connect(&client, &server).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.accept().await;
    server
        .counted(|counts| counts.timed_out == 1 && counts.refused_busy > 0)
        .await;
    stalled.abort();
}

#[tokio::test]
async fn a_slow_handshake_loses_its_place() {
    let mut server = limited(1, Duration::from_millis(100));
    let stalled = stalled_handshake(&server, Stall::Begun).await;
    server.counted(|counts| counts.timed_out == 1).await;
    connect(&client(cluster().credentials(Role::Read)), &server)
        .await
        .unwrap();
    server.accept().await;
    stalled.abort();
}

#[tokio::test]
async fn a_stalling_address_leaves_others_places() {
    let mut server = limited(4, WATCHDOG);
    let mut stalled = Vec::new();
    for stall in [Stall::Begun, Stall::Begun, Stall::Proved] {
        stalled.push(stalled_handshake(&server, stall).await);
    }
    // One place is left, but not for an address that has used its share.
    assert!(is_busy(&client(cluster().credentials(Role::Read)), &server).await);
    let config = EndpointConfig {
        bind: Some((Ipv4Addr::new(127, 0, 0, 2), 0).into()),
        ..EndpointConfig::default()
    };
    let elsewhere = Endpoint::client(cluster().credentials(Role::Read), config).unwrap();
    connect(&elsewhere, &server).await.unwrap();
    server.accept().await;
    stalled.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_limited_client_can_open_nothing_more() {
    let little = PeerLimits {
        stream_window_bytes: 4096,
        connection_window_bytes: 4096,
        uni_streams_max: 0,
        bidi_streams_max: 1,
    };
    let config = EndpointConfig {
        of_accepted: little,
        ..EndpointConfig::default()
    };
    let mut server = Server::start(cluster().credentials(Role::Worker), &[Role::Read], config);
    let client = client(cluster().credentials(Role::Read));
    let connection = connect(&client, &server).await.unwrap();
    let accepted = server.accept().await;
    let (mut send, _recv) = within(connection.open_bi()).await.unwrap();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(std::pin::pin!(connection.open_uni()).poll(&mut cx).is_pending());
    assert!(std::pin::pin!(connection.open_bi()).poll(&mut cx).is_pending());
    // Nobody reads, so at most a window of the offered bytes is accepted.
    let taken = within(send.write(&[7; 1 << 20])).await.unwrap();
    assert_eq!(taken, 4096);
    assert!(std::pin::pin!(send.write(&[7])).poll(&mut cx).is_pending());
    // The client's own limits for data from the server are the usual ones.
    let mut stream = within(accepted.connection.open_uni()).await.unwrap();
    within(stream.write_all(&[7; 1 << 20])).await.unwrap();
}

#[tokio::test]
async fn a_peer_beyond_its_quota_may_return_later() {
    let config = EndpointConfig {
        connections_per_peer_max: 1,
        ..EndpointConfig::default()
    };
    let mut server = Server::start(cluster().credentials(Role::Worker), &[Role::Read], config);
    let greedy = client(cluster().credentials(Role::Read));
    let _first = connect(&greedy, &server).await.unwrap();
    let kept = server.accept().await;
    // The server refuses after the handshake, so the connection may be open for a moment or closed already.
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
async fn readers_leave_connections_to_other_roles() {
    let config = EndpointConfig {
        connections_max: 4,
        ..EndpointConfig::default()
    };
    let accepted = [Role::Read, Role::Submit];
    let mut server = Server::start(cluster().credentials(Role::Worker), &accepted, config);
    let mut kept = Vec::new();
    for _ in 0..3 {
        let reader = client(cluster().credentials(Role::Read));
        let connection = connect(&reader, &server).await.unwrap();
        kept.push((reader, connection, server.accept().await));
    }
    let refused = client(cluster().credentials(Role::Read));
    if let Ok(connection) = connect(&refused, &server).await {
        within(connection.closed()).await;
    }
    server.counted(|counts| counts.over_quota == 1).await;
    let submitter = client(cluster().credentials(Role::Submit));
    connect(&submitter, &server).await.unwrap();
    server.accept().await;
}

#[tokio::test]
async fn a_closed_endpoint_ends_its_loops() {
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
async fn an_endpoint_may_lack_acceptor_and_ipv6() {
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
