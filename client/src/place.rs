//! The place of a worker, as far as a reader was told.
//!
//! This file does not know how a worker is reached: a [`Connector`](crate::Connector) chooses.

use millstream_control::Whereabouts;

/// The place of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerPlace {
    /// The network address of the worker, which also names it.
    pub address: String,
    /// The host and process.
    pub whereabouts: Whereabouts,
    /// The worker's local socket, if both are on one host and it has one. A worker that was started again has
    /// another socket.
    pub local_socket: Option<String>,
}

impl WorkerPlace {
    /// A worker of which only its address is known.
    pub fn at(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            ..Self::default()
        }
    }

    /// Returns whether a link to `earlier` leads to another socket than one that is made now (C14.6).
    pub(crate) fn has_moved_from(&self, earlier: &Self) -> bool {
        self.local_socket != earlier.local_socket
    }
}
