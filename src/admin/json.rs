//! The status of a service as one JSON object. Field names contain the unit of their value.
//!
//! Rows borrow from the status, and the object is written in one go. A status of thousands of tasks is
//! neither copied nor built as a tree.

use millstream_control::{BootId, DatasetStatus, IterationStatus, JobStatus, Stages, Status, WorkerStatus};
use serde::Serialize;

use super::hidden::hidden;
use super::iterations::{IterationRow, iteration};
use super::rows::{LinksRow, Rows, Shown, json_text};

/// Returns the whole status as a JSON object in one line, without secrets. Each list has at most 1000
/// entries; `counts` are complete.
pub fn status_json(status: &Status) -> String {
    hidden(json_text(&ServiceDocument::new(status, None)))
}

/// The status of a service.
#[derive(Serialize)]
pub(super) struct ServiceDocument<'s> {
    boot: Shown<BootId>,
    counts: CountsRow,
    workers_wanted: Option<u64>,
    workers_wanted_reason: &'s str,
    workers_estimated: Option<u64>,
    refused: RefusedRow,
    workers: Rows<'s, WorkerStatus, WorkerRow<'s>>,
    datasets: Rows<'s, DatasetStatus, DatasetRow<'s>>,
    jobs: Rows<'s, JobStatus, JobRow<'s>>,
    iterations: Vec<IterationRow<'s>>,
}

impl<'s> ServiceDocument<'s> {
    /// Returns the document of a status. The iterations have their stages, if `stages` are known.
    pub(super) fn new(status: &'s Status, stages: Option<&'s Stages>) -> ServiceDocument<'s> {
        let (counts, refusals) = (status.counts, status.refusals);
        let iteration = |row: &'s IterationStatus| {
            let stages = stages.map(|stages| stages.get(&row.id).map_or(&[][..], Vec::as_slice));
            iteration(row, stages)
        };
        ServiceDocument {
            boot: Shown(status.boot),
            counts: CountsRow {
                workers: counts.workers,
                datasets: counts.datasets,
                jobs: counts.jobs,
                iterations: counts.iterations,
                tasks: counts.tasks,
                clients: counts.clients,
                draining: counts.draining,
            },
            workers_wanted: status.workers_wanted,
            workers_wanted_reason: &status.workers_wanted_reason,
            workers_estimated: status.workers_estimated,
            refused: RefusedRow {
                handshakes_busy: refusals.handshakes_busy,
                handshakes_failed: refusals.handshakes_failed,
                handshakes_timed_out: refusals.handshakes_timed_out,
                connections_over_quota: refusals.connections_over_quota,
                sessions: refusals.sessions,
                requests_denied: refusals.requests_denied,
                requests_over_quota: refusals.requests_over_quota,
                requests_delayed: refusals.requests_delayed,
            },
            workers: Rows(&status.workers, worker),
            datasets: Rows(&status.datasets, dataset),
            jobs: Rows(&status.jobs, job),
            iterations: status.iterations.iter().map(iteration).collect(),
        }
    }
}

#[derive(Serialize)]
struct CountsRow {
    workers: u64,
    datasets: u64,
    jobs: u64,
    iterations: u64,
    tasks: u64,
    clients: u64,
    draining: u64,
}

#[derive(Serialize)]
struct RefusedRow {
    handshakes_busy: u64,
    handshakes_failed: u64,
    handshakes_timed_out: u64,
    connections_over_quota: u64,
    sessions: u64,
    requests_denied: u64,
    requests_over_quota: u64,
    requests_delayed: u64,
}

#[derive(Serialize)]
struct WorkerRow<'s> {
    id: u64,
    address: &'s str,
    tags: &'s [String],
    version: &'s str,
    dead: Option<&'s str>,
    draining: bool,
    silent_ms: u64,
    tasks: u64,
    links: Option<LinksRow>,
    load: Option<LoadRow>,
}

#[derive(Serialize)]
struct LoadRow {
    memory_bytes: Option<u64>,
    shared_memory_bytes: u64,
    cache_bytes: u64,
    python_processes: u64,
}

fn worker(worker: &WorkerStatus) -> WorkerRow<'_> {
    WorkerRow {
        id: worker.id.0,
        address: &worker.address,
        tags: &worker.tags,
        version: &worker.version,
        dead: worker.dead.as_deref(),
        draining: worker.draining,
        silent_ms: worker.silent_ms,
        tasks: worker.tasks,
        links: worker.links.map(LinksRow::from),
        load: worker.load.map(|load| LoadRow {
            memory_bytes: load.memory_bytes,
            shared_memory_bytes: load.shared_memory_bytes,
            cache_bytes: load.cache_bytes,
            python_processes: load.python_processes,
        }),
    }
}

#[derive(Serialize)]
struct DatasetRow<'s> {
    id: &'s str,
    cardinality: &'s str,
    definition_bytes: u64,
}

fn dataset(dataset: &DatasetStatus) -> DatasetRow<'_> {
    DatasetRow {
        id: dataset.id.as_str(),
        cardinality: &dataset.cardinality,
        definition_bytes: dataset.definition_bytes,
    }
}

#[derive(Serialize)]
struct JobRow<'s> {
    id: u64,
    name: &'s str,
    dataset: &'s str,
    policy: &'static str,
    target_workers: &'static str,
    num_consumers: Option<u32>,
    cross_trainer_cache: bool,
    abandoned: &'static str,
    in_order: bool,
    exactly_once: Option<ExactlyOnceRow>,
}

#[derive(Serialize)]
struct ExactlyOnceRow {
    seed: u64,
    first: u64,
    step: u64,
    max_deaths: u32,
    max_skips: u32,
    /// The number of elements that the workers leave out.
    quarantined_elements: usize,
}

fn job(job: &JobStatus) -> JobRow<'_> {
    let parameters = &job.parameters;
    JobRow {
        id: job.id.0,
        name: &job.name,
        dataset: parameters.dataset.as_str(),
        policy: parameters.policy.name(),
        target_workers: parameters.target_workers.name(),
        num_consumers: parameters.num_consumers,
        cross_trainer_cache: parameters.cross_trainer_cache,
        abandoned: parameters.abandoned.name(),
        in_order: parameters.in_order,
        exactly_once: parameters.exactly_once.as_ref().map(|once| ExactlyOnceRow {
            seed: once.seed,
            first: once.first,
            step: once.step,
            max_deaths: once.poison.max_deaths,
            max_skips: once.poison.max_skips,
            quarantined_elements: once.quarantine.as_ref().map_or(0, Vec::len),
        }),
    }
}
