//! One suite for every store: whenever it is opened again, it has exactly what was committed.

use std::collections::BTreeMap;

use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use super::records::{apply, by_key, change, meta};
use crate::dispatcher::{Change, Key, Record};
use crate::store::disk::FILE;
use crate::store::{DiskStore, MemoryStore, Store};

/// A store of one mechanism.
pub(super) trait Subject: Sized {
    fn new() -> Self;
    fn store(&mut self) -> &mut dyn Store;
    /// Ended in an orderly way, and opened again.
    fn reopened(self) -> Self;
    /// Returns the records that a process leaves behind if it is killed now.
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

    /// Opens the store again; it lives as long as a handle does.
    fn reopened(self) -> Memory {
        self
    }

    fn left_behind(&self) -> Vec<Record> {
        self.0.clone().load().unwrap()
    }
}

pub(super) struct Disk {
    // Dropped before its directory.
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
        let store = DiskStore::open(folder.path()).unwrap();
        Disk { store, folder }
    }

    fn left_behind(&self) -> Vec<Record> {
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::copy(self.folder.path().join(FILE), elsewhere.path().join(FILE)).unwrap();
        DiskStore::open(elsewhere.path()).unwrap().load().unwrap()
    }
}

/// A few groups of changes.
fn commits() -> impl Strategy<Value = Vec<Vec<Change>>> {
    prop::collection::vec(prop::collection::vec(change(), 1..12), 1..6)
}

/// C1.6. Oracle: a map.
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
    // Each opens about ten files, and waits for the disk as often.
    #![proptest_config(rounds(24))]
    #[test]
    fn a_disk_store_keeps_what_was_committed(commits in commits()) {
        keeps_what_was_committed::<Disk>(commits)?;
    }
}
