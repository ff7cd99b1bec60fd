//! The workers of this process, by the address they advertise: readers reach them without a network.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_dataplane::worker::Server;
use parking_lot::RwLock;

/// The workers of one process. Shared by whoever should see each other.
#[derive(Debug, Clone, Default)]
pub struct LocalWorkers {
    servers: Arc<RwLock<BTreeMap<String, Server>>>,
}

impl LocalWorkers {
    /// Makes a worker reachable for as long as the entry lives.
    pub(crate) fn add(&self, address: &str, server: Server) -> LocalEntry {
        self.servers.write().insert(address.to_owned(), server);
        LocalEntry {
            workers: self.clone(),
            address: address.to_owned(),
        }
    }

    /// The worker at this address, if it is in this process.
    pub fn find(&self, address: &str) -> Option<Server> {
        self.servers.read().get(address).cloned()
    }
}

/// A worker among those of its process, until it is dropped.
#[derive(Debug)]
pub(crate) struct LocalEntry {
    workers: LocalWorkers,
    address: String,
}

impl Drop for LocalEntry {
    fn drop(&mut self) {
        self.workers.servers.write().remove(&self.address);
    }
}
