//! The MTU in force must be the requested MTU, on both sides, even if several connections share the socket.

use std::net::{Ipv4Addr, SocketAddr};

use super::super::PathReport;
use super::*;

const STREAM_BYTES: usize = 1 << 20;
const STREAMS: usize = 16;

/// Sends and receives `STREAMS` streams at the same time, and checks every byte.
async fn transfer(connection: &Connection, seed: u8) {
    let sending = async {
        for _ in 0..STREAMS {
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_chunk(vec![seed; STREAM_BYTES].into()).await.unwrap();
            stream.finish().unwrap();
        }
    };
    let receiving = async {
        for _ in 0..STREAMS {
            let mut stream = connection.accept_uni().await.unwrap();
            let received = stream.read_to_end(STREAM_BYTES).await.unwrap();
            assert!(received.len() == STREAM_BYTES && received.iter().all(|byte| *byte == seed));
        }
    };
    tokio::join!(sending, receiving);
}

/// Transfers until the search for the MTU is over, and then once more at the final MTU.
async fn settle(endpoint: &Endpoint, connection: &Connection, mtu: u16) -> PathReport {
    let seed = mtu.to_le_bytes()[0];
    // Both sides run the same number of rounds, so that their streams pair up. The number of rounds suffices
    // for any MTU search.
    for _ in 0..3 {
        transfer(connection, seed).await;
    }
    // The last probe may still be in flight. The next keep-alive completes it.
    while endpoint.path_report(connection).mtu != mtu {
        assert_eq!(endpoint.path_report(connection).black_holes, 0);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    endpoint.path_report(connection)
}

async fn both_ways_at(
    server_bind: SocketAddr,
    server_mtu: Option<u16>,
    client_mtus: &[Option<u16>],
    agreed: &[u16],
) {
    let config = EndpointConfig {
        bind: Some(server_bind),
        mtu: server_mtu,
        ..EndpointConfig::default()
    };
    let mut server = Server::start(cluster().credentials(Role::Worker), &[Role::Read], config);
    let mut transfers = tokio::task::JoinSet::new();
    for (&mtu, &agreed) in client_mtus.iter().zip(agreed) {
        let config = EndpointConfig {
            mtu,
            ..EndpointConfig::default()
        };
        let client = Endpoint::client(cluster().credentials(Role::Read), config).unwrap();
        let connection = connect(&client, &server).await.unwrap();
        let accepted = server.accept().await;
        let endpoint = server.endpoint.clone();
        transfers.spawn(async move {
            let far = settle(&endpoint, &accepted.connection, agreed);
            let near = settle(&client, &connection, agreed);
            let (far, near) = tokio::join!(far, near);
            // Both ends stay open until both are done.
            drop((accepted, connection));
            [far, near].map(|report| (agreed, report))
        });
    }
    for (agreed, report) in within(transfers.join_all()).await.into_iter().flatten() {
        assert_eq!(report.mtu, agreed);
        assert_eq!(report.black_holes, 0, "{report:?}");
        assert!(report.congestion_window_bytes <= 700_000, "{report:?}");
        assert_eq!(report.cipher, "TLS13_AES_128_GCM_SHA256");
        assert!(report.rcvbuf_bytes > 0 && report.sndbuf_bytes > 0);
    }
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_serves_three_mtus() {
    both_ways_at(
        loopback(),
        None,
        &[Some(1452), Some(8952), Some(65_495)],
        &[1452, 8952, 65_495],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_client_reads_two_mtus() {
    let client = client(cluster().credentials(Role::Read));
    let mut transfers = tokio::task::JoinSet::new();
    for mtu in [1452, 8952] {
        let config = EndpointConfig {
            mtu: Some(mtu),
            ..EndpointConfig::default()
        };
        let mut server = Server::start(cluster().credentials(Role::Worker), &[Role::Read], config);
        let connection = connect(&client, &server).await.unwrap();
        let client = client.clone();
        transfers.spawn(async move {
            let accepted = server.accept().await;
            let far = settle(&server.endpoint, &accepted.connection, mtu);
            let near = settle(&client, &connection, mtu);
            let (far, near) = tokio::join!(far, near);
            [far, near].map(|report| (mtu, report))
        });
    }
    for (mtu, report) in within(transfers.join_all()).await.into_iter().flatten() {
        assert_eq!((report.mtu, report.black_holes), (mtu, 0), "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smaller_mtu_counts_to_the_byte() {
    both_ways_at(
        loopback(),
        Some(8952),
        &[Some(1201), Some(1452), None],
        &[1201, 1452, 8952],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_default_loopback_is_discovered_in_full() {
    both_ways_at(loopback(), None, &[None], &[65_495]).await;
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        both_ways_at("[::1]:0".parse().unwrap(), None, &[None], &[65_488]).await;
    }
}
