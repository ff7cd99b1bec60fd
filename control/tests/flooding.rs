//! Tests of processes with a key that send more than the dispatcher reads. Flow control stops these
//! processes, and other processes are served.

use std::time::Duration;

use millstream_link::Role;

use crate::support::Cluster;
use crate::support::honest::{HONEST, Honest};
use crate::support::raw::Raw;

/// Maximum bytes of one connection that the dispatcher keeps unread (C1.12).
const UNREAD_BYTES_MAX: usize = 256 << 10;
/// The time after which a pending write counts as stopped by flow control.
const STOPPED: Duration = Duration::from_millis(300);

/// Writes to streams of one connection until no more bytes are accepted. Returns the number of accepted
/// bytes.
async fn flood(raw: &Raw, beginning: &[u8]) -> usize {
    let chunk = vec![0; 64 << 10];
    let (mut taken, mut open) = (0, Vec::new());
    while let Ok(streams) = tokio::time::timeout(STOPPED, raw.connection.open_bi()).await {
        let (mut send, recv) = streams.expect("the connection goes on");
        send.write_all(beginning).await.expect("the stream goes on");
        taken += beginning.len();
        while let Ok(written) = tokio::time::timeout(STOPPED, send.write(&chunk)).await {
            taken += written.expect("the stream goes on");
            assert!(taken < 64 << 20, "nothing stops it");
        }
        open.push((send, recv));
        if taken + chunk.len() > UNREAD_BYTES_MAX {
            break;
        }
    }
    taken
}

/// C1.12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unidirectional_streams_are_never_opened() {
    let cluster = Cluster::new();
    let server = cluster.configured(|_| {});
    let honest = Honest::new(&cluster, &server).await;
    let attack = async {
        let raw = Raw::greeted(&cluster, Role::Read, server.local_addr(), 1).await;
        let opened = tokio::time::timeout(STOPPED, raw.connection.open_uni()).await;
        assert!(opened.is_err(), "a unidirectional stream was opened");
    };
    honest.meanwhile(attack).await;
    assert_eq!(honest.counts().await, HONEST);
}

/// Tests that the dispatcher reads only the first stream of a process before its hello (C1.12).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_bytes_of_a_connection_are_bounded() {
    let cluster = Cluster::new();
    let server = cluster.configured(|_| {});
    let honest = Honest::new(&cluster, &server).await;
    let attack = async {
        let raw = Raw::silent(&cluster, Role::Read, server.local_addr()).await;
        let taken = flood(&raw, b"\x01").await;
        assert!(taken <= UNREAD_BYTES_MAX, "{taken} bytes were taken");
    };
    honest.meanwhile(attack).await;
    assert_eq!(honest.counts().await, HONEST);
}
