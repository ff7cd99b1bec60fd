//! The UDP socket under an endpoint, with batches that the kernel accepts, few datagrams per call, and
//! buffers that hold a window.
//!
//! Connections are unknown to the socket. One socket serves paths with different MTUs, so the size limit is
//! applied to each batch.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use socket2::{Domain, Protocol, Socket, Type};

/// Maximum payload of one `sendmsg` over UDP and IPv4, in bytes: 65 535 less 20 bytes of IP header and 8
/// bytes of UDP header.
///
/// The kernel refuses a larger batch with `EMSGSIZE`. quinn-udp ignores that error, because MTU probes cause
/// it too. Therefore every datagram of the batch would be lost silently.
const BATCH_BYTES_MAX: usize = 65_507;

/// Maximum size of an aggregate of received datagrams, in bytes, which is the maximum size of an IP packet.
const AGGREGATE_BYTES_MAX: usize = 65_536;

/// Maximum number of partly sent batches that are remembered. Each remembered batch belongs to a connection
/// that waits for the socket to drain.
const INTERRUPTED_MAX: usize = 64;

/// The settings with which a socket is opened.
#[derive(Clone, Debug)]
pub(crate) struct SocketConfig {
    /// The requested `SO_RCVBUF` and `SO_SNDBUF`, in bytes.
    pub(crate) buffer_bytes: usize,
    /// The size of the largest datagram that peers may send, in bytes.
    pub(crate) payload_bytes_max: u16,
    /// Maximum number of datagram aggregates taken from the kernel in one call.
    pub(crate) receive_batch: usize,
}

/// The settings that the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketReport {
    /// The size of the receive buffer in bytes, as the kernel reports it. Linux reports twice the size that
    /// is usable for payload.
    pub rcvbuf_bytes: usize,
    /// The size of the send buffer in bytes, as the kernel reports it.
    pub sndbuf_bytes: usize,
    /// True if the kernel splits large sends into datagrams (generic segmentation offload).
    pub gso: bool,
    /// True if the kernel joins received datagrams (generic receive offload).
    pub gro: bool,
}

/// A UDP socket in the form that quinn requires.
#[derive(Debug)]
pub(crate) struct LinkSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    receive_batch: usize,
    receive_segments: usize,
    /// The length of `interrupted`, readable without the lock. The length is nearly always 0.
    interrupted_count: AtomicUsize,
    interrupted: Mutex<Vec<Interrupted>>,
}

/// A batch that the socket took only in part before it was full. The sender retries with the same batch.
#[derive(Debug, PartialEq, Eq)]
struct Interrupted {
    batch: BatchId,
    sent_bytes: usize,
}

/// The identification of a batch: its destination, its size and its first bytes, which are encrypted and
/// therefore practically random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BatchId {
    destination: SocketAddr,
    size_bytes: usize,
    head: [u8; 16],
}

impl LinkSocket {
    /// Binds a UDP socket and wraps it. Must be called within a tokio runtime, which then drives the socket.
    pub(crate) fn bind(
        address: SocketAddr,
        config: &SocketConfig,
    ) -> io::Result<(Arc<LinkSocket>, SocketReport)> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.ip().is_unspecified() && address.is_ipv6() {
            // One socket serves both families where the system allows it. On other systems the socket serves
            // IPv6 only.
            if let Err(error) = socket.set_only_v6(false) {
                tracing::debug!(%error, "the socket cannot serve IPv4 as well");
            }
        }
        socket.bind(&address.into())?;
        let (rcvbuf_bytes, sndbuf_bytes) = enlarge_buffers(&socket, config.buffer_bytes)?;
        let inner = TokioRuntime.wrap_udp_socket(socket.into())?;
        let report = SocketReport {
            rcvbuf_bytes,
            sndbuf_bytes,
            gso: inner.max_transmit_segments() > 1,
            gro: inner.max_receive_segments() > 1,
        };
        Ok((Arc::new(LinkSocket::new(inner, config)), report))
    }

    fn new(inner: Arc<dyn AsyncUdpSocket>, config: &SocketConfig) -> LinkSocket {
        // quinn multiplies the number by the datagram size for its receive buffers, so each buffer holds a
        // whole aggregate.
        let segments = AGGREGATE_BYTES_MAX.div_ceil(usize::from(config.payload_bytes_max));
        LinkSocket {
            receive_batch: config.receive_batch.max(1),
            receive_segments: inner.max_receive_segments().min(segments),
            inner,
            interrupted_count: AtomicUsize::new(0),
            interrupted: Mutex::new(Vec::new()),
        }
    }

    /// Sends a batch of datagrams of `segment_bytes` in several calls, each within the kernel's limit.
    ///
    /// If the socket becomes full, the sender retries later, and the datagrams that were already sent are
    /// skipped. Thus no datagram is lost or sent twice. If the record was dropped because too many senders
    /// wait, the whole batch is sent again, and receivers discard the duplicates.
    fn send_in_pieces(&self, transmit: &Transmit<'_>, segment_bytes: usize) -> io::Result<()> {
        let piece_bytes = (BATCH_BYTES_MAX / segment_bytes).max(1) * segment_bytes;
        let mut sent_bytes = self.resume_at(transmit);
        while sent_bytes < transmit.contents.len() {
            let rest = &transmit.contents[sent_bytes..];
            let contents = &rest[..rest.len().min(piece_bytes)];
            let piece = Transmit {
                contents,
                segment_size: (contents.len() > segment_bytes).then_some(segment_bytes),
                ..*transmit
            };
            if let Err(error) = self.inner.try_send(&piece) {
                if error.kind() == io::ErrorKind::WouldBlock && sent_bytes > 0 {
                    self.remember(transmit, sent_bytes);
                }
                return Err(error);
            }
            sent_bytes += contents.len();
        }
        Ok(())
    }

    fn resume_at(&self, transmit: &Transmit<'_>) -> usize {
        // Relaxed suffices: a sender that retries wrote the count itself, and the records of other senders do
        // not matter.
        if self.interrupted_count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let batch = BatchId::of(transmit);
        let mut interrupted = self.interrupted.lock();
        let Some(place) = interrupted.iter().position(|each| each.batch == batch) else {
            return 0;
        };
        let sent_bytes = interrupted.swap_remove(place).sent_bytes;
        self.interrupted_count.store(interrupted.len(), Ordering::Relaxed);
        sent_bytes
    }

    fn remember(&self, transmit: &Transmit<'_>, sent_bytes: usize) {
        let mut interrupted = self.interrupted.lock();
        if interrupted.len() == INTERRUPTED_MAX {
            // The oldest record most likely belongs to a closed connection.
            interrupted.remove(0);
        }
        interrupted.push(Interrupted {
            batch: BatchId::of(transmit),
            sent_bytes,
        });
        self.interrupted_count.store(interrupted.len(), Ordering::Relaxed);
    }
}

impl AsyncUdpSocket for LinkSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        match transmit.segment_size {
            Some(segment_bytes) if segment_bytes > 0 && transmit.contents.len() > BATCH_BYTES_MAX => {
                self.send_in_pieces(transmit, segment_bytes)
            }
            Some(_) | None => self.inner.try_send(transmit),
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let few = self.receive_batch.min(bufs.len()).min(meta.len());
        self.inner.poll_recv(cx, &mut bufs[..few], &mut meta[..few])
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.receive_segments
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl BatchId {
    fn of(transmit: &Transmit<'_>) -> BatchId {
        let mut head = [0; 16];
        let known = transmit.contents.len().min(head.len());
        head[..known].copy_from_slice(&transmit.contents[..known]);
        BatchId {
            destination: transmit.destination,
            size_bytes: transmit.contents.len(),
            head,
        }
    }
}

/// Requests the buffers of an endpoint's socket on a socket that is then closed, for programs that check a
/// machine. Returns the sizes that the kernel granted for the receive buffer and the send buffer, in bytes.
///
/// # Errors
/// The system refuses a UDP socket.
pub fn probe_buffers(wanted_bytes: usize) -> io::Result<(usize, usize)> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    request_buffers(&socket, wanted_bytes)
}

/// Requests buffers of `wanted_bytes`, and warns if the kernel granted less. Returns the sizes that the
/// kernel granted for the receive buffer and the send buffer.
fn enlarge_buffers(socket: &Socket, wanted_bytes: usize) -> io::Result<(usize, usize)> {
    static WARNED: Once = Once::new();
    let granted = request_buffers(socket, wanted_bytes)?;
    if granted.0 < wanted_bytes {
        WARNED.call_once(|| {
            tracing::warn!(
                wanted_bytes,
                granted_bytes = granted.0,
                "the kernel limits UDP receive buffers, so bursts will be lost and fast links slow down: \
                 run `sysctl -w net.core.rmem_max={wanted_bytes} net.core.wmem_max={wanted_bytes}`"
            );
        });
    }
    Ok(granted)
}

/// Requests buffers of `wanted_bytes`. Returns the sizes that the kernel granted for the receive buffer and
/// the send buffer.
fn request_buffers(socket: &Socket, wanted_bytes: usize) -> io::Result<(usize, usize)> {
    if let Err(error) = socket.set_recv_buffer_size(wanted_bytes) {
        tracing::debug!(%error, "the receive buffer cannot be set");
    }
    if let Err(error) = socket.set_send_buffer_size(wanted_bytes) {
        tracing::debug!(%error, "the send buffer cannot be set");
    }
    Ok((socket.recv_buffer_size()?, socket.send_buffer_size()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that accepts sends while `room` lasts, and then reports that it would block.
    #[derive(Debug)]
    struct Scripted {
        room: AtomicUsize,
        sent: Mutex<Vec<(Vec<u8>, Option<usize>)>>,
    }

    impl AsyncUdpSocket for Scripted {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            unreachable!("the tests do not wait for room")
        }

        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            if self.room.load(Ordering::Relaxed) == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.room.fetch_sub(1, Ordering::Relaxed);
            self.sent
                .lock()
                .push((transmit.contents.to_vec(), transmit.segment_size));
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            bufs: &mut [IoSliceMut<'_>],
            meta: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            assert_eq!(bufs.len(), meta.len());
            Poll::Ready(Ok(bufs.len()))
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(destination())
        }

        fn max_receive_segments(&self) -> usize {
            64
        }
    }

    fn destination() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 9))
    }

    fn socket(room: usize, payload_bytes_max: u16) -> (LinkSocket, Arc<Scripted>) {
        let scripted = Arc::new(Scripted {
            room: AtomicUsize::new(room),
            sent: Mutex::new(Vec::new()),
        });
        let config = SocketConfig {
            buffer_bytes: 0,
            payload_bytes_max,
            receive_batch: 4,
        };
        (LinkSocket::new(scripted.clone(), &config), scripted)
    }

    fn batch(contents: &[u8], segment_size: usize) -> Transmit<'_> {
        Transmit {
            destination: destination(),
            ecn: None,
            contents,
            segment_size: Some(segment_size),
            src_ip: None,
        }
    }

    fn bytes(size_bytes: usize, seed: u8) -> Vec<u8> {
        (0..size_bytes).map(|place| (place % 251) as u8 ^ seed).collect()
    }

    /// Returns the datagrams that the sends so far put on the wire.
    fn datagrams(scripted: &Scripted) -> Vec<Vec<u8>> {
        let split = |(contents, segment): &(Vec<u8>, Option<usize>)| {
            contents
                .chunks(segment.unwrap_or(contents.len()))
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        };
        scripted.sent.lock().iter().flat_map(split).collect()
    }

    #[test]
    fn batches_keep_their_datagrams() {
        for (segment_bytes, size_bytes) in [
            (1452, 14_520),
            (8952, 89_520),
            (8952, 80_001),
            (65_495, 654_950),
            (65_495, 65_496),
            (6550, 65_500),
        ] {
            let (socket, scripted) = socket(100, 65_495);
            let contents = bytes(size_bytes, 0);
            socket.try_send(&batch(&contents, segment_bytes)).unwrap();
            let expected: Vec<Vec<u8>> = contents.chunks(segment_bytes).map(<[u8]>::to_vec).collect();
            assert_eq!(datagrams(&scripted), expected);
            for (sent, segment) in scripted.sent.lock().iter() {
                assert!(sent.len() <= BATCH_BYTES_MAX);
                assert!(segment.is_none_or(|segment| segment < sent.len()));
            }
        }
    }

    #[test]
    fn a_full_socket_neither_loses_nor_repeats() {
        let (socket, scripted) = socket(3, 65_495);
        let (first, second) = (bytes(654_950, 1), bytes(654_950, 2));
        let blocked = |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::WouldBlock;
        assert!(blocked(socket.try_send(&batch(&first, 65_495))));
        assert!(
            blocked(socket.try_send(&batch(&second, 65_495))),
            "the send of another connection must find no room either"
        );
        scripted.room.store(5, Ordering::Relaxed);
        assert!(blocked(socket.try_send(&batch(&first, 65_495))));
        scripted.room.store(100, Ordering::Relaxed);
        socket.try_send(&batch(&first, 65_495)).unwrap();
        socket.try_send(&batch(&second, 65_495)).unwrap();
        let expected: Vec<Vec<u8>> = [first, second]
            .concat()
            .chunks(65_495)
            .map(<[u8]>::to_vec)
            .collect();
        assert_eq!(datagrams(&scripted), expected);
        assert!(socket.interrupted.lock().is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (socket, scripted) = socket(0, 65_495);
        for seed in 0..=255 {
            scripted.room.store(1, Ordering::Relaxed);
            socket
                .try_send(&batch(&bytes(131_000, seed), 65_495))
                .unwrap_err();
        }
        assert_eq!(socket.interrupted.lock().len(), INTERRUPTED_MAX);
    }

    #[test]
    fn large_aggregates_need_few_calls() {
        for payload_bytes_max in [1200, 1452, 8952, 65_495] {
            let (socket, _) = socket(0, payload_bytes_max);
            let buffer_bytes = socket.max_receive_segments() * usize::from(payload_bytes_max);
            assert!((AGGREGATE_BYTES_MAX..2 * AGGREGATE_BYTES_MAX).contains(&buffer_bytes));
            let mut bytes = [[0; 8]; 32];
            let mut bufs: Vec<_> = bytes.iter_mut().map(|bytes| IoSliceMut::new(bytes)).collect();
            let mut meta = [RecvMeta::default(); 32];
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(matches!(
                socket.poll_recv(&mut cx, &mut bufs, &mut meta),
                Poll::Ready(Ok(4))
            ));
        }
    }
}
