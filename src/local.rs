//! The workers of this process, by their advertised addresses. Readers in the process reach these workers
//! without a network.
//!
//! Owns the whereabouts of this process, which the dispatcher receives.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use millstream_control::Whereabouts;
use millstream_dataplane::worker::Server;
use parking_lot::RwLock;

/// The workers of one process. All workers and readers that should find each other share one value. Workers
/// and readers with different values behave as in different processes.
#[derive(Debug, Clone)]
pub struct LocalWorkers {
    servers: Arc<RwLock<BTreeMap<String, Server>>>,
    whereabouts: Whereabouts,
}

impl Default for LocalWorkers {
    fn default() -> Self {
        let process = Some(RandomState::new().hash_one("a process"));
        Self {
            servers: Arc::default(),
            whereabouts: Whereabouts {
                host: host(),
                process,
            },
        }
    }
}

impl LocalWorkers {
    /// Returns the whereabouts for the dispatcher: a random number identifies the process, and the kernel's
    /// boot id identifies the host.
    pub fn whereabouts(&self) -> Whereabouts {
        self.whereabouts
    }

    /// Returns whether this process has no workers.
    pub fn is_empty(&self) -> bool {
        self.servers.read().is_empty()
    }

    /// Registers a worker. The worker is reachable until the entry is dropped.
    pub(crate) fn add(&self, address: &str, server: Server) -> LocalEntry {
        self.servers.write().insert(address.to_owned(), server);
        LocalEntry {
            workers: self.clone(),
            address: address.to_owned(),
        }
    }

    /// Returns the worker at this address, if the worker is in this process.
    pub fn find(&self, address: &str) -> Option<Server> {
        self.servers.read().get(address).cloned()
    }
}

/// Returns the number of this host, derived from the boot id of the running kernel. All containers of a
/// machine have the same boot id, and each virtual machine has its own. The boot id contains no other
/// information, and every user may read it.
fn host() -> Option<u64> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).ok()?;
    let [high, low] = [boot >> 64, boot].map(|half| half as u64);
    Some(high ^ low)
}

/// The registration of a worker in its process. Dropping the entry removes the worker.
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

#[cfg(test)]
mod tests {
    use millstream_dataplane::worker::ServerConfig;
    use millstream_element::{HeapAlloc, SlotAlloc};
    use millstream_link::TicketKey;

    use super::*;

    #[test]
    fn a_worker_is_found_until_it_ends() {
        let workers = LocalWorkers::default();
        assert!(workers.is_empty() && workers.find("one:1").is_none());
        let memory: Arc<dyn SlotAlloc> = Arc::new(HeapAlloc);
        let server =
            || Server::new(ServerConfig::default(), TicketKey::from_bytes([1; 32]), &memory).unwrap();
        let entries = ["one:1", "two:2", "three:3"].map(|address| workers.add(address, server()));
        let found = || ["one:1", "two:2", "three:3", "four:4"].map(|address| workers.find(address).is_some());
        assert_eq!(found(), [true, true, true, false]);
        let [one, two, three] = entries;
        drop(one);
        assert_eq!(found(), [false, true, true, false]);
        drop((two, three));
        assert!(workers.is_empty());
    }

    #[test]
    fn processes_share_their_hosts_number_only() {
        let [one, other] = [LocalWorkers::default(), LocalWorkers::default()];
        assert!(host().is_some());
        assert!(one.whereabouts().is_same_host(&other.whereabouts()));
        assert!(!one.whereabouts().is_same_process(&other.whereabouts()));
        let clone = one.clone();
        assert!(one.whereabouts().is_same_process(&clone.whereabouts()));
    }
}
