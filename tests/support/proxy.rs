//! A network between readers and one worker that can be cut: a proxy that forwards UDP packets or drops them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The interval at which the proxy's threads check whether the proxy was dropped.
const LOOK_UP_EVERY: Duration = Duration::from_millis(50);

/// The size in bytes of the largest datagram on loopback.
const DATAGRAM_BYTES_MAX: usize = 1 << 16;

/// A UDP proxy. Dropping the proxy ends its threads.
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
    /// Binds a proxy that forwards nothing before [`Proxy::forward_to`] is called.
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

    /// Starts to forward packets to this worker.
    pub(crate) fn forward_to(&mut self, worker: SocketAddr) {
        let (front, state) = (self.front.clone(), self.state.clone());
        self.thread = Some(thread::spawn(move || forward(&front, &state, worker)));
    }

    /// Starts or stops dropping all packets in both directions.
    pub(crate) fn set_cut(&self, is_cut: bool) {
        self.state.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic hook has printed the message of a panic.
            let _ = thread.join();
        }
    }
}

/// Forwards packets from readers to the worker. Each reader has its own socket towards the worker, and a
/// thread for the opposite direction.
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
            // No packet arrived, or the peer is gone; a real network would not report that either.
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
