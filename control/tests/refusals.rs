//! Tests that unauthorised and malformed requests are refused and harm no other process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_control::rpc::{ALPN, Client, SessionConfig};
use millstream_control::{Code, MemoryStore};
use millstream_link::{HostPort, Role};

use crate::support::raw::{Raw, framed, list};
use crate::support::{Cluster, session, within};

/// Tests that a session belongs to its process, because session numbers appear in logs (C1.13).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_over_the_session_of_another() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let owner = Raw::greeted(&cluster, Role::Read, server.local_addr(), 7).await;
    for role in [Role::Read, Role::Worker] {
        let mut thief = Raw::silent(&cluster, role, server.local_addr()).await;
        thief.send.write_all(&framed(&list![2, 7])).await.unwrap();
        let reason = thief.closed().await;
        assert!(reason.contains("belongs to another process"), "{reason}");
    }
    assert!(owner.connection.close_reason().is_none(), "the owner stays");
}

/// C1.4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_may_not_register_and_workers_not_read() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let reader = cluster.connect(Role::Read, server.local_addr()).await.unwrap();
    let error = reader.register_dataset(None, b"10".to_vec()).await.unwrap_err();
    assert_eq!(error.code, Code::PermissionDenied);
    assert!(error.message.contains("`read`"), "{error}");
    let worker = cluster.connect(Role::Worker, server.local_addr()).await.unwrap();
    let error = worker
        .open_iteration(millstream_control::JobId(1), 0, None)
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::PermissionDenied);
    reader.status().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_clusters_key_is_refused_by_name() {
    let server = Cluster::new().server();
    let error = Cluster::new()
        .connect(Role::Submit, server.local_addr())
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::PermissionDenied);
    assert!(
        error.message.contains(&server.local_addr().to_string()),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unanalysable_definition_is_the_submitters_error() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let client = cluster.connect(Role::Submit, server.local_addr()).await.unwrap();
    let error = client.register_dataset(None, b"ten".to_vec()).await.unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    assert!(error.message.contains("`ten` is no number"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_dispatcher_gives_up_in_time() {
    let cluster = Cluster::new();
    let address = free_address();
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notices);
    let config = SessionConfig {
        connect_deadline: Duration::from_millis(1700),
        attempt_deadline: Duration::from_millis(100),
        on_waiting: Some(Arc::new(move |notice: &str| {
            heard.lock().unwrap().push(notice.to_owned())
        })),
        ..session()
    };
    let connect = Client::connect(cluster.endpoint(Role::Read), HostPort::from(address), config);
    let error = within("giving up", connect).await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains(&address.to_string()), "{error}");
    let notices = notices.lock().unwrap();
    let wanted = format!("waiting for the dispatcher at {address}");
    assert!(
        notices.iter().any(|notice| notice.contains(&wanted)),
        "{notices:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_client_waits_for_the_dispatcher() {
    let cluster = Cluster::new();
    let address = free_address();
    let (client, _server) = tokio::join!(cluster.connect(Role::Read, address), async {
        tokio::task::yield_now().await;
        cluster.dispatcher(Some(address), Box::new(MemoryStore::new()))
    });
    client.unwrap().status().await.unwrap();
}

/// C1.2, C1.3, C1.7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_leaves_the_dispatcher_serving_others() {
    let cluster = Cluster::new();
    let server = cluster.server();
    let other = cluster.connect(Role::Read, server.local_addr()).await.unwrap();
    let raw = async || {
        let endpoint = cluster.endpoint(Role::Read);
        let connect = endpoint.connect(
            server.local_addr(),
            Role::Dispatcher,
            ALPN,
            Duration::from_secs(10),
        );
        connect.await.unwrap()
    };
    for hello in [
        &b"\xff\xff\xff\xff"[..],
        b"\x03\0\0\0abc",
        b"\0\0\0\0",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let connection = raw().await;
        let (mut send, _recv) = connection.open_bi().await.unwrap();
        send.write_all(hello).await.unwrap();
        within("being disconnected", connection.closed()).await;
        other.status().await.unwrap();
    }
    let connection = raw().await;
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    // The bytes encode a hello: version 2, session 5.
    send.write_all(b"\x03\0\0\0\x82\x02\x05").await.unwrap();
    let mut length = [0; 4];
    within("the welcome", recv.read_exact(&mut length)).await.unwrap();
    let oversized = [vec![1], vec![0; 70_000]].concat();
    for request in [
        &b""[..],
        b"\x09",
        b"\x01",
        b"\x01\xff\xff",
        b"\x02\x80",
        b"\x01\x83\xf6\x01\x82\x18\xc8\x80",
        &oversized,
    ] {
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        // The dispatcher may refuse the request before it has read all bytes.
        send.write_all(request).await.ok();
        send.finish().ok();
        let answer = within("a refusal", recv.read_to_end(1 << 16)).await.unwrap();
        assert!(!answer.is_empty());
        assert!(connection.close_reason().is_none(), "the connection goes on");
    }
    other.status().await.unwrap();
}

fn free_address() -> SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}
