//! The books of splits: the plan and the ledger of each running iteration, and the leases that each of its
//! tasks holds.
//!
//! [`Books`] knows iterations and tasks by their ids only.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use super::table::Table;
use crate::dispatcher::splits::{Dealing, Holding, Ledger, Run};
use crate::error::Error;
use crate::id::{IterationId, TaskId};
use crate::planner::SplitPlan;
use crate::split::{LeaseRange, SplitPace, WAITS_WITH_MIN};

/// The books of all running iterations. Only iterations under `dynamic` have a ledger, and only their tasks
/// have leases.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(super) plans: Table<IterationId, Arc<SplitPlan>>,
    pub(super) ledgers: Table<IterationId, Ledger>,
    pub(super) holdings: Table<TaskId, Holding>,
}

/// The terms on which a task is leased splits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTerms {
    /// The number of splits that the task asks for.
    pub(crate) want: u32,
    /// The splits that the task may be given.
    pub(crate) dealing: Dealing,
    /// Maximum number of splits that an ordered job allows in one lease.
    pub(crate) most: u64,
    /// True if the task gets no splits before another task does (C5.9).
    pub(crate) waits_for_turn: bool,
    /// Maximum number of splits in one lease of any task.
    pub(crate) batch_max: u32,
    /// Maximum number of splits that a task may hold.
    pub(crate) held_max: u64,
    /// The number of tasks that share the iteration's splits.
    pub(crate) sharers: u64,
    /// The task's own pace, and the total pace of all running tasks of the iteration.
    pub(crate) pace: Option<(SplitPace, u64)>,
}

/// The splits that a task was leased.
#[derive(Debug)]
pub(crate) struct Leased {
    pub(crate) runs: Vec<Run>,
    /// True if the source has no more splits of the repetition for this task.
    pub(crate) end: bool,
    /// The current repetition of the source, from which splits are leased.
    pub(crate) current: u64,
    /// True if the lease has the maximum length of an ordered job, and could have been longer otherwise.
    pub(crate) is_cut: bool,
}

impl Books {
    /// Adds a plan from the store.
    pub(super) fn load_plan(&mut self, iteration: IterationId, plan: Arc<SplitPlan>) {
        self.plans.load(iteration, plan);
    }

    /// Adds a ledger from the store.
    pub(super) fn load_ledger(&mut self, iteration: IterationId, ledger: Ledger) {
        self.ledgers.load(iteration, ledger);
    }

    /// Adds the leases of a task from the store.
    pub(super) fn load_holding(&mut self, task: TaskId, holding: Holding) {
        self.holdings.load(task, holding);
    }

    /// Opens the books of an iteration that begins.
    pub(crate) fn open(&mut self, iteration: IterationId, plan: SplitPlan, is_dynamic: bool) {
        if is_dynamic {
            self.ledgers.insert(iteration, Ledger::new(&plan));
        }
        self.plans.insert(iteration, Arc::new(plan));
    }

    /// Closes the books of an iteration that is over. Returns the number of its delivered splits.
    pub(crate) fn close(&mut self, iteration: IterationId) -> u64 {
        self.plans.remove(&iteration);
        let ledger = self.ledgers.remove(&iteration);
        ledger.map_or(0, |ledger| ledger.tallies().map(|tally| tally.done).sum())
    }

    pub(crate) fn plan(&self, iteration: IterationId) -> Option<&Arc<SplitPlan>> {
        self.plans.get(&iteration)
    }

    pub(crate) fn ledger(&self, iteration: IterationId) -> Option<&Ledger> {
        self.ledgers.get(&iteration)
    }

    /// Returns whether the dispatcher leases splits to the tasks of an iteration.
    pub(crate) fn is_dynamic(&self, iteration: IterationId) -> bool {
        self.ledgers.contains(&iteration)
    }

    /// Opens the leases of a new task, if the dispatcher leases splits in its iteration.
    pub(crate) fn begin_task(&mut self, iteration: IterationId, task: TaskId) {
        if self.is_dynamic(iteration) {
            self.holdings.insert(task, Holding::default());
        }
    }

    pub(crate) fn holding(&self, task: TaskId) -> Option<&Holding> {
        self.holdings.get(&task)
    }

    /// Returns the tasks that have leases.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn holders(&self) -> impl Iterator<Item = &TaskId> {
        self.holdings.keys()
    }

    /// Closes the leases of a task that is over, and returns them.
    pub(crate) fn end_task(&mut self, task: TaskId) -> Option<Holding> {
        self.holdings.remove(&task)
    }

    /// Leases splits of one repetition of a source to a task (C5.1 to C5.4).
    pub(crate) fn lease(
        &mut self,
        iteration: IterationId,
        task: TaskId,
        (source, repetition): (u32, u64),
        terms: LeaseTerms,
    ) -> Result<Leased, Error> {
        let Some(ledger) = self.ledgers.get(&iteration) else {
            return Err(reads_itself(task));
        };
        check_source(ledger, task, source, repetition)?;
        let available = ledger.available(source, repetition, terms.dealing);
        let none = Leased {
            runs: Vec::new(),
            end: false,
            current: ledger.current(source),
            is_cut: terms.waits_for_turn,
        };
        if available > 0 && (terms.waits_for_turn || terms.has_its_part(available)) {
            // A task that waits changes no books.
            return Ok(none);
        }
        let ledger = self.ledgers.get_mut(&iteration);
        let (Some(ledger), Some(holding)) = (ledger, self.holdings.get_mut(&task)) else {
            return Err(reads_itself(task));
        };
        // A task that holds the maximum gets no splits and no end, and asks again later (C5.2).
        let room = terms.held_max.saturating_sub(holding.split_count());
        if room == 0 {
            return Ok(Leased {
                is_cut: false,
                ..none
            });
        }
        let batch_max = u64::from(terms.batch_max);
        let batch = u64::from(holding.next_batch(terms.batch_max));
        let fair = match terms.pace {
            Some((pace, all)) => part_by_pace(available, pace, all).max(1).min(batch_max),
            None => (available / (2 * terms.sharers)).max(1).min(batch),
        };
        let part = fair.min(u64::from(terms.want)).min(room);
        let runs = ledger.lease(source, repetition, part.min(terms.most), terms.dealing);
        for run in &runs {
            holding.insert(*run);
        }
        Ok(Leased {
            // Splits that the task may not have yet are no end (C16.8).
            end: runs.is_empty() && available == 0 && terms.most > 0,
            runs,
            current: ledger.current(source),
            is_cut: part >= terms.most,
        })
    }

    /// Takes back leases that a task has not begun, so that the splits are leased to other tasks (C5.5).
    pub(crate) fn take_back(&mut self, iteration: IterationId, task: TaskId, leases: &[LeaseRange]) {
        let runs = self.take_held(task, leases).unwrap_or_default();
        if let Some(ledger) = self.ledgers.get_mut(&iteration) {
            runs.iter().for_each(|run| ledger.take_back(run, task));
        }
    }

    /// Takes these leases out of the leases that a task holds. `None` if the task has no books.
    pub(crate) fn take_held(&mut self, task: TaskId, leases: &[LeaseRange]) -> Option<Vec<Run>> {
        let holding = self.holdings.get_mut(&task)?;
        Some(leases.iter().flat_map(|range| holding.take(*range)).collect())
    }

    /// Takes all leases that a task holds.
    pub(crate) fn take_all_held(&mut self, task: TaskId) -> Vec<Run> {
        let holding = self.holdings.get_mut(&task);
        holding.map(Holding::take_all).unwrap_or_default()
    }

    /// Notes that a reader may have seen elements of every split that a task holds.
    pub(crate) fn mark_all_seen(&mut self, task: TaskId) {
        if let Some(holding) = self.holdings.get_mut(&task) {
            holding.mark_all_seen();
        }
    }

    /// Counts splits as done. Returns false if the iteration's books are closed.
    pub(crate) fn done(&mut self, iteration: IterationId, runs: &[Run]) -> bool {
        let ledger = self.ledgers.get_mut(&iteration);
        let done = ledger.map(|ledger| runs.iter().for_each(|run| ledger.done(run)));
        done.is_some()
    }

    /// Counts splits as lost.
    pub(crate) fn lost(&mut self, iteration: IterationId, runs: &[Run]) {
        if let Some(ledger) = self.ledgers.get_mut(&iteration) {
            runs.iter().for_each(|run| ledger.lost(run));
        }
    }

    /// Marks splits as free, so that other tasks read them in another attempt.
    pub(crate) fn free(&mut self, iteration: IterationId, runs: &[Run]) {
        if let Some(ledger) = self.ledgers.get_mut(&iteration) {
            runs.iter().for_each(|run| ledger.free(run));
        }
    }

    /// Takes the free splits out of an iteration's books, except for splits from tasks for which
    /// `wants_no_more` holds.
    pub(crate) fn take_wanted(
        &mut self,
        iteration: IterationId,
        wants_no_more: impl Fn(TaskId) -> bool,
    ) -> Vec<Run> {
        let ledger = self.ledgers.get_mut(&iteration);
        ledger.map_or_else(Vec::new, |ledger| ledger.take_wanted(wants_no_more))
    }
}

impl LeaseTerms {
    /// Returns whether the task holds its part of the free splits, and can wait until it has started some. A
    /// task that got one split with each request would end after the other tasks (C5.1).
    fn has_its_part(&self, available: u64) -> bool {
        self.pace.is_some_and(|(pace, all)| {
            let can_wait = pace.can_wait && pace.unstarted >= WAITS_WITH_MIN;
            can_wait && part_by_pace(available, pace, all) == 0
        })
    }
}

/// Returns the number of splits that a task gets by its pace (C5.1). After the lease, the unstarted splits
/// of the task are at most its part of the splits that stay free. A task therefore never holds more than
/// its share of the remaining splits.
fn part_by_pace(available: u64, pace: SplitPace, all: u64) -> u64 {
    let (available, own) = (u128::from(available), u128::from(pace.per_1000_s));
    let all = u128::from(all).max(own).max(1);
    let share = (available * own).saturating_sub(u128::from(pace.unstarted) * all) / (all + own);
    u64::try_from(share).unwrap_or(u64::MAX)
}

fn reads_itself(task: TaskId) -> Error {
    Error::precondition(format!(
        "task {task} reads its sources itself: only tasks under `dynamic` are leased splits"
    ))
}

/// Checks the source and the repetition for which a task asks for splits.
fn check_source(ledger: &Ledger, task: TaskId, source: u32, repetition: u64) -> Result<(), Error> {
    if !ledger.has_source(source) {
        return Err(Error::invalid(format!(
            "the dataset of task {task} has no source {source}"
        )));
    }
    // Splits that were skipped would be neither read nor lost (C5.4).
    let next = ledger.current(source).saturating_add(1);
    if repetition > next {
        return Err(Error::invalid(format!(
            "task {task} asks for repetition {repetition} of source {source}, but the next repetition is \
            {next}"
        )));
    }
    Ok(())
}
