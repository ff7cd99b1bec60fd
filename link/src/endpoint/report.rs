//! The properties of a link that statistics and benchmarks show.

use std::time::Duration;

use crate::socket::SocketReport;
use crate::tls::CIPHER_NAME;

/// The state of a connection, and of the socket under it, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// The UDP payload in force for packets that this side sends, in bytes. The peer reports its own.
    pub mtu: u16,
    /// True if the kernel splits large sends into datagrams.
    pub gso: bool,
    /// True if the kernel joins received datagrams.
    pub gro: bool,
    /// The size of the receive buffer in bytes, as the kernel reports it.
    pub rcvbuf_bytes: usize,
    /// The size of the send buffer in bytes, as the kernel reports it.
    pub sndbuf_bytes: usize,
    /// The TLS cipher suite. quinn does not report the negotiated suite, but this crate offers and accepts
    /// only one.
    pub cipher: &'static str,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The congestion window, in bytes.
    pub congestion_window_bytes: u64,
    /// The number of times that a loss shrank the congestion window.
    pub congestion_events: u64,
    /// The number of packets sent.
    pub sent_packets: u64,
    /// The number of packets considered lost, without MTU probes.
    pub lost_packets: u64,
    /// The number of times that the MTU fell back to 1200 bytes because large packets seemed to vanish.
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
