//! By which ways readers are linked with a worker: what it says of itself with its heartbeats, for people.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// The number of a worker's links with readers, by transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LinkCounts {
    /// Within its process.
    #[n(0)]
    pub memory: u64,
    /// Through memory shared with other processes of its host.
    #[n(1)]
    pub shared_memory: u64,
    /// Over a network.
    #[n(2)]
    pub network: u64,
}
