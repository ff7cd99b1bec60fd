//! The sums over the tasks of an iteration by which its splits are divided (C5.1, C5.9).
//!
//! A lease needs the sums, and an iteration can have thousands of tasks. Sums of many tasks therefore serve
//! several leases. This file uses no records, and knows no splits.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use super::paces::Paces;
use super::tables::Tables;
use crate::id::{IterationId, TaskId};
use crate::split::SplitPace;

/// Sums over n tasks serve n / 8 leases, but at least one. The counts of turns are raised as often.
pub(super) const TASKS_PER_LEASE: usize = 8;

/// The sums of the running iterations.
#[derive(Debug, Default)]
pub(super) struct Divisions {
    kept: BTreeMap<IterationId, Kept>,
}

/// Sums that serve further leases.
#[derive(Debug)]
struct Kept {
    division: Division,
    /// The number of tasks of the iteration, running or not, and the latest of them, at the time of the sums.
    tasks: (usize, Option<TaskId>),
    leases_left: usize,
}

/// The sums over the running tasks of one iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Division {
    /// The number of splits that the tasks of known pace start in 1000 s.
    known_per_1000_s: u64,
    /// The number of tasks of unknown pace.
    unknown: u64,
    /// The mean time of an element of the tasks that have reported it, in seconds.
    element_s: Option<f64>,
}

impl Divisions {
    /// Returns the sums for a lease. For n tasks, the sums may be up to n / 8 leases old. New and removed
    /// tasks count at once.
    pub(super) fn of(&mut self, iteration: IterationId, paces: &Paces, tables: &Tables) -> Division {
        let count = tables.tasks.count_of(iteration);
        let tasks = (count, tables.tasks.latest_of(iteration));
        let kept = self.kept.get_mut(&iteration);
        if let Some(kept) = kept.filter(|kept| kept.tasks == tasks && kept.leases_left > 0) {
            kept.leases_left -= 1;
            return kept.division;
        }
        let division = Division::now(iteration, paces, tables);
        let kept = Kept {
            division,
            tasks,
            leases_left: (count / TASKS_PER_LEASE).saturating_sub(1),
        };
        self.kept.insert(iteration, kept);
        division
    }

    /// Forgets the iterations that are gone.
    pub(super) fn retain(&mut self, has_iteration: impl Fn(&IterationId) -> bool) {
        self.kept.retain(|iteration, _| has_iteration(iteration));
    }
}

impl Division {
    fn now(iteration: IterationId, paces: &Paces, tables: &Tables) -> Division {
        let (mut known_per_1000_s, mut unknown) = (0_u64, 0);
        let (mut elements_s, mut timed) = (0.0, 0.0);
        for task in tables.tasks.running_of(iteration) {
            match paces.splits_of(task) {
                Some(per_1000_s) => known_per_1000_s = known_per_1000_s.saturating_add(per_1000_s),
                None => unknown += 1,
            }
            if let Some(time) = paces.element_s(task) {
                elements_s += time;
                timed += 1.0;
            }
        }
        Division {
            known_per_1000_s,
            unknown,
            element_s: (timed > 0.0).then(|| elements_s / timed),
        }
    }

    /// Returns the number of splits that all tasks start in 1000 s. Tasks of unknown pace count as fast as
    /// the task of this pace.
    pub(super) fn per_1000_s(self, pace: SplitPace) -> u64 {
        let others = pace.per_1000_s.saturating_mul(self.unknown);
        self.known_per_1000_s.saturating_add(others)
    }

    /// Returns whether every task has reported its pace.
    pub(super) fn has_all(self) -> bool {
        self.unknown == 0
    }

    /// Returns the time of an element of a task, relative to the mean of all tasks. A task without a report
    /// counts as fast as the mean.
    pub(super) fn weight(self, element_s: Option<f64>) -> f64 {
        let times = element_s.zip(self.element_s);
        times.map_or(1.0, |(own, mean)| own / mean)
    }
}

#[cfg(test)]
impl Divisions {
    /// Returns the number of iterations whose sums are kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}
