//! The properties of a link that statistics and benchmarks show.

use std::time::Duration;

use crate::socket::SocketReport;
use crate::tls::CIPHER_NAME;

/// The state of one connection, and of the socket under it, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// UDP payload bytes in force for what this side sends. The peer's is its own to report.
    pub mtu: u16,
    /// Whether the kernel splits large sends.
    pub gso: bool,
    /// Whether the kernel joins received datagrams.
    pub gro: bool,
    /// Receive buffer as the kernel states it.
    pub rcvbuf_bytes: usize,
    /// Send buffer as the kernel states it.
    pub sndbuf_bytes: usize,
    /// The TLS cipher suite. quinn does not say what was negotiated, but this crate offers and accepts this
    /// one only.
    pub cipher: &'static str,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Congestion window.
    pub congestion_window_bytes: u64,
    /// Times that loss shrank the window.
    pub congestion_events: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets taken for lost, MTU probes aside.
    pub lost_packets: u64,
    /// Times that the MTU fell back to 1200 because large packets seemed to vanish.
    pub black_holes: u64,
}

impl PathReport {
    pub(super) fn of(connection: &quinn::Connection, socket: SocketReport) -> PathReport {
        let path = connection.stats().path;
        PathReport {
            mtu: path.current_mtu,
            gso: socket.gso,
            gro: socket.gro,
            rcvbuf_bytes: socket.rcvbuf_bytes,
            sndbuf_bytes: socket.sndbuf_bytes,
            cipher: CIPHER_NAME,
            rtt: path.rtt,
            congestion_window_bytes: path.cwnd,
            congestion_events: path.congestion_events,
            sent_packets: path.sent_packets,
            lost_packets: path.lost_packets,
            black_holes: path.black_holes_detected,
        }
    }
}
