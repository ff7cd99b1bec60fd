//! Tests processes of other users: a worker shares nothing with them, and they do not delay other clients.

use millstream_dataplane::transport::shm::{CloseCode, ConnectError, Listener, PeerError, greet as connect};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

use crate::support::{Raw, WATCHDOG, link, listener, run};

/// The id of a user that does not run this test.
const STRANGER: u32 = 54_321;

/// Calls `deed` as another user. Returns `None` if this process may not change its user.
#[expect(clippy::print_stdout, reason = "the output must show skipped checks")]
fn as_stranger<T: Send>(deed: impl FnOnce() -> T + Send) -> Option<T> {
    if !geteuid().is_root() {
        println!("skipped: only root can be another user");
        return None;
    }
    // Linux assigns users to threads, so the other threads of the process keep their user.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let stranger = Uid::from_raw(STRANGER);
            set_thread_res_uid(stranger, stranger, stranger).unwrap();
            deed()
        });
        Some(thread.join().unwrap())
    })
}

/// D9.1.
#[test]
fn another_users_process_is_refused() {
    run(async {
        let mut listener: Listener = listener();
        let address = listener.address().clone();
        let Some(stranger) = as_stranger(|| {
            let raw = Raw::connect(&address);
            raw.hello(1);
            raw
        }) else {
            return;
        };
        let _ = link(&mut listener).await;
        let close = stranger.hear_close();
        assert_eq!(close.code, CloseCode::OtherUser);
        assert!(close.text.contains(&STRANGER.to_string()), "{}", close.text);
        assert!(stranger.hear().is_empty(), "the worker must close the connection");
    });
}

/// D9.1.
#[test]
fn another_users_worker_is_not_talked_to() {
    run(async {
        let listener = listener();
        let address = listener.address().clone();
        let Some(error) = as_stranger(|| run(connect(&address, WATCHDOG)).unwrap_err()) else {
            return;
        };
        let ConnectError::Peer(PeerError::OtherUser { peer, ours }) = &error else {
            panic!("{error}");
        };
        assert_eq!((peer.uid, *ours), (geteuid().as_raw(), STRANGER));
        assert!(error.to_string().starts_with("other user"), "{error}");
    });
}

/// D9.6.
#[test]
fn another_users_socket_directory_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("sockets");
    run(async {
        let config = millstream_dataplane::transport::shm::ListenerConfig {
            directory: Some(directory.clone()),
            ..Default::default()
        };
        let listener = Listener::bind(&config).unwrap();
        let address = listener.address().clone();
        let Some((reached, bound)) = as_stranger(|| {
            let bound = run(async { Listener::bind(&config).map(|_| ()) });
            (run(connect(&address, WATCHDOG)), bound)
        }) else {
            return;
        };
        assert_eq!(reached.unwrap_err(), ConnectError::Forbidden(address));
        let refused = bound.unwrap_err().to_string();
        assert!(
            refused.contains(&STRANGER.to_string()) || refused.contains("denied"),
            "{refused}"
        );
    });
}
