//! Sets of ids, grouped by their owner.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

/// The members of each group, in order. A group without members has no entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Groups<K, V> {
    members: BTreeMap<K, BTreeSet<V>>,
}

impl<K, V> Default for Groups<K, V> {
    fn default() -> Groups<K, V> {
        Groups {
            members: BTreeMap::new(),
        }
    }
}

impl<K: Ord, V: Ord + Copy> Groups<K, V> {
    pub(crate) fn insert(&mut self, group: K, member: V) {
        self.members.entry(group).or_default().insert(member);
    }

    pub(crate) fn remove(&mut self, group: &K, member: &V) {
        if let Some(members) = self.members.get_mut(group) {
            members.remove(member);
            if members.is_empty() {
                self.members.remove(group);
            }
        }
    }

    pub(crate) fn of(&self, group: &K) -> impl Iterator<Item = V> + use<'_, K, V> {
        self.members.get(group).into_iter().flatten().copied()
    }

    pub(crate) fn last(&self, group: &K) -> Option<V> {
        self.members.get(group)?.last().copied()
    }

    pub(crate) fn count(&self, group: &K) -> usize {
        self.members.get(group).map_or(0, BTreeSet::len)
    }

    pub(crate) fn contains(&self, group: &K) -> bool {
        self.members.contains_key(group)
    }

    /// Returns the groups that have members.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &K> {
        self.members.keys()
    }
}
