//! The status: the machine's state in words and numbers, cut to a readable size.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::machine::Dispatcher;
use super::record::{IterationRecord, Phase, TaskPhase};
use super::splits::{Holding, Ledger};
use super::status::{
    ClientStatus, Counts, DatasetStatus, IterationStatus, JobStatus, Refusals, SourceStatus, Status,
    TaskStatus, WorkerStatus,
};
use crate::id::{ClientId, IterationId, TaskId};

/// Entries of each list.
const LIST_MAX: usize = 1000;

impl Dispatcher {
    /// A snapshot of everything.
    pub fn status(&self) -> Status {
        let running = self
            .tables
            .iterations
            .values()
            .filter(|row| row.phase == Phase::Running);
        let others = self
            .tables
            .iterations
            .values()
            .filter(|row| row.phase != Phase::Running);
        let datasets = self.tables.datasets.values().take(LIST_MAX);
        let jobs = self.tables.jobs.values().take(LIST_MAX);
        Status {
            boot: self.boot(),
            workers: self.worker_statuses(),
            datasets: datasets
                .map(|row| DatasetStatus {
                    id: row.id.clone(),
                    cardinality: row.facts.cardinality.to_string(),
                    definition_bytes: row.definition.len() as u64,
                })
                .collect(),
            jobs: jobs
                .map(|row| JobStatus {
                    id: row.id,
                    name: row.name.clone(),
                    parameters: row.parameters.clone(),
                })
                .collect(),
            iterations: running
                .chain(others)
                .take(LIST_MAX)
                .map(|row| self.iteration_status(row))
                .collect(),
            workers_wanted: self.workers_wanted(),
            // The shell around the machine counts them.
            refusals: Refusals::default(),
            counts: Counts {
                workers: self.tables.index.worker_of_address.len() as u64,
                datasets: self.tables.datasets.len() as u64,
                jobs: self.tables.jobs.len() as u64,
                iterations: self.tables.iterations.len() as u64,
                clients: self.tables.clients.len() as u64,
                tasks: self.tables.tasks.len() as u64,
            },
        }
    }

    fn worker_statuses(&self) -> Vec<WorkerStatus> {
        let workers = self.tables.workers.values().take(LIST_MAX);
        workers
            .map(|row| {
                let died = self.clocks.worker_died.get(&row.id);
                let silent = self.clocks.liveness.silence(row.id, self.now);
                let silent = silent.or_else(|| died.map(|died| self.now.saturating_sub(*died)));
                let silent = silent.unwrap_or_default();
                WorkerStatus {
                    id: row.id,
                    address: row.address.clone(),
                    tags: row.tags.clone(),
                    version: row.version.clone(),
                    dead: row.dead.map(|reason| reason.to_string()),
                    silent_ms: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
                    tasks: self
                        .tables
                        .index
                        .tasks_on
                        .get(&row.id)
                        .map_or(0, |tasks| tasks.len() as u64),
                    draining: row.draining,
                    links: self.paces.links_of(row.id).filter(|_| row.dead.is_none()),
                }
            })
            .collect()
    }

    fn iteration_status(&self, row: &IterationRecord) -> IterationStatus {
        let tasks = self.tables.tasks_of(row.id);
        let ledger = self.tables.ledgers.get(&row.id);
        let tallies = || ledger.into_iter().flat_map(Ledger::tallies);
        let clients = || self.tables.clients_of(row.id).into_iter();
        let no_worker = self.tables.index.worker_of_address.is_empty();
        IterationStatus {
            id: row.id,
            job: row.job,
            repetition: row.repetition,
            phase: row.phase,
            waiting_for_workers: row.phase == Phase::Running
                && (no_worker
                    || self.misses_shares(row.id)
                    || clients().any(|client| self.waits_for_worker(client))),
            clients: clients()
                .take(LIST_MAX)
                .filter_map(|client| self.client_status(client))
                .collect(),
            tasks: tasks
                .iter()
                .take(LIST_MAX)
                .filter_map(|task| self.task_status(*task))
                .collect(),
            removals: self.tables.removals_of(row.id).len() as u64,
            sources: tallies()
                .map(|tally| SourceStatus {
                    repetition: tally.repetition,
                    remaining: tally.remaining,
                    done: tally.done,
                    lost: tally.lost,
                })
                .collect(),
            splits_leased: self.splits_held(row.id),
            splits_done: row.splits_done + tallies().map(|tally| tally.done).sum::<u64>(),
            splits_lost: row.splits_lost,
            missing_consumers: self.missing_among(row),
            lost: row.lost.iter().take(LIST_MAX).copied().collect(),
            workers_wanted: self.workers_wanted_by(row.id),
        }
    }

    /// Whom a coordinated read waits for.
    fn missing_among(&self, row: &IterationRecord) -> Vec<u32> {
        if row.phase != Phase::Running {
            return Vec::new();
        }
        let mut missing = self.missing_consumers(row.id);
        missing.truncate(LIST_MAX);
        missing
    }

    fn client_status(&self, id: ClientId) -> Option<ClientStatus> {
        let row = self.tables.clients.get(&id)?;
        let seen = self.clocks.client_seen.get(&id);
        let silent = seen.map_or_else(Default::default, |seen| self.now.saturating_sub(*seen));
        let (pace, elements_per_s) = self.paces.of_client(id).unwrap_or_default();
        Some(ClientStatus {
            id,
            silent_ms: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
            consumer: row.consumer,
            elements: pace.elements,
            elements_per_s,
            element_ns: pace.element_ns,
        })
    }

    fn task_status(&self, id: TaskId) -> Option<TaskStatus> {
        let task = self.tables.tasks.get(&id)?;
        let (pace, elements_per_s) = self.paces.of_task(id).unwrap_or_default();
        Some(TaskStatus {
            id,
            worker: task.worker,
            worker_address: self.address_of(task.worker),
            phase: match &task.phase {
                TaskPhase::Running if task.start_round.is_none() => "waits for its first round".to_owned(),
                TaskPhase::Running => "running".to_owned(),
                TaskPhase::Finished => "finished".to_owned(),
                TaskPhase::Failed(message) => format!("failed: {message}"),
                TaskPhase::Settled => "settled".to_owned(),
            },
            splits_leased: self.tables.holdings.get(&id).map_or(0, Holding::split_count),
            elements: pace.elements,
            elements_per_s,
            element_ns: pace.element_ns,
            bottleneck: self.paces.bottleneck_of(id),
        })
    }

    fn splits_held(&self, iteration: IterationId) -> u64 {
        let tasks = self.tables.tasks_of(iteration);
        let of_tasks = tasks.iter().filter_map(|task| self.tables.holdings.get(task));
        let removals = self.tables.removals_of(iteration);
        let of_removals = removals.iter().filter_map(|task| self.tables.removals.get(task));
        of_tasks
            .chain(of_removals.map(|removal| &removal.holding))
            .map(Holding::split_count)
            .sum()
    }
}
