//! The two yardsticks of every figure: a copy of the same number of bytes, and bare quinn that carries these
//! bytes between two threads.
//!
//! Does not know elements. `bench-transfer` has the same yardsticks between processes, and measures them for
//! longer.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId};
use millstream::link::{ClusterKey, Endpoint, EndpointConfig, Lane, Role};
use tokio::sync::mpsc;

// The project's commands use mimalloc as well: quinn allocates and frees a buffer for every packet that it
// receives.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ALPN: &str = "millstream-bench-raw/1";

/// The capacity of the channel of transfers. criterion requests one transfer at a time.
const TRANSFERS_MAX: usize = 1;

/// The number of unit buffers at the reader, and at the sender.
const BUFFERS: usize = 8;

/// A connection of bare quinn between two lanes of this process, with the endpoint, TLS and socket of the
/// service.
pub(crate) struct RawQuic {
    orders: mpsc::Sender<Transfer>,
    results: std::sync::mpsc::Receiver<Duration>,
    _lanes: [Lane; 2],
}

#[derive(Clone, Copy)]
struct Transfer {
    unit_bytes: usize,
    units: u64,
}

impl RawQuic {
    /// Connects two lanes over loopback.
    pub(crate) fn connect() -> RawQuic {
        let key = ClusterKey::generate().expect("randomness");
        let lanes = [
            Lane::start("bench-sender").expect("a thread"),
            Lane::start("bench-reader").expect("a thread"),
        ];
        let (orders, sending) = mpsc::channel(TRANSFERS_MAX);
        let (to_reader, reading) = mpsc::channel(TRANSFERS_MAX);
        let (done, results) = std::sync::mpsc::channel();
        let (bound, address) = std::sync::mpsc::channel();
        let credentials = key.credentials(Role::Worker);
        drop(lanes[0].spawn(async move {
            let endpoint =
                Endpoint::bind_server(credentials, &[ALPN], &[Role::Read], EndpointConfig::default())
                    .expect("a socket");
            bound.send(endpoint.local_addr()).expect("somebody waits");
            send(endpoint, sending, to_reader).await;
        }));
        let address = address.recv().expect("an address");
        let credentials = key.credentials(Role::Read);
        drop(lanes[1].spawn(async move {
            let endpoint = Endpoint::client(credentials, EndpointConfig::default()).expect("a socket");
            receive(endpoint, address, reading, done).await;
        }));
        RawQuic {
            orders,
            results,
            _lanes: lanes,
        }
    }

    /// Transfers `units` units of `unit_bytes` bytes into contiguous buffers, and returns the duration.
    fn carry(&self, unit_bytes: usize, units: u64) -> Duration {
        let transfer = Transfer { unit_bytes, units };
        self.orders.blocking_send(transfer).expect("a sender");
        self.results.recv().expect("a reader")
    }

    /// Adds the times of a copy and of bare quinn for `bytes` bytes to `group`.
    pub(crate) fn stand_beside(&self, group: &mut BenchmarkGroup<'_, WallTime>, name: &str, bytes: usize) {
        let (source, mut target) = (vec![7_u8; bytes], vec![0_u8; bytes]);
        group.bench_function(BenchmarkId::new("memcpy", name), |b| {
            b.iter(|| black_box(&mut target).copy_from_slice(black_box(&source)));
        });
        group.bench_function(BenchmarkId::new("raw-quic", name), |b| {
            b.iter_custom(|units| self.carry(bytes, units));
        });
    }
}

async fn send(endpoint: Endpoint, mut orders: mpsc::Receiver<Transfer>, to_reader: mpsc::Sender<Transfer>) {
    let mut acceptor = endpoint.acceptor().expect("a server");
    let connection = acceptor.accept().await.expect("a reader").connection;
    while let Some(transfer) = orders.recv().await {
        let buffers: Vec<Bytes> = (0..BUFFERS)
            .map(|_| Bytes::from(vec![7; transfer.unit_bytes]))
            .collect();
        to_reader.send(transfer).await.expect("a reader");
        for unit in buffers.iter().cycle().take(transfer.units as usize) {
            let mut stream = connection.open_uni().await.expect("a connection");
            stream.write_chunk(unit.clone()).await.expect("a connection");
            stream.finish().expect("an open stream");
        }
    }
}

async fn receive(
    endpoint: Endpoint,
    address: SocketAddr,
    mut orders: mpsc::Receiver<Transfer>,
    done: std::sync::mpsc::Sender<Duration>,
) {
    let connecting = endpoint.connect(address, Role::Worker, ALPN, Duration::from_secs(5));
    let connection = connecting.await.expect("a sender");
    while let Some(transfer) = orders.recv().await {
        let mut buffers = vec![vec![0; transfer.unit_bytes]; BUFFERS];
        let started = Instant::now();
        for unit in 0..transfer.units as usize {
            let mut stream = connection.accept_uni().await.expect("a connection");
            let (buffer, mut filled) = (&mut buffers[unit % BUFFERS], 0);
            let mut chunks: [Bytes; 32] = Default::default();
            while let Some(count) = stream.read_chunks(&mut chunks).await.expect("a connection") {
                for chunk in chunks[..count].iter_mut().map(std::mem::take) {
                    buffer[filled..][..chunk.len()].copy_from_slice(&chunk);
                    filled += chunk.len();
                }
            }
            assert_eq!(filled, transfer.unit_bytes, "a unit arrives whole");
        }
        if done.send(started.elapsed()).is_err() {
            return;
        }
    }
}
