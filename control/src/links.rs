//! The counts of links between workers and readers, which both report with their heartbeats, for people.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// Maximum bytes of [`ClientLinks::network_reason`]. A longer reason is cut off.
pub const NETWORK_REASON_BYTES_MAX: usize = 96;

/// The number of links, by transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LinkCounts {
    /// The links within a process.
    #[n(0)]
    pub memory: u64,
    /// The links through shared memory, between processes of a host.
    #[n(1)]
    pub shared_memory: u64,
    /// The links over a network.
    #[n(2)]
    pub network: u64,
}

impl LinkCounts {
    /// Counts a link over this transport: `memory`, `shm`, or any network.
    pub fn add(&mut self, transport: &str) {
        let of_transport = match transport {
            "memory" => &mut self.memory,
            "shm" => &mut self.shared_memory,
            _ => &mut self.network,
        };
        *of_transport += 1;
    }
}

/// The links of a client with its workers. Only the client knows why it chose a transport.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct ClientLinks {
    /// The links, by transport.
    #[n(0)]
    pub counts: LinkCounts,
    /// The reason why links cross a network, in at most [`NETWORK_REASON_BYTES_MAX`] bytes. `None` if no link
    /// does, or the client does not say it.
    #[n(1)]
    pub network_reason: Option<String>,
}

impl ClientLinks {
    /// Cuts the reason to its limit.
    pub(crate) fn cut(mut self) -> ClientLinks {
        if let Some(reason) = &mut self.network_reason {
            reason.truncate(reason.floor_char_boundary(NETWORK_REASON_BYTES_MAX));
        }
        self
    }
}
