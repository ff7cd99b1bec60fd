//! The properties of a link that reports show.

use std::sync::Arc;
use std::time::Duration;

/// The properties of a link that are in force now, for people and for `bench-transfer`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// The transport: `memory`, `shm` or `quic`.
    pub transport: &'static str,
    /// The reason, for people, why no better transport is used. Only the reader knows the reason, because the
    /// reader chooses the transport.
    pub not_better: Option<Arc<str>>,
    /// The payload of a packet in bytes, if the link has packets.
    pub mtu: Option<u16>,
    /// True if the kernel splits outgoing data into packets (GSO).
    pub gso: bool,
    /// True if the kernel joins incoming packets (GRO).
    pub gro: bool,
    /// The size of the socket's receive buffer in bytes, as reported by the kernel.
    pub rcvbuf_bytes: Option<usize>,
    /// The cipher suite of the link, if the link is encrypted.
    pub cipher: Option<String>,
    /// The smoothed round-trip time, if the link crosses a network.
    pub round_trip: Option<Duration>,
    /// The number of packets lost so far.
    pub lost_packets: u64,
    /// The number of payload bytes that this end's own code copied, compressed or decompressed so far. The
    /// sum over both ends counts every copy between the pipeline's write and the reader's view.
    pub bytes_copied: u64,
    /// The number of packs that crossed the link so far.
    pub packs: u64,
}
