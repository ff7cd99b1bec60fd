//! The place of a worker, as far as the reader knows.
//!
//! A [`Connector`](crate::Connector) chooses the transport to a worker. This file does not know transports.

use millstream_control::Whereabouts;

/// The place of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerPlace {
    /// The network address of the worker, which also serves as the worker's name.
    pub address: String,
    /// The host and process of the worker.
    pub whereabouts: Whereabouts,
    /// The worker's local socket, if the worker has one and runs on the reader's host. A restarted worker has
    /// another socket.
    pub local_socket: Option<String>,
}

impl WorkerPlace {
    /// Makes the place of a worker whose address alone is known.
    pub fn at(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            ..Self::default()
        }
    }

    /// Returns whether the worker's socket differs from the socket in `earlier` (C14.6).
    pub(crate) fn has_moved_from(&self, earlier: &Self) -> bool {
        self.local_socket != earlier.local_socket
    }
}
