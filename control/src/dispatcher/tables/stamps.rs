//! Moments by key, and the keys whose state has lasted for too long.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::Duration;

use crate::dispatcher::moment::Moment;

/// The latest moment of each key. Moments are not stored: after a restart, all keys begin with a full
/// timeout (C1.6).
#[derive(Debug)]
pub(crate) struct Stamps<K> {
    moments: BTreeMap<K, Moment>,
}

/// Keys in a bad state that is reported once if it lasts.
#[derive(Debug)]
pub(crate) struct Alarms<K> {
    /// The moment since which each key is in the bad state, and whether the state was reported.
    since: BTreeMap<K, (Moment, bool)>,
}

impl<K> Default for Stamps<K> {
    fn default() -> Stamps<K> {
        Stamps {
            moments: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Stamps<K> {
    pub(crate) fn note(&mut self, key: K, at: Moment) {
        self.moments.insert(key, at);
    }

    /// Notes the moment of a key, unless the key already has a moment.
    pub(crate) fn note_first(&mut self, key: K, at: Moment) {
        self.moments.entry(key).or_insert(at);
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.moments.remove(key);
    }

    pub(crate) fn get(&self, key: &K) -> Option<Moment> {
        self.moments.get(key).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, Moment)> {
        self.moments.iter().map(|(key, at)| (key, *at))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// Returns the keys whose moment is more than `limit` ago.
    pub(crate) fn overdue(&self, now: Moment, limit: Duration) -> Vec<K> {
        let is_late = |at: Moment| now.saturating_sub(at) > limit;
        let late = self.iter().filter(|(_, at)| is_late(*at));
        late.map(|(key, _)| key.clone()).collect()
    }

    /// Moves all moments by a time in which the dispatcher itself did not run (C7.6).
    pub(crate) fn excuse(&mut self, time: Duration) {
        self.moments.values_mut().for_each(|at| *at += time);
    }
}

impl<K> Default for Alarms<K> {
    fn default() -> Alarms<K> {
        Alarms {
            since: BTreeMap::new(),
        }
    }
}

impl<K: Ord> Alarms<K> {
    /// Notes that a key is in the bad state. Returns whether the state must be reported now: once, after
    /// `grace`.
    pub(crate) fn raise(&mut self, key: K, now: Moment, grace: Duration) -> bool {
        let (since, told) = self.since.entry(key).or_insert((now, false));
        let is_due = !*told && now >= *since + grace;
        *told |= is_due;
        is_due
    }

    /// Notes that a key is not in the bad state.
    pub(crate) fn clear(&mut self, key: &K) {
        self.since.remove(key);
    }

    /// Returns whether the bad state of a key has been reported.
    pub(crate) fn is_told(&self, key: &K) -> bool {
        self.since.get(key).is_some_and(|(_, told)| *told)
    }

    /// Moves all moments by a time in which the dispatcher itself did not run (C7.6).
    pub(crate) fn excuse(&mut self, time: Duration) {
        self.since.values_mut().for_each(|(since, _)| *since += time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn overdue_keys_are_strictly_later() {
        let mut stamps = Stamps::default();
        stamps.note('a', SECOND);
        stamps.note('b', 2 * SECOND);
        stamps.note_first('a', 9 * SECOND);
        assert_eq!(stamps.overdue(3 * SECOND, SECOND), ['a']);
        stamps.excuse(SECOND);
        assert!(stamps.overdue(3 * SECOND, SECOND).is_empty());
    }

    #[test]
    fn an_alarm_is_due_once() {
        let mut alarms = Alarms::default();
        assert!(!alarms.raise('a', SECOND, 2 * SECOND));
        assert!(alarms.raise('a', 3 * SECOND, 2 * SECOND));
        assert!(alarms.is_told(&'a'));
        assert!(!alarms.raise('a', 9 * SECOND, 2 * SECOND));
        alarms.clear(&'a');
        assert!(!alarms.raise('a', 9 * SECOND, 2 * SECOND));
    }
}
