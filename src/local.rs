//! The workers of this process, by the address they advertise: readers reach them without a network.
//!
//! Owns what the dispatcher is told of where this process is.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use millstream_control::Whereabouts;
use millstream_dataplane::worker::Server;
use parking_lot::RwLock;

/// The workers of one process. Shared by all parts that should see each other: workers and readers with
/// different ones are as far apart as in two processes.
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
    /// Returns the whereabouts for the dispatcher: a random number names the process, and the kernel's boot
    /// id names the host.
    pub fn whereabouts(&self) -> Whereabouts {
        self.whereabouts
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.servers.read().is_empty()
    }

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

/// The number of this host: its running kernel's boot id. It is the same in every container of a machine, and
/// another in every virtual machine. It tells nothing else, and any user may read it.
fn host() -> Option<u64> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).ok()?;
    let [high, low] = [boot >> 64, boot].map(|half| half as u64);
    Some(high ^ low)
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
