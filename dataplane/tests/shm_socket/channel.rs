//! Tests how the socket of a link handles messages and the end of the peer.

use std::os::fd::AsFd;

use millstream_dataplane::transport::LinkLost;
use millstream_dataplane::transport::shm::{
    ArenaAnnouncement, Channel, ClientHello, Close, CloseCode, DATAGRAM_BYTES_MAX, Datagram,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{Raw, WATCHDOG, alone, link, listener, offer, open_fds, run};

const ARENA: Datagram = Datagram::Arena(ArenaAnnouncement { arena: 3, bytes: 64 });

/// D9.2, D9.4.
#[test]
fn messages_arrive_in_order_with_their_descriptors() {
    run(async {
        let (worker, client) = link(&mut listener()).await;
        let memory = std::fs::File::from(offer().control);
        memory.set_len(4096).unwrap();
        for arena in 0..20 {
            let said = Datagram::Arena(ArenaAnnouncement { arena, bytes: 4096 });
            assert_eq!(worker.try_send(&said, &[memory.as_fd()]), Ok(true));
        }
        for arena in 0..20 {
            let heard = client.recv().await.unwrap().unwrap();
            assert_eq!(
                heard.datagram,
                Datagram::Arena(ArenaAnnouncement { arena, bytes: 4096 })
            );
            let lens = heard
                .fds
                .into_iter()
                .map(|fd| std::fs::File::from(fd).metadata().unwrap().len());
            assert!(lens.eq([4096]));
        }
    });
}

/// D9.2.
#[test]
fn garbage_is_blamed_and_leaks_no_descriptor() {
    alone("channel::garbage_is_blamed_and_leaks_no_descriptor", || {
        let hello = Datagram::ClientHello(ClientHello { version: 1 })
            .to_bytes()
            .unwrap();
        let arena = ARENA.to_bytes().unwrap();
        let cases: [(&[u8], usize, &str); 9] = [
            (b"", 0, "0 bytes"),
            (b"", 1, "0 bytes"),
            (b"what?", 0, "invalid message"),
            (
                &[hello.as_slice(), b"x"].concat(),
                0,
                "more bytes in the datagram",
            ),
            (&hello, 1, "descriptors"),
            (&arena, 0, "descriptors"),
            (&arena, 4, "descriptors"),
            (&arena, 60, "descriptors"),
            (&vec![0; DATAGRAM_BYTES_MAX + 1], 2, "at most 4096 bytes"),
        ];
        run(async {
            let mut listener = listener();
            let memory = offer().control;
            let before = open_fds();
            for (bytes, fds, what) in cases {
                let (raw, worker) = Raw::greeted(&mut listener).await;
                raw.say(bytes, &vec![memory.as_fd(); fds]);
                let lost = worker.recv().await.unwrap_err();
                assert!(
                    matches!(&lost, LinkLost::Misbehaved(why) if why.contains(what)),
                    "{what}: {lost}"
                );
                worker.say_close(&lost);
                let close = raw.hear_close();
                assert_eq!(close.code, CloseCode::Blamed);
                assert!(close.text.contains(what), "{}", close.text);
            }
            assert_eq!(open_fds(), before);
        });
    });
}

/// D9.5.
#[test]
fn ends_last_words_and_errors_are_distinct() {
    run(async {
        let mut listener = listener();
        for unread in [0, 1, 3] {
            let (worker, client) = link(&mut listener).await;
            for _ in 0..unread {
                // Messages that the worker does not read must not hide the worker's own close message.
                let said = Datagram::Close(Close::new(CloseCode::Done, "unread"));
                assert_eq!(client.try_send(&said, &[]), Ok(true));
            }
            worker.say_close(&LinkLost::Misbehaved("two heads".into()));
            drop(worker);
            let heard = client.recv().await.unwrap().unwrap();
            let Datagram::Close(close) = heard.datagram else {
                panic!("{heard:?}");
            };
            assert_eq!(close.into_lost(), LinkLost::Blamed("two heads".into()));
            assert!(client.recv().await.unwrap().is_none());
            let unsent = client.try_send(&Datagram::Close(Close::new(CloseCode::Done, "")), &[]);
            assert!(matches!(unsent, Err(LinkLost::Broken(_))), "{unsent:?}");
        }
    });
}

/// D9.5.
#[test]
fn waiting_for_the_end_discards_messages() {
    run(async {
        let (raw, worker) = Raw::greeted(&mut listener()).await;
        let memory = offer().control;
        let mut closed = is_closed(&worker);
        assert!(!closed());
        for _ in 0..100 {
            raw.say(b"anything", &[memory.as_fd()]);
            raw.say(b"", &[]);
        }
        assert!(!closed());
        drop(raw);
        std::future::poll_fn(|cx| worker.poll_closed(cx)).await;
    });
}

/// D9.7.
#[test]
fn readers_wait_for_a_free_descriptor() {
    alone("channel::readers_wait_for_a_free_descriptor", || {
        run(async {
            let mut listener = listener();
            let raw = Raw::connect(listener.address());
            raw.hello(1);
            let limit = no_more_descriptors();
            tokio::time::pause();
            let waited = tokio::time::timeout(WATCHDOG / 2, listener.accept()).await;
            assert!(
                waited.is_err(),
                "the listener accepted a link without a free descriptor"
            );
            tokio::time::resume();
            setrlimit(Resource::Nofile, limit).unwrap();
            listener.accept().await.greet(&offer(), WATCHDOG).await.unwrap();
        });
    });
}

#[test]
fn want_of_descriptors_is_our_own_shortage() {
    alone("channel::want_of_descriptors_is_our_own_shortage", || {
        run(async {
            let (worker, client) = link(&mut listener()).await;
            let memory = offer().control;
            worker.try_send(&ARENA, &[memory.as_fd()]).unwrap();
            let limit = no_more_descriptors();
            let lost = client.recv().await.unwrap_err();
            setrlimit(Resource::Nofile, limit).unwrap();
            assert!(matches!(lost, LinkLost::Resource(_)), "{lost}");
        });
    });
}

/// Keeps this process from opening further descriptors. Returns the earlier limit.
fn no_more_descriptors() -> Rlimit {
    let limit = getrlimit(Resource::Nofile);
    // The duplicate has the lowest free number, which the next descriptor would get.
    let next = rustix::io::dup(std::io::stdin()).unwrap();
    let taken = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
    let now = Rlimit {
        current: Some(taken),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, now).unwrap();
    limit
}

/// Returns a function that checks whether the channel sees the end of the socket.
fn is_closed(channel: &Channel) -> impl FnMut() -> bool + '_ {
    || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        channel.poll_closed(&mut context).is_ready()
    }
}
