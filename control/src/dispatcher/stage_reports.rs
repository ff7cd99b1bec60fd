//! The latest reports of the stages of tasks, for people.
//!
//! Every iteration has limits of its own, because its tasks run a pipeline of its own. The reports do not
//! survive a restart. This file uses no records.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::moment::Moment;
use crate::id::{IterationId, TaskId};
use crate::pace::STALE;
use crate::stage::{self, StagePace};

/// Maximum number of iterations whose stages the dispatcher remembers and shows: those with the highest ids.
pub(super) const STAGED_ITERATIONS_MAX: usize = 100;
/// Maximum number of tasks of an iteration whose stages the dispatcher remembers. Further tasks run the same
/// pipeline.
pub(super) const STAGED_TASKS_MAX: usize = 1024;
/// The age from which on a report never counts.
const FRESH_MAX: Duration = Duration::from_secs(60);

/// The latest reports of the stages of tasks.
#[derive(Debug, Default)]
pub(super) struct StageReports {
    iterations: BTreeMap<IterationId, BTreeMap<TaskId, StageReport>>,
}

/// The recent work of the stages of one task.
#[derive(Debug)]
pub(super) struct StageReport {
    /// The stages, with the output first.
    pub(super) stages: Vec<StagePace>,
    at: Moment,
    /// The time for which the report says something about the present.
    lasts: Duration,
}

impl StageReport {
    /// Returns whether the report says something about the present. A task that waits for its readers reports
    /// no work.
    pub(super) fn is_fresh(&self, now: Moment) -> bool {
        now.saturating_sub(self.at) <= self.lasts
    }
}

impl StageReports {
    /// Notes the recent work of the stages of a task, within the limits (C11.6).
    pub(super) fn note(
        &mut self,
        iteration: IterationId,
        task: TaskId,
        mut stages: Vec<StagePace>,
        now: Moment,
    ) {
        stage::cut(&mut stages);
        let tasks = self.iterations.entry(iteration).or_default();
        let earlier = tasks.get(&task);
        if earlier.is_none() && tasks.len() >= STAGED_TASKS_MAX {
            return;
        }
        // The reports of a worker with many tasks take turns, and a slow task has seldom something to report.
        let since_earlier = earlier.map_or(Duration::ZERO, |earlier| now.saturating_sub(earlier.at));
        let report = StageReport {
            stages,
            at: now,
            lasts: (2 * since_earlier.min(FRESH_MAX)).clamp(STALE, FRESH_MAX),
        };
        tasks.insert(task, report);
        while self.iterations.len() > STAGED_ITERATIONS_MAX {
            self.iterations.pop_first();
        }
    }

    /// Returns the latest report of a task.
    pub(super) fn of(&self, iteration: IterationId, task: TaskId) -> Option<&StageReport> {
        self.iterations.get(&iteration)?.get(&task)
    }

    /// Forgets the reports of tasks that do not run any more.
    pub(super) fn retain(&mut self, is_running: impl Fn(&TaskId) -> bool) {
        self.iterations.retain(|_, tasks| {
            tasks.retain(|task, _| is_running(task));
            !tasks.is_empty()
        });
    }
}

#[cfg(test)]
impl StageReports {
    /// Returns the number of reports that are remembered.
    pub(super) fn len(&self) -> usize {
        self.iterations.values().map(BTreeMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes a report at a second.
    fn note(reports: &mut StageReports, iteration: u64, task: u64, second: u64) {
        let now = Moment::from_secs(second);
        reports.note(IterationId(iteration), TaskId(task), Vec::new(), now);
    }

    fn is_fresh(reports: &StageReports, task: u64, second: u64) -> bool {
        let report = reports.of(IterationId(1), TaskId(task)).unwrap();
        report.is_fresh(Moment::from_secs(second))
    }

    /// C11.6
    #[test]
    fn every_iteration_has_its_own_room() {
        let (mut reports, most) = (StageReports::default(), STAGED_TASKS_MAX as u64);
        for task in 0..2 * most {
            note(&mut reports, 1, task, 0);
        }
        note(&mut reports, 2, 2 * most, 0);
        assert_eq!(reports.len(), STAGED_TASKS_MAX + 1);
        assert!(reports.of(IterationId(2), TaskId(2 * most)).is_some());
        for iteration in 3..200 {
            note(&mut reports, iteration, 10 * most + iteration, 0);
        }
        assert_eq!(reports.len(), STAGED_ITERATIONS_MAX);
        note(&mut reports, 1, 0, 0);
        assert!(reports.of(IterationId(1), TaskId(0)).is_none());
        reports.retain(|task| task.0 == 10 * most + 199);
        assert_eq!(reports.len(), 1);
    }

    /// C11.6
    #[test]
    fn seldom_reports_last_longer() {
        let mut reports = StageReports::default();
        note(&mut reports, 1, 7, 100);
        assert!(is_fresh(&reports, 7, 105) && !is_fresh(&reports, 7, 106));
        note(&mut reports, 1, 7, 110);
        assert!(is_fresh(&reports, 7, 130) && !is_fresh(&reports, 7, 131));
        note(&mut reports, 1, 7, 4000);
        assert!(is_fresh(&reports, 7, 4060) && !is_fresh(&reports, 7, 4061));
        note(&mut reports, 1, 7, 4001);
        assert!(is_fresh(&reports, 7, 4006) && !is_fresh(&reports, 7, 4007));
    }
}
