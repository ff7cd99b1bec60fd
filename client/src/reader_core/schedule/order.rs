//! The order of turns in a coordinated read. All consumers use the same order, whenever their messages
//! arrive.
//!
//! Consumers go through rounds. Within each round they go through the participating tasks by number. A task
//! takes part in every round from its first one on, until it has no more groups.
//!
//! Pure: the caller supplies starts and ends of tasks, and receives turns. This file does not know elements,
//! credits and links.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use millstream_dataplane::TaskId;
use thiserror::Error;

/// The error for a message of the dispatcher that would put this consumer out of step with the other
/// consumers.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutOfStep {
    #[error("task {task} starts in round {start}, but this consumer has already begun {begun} rounds")]
    Late { task: TaskId, start: u64, begun: u64 },
    #[error(
        "task {task} ends after {groups} groups, but this consumer received {here} and has handed over {handed}"
    )]
    Lacking {
        task: TaskId,
        groups: u64,
        here: u64,
        handed: u64,
    },
}

/// The next group to hand over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) task: TaskId,
    /// The number of the task's group.
    pub(crate) group: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// The tasks without a first round yet, each with the round before which its start must be known.
    pub(super) pending: BTreeMap<TaskId, u64>,
    pub(super) taking: BTreeMap<TaskId, Taking>,
    /// The next turn of each task that has a further turn, as round and task.
    pub(super) turns: BTreeSet<(u64, TaskId)>,
    /// The number of rounds that this consumer has begun to hand over.
    begun: u64,
    /// True if all tasks are known that took part when this consumer joined.
    is_open: bool,
}

/// A task whose first round is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taking {
    pub(super) start: u64,
    /// The number of groups that were handed over.
    pub(super) handed: u64,
    /// The number of groups to hand over in all; `u64::MAX` while unknown.
    pub(super) limit: u64,
}

/// The groups of a task that are not handed over yet.
#[derive(Debug, Clone, Copy)]
struct Coming {
    round: u64,
    task: TaskId,
    groups: u64,
}

impl Schedule {
    /// Opens the schedule, once all tasks are known that take part from the beginning. No turn exists before.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    /// Adds a task that takes part from the round `start` on. Has no effect on a task that was added with a
    /// start, or that ended. Without a start, returns the round to report to the dispatcher. This consumer
    /// has not begun that round, and will not begin it before the start is known. Repeated calls return the
    /// same round.
    pub(crate) fn add(&mut self, task: TaskId, start: Option<u64>) -> Result<Option<u64>, OutOfStep> {
        if self.taking.contains_key(&task) {
            return Ok(None);
        }
        match start {
            Some(start) => {
                self.start(task, start)?;
                Ok(None)
            }
            None => Ok(Some(*self.pending.entry(task).or_insert(self.begun))),
        }
    }

    /// Sets the first round of a pending task. Has no effect on a task whose start is already known.
    pub(crate) fn settle_start(&mut self, task: TaskId, start: u64) -> Result<(), OutOfStep> {
        if self.pending.contains_key(&task) {
            self.start(task, start)?;
        }
        Ok(())
    }

    /// Notes that no further groups of a task arrive, after `here` groups arrived. A pending task takes part
    /// in no round, even if its start becomes known later.
    pub(crate) fn freeze(&mut self, task: TaskId, here: u64) {
        if self.pending.remove(&task).is_some() {
            let (start, handed, limit) = (0, 0, 0);
            self.taking.insert(task, Taking { start, handed, limit });
        }
        if let Some(taking) = self.taking.get_mut(&task) {
            taking.limit = here.min(taking.limit);
            if taking.handed >= taking.limit {
                self.turns.remove(&(taking.start + taking.handed, task));
            }
        }
        self.check_invariants();
    }

    /// Notes that a task has `groups` groups in all, of which `here` arrived.
    pub(crate) fn conclude(&mut self, task: TaskId, groups: u64, here: u64) -> Result<(), OutOfStep> {
        let handed = self.taking.get(&task).map_or(0, |taking| taking.handed);
        if groups > here || groups < handed {
            return Err(OutOfStep::Lacking {
                task,
                groups,
                here,
                handed,
            });
        }
        self.freeze(task, groups);
        Ok(())
    }

    /// Returns the next turn. Returns `None` before the schedule is open, while no task takes part, and while
    /// a required start is unknown.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let (round, task) = *self.turns.first()?;
        let taking = self.taking.get(&task).filter(|_| round < self.barrier())?;
        let group = taking.handed;
        Some(Turn { task, group })
    }

    /// Marks the current turn as taken.
    pub(crate) fn advance(&mut self) {
        let Some((round, task)) = self.turns.pop_first() else {
            return;
        };
        self.begun = round + 1;
        if let Some(taking) = self.taking.get_mut(&task) {
            taking.handed += 1;
            if taking.handed < taking.limit {
                self.turns.insert((round + 1, task));
            }
        }
        self.check_invariants();
    }

    /// Returns whether further groups of a task may be handed over.
    pub(crate) fn is_taking(&self, task: TaskId) -> bool {
        let taking = self.taking.get(&task);
        taking.is_some_and(|taking| taking.handed < taking.limit)
    }

    /// Returns how many of the next `turns` turns each task has, in the order of turns. The reader requests
    /// these groups if it can hold no more. No turn after the barrier is included, because the task that
    /// starts there may come first.
    pub(crate) fn window(&self, turns: u64) -> Vec<(TaskId, u64)> {
        let coming: Vec<Coming> = self.turns.iter().filter_map(|turn| self.coming(*turn)).collect();
        let (Some(first), Some(last)) = (coming.first(), coming.last()) else {
            return Vec::new();
        };
        let barrier = self.barrier();
        let furthest = last.round.saturating_add(turns).min(barrier).max(first.round);
        // All rounds before `level` fit into `turns`; all rounds before `beyond` do not.
        let (mut level, mut beyond) = (first.round, furthest.saturating_add(1));
        while beyond - level > 1 {
            let middle = level + (beyond - level) / 2;
            let wanted = coming.iter().map(|coming| coming.before(middle));
            if wanted.fold(0, u64::saturating_add) <= turns {
                level = middle;
            } else {
                beyond = middle;
            }
        }
        let mut window: Vec<(TaskId, u64)> = coming
            .iter()
            .map(|coming| (coming.task, coming.before(level)))
            .collect();
        let spare = turns - window.iter().map(|(_, share)| share).sum::<u64>();
        if level < barrier {
            // The first tasks of the round that fits only in part get one further turn each.
            let mut in_round: Vec<(TaskId, usize)> = (0..coming.len())
                .filter(|index| coming[*index].is_in(level))
                .map(|index| (coming[index].task, index))
                .collect();
            in_round.sort_unstable();
            for (_, index) in in_round
                .into_iter()
                .take(usize::try_from(spare).unwrap_or(usize::MAX))
            {
                window[index].1 += 1;
            }
        }
        window
    }

    /// Returns the first round that cannot begin before a pending start is known.
    fn barrier(&self) -> u64 {
        if !self.is_open {
            return 0;
        }
        self.pending.values().copied().min().unwrap_or(u64::MAX)
    }

    fn start(&mut self, task: TaskId, start: u64) -> Result<(), OutOfStep> {
        let begun = self.begun;
        if start < begun {
            return Err(OutOfStep::Late { task, start, begun });
        }
        self.pending.remove(&task);
        let taking = Taking {
            start,
            handed: 0,
            limit: u64::MAX,
        };
        self.taking.insert(task, taking);
        self.turns.insert((start, task));
        self.check_invariants();
        Ok(())
    }

    fn coming(&self, (round, task): (u64, TaskId)) -> Option<Coming> {
        let taking = self.taking.get(&task)?;
        let groups = taking.limit - taking.handed;
        Some(Coming { round, task, groups })
    }

    fn check_invariants(&self) {
        if cfg!(test) {
            let turns = self
                .taking
                .iter()
                .filter(|(_, taking)| taking.handed < taking.limit);
            let turns = turns.map(|(task, taking)| (taking.start + taking.handed, *task));
            assert_eq!(turns.collect::<BTreeSet<_>>(), self.turns);
            assert!(self.turns.iter().all(|(round, _)| round + 1 >= self.begun));
        }
    }
}

impl Coming {
    /// Returns the number of the task's turns in the rounds before `round`.
    fn before(&self, round: u64) -> u64 {
        round.saturating_sub(self.round).min(self.groups)
    }

    fn is_in(&self, round: u64) -> bool {
        self.round <= round && round - self.round < self.groups
    }
}
