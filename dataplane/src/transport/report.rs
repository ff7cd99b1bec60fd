//! The properties of a link that reports show.

use std::sync::Arc;
use std::time::Duration;

/// The properties that are in force on a link, for people and for `bench-transfer`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// `memory`, `shm` or `quic`.
    pub transport: &'static str,
    /// Why not by a better one, for people; known to the side that chose, which is the reader.
    pub not_better: Option<Arc<str>>,
    /// Bytes of a packet's payload, where there are packets.
    pub mtu: Option<u16>,
    /// Whether the kernel splits what is sent.
    pub gso: bool,
    /// Whether the kernel joins what is received.
    pub gro: bool,
    /// The socket's receive buffer, in bytes, as the kernel reports it.
    pub rcvbuf_bytes: Option<usize>,
    /// The cipher suite.
    pub cipher: Option<String>,
    /// Smoothed round-trip time, where there is a network.
    pub round_trip: Option<Duration>,
    /// Packets lost so far.
    pub lost_packets: u64,
    /// Payload bytes that this end's own code wrote once more so far: copied to another place, compressed or
    /// decompressed. Between what a pipeline writes and what a reader views, on both ends together, this is
    /// all that is copied.
    pub bytes_copied: u64,
    /// Packs that crossed so far.
    pub packs: u64,
}
