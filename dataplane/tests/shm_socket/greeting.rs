//! Tests of admission to a link, and of the messages to peers that are refused.

use std::io::{Read, Write};
use std::time::Duration;

use millstream_dataplane::transport::LinkLost;
use millstream_dataplane::transport::shm::{
    ArenaAnnouncement, CloseCode, ConnectError, ControlSizes, Datagram, GreetError, Listener, ListenerConfig,
    SHM_VERSION, ShmAddress, WorkerHello, greet as connect,
};
use rustix::io::{FdFlags, fcntl_getfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::support::{Raw, SIZES, WATCHDOG, link, listener, offer, run};

/// The time that one side waits for a message of the other, in paused time.
const PATIENCE: Duration = Duration::from_secs(2);

/// D9.1, D9.3.
#[test]
fn a_client_keeps_memory_from_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let shared = ListenerConfig {
        directory: Some(folder.path().join("sockets")),
        ..ListenerConfig::default()
    };
    for config in [ListenerConfig::default(), shared] {
        run(async {
            let mut listener = Listener::bind(&config).unwrap();
            let text = listener.address().to_string();
            let address: ShmAddress = text.parse().unwrap();
            let mine = offer();
            let worker = async { listener.accept().await.greet(&mine, WATCHDOG).await.unwrap() };
            let client = async { connect(&address, WATCHDOG).await.unwrap() };
            let (worker_end, (client_end, theirs)) = tokio::join!(worker, client);
            assert_eq!(theirs.sizes, SIZES);
            let pid = Some(std::process::id());
            assert_eq!([worker_end.peer().pid, client_end.peer().pid], [pid, pid]);
            assert!(fcntl_getfd(&theirs.control).unwrap().contains(FdFlags::CLOEXEC));
            std::fs::File::from(mine.control).write_all(b"shared").unwrap();
            let mut control = std::fs::File::from(theirs.control);
            std::io::Seek::rewind(&mut control).unwrap();
            let mut read = String::new();
            control.read_to_string(&mut read).unwrap();
            assert_eq!(read, "shared");
        });
    }
}

/// D9.3.
#[test]
fn another_version_is_refused_and_both_are_named() {
    run(async {
        let mut listener = listener();
        let newer = Raw::connect(listener.address());
        newer.hello(SHM_VERSION + 41);
        let greeted = listener.accept().await.greet(&offer(), WATCHDOG).await;
        let theirs = SHM_VERSION + 41;
        assert_eq!(greeted.unwrap_err(), GreetError::Version { theirs });
        let close = newer.hear_close();
        assert_eq!(close.code, CloseCode::Version);
        let named = [theirs, SHM_VERSION].map(|version| close.text.contains(&version.to_string()));
        assert_eq!(named, [true, true], "{}", close.text);
    });
    let hello = WorkerHello {
        version: SHM_VERSION + 41,
        sizes: SIZES,
    };
    let hello = Datagram::WorkerHello(hello);
    let error = answered(&hello, hello.fds()).to_string();
    assert!(
        error.contains("version 42") && error.contains("version 1"),
        "{error}"
    );
}

/// D9.2, D9.3.
#[test]
fn a_worker_that_answers_nonsense_is_blamed() {
    let arena = Datagram::Arena(ArenaAnnouncement { arena: 1, bytes: 9 });
    let lost = answered(&arena, 1);
    assert!(
        matches!(&lost, ConnectError::Lost(LinkLost::Misbehaved(why)) if why.contains("an arena")),
        "{lost}"
    );
    let hello = Datagram::WorkerHello(WorkerHello {
        version: SHM_VERSION,
        sizes: ControlSizes { leases: 0, ..SIZES },
    });
    let lost = answered(&hello, hello.fds() + 1);
    assert!(
        matches!(&lost, ConnectError::Lost(LinkLost::Misbehaved(why)) if why.contains("descriptors")),
        "{lost}"
    );
}

/// D9.3.
#[test]
fn silent_peers_are_given_up() {
    run(async {
        tokio::time::pause();
        let mut listener = listener();
        let silent = connect(&listener.address().clone(), PATIENCE).await;
        assert_eq!(silent.unwrap_err(), ConnectError::Silent(PATIENCE));
        tokio::time::resume();
        drop(listener.accept().await);
        let mute = Raw::connect(listener.address());
        let incoming = listener.accept().await;
        // Other clients get their links meanwhile.
        let (worker, client) = link(&mut listener).await;
        drop(client);
        assert!(worker.recv().await.unwrap().is_none());
        tokio::time::pause();
        let greeted = incoming.greet(&offer(), PATIENCE).await;
        assert_eq!(greeted.unwrap_err(), GreetError::Silent(PATIENCE));
        assert!(mute.hear_close().text.contains("expected a hello message"));
    });
}

/// D9.1.
#[test]
fn an_unheard_address_gets_a_helpful_reason() {
    run(async {
        let gone = listener();
        let address = gone.address().clone();
        drop(gone);
        let error = connect(&address, WATCHDOG).await.unwrap_err();
        assert_eq!(error, ConnectError::NoSocket(address));
        assert!(error.to_string().contains("network namespace"), "{error}");
    });
}

/// D9.7.
#[test]
fn a_full_worker_refuses_until_a_link_ends() {
    run(async {
        let config = ListenerConfig {
            links_max: 2,
            ..ListenerConfig::default()
        };
        let mut listener = Listener::bind(&config).unwrap();
        let address = listener.address().clone();
        let first = link(&mut listener).await;
        let _second = link(&mut listener).await;
        let offer = offer();
        let third = connect(&address, WATCHDOG);
        let accepting = async {
            let accepted = listener.accept().await;
            accepted.greet(&offer, WATCHDOG).await.unwrap()
        };
        tokio::pin!(accepting);
        let refused = tokio::select! {
            refused = third => refused.unwrap_err(),
            _ = &mut accepting => panic!("the worker accepted a third link, expected at most two"),
        };
        let ConnectError::Refused(close) = refused else {
            panic!("{refused}");
        };
        assert_eq!(close.code, CloseCode::Full);
        drop(first);
        let (_worker, client) = tokio::join!(accepting, connect(&address, WATCHDOG));
        client.unwrap();
    });
}

/// Returns the error of a client whose worker answers with this message and this number of descriptors.
fn answered(datagram: &Datagram, fds: usize) -> ConnectError {
    run(async {
        let address: ShmAddress = listener().address().clone();
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let name = SocketAddrUnix::new_abstract_name(&address.to_string().as_bytes()[1..]).unwrap();
        rustix::net::bind(&socket, &name).unwrap();
        rustix::net::listen(&socket, 1).unwrap();
        let bytes = datagram.to_bytes().unwrap();
        let worker = tokio::task::spawn_blocking(move || {
            let raw = Raw::from(rustix::net::accept(&socket).unwrap());
            let stdin = std::io::stdin();
            raw.say(&bytes, &vec![std::os::fd::AsFd::as_fd(&stdin); fds]);
            raw
        });
        let error = connect(&address, WATCHDOG).await.unwrap_err();
        drop(worker.await.unwrap());
        error
    })
}
