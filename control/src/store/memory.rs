//! The store in memory. Records in memory end with the process.

use std::collections::BTreeMap;

use super::{Store, StoreError};
use crate::dispatcher::{Change, Key, Record};

/// A store in memory. The default store keeps no records at all, because no process reads them back.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    kept: Option<BTreeMap<Key, Record>>,
}

impl MemoryStore {
    /// Returns a store that keeps no records, for a dispatcher that will not be restarted.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Returns a store that keeps its records for the life of the process, so that they can be loaded
    /// again.
    pub fn keeping() -> MemoryStore {
        MemoryStore {
            kept: Some(BTreeMap::new()),
        }
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<Vec<Record>, StoreError> {
        Ok(self.kept.iter().flat_map(BTreeMap::values).cloned().collect())
    }

    fn is_volatile(&self) -> bool {
        self.kept.is_none()
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let Some(kept) = &mut self.kept else {
            return Ok(());
        };
        for change in changes {
            match change {
                Change::Put(record) => kept.insert(record.key(), record.clone()),
                Change::Delete(key) => kept.remove(key),
            };
        }
        Ok(())
    }
}
