//! The readers that a scaling policy knows, so that it tells new readers from those that begin another epoch.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::observation::Observation;

/// The time within which readers that left count as the same readers when they return. A trainer closes its
/// reader at the end of an epoch, and opens another one for the next epoch.
pub(super) const RETURN_WITHIN: Duration = Duration::from_secs(30);
/// The time that the workers of returned readers have to produce elements again.
const RESTART: Duration = Duration::from_secs(5);

/// The readers that a scaling policy knows.
#[derive(Debug, Default)]
pub(super) struct KnownReaders {
    /// The largest number of readers within [`RETURN_WITHIN`].
    count: u64,
    /// The time since which fewer readers exist.
    fewer_since: Option<Duration>,
    /// The number of readers in the latest observation.
    latest: u64,
    /// The datasets of these readers, with the times at which they were read last.
    datasets: BTreeMap<u64, Duration>,
    new_at: Duration,
    returned_at: Option<Duration>,
}

impl KnownReaders {
    /// Returns whether a reader reads a dataset that nobody has read lately.
    fn has_unknown_dataset(&self, seen: &Observation) -> bool {
        seen.datasets
            .iter()
            .any(|dataset| !self.datasets.contains_key(dataset))
    }

    /// Notes the readers of an observation. Returns whether some of them are new.
    pub(super) fn note(&mut self, now: Duration, seen: &Observation) -> bool {
        let are_new = seen.readers > self.count || self.has_unknown_dataset(seen);
        self.datasets
            .extend(seen.datasets.iter().map(|dataset| (*dataset, now)));
        self.datasets
            .retain(|_, read_at| now.saturating_sub(*read_at) < RETURN_WITHIN);
        let before = std::mem::replace(&mut self.latest, seen.readers);
        if are_new {
            (self.count, self.fewer_since) = (seen.readers, None);
            (self.new_at, self.returned_at) = (now, None);
            return true;
        }
        if before == 0 && seen.readers > 0 {
            self.returned_at = Some(now);
        }
        if seen.readers == self.count {
            self.fewer_since = None;
        } else if now.saturating_sub(*self.fewer_since.get_or_insert(now)) >= RETURN_WITHIN {
            (self.count, self.fewer_since) = (seen.readers, None);
        }
        false
    }

    /// Returns the time since the latest arrival of new readers.
    pub(super) fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.new_at)
    }

    /// Returns whether the workers of readers in their next epoch may not produce elements yet.
    pub(super) fn are_restarting(&self, now: Duration) -> bool {
        self.latest == 0
            || self
                .returned_at
                .is_some_and(|at| now.saturating_sub(at) < RESTART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(known: &mut KnownReaders, second: u64, readers: u64, dataset: u64) -> bool {
        let seen = Observation {
            readers,
            datasets: (readers > 0).then_some(dataset).into_iter().collect(),
            ..Observation::default()
        };
        known.note(Duration::from_secs(second), &seen)
    }

    #[test]
    fn readers_of_the_next_epoch_are_known() {
        let mut known = KnownReaders::default();
        assert!(note(&mut known, 1, 4, 7));
        assert!(!note(&mut known, 2, 0, 7));
        assert!(!note(&mut known, 31, 2, 7), "a part of them has returned");
        assert!(!note(&mut known, 31, 4, 7));
        assert!(note(&mut known, 32, 5, 7), "there is one more");
        assert!(note(&mut known, 33, 5, 8), "they read another dataset");
    }

    #[test]
    fn readers_after_a_long_pause_are_new() {
        let mut known = KnownReaders::default();
        assert!(note(&mut known, 1, 4, 7));
        assert!(!note(&mut known, 2, 0, 7));
        assert!(!note(&mut known, 32, 0, 7));
        assert!(note(&mut known, 33, 4, 7));
    }

    #[test]
    fn returned_readers_restart_their_workers() {
        let mut known = KnownReaders::default();
        note(&mut known, 1, 1, 7);
        assert!(!known.are_restarting(Duration::from_secs(2)));
        note(&mut known, 10, 0, 7);
        assert!(known.are_restarting(Duration::from_secs(10)));
        note(&mut known, 11, 1, 7);
        assert!(known.are_restarting(Duration::from_secs(15)));
        assert!(!known.are_restarting(Duration::from_secs(16)));
    }
}
