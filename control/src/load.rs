//! The load of a worker, which the worker reports with its heartbeats, for people.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};

/// The memory and the processes of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct WorkerLoad {
    /// The memory of the worker's own process, if the system states it.
    #[n(0)]
    pub memory_bytes: Option<u64>,
    /// The shared memory for readers on the worker's host.
    #[cbor(n(1), default)]
    pub shared_memory_bytes: u64,
    /// The elements in caches between trainers.
    #[cbor(n(2), default)]
    pub cache_bytes: u64,
    /// The number of Python processes.
    #[cbor(n(3), default)]
    pub python_processes: u64,
}
