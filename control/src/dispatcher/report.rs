//! The construction of the status: the machine's state in words and numbers, cut to a readable size.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::record::{IterationRecord, Phase, TaskPhase};
use super::splits::{Holding, Ledger};
use super::state::ServiceState;
use super::status::{
    ClientStatus, Counts, DatasetStatus, FAILED, IterationStatus, JobStatus, ProgramStatus, RUNNING,
    Refusals, SourceStatus, Status, TaskStatus, WorkerStatus,
};
use crate::id::{ClientId, TaskId};

/// Maximum number of entries of each list in the status.
const LIST_MAX: usize = 1000;

/// Returns a snapshot of the whole dispatcher.
pub(super) fn status(state: &ServiceState) -> Status {
    let running = state
        .tables
        .iterations
        .values()
        .filter(|row| row.phase == Phase::Running);
    let others = state
        .tables
        .iterations
        .values()
        .filter(|row| row.phase != Phase::Running);
    let datasets = state.tables.catalog.datasets().take(LIST_MAX);
    let jobs = state.tables.catalog.jobs().take(LIST_MAX);
    Status {
        boot: state.boot(),
        workers: worker_statuses(state),
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
            .map(|row| iteration_status(state, row))
            .collect(),
        workers_wanted: state.scaling.wanted().map(|wanted| wanted.workers),
        workers_wanted_reason: state
            .scaling
            .wanted()
            .map(|wanted| wanted.reason.to_string())
            .unwrap_or_default(),
        workers_estimated: state.paces.workers_estimated(&state.tables),
        // The shell around the machine counts the refusals, and knows the program and the clock.
        refusals: Refusals::default(),
        program: ProgramStatus::default(),
        counts: Counts {
            workers: state.tables.workers.living_count() as u64,
            datasets: state.tables.catalog.dataset_count() as u64,
            jobs: state.tables.catalog.job_count() as u64,
            iterations: state.tables.iterations.len() as u64,
            clients: state.tables.clients.len() as u64,
            tasks: state.tables.tasks.len() as u64,
            draining: state.tables.workers.draining_count() as u64,
        },
    }
}

fn worker_statuses(state: &ServiceState) -> Vec<WorkerStatus> {
    let workers = state.tables.workers.values().take(LIST_MAX);
    workers
        .map(|row| {
            let died = state.tables.workers.died.get(&row.id);
            let silent = state.tables.workers.liveness.silence(row.id, state.now);
            let silent = silent.or_else(|| died.map(|died| state.now.saturating_sub(died)));
            let silent = silent.unwrap_or_default();
            WorkerStatus {
                id: row.id,
                address: row.address.clone(),
                tags: row.tags.clone(),
                version: row.version.clone(),
                dead: row.dead.map(|reason| reason.to_string()),
                silent_ms: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
                tasks: state.tables.tasks.count_on(row.id) as u64,
                draining: row.draining,
                links: state.paces.links_of(row.id).filter(|_| row.dead.is_none()),
                load: state.paces.load_of(row.id).filter(|_| row.dead.is_none()),
            }
        })
        .collect()
}

fn iteration_status(state: &ServiceState, row: &IterationRecord) -> IterationStatus {
    let tasks = state.tables.tasks.of(row.id);
    let ledger = state.tables.books.ledger(row.id);
    let tallies = || ledger.into_iter().flat_map(Ledger::tallies);
    let clients = || state.tables.clients.of(row.id).into_iter();
    let no_worker = state.tables.workers.living_count() == 0;
    IterationStatus {
        id: row.id,
        job: row.job,
        repetition: row.repetition,
        phase: row.phase,
        waiting_for_workers: row.phase == Phase::Running
            && (no_worker
                || state.tables.misses_shares(row.id)
                || clients().any(|client| state.tables.waits_for_worker(client))),
        clients: clients()
            .take(LIST_MAX)
            .filter_map(|client| client_status(state, client))
            .collect(),
        tasks: tasks
            .iter()
            .take(LIST_MAX)
            .filter_map(|task| task_status(state, *task))
            .collect(),
        removals: state.tables.removals.count_of(row.id) as u64,
        sources: tallies()
            .map(|tally| SourceStatus {
                repetition: tally.repetition,
                remaining: tally.remaining,
                done: tally.done,
                lost: tally.lost,
            })
            .collect(),
        splits_leased: state.tables.held_in(row.id).map(Holding::split_count).sum(),
        splits_done: row.splits_done + tallies().map(|tally| tally.done).sum::<u64>(),
        splits_lost: row.splits_lost,
        missing_consumers: missing_among(state, row),
        lost: row.lost.iter().take(LIST_MAX).copied().collect(),
        skipped: row.skipped.iter().take(LIST_MAX).copied().collect(),
        workers_wanted: state.paces.workers_estimated_for(row.id, &state.tables),
    }
}

/// Returns the missing consumers of a running coordinated read.
fn missing_among(state: &ServiceState, row: &IterationRecord) -> Vec<u32> {
    if row.phase != Phase::Running {
        return Vec::new();
    }
    let mut missing = state.missing_consumers(row.id);
    missing.truncate(LIST_MAX);
    missing
}

fn client_status(state: &ServiceState, id: ClientId) -> Option<ClientStatus> {
    let row = state.tables.clients.get(&id)?;
    let seen = state.tables.clients.seen.get(&id);
    let silent = seen.map_or_else(Default::default, |seen| state.now.saturating_sub(seen));
    let (pace, elements_per_s, waiting) = state.paces.of_client(id).unwrap_or_default();
    Some(ClientStatus {
        id,
        silent_ms: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
        consumer: row.consumer,
        elements: pace.elements,
        elements_per_s,
        element_ns: pace.element_ns,
        waiting,
        waited_ms: pace.waited_ms,
        links: state.paces.links_of_client(id),
    })
}

fn task_status(state: &ServiceState, id: TaskId) -> Option<TaskStatus> {
    let task = state.tables.tasks.get(&id)?;
    let (pace, rate, busy) = state.paces.of_task(id).unwrap_or_default();
    // A task that has ended reports no more, so its latest figures would stay for ever.
    let is_running = task.phase == TaskPhase::Running;
    let (elements_per_s, busy) = if is_running { (rate, busy) } else { (0.0, None) };
    Some(TaskStatus {
        id,
        worker: task.worker,
        worker_address: state.tables.workers.address_of(task.worker),
        phase: match &task.phase {
            TaskPhase::Running if task.start_round.is_none() => "waits for its first round".to_owned(),
            TaskPhase::Running => RUNNING.to_owned(),
            TaskPhase::Finished => "finished".to_owned(),
            TaskPhase::Failed(message) => format!("{FAILED}{message}"),
            TaskPhase::Settled => "settled".to_owned(),
        },
        splits_leased: state.tables.books.holding(id).map_or(0, Holding::split_count),
        elements: pace.elements,
        elements_per_s,
        element_ns: pace.element_ns,
        bottleneck: state.paces.bottleneck_of(id),
        busy,
    })
}
