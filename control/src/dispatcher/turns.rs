//! The turns of the tasks of an ordered job, which lease the next splits in fair parts.
//!
//! Readers in order buffer few elements while they wait for the earliest missing split. Suppose that few
//! tasks have all splits of some seconds. The other tasks then fill their buffers and pause, until these few
//! tasks have read their splits. Only these few tasks start splits meanwhile, so only they lease the next
//! splits, and the state lasts. Therefore a task waits when it has leased more than its part.
//!
//! The turns do not survive a restart. This file uses no records, and does not know which splits are leased.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use super::division::TASKS_PER_LEASE;
use crate::id::{IterationId, TaskId};
use crate::split::{SplitPace, WAITS_WITH_MIN};

/// The time for which a task must hold splits before it waits for its turn. A task that waits repeats its
/// request within 500 ms.
const WAITS_WITH_MS: u64 = 1000;
/// The leases of a task beyond the mean of all tasks, from which on it waits.
const LEAD_LEASES: f64 = 0.5;
/// The leases from the mean of all tasks that count at most. A task that leases nothing for a long time stops
/// few others, and a task that alone leased many splits soon leases again.
const DISTANCE_LEASES_MAX: f64 = 3.0;
/// The part of its splits that counts for a task without any splits, so that it may lease twice its part. It
/// soon holds enough for an absence of the dispatcher.
const EMPTY_COUNTS: f64 = 0.5;

/// The splits that the tasks of each ordered iteration have leased.
#[derive(Debug, Default)]
pub(super) struct Turns {
    iterations: BTreeMap<IterationId, Leased>,
}

/// The splits that the tasks of one iteration have leased. Only the differences between tasks count, and the
/// zero point changes.
#[derive(Debug, Default)]
struct Leased {
    tasks: BTreeMap<TaskId, f64>,
    sum: f64,
    /// The number of leases since the tasks far below the mean were raised.
    leases: usize,
}

/// The measures of a task by which its leases count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// The pace of the task; `None` while it is unknown.
    pub(super) pace: Option<SplitPace>,
    /// The number of unstarted splits with which the task holds enough.
    pub(super) enough: u64,
    /// The number of splits of the task's next lease.
    pub(super) lease: u64,
    /// The time in which the task produces an element, relative to the mean of all tasks. Faster tasks lease
    /// larger parts.
    pub(super) weight: f64,
}

impl Turns {
    /// Returns whether a task has to wait until other tasks have leased splits.
    pub(super) fn must_wait(&self, iteration: IterationId, task: TaskId, turn: Turn) -> bool {
        let leased = self.iterations.get(&iteration);
        let Some(lead) = leased.and_then(|leased| Some(leased.tasks.get(&task)? - leased.mean())) else {
            return false;
        };
        turn.pace.is_some_and(can_wait) && lead > LEAD_LEASES * turn.lease_weight()
    }

    /// Notes that a task leased splits. A task without earlier leases begins at the mean.
    pub(super) fn note(&mut self, iteration: IterationId, task: TaskId, splits: u64, turn: Turn) {
        if splits == 0 {
            return;
        }
        let most = DISTANCE_LEASES_MAX * turn.lease_weight();
        let splits = splits as f64 * turn.weight * turn.counted();
        self.iterations
            .entry(iteration)
            .or_default()
            .add(task, splits, most);
    }

    /// Forgets the tasks for which `takes_part` is false.
    pub(super) fn retain(&mut self, takes_part: impl Fn(&TaskId) -> bool) {
        self.iterations.retain(|_, leased| {
            leased.tasks.retain(|task, _| takes_part(task));
            leased.sum = leased.tasks.values().sum();
            !leased.tasks.is_empty()
        });
    }

    /// Returns the number of tasks that are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.iterations.values().map(|leased| leased.tasks.len()).sum()
    }
}

impl Leased {
    fn mean(&self) -> f64 {
        self.sum / self.tasks.len().max(1) as f64
    }

    /// Adds splits to a task, which then counts at most `most` above the mean.
    fn add(&mut self, task: TaskId, splits: f64, most: f64) {
        let begin = self.mean();
        let own = self.tasks.entry(task).or_insert_with(|| {
            self.sum += begin;
            begin
        });
        *own += splits;
        self.sum += splits;
        self.leases += 1;
        let mut limit = self.mean() + most;
        if self.leases * TASKS_PER_LEASE >= self.tasks.len() {
            limit -= self.raise(most);
        }
        if let Some(own) = self.tasks.get_mut(&task) {
            self.sum -= (*own - limit).max(0.0);
            *own = own.min(limit);
        }
    }

    /// Raises the tasks that count more than `most` below the mean. Then subtracts the mean from every count,
    /// so that the mean becomes the zero point. Returns the earlier mean.
    fn raise(&mut self, most: f64) -> f64 {
        let mean = self.mean();
        for leased in self.tasks.values_mut() {
            *leased = (*leased - mean).max(-most);
        }
        self.sum = self.tasks.values().sum();
        self.leases = 0;
        mean
    }
}

impl Turn {
    fn lease_weight(self) -> f64 {
        self.lease as f64 * self.weight
    }

    /// Returns the part of the leased splits that counts.
    fn counted(self) -> f64 {
        let unstarted = self.pace.map_or(0, |pace| pace.unstarted);
        let full = (unstarted as f64 / self.enough.max(1) as f64).min(1.0);
        EMPTY_COUNTS + (1.0 - EMPTY_COUNTS) * full
    }
}

/// Returns whether a task holds enough splits to wait for its turn.
fn can_wait(pace: SplitPace) -> bool {
    let splits = pace.per_1000_s.saturating_mul(WAITS_WITH_MS) / 1_000_000;
    pace.can_wait && pace.unstarted >= splits.max(WAITS_WITH_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITERATION: IterationId = IterationId(1);

    fn turn(unstarted: u64, weight: f64) -> Turn {
        Turn {
            pace: Some(SplitPace {
                per_1000_s: 1000,
                unstarted,
                can_wait: true,
            }),
            enough: 13,
            lease: 1,
            weight,
        }
    }

    /// Leases splits to tasks in turn, each as often as it may. Returns the splits of each task.
    fn leased(rounds: u64, tasks: &[(u64, f64)]) -> Vec<u64> {
        let mut turns = Turns::default();
        let mut splits = vec![0; tasks.len()];
        for _ in 0..rounds {
            for (task, (unstarted, weight)) in tasks.iter().enumerate() {
                let (id, turn) = (TaskId(task as u64), turn(*unstarted, *weight));
                if !turns.must_wait(ITERATION, id, turn) {
                    turns.note(ITERATION, id, 1, turn);
                    splits[task] += 1;
                }
            }
        }
        splits
    }

    /// C5.9
    #[test]
    fn equal_tasks_lease_equal_parts() {
        let splits = leased(100, &[(13, 1.0), (13, 1.0), (13, 1.0)]);
        assert!(
            splits.iter().all(|count| (95..=100).contains(count)),
            "{splits:?}"
        );
    }

    /// C5.9
    #[test]
    fn faster_tasks_lease_larger_parts() {
        let splits = leased(1000, &[(13, 0.4), (13, 1.6)]);
        let ratio = splits[0] as f64 / splits[1] as f64;
        assert!((3.5..4.5).contains(&ratio), "{splits:?}");
    }

    /// C5.9
    #[test]
    fn a_task_with_few_splits_catches_up() {
        let splits = leased(1000, &[(13, 1.0), (2, 1.0)]);
        let ratio = splits[1] as f64 / splits[0] as f64;
        assert!((1.5..2.0).contains(&ratio), "{splits:?}");
    }

    /// Tests that one or two tasks of six wait while the others lease nothing, but five do not (C5.9).
    #[test]
    fn few_tasks_wait_for_the_others() {
        let mut turns = Turns::default();
        for task in 0..6 {
            turns.note(ITERATION, TaskId(task), 1, turn(13, 1.0));
        }
        let mut lease = |active: u64| {
            let mut splits = 0;
            for task in (0..50).flat_map(|_| 0..active).map(TaskId) {
                if !turns.must_wait(ITERATION, task, turn(13, 1.0)) {
                    turns.note(ITERATION, task, 1, turn(13, 1.0));
                    splits += 1;
                }
            }
            splits
        };
        assert!(lease(1) <= 4);
        assert!(lease(2) <= 8);
        assert!(lease(5) >= 200, "five go on without the sixth");
    }

    /// Tests that 10 paused tasks of 100 do not stop the other 90 (C5.9).
    #[test]
    fn many_tasks_do_not_wait_for_few() {
        let mut turns = Turns::default();
        let tasks = 100;
        for task in 0..tasks {
            turns.note(ITERATION, TaskId(task), 1, turn(13, 1.0));
        }
        let mut splits = 0;
        for task in (0..50).flat_map(|_| 0..tasks - 10).map(TaskId) {
            if !turns.must_wait(ITERATION, task, turn(13, 1.0)) {
                turns.note(ITERATION, task, 1, turn(13, 1.0));
                splits += 1;
            }
        }
        assert!(splits >= 4000, "{splits} of 4500");
        let kept = &turns.iterations[&ITERATION];
        let sum: f64 = kept.tasks.values().sum();
        assert!((kept.sum - sum).abs() < 1e-6, "{} {sum}", kept.sum);
        assert!(
            kept.tasks
                .values()
                .all(|leased| (leased - kept.mean()).abs() < 4.0)
        );
    }

    /// C5.9
    #[test]
    fn a_task_that_needs_splits_does_not_wait() {
        let mut turns = Turns::default();
        for task in [0, 1, 0, 0, 0] {
            turns.note(ITERATION, TaskId(task), 1, turn(13, 1.0));
        }
        assert!(turns.must_wait(ITERATION, TaskId(0), turn(2, 1.0)));
        assert!(!turns.must_wait(ITERATION, TaskId(0), turn(1, 1.0)));
        let unpaced = Turn {
            pace: None,
            ..turn(9, 1.0)
        };
        assert!(!turns.must_wait(ITERATION, TaskId(0), unpaced));
        let mut earlier = turn(9, 1.0);
        earlier.pace = earlier.pace.map(|pace| SplitPace {
            can_wait: false,
            ..pace
        });
        let earlier_waits = turns.must_wait(ITERATION, TaskId(0), earlier);
        assert!(
            !earlier_waits,
            "a worker of an earlier version would repeat old numbers"
        );
        turns.retain(|task| *task == TaskId(0));
        assert_eq!(turns.len(), 1);
        assert!(
            !turns.must_wait(ITERATION, TaskId(0), turn(9, 1.0)),
            "it is alone"
        );
        turns.retain(|_| false);
        assert!(turns.iterations.is_empty());
    }
}
