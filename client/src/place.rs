//! Where a worker is, as far as a reader was told.
//!
//! Refuses to know how that is reached: a [`Connector`](crate::Connector) chooses.

use millstream_control::Whereabouts;

/// Where a worker is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Where it listens on the network, which names it.
    pub address: String,
    /// Its host and process.
    pub whereabouts: Whereabouts,
    /// How this reader reaches it without a network, if both are on one host and it can be reached so. A worker that was
    /// started again has another one.
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

    /// Whether a link to `earlier` leads to another socket than one that is made now (C14.6).
    pub(crate) fn has_moved_from(&self, earlier: &Self) -> bool {
        self.local_socket != earlier.local_socket
    }
}
