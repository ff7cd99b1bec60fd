//! The splits of one iteration that may still be read, kept as counts instead of lists.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::ops::Bound;

use minicbor::{Decode, Encode};

use super::Run;
use crate::id::TaskId;
use crate::planner::SplitPlan;

/// The books of one iteration's splits, for every source and every repetition reached. Each split is not
/// yet leased, free again, held by a task or a removal, done, lost, or skipped. Splits are skipped when a
/// task asks for a later repetition.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Ledger {
    /// The number of the next lease.
    #[n(0)]
    next_lease: u64,
    /// The sources of the plan, in the plan's order.
    #[n(1)]
    sources: Vec<Source>,
}

/// The books of one source of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Source {
    /// The number of splits in each repetition.
    #[n(0)]
    total: u64,
    /// The current repetition, from which splits are leased.
    #[n(1)]
    repetition: u64,
    /// The index of the first split of the current repetition that was never leased, at most `total`.
    #[n(2)]
    next: u64,
    /// The free splits, which are leased again, by repetition and first index.
    #[n(3)]
    free: BTreeMap<(u64, u64), Free>,
    /// The number of splits known to be delivered.
    #[n(4)]
    done: u64,
    /// The number of lost splits.
    #[n(5)]
    lost: u64,
}

/// Consecutive free splits, which are leased again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
struct Free {
    #[n(0)]
    count: u64,
    #[n(1)]
    attempt: u32,
    /// The task that returned these splits unstarted; `None` for splits that a removal freed.
    #[n(2)]
    returned_by: Option<TaskId>,
    /// The deaths of the splits: see [`Run::deaths`].
    #[cbor(n(3), default)]
    deaths: u32,
    /// True if the splits were given up: see [`Run::skipped`].
    #[cbor(n(4), default)]
    skipped: bool,
}

/// The splits of a repetition that a task may be given: by default all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dealing {
    /// The position, as repetition and index, after which a split must be located.
    pub(crate) after: Option<(u64, u64)>,
    /// True if only free splits may be leased, which were leased before.
    pub(crate) only_free: bool,
    pub(crate) suspects: Suspects,
}

/// The handling of free splits that were held at a number of deaths, so that they are suspects (C16.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Suspects {
    /// No split is a suspect.
    #[default]
    Unknown,
    /// The task passes suspects over, and other tasks read them.
    PassedOver {
        /// The number of deaths from which on a split is a suspect.
        from_deaths: u32,
    },
    /// The task gets no split after an earlier suspect, which it may not have yet.
    Awaited {
        /// The number of deaths from which on a split is a suspect.
        from_deaths: u32,
    },
    /// The task gets the earliest suspect in a lease of its own.
    Alone {
        /// The number of deaths from which on a split is a suspect.
        from_deaths: u32,
    },
}

impl Suspects {
    /// Returns whether splits with this number of deaths are suspects.
    pub(crate) fn include(self, deaths: u32) -> bool {
        match self {
            Suspects::Unknown => false,
            Suspects::PassedOver { from_deaths }
            | Suspects::Awaited { from_deaths }
            | Suspects::Alone { from_deaths } => deaths >= from_deaths,
        }
    }
}

/// The split counts of one source, for people and for checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) repetition: u64,
    /// The number of splits that are not yet leased in the current repetition, or are free again.
    pub(crate) remaining: u64,
    pub(crate) done: u64,
    pub(crate) lost: u64,
}

impl Ledger {
    pub(crate) fn new(plan: &SplitPlan) -> Ledger {
        let source = |total| Source {
            total,
            repetition: 0,
            next: 0,
            free: BTreeMap::new(),
            done: 0,
            lost: 0,
        };
        Ledger {
            next_lease: 0,
            sources: plan.sources.iter().map(|plan| source(plan.splits())).collect(),
        }
    }

    /// Returns whether the plan has a source of this number.
    pub(crate) fn has_source(&self, source: u32) -> bool {
        self.source(source).is_some()
    }

    /// Returns the number of the current pass over a source.
    pub(crate) fn current(&self, source: u32) -> u64 {
        self.source(source).map_or(0, |source| source.repetition)
    }

    /// Returns the number of splits that a task could be given when it asks for this repetition.
    pub(crate) fn available(&self, source: u32, repetition: u64, dealing: Dealing) -> u64 {
        self.source(source).map_or(0, |source| {
            let fresh = match repetition.cmp(&source.repetition) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => source.total - source.next,
                std::cmp::Ordering::Greater => source.total,
            };
            let fresh = if dealing.only_free { 0 } else { fresh };
            let again: u64 = source
                .free_within(dealing, repetition)
                .map(|(_, free)| free.count)
                .sum();
            fresh.saturating_add(again)
        })
    }

    /// Leases up to `limit` splits: first free splits of this repetition or an earlier one, then fresh
    /// splits. Returns no splits if this pass is exhausted (C5.3). A request for a later repetition ends
    /// the current repetition (C5.4).
    pub(crate) fn lease(&mut self, source: u32, repetition: u64, limit: u64, dealing: Dealing) -> Vec<Run> {
        let number = source;
        let next_lease = &mut self.next_lease;
        let Some(source) = usize::try_from(source)
            .ok()
            .and_then(|source| self.sources.get_mut(source))
        else {
            return Vec::new();
        };
        if repetition > source.repetition && !dealing.only_free {
            source.repetition = repetition;
            source.next = 0;
        }
        let mut wanted = limit;
        let mut runs: Vec<Run> = Vec::new();
        let mut give = |runs: &mut Vec<Run>, repetition, first_index, count, free: Free| {
            runs.push(Run {
                source: number,
                repetition,
                first_index,
                count,
                first_lease: *next_lease,
                attempt: free.attempt,
                seen: false,
                deaths: free.deaths,
                skipped: free.skipped,
            });
            *next_lease += count;
        };
        while wanted > 0 {
            let Some((key, free)) = source.free_within(dealing, repetition).next() else {
                break;
            };
            let (key, free) = (*key, *free);
            if dealing.suspects.include(free.deaths) {
                // A suspect is alone in its lease, and no later split is leased with an earlier suspect.
                let is_given = matches!(dealing.suspects, Suspects::Alone { .. }) && runs.is_empty();
                wanted = u64::from(is_given);
                if !is_given {
                    break;
                }
            }
            source.free.remove(&key);
            let count = free.count.min(wanted);
            if count < free.count {
                let rest = Free {
                    count: free.count - count,
                    ..free
                };
                source.free.insert((key.0, key.1 + count), rest);
            }
            give(&mut runs, key.0, key.1, count, free);
            wanted -= count;
        }
        let fresh = (source.total - source.next).min(wanted);
        if repetition == source.repetition && fresh > 0 && !dealing.only_free {
            give(&mut runs, repetition, source.next, fresh, Free::fresh(fresh));
            source.next += fresh;
        }
        runs
    }

    /// Marks splits as free, to be leased again under the next attempt.
    pub(crate) fn free(&mut self, run: &Run) {
        self.insert_free(run, run.attempt.saturating_add(1), None);
    }

    /// Marks splits that a task returned unstarted as free, to be leased again under the same attempt.
    pub(crate) fn take_back(&mut self, run: &Run, from: TaskId) {
        self.insert_free(run, run.attempt, Some(from));
    }

    /// Counts splits as delivered.
    pub(crate) fn done(&mut self, run: &Run) {
        if let Some(source) = self.source_mut(run.source) {
            source.done += run.count;
        }
    }

    /// Counts splits as lost.
    pub(crate) fn lost(&mut self, run: &Run) {
        if let Some(source) = self.source_mut(run.source) {
            source.lost += run.count;
        }
    }

    /// Returns the number of free splits, except for splits that were returned by a task for which
    /// `wants_no_more` holds.
    pub(crate) fn wanted(&self, wants_no_more: impl Fn(TaskId) -> bool) -> u64 {
        let free = self.sources.iter().flat_map(|source| source.free.values());
        free.filter(|free| free.is_wanted(&wants_no_more))
            .map(|free| free.count)
            .sum()
    }

    /// Returns the repetition and index of the earliest chosen split of source 0, and the number of chosen
    /// splits. [`wanted`](Ledger::wanted) counts chosen splits, and `is_chosen` accepts their deaths.
    pub(crate) fn earliest_wanted(
        &self,
        wants_no_more: impl Fn(TaskId) -> bool,
        is_chosen: impl Fn(u32) -> bool,
    ) -> Option<((u64, u64), u64)> {
        let free = self.source(0)?.free.iter();
        let is_meant = |free: &Free| free.is_wanted(&wants_no_more) && is_chosen(free.deaths);
        let mut free = free.filter(|(_, free)| is_meant(free)).peekable();
        let first = free.peek().map(|(first, _)| **first)?;
        Some((first, free.map(|(_, free)| free.count).sum()))
    }

    /// Removes the splits that [`wanted`](Ledger::wanted) counts, and returns them as runs.
    pub(crate) fn take_wanted(&mut self, wants_no_more: impl Fn(TaskId) -> bool) -> Vec<Run> {
        let mut runs = Vec::new();
        for (number, source) in (0_u32..).zip(&mut self.sources) {
            source.free.retain(|(repetition, first_index), free| {
                let wanted = free.is_wanted(&wants_no_more);
                if wanted {
                    runs.push(Run {
                        source: number,
                        repetition: *repetition,
                        first_index: *first_index,
                        count: free.count,
                        first_lease: 0,
                        attempt: free.attempt,
                        seen: false,
                        deaths: free.deaths,
                        skipped: free.skipped,
                    });
                }
                !wanted
            });
        }
        runs
    }

    /// Returns the number of the next lease, which equals the number of leases given so far.
    pub(crate) fn next_lease(&self) -> u64 {
        self.next_lease
    }

    /// Returns the split counts of each source.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = Tally> {
        self.sources.iter().map(|source| {
            let again: u64 = source.free.values().map(|free| free.count).sum();
            Tally {
                repetition: source.repetition,
                remaining: source.total - source.next + again,
                done: source.done,
                lost: source.lost,
            }
        })
    }

    /// Panics if the books do not balance. `held` is the number of splits of each source that tasks and
    /// removals hold.
    #[cfg(debug_assertions)]
    pub(crate) fn check_invariants(&self, held: &BTreeMap<u32, u64>) {
        for (number, source) in (0_u32..).zip(&self.sources) {
            assert!(
                source.next <= source.total,
                "source {number} leased more splits than it has"
            );
            let held = held.get(&number).copied().unwrap_or(0);
            let again: u64 = source.free.values().map(|free| free.count).sum();
            let known = held + again + source.done + source.lost;
            if source.repetition == 0 {
                assert_eq!(known, source.next, "source {number} does not balance");
            } else {
                let passes = u128::from(source.repetition) * u128::from(source.total);
                assert!(
                    u128::from(known) <= passes + u128::from(source.next),
                    "source {number} leased a split twice"
                );
            }
        }
    }

    fn insert_free(&mut self, run: &Run, attempt: u32, returned_by: Option<TaskId>) {
        if let Some(source) = self.source_mut(run.source) {
            let free = Free {
                count: run.count,
                attempt,
                returned_by,
                deaths: run.deaths,
                skipped: run.skipped,
            };
            source.free.insert((run.repetition, run.first_index), free);
        }
    }

    fn source(&self, source: u32) -> Option<&Source> {
        usize::try_from(source)
            .ok()
            .and_then(|source| self.sources.get(source))
    }

    fn source_mut(&mut self, source: u32) -> Option<&mut Source> {
        usize::try_from(source)
            .ok()
            .and_then(|source| self.sources.get_mut(source))
    }
}

impl Free {
    /// Returns splits that were never leased.
    fn fresh(count: u64) -> Free {
        Free {
            count,
            attempt: 0,
            returned_by: None,
            deaths: 0,
            skipped: false,
        }
    }

    fn is_wanted(&self, wants_no_more: impl Fn(TaskId) -> bool) -> bool {
        !self.returned_by.is_some_and(wants_no_more)
    }
}

impl Source {
    fn free_within(&self, dealing: Dealing, repetition: u64) -> impl Iterator<Item = (&(u64, u64), &Free)> {
        let upto = (repetition, u64::MAX);
        let after = dealing
            .after
            .map_or(Bound::Unbounded, |after| Bound::Excluded(after.min(upto)));
        // Both bounds may name the same split, and then the range is empty.
        let free = self.free.range((after, Bound::Included(upto)));
        let passes_over = matches!(dealing.suspects, Suspects::PassedOver { .. });
        free.filter(move |(_, free)| !(passes_over && dealing.suspects.include(free.deaths)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::SourcePlan;

    const ANY: Dealing = Dealing {
        after: None,
        only_free: false,
        suspects: Suspects::Unknown,
    };

    fn ledger(splits: u64) -> Ledger {
        Ledger::new(&SplitPlan {
            sources: vec![SourcePlan::Counted { splits }],
            seed: 0,
        })
    }

    fn dealt(runs: &[Run]) -> Vec<(u64, u64, u64, u32)> {
        runs.iter()
            .map(|run| (run.repetition, run.first_index, run.count, run.attempt))
            .collect()
    }

    #[test]
    fn a_billion_splits_are_dealt_out_as_numbers() {
        let mut ledger = ledger(1_000_000_000);
        assert_eq!(
            dealt(&ledger.lease(0, 0, 600_000_000, ANY)),
            [(0, 0, 600_000_000, 0)]
        );
        assert_eq!(
            dealt(&ledger.lease(0, 0, 600_000_000, ANY)),
            [(0, 600_000_000, 400_000_000, 0)]
        );
        assert!(ledger.lease(0, 0, 1, ANY).is_empty());
    }

    /// Tests that a request for a later repetition ends the earlier ones (C5.4).
    #[test]
    fn a_later_repetition_ends_the_earlier_ones() {
        let mut ledger = ledger(10);
        assert_eq!(dealt(&ledger.lease(0, 0, 4, ANY)), [(0, 0, 4, 0)]);
        assert_eq!(dealt(&ledger.lease(0, 2, 4, ANY)), [(2, 0, 4, 0)]);
        assert!(ledger.lease(0, 0, 4, ANY).is_empty(), "repetition 0 is over");
        assert!(ledger.lease(0, 1, 4, ANY).is_empty(), "repetition 1 was skipped");
        assert!(ledger.lease(1, 0, 4, ANY).is_empty(), "no such source");
        assert_eq!(ledger.available(0, 2, ANY), 6);
        assert_eq!(ledger.available(0, u64::MAX, ANY), 10);
    }

    /// Tests that free splits are leased before fresh splits (C5.3).
    #[test]
    fn freed_splits_come_first_and_carry_their_attempt() {
        let mut ledger = ledger(10);
        let runs = ledger.lease(0, 0, 8, ANY);
        ledger.free(&Run { count: 3, ..runs[0] });
        assert_eq!(ledger.wanted(|_| true), 3);
        assert_eq!(dealt(&ledger.lease(0, 0, 2, ANY)), [(0, 0, 2, 1)]);
        assert_eq!(dealt(&ledger.lease(0, 0, 9, ANY)), [(0, 2, 1, 1), (0, 8, 2, 0)]);
        assert_eq!(ledger.wanted(|_| true), 0);
    }

    #[test]
    fn a_later_pass_takes_an_earlier_ones_rest() {
        let mut ledger = ledger(4);
        let first = ledger.lease(0, 0, 4, ANY);
        let second = ledger.lease(0, 1, 4, ANY);
        ledger.free(&second[0]);
        assert!(
            ledger.lease(0, 0, 4, ANY).is_empty(),
            "a pass does not read ahead"
        );
        ledger.free(&first[0]);
        assert_eq!(dealt(&ledger.lease(0, 1, 8, ANY)), [(0, 0, 4, 1), (1, 0, 4, 1)]);
    }

    /// Tests that splits returned by a task that wants no more are not counted (C5.5).
    #[test]
    fn returned_and_unwanted_splits_are_told_apart() {
        let mut ledger = ledger(10);
        let runs = [ledger.lease(0, 0, 2, ANY), ledger.lease(0, 0, 3, ANY)].concat();
        ledger.take_back(&runs[0], TaskId(7));
        ledger.free(&runs[1]);
        assert_eq!(ledger.wanted(|_| false), 5);
        assert_eq!(ledger.wanted(|task| task == TaskId(7)), 3);
        let wanted = ledger.take_wanted(|task| task == TaskId(7));
        assert_eq!(dealt(&wanted), [(0, 2, 3, 1)]);
        assert_eq!(
            dealt(&ledger.lease(0, 0, 2, ANY)),
            [(0, 0, 2, 0)],
            "returned splits keep their attempt"
        );
    }

    #[test]
    fn leases_are_never_given_twice() {
        let mut ledger = ledger(6);
        let first = ledger.lease(0, 0, 3, ANY);
        ledger.free(&first[0]);
        let again = ledger.lease(0, 0, 6, ANY);
        let leases: Vec<u64> = again.iter().map(|run| run.first_lease).collect();
        assert_eq!(leases, [3, 6]);
    }
}
