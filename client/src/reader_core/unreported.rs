//! Reports that the dispatcher has not received yet, merged while they wait.
//!
//! Pure. The memory is bounded by the number of leases: the leases of a task merge into few ranges, and each
//! task has one end and one removal. This file does not know how reports are sent.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millstream_dataplane::TaskId;

use super::ranges::Ranges;
use crate::report::{Report, SeenSplits};

#[derive(Debug, Default)]
pub(super) struct Unreported {
    done: BTreeMap<TaskId, Ranges>,
    waiting: BTreeMap<TaskId, Ranges>,
    drained: BTreeSet<TaskId>,
    removed: VecDeque<(TaskId, SeenSplits)>,
    ready: BTreeMap<TaskId, u64>,
    /// Workers whose links were lost.
    suspects: BTreeSet<String>,
}

impl Unreported {
    pub(super) fn note_done(&mut self, task: TaskId, lease: u64) {
        self.done.entry(task).or_default().insert(lease..=lease);
    }

    /// Notes splits that ended while some of their elements wait for the user.
    pub(super) fn note_waiting(&mut self, task: TaskId, leases: impl Iterator<Item = u64>) {
        for lease in leases {
            self.waiting.entry(task).or_default().insert(lease..=lease);
        }
    }

    pub(super) fn note_drained(&mut self, task: TaskId) {
        self.drained.insert(task);
    }

    pub(super) fn note_removed(&mut self, task: TaskId, seen: SeenSplits) {
        self.removed.push_back((task, seen));
    }

    /// Notes that the link to a worker was lost.
    pub(super) fn note_suspect(&mut self, worker: &str) {
        self.suspects.insert(worker.to_owned());
    }

    /// Notes that a task without a start can take part from the round `earliest` on.
    pub(super) fn note_ready(&mut self, task: TaskId, earliest: u64) {
        self.ready.insert(task, earliest);
    }

    /// Returns the next report. Ended splits are reported before removals, which write off unfinished splits,
    /// and before the end of their task (C6.1).
    pub(super) fn next(&mut self) -> Option<Report> {
        if let Some(worker) = self.suspects.pop_first() {
            return Some(Report::Suspect { worker });
        }
        if let Some((task, earliest)) = self.ready.pop_first() {
            return Some(Report::Ready { task, earliest });
        }
        if let Some((task, leases)) = self.done.pop_first() {
            let leases = leases.iter().collect();
            return Some(Report::Done { task, leases });
        }
        if let Some((task, leases)) = self.waiting.pop_first() {
            let leases = leases.iter().collect();
            return Some(Report::Waiting { task, leases });
        }
        if let Some(task) = self.drained.pop_first() {
            return Some(Report::Drained { task });
        }
        let (task, seen) = self.removed.pop_front()?;
        Some(Report::Removed { task, seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks C6.1.
    #[test]
    fn ended_tasks_are_reported_first_and_at_once() {
        let mut unreported = Unreported::default();
        let seen = SeenSplits {
            partial: vec![9..=9],
            released: 0,
        };
        unreported.note_removed(TaskId(1), seen.clone());
        unreported.note_drained(TaskId(2));
        for lease in [4, 2, 3, 7] {
            unreported.note_done(TaskId(1), lease);
        }
        unreported.note_done(TaskId(2), 1);
        let reports: Vec<Report> = std::iter::from_fn(|| unreported.next()).collect();
        let done = |task, leases| Report::Done { task, leases };
        assert_eq!(
            reports,
            [
                done(TaskId(1), vec![2..=4, 7..=7]),
                done(TaskId(2), vec![1..=1]),
                Report::Drained { task: TaskId(2) },
                Report::Removed {
                    task: TaskId(1),
                    seen
                },
            ]
        );
    }
}
