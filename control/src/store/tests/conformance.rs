//! One suite for every store: a store that is opened again has exactly the committed records.

use std::collections::BTreeMap;

use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use super::records::{apply, by_key, change, meta};
use crate::dispatcher::{Change, Key, Record};
use crate::store::disk::FILE;
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
        let store = DiskStore::open(folder.path()).unwrap();
        Disk { store, folder }
    }

    fn left_behind(&self) -> Vec<Record> {
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::copy(self.folder.path().join(FILE), elsewhere.path().join(FILE)).unwrap();
        DiskStore::open(elsewhere.path()).unwrap().load().unwrap()
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
