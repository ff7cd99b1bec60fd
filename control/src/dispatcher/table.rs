//! One table of records that knows which of them changed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

/// Records of one kind by id, in order.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    changed: BTreeSet<K>,
}

/// Two tables are equal if they hold the same, whatever changed lately.
impl<K: PartialEq, V: PartialEq> PartialEq for Table<K, V> {
    fn eq(&self, other: &Table<K, V>) -> bool {
        self.rows == other.rows
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    pub(super) fn new() -> Table<K, V> {
        Table {
            rows: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Puts a record in that the store already has.
    pub(super) fn load(&mut self, key: K, row: V) {
        self.rows.insert(key, row);
    }

    pub(super) fn insert(&mut self, key: K, row: V) {
        self.changed.insert(key.clone());
        self.rows.insert(key, row);
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let row = self.rows.remove(key);
        if row.is_some() {
            self.changed.insert(key.clone());
        }
        row
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    /// The record, to be changed: it counts as changed.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let row = self.rows.get_mut(key)?;
        if !self.changed.contains(key) {
            self.changed.insert(key.clone());
        }
        Some(row)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.rows.contains_key(key)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.rows.values()
    }

    pub(super) fn forget_changes(&mut self) {
        self.changed.clear();
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What changed since the last call: the record now, or `None` where it is gone.
    pub(super) fn take_changes(&mut self) -> impl Iterator<Item = (K, Option<&V>)> {
        let changed = std::mem::take(&mut self.changed);
        let rows = &self.rows;
        changed.into_iter().map(|key| {
            let row = rows.get(&key);
            (key, row)
        })
    }
}
