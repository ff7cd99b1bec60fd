//! The order of turns in a coordinated read: the same for every consumer, no matter when messages arrive.
//!
//! Consumers go through rounds, and in each round through the tasks that take part in it, by number. A task
//! takes part from its start on, in as many rounds as it gives groups. Pure: told of starts and ends, answers
//! with turns. Refuses to know elements, credits and links.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use millstream_dataplane::TaskId;
use thiserror::Error;

/// A message of the dispatcher that cannot be obeyed, because this consumer would be out of step.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutOfStep {
    #[error("task {task} takes part from round {start} on, although this consumer has begun round {begun}")]
    Late { task: TaskId, start: u64, begun: u64 },
    #[error(
        "task {task} gives {groups} groups, of which this consumer has {here} and has handed over {handed}"
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
    /// The number of its group.
    pub(crate) group: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Tasks without a start yet, and the round before which it must be known.
    pub(super) pending: BTreeMap<TaskId, u64>,
    pub(super) taking: BTreeMap<TaskId, Taking>,
    /// The next turn of each task that has one: round and task.
    pub(super) turns: BTreeSet<(u64, TaskId)>,
    /// Rounds of which something was handed over.
    begun: u64,
    /// All tasks that took part when this consumer came are known.
    is_open: bool,
}

/// A task that has a start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taking {
    pub(super) start: u64,
    /// Groups handed over.
    pub(super) handed: u64,
    /// Groups that are handed over in all, as far as that is known.
    pub(super) limit: u64,
}

/// The groups that are still to come of a task.
#[derive(Debug, Clone, Copy)]
struct Coming {
    round: u64,
    task: TaskId,
    groups: u64,
}

impl Schedule {
    /// All tasks that take part from the beginning are known: there are no turns before.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    /// A task that takes part from `start` on. Without a start, returns what the dispatcher is to be told:
    /// the first round that this consumer has not begun, and does not begin before it knows the start. Asked
    /// again it says the same.
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

    /// A pending task takes part from `start` on. Of any other this is old news.
    pub(crate) fn settle_start(&mut self, task: TaskId, start: u64) -> Result<(), OutOfStep> {
        if self.pending.contains_key(&task) {
            self.start(task, start)?;
        }
        Ok(())
    }

    /// Nothing more arrives of a task, of which `here` groups did. A pending one is gone.
    pub(crate) fn freeze(&mut self, task: TaskId, here: u64) {
        self.pending.remove(&task);
        if let Some(taking) = self.taking.get_mut(&task) {
            taking.limit = here.min(taking.limit);
            if taking.handed >= taking.limit {
                self.turns.remove(&(taking.start + taking.handed, task));
            }
        }
        self.check_invariants();
    }

    /// A task gives so many groups in all, of which `here` arrived.
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

    /// Returns the task whose turn it is. `None` before the schedule is open, while no task takes part, or
    /// while a start is unknown.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let (round, task) = *self.turns.first()?;
        let taking = self.taking.get(&task).filter(|_| round < self.barrier())?;
        let group = taking.handed;
        Some(Turn { task, group })
    }

    /// The turn was taken.
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

    /// Returns whether more of a task may be handed over than was.
    pub(crate) fn is_taking(&self, task: TaskId) -> bool {
        let taking = self.taking.get(&task);
        taking.is_some_and(|taking| taking.handed < taking.limit)
    }

    /// Returns how many of the next `turns` turns each task has, in the order of arrival: what to ask for if
    /// no more can be held. None behind the barrier: the task that is to start there may come before others.
    pub(crate) fn window(&self, turns: u64) -> Vec<(TaskId, u64)> {
        let coming: Vec<Coming> = self.turns.iter().filter_map(|turn| self.coming(*turn)).collect();
        let (Some(first), Some(last)) = (coming.first(), coming.last()) else {
            return Vec::new();
        };
        let barrier = self.barrier();
        let furthest = last.round.saturating_add(turns).min(barrier).max(first.round);
        // All rounds before `level` fit; all before `beyond` do not.
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
            // Of the round that does not fit, its first tasks.
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

    /// The round before which a start must be known.
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
    /// The turns in the rounds before this one.
    fn before(&self, round: u64) -> u64 {
        round.saturating_sub(self.round).min(self.groups)
    }

    fn is_in(&self, round: u64) -> bool {
        self.round <= round && round - self.round < self.groups
    }
}
