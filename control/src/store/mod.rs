//! The store of the dispatcher's records. A commit writes a group of changes, all or none; a start loads
//! all records.

mod contract;
mod disk;
mod etcd;
mod memory;
#[cfg(test)]
mod tests;

pub use contract::{Campaign, Candidate, Store, StoreError};
pub use disk::{DiskStore, WorkDirError};
#[cfg(feature = "etcd")]
pub use etcd::{EtcdCandidate, EtcdError};
pub use etcd::{EtcdConfig, EtcdConfigError, EtcdUser};
pub use memory::MemoryStore;
