//! The paces that tasks and clients reported last, the bottlenecks of tasks, and the estimated number of
//! workers.
//!
//! The paces do not survive a restart, because every process repeats its report with its next heartbeat.
//! This file uses no records.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::estimate;
use super::moment::Moment;
use super::stage_reports::{StageReport, StageReports};
use crate::id::{ClientId, IterationId, TaskId, WorkerId};
use crate::links::{ClientLinks, LinkCounts};
use crate::load::WorkerLoad;
use crate::pace::{BOTTLENECK_BYTES_MAX, Pace, STALE};
use crate::split::SplitPace;
use crate::stage::StagePace;

/// The latest reports of tasks, clients and workers.
#[derive(Debug, Default)]
pub(super) struct Paces {
    tasks: BTreeMap<TaskId, Reported>,
    clients: BTreeMap<ClientId, Reported>,
    links: BTreeMap<WorkerId, LinkCounts>,
    client_links: BTreeMap<ClientId, ClientLinks>,
    bottlenecks: BTreeMap<TaskId, String>,
    stages: StageReports,
    loads: BTreeMap<WorkerId, WorkerLoad>,
    /// The number of splits that each task starts in 1000 s, reported with the latest lease request of its
    /// worker.
    splits: BTreeMap<TaskId, u64>,
}

/// The latest report of one task or client, and the rate since the previous report.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reported {
    pace: Pace,
    at: Moment,
    /// The time of the latest report of a further element or wait.
    active_at: Moment,
    /// The elements per second between the last two reports.
    rate: f64,
    /// The share of the time between the last two reports in which a client's user waited. `None` after the
    /// first report.
    waiting: Option<f64>,
    /// The share of the time between the last two reports in which a task computed. `None` after the first
    /// report, and for workers that do not measure it.
    busy: Option<f64>,
}

/// The figures of a client whose user takes elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    /// The share of its time in which the user waits for elements.
    pub(super) waiting: f64,
    /// The elements that the user takes in a second.
    pub(super) rate: f64,
    /// The elements that the user would take in a second without waiting.
    pub(super) demand: f64,
    /// The user's time for an element; zero for a user that has neither taken an element nor waited for a
    /// longer time.
    pub(super) step: Duration,
}

/// The figures of a task that has produced elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Working {
    /// The share of time in which the task computes, from 0 to 1.
    pub(super) busy: f64,
    /// The time for an element, in seconds.
    pub(super) element_s: f64,
}

impl Reported {
    /// Returns whether the user has taken an element or waited within two of its steps.
    fn is_active(&self, now: Moment, step: Duration) -> bool {
        now.saturating_sub(self.active_at) <= step.saturating_mul(2) + STALE
    }

    fn is_fresh(&self, now: Moment) -> bool {
        now.saturating_sub(self.at) <= STALE
    }

    fn after(before: Option<&Reported>, pace: Pace, now: Moment) -> Reported {
        let mut reported = Reported {
            pace,
            at: now,
            active_at: before.map_or(now, |before| before.active_at),
            rate: before.map_or(0.0, |before| before.rate),
            waiting: before.and_then(|before| before.waiting),
            busy: before.and_then(|before| before.busy),
        };
        if let Some(before) = before {
            let seconds = now.saturating_sub(before.at).as_secs_f64();
            if seconds > 0.0 {
                let elements = pace.elements.saturating_sub(before.pace.elements);
                let share = |now_ms: u64, before_ms: u64| {
                    (now_ms.saturating_sub(before_ms) as f64 / 1000.0 / seconds).min(1.0)
                };
                if elements > 0 || pace.waited_ms > before.pace.waited_ms {
                    reported.active_at = now;
                }
                reported.rate = elements as f64 / seconds;
                reported.waiting = Some(share(pace.waited_ms, before.pace.waited_ms));
                reported.busy = (pace.busy_ms > 0).then(|| share(pace.busy_ms, before.pace.busy_ms));
            }
        }
        reported
    }
}

impl Paces {
    pub(super) fn note_task(&mut self, task: TaskId, pace: Pace, now: Moment) {
        let reported = Reported::after(self.tasks.get(&task), pace, now);
        self.tasks.insert(task, reported);
    }

    pub(super) fn note_client(&mut self, client: ClientId, pace: Pace, now: Moment) {
        let reported = Reported::after(self.clients.get(&client), pace, now);
        self.clients.insert(client, reported);
    }

    pub(super) fn note_links(&mut self, worker: WorkerId, links: LinkCounts) {
        self.links.insert(worker, links);
    }

    /// Notes the links of a client. A reason that is too long is cut off.
    pub(super) fn note_client_links(&mut self, client: ClientId, links: ClientLinks) {
        self.client_links.insert(client, links.cut());
    }

    /// Notes the bottleneck of a task: the stage that holds it up. A name that is too long is cut off.
    pub(super) fn note_bottleneck(&mut self, task: TaskId, mut name: String) {
        name.truncate(name.floor_char_boundary(BOTTLENECK_BYTES_MAX));
        self.bottlenecks.insert(task, name);
    }

    /// Notes the recent work of the stages of a task of an iteration, within the limits.
    pub(super) fn note_stages(
        &mut self,
        iteration: IterationId,
        task: TaskId,
        stages: Vec<StagePace>,
        now: Moment,
    ) {
        self.stages.note(iteration, task, stages, now);
    }

    pub(super) fn note_load(&mut self, worker: WorkerId, load: WorkerLoad) {
        self.loads.insert(worker, load);
    }

    /// Notes the number of splits that a task starts in 1000 s.
    pub(super) fn note_splits(&mut self, task: TaskId, pace: SplitPace) {
        self.splits.insert(task, pace.per_1000_s);
    }

    /// Forgets the reports of tasks, clients and workers that are gone.
    pub(super) fn retain(
        &mut self,
        has_task: impl Fn(&TaskId) -> bool,
        is_running: impl Fn(&TaskId) -> bool,
        has_client: impl Fn(&ClientId) -> bool,
        has_worker: impl Fn(&WorkerId) -> bool,
    ) {
        self.tasks.retain(|task, _| has_task(task));
        self.bottlenecks.retain(|task, _| has_task(task));
        self.splits.retain(|task, _| has_task(task));
        // Only running iterations show stages, and the reports of ended ones would take their places.
        self.stages.retain(is_running);
        self.clients.retain(|client, _| has_client(client));
        self.client_links.retain(|client, _| has_client(client));
        self.links.retain(|worker, _| has_worker(worker));
        self.loads.retain(|worker, _| has_worker(worker));
    }

    /// Returns the latest pace of a task and the elements that the task produces in a second. Also returns
    /// the share of the time in which the task computes.
    pub(super) fn of_task(&self, task: TaskId) -> Option<(Pace, f64, Option<f64>)> {
        let reported = self.tasks.get(&task)?;
        Some((reported.pace, reported.rate, reported.busy))
    }

    /// Returns the time in which a task produces an element, in seconds, by its latest report.
    pub(super) fn element_s(&self, task: TaskId) -> Option<f64> {
        let time = self.tasks.get(&task)?.pace.element_time()?;
        Some(time.as_secs_f64())
    }

    /// Returns the latest pace of a client and the elements that its user takes in a second. Also returns the
    /// share of the time in which the user waits.
    pub(super) fn of_client(&self, client: ClientId) -> Option<(Pace, f64, Option<f64>)> {
        let reported = self.clients.get(&client)?;
        Some((reported.pace, reported.rate, reported.waiting))
    }

    /// Returns the latest figures of a task that has produced elements. `None` without a fresh report.
    pub(super) fn working_of(&self, task: TaskId, now: Moment) -> Option<Working> {
        let reported = self.tasks.get(&task).filter(|reported| reported.is_fresh(now))?;
        let element_s = reported.pace.element_time()?.as_secs_f64();
        Some(Working {
            busy: reported.busy.unwrap_or(reported.rate * element_s).min(1.0),
            element_s,
        })
    }

    /// Returns the latest figures of a client whose user takes elements. `None` without a fresh report.
    pub(super) fn reading_of(&self, client: ClientId, now: Moment) -> Option<Reading> {
        let reported = self
            .clients
            .get(&client)
            .filter(|reported| reported.is_fresh(now))?;
        let time = reported.pace.element_time()?;
        Some(Reading {
            waiting: reported.waiting?,
            rate: reported.rate,
            demand: 1.0 / time.as_secs_f64(),
            step: match reported.is_active(now, time) {
                true => time,
                false => Duration::ZERO,
            },
        })
    }

    /// Returns whether a client's user waits for the first element, by a fresh report.
    pub(super) fn is_starting(&self, client: ClientId, now: Moment) -> bool {
        self.clients.get(&client).is_some_and(|reported| {
            let is_waiting = reported.waiting.is_some_and(|waiting| waiting > 0.0);
            reported.is_fresh(now) && reported.pace.elements == 0 && is_waiting
        })
    }

    /// Returns the kinds of links that a worker has with its readers (C11.3).
    pub(super) fn links_of(&self, worker: WorkerId) -> Option<LinkCounts> {
        self.links.get(&worker).copied()
    }

    /// Returns the links of a client with its workers (C11.3).
    pub(super) fn links_of_client(&self, client: ClientId) -> Option<ClientLinks> {
        self.client_links.get(&client).cloned()
    }

    /// Returns the latest load of a worker (C11.6).
    pub(super) fn load_of(&self, worker: WorkerId) -> Option<WorkerLoad> {
        self.loads.get(&worker).copied()
    }

    /// Returns the latest report of the stages of a task (C11.6).
    pub(super) fn stages_of(&self, iteration: IterationId, task: TaskId) -> Option<&StageReport> {
        self.stages.of(iteration, task)
    }

    /// Returns the bottleneck of a task, as its worker reported (C11.4).
    pub(super) fn bottleneck_of(&self, task: TaskId) -> Option<String> {
        self.bottlenecks.get(&task).cloned()
    }

    /// Returns the number of splits that a task starts in 1000 s; `None` before its first report.
    pub(super) fn splits_of(&self, task: TaskId) -> Option<u64> {
        self.splits.get(&task).copied()
    }

    /// Returns the number of workers that an iteration with these running tasks and these clients wants,
    /// without limits (C11.2).
    pub(super) fn workers_for(
        &self,
        tasks: impl Iterator<Item = TaskId>,
        clients: impl Iterator<Item = ClientId>,
    ) -> Option<u64> {
        let time = |reported: Option<&Reported>| -> Option<Duration> { reported?.pace.element_time() };
        let processing = tasks.filter_map(|task| time(self.tasks.get(&task)));
        let target = clients.filter_map(|client| time(self.clients.get(&client)));
        estimate::workers_estimated(processing, target)
    }
}

#[cfg(test)]
impl Paces {
    /// Returns the number of remembered reports about stages.
    pub(super) fn stage_reports(&self) -> usize {
        self.stages.len()
    }

    /// Returns the number of reports that are remembered.
    pub(super) fn len(&self) -> usize {
        let of_tasks = self.tasks.len() + self.bottlenecks.len() + self.stages.len();
        of_tasks + self.clients.len() + self.client_links.len() + self.links.len() + self.loads.len()
    }
}
