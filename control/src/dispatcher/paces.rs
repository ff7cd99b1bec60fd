//! What tasks and clients last said of their pace and of what holds them up, and what follows for people: rates, and how many workers would do.
//!
//! Not remembered across restarts: everybody says it again with the next sign of life.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::autoscale;
use super::machine::{Dispatcher, Moment};
use super::record::TaskPhase;
use crate::id::{ClientId, IterationId, SessionId, TaskId, WorkerId};
use crate::links::LinkCounts;
use crate::pace::{BOTTLENECK_BYTES_MAX, Measures, Pace};

/// The latest words of everybody.
#[derive(Debug, Default)]
pub(super) struct Paces {
    tasks: BTreeMap<TaskId, Told>,
    clients: BTreeMap<ClientId, Told>,
    links: BTreeMap<WorkerId, LinkCounts>,
    bottlenecks: BTreeMap<TaskId, String>,
}

/// What one of them said.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Told {
    pace: Pace,
    at: Moment,
    /// Elements per second between the last two times.
    rate: f64,
}

impl Told {
    fn after(before: Option<&Told>, pace: Pace, now: Moment) -> Told {
        let rate = before.map_or(0.0, |before| {
            let elements = pace.elements.saturating_sub(before.pace.elements);
            let seconds = now.saturating_sub(before.at).as_secs_f64();
            if seconds > 0.0 {
                elements as f64 / seconds
            } else {
                before.rate
            }
        });
        Told { pace, at: now, rate }
    }
}

impl Paces {
    /// What a task said, and the elements per second that it produces.
    pub(super) fn of_task(&self, task: TaskId) -> Option<(Pace, f64)> {
        self.tasks.get(&task).map(|told| (told.pace, told.rate))
    }

    /// C11.3: how readers are linked with a worker, as it said.
    pub(super) fn links_of(&self, worker: WorkerId) -> Option<LinkCounts> {
        self.links.get(&worker).copied()
    }

    /// C11.4: what holds a task up, as its worker said.
    pub(super) fn bottleneck_of(&self, task: TaskId) -> Option<String> {
        self.bottlenecks.get(&task).cloned()
    }

    /// What a client said, and the elements per second that its user takes.
    pub(super) fn of_client(&self, client: ClientId) -> Option<(Pace, f64)> {
        self.clients.get(&client).map(|told| (told.pace, told.rate))
    }
}

#[cfg(test)]
impl Paces {
    /// How many are remembered.
    pub(super) fn len(&self) -> usize {
        self.tasks.len() + self.clients.len() + self.links.len() + self.bottlenecks.len()
    }
}

impl Dispatcher {
    /// C11.1: only what is of the process' own tasks and clients counts.
    pub(super) fn handle_measures(&mut self, session: SessionId, measures: Measures) {
        let now = self.now;
        let worker = self.tables.index.worker_of_session.get(&session).copied();
        if let (Some(worker), Some(links)) = (worker, measures.links) {
            self.paces.links.insert(worker, links);
        }
        let tasks = &self.tables.tasks;
        let is_own = |task: TaskId| tasks.get(&task).is_some_and(|row| Some(row.worker) == worker);
        for (task, pace) in measures.tasks {
            if is_own(task) {
                let told = Told::after(self.paces.tasks.get(&task), pace, now);
                self.paces.tasks.insert(task, told);
            }
        }
        for (task, mut name) in measures.bottlenecks {
            if is_own(task) {
                name.truncate(name.floor_char_boundary(BOTTLENECK_BYTES_MAX));
                self.paces.bottlenecks.insert(task, name);
            }
        }
        for (client, pace) in measures.clients {
            if self.client(session, client).is_ok() {
                let told = Told::after(self.paces.clients.get(&client), pace, now);
                self.paces.clients.insert(client, told);
            }
        }
    }

    /// Those who are gone say nothing any more.
    pub(super) fn forget_paces(&mut self) {
        let tables = &self.tables;
        self.paces.tasks.retain(|task, _| tables.tasks.contains(task));
        self.paces
            .bottlenecks
            .retain(|task, _| tables.tasks.contains(task));
        self.paces
            .clients
            .retain(|client, _| tables.clients.contains(client));
        self.split_paces.retain(|task, _| tables.tasks.contains(task));
        let lives = |worker: &WorkerId| tables.workers.get(worker).is_some_and(|row| row.dead.is_none());
        self.paces.links.retain(|worker, _| lives(worker));
    }

    /// C11.2: how many workers an iteration wants, without limits.
    pub(super) fn workers_wanted_by(&self, iteration: IterationId) -> Option<u64> {
        let tasks = self.tables.tasks_of(iteration).into_iter();
        // A task that has ended is no worker's to share.
        let runs = |task: &TaskId| {
            let row = self.tables.tasks.get(task);
            row.is_some_and(|row| row.phase == TaskPhase::Running)
        };
        let time = |told: Option<&Told>| -> Option<Duration> { told?.pace.element_time() };
        let processing = tasks
            .filter(runs)
            .filter_map(|task| time(self.paces.tasks.get(&task)));
        let clients = self.tables.clients_of(iteration).into_iter();
        let target = clients.filter_map(|client| time(self.paces.clients.get(&client)));
        autoscale::workers_wanted(processing, target)
    }

    /// C11.2: how many workers the service wants: what the iteration does that wants most, within the limits.
    pub(super) fn workers_wanted(&self) -> Option<u64> {
        let running = self.tables.index.running.iter();
        let wanted = running.filter_map(|id| self.workers_wanted_by(*id)).max()?;
        autoscale::bounded(wanted, self.tables.index.worker_of_address.len() as u64)
    }
}
