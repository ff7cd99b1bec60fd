//! The counts of a worker's links with readers, which the worker reports with its heartbeats, for people.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// The number of a worker's links with readers, by transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LinkCounts {
    /// The links within the worker's process.
    #[n(0)]
    pub memory: u64,
    /// The links through shared memory with other processes of the host.
    #[n(1)]
    pub shared_memory: u64,
    /// The links over a network.
    #[n(2)]
    pub network: u64,
}
