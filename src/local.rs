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
    /// Makes a worker reachable until [`LocalWorkers::remove`].
    pub fn add(&self, address: &str, server: Server) {
        self.servers.write().insert(address.to_owned(), server);
    }

    /// Makes it unreachable for new readers.
    pub fn remove(&self, address: &str) {
        self.servers.write().remove(address);
    }

    /// The worker at this address, if it is in this process.
    pub fn find(&self, address: &str) -> Option<Server> {
        self.servers.read().get(address).cloned()
    }
}
