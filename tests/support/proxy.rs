//! A network between readers and one worker that can be cut: forwards UDP, or swallows it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How soon the proxy's threads notice that it was dropped.
const LOOK_UP_EVERY: Duration = Duration::from_millis(50);

/// The largest datagram, and what a worker on loopback may send.
const DATAGRAM_BYTES_MAX: usize = 1 << 16;

/// A proxy. Ends with its threads when it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    front: Arc<UdpSocket>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    is_cut: AtomicBool,
    is_over: AtomicBool,
}

impl Proxy {
    /// A proxy that forwards nothing until [`Proxy::forward_to`].
    pub(crate) fn bind() -> Self {
        Self {
            front: Arc::new(socket()),
            state: Arc::default(),
            thread: None,
        }
    }

    /// Returns the address that readers send to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.front.local_addr().expect("bound")
    }

    /// Starts to forward.
    pub(crate) fn forward_to(&mut self, worker: SocketAddr) {
        let (front, state) = (self.front.clone(), self.state.clone());
        self.thread = Some(thread::spawn(move || forward(&front, &state, worker)));
    }

    /// Swallows everything, both ways, or no longer.
    pub(crate) fn set_cut(&self, is_cut: bool) {
        self.state.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of it has been printed.
            let _ = thread.join();
        }
    }
}

/// From readers to the worker; each reader has a socket of its own towards the worker, and a thread for the
/// way back.
fn forward(front: &Arc<UdpSocket>, state: &Arc<State>, worker: SocketAddr) {
    let mut backs: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut threads = Vec::new();
    pump(front, state, |bytes, reader| {
        let back = backs.entry(reader).or_insert_with(|| {
            let back = Arc::new(socket());
            let (from, front, state) = (back.clone(), front.clone(), state.clone());
            threads.push(thread::spawn(move || {
                pump(&from, &state, |bytes, _| drop(front.send_to(bytes, reader)));
            }));
            back
        });
        drop(back.send_to(bytes, worker));
    });
    for thread in threads {
        let _ = thread.join();
    }
}

fn pump(from: &UdpSocket, state: &State, mut deliver: impl FnMut(&[u8], SocketAddr)) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    while !state.is_over.load(Ordering::Relaxed) {
        match from.recv_from(&mut buffer) {
            Ok((bytes, source)) if !state.is_cut.load(Ordering::Relaxed) => deliver(&buffer[..bytes], source),
            Ok(_) => {}
            // Nothing came; or the other side is gone, which the network does not say either.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(LOOK_UP_EVERY)).expect("a timeout");
    socket
}
