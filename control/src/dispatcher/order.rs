//! Ordered jobs, whose readers take elements in the order of their splits. Decides which splits a task may
//! get, and which tasks read splits that become free.
//!
//! A reader in order waits for the earliest missing split. A task therefore never holds an earlier split
//! after a later one, neither in a lease nor in its pipeline or buffer.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use super::moment::Moment;
use super::record::{TaskPhase, TaskRecord};
use super::splits::{Dealing, Holding, Ledger};
use super::state::ServiceState;
use super::tables::Tables;
use super::turns::Turn;
use crate::error::Error;
use crate::id::{IterationId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::split::{SPLITS_LAST, SplitPace};

/// The time that one lease lasts for readers in order, unless one split lasts longer. Readers in order buffer
/// few elements while they wait for an earlier element. With longer leases one worker would work at a time.
/// Shorter leases would cost more requests than fast splits are worth.
const LEASE_MS: u64 = 20;
/// The time that one lease lasts while the task holds few splits, so that few requests suffice. Also the time
/// for the only task of an iteration.
const FILLING_LEASE_MS: u64 = 270;
/// The time for which a task holds splits before its leases become short. The dispatcher may be away for
/// 10 s.
const FILLED_MS: u64 = 13_000;
/// Maximum number of splits of one lease for readers in order, at any pace.
const LEASE_MAX: u64 = 256;
/// Maximum number of splits of one lease for the only task of an iteration, for which no other task waits.
const LONE_LEASE_MAX: u64 = 1024;
/// Maximum number of splits of one lease for readers in order, while the task's pace is unknown.
const UNPACED_LEASE_MAX: u64 = 8;

/// Checks that a job can be read in order (C2.7).
pub(super) fn check_order(parameters: &JobParameters) -> Result<(), Error> {
    let is_shared = parameters.num_consumers.is_some() || parameters.cross_trainer_cache;
    if !parameters.in_order || (parameters.policy == Policy::Dynamic && !is_shared) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "in_order needs the sharding policy `dynamic`, without consumers and without the cross-trainer \
        cache: other jobs lease \
         splits in no order that readers could restore (the policy is `{}`)",
        parameters.policy
    )))
}

impl ServiceState {
    /// Starts tasks for free splits that every running task has passed (C6.9).
    pub(super) fn catch_up(&mut self, id: IterationId) {
        if !self.tables.is_in_order(id) {
            return;
        }
        // A running task may have returned splits because its pipeline does not want them. Only the end of
        // the task shows the reason.
        let is_undecided = |task: TaskId| {
            let task = self.tables.tasks.get(&task);
            task.is_some_and(|task| task.stopped_early || self.tables.reads_on(task))
        };
        let Some(ledger) = self.tables.books.ledger(id) else {
            return;
        };
        let tasks = self.tables.tasks.of(id);
        let suspect_deaths = self.tables.suspect_deaths(id);
        let passed = [false, true].map(|is_suspect| {
            let is_chosen = |deaths| (deaths >= suspect_deaths) == is_suspect;
            let (first, free) = ledger.earliest_wanted(is_undecided, is_chosen)?;
            // Only tasks that were started for free splits read suspects (C16.8).
            let comes_by = |task: &TaskId| {
                let latest = self.tables.books.holding(*task).and_then(Holding::latest);
                let row = self
                    .tables
                    .tasks
                    .get(task)
                    .filter(|row| self.tables.reads_on(row));
                row.is_some_and(|row| row.round > 0 || !is_suspect) && latest < Some(first)
            };
            (!tasks.iter().any(comes_by)).then_some(free)
        });
        let free: u64 = passed.into_iter().flatten().sum();
        if free == 0 || self.tables.is_round_in_vain(id, &tasks) {
            return;
        }
        let next_task = self.tables.meta().next_task;
        self.begin_round(id, free);
        for task in self
            .tables
            .tasks
            .of(id)
            .into_iter()
            .filter(|task| *task >= next_task)
        {
            if let Some(row) = self.tables.tasks.get_mut(&task) {
                row.catches_up = true;
            }
        }
    }
}

impl Tables {
    /// Returns the splits that a task of this pace may be given next, and their maximum number (C5.9).
    pub(super) fn dealing_to(
        &self,
        id: TaskId,
        pace: Option<SplitPace>,
        is_idle: bool,
        now: Moment,
    ) -> (Dealing, u64) {
        let task = self.tasks.get(&id);
        let Some(task) = task.filter(|task| self.is_in_order(task.iteration)) else {
            return (Dealing::default(), u64::MAX);
        };
        let dealing = Dealing {
            after: self.books.holding(id).and_then(Holding::latest),
            only_free: task.catches_up,
            suspects: self.suspects_for(task, is_idle, now),
        };
        // A task that reads a suspect alone gets nothing before it has read the suspect to its end (C16.8).
        let most = match task.alone {
            Some(_) => 0,
            None => {
                let is_alone = self.tasks.count_of(task.iteration) == 1;
                pace.map_or(UNPACED_LEASE_MAX, |pace| lease_at(pace, is_alone))
            }
        };
        (dealing, most)
    }

    /// Returns the measures by which the leases of a task of this weight count (C5.9). `None` if the task
    /// takes no turns.
    pub(super) fn turn_of(&self, id: TaskId, pace: Option<SplitPace>, weight: f64) -> Option<Turn> {
        let iteration = self.tasks.get(&id)?.iteration;
        if !self.is_in_order(iteration) || !self.takes_turns(id) {
            return None;
        }
        Some(Turn {
            pace,
            enough: pace.map_or(0, |pace| splits_within(pace, FILLED_MS)),
            lease: pace.map_or(1, |pace| lease_at(pace, false)),
            weight,
        })
    }

    /// Returns whether a task leases splits that no task has read, so that it takes turns with other tasks.
    pub(super) fn takes_turns(&self, id: TaskId) -> bool {
        let task = self.tasks.get(&id);
        task.is_some_and(|task| task.alone.is_none() && !task.catches_up && self.reads_on(task))
    }

    /// Returns the time for which earlier tasks hold splits, which readers take before those of a new task.
    pub(super) fn order_lag(&self, iteration: IterationId) -> Duration {
        if self.is_in_order(iteration) {
            SPLITS_LAST
        } else {
            Duration::ZERO
        }
    }

    /// Returns whether the readers of an iteration take elements in the order of its splits. Several
    /// sources have no common order.
    fn is_in_order(&self, id: IterationId) -> bool {
        let row = self.iterations.get(&id);
        let job = row.and_then(|row| self.catalog.find_job(&row.job));
        let ledger = self.books.ledger(id);
        job.is_some_and(|job| job.parameters.in_order)
            && ledger.is_some_and(|ledger: &Ledger| ledger.has_source(0) && !ledger.has_source(1))
    }

    /// Returns whether a task may ask for more splits: the task is running, and its worker does not drain.
    fn reads_on(&self, task: &TaskRecord) -> bool {
        task.phase == TaskPhase::Running && !self.workers.is_draining(task.worker)
    }
}

/// Returns the maximum number of splits of one lease for readers in order, of a task of this pace. `is_alone`
/// says that it is the only task of its iteration.
fn lease_at(pace: SplitPace, is_alone: bool) -> u64 {
    let within = |time_ms| splits_within(pace, time_ms);
    // Workers of earlier versions request one lease for each split that they start.
    let least = if pace.can_wait { 1 } else { 4 };
    if is_alone {
        within(FILLING_LEASE_MS).clamp(4, LONE_LEASE_MAX)
    } else if pace.unstarted < within(FILLED_MS) {
        within(FILLING_LEASE_MS).clamp(least, LEASE_MAX)
    } else {
        within(LEASE_MS).clamp(1, LEASE_MAX)
    }
}

fn splits_within(pace: SplitPace, time_ms: u64) -> u64 {
    pace.per_1000_s.saturating_mul(time_ms) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C5.9
    #[test]
    fn leases_in_order_last_a_short_time() {
        let pace = |per_second: u64, held_s: u64| SplitPace {
            per_1000_s: 1000 * per_second,
            unstarted: held_s * per_second,
            can_wait: true,
        };
        let splits = |per_second, held_s| lease_at(pace(per_second, held_s), false);
        let held = [1, 99, 100, 1000, 100_000].map(|per_second| splits(per_second, 13));
        assert_eq!(held, [1, 1, 2, 20, 256], "20 ms, but at least one split");
        let few = [1, 10, 100, 100_000].map(|per_second| splits(per_second, 12));
        assert_eq!(few, [1, 2, 27, 256], "270 ms, but at least one split");
        let earlier = SplitPace {
            can_wait: false,
            ..pace(1, 2)
        };
        assert_eq!(lease_at(earlier, false), 4, "it asks only when it starts a split");
        for held_s in [0, 12, 13, 15] {
            let alone = [1, 10, 100, 100_000].map(|per_second| lease_at(pace(per_second, held_s), true));
            assert_eq!(alone, [4, 4, 27, 1024], "no other task waits");
        }
    }
}
