//! The numbers of workers that failed steps have taught, for the datasets that were read then.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::observation::Observation;

/// The time after which a step without success is tried again. Each further failure doubles the time.
const RETRY_AFTER: Duration = Duration::from_secs(300);
/// Maximum time after which a step without success is tried again.
const RETRY_MAX: Duration = Duration::from_secs(3600);
/// The growth of the demand from which on earlier experience does not count.
pub(super) const DEMAND_GROWTH: f64 = 1.5;
/// Maximum number of sets of datasets that have experience. The one that expires first is forgotten.
const SETS_MAX: usize = 16;

/// The experience with each set of datasets that was read at the same time.
#[derive(Debug, Default)]
pub(super) struct Experience {
    lessons: BTreeMap<BTreeSet<u64>, Lesson>,
}

/// A number of workers that a failed step has taught.
#[derive(Debug)]
struct Lesson {
    workers: u64,
    /// The number is not left before this time.
    until: Duration,
    /// The number of failed steps in succession, without the first one.
    failures: u32,
    readers: u64,
    demand: f64,
}

impl Experience {
    /// Returns the number of workers that holds for the datasets of an observation.
    pub(super) fn workers(&self, now: Duration, seen: &Observation) -> Option<u64> {
        let lesson = self.lessons.get(&seen.datasets)?;
        (now < lesson.until).then_some(lesson.workers)
    }

    /// Learns a number of workers from a failed step. Returns the time until the next attempt.
    pub(super) fn learn(&mut self, now: Duration, seen: &Observation, workers: u64, demand: f64) -> Duration {
        let before = self.lessons.get(&seen.datasets);
        let failures = before.map_or(0, |before| before.failures.saturating_add(1));
        let wait = RETRY_AFTER.saturating_mul(1 << failures.min(8)).min(RETRY_MAX);
        let lesson = Lesson {
            workers,
            until: now + wait,
            failures,
            readers: seen.readers,
            demand,
        };
        self.lessons.insert(seen.datasets.clone(), lesson);
        if self.lessons.len() > SETS_MAX {
            let first = self.lessons.iter().min_by_key(|(_, lesson)| lesson.until);
            let first = first.map(|(datasets, _)| datasets.clone());
            self.lessons
                .retain(|datasets, _| Some(datasets) != first.as_ref());
        }
        wait
    }

    /// Forgets the experience with the datasets of an observation.
    pub(super) fn forget(&mut self, seen: &Observation) {
        self.lessons.remove(&seen.datasets);
    }

    /// Forgets the experience with the datasets of an observation if more readers read them, or if they are
    /// read faster.
    pub(super) fn forget_outgrown(&mut self, seen: &Observation, demand: f64) {
        let is_outgrown = |lesson: &Lesson| {
            seen.readers > lesson.readers || lesson.demand > 0.0 && demand > lesson.demand * DEMAND_GROWTH
        };
        if self.lessons.get(&seen.datasets).is_some_and(is_outgrown) {
            self.forget(seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(dataset: u64) -> Observation {
        Observation {
            readers: 1,
            datasets: [dataset].into(),
            ..Observation::default()
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_failure_doubles_the_time() {
        let mut experience = Experience::default();
        let waits = [0, 300, 900, 2_100, 4_500, 8_100]
            .map(|now| experience.learn(at(now), &reading(1), 2, 0.0).as_secs());
        assert_eq!(waits, [300, 600, 1200, 2400, 3600, 3600]);
        experience.forget(&reading(1));
        assert_eq!(experience.learn(at(9_000), &reading(1), 2, 0.0), at(300));
    }

    #[test]
    fn lessons_hold_for_their_datasets_and_time() {
        let mut experience = Experience::default();
        experience.learn(at(0), &reading(1), 2, 0.0);
        experience.learn(at(0), &reading(2), 5, 0.0);
        let workers = |now, dataset| experience.workers(at(now), &reading(dataset));
        assert_eq!(
            [1, 2, 3].map(|dataset| workers(299, dataset)),
            [Some(2), Some(5), None]
        );
        assert_eq!(workers(300, 1), None);
    }

    #[test]
    fn lessons_are_bounded() {
        let mut experience = Experience::default();
        for dataset in 0..100 {
            experience.learn(at(dataset), &reading(dataset), 2, 0.0);
        }
        assert_eq!(experience.lessons.len(), SETS_MAX);
        assert_eq!(experience.workers(at(100), &reading(99)), Some(2));
    }
}
