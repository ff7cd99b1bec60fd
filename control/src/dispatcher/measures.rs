//! The reports of pace that arrive with heartbeats: which reports count, and how many workers the service
//! wants.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::estimate;
use super::moment::Moment;
use super::paces::Paces;
use super::record::TaskPhase;
use super::tables::Tables;
use crate::id::{IterationId, SessionId, TaskId};
use crate::pace::Measures;
use crate::scaling::Observation;

impl Paces {
    /// Notes a process's reports about its own tasks and clients, and ignores reports about other processes
    /// (C11.1).
    pub(super) fn note_measures(
        &mut self,
        session: SessionId,
        measures: Measures,
        tables: &Tables,
        now: Moment,
    ) {
        let worker = tables.workers.of_session(session);
        if let (Some(worker), Some(links)) = (worker, measures.links) {
            self.note_links(worker, links);
        }
        if let (Some(worker), Some(load)) = (worker, measures.load) {
            self.note_load(worker, load);
        }
        let tasks = &tables.tasks;
        let is_own = |task: TaskId| tasks.get(&task).is_some_and(|row| Some(row.worker) == worker);
        for (task, pace) in measures.tasks {
            if is_own(task) {
                self.note_task(task, pace, now);
            }
        }
        for (task, name) in measures.bottlenecks {
            if is_own(task) {
                self.note_bottleneck(task, name);
            }
        }
        for (task, stages) in measures.stages {
            if let Some(row) = tasks.get(&task).filter(|_| is_own(task)) {
                self.note_stages(row.iteration, task, stages, now);
            }
        }
        for (client, pace) in measures.clients {
            if tables.clients.owned_by(session, client).is_ok() {
                self.note_client(client, pace, now);
            }
        }
        for (client, links) in measures.client_links {
            if tables.clients.owned_by(session, client).is_ok() {
                self.note_client_links(client, links);
            }
        }
    }

    /// Forgets the reports of tasks, clients and workers that are gone.
    pub(super) fn forget_gone(&mut self, tables: &Tables) {
        self.retain(
            |task| tables.tasks.contains(task),
            |task| {
                tables
                    .tasks
                    .get(task)
                    .is_some_and(|row| row.phase == TaskPhase::Running)
            },
            |client| tables.clients.contains(client),
            |worker| tables.workers.get(worker).is_some_and(|row| row.dead.is_none()),
        );
    }

    /// Returns the number of workers that an iteration wants, without limits (C11.2).
    pub(super) fn workers_estimated_for(&self, iteration: IterationId, tables: &Tables) -> Option<u64> {
        // A task that has ended needs no worker.
        let tasks = tables.tasks.running_of(iteration);
        let clients = tables.clients.of(iteration).into_iter();
        self.workers_for(tasks, clients)
    }

    /// Returns the estimated number of workers for all readers: the largest number that an iteration wants,
    /// within the limits (C11.2).
    pub(super) fn workers_estimated(&self, tables: &Tables) -> Option<u64> {
        let estimate = self.largest_estimate(tables)?;
        estimate::bounded(estimate, tables.workers.living_count() as u64)
    }

    fn largest_estimate(&self, tables: &Tables) -> Option<u64> {
        let running = tables.iterations.running().into_iter();
        running
            .filter_map(|id| self.workers_estimated_for(id, tables))
            .max()
    }

    /// Returns the input of the scaling policy (C11.5). A job of several trainers advances with the trainer
    /// that waits longest, so the longest wait counts.
    pub(super) fn observation(&self, tables: &Tables, now: Moment) -> Observation {
        let taking = tables.workers.taking_tasks();
        let mut seen = Observation {
            workers: taking.len() as u64,
            ..Observation::default()
        };
        let mut producing = BTreeSet::new();
        let mut needed = None;
        for iteration in tables.iterations.running() {
            let (mut taken_per_s, mut usual_per_s, mut wanted_per_s) = (0.0, 0.0, 0.0);
            let clients = tables.clients.of(iteration);
            if !clients.is_empty() {
                seen.datasets.extend(number_of_dataset(iteration, tables));
                seen.lag = seen.lag.max(tables.order_lag(iteration));
            }
            for client in clients {
                seen.readers += 1;
                seen.is_starting |= self.is_starting(client, now);
                if let Some(reading) = self.reading_of(client, now) {
                    seen.waiting = Some(seen.waiting.unwrap_or(0.0).max(reading.waiting));
                    seen.demand += reading.demand;
                    seen.step = seen.step.max(reading.step);
                    taken_per_s += reading.rate;
                    wanted_per_s += reading.demand;
                    // In most seconds of a long step the user takes nothing, but the workers are needed.
                    usual_per_s += reading.demand * (1.0 - reading.waiting);
                }
            }
            seen.rate += taken_per_s;
            let (mut busy, mut time_s, mut per_s, mut tasks) = (0.0, 0.0, 0.0, 0);
            for task in tables.tasks.running_of(iteration) {
                let worker = tables.tasks.get(&task).map(|row| row.worker);
                let worker = worker.filter(|worker| taking.binary_search(worker).is_ok());
                if let (Some(worker), Some(working)) = (worker, self.working_of(task, now)) {
                    producing.insert(worker);
                    busy += working.busy;
                    time_s += working.element_s;
                    per_s += 1.0 / working.element_s;
                    tasks += 1;
                }
            }
            if tasks > 0 {
                // Workers that only fill the buffers of a slow reader are not needed.
                let used = usual_per_s * time_s / f64::from(tasks);
                seen.load = Some(seen.load.unwrap_or(0.0) + used.min(busy));
                // The first element of a new worker takes long, and changes the mean rate less than the mean
                // time. All iterations share the workers, so their needs add up.
                needed = Some(needed.unwrap_or(0.0) + wanted_per_s * f64::from(tasks) / per_s);
            }
        }
        // The conversion of a float to an integer saturates.
        seen.estimate = needed.map(|needed| needed.ceil() as u64);
        seen.producing = producing.len() as u64;
        seen.load = seen.load.map(|load| load.min(seen.workers as f64));
        seen
    }
}

/// Returns a number that stands for the dataset of an iteration.
fn number_of_dataset(iteration: IterationId, tables: &Tables) -> Option<u64> {
    let dataset = &tables.parameters_of(iteration)?.dataset;
    let mut hasher = DefaultHasher::new();
    dataset.hash(&mut hasher);
    Some(hasher.finish())
}
