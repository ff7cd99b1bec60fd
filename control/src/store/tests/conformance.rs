//! One suite for every store: a store that is opened again has exactly the committed records.

use std::collections::BTreeMap;
#[cfg(feature = "etcd")]
use std::sync::OnceLock;
#[cfg(feature = "etcd")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(feature = "etcd")]
use millstream_testkit::EtcdCluster;
use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use super::records::{apply, by_key, change, meta};
use crate::dispatcher::{Change, Key, Record};
use crate::store::disk::FILE;
#[cfg(feature = "etcd")]
use crate::store::{Candidate, EtcdCandidate, EtcdConfig};
use crate::store::{DiskStore, MemoryStore, Store};

/// A store under test.
pub(super) trait Subject: Sized {
    fn new() -> Self;
    fn store(&mut self) -> &mut dyn Store;
    /// Closes the store in an orderly way and opens it again.
    fn reopened(self) -> Self;
    /// Returns the records that a killed process would leave behind at this point.
    fn left_behind(&self) -> Vec<Record>;
}

struct Memory(MemoryStore);

impl Subject for Memory {
    fn new() -> Memory {
        Memory(MemoryStore::keeping())
    }

    fn store(&mut self) -> &mut dyn Store {
        &mut self.0
    }

    /// Returns the same store: a store in memory lives as long as its handle.
    fn reopened(self) -> Memory {
        self
    }

    fn left_behind(&self) -> Vec<Record> {
        self.0.clone().load().unwrap()
    }
}

pub(super) struct Disk {
    // The store is dropped before its directory.
    store: DiskStore,
    pub(super) folder: TempDir,
}

impl Subject for Disk {
    fn new() -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let store = DiskStore::open(folder.path()).unwrap();
        Disk { store, folder }
    }

    fn store(&mut self) -> &mut dyn Store {
        &mut self.store
    }

    fn reopened(self) -> Disk {
        let Disk { store, folder } = self;
        drop(store);
        // A process that another test starts at this moment has a copy of the lock until it runs its program.
        let mut reopened = DiskStore::open(folder.path());
        for _ in 0..100 {
            if reopened.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            reopened = DiskStore::open(folder.path());
        }
        let store = reopened.unwrap();
        Disk { store, folder }
    }

    fn left_behind(&self) -> Vec<Record> {
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::copy(self.folder.path().join(FILE), elsewhere.path().join(FILE)).unwrap();
        DiskStore::open(elsewhere.path()).unwrap().load().unwrap()
    }
}

/// A store on etcd whose only dispatcher leads.
#[cfg(feature = "etcd")]
pub(super) struct Etcd {
    store: Box<dyn Store>,
    config: EtcdConfig,
}

#[cfg(feature = "etcd")]
impl Etcd {
    pub(super) fn lead(config: &EtcdConfig) -> Box<dyn Store> {
        let mut candidate = EtcdCandidate::connect(config.clone(), vec!["key".to_owned()]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let led = runtime.block_on(candidate.campaign("here:1"));
        led.unwrap().unwrap()
    }

    /// Returns settings with a prefix that no other test has. `None` where etcd is not installed.
    pub(super) fn config() -> Option<EtcdConfig> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static CLUSTER: OnceLock<Option<EtcdCluster>> = OnceLock::new();
        let cluster = CLUSTER.get_or_init(|| EtcdCluster::start(1, &[]));
        // Relaxed: only the distinct values matter.
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = format!("etcd://{}/tests/{next}", cluster.as_ref()?.addresses());
        Some(address.parse().unwrap())
    }
}

#[cfg(feature = "etcd")]
impl Subject for Etcd {
    fn new() -> Etcd {
        let config = Etcd::config().unwrap();
        let store = Etcd::lead(&config);
        Etcd { store, config }
    }

    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut()
    }

    fn reopened(self) -> Etcd {
        let Etcd { store, config } = self;
        drop(store);
        let store = Etcd::lead(&config);
        Etcd { store, config }
    }

    fn left_behind(&self) -> Vec<Record> {
        EtcdCandidate::read_all(&self.config).unwrap()
    }
}

/// Returns a few groups of changes.
fn commits() -> impl Strategy<Value = Vec<Vec<Change>>> {
    prop::collection::vec(prop::collection::vec(change(), 1..12), 1..6)
}

/// Compares a store with a map after each commit, after a kill, and after a restart (C1.6).
fn keeps_what_was_committed<S: Subject>(commits: Vec<Vec<Change>>) -> Result<(), TestCaseError> {
    let mut subject = S::new();
    let mut model: BTreeMap<Key, Record> = BTreeMap::new();
    prop_assert_eq!(subject.store().load().unwrap(), []);
    prop_assert!(!subject.store().is_volatile());
    let first = vec![Change::Put(meta(7))];
    for changes in std::iter::once(first).chain(commits) {
        subject.store().commit(&changes).unwrap();
        apply(&mut model, &changes);
        prop_assert_eq!(by_key(subject.store().load().unwrap()), model.clone());
        prop_assert_eq!(by_key(subject.left_behind()), model.clone());
        subject = subject.reopened();
        prop_assert_eq!(by_key(subject.store().load().unwrap()), model.clone());
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_memory_store_keeps_what_was_committed(commits in commits()) {
        keeps_what_was_committed::<Memory>(commits)?;
    }
}

proptest! {
    // Each case opens about ten files and waits for the disk about ten times.
    #![proptest_config(rounds(24))]
    #[test]
    fn a_disk_store_keeps_what_was_committed(commits in commits()) {
        keeps_what_was_committed::<Disk>(commits)?;
    }
}

#[cfg(feature = "etcd")]
proptest! {
    // Each case waits for the disk about twenty times.
    #![proptest_config(rounds(12))]
    #[test]
    fn an_etcd_store_keeps_what_was_committed(commits in commits()) {
        if Etcd::config().is_some() {
            keeps_what_was_committed::<Etcd>(commits)?;
        }
    }
}
