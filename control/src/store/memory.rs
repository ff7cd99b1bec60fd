//! Keeps nothing beyond the process: a dispatcher that restarts has lost its records.

use std::collections::BTreeMap;

use super::{Store, StoreError};
use crate::dispatcher::{Change, Key, Record};

/// Records in memory. `forgetful` by default: nobody reads them back, so that they are not even kept.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    kept: Option<BTreeMap<Key, Record>>,
}

impl MemoryStore {
    /// A store for a dispatcher that is not expected back: it keeps nothing.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// A store that can be loaded from, as long as the process lives.
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
