//! A table of records that notes which records changed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

/// Records of one kind by id, in order.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    changed: BTreeSet<K>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table {
            rows: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    /// Adds a record that the store already has.
    pub(crate) fn load(&mut self, key: K, row: V) {
        self.rows.insert(key, row);
    }

    pub(crate) fn insert(&mut self, key: K, row: V) {
        self.changed.insert(key.clone());
        self.rows.insert(key, row);
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let row = self.rows.remove(key);
        if row.is_some() {
            self.changed.insert(key.clone());
        }
        row
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    /// Returns a record for a change, and marks the record as changed.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let row = self.rows.get_mut(key)?;
        if !self.changed.contains(key) {
            self.changed.insert(key.clone());
        }
        Some(row)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.rows.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    #[cfg(any(test, debug_assertions))]
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.rows.keys()
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.rows.values()
    }

    pub(crate) fn forget_changes(&mut self) {
        self.changed.clear();
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Takes the rows that changed since the last call, with `None` for deleted rows.
    pub(crate) fn take_changes(&mut self) -> impl Iterator<Item = (K, Option<&V>)> {
        let changed = std::mem::take(&mut self.changed);
        let rows = &self.rows;
        changed.into_iter().map(|key| {
            let row = rows.get(&key);
            (key, row)
        })
    }
}
